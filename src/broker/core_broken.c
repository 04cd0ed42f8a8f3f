/* core_broken.c - control messages that are lost for lack of memory.
 *
 * Purpose: brokers tell each other once what has changed.  Without memory beyond the reserve
 * (reserve.c) a broker cannot create such a message, or cannot read one that has arrived.  The
 * other one would wait for ever, or would not know what this broker knows.  So the broker ends the
 * connection, which tells both: the child connects again, and they say anew what is up below it,
 * and which events it has missed.
 *
 * Which connection ends, and what follows:
 *
 *    message                    what follows
 *    to or from a child         the child is pending here, since it lives, and connects to a broker
 *                               above (core_heal.c)
 *    to or from the parent      this broker tells the parent that it connects again (overlay.deaf),
 *                               and does so
 *    to or from a broker that   the move fails, and is tried again later (core_restore.c)
 *    is to be the next parent
 *    a hello, or the welcome    nothing ends: the message is kept, and read again after RETRY
 *    of a broker that joins     seconds
 *
 * An event of the session that cannot be read is kept as well, with those that follow it, and so
 * are the moves in a welcome.
 *
 * Invariants:
 *  1. Nothing that comes from a neighbor after the message is handled, and no control message is
 *     sent to it, until the connection has ended.
 *  2. The connection ends when the caller has returned, because callers loop over neighbors.
 *
 * Limits: where subtrees do not move, or the session does not run here yet, the message is lost,
 * and logged.  So is an event of the session if CORE_UNREAD_MAX of them are kept already.
 *
 * Failure: a parent that cannot be told that this broker connects again counts it as lost.
 */
#include "config.h"
#include <jansson.h>
#include <string.h>

#include "control_wire.h"
#include "core_private.h"

#define RETRY 0.5

static const char why[] = "a control message was lost for lack of memory";

void broken_note(core_t *c, struct peer *p)
{
    if (p->broken || !heal_now(c) || !c->link->drop)
        return;
    p->broken = true;
    flux_timer_start(c->broken_timer, 0., 0.);
}

void broken_hello(core_t *c, struct peer *p, const flux_msg_t *hello)
{
    flux_msg_destroy(p->hello);
    p->hello = flux_msg_incref(hello);
    p->unread = true;
    if (!flux_watcher_active(c->broken_timer))
        flux_timer_start(c->broken_timer, RETRY, 0.);
}

void broken_event(core_t *c, const flux_msg_t *event)
{
    if (c->nunread == CORE_UNREAD_MAX) {
        core_log(c, LOG_CRIT, "rank %u is out of memory: it ignores the event %s", c->cfg.rank,
                 flux_msg_topic(event));
        return;
    }
    c->unread[c->nunread++] = flux_msg_incref(event);
    if (!flux_watcher_active(c->broken_timer))
        flux_timer_start(c->broken_timer, RETRY, 0.);
}

void broken_moves(core_t *c, json_t *list)
{
    json_decref(c->moves_again);
    c->moves_again = json_incref(list);
    if (!flux_watcher_active(c->broken_timer))
        flux_timer_start(c->broken_timer, RETRY, 0.);
}

static void read_again(core_t *c, struct peer *p)
{
    p->unread = false;
    join_hello_again(c, p);
}

/* Read the events that are kept, in their order. */
static void events_again(core_t *c)
{
    while (c->nunread > 0 && overlay_read_event(c, c->unread[0]) == 0) {
        flux_msg_destroy(c->unread[0]);
        c->nunread--;
        memmove(c->unread, c->unread + 1, c->nunread * sizeof(c->unread[0]));
    }
    if (c->nunread > 0 && !flux_watcher_active(c->broken_timer))
        flux_timer_start(c->broken_timer, RETRY, 0.);
}

static void end(core_t *c, struct peer *p)
{
    const struct control_deaf d = {.deaf = true, .returns = true};
    uint32_t rank = p->rank;

    p->broken = false;
    if (p->lost || p->gone || c->state >= CORE_DOWN)
        return;
    core_log(c, LOG_ERR, "rank %u ends its connection with rank %u: %s", c->cfg.rank, rank, why);
    if (p->is_child)
        p->fresh |= (p->up || p->arriving) && !p->former;
    else if (p == c->parent && !c->healing)
        overlay_send(c, p, &control_up[CONTROL_DEAF], &d);
    c->link->drop(c->link_arg, CORE_TREE, rank);
    core_peer_lost(c, CORE_TREE, rank, why);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    json_t *moves = c->moves_again;

    (void)r, (void)w, (void)revents;
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if (p->broken)
            end(c, p);
        else if (p->unread)
            read_again(c, p);
    }
    if (c->parent && c->parent->unread)
        read_again(c, c->parent);
    if (c->second && c->second->broken)
        end(c, c->second);
    if (c->parent && c->parent->broken)
        end(c, c->parent);
    LIST_FOREACH_SAFE(it, tmp, &c->formers)
    {
        struct peer *p = list_entry(it, struct peer, node);

        if (p->broken)
            end(c, p);
    }
    if (moves) {
        c->moves_again = NULL;
        moves_take(c, moves);
        json_decref(moves);
    }
    events_again(c);
}

int broken_init(core_t *c)
{
    return (c->broken_timer = flux_timer_create(c->r, timer_cb, c)) ? 0 : -1;
}

void broken_destroy(core_t *c)
{
    flux_watcher_destroy(c->broken_timer);
    json_decref(c->moves_again);
    while (c->nunread > 0)
        flux_msg_destroy(c->unread[--c->nunread]);
}
