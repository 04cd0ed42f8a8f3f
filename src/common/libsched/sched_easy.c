/* sched_easy.c - easy: the reservation of the first job that does not fit (the head), and the jobs
 * behind it that may start nevertheless.
 *
 * With interchangeable nodes: shadow is the earliest estimated end at which the head has enough
 * nodes, once all jobs that end by then have released theirs; extra is the number of nodes left
 * over.  A job starts if it fits and ends by shadow, or takes at most extra nodes, which then
 * shrinks.
 *
 * With a policy that refuses: shadow is the earliest estimated end at which the policy places the
 * head, on a set R.  A job that ends by shadow is placed in the present state; one that ends later
 * is placed in the present state with R and its marks taken (`beside`).  A started job is entered
 * in both states.
 *
 * Shadow is computed in each pass, but only when a job is found that might start; mostly there is
 * none.
 *
 * Invariant: no job that this file starts delays the head beyond shadow.
 *
 * Failure: -1: `start` or the policy has failed, or ENOMEM; the pass ends.
 */
#include "config.h"
#include <math.h>
#include <stdint.h>

#include "sched_whole_private.h"

/* --- the reservation of the head --- */

/* Find shadow and extra, for interchangeable nodes. */
static void find_shadow(sched_whole_t *w)
{
    uint32_t need = w->head->nodes;
    uint32_t free = sched_place_nfree(w->place);
    struct sched_at at = {0, 0};
    struct sched_entry *e;

    w->shadow = INFINITY;
    w->extra = UINT32_MAX;
    while ((e = sched_line_entry(&w->ends, &at))) {
        double end = sched_whole_ends(w, e->a);

        if (free >= need && end > w->shadow)
            break;
        free += e->nodes;
        w->shadow = end;
        sched_line_next(&w->ends, &at);
        w->work++;
    }
    if (free >= need)
        w->extra = free - need;
    w->known = true;
}

static void limit(sched_whole_t *w, int which)
{
    w->limited = sched_topology_limits_of(
        w->policy, w->state, sched_place_view(which ? w->beside : w->place), &w->limits[which]);
}

/* Find R for a policy that refuses, the state beside it, and its limits.  0, or -1. */
static int find_set(sched_whole_t *w)
{
    struct sched_whole_job *head = (struct sched_whole_job *)(uintptr_t)w->head;
    struct sched_at at = {0, 0};
    struct sched_entry *e;

    w->shadow = INFINITY;
    sched_place_copy(w->later, w->place);
    while ((e = sched_line_entry(&w->ends, &at))) {
        const struct sched_whole_job *j = e->job;
        double end = sched_whole_ends(w, e->a);
        int rc;

        sched_whole_give_back(w->later, j);
        w->work += 2;
        sched_line_next(&w->ends, &at);
        e = sched_line_entry(&w->ends, &at);
        if (e && sched_whole_ends(w, e->a) <= end)
            continue;
        if ((rc = sched_whole_fits(w, w->later, head, end)) < 0)
            return -1;
        if (rc == 0)
            continue;
        if ((rc = sched_whole_select(w, w->later, head, end, &w->R)) < 0)
            return -1;
        if (rc == 1) {
            w->shadow = end;
            break;
        }
    }
    sched_place_copy(w->beside, w->place);
    if (w->shadow < INFINITY)
        sched_place_block(w->beside, &w->R);
    limit(w, 1);
    w->known = true;
    return 0;
}

bool sched_easy_shadow(sched_whole_t *w, const struct sched_whole_job **head, double *shadow,
                       uint32_t *extra)
{
    if (w->head && !w->known) {
        w->extra = 0;
        if (!w->policy->refuses)
            find_shadow(w);
        else if (find_set(w) < 0)
            return false;
    }
    if (!w->head || !w->known || !(w->shadow < INFINITY))
        return false;
    *head = w->head;
    *shadow = w->shadow;
    *extra = w->extra;
    return true;
}

/* --- behind the head --- */

static void set_cursor(sched_whole_t *w, const struct sched_at *at)
{
    const struct sched_entry *e = sched_line_entry(&w->queue, at);

    w->cursor_key = e ? e->a : INFINITY;
    w->cursor_id = e ? e->b : UINT64_MAX;
}

static bool at_stop(const sched_whole_t *w, const struct sched_entry *e)
{
    return e->a > w->stop_key || (e->a == w->stop_key && e->b >= w->stop_id);
}

void sched_easy_begin(sched_whole_t *w, struct sched_at at)
{
    struct sched_at stop;
    const struct sched_entry *e;

    w->head = sched_line_entry(&w->queue, &at)->job;
    w->known = w->limited = false;
    w->stop_key = INFINITY;
    w->stop_id = UINT64_MAX;
    if (w->depth > 0) {
        stop = sched_line_nth(&w->queue, w->depth);
        if ((e = sched_line_entry(&w->queue, &stop))) {
            w->stop_key = e->a;
            w->stop_id = e->b;
        }
    }
    sched_line_next(&w->queue, &at);
    set_cursor(w, &at);
}

/* Start jobs behind the head, for interchangeable nodes.  1: the budget is used up; 0: complete;
 * -1. */
static int behind_count(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    struct sched_at at = sched_line_from(&w->queue, w->cursor_key, w->cursor_id);

    for (;;) {
        uint32_t free = sched_place_nfree(w->place);
        uint32_t extra = w->known ? w->extra : UINT32_MAX;
        double shadow = w->known ? w->shadow : INFINITY;
        struct sched_entry *e = NULL;

        if (free > 0)
            e = sched_line_fit(&w->queue, &at, free, extra, w->now, shadow, &w->work);
        if (!e || at_stop(w, e))
            return 0;
        if (!w->known) {
            /* This job might start, so shadow is needed now.  The same entry is considered
             * again. */
            find_shadow(w);
            continue;
        }
        if (!(w->now + e->time <= w->shadow))
            w->extra -= e->nodes;
        if (sched_whole_select(w, w->place, e->job, w->now,
                               &((struct sched_whole_job *)e->job)->set) != 1 ||
            sched_whole_start(w, &at, ops) < 0)
            return -1;
        if (w->budget && w->work >= w->budget) {
            set_cursor(w, &at);
            return 1;
        }
    }
}

/* Might it start, according to the sums? */
static int might(sched_whole_t *w, const struct sched_entry *e, int which)
{
    if (w->limited)
        return sched_limits_fit(&w->limits[which], e->nodes);
    return sched_whole_fits(w, which ? w->beside : w->place, e->job, w->now);
}

/* The next job that might start.  `limits[1]` is not used until R is known. */
static struct sched_entry *next_beside(sched_whole_t *w, struct sched_at *at)
{
    if (w->limited)
        return sched_line_fit_sizes(&w->queue, at, &w->limits[0], &w->limits[w->known ? 1 : 0],
                                    w->now, w->known ? w->shadow : INFINITY, &w->work);
    return sched_line_fit(&w->queue, at, sched_place_nfree(w->place), UINT32_MAX, 0., 0., &w->work);
}

/* Find the place of a job that might start, with R known: 1, 0 or -1. */
static int place_beside(sched_whole_t *w, struct sched_entry *e)
{
    struct sched_whole_job *j = e->job;
    int which, rc;

    which = !(w->now + e->time <= w->shadow);
    if (which == 1 && (rc = might(w, e, 1)) != 1)
        return rc;
    return sched_whole_select(w, which ? w->beside : w->place, j, w->now, &j->set);
}

/* Start jobs behind the head, for a policy that refuses. */
static int behind_set(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    struct sched_at at = sched_line_from(&w->queue, w->cursor_key, w->cursor_id);
    struct sched_entry *e;
    int rc;

    limit(w, 0);
    while ((e = next_beside(w, &at)) && !at_stop(w, e)) {
        struct sched_whole_job *j = e->job;

        rc = might(w, e, 0);
        if (rc == 1 && !w->known) {
            /* The same entry is considered again. */
            if (find_set(w) < 0)
                return -1;
            continue;
        }
        if (rc == 1)
            rc = place_beside(w, e);
        if (rc < 0)
            return -1;
        if (rc == 0)
            sched_line_next(&w->queue, &at);
        else {
            if (sched_whole_start(w, &at, ops) < 0)
                return -1;
            /* A job that ends by the shadow may have nodes of R. */
            sched_place_block(w->beside, &j->set);
            limit(w, 0);
            limit(w, 1);
        }
        if (w->budget && ++w->work >= w->budget) {
            set_cursor(w, &at);
            return 1;
        }
    }
    return 0;
}

int sched_easy_pass(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    return w->policy->refuses ? behind_set(w, ops) : behind_count(w, ops);
}
