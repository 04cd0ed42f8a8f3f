/* core_change.c - a broker changes its parent while both live.
 *
 * Purpose: the part of the child in the return of a subtree to its place (core_restore.c, which has
 * the messages and the invariants).  The parent names the next one (overlay.go); this broker
 * connects to it beside the first (`second`), and leaves when it has all that belongs before.
 *
 *    state       begins with              ends with
 *    connecting  overlay.go               overlay.welcome of the next parent: welcomed; it refuses,
 *                                         or is lost: stays (overlay.leaving with the parent of
 *                                         now)
 *    welcomed    overlay.welcome          no request is held for the parent, and the events up to
 *                                         the welcome have arrived: leaving
 *    leaving     overlay.leaving          overlay.given: changed; or it stays
 *    changed     overlay.given, after a   -
 *                step up from both
 *
 * Invariants: 2, 3, 4 and 7 of core_restore.c.
 *
 * Failure: until overlay.given has named the next parent, this broker stays where it is.  If the
 * next parent is lost after that, this broker is an orphan (core_heal.c).
 */
#include "config.h"
#include <stdlib.h>

#include "core_private.h"

struct change {
    bool welcomed;  /* `second` has sent its welcome */
    bool leaving;   /* the parent was notified */
    bool released;  /* step up: the parent has let it go ... */
    bool taken;     /* ... and `second` has taken it */
    json_t *above;  /* cards of the welcome */
    uint64_t seq;   /* the latest event before the welcome */
    uint64_t ahead; /* the latest event that `second` has sent, which was not accepted */
    uint32_t told;  /* the rank that it could not reach, as was logged; TOPOLOGY_NONE: none */
};

static void second_end(core_t *c)
{
    struct change *r = c->change;

    if (c->second) {
        route_held_destroy(c, c->second);
        free(c->second);
    }
    c->second = NULL;
    r->welcomed = r->taken = false;
}

static const char second_lost[] = "the rank that was to be the parent is lost";

/* Notify the parent that this broker stays.  The parent answers if it was notified of the opposite
 * before. */
static void stay(core_t *c)
{
    restore_send(c, c->parent, &control_up[CONTROL_LEAVING], c->cfg.rank, c->parent->rank, 0);
}

/* Of several failures with the same rank, the first one is logged as an error. */
static int log_level(core_t *c, uint32_t rank)
{
    int level = c->change->told == rank ? LOG_DEBUG : LOG_ERR;

    c->change->told = rank;
    return level;
}

void change_go_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_card *card = in;
    errmsg_t err = {"there is another change of parents"};
    struct peer *to = NULL;

    /* One connection carries a broker: with requests on an earlier one, it has to stay. */
    if (c->state == CORE_RUN && !c->second && !c->expected && !restore_raises(c) &&
        restore_can(c) && !overlay_tree_peer(c, card->rank) && (to = calloc(1, sizeof(*to))) &&
        c->link->beside(c->link_arg, card, &err) == 0) {
        overlay_peer_init(to, card->rank, CORE_TREE);
        list_init(&to->node);
        c->second = to;
        heal_hello(c, to);
        return;
    }
    free(to);
    core_log(c, log_level(c, card->rank), "rank %u cannot connect to rank %u: %s", c->cfg.rank,
             card->rank, err.text);
    stay(c);
}

void change_welcomed(core_t *c, const struct control_welcome *n)
{
    struct change *r = c->change;

    json_decref(r->above);
    r->above = json_incref(n->above);
    r->seq = r->ahead = n->seq;
    r->welcomed = true;
    restore_drained(c);
}

void change_above(core_t *c, json_t *above)
{
    struct change *r = c->change;

    if (!r->welcomed)
        return;
    json_decref(r->above);
    r->above = json_incref(above);
}

void change_ahead(core_t *c, uint32_t from, uint64_t seq)
{
    struct change *r = c->change;

    if (c->second && c->second->rank == from && r->welcomed && seq > r->ahead)
        r->ahead = seq;
}

void change_drained(core_t *c)
{
    struct change *r = c->change;

    if (!c->second || !c->parent->up || !list_empty(&c->parent->held))
        return;
    if (r->welcomed && !r->leaving && core_event_seq(c) >= r->seq) {
        r->leaving = true;
        restore_send(c, c->parent, &control_up[CONTROL_LEAVING], c->cfg.rank, c->second->rank,
                     moves_number(c));
        c->parent->up = false;
    }
}

void change_refused(core_t *c, const char *why)
{
    core_log(c, log_level(c, c->second->rank), "rank %u was refused by rank %u: %s", c->cfg.rank,
             c->second->rank, why);
    c->link->drop(c->link_arg, CORE_TREE, c->second->rank);
    second_end(c);
    stay(c);
}

/* A parent takes requests again; it may not know which ranks are lost. */
static void go_on(core_t *c)
{
    idset_t *lost = idset_difference(c->heal_below, c->up);

    c->change->leaving = false;
    overlay_caught_up(c, lost);
    restore_plan(c); /* a child may have waited to be given to the parent */
    idset_destroy(lost);
}

static void change(core_t *c, const struct control_moved *m)
{
    struct change *r = c->change;
    struct peer *old = c->parent;
    char *below = idset_format(c->up, 0);
    char *keys = keys_text(c, c->up);
    const struct control_moved own = {
        .rank = c->cfg.rank, .parent = m->parent, .move = m->move, .below = below, .keys = keys};

    c->link->swap(c->link_arg, c->second->rank);
    c->parent = c->second;
    c->second = NULL;
    r->welcomed = r->released = r->taken = false;
    r->told = TOPOLOGY_NONE;
    old->former = true;
    list_append(&c->formers, &old->node);
    list_splice(&c->parent->held, &old->held);
    c->parent->held_count = old->held_count;
    c->parent->held_bytes = old->held_bytes;
    old->held_count = old->held_bytes = 0;
    c->parent->up = true;
    heal_welcomed(c, r->above, NULL);
    heal_tell_above(c);
    moves_apply(c, &own);
    if (below)
        overlay_send(c, c->parent, &control_up[CONTROL_ARRIVED], &own);
    else
        broken_note(c, c->parent);
    free(below);
    free(keys);
    moves_tell_again(c);
    event_moving(c);
    event_moved(c, r->ahead);
    offer_again(c);
    go_on(c);
    former_answered(c);
}

/* Returns whether this broker has the card of a rank above its parent. */
static bool is_above(const core_t *c, uint32_t rank)
{
    struct control_card card;
    json_t *o;
    size_t i;

    json_array_foreach(c->above, i, o)
    {
        if (flux_schema_decode_json(&control_card_schema, o, &card, NULL) == 0 && card.rank == rank)
            return true;
    }
    return false;
}

/* The parent, or the next one, says that this broker is below it. */
void change_given(core_t *c, const struct peer *p, const struct control_moved *m)
{
    struct change *r = c->change;

    if (m->parent == c->parent->rank) {
        if (c->second) {
            c->link->drop(c->link_arg, CORE_TREE, c->second->rank);
            second_end(c);
        }
        if (r->leaving) {
            c->parent->up = true;
            if (!idset_empty(c->untold))
                moves_tell_again(c);
            offer_tell(c);
            go_on(c);
        }
    } else if (c->second && m->parent == c->second->rank && r->leaving) {
        r->taken |= p == c->second;
        r->released |= p == c->parent;
        if ((r->taken && r->released) || !is_above(c, m->parent))
            change(c, m);
    } else if (r->leaving) {
        /* The new parent is lost: this broker is an orphan, and its next ancestor is the old
         * parent, or after a step up, the new one once more. */
        if (!is_above(c, m->parent))
            heal_welcomed(c, r->above, NULL);
        core_peer_lost(c, CORE_TREE, c->parent->rank, second_lost);
    }
}

bool change_lost(core_t *c, const struct peer *p, const char *why)
{
    if (p != c->second)
        return false;
    core_log(c, log_level(c, p->rank), "rank %u has lost rank %u, which was to be its parent: %s",
             c->cfg.rank, p->rank, why);
    second_end(c);
    if (c->change->released)
        core_peer_lost(c, CORE_TREE, c->parent->rank, second_lost);
    else
        stay(c);
    return true;
}

/* --- start and end --- */

void change_stop(core_t *c)
{
    if (c->second) {
        c->link->drop(c->link_arg, CORE_TREE, c->second->rank);
        second_end(c);
    }
    c->change->leaving = c->change->released = false;
}

int change_init(core_t *c)
{
    if (!(c->change = calloc(1, sizeof(*c->change))))
        return -1;
    c->change->told = TOPOLOGY_NONE;
    return 0;
}

void change_destroy(core_t *c)
{
    if (!c->change)
        return;
    second_end(c);
    json_decref(c->change->above);
    free(c->change);
    c->change = NULL;
}
