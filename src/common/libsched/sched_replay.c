/* sched_replay.c - replay a log of jobs, from the first arrival to the last start.
 *
 * A heap holds the running jobs by their real ends, which the engine does not know.  The next
 * instant is the earliest of the next arrival, the next end, and the engine's next reservation.
 *
 * Failure: -1 with errno and an error message; the starts until then are in the array.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched_replay.h"

#define TIME_MAX (INT64_C(1) << 52) /* seconds; a double represents twice as many exactly */
#define EVERY 1000

struct end {
    int64_t t;
    size_t i;
    struct sched_whole_job *job;
};

struct replay {
    sched_whole_t *w;
    struct sched_replay_job *jobs;
    size_t njobs, next, started;
    const struct sched_replay_ops *ops;
    struct end *heap;
    size_t nheap, room;
};

static int by_submit(const void *x, const void *y)
{
    const struct sched_replay_job *a = x;
    const struct sched_replay_job *b = y;

    if (a->submit != b->submit)
        return a->submit < b->submit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int check(const struct sched_replay_job *jobs, size_t n, errmsg_t *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct sched_replay_job *j = &jobs[i];

        if (j->runtime < 1 || j->estimate < j->runtime || j->nodes < 1 || j->submit < -TIME_MAX ||
            j->submit > TIME_MAX || j->estimate > TIME_MAX / (int64_t)n)
            return errmsg_fail(err, EINVAL,
                               "job %" PRIu64 " cannot be replayed: it takes nodes, a runtime of "
                               "at least 1 s, and an estimate that is not below it",
                               j->id);
        if (i > 0 && jobs[i - 1].submit == j->submit && jobs[i - 1].id == j->id)
            return errmsg_fail(err, EINVAL, "job %" PRIu64 " occurs twice", j->id);
    }
    return 0;
}

/* --- ends --- */

static int push_end(struct replay *r, int64_t t, size_t i, struct sched_whole_job *job)
{
    size_t at = r->nheap;

    if (r->nheap == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        struct end *more = realloc(r->heap, room * sizeof(*more));

        if (!more) {
            errno = ENOMEM;
            return -1;
        }
        r->heap = more;
        r->room = room;
    }
    r->nheap++;
    for (; at > 0 && r->heap[(at - 1) / 2].t > t; at = (at - 1) / 2)
        r->heap[at] = r->heap[(at - 1) / 2];
    r->heap[at] = (struct end){t, i, job};
    return 0;
}

static struct sched_whole_job *pop_end(struct replay *r)
{
    struct sched_whole_job *job = r->heap[0].job;
    struct end last = r->heap[--r->nheap];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < r->nheap; at = child) {
        if (child + 1 < r->nheap && r->heap[child + 1].t < r->heap[child].t)
            child++;
        if (r->heap[child].t >= last.t)
            break;
        r->heap[at] = r->heap[child];
    }
    r->heap[at] = last;
    return job;
}

/* --- instants --- */

/* Report a start.  The policy buddy allocates a whole block, of which the job uses the first
 * nodes. */
static int tell(const struct replay *r, size_t i, const struct sched_set *set)
{
    uint32_t nodes = r->jobs[i].nodes;
    struct sched_range only;

    if (!r->ops->started)
        return 0;
    if (set->nodes == nodes || set->nrange == 0)
        return r->ops->started(i, set->range, set->nrange, r->ops->arg);
    only = (struct sched_range){set->range[0].first, nodes};
    return r->ops->started(i, &only, 1, r->ops->arg);
}

static int start_cb(struct sched_whole_job *job, double now, void *arg)
{
    struct replay *r = arg;
    size_t i = (size_t)(uintptr_t)job->owner;
    struct sched_replay_job *j = &r->jobs[i];

    j->start = (int64_t)now;
    r->started++;
    if (push_end(r, j->start + j->runtime, i, job) < 0)
        return -1;
    return tell(r, i, &job->set);
}

static int64_t next_instant(const struct replay *r)
{
    int64_t t = INT64_MAX;
    double reserved = sched_whole_next(r->w);

    if (r->next < r->njobs)
        t = r->jobs[r->next].submit;
    if (r->nheap > 0 && r->heap[0].t < t)
        t = r->heap[0].t;
    if (reserved < (double)t)
        t = (int64_t)reserved;
    return t;
}

/* Skip jobs that are too large even for the empty machine: their arrival must not cause a pass. */
static void skip_never(struct replay *r)
{
    for (; r->next < r->njobs && !sched_whole_could(r->w, r->jobs[r->next].nodes); r->next++) {
        r->jobs[r->next].start = SCHED_REPLAY_NEVER;
        r->started++;
    }
}

static int arrive(struct replay *r)
{
    struct sched_replay_job *j = &r->jobs[r->next];
    size_t i = r->next++;

    /* The place in the sorted array serves as the id: it orders jobs of the same time, while ids
     * are arbitrary. */
    return sched_whole_add(r->w, (double)j->submit, i, (double)j->submit, j->nodes,
                           (double)j->estimate, (void *)(uintptr_t)i)
               ? 0
               : -1;
}

static int run(struct replay *r)
{
    struct sched_whole_ops ops = {start_cb, r};
    unsigned instants = 0;

    while (skip_never(r), r->next < r->njobs || sched_whole_nwaiting(r->w) > 0) {
        int64_t t = next_instant(r);

        if (t == INT64_MAX) {
            errno = EINVAL; /* a job waits, but no job will ever end */
            return -1;
        }
        while (r->nheap > 0 && r->heap[0].t == t)
            sched_whole_end(r->w, pop_end(r), (double)t);
        while (r->next < r->njobs && r->jobs[r->next].submit == t) {
            if (arrive(r) < 0)
                return -1;
            skip_never(r);
        }
        if (sched_whole_pass(r->w, (double)t, 0, &ops) < 0)
            return -1;
        if (++instants % EVERY == 0 && r->ops->progress)
            r->ops->progress(r->started, r->njobs, r->ops->arg);
    }
    if (r->ops->progress)
        r->ops->progress(r->started, r->njobs, r->ops->arg);
    return 0;
}

int sched_replay(const struct sched_whole_options *options, struct sched_replay_job *jobs,
                 size_t njobs, const struct sched_replay_ops *ops, errmsg_t *err)
{
    static const struct sched_replay_ops nothing;
    struct replay r = {.jobs = jobs, .njobs = njobs, .ops = ops ? ops : &nothing};
    int rc;

    if (njobs > 0)
        qsort(jobs, njobs, sizeof(*jobs), by_submit);
    if (check(jobs, njobs, err) < 0 || !(r.w = sched_whole_create(options, err)))
        return -1;
    if ((rc = run(&r)) < 0)
        errmsg_set(err, "the replay has failed after %zu jobs: %s", r.started, strerror(errno));
    int saved = errno;
    free(r.heap);
    sched_whole_destroy(r.w);
    errno = saved;
    return rc;
}
