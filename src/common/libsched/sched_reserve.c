/* sched_reserve.c - conservative and replan: a reservation for each waiting job.
 *
 * A reservation is a number of nodes from a time on, entered into a profile of free nodes over
 * time.  The nodes themselves are chosen when the job starts.
 *
 * conservative: a pass gives reservations to the jobs that arrived since the last one.  When jobs
 * have ended, a compression moves each reservation, in queue order, to its earliest time, which is
 * never later.  It is skipped if it could not move any: the last compression moved none, and since
 * then no job has ended early and no reservation was removed.
 *
 * conservative:N: only the first N jobs of the queue have a reservation.  A job behind them starts
 * if it can start at once beside the reservations.
 *
 * replan: the same, but each pass makes all reservations anew.
 *
 * Invariants (of conservative, between passes):
 *  1. profile = nodes - running jobs until their estimated ends - reservations.
 *  2. `next` is not later than the first reservation that starts after the last pass.
 *
 * Failure: -1 with ENOMEM; the next pass then builds a new profile (`stale`), as it also does when
 * a job overruns its estimate.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "sched_whole_private.h"

static int hold(sched_whole_t *w, double from, double length, uint32_t nodes, int sign)
{
    if (sched_profile_add(&w->profile, from, from + length, sign * (int64_t)nodes) == 0)
        return 0;
    w->stale = true;
    return -1;
}

void sched_reserve_gone(sched_whole_t *w, const struct sched_whole_job *j)
{
    if (j->start < INFINITY) {
        hold(w, j->start, j->estimate, j->nodes, 1);
        w->stirred = w->ended = true;
    } else
        w->unreserved--;
}

void sched_reserve_ended(sched_whole_t *w, const struct sched_whole_job *j, double now)
{
    if (w->queue_policy == SCHED_WHOLE_REPLAN)
        return;
    sched_profile_advance(&w->profile, now);
    if (j->end > now) {
        if (sched_profile_add(&w->profile, now, j->end, j->nodes) < 0)
            w->stale = true;
        w->stirred = true;
    }
}

/* Build the profile of the running jobs. */
static int only_running(sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;

    if (sched_profile_reset(&w->profile, w->now, sched_place_nfree(w->empty)) < 0)
        return -1;
    for (; (e = sched_line_entry(&w->ends, &at)); sched_line_next(&w->ends, &at)) {
        if (sched_profile_add(&w->profile, w->now, sched_whole_ends(w, e->a), -(int64_t)e->nodes) <
            0)
            return -1;
    }
    return 0;
}

/* Build the profile again: running jobs, and the reservations of waiting jobs. */
static int renew(sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;

    if (only_running(w) < 0)
        return -1;
    w->unreserved = 0;
    for (; (e = sched_line_entry(&w->queue, &at)); sched_line_next(&w->queue, &at)) {
        struct sched_whole_job *j = e->job;

        if (!(j->start < INFINITY))
            w->unreserved++;
        else if (hold(w, j->start, j->estimate, j->nodes, -1) < 0)
            return -1;
    }
    w->stale = false;
    w->stirred = true;
    return 0;
}

/* Reserve the earliest time for the job, but not later than `limit`. */
static int reserve(sched_whole_t *w, struct sched_whole_job *j, double limit)
{
    j->start = sched_profile_find(&w->profile, w->now, j->nodes, j->estimate, limit);
    w->work += 16;
    return hold(w, j->start, j->estimate, j->nodes, -1);
}

static int compress(sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;
    uint32_t left = w->reservations;

    w->stirred = false;
    for (; left > 0 && (e = sched_line_entry(&w->queue, &at)); sched_line_next(&w->queue, &at)) {
        struct sched_whole_job *j = e->job;
        double was = j->start;

        left--;
        if (!(was < INFINITY) || was <= w->now)
            continue;
        if (hold(w, was, j->estimate, j->nodes, 1) < 0 || reserve(w, j, was) < 0)
            return -1;
        w->stirred |= j->start < was;
    }
    return 0;
}

/* Reserve for jobs that have no reservation, up to this number of reservations. */
static int arrivals(sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;
    uint32_t left = w->reservations;
    size_t missing = w->unreserved;

    if (missing == 0)
        return 0;
    /* They are mostly at the end. */
    if (left == UINT32_MAX) {
        const struct sched_line *l = &w->queue;
        size_t back = 0;

        at.block = l->nblock;
        while (at.block > 0 && back < missing) {
            const struct sched_block *k = l->block[--at.block];

            for (uint32_t i = 0; i < k->n; i++) {
                const struct sched_whole_job *j = k->entry[i].job;

                back += !(j->start < INFINITY);
            }
        }
    }
    for (; left > 0 && missing > 0 && (e = sched_line_entry(&w->queue, &at));
         sched_line_next(&w->queue, &at)) {
        struct sched_whole_job *j = e->job;

        left--;
        if (j->start < INFINITY)
            continue;
        if (reserve(w, j, INFINITY) < 0)
            return -1;
        missing--;
        w->unreserved--;
        if (j->start < w->next)
            w->next = j->start;
    }
    return 0;
}

/* Start the jobs whose time has come, and find the time of the next one. */
static int start_due(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;
    uint32_t left = w->reservations;

    w->next = INFINITY;
    while (left > 0 && (e = sched_line_entry(&w->queue, &at))) {
        struct sched_whole_job *j = e->job;

        left--;
        if (j->start > w->now || sched_whole_fits(w, w->place, j, w->now) != 1) {
            if (j->start > w->now && j->start < w->next)
                w->next = j->start;
            sched_line_next(&w->queue, &at);
            continue;
        }
        /* A reservation whose start is slightly in the past begins now. */
        if (j->start < w->now) {
            if (hold(w, j->start, j->estimate, j->nodes, 1) < 0)
                return -1;
            j->start = w->now;
            if (hold(w, j->start, j->estimate, j->nodes, -1) < 0)
                return -1;
        }
        if (sched_whole_select(w, w->place, j, w->now, &j->set) != 1 ||
            sched_whole_start(w, &at, ops) < 0)
            return -1;
    }
    return 0;
}

/* Start the jobs behind the reservations that can start at once. */
static int behind(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    struct sched_at at = sched_line_nth(&w->queue, w->reservations);
    struct sched_entry *e;

    while ((e = sched_line_fit(&w->queue, &at, sched_place_nfree(w->place), UINT32_MAX, 0., 0.,
                               &w->work))) {
        struct sched_whole_job *j = e->job;

        if (sched_profile_find(&w->profile, w->now, j->nodes, j->estimate, INFINITY) > w->now) {
            sched_line_next(&w->queue, &at);
            continue;
        }
        if (hold(w, w->now, j->estimate, j->nodes, -1) < 0 ||
            sched_whole_select(w, w->place, j, w->now, &j->set) != 1 ||
            sched_whole_start(w, &at, ops) < 0)
            return -1;
        w->unreserved--;
    }
    return 0;
}

/* Drop the reservations beyond the limit, after a job has come before them. */
static int drop_beyond(sched_whole_t *w)
{
    struct sched_at at = sched_line_nth(&w->queue, w->reservations);
    struct sched_entry *e;

    for (; (e = sched_line_entry(&w->queue, &at)); sched_line_next(&w->queue, &at)) {
        struct sched_whole_job *j = e->job;

        if (!(j->start < INFINITY))
            break;
        if (hold(w, j->start, j->estimate, j->nodes, 1) < 0)
            return -1;
        j->start = INFINITY;
        w->unreserved++;
        w->stirred = true;
    }
    return 0;
}

static int replan(sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;
    uint32_t left = w->reservations;

    if (only_running(w) < 0)
        return -1;
    w->unreserved = 0;
    for (; (e = sched_line_entry(&w->queue, &at)); sched_line_next(&w->queue, &at)) {
        struct sched_whole_job *j = e->job;

        if (left == 0) {
            j->start = INFINITY;
            w->unreserved++;
            continue;
        }
        left--;
        if (reserve(w, j, INFINITY) < 0)
            return -1;
    }
    return 0;
}

/* Does a job run longer than its estimate?  Then the profile has more free nodes now than there
 * are. */
static bool overdue(const sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    const struct sched_entry *e = sched_line_entry(&w->ends, &at);

    return e && e->a <= w->now;
}

/* Jobs that start leave places among the first N to other jobs, and these may be able to start,
 * too. */
static int reserve_and_start(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    size_t count;

    do {
        count = w->queue.count;
        if (arrivals(w) < 0 || (w->next <= w->now && start_due(w, ops) < 0))
            return -1;
    } while (w->queue.count < count && w->unreserved > 0);
    return w->reservations < UINT32_MAX ? behind(w, ops) : 0;
}

int sched_reserve_pass(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    if (w->queue_policy == SCHED_WHOLE_REPLAN) {
        w->next = -INFINITY;
        return replan(w) < 0 ? -1 : reserve_and_start(w, ops);
    }
    if ((w->stale || overdue(w)) && renew(w) < 0)
        return -1;
    sched_profile_advance(&w->profile, w->now);
    if (w->reservations < UINT32_MAX && drop_beyond(w) < 0)
        return -1;
    if (w->ended && w->stirred) {
        if (compress(w) < 0)
            return -1;
        w->next = -INFINITY; /* to be computed again */
    }
    return reserve_and_start(w, ops);
}
