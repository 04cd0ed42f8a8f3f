/* trace_edit.c - changes to a log that has been read: keep the jobs that a machine can run, in
 * queue order; derive a workload for another machine; write the log as a file.
 *
 * The products submit * NUM of trace_derive() exceed 64 bits, and are computed in 128.
 *
 * Failure: see trace.h.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "trace_private.h"

__extension__ typedef __int128 wide_t;

static int by_submit(const void *a, const void *b)
{
    const struct trace_job *x = a, *y = b;

    if (x->submit != y->submit)
        return x->submit < y->submit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void sort(trace_t *t)
{
    if (t->n > 0)
        qsort(t->jobs, t->n, sizeof(*t->jobs), by_submit);
}

void trace_keep(trace_t *t, uint32_t nodes, bool extend, size_t first,
                struct trace_dropped *dropped)
{
    size_t n = 0;

    *dropped = (struct trace_dropped){0};
    for (size_t i = 0; i < t->n; i++) {
        struct trace_job j = t->jobs[i];

        if (j.runtime <= 0)
            dropped->runtime++;
        else if (j.nodes <= 0)
            dropped->processors++;
        else if (j.nodes > nodes)
            dropped->larger++;
        else {
            if (j.runtime > j.estimate && extend)
                j.estimate = j.runtime;
            if (j.runtime > j.estimate)
                j.runtime = j.estimate;
            t->jobs[n++] = j;
        }
    }
    t->n = n;
    sort(t);
    if (first > 0 && t->n > first)
        t->n = first;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int trace_derive(trace_t *t, const struct trace_derive *d, errmsg_t *err)
{
    int64_t first, span;
    double work = 0, num;
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        if (t->jobs[i].runtime > 0 && t->jobs[i].nodes > 0)
            t->jobs[n++] = t->jobs[i];
    t->n = n;
    if (n == 0)
        return errmsg_fail(err, EINVAL, "no job has a runtime and processors");
    sort(t);
    first = t->jobs[0].submit;
    n = 0;
    for (size_t i = 0; i < t->n; i++) {
        struct trace_job j = t->jobs[i];
        int64_t day = (j.submit - first) / 86400;

        if (day < d->from_day || day - d->from_day >= d->days)
            continue;
        j.nodes = min64(j.nodes, d->max_nodes);
        j.estimate = min64(j.estimate, 86400);
        j.runtime = min64(min64(j.runtime, 86400), j.estimate);
        work += (double)j.nodes * (double)j.runtime;
        t->jobs[n++] = j;
    }
    t->n = n;
    if (n == 0)
        return errmsg_fail(err, EINVAL, "no job was submitted in these days");
    first = t->jobs[0].submit;
    span = t->jobs[n - 1].submit - first;
    num = rint(work / ((double)d->machine * d->load));
    if (!(num >= 0 && num <= (double)TRACE_VALUE_MAX))
        return errmsg_fail(err, EINVAL, "the load is too small: times would pass %" PRId64 " s",
                           TRACE_VALUE_MAX);
    for (size_t i = 0; i < n; i++) {
        struct trace_job *j = &t->jobs[i];

        j->submit = span > 0 ? (int64_t)((wide_t)(j->submit - first) * (int64_t)num / span) : 0;
        j->nodes *= d->mult;
    }
    sort(t);
    for (size_t i = 0; i < n; i++)
        t->jobs[i].id = (int64_t)i + 1;
    return 0;
}

trace_t *trace_multiply(const trace_t *t, int64_t mult)
{
    trace_t *copy = calloc(1, sizeof(*copy));

    if (!copy || !(copy->jobs = calloc(t->n ? t->n : 1, sizeof(*copy->jobs)))) {
        free(copy);
        return NULL;
    }
    copy->n = copy->space = t->n;
    for (size_t i = 0; i < t->n; i++) {
        copy->jobs[i] = t->jobs[i];
        copy->jobs[i].nodes *= mult;
    }
    return copy;
}

int trace_write_swf(const trace_t *t, FILE *f)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_job *j = &t->jobs[i];

        if (fprintf(f,
                    "%" PRId64 " %" PRId64 " -1 %" PRId64 " %" PRId64 " -1 -1 %" PRId64 " %" PRId64
                    " -1 1 -1 -1 -1 -1 -1 -1 -1\n",
                    j->id, j->submit, j->runtime, j->nodes, j->nodes, j->estimate) < 0)
            return -1;
    }
    return fflush(f) == 0 ? 0 : -1;
}
