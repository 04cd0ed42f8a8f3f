/* core_live.c - ranks that join, are slow, or are being drained: the reports of a broker to its
 * parent.
 *
 * Purpose: this file keeps the states of the session map between absent, up and lost.  Losses and
 * readiness are reported at once (core_overlay.c); the states of this file serve users and
 * policies, and reports of them are merged on their way to rank 0.
 *
 *    state       noted by                            until
 *    joining     the parent, at the welcome, or      it is ready, or lost
 *                when the session begins without it
 *    slow        the parent, when the link says so   a message arrives from it, or it is lost
 *    draining    a broker that is about to leave,    it has left
 *                for all ranks below
 *
 * Format: "overlay.state" (control_wire.h) is a list of changes: ranks, their state, and the rank
 * that noted it.  "up" ends slow and draining; "lost" ends joining.  At rank 0 the changes go to
 * the session map, to the record of verdicts, and to all brokers as an event "overlay.state" for
 * each state.
 *
 * Invariants:
 *  1. A broker sends its parent at most one report in `beat` seconds, and none when nothing has
 *     changed since the last one: a state that began and ended in between is not reported.  One
 *     additional report says that the broker shuts down to leave: from then on the parent tolerates
 *     a longer silence.
 *  2. There is a note of a rank if and only if the rank is in one of these states, or the end of
 *     that state has not been reported to the parent yet.
 *  3. A joining rank is reported a beat later than other changes, so it is not reported at all if
 *     it is ready by then.  In a healthy session this file sends no message.
 *  4. A rank that core_overlay.c counts as ready or lost has no note: the message that reports this
 *     removes the note at each broker on its way.
 *
 * Failure: without memory a change is not noted, which is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control_wire.h"
#include "core_private.h"
#include "libflux/overlay_wire.h"
#include "verdicts.h"

struct note {
    uint32_t rank;
    uint32_t by;              /* rank that noted the state */
    enum rank_state state;    /* RANK_UP, RANK_LOST: the state is over */
    enum rank_state reported; /* state reported to the parent, or in the map; RANK_UP: none */
};

/* Changes with the same state and origin. */
struct group {
    struct list_node node;
    enum rank_state state;
    uint32_t by;
    idset_t *ranks;
};

struct live {
    hmap_t *notes; /* rank -> struct note */
    flux_watcher_t *timer;
    double due;           /* time at which the timer fires */
    double last;          /* time of the last report */
    verdicts_t *verdicts; /* record of the root; NULL at other ranks */
};

static void out_of_memory(core_t *c)
{
    core_log(c, LOG_ERR, "rank %u is out of memory to note the states of ranks", c->cfg.rank);
}

/* --- notes --- */

/* Start the timer for a report, not before the time `after`. */
static void report_after(core_t *c, double after)
{
    struct live *l = c->live;
    double due = l->last + c->cfg.beat > after ? l->last + c->cfg.beat : after;
    double now = flux_reactor_now(c->r);

    if (flux_watcher_active(l->timer) && l->due <= due)
        return;
    l->due = due;
    flux_timer_start(l->timer, due > now ? due - now : 0., 0.);
}

void live_note(core_t *c, uint32_t rank, enum rank_state state, uint32_t by)
{
    struct live *l = c->live;
    struct note *n = hmap_get_u64(l->notes, rank);
    double now = flux_reactor_now(c->r);

    if (!n) {
        if (state == RANK_UP || state == RANK_LOST)
            return;
        if (!(n = calloc(1, sizeof(*n))) || hmap_put_u64(l->notes, rank, n) < 0) {
            free(n);
            out_of_memory(c);
            return;
        }
        n->rank = rank;
        n->reported = n->state = RANK_UP;
    }
    if (state == RANK_JOINING)
        idset_clear(c->elsewhere, rank);
    if (n->state == state)
        return;
    n->state = state;
    n->by = by;
    report_after(c, state == RANK_JOINING ? now + c->cfg.beat : now);
}

void live_begin(core_t *c)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        const struct peer *p = c->children[i];

        if (p->up && !p->lost && !p->gone && !idset_test(c->up, p->rank))
            live_note(c, p->rank, RANK_JOINING, c->cfg.rank);
    }
}

static enum rank_state noted(const core_t *c, uint32_t rank)
{
    const struct note *n = hmap_get_u64(c->live->notes, rank);

    return n ? n->state : RANK_UP;
}

void live_ready(core_t *c, const idset_t *ranks)
{
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r))
        hmap_del_u64(c->live->notes, r);
}

void live_gone(core_t *c, const idset_t *ranks)
{
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        const struct note *n = hmap_get_u64(c->live->notes, r);

        /* The rank was lost before it joined, so no other message reports that it is not joining
         * any longer. */
        if (n && n->reported == RANK_JOINING)
            live_note(c, r, RANK_LOST, c->cfg.rank);
        else if (n)
            hmap_del_u64(c->live->notes, r);
    }
}

void live_again(core_t *c)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(c->live->notes, &pos, NULL, NULL, &val)) {
        struct note *n = val;

        if (n->state != RANK_UP) /* a note of an end has to be reported upwards */
            n->reported = RANK_UP;
    }
    if (hmap_count(c->live->notes) > 0)
        report_after(c, flux_reactor_now(c->r));
}

void live_arrived(core_t *c)
{
    struct control_changes none = {.changes = json_array()};

    if (none.changes)
        overlay_send(c, c->parent, &control_up[CONTROL_STATE], &none);
    json_decref(none.changes);
}

/* --- reports of the link --- */

void core_peer_slow(core_t *c, enum core_plane plane, uint32_t rank, bool slow)
{
    struct peer *p = plane == CORE_TREE ? overlay_tree_peer(c, rank) : NULL;

    if (p && p == c->parent)
        third_parent_slow(c, slow);
    else if (p && p->is_child)
        third_slow(c, p, slow);
    /* Only the report of the parent counts: a broker cannot report that its own parent is slow, nor
     * that a rank is which has another parent. */
    if (!p || !p->is_child || (slow && !p->up) || noted(c, rank) != (slow ? RANK_UP : RANK_SLOW))
        return;
    live_note(c, rank, slow ? RANK_SLOW : RANK_UP, c->cfg.rank);
}

bool core_peer_patient(const core_t *c, enum core_plane plane, uint32_t rank)
{
    if (c->state != CORE_RUN || rank == FLUX_NODEID_ROOT)
        return true;
    if (plane == CORE_RING)
        return c->ring_prev.rank == rank && c->ring_prev.joins;
    if (c->parent && c->parent->rank == rank)
        return false;
    if (restore_peer(c, rank))
        return false;
    return !idset_test(c->up, rank) || overlay_is_leaving(c, rank);
}

void core_draining(core_t *c)
{
    if (core_leaves_alone(c)) {
        live_note(c, c->cfg.rank, RANK_DRAINING, c->cfg.rank);
        return;
    }
    for (uint32_t r = idset_first(c->up); r != IDSET_NONE; r = idset_next(c->up, r))
        live_note(c, r, RANK_DRAINING, c->cfg.rank);
}

/* --- reports --- */

/* Add a change that the parent does not know to its group.  The groups are sorted. */
static int add_to_group(struct list_node *groups, const struct note *n)
{
    struct group *g = NULL;
    struct list_node *before = groups;

    LIST_FOREACH(it, groups)
    {
        g = list_entry(it, struct group, node);
        if (g->state == n->state && g->by == n->by)
            return idset_set(g->ranks, n->rank);
        if (g->state > n->state || (g->state == n->state && g->by > n->by)) {
            before = it;
            break;
        }
    }
    if (!(g = calloc(1, sizeof(*g))) || !(g->ranks = idset_create())) {
        free(g);
        return -1;
    }
    g->state = n->state;
    g->by = n->by;
    list_append(before, &g->node); /* that is, in front of it */
    return idset_set(g->ranks, n->rank);
}

static void groups_clear(struct list_node *groups)
{
    struct list_node *n;

    while ((n = list_first(groups))) {
        struct group *g = list_entry(n, struct group, node);

        list_remove(n);
        idset_destroy(g->ranks);
        free(g);
    }
}

/* Collect all new changes, and count them as reported.  Returns -1 with ENOMEM. */
static int take_news(core_t *c, struct list_node *groups)
{
    size_t pos = 0;
    uint64_t rank;
    void *val;

    list_init(groups);
    while (hmap_next(c->live->notes, &pos, NULL, &rank, &val)) {
        struct note *n = val;

        if (n->state != n->reported && add_to_group(groups, n) < 0)
            return -1;
        n->reported = n->state;
        if (n->state == RANK_UP || n->state == RANK_LOST)
            hmap_del_u64(c->live->notes, rank);
    }
    return 0;
}

static void send_report(core_t *c, struct list_node *groups, bool down)
{
    struct control_changes report = {json_array(), down};
    bool failed = !report.changes;

    LIST_FOREACH(it, groups)
    {
        const struct group *g = list_entry(it, struct group, node);
        struct overlay_change change = {.state = sessmap_state_name(g->state), .by = g->by};
        char *ranks = idset_format(g->ranks, 0);
        json_t *o;

        change.ranks = ranks;
        o = ranks && !failed ? flux_schema_encode_json(&overlay_change_schema, &change) : NULL;
        failed = !o || json_array_append_new(report.changes, o) < 0;
        free(ranks);
    }
    if (failed)
        out_of_memory(c);
    else if (json_array_size(report.changes) > 0 || down)
        overlay_send(c, c->parent, &control_up[CONTROL_STATE], &report);
    json_decref(report.changes);
}

/* Publish one event for all groups with this state. */
static void publish(core_t *c, enum rank_state state, const idset_t *ranks)
{
    struct overlay_state body = {.state = sessmap_state_name(state)};
    char *text = idset_format(ranks, 0);
    char *json;

    sessmap_change(c->map, ranks, state);
    body.ranks = text;
    body.map = sessmap_number(c->map);
    if (text && (json = flux_schema_encode(&overlay_state_schema, &body))) {
        event_publish_json(c, "overlay.state", json);
        free(json);
    }
    free(text);
}

static void apply(core_t *c, struct list_node *groups)
{
    static const char *const why[RANK_NSTATES] = {
        [RANK_JOINING] = "it was welcomed, and is not ready yet",
        [RANK_UP] = "it was heard again",
        [RANK_SLOW] = "nothing is heard from it",
        [RANK_DRAINING] = "it is about to leave",
        [RANK_LOST] = "it was lost before it was ready",
    };
    idset_t *all = NULL;

    LIST_FOREACH(it, groups)
    {
        const struct group *g = list_entry(it, struct group, node);
        const struct group *next =
            it->next == groups ? NULL : list_entry(it->next, struct group, node);

        live_verdict(c, g->ranks, g->state, g->by, why[g->state]);
        if ((!all && !(all = idset_create())) || idset_add(all, g->ranks) < 0)
            out_of_memory(c);
        if (next && next->state == g->state)
            continue;
        if (all)
            publish(c, g->state, all);
        idset_destroy(all);
        all = NULL;
    }
}

static void report(core_t *c, bool down)
{
    struct list_node groups;

    if (c->parent && (!c->parent->up || c->parent->lost))
        return; /* live_again() reports it */
    c->live->last = flux_reactor_now(c->r);
    if (take_news(c, &groups) < 0)
        out_of_memory(c);
    if (core_is_root(c))
        apply(c, &groups);
    else
        send_report(c, &groups, down);
    groups_clear(&groups);
}

static void report_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    report(arg, false);
}

void live_leaving(core_t *c)
{
    core_draining(c);
    report(c, true);
}

void live_input(core_t *c, const idset_t *ranks, const struct overlay_change *change)
{
    enum rank_state state = sessmap_state_find(change->state);

    if (state != RANK_JOINING && state != RANK_UP && state != RANK_SLOW && state != RANK_DRAINING &&
        state != RANK_LOST) {
        core_log(c, LOG_ERR, "rank %u got a report of ranks in the invalid state %.20s",
                 c->cfg.rank, change->state);
        return;
    }
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r))
        live_note(c, r, state, change->by);
}

/* --- the record of the root --- */

void live_verdict(core_t *c, const idset_t *ranks, enum rank_state state, uint32_t by,
                  const char *why)
{
    char *text = idset_format(ranks, 0);

    if (!text || verdicts_add(c->live->verdicts, flux_reactor_wall(c->r), text, state, by, why) < 0)
        out_of_memory(c);
    free(text);
}

json_t *live_verdicts(const core_t *c)
{
    return c->live->verdicts ? verdicts_list(c->live->verdicts) : json_array();
}

/* --- start and end --- */

int live_init(core_t *c)
{
    struct live *l = c->live = calloc(1, sizeof(*l));

    if (!l || !(l->notes = hmap_create_u64(free)) ||
        !(l->timer = flux_timer_create(c->r, report_cb, c)) ||
        (core_is_root(c) && !(l->verdicts = verdicts_create())))
        return -1;
    l->last = flux_reactor_now(c->r) - c->cfg.beat;
    return 0;
}

void live_destroy(core_t *c)
{
    if (!c->live)
        return;
    flux_watcher_destroy(c->live->timer);
    hmap_destroy(c->live->notes);
    verdicts_destroy(c->live->verdicts);
    free(c->live);
    c->live = NULL;
}
