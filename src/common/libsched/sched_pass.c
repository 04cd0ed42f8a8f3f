/* sched_pass.c - one pass over the queue, in slices.
 *
 *    phase      what happens                                             then (by)
 *    IDLE       every `reorder` seconds, priorities are computed again   ORDER (pass_begin)
 *    ORDER      jobs one by one from the front: each starts, or the      WHOLE at once, if its
 *               policy decides on a reservation for it, until it says    engine can do the pass
 *               BACKFILL or STOP                                         (sched_pass); BACKFILL
 *                                                                        (begin_backfill); IDLE
 *    WHOLE      the engine for whole nodes decides (sched_alike.c)       IDLE
 *    BACKFILL   the shapes that could have room, in a heap by their      IDLE (sched_pass_end)
 *               next job: a job starts if it fits and touches no
 *               reservation, or if reservations can have other nodes
 *               (sched_swap.c: one, sched_exchange.c: several)
 *
 * The front of the queue is thus searched by job, the rest by shape.  If a job does not fit, no job
 * of its shape with the same or a longer duration is tried.  A shape that does not fit at all is
 * not tried again until something becomes free.
 *
 * Reservations persist between passes (except with replan).  A confirmed reservation only ever
 * moves to an earlier time, so no job behind can delay it.  If nodes go down, jobs of higher
 * priority arrive or jobs overrun their time, the jobs behind lose their reservations.
 *
 * A job that would end after the resources expire is skipped in any case, and its reservation is
 * canceled.
 *
 * Invariant 1: the phase changes by the transitions of `moves` only.
 *
 * Failure: a job is left for the next pass if memory for it, or for the response about it, is
 * short.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/invariant.h"
#include "sched_private.h"
#include "sched_whole_private.h"

enum tried { STARTED, NO_ROOM, LATER };

/* --- beginning and end --- */

static const struct transition moves[] = {
    {PHASE_IDLE, PHASE_ORDER, "pass_begin"},
    {PHASE_ORDER, PHASE_WHOLE, "sched_pass"},
    {PHASE_ORDER, PHASE_BACKFILL, "begin_backfill"},
    {PHASE_ORDER, PHASE_IDLE, "sched_pass_end"},
    {PHASE_WHOLE, PHASE_IDLE, "sched_pass_end"},
    {PHASE_BACKFILL, PHASE_IDLE, "sched_pass_end"},
    {PHASE_IDLE, PHASE_IDLE, "sched_pass_end"}, /* by callers that need the pass to be over */
    TRANSITION_END,
};

static void set_phase(sched_t *s, enum phase phase)
{
    TRANSITION(1, moves, s->phase, phase);
    s->phase = phase;
}

void sched_pass_end(sched_t *s)
{
    struct claim *c;

    set_phase(s, PHASE_IDLE);
    s->nheap = 0;
    sched_exchange_forget(s);
    if (s->whole)
        sched_whole_abort(s->whole);
    while ((c = s->later)) {
        s->later = c->later;
        sched_release(s, c);
    }
    if (s->empty_shapes) {
        LIST_FOREACH_SAFE(it, tmp, &s->all_shapes)
        {
            struct shape *sh = list_entry(it, struct shape, link);

            if (sh->njobs == 0)
                sched_shape_destroy(s, sh);
        }
        s->empty_shapes = false;
    }
}

static void pass_begin(sched_t *s, double now)
{
    set_phase(s, PHASE_ORDER);
    s->dirty = false;
    s->now = now;
    s->pass++;
    s->moved_before = s->moved_seen;
    s->moved_seen = s->moved;
    s->cursor_set = false;
    s->pass_reserved = 0;
    s->too_late = SCHED_NEVER;
    s->stopped = 0;
    s->nmissed = 0;
    s->stats.passes++;
    for (size_t i = s->nreserved; i-- > 0 && s->expiration < SCHED_NEVER;) {
        struct claim *c = s->reserved[i];

        if (sched_job_late(s, c->job, c->start > now ? c->start : now)) {
            sched_reservation_cancel(s, c->job);
            s->moved++;
        }
    }
    if (sched_builtin_replans(s->queue))
        sched_reservation_cancel_all(s);
}

/* --- one job --- */

static bool admitted(sched_t *s, struct job *j)
{
    const struct sched_queue_policy *q = s->queue->queue;
    struct sched_plugin_job view;
    const char *why = NULL;
    int rc = 1;

    if (q->admit && !s->no_admit) {
        sched_job_view(j, &view);
        if ((rc = q->admit(s->queue_state, &view, s->now, &why)) < 0) {
            s->no_admit = true;
            s->stats.fallbacks++;
            sched_say(s, "queue policy %s could not say whether job %ju may start: all may",
                      s->queue->name, (uintmax_t)j->id);
        }
    }
    free(j->refused);
    j->refused = NULL;
    if (rc == 0 && !(j->refused = strdup(why ? why : "the policy does not let it start yet")))
        return false;
    return rc != 0;
}

int sched_pass_start(sched_t *s, struct job *j, struct claim *c, const struct sched_ops *ops)
{
    rset_t *R = c ? sched_claim_rset(s->map, c) : NULL;
    double end = j->no_limit ? 0. : s->now + j->duration;
    uint64_t id = j->id;

    if (!R || sched_hold(s, c) < 0) {
        rset_destroy(R);
        sched_claim_destroy(c);
        return -1;
    }
    /* A job without a limit ends when the resources expire. */
    rset_set_times(R, s->now, end > 0. ? end : sched_expiration(s));
    sched_job_destroy(s, j);
    s->stats.started++;
    s->change++;
    s->work += 50 + 10 * c->npieces; /* the estimated work of the callee */
    ops->alloc(id, R, s->now, end, ops->arg);
    return 0;
}

static enum tried start(sched_t *s, struct job *j, struct claim *c, const struct sched_ops *ops)
{
    return sched_pass_start(s, j, c, ops) == 0 ? STARTED : LATER;
}

static enum tried try_start(sched_t *s, struct job *j, const struct sched_ops *ops)
{
    struct span sp = {.from = s->now,
                      .to = s->now + j->duration,
                      .now = s->now,
                      .nreserved = SIZE_MAX,
                      .own = j->reserved};
    size_t n;

    s->stats.decisions++;
    if ((n = sched_select_now(s, j->shape, j, &sp)) == 0) {
        if (s->nreserved == 0 || (s->nreserved == 1 && j->reserved))
            j->shape->grown = s->grown;
        return NO_ROOM;
    }
    if (!admitted(s, j))
        return LATER;
    return start(s, j, sched_select_claim(s, j, n, &sp), ops);
}

/* The start of the job's reservation has come, perhaps some time ago: start the job on the reserved
 * nodes if they are free, although it then ends later by that time. */
static enum tried start_reserved(sched_t *s, struct job *j, const struct sched_ops *ops)
{
    struct claim *c = j->reserved;

    if (!c || c->start > s->now + SCHED_EPSILON || c->start < s->now - SCHED_OVERDUE ||
        !sched_map_room(s->map, c))
        return NO_ROOM;
    if (!admitted(s, j))
        return LATER;
    sched_reservation_take(s, j);
    c->start = s->now;
    c->end = s->now + j->duration;
    return start(s, j, c, ops);
}

void sched_pass_deny(sched_t *s, struct job *j, const struct sched_ops *ops)
{
    errmsg_t err = {"it requests more than there is"};
    uint64_t id = j->id;

    resgraph_satisfiable(s->map->graph, &j->shape->req, &err);
    sched_job_destroy(s, j);
    s->stats.denied++;
    s->change++;
    ops->deny(id, err.text, ops->arg);
}

/* --- the front of the queue --- */

static enum sched_blocked ask_blocked(sched_t *s, const struct job *j)
{
    const struct sched_queue_policy *q = s->queue->queue;
    struct sched_plugin_job view;
    enum sched_blocked b;

    if (!q->blocked || s->no_blocked)
        return sched_builtin_blocked(s->pass_reserved);
    sched_job_view(j, &view);
    b = q->blocked(s->queue_state, &view, s->pass_reserved, s->now);
    if (b >= SCHED_BLOCKED_STOP && b <= SCHED_BLOCKED_BACKFILL)
        return b;
    s->no_blocked = true;
    s->stats.fallbacks++;
    sched_say(s, "queue policy %s could not say what happens behind job %ju: as with easy",
              s->queue->name, (uintmax_t)j->id);
    return sched_builtin_blocked(s->pass_reserved);
}

/* A job that has no reservation because it would start too late has lost its place: it takes only
 * resources that the reservations of jobs behind it leave. */
static bool lost_place(const sched_t *s, const struct job *j)
{
    return !j->reserved && sched_job_bounded(s, j) && j->too_late_for == s->expiration;
}

/* Has the job a reservation for later, and has nothing happened since the last search that could
 * let the job start before that? */
static bool keeps(const sched_t *s, const struct job *j)
{
    const struct claim *c = j->reserved;

    return c && c->start > s->now + SCHED_EPSILON && c->moved == s->moved;
}

/* Give the job a reservation, keep it, or find an earlier one. */
static void reserve(sched_t *s, struct job *j)
{
    struct claim *c = j->reserved;
    double limit = SCHED_NEVER;
    double when;
    size_t n;

    if (keeps(s, j)) {
        c->pass = s->pass;
        return;
    }
    if (c && c->start > s->now + SCHED_EPSILON)
        limit = c->start - SCHED_EPSILON;
    else if (!lost_place(s, j))
        sched_reservation_cancel_behind(s, j);
    if ((n = sched_plan_find(s, j, c, limit, &when)) > 0 &&
        sched_reservation_add(s, j, n, when) == 0)
        s->change++;
    else if (limit == SCHED_NEVER)
        sched_reservation_cancel(s, j);
    if (sched_exchange_could(s, j) && sched_exchange_reserve(s, j))
        s->change++;
    if (j->reserved) {
        j->reserved->pass = s->pass;
        j->reserved->moved = s->moved;
    } else if (sched_job_bounded(s, j))
        j->too_late_for = s->expiration;
}

static bool reserved_behind(const sched_t *s, const struct job *j)
{
    for (size_t i = 0; i < s->nreserved; i++) {
        if (sched_tree_before(sched_tree_key(&j->order),
                              sched_tree_key(&s->reserved[i]->job->order)))
            return true;
    }
    return false;
}

/* The reservations of jobs behind this one do not count if it has no reservation, or its start has
 * come: try again without them. */
static enum tried try_again(sched_t *s, struct job *j, const struct sched_ops *ops)
{
    struct span sp = {.from = s->now, .to = s->now + j->duration, .now = s->now, .alone = true};

    if (lost_place(s, j) || (j->reserved && j->reserved->start > s->now + SCHED_EPSILON))
        return NO_ROOM;
    if (!reserved_behind(s, j) || sched_select_now(s, j->shape, NULL, &sp) == 0)
        return NO_ROOM;
    sched_reservation_cancel_behind(s, j);
    return try_start(s, j, ops);
}

/* The job does not fit beside the nodes of several reservations: start it if these can have other
 * nodes.
 */
static enum tried try_exchange(sched_t *s, struct job *j, const struct sched_ops *ops)
{
    struct claim *c;

    if (!sched_exchange_could(s, j) || !sched_exchange_room(s, j))
        return NO_ROOM;
    if (!admitted(s, j))
        return LATER;
    if (!(c = sched_exchange_start(s, j)))
        return NO_ROOM;
    return start(s, j, c, ops);
}

/* The job does not fit beside the only reservation: start it if that reservation can move to other
 * nodes. */
static enum tried try_swap(sched_t *s, struct job *j, const struct sched_ops *ops)
{
    struct span sp = {.from = s->now, .to = s->now + j->duration, .now = s->now, .alone = true};
    struct claim *c;
    size_t n;

    s->exchange.until = s->now;
    if (s->nreserved > 1)
        return try_exchange(s, j, ops);
    if (!sched_swap_could(s, j) || !sched_swap_room(s, j) ||
        (n = sched_select_now(s, j->shape, j, &sp)) == 0 || !sched_swap_leaves(s, n))
        return NO_ROOM;
    if (!admitted(s, j) || !(c = sched_select_claim(s, j, n, &sp)))
        return LATER;
    if (sched_swap(s, c) < 0) {
        sched_claim_destroy(c);
        return NO_ROOM;
    }
    return start(s, j, c, ops);
}

/* Returns 0 to continue with the next job, else the policy's answer. */
static enum sched_blocked look(sched_t *s, struct job *j, const struct sched_ops *ops)
{
    enum sched_blocked b;
    enum tried t;

    if (sched_shape_renew(s, j->shape) < 0)
        return 0;
    if (!j->shape->possible) {
        sched_pass_deny(s, j, ops);
        return 0;
    }
    if (!j->shape->available) {
        sched_why_log_missing(s, j->shape);
        sched_reservation_cancel(s, j);
        return 0;
    }
    t = keeps(s, j) ? NO_ROOM : try_start(s, j, ops);
    if (t == NO_ROOM)
        t = start_reserved(s, j, ops);
    if (t == NO_ROOM && !keeps(s, j))
        t = try_swap(s, j, ops);
    if (t == NO_ROOM)
        t = try_again(s, j, ops);
    if (t != NO_ROOM)
        return 0;
    b = ask_blocked(s, j);
    if (b != SCHED_BLOCKED_RESERVE)
        return b;
    reserve(s, j);
    /* A job that will probably not start in time does not count towards the limit of
     * reservations. */
    if (j->reserved || !sched_job_bounded(s, j))
        s->pass_reserved++;
    return 0;
}

/* Cancel the reservations that this pass has not confirmed. */
static void cancel_unconfirmed(sched_t *s)
{
    for (size_t i = s->nreserved; i-- > 0;) {
        if (s->reserved[i]->pass != s->pass)
            sched_reservation_cancel(s, s->reserved[i]->job);
    }
}

/* --- backfill --- */

static void sift_down(struct candidate *heap, size_t n, size_t i)
{
    struct candidate c = heap[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && sched_tree_before(heap[child + 1].key, heap[child].key))
            child++;
        if (!sched_tree_before(heap[child].key, c.key))
            break;
        heap[i] = heap[child];
    }
    heap[i] = c;
}

static struct job *next_of(const sched_t *s, const struct shape *sh)
{
    double left = s->expiration - s->now + SCHED_EPSILON;
    struct sched_tree_node *a =
        sched_tree_after_light(&sh->jobs, sh->looked, sh->limit < left ? sh->limit : left);
    struct sched_tree_node *b =
        sh->limit >= SCHED_HORIZON ? sched_tree_after(&sh->endless, sh->looked) : NULL;

    return sched_job_among(
        !a || (b && sched_tree_before(sched_tree_key(b), sched_tree_key(a))) ? b : a);
}

/* Put the shapes that could have room into the heap. */
static int begin_backfill(sched_t *s)
{
    uint32_t depth = sched_builtin_depth(s->queue, s->queue_state);
    struct sched_tree_node *stop = NULL;

    set_phase(s, PHASE_BACKFILL);
    s->nheap = 0;
    s->stop = (struct sched_tree_key){SCHED_NEVER, UINT64_MAX};
    /* The cursor is at the second waiting job. */
    if (depth > 0)
        stop = sched_tree_nth(&s->order, sched_tree_place(&s->order, s->cursor) + depth - 1);
    if (stop)
        s->stop = sched_tree_key(stop);
    if (s->heap_room < s->nshapes) {
        struct candidate *more = realloc(s->heap, s->nshapes * 2 * sizeof(*more));

        if (!more) {
            errno = ENOMEM;
            return -1;
        }
        s->heap = more;
        s->heap_room = s->nshapes * 2;
    }
    LIST_FOREACH(it, &s->all_shapes)
    {
        struct shape *sh = list_entry(it, struct shape, link);
        struct job *j;

        if (sched_shape_renew(s, sh) < 0)
            continue;
        if (sh->possible && !sh->available) {
            sched_why_log_missing(s, sh);
            continue;
        }
        if (sh->possible && sched_select_infeasible(s, sh))
            continue;
        sh->looked = s->cursor;
        sh->limit = SCHED_NEVER;
        if (!(j = next_of(s, sh)) || !sched_tree_before(sched_tree_key(&j->among), s->stop))
            continue;
        s->heap[s->nheap].shape = sh;
        s->heap[s->nheap++].key = sched_tree_key(&j->among);
    }
    s->work += s->nshapes / 4;
    for (size_t i = s->nheap / 2; i-- > 0;)
        sift_down(s->heap, s->nheap, i);
    return 0;
}

/* After the job did not fit: the longest duration with which a job of its shape would fit;
 * negative: none. */
static double longest(sched_t *s, const struct job *j)
{
    struct shape *sh = j->shape;
    struct span sp = {.from = s->now, .to = s->now + j->duration, .now = s->now, .alone = true};
    size_t lo = 0;
    size_t hi = 0;

    if (sh->grown == s->grown)
        return -1.;
    if (sched_select_now(s, sh, NULL, &sp) == 0) {
        sh->grown = s->grown;
        return -1.;
    }
    sp.alone = false;
    while (hi < s->nreserved && s->reserved[hi]->start + SCHED_EPSILON < sp.to)
        hi++;
    if (hi == 0)
        return -1.;
    /* It fits with the first `lo` of them, but not with `hi`. */
    while (hi - lo > 1) {
        sp.nreserved = lo + (hi - lo) / 2;
        if (sched_select_now(s, sh, NULL, &sp) > 0)
            lo = sp.nreserved;
        else
            hi = sp.nreserved;
    }
    return s->reserved[lo]->start - s->now;
}

static void backfill_one(sched_t *s, const struct sched_ops *ops)
{
    struct candidate *top = &s->heap[0];
    struct shape *sh = top->shape;
    struct job *j = next_of(s, sh);
    enum tried t;

    if (j && memcmp(&top->key, &(struct sched_tree_key){j->among.a, j->among.b},
                    sizeof(top->key)) == 0) {
        sh->looked = sched_tree_key(&j->among);
        if (!sh->possible)
            sched_pass_deny(s, j, ops);
        else {
            if ((t = try_start(s, j, ops)) == NO_ROOM)
                t = try_swap(s, j, ops);
            if (t == NO_ROOM)
                sh->limit = longest(s, j);
            if (t == NO_ROOM && s->exchange.until - s->now > sh->limit)
                sh->limit = s->exchange.until - s->now;
        }
        j = next_of(s, sh);
    }
    if (j && sched_tree_before(sched_tree_key(&j->among), s->stop))
        top->key = sched_tree_key(&j->among);
    else
        *top = s->heap[--s->nheap];
    if (s->nheap > 0)
        sift_down(s->heap, s->nheap, 0);
}

/* --- the pass --- */

/* The next job that may still start in time. */
static struct sched_tree_node *next_in_order(const sched_t *s)
{
    double left = s->expiration - s->now + SCHED_EPSILON;

    return s->cursor_set ? sched_tree_after_light(&s->order, s->cursor, left)
                         : sched_tree_first_light(&s->order, left);
}

static void go_on(sched_t *s, const struct sched_ops *ops)
{
    if (s->phase == PHASE_WHOLE) {
        if (sched_alike_pass(s, ops))
            sched_pass_end(s);
        return;
    }
    while (s->phase == PHASE_ORDER && s->work < s->budget) {
        struct sched_tree_node *n = next_in_order(s);
        enum sched_blocked b;

        if (!n) {
            cancel_unconfirmed(s);
            sched_pass_end(s);
            return;
        }
        s->cursor = sched_tree_key(n);
        s->cursor_set = true;
        s->work++;
        if ((b = look(s, sched_job_of_order(n), ops)) == 0)
            continue;
        cancel_unconfirmed(s);
        if (b == SCHED_BLOCKED_STOP) {
            struct job *j = sched_job_of_order(n);

            s->stopped = j->id;
            if (sched_job_bounded(s, j))
                s->too_late = sched_job_latest(s, j) + 2. * SCHED_EPSILON;
        }
        if (b == SCHED_BLOCKED_STOP || begin_backfill(s) < 0) {
            sched_pass_end(s);
            return;
        }
    }
    while (s->phase == PHASE_BACKFILL && s->work < s->budget) {
        if (s->nheap == 0) {
            sched_pass_end(s);
            return;
        }
        backfill_one(s, ops);
    }
}

/* The first reservation that begins after the last pass. */
static double next_start(const sched_t *s)
{
    size_t i = sched_reservation_place(s, s->now + SCHED_EPSILON);

    if (s->whole_valid)
        return sched_alike_next(s);
    return i < s->nreserved ? s->reserved[i]->start : -1.;
}

bool sched_pass_wanted(const sched_t *s)
{
    return s->phase != PHASE_IDLE || s->sweep || (s->dirty && s->enabled && s->ready);
}

bool sched_pass(sched_t *s, double now, size_t budget, const struct sched_ops *ops)
{
    double reorder = s->queue->queue->reorder;

    s->work = 0;
    s->budget = budget;
    if (s->phase == PHASE_IDLE) {
        double start = next_start(s);

        if ((start > 0. && start <= now + SCHED_EPSILON) || s->too_late <= now)
            s->dirty = true;
        s->now = now;
        if (reorder > 0. && !s->sweep && !s->no_priority && now >= s->next_sweep) {
            s->sweep = s->all_jobs.next;
            s->next_sweep = now + reorder;
        }
        if (s->sweep && !sched_sweep(s))
            return true;
        if (!sched_pass_wanted(s))
            return false;
        pass_begin(s, now);
        if (sched_alike_begin(s, ops))
            set_phase(s, PHASE_WHOLE);
    }
    s->stats.slices++;
    go_on(s, ops);
    return sched_pass_wanted(s);
}

double sched_pass_next_time(const sched_t *s)
{
    /* A pass that is due already, and may wait until the scheduler is enabled, needs no time. */
    double next = s->dirty ? -1. : next_start(s);

    if (!s->dirty && s->too_late < SCHED_NEVER && (next < 0. || s->too_late < next))
        next = s->too_late;
    if (s->queue->queue->reorder > 0. && !s->no_priority && hmap_count(s->jobs) > 0 &&
        (next < 0. || s->next_sweep < next))
        next = s->next_sweep;
    return next;
}
