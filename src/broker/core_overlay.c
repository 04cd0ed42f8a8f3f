/* core_overlay.c - neighbors, and the life of a session after its begin (core_join.c).
 *
 * Format: control messages pass on the tree plane; control_wire.c describes each.  This file
 * decodes all of them, and handles most topics that begin with "overlay."; core_event.c handles the
 * topics "event.".
 *
 * The root publishes these events, and the session map (sessmap.h) keeps their contents:
 *
 *    overlay.run     {"up"}               all ranks are ready
 *    overlay.down    {"ranks"}            ranks were lost or have left
 *    overlay.up      {"ranks"}            ranks have come back (core_return.c)
 *    overlay.moved   {"rank","parent"}    a rank has another parent (core_moves.c)
 *    overlay.state                        ranks join, are slow, or drain (core_live.c)
 *
 * Loss: the children of a lost child may connect to a broker above it (core_heal.c).  If they
 * cannot, the whole subtree is lost to the brokers above, although its members may keep running for
 * a while: a child of the root, or a broker in a tree that does not heal, serves its own subtree
 * until orphan_timeout after it has lost its parent, and then shuts it down.  A broker that leaves
 * (core_leave()) sends its children to the broker above it; if the tree does not heal, it shuts
 * down its subtree first, in order.
 *
 * Invariants:
 *  1. `up` and `lost` are disjoint.  The sets of the root are authoritative for the session.
 *  2. In CORE_DOWN, a broker waits for its children for at most down_patience() seconds:
 *     shutdown_grace for each level of the tree from its own to the deepest.
 *
 * Failure: a bad control message is logged and dropped.  Without memory for a message, the
 * connection ends (core_broken.c).
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_wire.h"
#include "core_private.h"
#include "libflux/overlay_wire.h"
#include "libutil/invariant.h"

int overlay_send(core_t *c, struct peer *p, const struct flux_method *m, const void *in)
{
    flux_msg_t *msg;
    char *json;

    if (p->broken)
        return -1;
    msg = flux_msg_create(FLUX_MSG_CONTROL, m->topic);
    json = flux_schema_encode(m->request, in);
    if (!msg || !json || flux_msg_set_json(msg, json) < 0) {
        free(json);
        flux_msg_destroy(msg);
        core_log(c, LOG_ERR, "rank %u is out of memory for %s", c->cfg.rank, m->topic);
        broken_note(c, p);
        errno = ENOMEM;
        return -1;
    }
    free(json);
    return route_control(c, p, msg);
}

struct peer *overlay_tree_peer(core_t *c, uint32_t rank)
{
    struct peer *p;

    if (c->parent && c->parent->rank == rank)
        return c->parent;
    p = hmap_get_u64(c->child_by_rank, rank);
    return p ? p : restore_peer(c, rank);
}

/* --- loss --- */

static void children_gone(core_t *c);

static void tell_lost(core_t *c, const idset_t *ranks, bool left, uint32_t by, const char *why)
{
    struct control_text t = {.left = left, .by = by, .why = why};
    char *text;

    if (core_is_root(c) || c->parent->lost || !c->parent->up || idset_empty(ranks))
        return;
    if (!(text = idset_format(ranks, 0))) {
        core_log(c, LOG_ERR, "rank %u is out of memory for overlay.lost", c->cfg.rank);
        broken_note(c, c->parent);
        return;
    }
    t.ranks = text;
    overlay_send(c, c->parent, &control_up[CONTROL_LOST], &t);
    free(text);
}

void overlay_tell_lost(core_t *c, const idset_t *ranks)
{
    tell_lost(c, ranks, false, c->cfg.rank, NULL);
}

void overlay_caught_up(core_t *c, const idset_t *lost)
{
    if (lost)
        overlay_tell_lost(c, lost);
    live_again(c);
    join_report(c);
    route_held(c, c->parent);
}

static void log_down(core_t *c, const idset_t *fresh, const char *ranks, enum rank_state how)
{
    bool one = idset_count(fresh) == 1;
    bool vacant = c->cfg.expected > 0 && idset_first(fresh) >= c->cfg.expected;
    const char *s = one ? "" : "s", *have = one ? "has" : "have";

    if (how == RANK_ABSENT && vacant)
        core_log(c, LOG_NOTICE, "rank%s %s %s no host yet", s, ranks, have);
    else if (how == RANK_ABSENT)
        core_log(c, LOG_ERR,
                 "rank%s %s %s not joined within %g s (%s): the session begins without %s", s,
                 ranks, have, c->cfg.boot_timeout,
                 c->cfg.boot_default ? "the default of boot.timeout with a quorum" : "boot.timeout",
                 one ? "it" : "them");
    else if (how == RANK_LEFT)
        core_log(c, LOG_NOTICE, "rank%s %s %s left", s, ranks, have);
    else
        core_log(c, LOG_ERR, "rank%s %s %s lost", s, ranks, one ? "is" : "are");
}

/* Record that `ranks` are lost (or have left, or are absent), and report that to the parent; at the
 * root, publish it. */
void overlay_ranks_lost(core_t *c, const idset_t *ranks, enum rank_state how, uint32_t by,
                        const char *why)
{
    idset_t *fresh = idset_difference(ranks, c->lost);
    char *text;

    live_gone(c, ranks);
    if (!fresh || idset_empty(fresh) || !(text = idset_format(fresh, 0))) {
        idset_destroy(fresh);
        return;
    }
    idset_add(c->lost, fresh);
    idset_subtract(c->up, fresh);
    idset_subtract(c->unreported, fresh);
    stale_forget(c, fresh);
    INVARIANT(1, !idset_intersects(c->up, c->lost));
    heal_not_pending(c, fresh);
    route_held_forget_ranks(c, fresh);
    if (core_is_root(c)) {
        struct overlay_down body = {.ranks = text, .state = sessmap_state_name(how)};
        char *json;

        sessmap_change(c->map, fresh, how);
        live_verdict(c, fresh, how, by, why);
        body.map = sessmap_number(c->map);
        if ((json = flux_schema_encode(&overlay_down_schema, &body)))
            event_publish_json(c, "overlay.down", json);
        free(json);
        log_down(c, fresh, text, how);
        moves_put_back(c, fresh);
    } else {
        heal_note_lost(c, fresh);
        tell_lost(c, fresh, how == RANK_LEFT, by, why);
    }
    free(text);
    idset_destroy(fresh);
    join_lost(c);
}

/* Handle a child that is lost, or has left, with all ranks below it. */
static void subtree_lost(core_t *c, struct peer *p, enum rank_state how, const char *why)
{
    idset_t *sub = heal_subtree(c, p->rank);

    if (sub) {
        return_await(c, p, sub);
        overlay_ranks_lost(c, sub, how, c->cfg.rank, why);
    }
    idset_destroy(sub);
}

void overlay_peer_over(core_t *c, struct peer *p, const char *text)
{
    inflight_fail(c, &p->to, EHOSTUNREACH, text);
    inflight_forget(c, &p->from, true);
    route_held_forget(c, p);
}

/* Fail the requests that were sent to a peer, except those that may be sent again, which move to
 * `again` (NULL: all fail). */
static void peer_gone(core_t *c, struct peer *p, const char *why, struct list_node *again)
{
    char text[200];

    if (again)
        inflight_set_aside(&p->to, again);
    inflight_leave(c, &p->to);
    p->lost = p != c->parent || !c->healing;
    p->up = p->former = p->arriving = p->broken = p->unread = false;
    p->event_up = false;
    p->wants = 0;
    flux_msg_destroy(p->hello);
    p->hello = NULL;
    idset_destroy(p->denied);
    p->denied = NULL;
    snprintf(text, sizeof(text), "rank %u was lost while the request was in flight: %s", p->rank,
             why);
    overlay_peer_over(c, p, text);
}

static void neighbor_gone(core_t *c, struct peer *p, const char *why)
{
    peer_gone(c, p, why, NULL);
    route_held(c, p);
}

static void orphan_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    if (heal_without_root(c)) {
        neighbor_gone(c, c->parent, "it does not answer");
        event_cut(c, 0);
        if (c->cfg.orphan_timeout > c->cfg.heal_timeout)
            flux_timer_start(c->orphan_timer, c->cfg.orphan_timeout - c->cfg.heal_timeout, 0.);
        if (c->cfg.orphan_timeout < 0. || c->cfg.orphan_timeout > c->cfg.heal_timeout)
            return;
    }
    if (c->healing)
        core_log(c, LOG_ERR, "rank %u has found no parent among the brokers above: shutting down",
                 c->cfg.rank);
    else
        core_log(c, LOG_ERR,
                 "rank %u has been without its parent, rank %u, for %.0f s: shutting down",
                 c->cfg.rank, c->parent->rank, c->cfg.orphan_timeout);
    core_leave(c, 1, "the broker above has lost its parent");
}

void core_peer_lost(core_t *c, enum core_plane plane, uint32_t rank, const char *why)
{
    struct list_node again;
    struct peer *p;
    bool tries;

    list_init(&again);
    if (plane == CORE_RING) {
        p = c->ring_next.rank == rank && !c->ring_next.lost ? &c->ring_next : &c->ring_prev;
        if (p->rank == rank && !p->lost && c->cfg.size > 1) {
            neighbor_gone(c, p, why);
            if (p == &c->ring_next && c->cfg.size == 2 && c->ring_prev.rank == rank &&
                !c->ring_prev.lost)
                neighbor_gone(c, &c->ring_prev, why);
            if (p == &c->ring_next)
                successor_lost(c);
        }
        return;
    }
    if (!(p = overlay_tree_peer(c, rank)) || p->lost)
        return;
    if (restore_lost(c, p, why))
        return;
    if (p == c->parent && c->healing) {
        heal_next(c, why);
        return;
    }
    if (p == c->parent) {
        if (late_next(c))
            return;
        if (c->state == CORE_JOIN)
            core_log(c, LOG_CRIT, "rank %u cannot join through its parent, rank %u: %s",
                     c->cfg.rank, rank, why);
        else if (c->state < CORE_DOWN)
            core_log(c, LOG_ERR, "rank %u lost its parent, rank %u: %s", c->cfg.rank, rank, why);
        if (heal_begin(c)) {
            peer_gone(c, p, why, &again);
            inflight_again(c, &again);
            return;
        }
        neighbor_gone(c, p, why);
        restore_stop(c);
        if (c->down_asked) {
            /* The shutdown request can no longer be answered. */
            overlay_shutdown(c, c->exit_code,
                             "the parent was lost while the session was shutting down");
            return;
        }
        if (c->state < CORE_DOWN)
            event_cut(c, 0);
        if (c->state == CORE_JOIN) { /* there are no clients or children to serve */
            overlay_shutdown(c, 1, why);
            return;
        }
        if (c->state < CORE_DOWN && c->cfg.orphan_timeout >= 0.)
            flux_timer_start(c->orphan_timer, c->cfg.orphan_timeout, 0.);
        return;
    }
    if (p->gone) {
        p->event_up = false;
        return;
    }
    /* It is below another broker; an event may have said so. */
    if (p->former || (p->up && idset_test(c->elsewhere, p->rank))) {
        peer_gone(c, p, why, heal_now(c) ? &again : NULL);
        inflight_again(c, &again);
        children_gone(c);
        return;
    }
    /* An orphan that was not welcomed here tries again, here or at another broker; or it ends, and
     * what it has belonged to is not this session, or knows that it is lost. */
    tries = !p->up && (p->refused || topology_parent(overlay_tree(c), p->rank) != c->cfg.rank);
    if (p->up)
        join_bounced(c, p);
    peer_gone(c, p, why, heal_now(c) ? &again : NULL);
    if (c->state >= CORE_DOWN)
        children_gone(c);
    else if (!tries && !heal_child_lost(c, p, RANK_LOST, why))
        subtree_lost(c, p, RANK_LOST, why);
    late_lost(c, p);
    /* Now it is known for which ranks below it this broker waits. */
    inflight_again(c, &again);
    route_held(c, p);
    heal_way_ended(c, false);
}

/* --- shutdown --- */

static void say_goodbye(core_t *c)
{
    if (c->parent && c->parent->up && !c->parent->lost)
        overlay_send(c, c->parent, &control_up[CONTROL_GOODBYE], NULL);
}

static bool any_child(const core_t *c)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        const struct peer *p = c->children[i];
        if (p->up && !p->lost && !p->gone)
            return true;
    }
    return false;
}

static void children_gone(core_t *c)
{
    if (c->state != CORE_DOWN || c->down_local || any_child(c))
        return;
    c->down_local = true;
    flux_watcher_stop(c->down_timer);
    /* To other brokers, the end of its modules is that of this broker, and not of a service on the
     * way to those that were below it. */
    if (c->alone)
        say_goodbye(c);
    if (c->cbs.state)
        c->cbs.state(c, CORE_DOWN, c->cbs_arg);
}

/* The patience is longer higher up in the tree, so a hung leaf exhausts only the patience of its
 * parent. */
static double down_patience(const core_t *c)
{
    return c->cfg.shutdown_grace *
           (1 + topology_max_depth(c->topo) - topology_depth(c->topo, c->cfg.rank));
}

static void down_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        if (p->up && !p->lost && !p->gone) {
            core_log(c, LOG_ERR, "rank %u did not shut down within %.1f s, and is left behind",
                     p->rank, down_patience(c));
            neighbor_gone(c, p, "it did not shut down in time");
        }
    }
    children_gone(c);
}

static void go_down(core_t *c, const struct control_down_order *s)
{
    if (c->state >= CORE_DOWN)
        return;
    c->exit_code = s->leave ? 1 : s->rc;
    flux_watcher_stop(c->orphan_timer);
    join_stop(c);
    heal_stop(c);
    late_stop(c);
    core_set_state(c, CORE_DOWN);
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        /* A former child asks again, elsewhere, for what it has asked here: the modules end. */
        if ((p->up || (p->former && s->alone)) && !p->lost && !p->gone)
            overlay_send(c, p, &control_down[CONTROL_SHUTDOWN], s);
    }
    flux_timer_start(c->down_timer, down_patience(c), 0.);
    children_gone(c);
}

void overlay_shutdown(core_t *c, int rc, const char *reason)
{
    const struct control_down_order s = {.rc = rc, .reason = reason};

    go_down(c, &s);
}

/* The session continues.  The brokers below connect to the next one above, or, if they cannot, are
 * to be started again. */
static void leave(core_t *c, int rc, const char *reason, bool alone)
{
    const struct control_down_order s = {.rc = rc, .reason = reason, .leave = true, .alone = alone};

    if (c->state < CORE_DOWN) {
        c->alone = s.alone;
        live_leaving(c);
    }
    go_down(c, &s);
    c->exit_code = rc;
}

void core_leave(core_t *c, int rc, const char *reason)
{
    leave(c, rc, reason, core_leaves_alone(c));
}

void overlay_counted_lost(core_t *c, const char *reason)
{
    c->counted_lost = true;
    leave(c, 1, reason, heal_now(c));
}

void core_local_down_done(core_t *c)
{
    if (c->state != CORE_DOWN || !c->down_local)
        return;
    if (!c->alone)
        say_goodbye(c);
    core_set_state(c, CORE_EXIT);
}

/* --- control messages --- */

static idset_t *parse_subtree_ranks(core_t *c, struct peer *p, const char *text)
{
    errmsg_t err;
    idset_t *ids;

    errno = 0;
    ids = idset_parse(text, &err);
    if (ids && heal_may_report(c, p->rank, ids, false))
        return ids;
    if (errno == ENOMEM)
        broken_note(c, p);
    core_log(c, LOG_ERR, "rank %u reported ranks that are not in its subtree", p->rank);
    idset_destroy(ids);
    return NULL;
}

static void ready_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_text *t = in;
    idset_t *ids = parse_subtree_ranks(c, p, t->ranks);
    idset_t *again = t->again ? idset_parse(t->again, NULL) : NULL;
    idset_t *joined = !ids ? NULL : again ? idset_difference(ids, again) : idset_copy(ids);

    if (joined && (again || !t->again)) {
        keys_note(c, ids, t->keys); /* before they are reported */
        cards_note(c, joined, t->cards);
        moves_joined(c, p->rank, joined);
        stale_allow(p, joined);
        stale_drop(c, p, ids, joined);
        if (join_ready(c, ids, again) < 0)
            broken_note(c, p);
    } else if (ids) {
        core_log(c, LOG_ERR, "rank %u reported ready ranks that cannot be read", p->rank);
        if (errno == ENOMEM)
            broken_note(c, p);
    }
    idset_destroy(joined);
    idset_destroy(again);
    idset_destroy(ids);
}

/* A child does not report on ranks that have moved away from its subtree, except on orphans that
 * were pending there: with the lost rank above them they were put back into the place of that. */
static bool waits_elsewhere(const core_t *c, const idset_t *reported, uint32_t rank)
{
    do
        rank = topology_parent(overlay_tree(c), rank);
    while (idset_test(reported, rank));
    return idset_test(c->lost, rank) && !idset_test(c->moved, rank);
}

/* A child that was an orphan repeats what it has reported as lost, after its earlier moves.  Some
 * of it follows from its hello, and was passed on before those moves: a broker above may have
 * looked for the ranks elsewhere, and have ignored the report. */
static void lost_again(core_t *c, const idset_t *ranks, const struct control_text *t)
{
    idset_t *again = idset_intersect(ranks, c->unheard);

    if (!again)
        core_log(c, LOG_ERR, "rank %u is out of memory to report lost ranks again", c->cfg.rank);
    else if (!idset_empty(again))
        tell_lost(c, again, t->left, t->by, t->why);
    idset_destroy(again);
}

/* Orphans that wait at the child may have been put back elsewhere, and guests may have moved, so
 * each rank is checked by itself. */
static void lost_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_text *t = in;
    errmsg_t err = {""};
    idset_t *ids, *sub;
    bool own = true;

    errno = 0;
    ids = idset_parse(t->ranks, &err);
    sub = topology_subtree(overlay_tree(c), p->rank);
    if (ids)
        stale_allow(p, ids);
    for (uint32_t r = ids && sub ? idset_first(ids) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(ids, r)) {
        if (!idset_test(sub, r) && (r >= c->cfg.size || !waits_elsewhere(c, ids, r))) {
            own &= topology_is_ancestor(c->topo, p->rank, r);
            (void)idset_clear(ids, r);
        }
    }
    if (!own)
        core_log(c, LOG_WARNING, "rank %u reported lost ranks that are not in its subtree",
                 p->rank);
    if (ids && sub) {
        lost_again(c, ids, t);
        overlay_ranks_lost(c, ids, t->left ? RANK_LEFT : RANK_LOST, t->by, t->why);
    } else {
        core_log(c, LOG_ERR, "rank %u reported lost ranks that cannot be read: %s", p->rank,
                 err.text);
        if (!sub || errno == ENOMEM)
            broken_note(c, p);
    }
    idset_destroy(sub);
    idset_destroy(ids);
}

static void moved_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    heal_moved_below(c, p, in);
}

static void state_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_changes *report = in;
    size_t i;
    json_t *o;

    p->leaving |= report->down;
    json_array_foreach(report->changes, i, o)
    {
        struct overlay_change change;
        errmsg_t err;
        idset_t *ids = NULL;

        if (flux_schema_decode_json(&overlay_change_schema, o, &change, &err) < 0)
            core_log(c, LOG_ERR, "rank %u reported a change that cannot be read: %s", p->rank,
                     err.text);
        else if ((ids = parse_subtree_ranks(c, p, change.ranks)) &&
                 (!p->denied || idset_subtract(ids, p->denied) == 0))
            live_input(c, ids, &change);
        idset_destroy(ids);
    }
}

static void shutdown_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_down_order *s = in;

    if (p->former) {
        if (c->link->drop)
            c->link->drop(c->link_arg, CORE_TREE, p->rank);
        core_peer_lost(c, CORE_TREE, p->rank, s->reason);
        return;
    }
    if (s->alone) {
        core_peer_lost(c, CORE_TREE, p->rank, s->reason);
        return;
    }
    if (c->state < CORE_DOWN) {
        c->down_announced = !s->leave;
        c->parent_left = s->leave;
        c->left_for_good = s->leave && s->rc == 0;
    }
    go_down(c, s);
}

static void goodbye_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    static const char why[] = "it said goodbye";
    struct list_node again;
    char text[80];

    list_init(&again);
    p->gone = true;
    p->event_up = false;
    p->wants = 0;
    restore_left(c, p);
    snprintf(text, sizeof(text), "rank %u has left the session", p->rank);
    if (heal_now(c))
        inflight_set_aside(&p->to, &again);
    overlay_peer_over(c, p, text);
    /* Those below it that have not left before look for another parent. */
    if (c->state < CORE_DOWN && !heal_child_lost(c, p, RANK_LEFT, why))
        subtree_lost(c, p, RANK_LEFT, why);
    inflight_again(c, &again);
    route_held(c, p);
    late_lost(c, p);
    if (c->link->drop)
        c->link->drop(c->link_arg, CORE_TREE, p->rank);
    heal_way_ended(c, false);
    children_gone(c);
}

static void replay_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_replay(c, p, ((const struct control_number *)in)->from);
}

static void skip_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_skip(c, in);
}

static void replayed_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_replayed(c, ((const struct control_number *)in)->last);
}

static void last_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_expect(c, ((const struct control_number *)in)->last);
}

static void cut_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    event_cut(c, ((const struct control_number *)in)->last);
}

static control_handler *const from_child[CONTROL_NUP] = {
    [CONTROL_HELLO] = join_hello_cb,
    [CONTROL_READY] = ready_cb,
    [CONTROL_LOST] = lost_cb,
    [CONTROL_STATE] = state_cb,
    [CONTROL_GOODBYE] = goodbye_cb,
    [CONTROL_REPLAY] = replay_cb,
    [CONTROL_MOVED] = moved_cb,
    [CONTROL_EXPECTED] = restore_expected_cb,
    [CONTROL_LEAVING] = restore_leaving_cb,
    [CONTROL_ARRIVED] = restore_arrived_cb,
    [CONTROL_DONE] = former_done_cb,
    [CONTROL_TAKE] = restore_expect_cb,
    [CONTROL_GAVE] = restore_given_cb,
    [CONTROL_DEAF] = third_deaf_cb,
    [CONTROL_LIVES] = third_lives_cb,
    [CONTROL_AWAITED] = offer_awaited_cb,
};
static control_handler *const from_parent[CONTROL_NDOWN] = {
    [CONTROL_WELCOME] = join_welcome_cb,
    [CONTROL_REFUSED] = join_refused_cb,
    [CONTROL_SHUTDOWN] = shutdown_cb,
    [CONTROL_SKIP] = skip_cb,
    [CONTROL_REPLAYED] = replayed_cb,
    [CONTROL_LAST] = last_cb,
    [CONTROL_CUT] = cut_cb,
    [CONTROL_EXPECT] = restore_expect_cb,
    [CONTROL_GO] = change_go_cb,
    [CONTROL_GIVEN] = restore_given_cb,
    [CONTROL_OVER] = former_done_cb,
    [CONTROL_TAKES] = restore_expected_cb,
    [CONTROL_ABOVE] = heal_above_cb,
    [CONTROL_UNHEARD] = third_unheard_cb,
};

void overlay_control(core_t *c, struct peer *from, const flux_msg_t *msg)
{
    const char *topic = flux_msg_topic(msg);
    const struct flux_method *m = from->is_child ? control_up : control_down;
    control_handler *const *cb = from->is_child ? from_child : from_parent;
    size_t len;
    const char *json = flux_msg_payload(msg, &len);
    union {
        struct control_hello hello;
        struct control_welcome welcome;
        struct control_moved moved;
        struct control_expected expected;
        struct control_card card;
        struct control_above above;
        struct control_number number;
        struct control_skip skip;
        struct control_text text;
        struct control_changes changes;
        struct control_down_order shutdown;
        struct control_deaf deaf;
        struct control_lives lives;
        struct control_awaited awaited;
    } in;
    errmsg_t err = {"unknown message"};
    bool hello = false, memory = false;

    memset(&in, 0, sizeof(in));
    for (; m->topic; m++, cb++) {
        json_t *owner;
        if (strcmp(m->topic, topic) != 0)
            continue;
        if (from == c->second
                ? m != &control_down[CONTROL_WELCOME] && m != &control_down[CONTROL_REFUSED] &&
                      m != &control_down[CONTROL_GIVEN] && m != &control_down[CONTROL_ABOVE]
                : from->former && !from->is_child && m != &control_down[CONTROL_OVER] &&
                      m != &control_down[CONTROL_SHUTDOWN])
            return; /* only the report of the parent counts */
        hello = m == &control_up[CONTROL_HELLO];
        if (!hello)
            from->fresh = false;
        if (!(owner = flux_schema_decode(m->request, json ? json : "", len, &in, &err))) {
            memory = errno == ENOMEM;
            break;
        }
        (*cb)(c, from, &in, msg);
        json_decref(owner);
        return;
    }
    core_log(c, LOG_ERR, "control message %s from rank %u was dropped: %s", topic, from->rank,
             err.text);
    c->stats.dropped++;
    if (memory && (hello || (c->state == CORE_JOIN && from == c->parent)))
        broken_hello(c, from, msg);
    else if (memory)
        broken_note(c, from);
}

/* Handle an event of the session itself. */
int overlay_read_event(core_t *c, const flux_msg_t *event)
{
    const char *topic = flux_msg_topic(event);
    bool run = strcmp(topic, "overlay.run") == 0;
    int rc = 0;

    if (view_includes(c, event))
        return 0;
    if (strcmp(topic, "overlay.down") == 0)
        rc = return_down(c, event);
    if (strcmp(topic, "overlay.up") == 0)
        rc = return_up(c, event, &run);
    if (strcmp(topic, "overlay.moved") == 0)
        rc = moves_event(c, event);
    if (run)
        join_run(c);
    return rc;
}

void overlay_event(core_t *c, const flux_msg_t *event)
{
    if (strncmp(flux_msg_topic(event), "overlay.", 8) == 0 &&
        (c->nunread > 0 || overlay_read_event(c, event) < 0))
        broken_event(c, event);
}

bool overlay_is_leaving(const core_t *c, uint32_t child)
{
    const struct peer *p = hmap_get_u64(c->child_by_rank, child);

    return p && p->leaving;
}

void core_child_event_up(core_t *c, uint32_t rank)
{
    struct peer *p = hmap_get_u64(c->child_by_rank, rank);

    if (!p || p->lost || p->gone)
        return;
    p->event_up = true;
    if (restore_expects(c, p->rank)) /* its welcome may wait for this */
        join_hello_again(c, p);
}

/* --- start and end --- */

void overlay_peer_init(struct peer *p, uint32_t rank, enum core_plane plane)
{
    p->rank = rank;
    p->plane = plane;
    list_init(&p->to);
    list_init(&p->from);
    list_init(&p->held);
}

struct peer *overlay_child_add(core_t *c, uint32_t rank)
{
    struct peer **all = realloc(c->children, (c->nchildren + 1) * sizeof(struct peer *));
    struct peer *p = calloc(1, sizeof(*p));

    if (all)
        c->children = all;
    if (!all || !p || hmap_put_u64(c->child_by_rank, rank, p) < 0) {
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    overlay_peer_init(p, rank, CORE_TREE);
    p->is_child = true;
    c->children[c->nchildren++] = p;
    return p;
}

int overlay_init(core_t *c)
{
    uint32_t me = c->cfg.rank;

    if (!(c->child_by_rank = hmap_create_u64(NULL)))
        return -1;
    for (uint32_t i = 0; i < topology_nchildren(c->topo, me); i++) {
        if (!overlay_child_add(c, topology_child_at(c->topo, me, i)))
            return -1;
    }
    if (!core_is_root(c)) {
        if (!(c->parent = calloc(1, sizeof(*c->parent))))
            return -1;
        overlay_peer_init(c->parent, topology_parent(c->topo, me), CORE_TREE);
    }
    overlay_peer_init(&c->ring_next, topology_ring_next(c->topo, me), CORE_RING);
    overlay_peer_init(&c->ring_prev, topology_ring_prev(c->topo, me), CORE_RING);
    if (!(c->up = idset_create()) || !(c->lost = idset_create()) ||
        !(c->unreported = idset_create()) ||
        !(c->orphan_timer = flux_timer_create(c->r, orphan_cb, c)) ||
        (core_is_root(c) && !(c->map = sessmap_create(c->topo))) ||
        !(c->down_timer = flux_timer_create(c->r, down_timer_cb, c)))
        return -1;
    return 0;
}

void overlay_destroy(core_t *c)
{
    for (uint32_t i = 0; i < c->nchildren && c->children; i++) {
        flux_msg_destroy(c->children[i]->hello);
        idset_destroy(c->children[i]->await);
        idset_destroy(c->children[i]->denied);
        route_held_destroy(c, c->children[i]);
        free(c->children[i]);
    }
    if (c->parent) {
        flux_msg_destroy(c->parent->hello);
        route_held_destroy(c, c->parent);
    }
    if (c->ring_next.held.next)
        route_held_destroy(c, &c->ring_next);
    flux_watcher_destroy(c->orphan_timer);
    flux_watcher_destroy(c->down_timer);
    sessmap_destroy(c->map);
    idset_destroy(c->up);
    idset_destroy(c->lost);
    idset_destroy(c->unreported);
    hmap_destroy(c->child_by_rank);
    free(c->children);
    free(c->parent);
}
