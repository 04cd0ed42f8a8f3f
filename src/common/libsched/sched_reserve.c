/* sched_reserve.c - conservative and replan: a reservation for each job that waits.
 *
 * What is reserved is a number of nodes from a time on, in a profile of numbers of free nodes by
 * time; which nodes these are is decided when the job starts.
 *
 * conservative: when jobs have ended, each reservation is taken out and put in again at the earliest
 * time, once, in the order of the queue, and never gets later.  Jobs that came since the last pass get
 * theirs then.  A compression is left out where it cannot move anything: nothing has ended before its
 * estimate, and the last compression has moved nothing.
 *
 * With a limit of reservations (conservative:N) only the first N of the queue have one; those behind
 * start if they can at once without a change of the profile.
 *
 * replan: all reservations are made anew in each pass.
 *
 * Invariants (between passes):
 *  1. profile = nodes - running jobs until their estimated ends - reservations.
 *  2. `next` is the earliest start of a reservation.
 *
 * Failure: -1 with ENOMEM.  The profile is made anew in the next pass then (`stale`).
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

/* The profile of what runs. */
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

/* Everything anew: what runs, and who is in the queue keeps the reservation it has. */
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

/* The job's reservation, which is at the earliest time, and not later than `limit`. */
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

/* Those that have none get one, as far as there are so many. */
static int arrivals(sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;
    uint32_t left = w->reservations;
    size_t missing = w->unreserved;

    if (missing == 0)
        return 0;
    /* They mostly are at the end. */
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

/* Start those whose time has come, and find when the next one's does. */
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
        /* A reservation whose time has come a little late is held from now on. */
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

/* Those behind the reservations that can start at once. */
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

/* One that the limit does not reach any more (a job came before it) has none. */
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

    if (only_running(w) < 0)
        return -1;
    for (; (e = sched_line_entry(&w->queue, &at)); sched_line_next(&w->queue, &at)) {
        if (reserve(w, e->job, INFINITY) < 0)
            return -1;
    }
    w->unreserved = 0;
    return 0;
}

/* A job runs longer than its estimate: what is free now is not what the profile has. */
static bool overdue(const sched_whole_t *w)
{
    struct sched_at at = {0, 0};
    const struct sched_entry *e = sched_line_entry(&w->ends, &at);

    return e && e->a <= w->now;
}

int sched_reserve_pass(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    bool limited = w->reservations < UINT32_MAX;

    if (w->queue_policy == SCHED_WHOLE_REPLAN)
        return replan(w) < 0 ? -1 : start_due(w, ops);
    if ((w->stale || overdue(w)) && renew(w) < 0)
        return -1;
    sched_profile_advance(&w->profile, w->now);
    if (limited && drop_beyond(w) < 0)
        return -1;
    if (w->ended && w->stirred) {
        if (compress(w) < 0)
            return -1;
        w->next = -INFINITY; /* to be found again */
    }
    if (arrivals(w) < 0)
        return -1;
    if (w->next <= w->now && start_due(w, ops) < 0)
        return -1;
    return limited ? behind(w, ops) : 0;
}
