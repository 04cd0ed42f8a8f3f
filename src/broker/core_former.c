/* core_former.c - earlier parents of this broker, which have answers to send.
 *
 * Purpose: a broker that has changed its parent (core_restore.c) keeps the connection to the
 * earlier one until what was asked on it, in either direction, is answered.  Then it says
 * overlay.done, the other one answers with overlay.over, and the connection ends.
 *
 * A broker above to which this one connects only to say that it lives (core_third.c) counts as one.
 *
 * Invariants:
 *  1. A former parent is in `formers`, and gets and sends nothing but answers, overlay.lives,
 *     overlay.done and overlay.over.
 *  2. One connection carries a broker: that to a former parent ends before this broker, as an
 *     orphan, connects there again.
 *
 * Failure: requests under way on a connection that is lost, or has to end, end with EHOSTUNREACH,
 * or are sent again by the new way if they may be.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>

#include "core_private.h"

struct peer *former_find(const core_t *c, uint32_t rank)
{
    LIST_FOREACH(it, &c->formers)
    {
        struct peer *p = list_entry(it, struct peer, node);

        if (p->rank == rank)
            return p;
    }
    return NULL;
}

struct peer *former_visit(core_t *c, const struct control_card *card, errmsg_t *err)
{
    struct peer *p = calloc(1, sizeof(*p));

    if (!p) {
        errmsg_set(err, "out of memory");
    } else if (c->link->beside(c->link_arg, card, err) < 0) {
        free(p);
        p = NULL;
    } else {
        overlay_peer_init(p, card->rank, CORE_TREE);
        p->former = p->done = true;
        list_append(&c->formers, &p->node);
    }
    return p;
}

void former_lost(core_t *c, struct peer *p, const char *why)
{
    struct list_node again;
    char text[200];

    list_remove(&p->node);
    list_init(&again);
    if (heal_now(c))
        inflight_set_aside(&p->to, &again);
    snprintf(text, sizeof(text), "rank %u was lost while the request was in flight: %.100s",
             p->rank, why);
    overlay_peer_over(c, p, text);
    inflight_again(c, &again);
    free(p);
}

static void end(core_t *c, struct peer *p)
{
    c->link->drop(c->link_arg, CORE_TREE, p->rank);
    former_lost(c, p, "the parent has changed");
}

void former_end_below(core_t *c, uint32_t rank)
{
    LIST_FOREACH_SAFE(it, tmp, &c->formers)
    {
        struct peer *p = list_entry(it, struct peer, node);

        if (p->rank == rank || spread_is_deeper(c, p->rank, rank))
            end(c, p);
    }
}

void former_done_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    if (!p->is_child && p->former)
        end(c, p);
    else if (p->former)
        overlay_send(c, p, &control_down[CONTROL_OVER], NULL);
}

void former_answered(core_t *c)
{
    LIST_FOREACH(it, &c->formers)
    {
        const struct peer *p = list_entry(it, struct peer, node);

        if (!p->done && list_empty(&p->to) && list_empty(&p->from) &&
            !flux_watcher_active(c->former_timer))
            flux_timer_start(c->former_timer, 0., 0.);
    }
}

static void idle_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    LIST_FOREACH(it, &c->formers)
    {
        struct peer *p = list_entry(it, struct peer, node);

        if (!p->done && list_empty(&p->to) && list_empty(&p->from) && !route_holds_from(c, p)) {
            p->done = true;
            overlay_send(c, p, &control_up[CONTROL_DONE], NULL);
        }
    }
}

int former_init(core_t *c)
{
    return (c->former_timer = flux_timer_create(c->r, idle_cb, c)) ? 0 : -1;
}

void former_destroy(core_t *c)
{
    struct list_node *n;

    while ((n = list_first(&c->formers))) {
        struct peer *p = list_entry(n, struct peer, node);

        list_remove(n);
        free(p);
    }
    flux_watcher_destroy(c->former_timer);
}
