/* core_heal.c - a subtree that has lost the broker above it, and survives.
 *
 * Purpose: a broker whose parent dies keeps its clients, its modules and its subtree, and connects
 * to the nearest ancestor that lives.  The welcome of its parent has brought the cards of its
 * ancestors (control_wire.c), with the data that a connection needs.
 *
 * Terms: an orphan is a broker that has lost its parent and looks for another one.  The shape is
 * the tree that the topology of the session prescribes.  A rank that has moved has another parent
 * than in the shape.
 *
 * Drawing (heal): rank 1 dies; rank 3, which was its child, goes on as a child of rank 0.
 *
 *     rank 3                      rank 1                       rank 0
 *        |                           |                            |
 *        |                         killed                         | pending: rank 3 and below
 *        | holds requests upwards    |                            | to all: overlay.down (rank 1)
 *        |                                                        |
 *        | connects, by the ticket on the card of rank 0, or by   |
 *        | its own public key, which rank 1 has reported          |
 *        |------------------------------------------------------->|
 *        | overlay.hello, with its incarnation, what is below it, |
 *        | and how that has moved                                 |
 *        |------------------------------------------------------->| rank 3 is a child
 *        |                                        overlay.welcome | to all: overlay.moved (rank 3)
 *        |<-------------------------------------------------------|
 *        | what was held for the parent                           |
 *        |------------------------------------------------------->|
 *        | event.replay, if it has missed events                  |
 *        |------------------------------------------------------->|
 *
 * Cards: a broker passes its own card and those of its ancestors on with its welcome.  When it gets
 * another parent (core_restore.c), it passes the new ones on to the brokers below (overlay.above):
 * an earlier card of a rank that has come back is of no use.  An orphan finds its new parent among
 * the ancestors that it knows, so those below it know them, too.
 *
 * Pending ranks: the broker above keeps the ranks below the dead one as pending for heal_timeout
 * seconds, and holds requests to them.  A rank is lost if by then it has connected neither to this
 * broker nor to a broker below it that reports it.
 *
 * Which rank is below which one is in core_moves.c.
 *
 * Invariants:
 *  1. An orphan connects only to ancestors of its parent, the nearest first.  So the next hop to a
 *     rank is unchanged at all brokers except its new parent and the brokers below.  The tree stays
 *     a tree, since each broker is deeper in the shape than its parent (core_spread.c).  A child of
 *     the root connects to that again: if only the connection was lost, it learns that it is lost.
 *  2. Between the loss of the parent and the next welcome, a broker sends only overlay.hello
 *     upwards; requests and reports are held.
 *  3. A subtree is adopted only if neither this broker nor an event (core_census.c) counts the root
 *     of the subtree as lost, the hello has the present incarnation of that rank, and it names only
 *     ranks of the subtree, or that were below this broker before.
 *     If only this broker counts the rank as lost, and no event has announced that, the orphan
 *     tries the next ancestor: one above may have ignored the report of the loss (invariant 8).
 *  4. A rank is pending only at the broker that has lost the connection on the way to it.  So is
 *     the child whose connection it was, if only that is lost (core_third.c).  That broker still
 *     counts the rank as up, even when a lost rank above it was put back into its place in the
 *     shape elsewhere, and reports the rank as lost if it does not connect in time.  If an event
 *     announces the loss before, another broker has waited for the rank, too, and reported it: then
 *     this one must not, because no event would follow for those who wait for one.
 *  5. A rank that was below an orphan, and that the orphan does not name when it has moved, is
 *     lost.  The exceptions are ranks below a lost rank that was put back into its place in the
 *     shape: they are pending at another broker.  The broker that adopts the orphan knows which of
 *     them are pending, unless the earlier parent lives (invariant 6), and reports the others as
 *     lost; the brokers above leave out all of them.  Guests (core_spread.c) are another exception:
 *     they may have left the subtree unnoticed.  The hello tells the earlier moves of the ranks
 *     below the orphan, which the brokers above hear of before the move of the orphan.  They may
 *     not have heard of moves after the hello, look for such a rank elsewhere, and ignore the
 *     report (invariant 8); so the orphan reports the loss again after its welcome, and the brokers
 *     above pass that on until an event has announced it.
 *  6. An orphan is welcomed after the last message that its earlier parent, or an ancestor of that
 *     parent, has sent on the way through another child of this broker: reports of an earlier state
 *     must not follow reports of a later one.  If that child does not end within PASSAGE seconds,
 *     only its connection to the orphan was lost, and such messages do not exist any longer.
 *  7. An orphan that has waited for a welcome for TRY seconds tries the next ancestor, even if the
 *     welcome is on its way.  So it answers the welcome (live_arrived()).  If its connection ends
 *     before the answer, it is pending itself, and not lost at once.
 *  8. A rank that two brokers report, one as lost and the other as its child, is what the first of
 *     the two reports says where they meet: a report of the loss of a rank that has moved to
 *     another child is ignored, and so is the move of a rank that is lost, and that it is up there
 *     (core_stale.c); that move only tells where the ranks below it are.  The lost rank learns of
 *     its loss by the event, or when it is refused as an orphan, and leaves alone: the ranks below
 *     it are pending, and connect to a broker above, as after its death.
 *
 * Failure: without memory, or without a living ancestor that accepts it, a broker shuts down its
 * subtree, like a broker that has lost its parent for good.  A child of the root that cannot
 * connect to it within heal_timeout serves its subtree until orphan_timeout (core_overlay.c).
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "control_wire.h"
#include "core_private.h"
#include "libutil/invariant.h"

#define ABOVE_MAX 16 /* cards of the nearest ancestors and of the root */
#define TRY 2.       /* seconds for an ancestor to welcome this broker */
#define PAUSE 0.1    /* seconds between two rounds through all ancestors */
#define PASSAGE 1.   /* seconds for the earlier way to an orphan to end; shorter than TRY */

bool heal_can(const core_t *c)
{
    return c->cfg.heal_timeout > 0. && c->link->move && c->link->card;
}

bool core_leaves_alone(const core_t *c)
{
    return heal_now(c) && !c->healing;
}

/* Returns whether this broker may look for another parent: it and the ranks below it have been
 * reported to the root, and the session runs, or will: the event overlay.run may be on its way.  A
 * broker that joins late has been reported when it runs. */
bool heal_now(const core_t *c)
{
    return heal_can(c) && (c->state == CORE_RUN || (c->state == CORE_READY && !c->joined_late));
}

bool heal_may_report(const core_t *c, uint32_t rank, const idset_t *ranks, bool moving)
{
    idset_t *own = topology_subtree(c->topo, rank);
    idset_t *other = own ? idset_difference(ranks, own) : NULL;
    idset_t *below = NULL;
    bool ok = other && idset_empty(other);

    if (other && !ok && (below = topology_subtree(overlay_tree(c), rank)))
        ok = idset_subtract(other, below) == 0 &&
             (idset_empty(other) || (moving && idset_subset(other, c->up)));
    idset_destroy(own);
    idset_destroy(other);
    idset_destroy(below);
    return ok;
}

/* --- cards --- */

void heal_welcomed(core_t *c, json_t *above, json_t *moved)
{
    struct control_card own = {.rank = c->cfg.rank};
    json_t *cards;
    size_t n;

    if (!heal_can(c))
        return;
    moves_note_list(c, moved);
    json_decref(c->above);
    c->above = json_incref(above);
    json_decref(c->cards);
    c->cards = NULL;
    if (c->link->card(c->link_arg, &own) < 0 || !(cards = json_array()))
        return;
    if (json_array_append_new(cards, flux_schema_encode_json(&control_card_schema, &own)) < 0 ||
        (above && json_array_extend(cards, above) < 0)) {
        core_log(c, LOG_ERR, "rank %u is out of memory for the cards of its ancestors",
                 c->cfg.rank);
        json_decref(cards);
        return;
    }
    while ((n = json_array_size(cards)) > ABOVE_MAX)
        json_array_remove(cards, n - 2);
    c->cards = cards;
}

void heal_tell_above(core_t *c)
{
    const struct control_above out = {c->cards};

    for (uint32_t i = 0; c->cards && i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if ((p->up || p->arriving) && !p->lost && !p->gone && !p->former)
            overlay_send(c, p, &control_down[CONTROL_ABOVE], &out);
    }
}

void heal_above_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_above *n = in;

    if (p == c->second) {
        change_above(c, n->above);
    } else if (p == c->parent && !c->healing) {
        heal_welcomed(c, n->above, NULL);
        heal_tell_above(c);
    }
}

/* --- the orphan --- */

/* Is the root, its lost parent, the only broker above? */
static bool only_root(const core_t *c)
{
    return json_array_size(c->above) == 1;
}

/* Return how long it looks for a parent: for the root, no longer than that waits for those below
 * it. */
static double patience(const core_t *c)
{
    bool longer = c->cfg.orphan_timeout > c->cfg.heal_timeout;

    if (only_root(c) && c->cfg.orphan_timeout >= 0.)
        longer = !longer;
    return longer ? c->cfg.orphan_timeout : c->cfg.heal_timeout;
}

bool heal_begin(core_t *c)
{
    c->healing = heal_now(c) && !c->down_asked && c->above && json_array_size(c->above) > 0;
    if (!c->healing)
        return false;
    c->parent->up = false;
    restore_stop(c);
    c->heal_at = !only_root(c); /* the first card is that of the parent */
    event_moving(c);
    flux_timer_start(c->heal_timer, 0., 0.);
    flux_timer_start(c->orphan_timer, patience(c), 0.);
    return true;
}

bool heal_without_root(core_t *c)
{
    if (!c->healing || !only_root(c))
        return false;
    flux_watcher_stop(c->heal_timer);
    c->healing = false;
    return true;
}

/* Return the ranks that are up here, without those that have moved elsewhere: an orphan may have
 * named them here after that, because it had not heard of it.  Orphans that this broker waits for
 * stay, and ranks that come back, whose place is known only by the event. */
static idset_t *ranks_below(const core_t *c)
{
    idset_t *below = idset_copy(c->up);
    idset_t *sub = c->tree && below ? topology_subtree(c->tree, c->cfg.rank) : NULL;
    idset_t *others = sub ? idset_difference(below, sub) : NULL;

    for (uint32_t r = others ? idset_first(others) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(others, r)) {
        if (!(c->pending && idset_test(c->pending, r)) && !census_is_gone(c, r))
            (void)idset_clear(below, r);
    }
    idset_destroy(sub);
    idset_destroy(others);
    return below;
}

void heal_hello(core_t *c, struct peer *p)
{
    struct control_hello h;
    char *below, *keys, *joined, *cards;

    idset_destroy(c->heal_below);
    c->heal_below = ranks_below(c);
    if (!c->heal_below || !(below = idset_format(c->heal_below, 0))) {
        core_log(c, LOG_ERR, "rank %u is out of memory for its hello", c->cfg.rank);
        broken_note(c, p);
        return;
    }
    join_fill_hello(c, &h);
    h.below = below;
    h.keys = keys = keys_text(c, c->heal_below);
    h.joined = joined = stale_joined_text(c, c->heal_below);
    h.cards = cards = cards_text(c, c->heal_below);
    h.incarnation = census_incarnation(c, c->cfg.rank);
    h.guest = p == c->second;
    h.session = c->session;
    h.move = moves_next(c);
    h.moved = p == c->second ? NULL : moves_list_below(c);
    overlay_send(c, p, &control_up[CONTROL_HELLO], &h);
    json_decref(h.moved);
    stale_named(c, c->heal_below, true);
    free(below);
    free(keys);
    free(joined);
    free(cards);
}

/* Connect to the next ancestor; after the last one, begin again with the first. */
static void heal_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    struct control_card card;
    errmsg_t err;

    if (c->heal_at >= json_array_size(c->above))
        c->heal_at = !only_root(c);
    while (c->heal_at < json_array_size(c->above)) {
        json_t *o = json_array_get(c->above, c->heal_at++);

        if (flux_schema_decode_json(&control_card_schema, o, &card, &err) == 0)
            former_end_below(c, card.rank);
        else
            card.tree = NULL;
        if (card.tree && c->link->move(c->link_arg, &card, &err) == 0) {
            c->parent->rank = card.rank;
            c->parent->broken = false;
            heal_hello(c, c->parent); /* if no broker listens there, heal_next() follows */
            flux_timer_start(c->heal_timer, TRY, 0.);
            return;
        }
        core_log(c, LOG_ERR, "rank %u cannot connect to a broker above it: %s", c->cfg.rank,
                 err.text);
    }
    flux_timer_start(c->heal_timer, PAUSE, 0.);
}

void heal_next(core_t *c, const char *why)
{
    core_log(c, LOG_INFO, "rank %u cannot join below rank %u: %s", c->cfg.rank, c->parent->rank,
             why);
    flux_timer_start(c->heal_timer, c->heal_at < json_array_size(c->above) ? 0. : PAUSE, 0.);
}

void heal_note_lost(core_t *c, const idset_t *ranks)
{
    if (idset_add(c->unheard, ranks) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note lost ranks", c->cfg.rank);
}

void heal_heard(core_t *c, const idset_t *ranks)
{
    if (ranks)
        idset_subtract(c->unheard, ranks);
    else
        idset_subtract(c->unheard, c->unheard);
}

void heal_over(core_t *c, const struct control_welcome *n)
{
    idset_t *lost = idset_difference(c->heal_below, c->up);
    uint32_t me = c->cfg.rank;

    if (lost && idset_add(lost, c->unheard) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to report lost ranks again", me);
    c->healing = false;
    c->parent->up = true;
    flux_watcher_stop(c->heal_timer);
    flux_watcher_stop(c->orphan_timer);
    core_log(c, LOG_NOTICE, "rank %u is below rank %u now", me, c->parent->rank);
    heal_welcomed(c, n->above, NULL);
    moves_note(c, me, c->parent->rank, moves_number(c));
    live_arrived(c);
    moves_tell_again(c); /* the reports may have gone to the dead parent, like reports of losses */
    event_moved(c, n->seq);
    offer_again(c);
    overlay_caught_up(c, lost);
    restore_plan(c);
    idset_destroy(lost);
}

void heal_stop(core_t *c)
{
    restore_end(c);
    flux_watcher_stop(c->heal_timer);
    flux_watcher_stop(c->pending_timer);
    flux_watcher_stop(c->passage_timer);
    if (c->healing) {
        c->healing = false;
        c->parent->lost = true;
        if (!c->alone) /* otherwise the children get the events from their next parents */
            event_cut(c, 0);
        route_held(c, c->parent);
    }
    if (c->pending) {
        idset_destroy(c->pending);
        c->pending = NULL;
        route_held(c, &c->unsettled);
    }
}

/* --- the broker that adopts an orphan --- */

bool core_hosts(const core_t *c)
{
    return c->cfg.heal_timeout > 0. && c->cfg.fanout_max > 0;
}

bool core_peer_adopt(core_t *c, uint32_t rank)
{
    const struct peer *p = hmap_get_u64(c->child_by_rank, rank);

    /* Its hello tells whether it is an orphan or joins late; it is refused if that is too early. */
    if (!heal_can(c) || c->state >= CORE_DOWN || rank >= c->cfg.size ||
        !spread_is_deeper(c, rank, c->cfg.rank))
        return false;
    /* A guest was below this broker, or will be. */
    if (spread_is_guest(c, rank) && !restore_expects(c, rank) &&
        !topology_is_ancestor(overlay_tree(c), c->cfg.rank, rank) &&
        !(c->pending && idset_test(c->pending, rank)))
        return false;
    return p ? !p->up || p->lost || p->gone : overlay_child_add(c, rank) != NULL;
}

void heal_here(core_t *c, const idset_t *ranks)
{
    if (idset_subtract(c->elsewhere, ranks) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note that ranks are below it",
                 c->cfg.rank);
    /* An orphan may have adopted them after its hello. */
    heal_not_pending(c, ranks);
}

void heal_late(core_t *c)
{
    idset_t *sub = topology_subtree(c->topo, c->cfg.rank);

    if (!sub || idset_clear(sub, c->cfg.rank) < 0 || idset_add(c->elsewhere, sub) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note that ranks are elsewhere",
                 c->cfg.rank);
    /* A connection that ended before this broker was welcome says nothing about a rank that may be
     * below another one. */
    idset_subtract(c->lost, c->lost);
    heal_heard(c, NULL);
    idset_destroy(sub);
}

idset_t *heal_subtree(const core_t *c, uint32_t rank)
{
    idset_t *sub = topology_subtree(overlay_tree(c), rank);

    if (sub && (idset_subtract(sub, c->elsewhere) < 0 || idset_set(sub, rank) < 0)) {
        idset_destroy(sub);
        return NULL;
    }
    return sub;
}

bool heal_child_lost(core_t *c, struct peer *p, enum rank_state how, const char *why)
{
    idset_t *dead = heal_now(c) ? heal_subtree(c, p->rank) : NULL;
    idset_t *wait = dead ? idset_intersect(dead, c->up) : NULL;
    bool lives = how == RANK_LOST && (p->fresh || third_lives(c, p));
    bool known =
        wait && (lives || idset_clear(wait, p->rank) == 0) && idset_subtract(dead, wait) == 0;
    bool heals = known && !idset_empty(wait);
    /* One that connects, and is lost again before its hello, does not make those below it wait
     * longer. */
    bool more = heals && (!c->pending || !idset_subset(wait, c->pending));

    if (heals && !c->pending) {
        c->pending = wait;
        wait = NULL;
    } else if (heals && idset_add(c->pending, wait) < 0)
        heals = known = false;
    if (!known && heal_now(c))
        core_log(c, LOG_ERR,
                 "rank %u is out of memory to wait for the ranks below rank %u, which are lost",
                 c->cfg.rank, p->rank);
    INVARIANT(4, !c->pending || idset_subset(c->pending, c->up));
    if (more)
        flux_timer_start(c->pending_timer, c->cfg.heal_timeout, 0.);
    if (heals) {
        return_await(c, p, dead);
        overlay_ranks_lost(c, dead, how, c->cfg.rank, why);
    }
    idset_destroy(dead);
    idset_destroy(wait);
    return heals;
}

void heal_settled(core_t *c, const idset_t *ranks)
{
    if (!c->pending)
        return;
    if (idset_subtract(c->pending, ranks) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory for the ranks that have moved", c->cfg.rank);
    if (idset_empty(c->pending)) {
        idset_destroy(c->pending);
        c->pending = NULL;
        flux_watcher_stop(c->pending_timer);
    }
}

/* Remove from `sub` the ranks below lost ranks in the subtree of a rank: only those that are
 * pending here, or all (invariant 5).  Returns -1 with ENOMEM. */
static int remove_orphans(const core_t *c, uint32_t rank, idset_t *sub, bool pending)
{
    idset_t *dead = topology_subtree(overlay_tree(c), rank);
    int rc = dead ? idset_subtract(dead, c->up) : -1;

    for (uint32_t r = dead ? idset_first(dead) : IDSET_NONE; rc == 0 && r != IDSET_NONE;
         r = idset_next(dead, r)) {
        idset_t *below = topology_subtree(overlay_tree(c), r);

        rc = below ? 0 : -1;
        if (rc == 0 && pending)
            rc = c->pending ? idset_keep(below, c->pending) : idset_subtract(below, below);
        if (rc == 0)
            rc = idset_subtract(sub, below);
        idset_destroy(below);
    }
    idset_destroy(dead);
    return rc;
}

/* Remove the ranks that are lost here from those that are up below a rank that has moved, by a
 * report of this child, which has not heard of that; also from the report that goes upwards.
 * `text`, `keys`: what the report refers to, to be freed. */
static void drop_lost(core_t *c, struct peer *p, struct control_moved *m, idset_t *below,
                      char **text, char **keys)
{
    size_t n = idset_count(below);
    idset_t *joined = m->joined ? idset_parse(m->joined, NULL) : NULL;

    stale_drop(c, p, below, joined);
    idset_destroy(joined);
    if (idset_count(below) == n)
        return;
    m->below = *text = idset_format(below, 0);
    m->keys = *keys = keys_text(c, below);
    if (!m->below)
        core_log(c, LOG_ERR, "rank %u is out of memory to report what is below rank %u",
                 c->cfg.rank, m->rank);
}

/* Ranks below a child are up, and not known to be up here: its reports to the earlier parent may
 * not have arrived. */
static void up_again(core_t *c, const idset_t *fresh, const char *joined)
{
    idset_t *others = joined ? idset_parse(joined, NULL) : NULL;
    idset_t *again = others ? idset_difference(fresh, others) : idset_copy(fresh);

    if (!again)
        core_log(c, LOG_ERR, "rank %u is out of memory to note ready ranks", c->cfg.rank);
    else if (!idset_empty(fresh))
        join_ready(c, fresh, again);
    idset_destroy(again);
    idset_destroy(others);
}

/* Handle a rank that has moved with the ranks `below` it.  Other ranks of its subtree have been
 * lost on the way, except orphans of a lost rank that was put back into its place in the shape
 * (invariant 5).  `knows`: this broker knows which of them are pending. */
static void arrived(core_t *c, const struct control_moved *m, const idset_t *below, bool knows)
{
    uint32_t rank = m->rank;
    idset_t *sub = topology_subtree(overlay_tree(c), rank);
    idset_t *own = topology_subtree(c->topo, rank);
    idset_t *fresh = idset_difference(below, c->up);

    heal_settled(c, below);
    if (fresh)
        up_again(c, fresh, m->joined);
    if (sub && own && idset_keep(sub, c->up) == 0 && idset_keep(sub, own) == 0 &&
        idset_subtract(sub, below) == 0 && remove_orphans(c, rank, sub, knows) == 0 &&
        !idset_empty(sub))
        overlay_ranks_lost(c, sub, RANK_LOST, c->cfg.rank,
                           "it was lost while the broker above it had no parent");
    route_held(c, &c->unsettled);
    idset_destroy(sub);
    idset_destroy(own);
    idset_destroy(fresh);
}

/* Returns whether this move is that of a lost rank (invariant 8).  If an event has announced the
 * loss already, the number of the move tells, which is lower than that of its return to its place;
 * so a move that is only repeated (without `below`) counts as such until then. */
static bool is_denied(const core_t *c, const struct control_moved *m)
{
    return idset_test(c->lost, m->rank) &&
           moves_incarnation(m->move) <= census_incarnation(c, m->rank) &&
           (m->below || !census_is_gone(c, m->rank));
}

void heal_moved_below(core_t *c, struct peer *p, const struct control_moved *m)
{
    struct control_moved out = *m;
    idset_t *ends = idset_create_range(m->rank, m->rank);
    idset_t *below = m->below ? idset_parse(m->below, NULL) : NULL;
    char *text = NULL, *keys = NULL;

    /* Without `below` this is an earlier move, of which a new parent is told. */
    bool valid = ends && idset_set(ends, m->parent) == 0 &&
                 heal_may_report(c, p->rank, ends, true) &&
                 spread_is_deeper(c, m->rank, m->parent) &&
                 (!m->below || (below && heal_may_report(c, p->rank, below, true)));

    if (is_denied(c, m) && (valid || !m->below)) {
        stale_deny(c, p, m->rank);
        if (valid) /* the ranks below it are there */
            moves_note(c, m->rank, m->parent, m->move);
    } else if (valid) {
        if (below) {
            keys_note(c, below, m->keys);
            cards_note_below(c, below, m->joined, m->cards);
            drop_lost(c, p, &out, below, &text, &keys);
        }
        /* The root publishes new moves; other brokers report to the root, which may not know the
         * move yet. */
        if (moves_note(c, m->rank, m->parent, m->move))
            moves_tell(c, &out);
        else if (!core_is_root(c))
            moves_report(c, &out);
        /* Its new parent may have moved since then, and have named the ranks below it. */
        if (below && moves_last(c, m->rank).move == m->move &&
            topology_is_ancestor(overlay_tree(c), p->rank, m->parent))
            arrived(c, m, below, false);
    } else {
        core_log(c, LOG_ERR, "rank %u reported a moved rank that is not in its subtree", p->rank);
    }
    idset_destroy(ends);
    idset_destroy(below);
    free(text);
    free(keys);
}

void heal_not_pending(core_t *c, const idset_t *ranks)
{
    if (c->pending && idset_intersects(c->pending, ranks)) {
        heal_settled(c, ranks);
        route_held(c, &c->unsettled);
    }
}

void heal_announced(core_t *c, const idset_t *ranks)
{
    idset_t *late = c->pending ? idset_intersect(c->pending, ranks) : NULL;

    if (late)
        overlay_ranks_lost(c, late, RANK_LOST, c->cfg.rank, "the session counts it as lost");
    idset_destroy(late);
}

static void pending_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    idset_t *late = c->pending;
    char *text = idset_format(late, 0);
    bool one = idset_count(late) == 1;

    core_log(c, LOG_ERR, "rank%s %s %s lost the broker above %s, and not connected within %g s",
             one ? "" : "s", text ? text : "?", one ? "has" : "have", one ? "it" : "them",
             c->cfg.heal_timeout);
    free(text);
    c->pending = NULL;
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        idset_t *sub = p->up ? NULL : topology_subtree(overlay_tree(c), p->rank);

        if (sub && idset_keep(sub, late) == 0)
            return_await(c, p, sub);
        idset_destroy(sub);
    }
    overlay_ranks_lost(c, late, RANK_LOST, c->cfg.rank,
                       "the broker above it was lost, and it has not connected in time");
    idset_destroy(late);
    route_held(c, &c->unsettled);
}

bool heal_accepts(core_t *c, struct peer *p, const struct control_hello *h, errmsg_t *why)
{
    uint32_t known = census_incarnation(c, p->rank);
    idset_t *below;
    bool own, memory;

    errno = 0;
    below = idset_parse(h->below, NULL);
    own = below && idset_test(below, p->rank) && heal_may_report(c, p->rank, below, true);
    memory = own || errno != ENOMEM;
    idset_destroy(below);
    if (!memory)
        errmsg_set(why, "rank %u is out of memory for the ranks below it", c->cfg.rank);
    else if (!heal_now(c))
        errmsg_set(why, "rank %u takes over no subtree now", c->cfg.rank);
    else if (!own)
        errmsg_set(why, "it has named ranks that are not in its subtree");
    else if (idset_test(c->lost, p->rank) || census_is_gone(c, p->rank))
        errmsg_set(why, "the session counts it as lost");
    else if (h->incarnation != known)
        errmsg_set(why, "it is incarnation %u of its rank, and the session knows incarnation %u",
                   h->incarnation, known);
    else
        return true;
    return false;
}

bool heal_doubts(const core_t *c, uint32_t rank)
{
    return !core_is_root(c) && idset_test(c->lost, rank) && !census_is_gone(c, rank);
}

bool heal_must_wait(core_t *c, const struct peer *p)
{
    if (c->pending && idset_test(c->pending, p->rank))
        return false; /* the earlier way to it has ended here (invariant 4) */
    for (uint32_t i = 0; i < c->nchildren && !p->waited; i++) {
        const struct peer *q = c->children[i];

        if (q != p && q->up && !q->lost && !q->gone &&
            topology_is_ancestor(overlay_tree(c), q->rank, p->rank)) {
            if (!flux_watcher_active(c->passage_timer))
                flux_timer_start(c->passage_timer, PASSAGE, 0.);
            return true;
        }
    }
    return false;
}

void heal_way_ended(core_t *c, bool late)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        c->children[i]->waited |= late && c->children[i]->hello;
        join_hello_again(c, c->children[i]);
    }
}

static void passage_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    heal_way_ended(arg, true);
}

void heal_take_over(core_t *c, struct peer *p, const struct control_hello *h)
{
    struct control_moved m = {.rank = p->rank,
                              .parent = c->cfg.rank,
                              .move = h->move,
                              .below = h->below,
                              .keys = h->keys,
                              .joined = h->joined,
                              .cards = h->cards};
    idset_t *below = idset_parse(h->below, NULL);
    char *text = NULL, *keys = NULL;

    if (below) {
        p->fresh = true;
        cards_note_below(c, below, h->joined, h->cards);
        moves_note(c, p->rank, c->cfg.rank, h->move);
        moves_below(c, p, h->moved);
        drop_lost(c, p, &m, below, &text, &keys);
        core_log(c, LOG_NOTICE, "rank %u has lost its parent, and is below rank %u now", p->rank,
                 c->cfg.rank);
        moves_tell(c, &m);
        arrived(c, &m, below, !p->waited);
        core_peer_slow(c, CORE_TREE, p->rank, false); /* a note of its earlier parent */
        restore_taken(c, p);
    } else {
        core_log(c, LOG_ERR, "rank %u is out of memory for a subtree", c->cfg.rank);
        broken_note(c, p);
    }
    idset_destroy(below);
    free(text);
    free(keys);
}

/* --- start and end --- */

int heal_init(core_t *c)
{
    overlay_peer_init(&c->unsettled, c->cfg.rank, CORE_TREE);
    c->unsettled.absent = true; /* held requests are routed again, not sent */
    if (!(c->elsewhere = idset_create()) || !(c->unheard = idset_create()) ||
        !(c->heal_timer = flux_timer_create(c->r, heal_cb, c)) ||
        !(c->pending_timer = flux_timer_create(c->r, pending_cb, c)) ||
        !(c->passage_timer = flux_timer_create(c->r, passage_cb, c)))
        return -1;
    return 0;
}

void heal_destroy(core_t *c)
{
    if (c->unsettled.held.next)
        route_held_destroy(c, &c->unsettled);
    flux_watcher_destroy(c->heal_timer);
    flux_watcher_destroy(c->pending_timer);
    flux_watcher_destroy(c->passage_timer);
    json_decref(c->above);
    json_decref(c->cards);
    idset_destroy(c->pending);
    idset_destroy(c->elsewhere);
    idset_destroy(c->unheard);
    idset_destroy(c->heal_below);
}
