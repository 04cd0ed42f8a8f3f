/* core_join.c - how a session begins: brokers join, and report the ranks that are ready.
 *
 * Purpose: a broker sends hello to its parent, and is welcomed or refused.  Then its modules are
 * loaded (core_local_ready()), and it reports its subtree once, when all ranks of the subtree that
 * are not lost are ready.  After REPORT_LATE seconds it reports the ranks that are ready, so that
 * the root can name the missing ones.  When all ranks are ready, the root publishes overlay.run.  A
 * session of N brokers thus starts with 3(N-1) control messages and N-1 events.
 *
 * Quorum: with boot_timeout, which a quorum below the size sets, too, the root waits that time for
 * all ranks, and then until `quorum` ranks are ready.  It publishes that the other ranks are
 * absent, and begins; they join when they are started.
 *
 * Late ranks: a rank that comes back, or is started late, joins in the same way (core_return.c), at
 * an ancestor if its parent is dead (core_late.c), and so does an orphan, whose hello names the
 * ranks below it (core_heal.c).
 *
 * Flapping: a child that joins the running session and is lost within BOUNCE_STAY seconds, more
 * than BOUNCES_FREE times in a row, is held off: its next welcome has to wait, each time twice as
 * long. Each join and each loss of a rank costs the whole session events and work of its services.
 *
 * Second brokers: a child whose rank is up below another broker waits until the loss of that one is
 * announced, since it may have died.  If that is not announced within a part of join_timeout, the
 * two of them live, and the child is refused.  A second root has no parent: if the successor on the
 * ring is connected to the first one, it refuses the second one, which shuts down.
 *
 * Invariants:
 *  1. `up` and `lost` are disjoint.
 *  2. A child is welcomed once for each time that it connects: a child that is up is not welcomed.
 *
 * Failure: a broker whose hello is refused, or not answered within join_timeout, shuts down.  The
 * root logs the ranks that have not joined by then, and keeps waiting.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control_wire.h"
#include "core_private.h"
#include "libutil/invariant.h"

#define REPORT_LATE 2.
#define BOUNCE_STAY 10. /* seconds after which a rank that has joined is not flapping */
#define BOUNCES_FREE 3  /* losses in a row without a delay; later ones delay the next welcome ... */
#define BOUNCE_DELAY 1. /* ... by this number of seconds, twice as long each time ... */
#define BOUNCE_DOUBLINGS 5 /* ... up to this number of doublings; shorter than join_timeout */
#define TAKEN_PART 6 /* of join_timeout: time for a broker of the same rank to be found dead */
#define PROTOCOL_VERSION 1

struct join {
    flux_watcher_t *timer;
    flux_watcher_t *report_timer;
    flux_watcher_t *boot_timer;   /* timer of the root */
    flux_watcher_t *bounce_timer; /* a child that is held off may be welcomed */
    flux_watcher_t *taken_timer;  /* a child of a rank that is up elsewhere is refused */
    bool boot_over;               /* boot_timeout has passed */
    bool local_ready;
    uint32_t vacant; /* ranks of this subtree that have no host when the session begins */
    bool report_now; /* late: report without waiting for the whole subtree */
};

/* --- readiness --- */

/* Returns whether every rank of this subtree that the session begins with is ready or lost. */
static bool subtree_complete(core_t *c)
{
    return idset_count(c->up) + idset_count(c->lost) + c->join->vacant >=
           topology_subtree_count(c->topo, c->cfg.rank);
}

/* Count the ranks of this subtree that the session begins without. */
static int count_vacant(core_t *c)
{
    idset_t *below;

    if (c->cfg.expected == 0 || c->cfg.expected >= c->cfg.size)
        return 0;
    if (!(below = topology_subtree(c->topo, c->cfg.rank)))
        return -1;
    for (uint32_t r = idset_first(below); r != IDSET_NONE; r = idset_next(below, r))
        c->join->vacant += r >= c->cfg.expected;
    idset_destroy(below);
    return 0;
}

/* The root: all others are ready.  Say that these ranks are absent, but for those that are ready as
 * well.  Returns whether there are some; then check_run() is called again. */
static bool begin_without_vacant(core_t *c)
{
    idset_t *vacant = idset_create_range(c->cfg.expected, c->cfg.size - 1);
    bool some = false;

    c->join->vacant = 0;
    if (vacant && idset_subtract(vacant, c->up) == 0) {
        some = !idset_empty(vacant);
        overlay_ranks_lost(c, vacant, RANK_ABSENT, c->cfg.rank, "it has no host yet");
    } else
        core_log(c, LOG_ERR, "rank 0 is out of memory to say which ranks have no host yet");
    idset_destroy(vacant);
    return some;
}

/* The root, after boot_timeout: begin without the missing ranks if enough ranks are ready. */
static void begin_without(core_t *c)
{
    idset_t *absent;

    if (!c->join->boot_over || !c->join->local_ready || idset_count(c->up) < c->cfg.quorum)
        return;
    c->join->vacant = 0;
    absent = idset_create_range(0, c->cfg.size - 1);
    if (absent && idset_subtract(absent, c->up) == 0 && idset_subtract(absent, c->lost) == 0)
        overlay_ranks_lost(c, absent, RANK_ABSENT, c->cfg.rank,
                           "it has not joined within boot.timeout"); /* checks again */
    idset_destroy(absent);
}

bool join_lacks_ranks(const core_t *c)
{
    return core_is_root(c) && c->state == CORE_WIRED && c->join->boot_over;
}

/* The root: let the session run when all ranks that are not lost are ready. */
static void check_run(core_t *c)
{
    struct overlay_run body = {idset_count(c->up)};
    char *json;

    if (!core_is_root(c) || c->state != CORE_WIRED)
        return;
    if (!subtree_complete(c)) {
        begin_without(c);
        return;
    }
    if (c->join->vacant > 0 && begin_without_vacant(c))
        return;
    core_set_state(c, CORE_READY);
    if ((json = flux_schema_encode(&overlay_run_schema, &body)))
        event_publish_json(c, "overlay.run", json);
    free(json);
}

/* There was no memory for the report. */
static void report_again(core_t *c)
{
    if (c->state < CORE_DOWN)
        flux_timer_start(c->join->report_timer, REPORT_LATE, 0.);
}

void join_report(core_t *c)
{
    char *ranks, *keys, *cards, *again;

    if (c->state == CORE_JOIN || idset_empty(c->unreported))
        return;
    if (core_is_root(c)) {
        idset_subtract(c->unreported, c->unreported);
        check_run(c);
        return;
    }
    if (!(subtree_complete(c) || c->join->report_now) || c->parent->lost || !c->parent->up)
        return;
    if (!(ranks = idset_format(c->unreported, 0))) {
        report_again(c);
        return;
    }
    keys = keys_text(c, c->unreported);
    cards = cards_text(c, c->unreported);
    again = stale_again_text(c, c->unreported);
    struct control_text t = {.ranks = ranks, .keys = keys, .cards = cards, .again = again};
    if (overlay_send(c, c->parent, &control_up[CONTROL_READY], &t) == 0) {
        stale_named(c, c->unreported, false);
        idset_subtract(c->unreported, c->unreported);
    } else if (errno == ENOMEM) {
        report_again(c);
    }
    free(ranks);
    free(keys);
    free(cards);
    free(again);
    if (c->state == CORE_WIRED && subtree_complete(c))
        core_set_state(c, CORE_READY);
}

void join_lost(core_t *c)
{
    join_report(c);
    /* The lost ranks may have been the last that were not ready. */
    check_run(c);
}

int join_ready(core_t *c, const idset_t *ranks, const idset_t *again)
{
    idset_t *back = idset_intersect(ranks, c->lost);
    bool noted = back && stale_note(c, ranks, again) == 0 && idset_add(c->unreported, ranks) == 0 &&
                 idset_subtract(c->lost, back) == 0;

    if (!noted || idset_add(c->up, ranks) < 0) {
        core_log(c, LOG_ERR, "rank %u is out of memory to note ready ranks", c->cfg.rank);
        if (noted)
            (void)idset_add(c->lost, back);
        idset_destroy(back);
        return -1;
    }
    INVARIANT(1, !idset_intersects(c->up, c->lost));
    heal_here(c, ranks);
    live_ready(c, ranks);
    if (core_is_root(c)) {
        sessmap_change(c->map, ranks, RANK_UP);
        live_verdict(c, ranks, RANK_UP, c->cfg.rank, "it is ready");
        if (back)
            return_publish(c, back);
        if (c->up_cb)
            c->up_cb(c->up_arg);
    }
    idset_destroy(back);
    join_report(c);
    return 0;
}

void core_on_up(core_t *c, void (*cb)(void *arg), void *arg)
{
    c->up_cb = cb;
    c->up_arg = arg;
}

void core_local_ready(core_t *c)
{
    idset_t *me = idset_create_range(c->cfg.rank, c->cfg.rank);

    c->join->local_ready = true;
    if (!me || join_ready(c, me, NULL) < 0)
        report_again(c);
    idset_destroy(me);
}

static void report_late_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    c->join->report_now = true;
    if (c->join->local_ready && !idset_test(c->up, c->cfg.rank))
        core_local_ready(c); /* there was no memory */
    else
        join_report(c);
}

void join_run(core_t *c)
{
    if (c->state >= CORE_RUN || c->state <= CORE_JOIN)
        return;
    flux_watcher_stop(c->join->timer);
    flux_watcher_stop(c->join->report_timer);
    flux_watcher_stop(c->join->boot_timer);
    c->join->report_now = true;
    core_set_state(c, CORE_RUN);
    stale_run(c);
    late_run(c);
    live_begin(c);
    join_report(c); /* a report that would have been late */
    return_runs(c);
}

/* --- hellos of children --- */

void join_hello_again(core_t *c, struct peer *p)
{
    flux_msg_t *hello = p->hello;

    p->hello = NULL;
    if (hello)
        overlay_control(c, p, hello);
    flux_msg_destroy(hello);
}

void join_bounced(core_t *c, struct peer *p)
{
    double now = flux_reactor_now(c->r);
    unsigned n;

    if (c->state != CORE_RUN || p->joined <= 0. || now - p->joined >= BOUNCE_STAY) {
        p->bounces = 0;
        p->not_before = 0.;
        return;
    }
    if (++p->bounces <= BOUNCES_FREE)
        return;
    n = p->bounces - BOUNCES_FREE - 1;
    n = n < BOUNCE_DOUBLINGS ? n : BOUNCE_DOUBLINGS;
    p->not_before = now + BOUNCE_DELAY * (double)(1u << n);
    core_log(c, LOG_WARNING,
             "rank %u is lost again soon after it joined, %u times in a row: it may not join for "
             "%g s: see the messages of its broker for the reason",
             p->rank, p->bounces, p->not_before - now);
}

/* Returns whether the child is held off.  Its hello is then handled later. */
static bool held_off(core_t *c, const struct peer *p)
{
    double wait = p->not_before - flux_reactor_now(c->r);

    if (wait <= 0.)
        return false;
    if (!flux_watcher_active(c->join->bounce_timer))
        flux_timer_start(c->join->bounce_timer, wait, 0.);
    return true;
}

static void bounce_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    for (uint32_t i = 0; i < c->nchildren; i++) {
        if (c->children[i]->not_before > 0.)
            join_hello_again(c, c->children[i]);
    }
}

void join_refuse(core_t *c, struct peer *p, const char *reason, bool elsewhere)
{
    struct control_text t = {.reason = reason, .elsewhere = elsewhere};

    core_log(c, elsewhere ? LOG_DEBUG : LOG_ERR, "rank %u was refused: %s", p->rank, reason);
    overlay_send(c, p, &control_down[CONTROL_REFUSED], &t);
}

/* Returns whether this rank is below another child that is up, and not below `p`: it has moved
 * there after `p` has sent the hello that names it. */
static bool has_left(const core_t *c, const struct peer *p, uint32_t rank)
{
    const topology_t *tree = overlay_tree(c);
    const struct peer *q =
        hmap_get_u64(c->child_by_rank, topology_next_hop(tree, c->cfg.rank, rank));

    return q && q != p && q->up && !topology_is_ancestor(tree, p->rank, rank);
}

/* These ranks are below this child now, so requests that came from them through another child are
 * forgotten.  Their services get a notice before they get a new request of these senders, even if
 * the death of the other child is not detected.  The other child may be one of these ranks: then it
 * has lost its connection to this one, after that has sent its hello, and nothing is forgotten. */
static void forget_elsewhere(core_t *c, const struct peer *p, const char *below)
{
    idset_t *ranks = idset_parse(below, NULL);

    for (uint32_t r = ranks ? idset_first(ranks) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(ranks, r)) {
        if (has_left(c, p, r))
            (void)idset_clear(ranks, r);
    }
    for (uint32_t i = 0; ranks && i < c->nchildren; i++) {
        struct peer *q = c->children[i];

        if (q != p && !q->former && /* which is still answered */
            !(q->up && idset_test(ranks, q->rank)))
            inflight_forget_ranks(c, &q->from, ranks);
    }
    idset_destroy(ranks);
}

static void note_keys(core_t *c, const struct control_hello *h)
{
    idset_t *ranks = h->below ? idset_parse(h->below, NULL) : idset_create_range(h->rank, h->rank);

    if (ranks)
        keys_note(c, ranks, h->keys);
    idset_destroy(ranks);
}

/* Returns whether the session counts this rank as up below another broker. */
static bool is_elsewhere(const core_t *c, uint32_t rank)
{
    uint32_t at = topology_parent(overlay_tree(c), rank);

    return c->state == CORE_RUN && at != c->cfg.rank && !census_is_gone(c, rank) &&
           !census_is_gone(c, at) && !(c->pending && idset_test(c->pending, rank));
}

/* Keep the hello of a child that has to wait. */
static void keep_hello(core_t *c, struct peer *p, const struct control_hello *h,
                       const flux_msg_t *msg)
{
    flux_msg_destroy(p->hello);
    p->hello = flux_msg_incref(msg);
    if (h->below || c->cfg.join_timeout <= 0.)
        return;
    if (p->waits_since <= 0.)
        p->waits_since = flux_reactor_now(c->r);
    if (!flux_watcher_active(c->join->taken_timer))
        flux_timer_start(c->join->taken_timer, c->cfg.join_timeout / TAKEN_PART, 0.);
}

static void taken_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    double oldest = flux_reactor_now(r) - c->cfg.join_timeout / TAKEN_PART;
    bool more = false;
    errmsg_t why;

    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if (!p->hello || p->waits_since <= 0.)
            continue;
        if (p->waits_since > oldest || !is_elsewhere(c, p->rank)) {
            more = true;
            continue;
        }
        flux_msg_destroy(p->hello);
        p->hello = NULL;
        p->refused = true;
        errmsg_set(&why, "rank %u is up below rank %u: stop one of its two brokers", p->rank,
                   topology_parent(overlay_tree(c), p->rank));
        join_refuse(c, p, why.text, false);
    }
    if (more)
        flux_timer_start(w, c->cfg.join_timeout / TAKEN_PART / 4., 0.);
}

/* Returns whether it is too early to welcome this child, which is not expected.  `late`: its place
 * is below another broker. */
static bool must_wait(core_t *c, struct peer *p, const struct control_hello *h, bool late)
{
    bool pending = !h->below && c->pending && idset_test(c->pending, p->rank);
    bool elsewhere = !h->below && is_elsewhere(c, p->rank);

    return (!h->below && held_off(c, p)) || return_must_wait(c, p, h->below) ||
           ((late || pending || elsewhere) && late_must_wait(c, p)) ||
           (h->below && heal_must_wait(c, p));
}

void join_hello_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_hello *h = in;
    struct control_welcome n = {.seq = core_event_seq(c),
                                .session = c->session,
                                .state = core_session_runs(c) ? CORE_RUN : c->state,
                                .above = c->cards};
    bool own = topology_parent(c->topo, p->rank) == c->cfg.rank;
    bool late = !h->below && !own, elsewhere = false, unsent;
    bool expected = h->below && h->guest && restore_expects(c, p->rank);
    errmsg_t why;

    if (c->state == CORE_JOIN) {
        flux_msg_destroy(p->hello);
        p->hello = flux_msg_incref(msg);
        return;
    }
    if (h->version != PROTOCOL_VERSION)
        errmsg_set(&why,
                   "it uses version %d of the protocol, and rank %u uses version %d: start the "
                   "same version of Flux at all ranks",
                   h->version, c->cfg.rank, PROTOCOL_VERSION);
    else if (h->rank != p->rank)
        errmsg_set(&why, "it claims to be rank %u: use the same configuration at all ranks",
                   h->rank);
    else if (h->size != c->cfg.size || strcmp(h->topology, topology_spec(c->topo)) != 0)
        errmsg_set(&why,
                   "it was started with size %u and topology %.40s, not %u and %.40s: all brokers "
                   "of a session need the same configuration",
                   h->size, h->topology, c->cfg.size, topology_spec(c->topo));
    else if (h->below && h->session != c->session)
        errmsg_set(&why, "it belongs to another session, or to an earlier start of this one");
    else if (c->state >= CORE_DOWN) {
        errmsg_set(&why, c->alone ? "this broker leaves" : "the session is shutting down");
        elsewhere = c->alone;
    } else if (p->up || p->lost || p->gone)
        errmsg_set(&why, "a rank cannot join twice: stop one of its two brokers");
    else if (late && !late_accepts(c, p, &why))
        elsewhere = true;
    else if (h->guest && !expected)
        errmsg_set(&why, "rank %u does not expect it any longer", c->cfg.rank);
    else if (h->below && !heal_accepts(c, p, h, &why))
        elsewhere = !heal_now(c) || heal_doubts(c, p->rank);
    else if (admit_waits(c, p, h, msg))
        return;
    else if (expected ? !p->event_up : must_wait(c, p, h, late)) {
        keep_hello(c, p, h, msg);
        return;
    } else {
        p->up = !expected;
        p->absent = p->leaving = p->former = false;
        admit_forget(p);
        third_forget(p);
        p->awaits = h->awaited;
        p->joined = core_session_runs(c) ? flux_reactor_now(c->r) : 0.;
        note_keys(c, h);
        if (late)
            late_take(c, p);
        errno = 0;
        n.moved = moves_list(c);
        n.incarnations = h->below ? NULL : census_list(c);
        unsent = errno == ENOMEM ||
                 (overlay_send(c, p, &control_down[CONTROL_WELCOME], &n) < 0 && errno == ENOMEM);
        json_decref(n.moved);
        json_decref(n.incarnations);
        if (unsent && !h->below) { /* a broker that joins ends when its connection does */
            p->up = p->broken = false;
            broken_hello(c, p, msg);
            return;
        }
        if (unsent)
            broken_note(c, p);
        offer_tell(c);
        if (expected)
            restore_hello(c, p, h);
        else if (h->below) {
            forget_elsewhere(c, p, h->below);
            heal_take_over(c, p, h);
        } else if (core_session_runs(c))
            live_note(c, p->rank, RANK_JOINING, c->cfg.rank);
        p->waited = false;
        route_held(c, p);
        return;
    }
    p->refused = h->below;
    join_refuse(c, p, why.text, elsewhere);
}

void core_rank_taken(core_t *c, uint32_t by)
{
    if (!core_is_root(c) || c->state >= CORE_RUN)
        return;
    core_log(c, LOG_CRIT,
             "rank %u does not begin a session: rank %u is in one with another broker of rank %u, "
             "which is up: stop one of the two",
             c->cfg.rank, by, c->cfg.rank);
    overlay_shutdown(c, 1, "another broker of this rank is up");
}

/* --- the hello of this broker --- */

void join_fill_hello(core_t *c, struct control_hello *h)
{
    *h = (struct control_hello){.rank = c->cfg.rank,
                                .size = c->cfg.size,
                                .topology = topology_spec(c->topo),
                                .version = PROTOCOL_VERSION,
                                .awaited = offer_in_hello(c),
                                .host = c->cfg.host,
                                .keys = core_key_of(c, c->cfg.rank)};
}

/* Handle the welcome; `seq`: the last event before this broker joined. */
static void wired(core_t *c, uint64_t seq)
{
    core_set_state(c, CORE_WIRED);
    /* This must precede the welcome of the children, which says where their events begin. */
    event_set_last(c, seq);
    flux_timer_start(c->join->report_timer, REPORT_LATE, 0.);
    /* Report ranks that were lost before there was a parent. */
    overlay_tell_lost(c, c->lost);
    live_again(c);
    offer_again(c);
    for (uint32_t i = 0; i < c->nchildren; i++)
        join_hello_again(c, c->children[i]);
    route_held(c, &c->ring_next);
    if (c->parent)
        route_held(c, c->parent);
    service_welcomed(c);
    join_report(c);
}

void join_welcome_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_welcome *n = in;

    if (p == c->second) {
        change_welcomed(c, n);
        return;
    }
    if (c->healing) {
        heal_over(c, n);
        return;
    }
    if (c->state != CORE_JOIN)
        return;
    p->up = true;
    c->session = n->session;
    flux_watcher_stop(c->join->timer);
    c->ring_next.up = c->ring_prev.up = c->cfg.size > 1;
    /* The session does not wait for the ranks below this one. */
    c->joined_late = c->join->report_now = n->state == CORE_RUN;
    if (c->joined_late)
        heal_late(c);
    census_take(c, n->incarnations);
    heal_welcomed(c, n->above, n->moved);
    late_welcomed(c);
    wired(c, n->seq);
}

void join_refused_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_text *t = in;

    if (p == c->second) {
        change_refused(c, t->reason);
        return;
    }
    /* After the welcome this message is an error: another broker has used the name of this one. */
    if (c->state != CORE_JOIN && !c->healing)
        return;
    if (t->elsewhere && c->healing) {
        heal_next(c, t->reason);
        return;
    }
    if (t->elsewhere && late_next(c))
        return;
    core_log(c, LOG_CRIT, "rank %u was refused by its parent, rank %u: %s", c->cfg.rank, p->rank,
             t->reason);
    if (c->healing)
        overlay_counted_lost(c, "the broker above has lost its parent");
    else
        overlay_shutdown(c, 1, t->reason);
}

/* --- start and end --- */

static void boot_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    c->join->boot_over = true;
    late_missing(c);
    check_run(c);
}

static void join_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    if (core_is_root(c)) {
        idset_t *all = idset_create_range(0, c->cfg.size - 1);
        char *text = NULL;
        if (all && idset_subtract(all, c->up) == 0)
            text = idset_format(all, 0);
        const char *s = all && idset_count(all) == 1 ? "" : "s";
        if (c->cfg.boot_timeout > 0.)
            core_log(c, LOG_ERR,
                     "still waiting after %.0f s for rank%s %s: the session begins when at least "
                     "%u of its ranks are up (quorum), and %g s have passed%s",
                     c->cfg.join_timeout, s, text ? text : "?", c->cfg.quorum, c->cfg.boot_timeout,
                     c->cfg.boot_default ? "" : " (boot.timeout)");
        else
            core_log(c, LOG_ERR,
                     "still waiting after %.0f s for rank%s %s: with the attribute boot.timeout or "
                     "quorum a session begins without some of its ranks",
                     c->cfg.join_timeout, s, text ? text : "?");
        free(text);
        idset_destroy(all);
        return;
    }
    core_log(c, LOG_CRIT,
             "rank %u got no welcome from its parent, rank %u, within %.0f s (join.timeout): "
             "giving up",
             c->cfg.rank, topology_parent(c->topo, c->cfg.rank), c->cfg.join_timeout);
    overlay_shutdown(c, 1, "no welcome");
}

int core_start(core_t *c)
{
    struct control_hello h;
    bool elsewhere;

    if (c->started || !c->link) {
        errno = EINVAL;
        return -1;
    }
    c->started = true;
    if (c->cfg.join_timeout > 0.)
        flux_timer_start(c->join->timer, c->cfg.join_timeout, 0.);
    keys_begin(c);
    cards_begin(c);
    if (core_is_root(c)) {
        c->ring_next.up = c->ring_prev.up = c->cfg.size > 1;
        if (c->cfg.boot_timeout > 0.)
            flux_timer_start(c->join->boot_timer, c->cfg.boot_timeout, 0.);
        heal_welcomed(c, NULL, NULL);
        wired(c, core_event_seq(c));
        return 0;
    }
    join_fill_hello(c, &h);
    elsewhere = late_begin(c);
    return overlay_send(c, c->parent, &control_up[CONTROL_HELLO], &h) == 0 || elsewhere ? 0 : -1;
}

void join_stop(core_t *c)
{
    flux_watcher_stop(c->join->timer);
    flux_watcher_stop(c->join->boot_timer);
    flux_watcher_stop(c->join->bounce_timer);
    flux_watcher_stop(c->join->taken_timer);
}

int join_init(core_t *c)
{
    struct join *j = c->join = calloc(1, sizeof(*j));

    return j && (j->timer = flux_timer_create(c->r, join_timer_cb, c)) &&
                   (j->report_timer = flux_timer_create(c->r, report_late_cb, c)) &&
                   (j->boot_timer = flux_timer_create(c->r, boot_timer_cb, c)) &&
                   (j->bounce_timer = flux_timer_create(c->r, bounce_timer_cb, c)) &&
                   (j->taken_timer = flux_timer_create(c->r, taken_timer_cb, c)) &&
                   count_vacant(c) == 0
               ? 0
               : -1;
}

void join_destroy(core_t *c)
{
    struct join *j = c->join;

    if (!j)
        return;
    flux_watcher_destroy(j->timer);
    flux_watcher_destroy(j->report_timer);
    flux_watcher_destroy(j->boot_timer);
    flux_watcher_destroy(j->bounce_timer);
    flux_watcher_destroy(j->taken_timer);
    free(j);
}
