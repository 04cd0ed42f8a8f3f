/* sim_metrics.c - the results of a replay in numbers.
 *
 * Utilization is sampled every minute from the first submission to the last end.  It is constant
 * between two events, so samples are counted by the number of busy nodes, and a gap of years in a
 * log costs nothing.  A quantile p is element floor(p * count), or the last one, of the sorted
 * samples.
 *
 * Failure: ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MINUTE 60

const char *const sim_size_names[SIM_SIZES] = {"1-4", "5-18", "19-64", "65-256", "257-512", "513-"};

const struct sim_row sim_rows[SIM_ROWS] = {
    {"mean wait (h)", NULL, offsetof(struct sim_metrics, mean_wait), 3600, 5},
    {"longest wait (h)", NULL, offsetof(struct sim_metrics, max_wait), 3600, 3},
    {"utilization", NULL, offsetof(struct sim_metrics, util_mean), 1, 4},
    {"utilization until the last submit", "  until the last submit",
     offsetof(struct sim_metrics, util_until), 1, 4},
    {"makespan (h)", NULL, offsetof(struct sim_metrics, makespan), 3600, 3},
    {"offered load", NULL, offsetof(struct sim_metrics, load), 1, 4},
    {"hops between nodes", NULL, offsetof(struct sim_metrics, hops), 1, 3},
};

size_t sim_size_class(int64_t nodes)
{
    static const int64_t upto[SIM_SIZES - 1] = {4, 18, 64, 256, 512};
    size_t i = 0;

    while (i < SIM_SIZES - 1 && nodes > upto[i])
        i++;
    return i;
}

size_t sim_quantile_index(size_t n, int quarter)
{
    size_t i = (size_t)(0.25 * quarter * (double)n);

    return i < n ? i : n - 1;
}

/* --- utilization --- */

struct change {
    int64_t at;
    int32_t by;
};

static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

/* Samples first + 60 i that are in [from, to). */
static int64_t samples_in(int64_t first, int64_t from, int64_t to)
{
    int64_t a = (from - first + MINUTE - 1) / MINUTE, b = (to - first + MINUTE - 1) / MINUTE;

    return b > a ? b - a : 0;
}

struct samples {
    int64_t *count; /* by the number of busy nodes */
    int64_t total, limit, until_total;
    double sum, until_sum;
};

static void add_samples(struct samples *s, int64_t busy, int64_t n)
{
    int64_t early = s->limit - s->total;

    early = early < 0 ? 0 : early < n ? early : n;
    s->count[busy] += n;
    s->total += n;
    s->sum += (double)busy * (double)n;
    s->until_total += early;
    s->until_sum += (double)busy * (double)early;
}

static void summarize(const struct samples *s, struct sim_metrics *out)
{
    int64_t seen = 0;
    int q = 0;

    out->util_mean = s->sum / (double)s->total / out->nodes;
    out->util_until = s->until_sum / (double)s->until_total / out->nodes;
    for (uint32_t busy = 0; busy <= out->nodes && q < 5; busy++) {
        seen += s->count[busy];
        while (q < 5 && (int64_t)sim_quantile_index((size_t)s->total, q) < seen)
            out->util[q++] = (double)busy / out->nodes;
    }
}

static int utilization(const struct sim_run *r, struct sim_metrics *out, int64_t end)
{
    int64_t first = r->jobs[0].submit, last = r->jobs[r->n - 1].submit, busy = 0, now = first;
    struct change *c = calloc(2 * r->n, sizeof(*c));
    struct samples s = {.count = calloc((size_t)out->nodes + 1, sizeof(*s.count))};

    if (!c || !s.count) {
        free(c);
        free(s.count);
        errno = ENOMEM;
        return -1;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct sched_replay_job *j = &r->jobs[i];

        c[2 * i] = (struct change){j->start, (int32_t)j->nodes};
        c[2 * i + 1] = (struct change){j->start + j->runtime, -(int32_t)j->nodes};
    }
    qsort(c, 2 * r->n, sizeof(*c), by_time);
    s.limit = (last - first) / MINUTE > 1 ? (last - first) / MINUTE : 1;
    for (size_t i = 0; i < 2 * r->n;) {
        if (c[i].at > now) {
            add_samples(&s, busy, samples_in(first, now, c[i].at));
            now = c[i].at;
        }
        for (int64_t at = c[i].at; i < 2 * r->n && c[i].at == at; i++)
            busy += c[i].by;
    }
    summarize(&s, out);
    free(c);
    free(s.count);
    return 0;
}

/* --- all of it --- */

static void mean(double *sum, size_t n)
{
    *sum = n > 0 ? *sum / (double)n : NAN;
}

int sim_metrics(const struct sim_run *r, const struct sim_machine *m, struct sim_metrics *out)
{
    int64_t wait_sum = 0, wait_by[SIM_SIZES] = {0}, end;
    double work = 0, span;
    size_t several = 0;

    memset(out, 0, sizeof(*out));
    out->jobs = r->n;
    out->nodes = m->nodes;
    if (r->n == 0)
        return 0;
    end = r->jobs[0].start;
    for (size_t i = 0; i < r->n; i++) {
        const struct sched_replay_job *j = &r->jobs[i];
        const struct sim_place *p = &r->places[i];
        int64_t wait = j->start - j->submit;
        size_t size = sim_size_class(j->nodes);

        wait_sum += wait;
        wait_by[size] += wait;
        if ((double)wait > out->max_wait)
            out->max_wait = (double)wait;
        if (j->start + j->runtime > end)
            end = j->start + j->runtime;
        work += (double)j->nodes * (double)j->runtime;
        out->sum_start += j->start;
        out->by_size[size]++;
        out->hops_by_size[size] += (double)p->hops;
        if (j->nodes > 1) {
            out->hops += (double)p->hops;
            several++;
        }
        out->shared_links += p->links;
        out->sharing_jobs += p->links > 0;
    }
    out->mean_wait = (double)wait_sum / (double)r->n;
    out->makespan = (double)(end - r->jobs[0].submit);
    span = (double)(r->jobs[r->n - 1].submit - r->jobs[0].submit);
    out->load = span > 0 ? work / m->nodes / span : NAN;
    for (size_t k = 0; k < SIM_SIZES; k++) {
        out->wait_by_size[k] = (double)wait_by[k];
        mean(&out->wait_by_size[k], out->by_size[k]);
        mean(&out->hops_by_size[k], r->lists ? out->by_size[k] : 0);
    }
    mean(&out->hops, r->lists ? several : 0);
    return utilization(r, out, end);
}

/* --- JSON --- */

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *by_size(const double *v, double unit)
{
    json_t *o = json_object();

    for (size_t k = 0; o && k < SIM_SIZES; k++) {
        if (json_object_set_new(o, sim_size_names[k], number(v[k] / unit)) < 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

json_t *sim_metrics_json(const struct sim_run *r, const struct sim_metrics *m,
                         const struct trace_dropped *dropped)
{
    json_t *hops = r->lists ? by_size(m->hops_by_size, 1) : json_null();

    return json_pack(
        "{s:s, s:s, s:s?, s:o, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:[ooooo], s:o, s:I, s:o, s:o,"
        " s:o, s:I, s:I, s:{s:I, s:I, s:I, s:I}}",
        "queue", r->policy.queue, "select", r->policy.select, "speedup", r->policy.speedup, "depth",
        r->policy.depth ? json_integer(r->policy.depth) : json_null(), "jobs", (json_int_t)m->jobs,
        "nodes", (int)m->nodes, "makespan_h", number(m->makespan / 3600), "mean_wait_h",
        number(m->mean_wait / 3600), "max_wait_h", number(m->max_wait / 3600), "util_mean",
        number(m->util_mean), "util_mean_until_last_submit", number(m->util_until),
        "util_min_p25_p50_p75_max", number(m->util[0]), number(m->util[1]), number(m->util[2]),
        number(m->util[3]), number(m->util[4]), "offered_load", number(m->load), "sum_start",
        (json_int_t)m->sum_start, "mean_wait_h_by_size", by_size(m->wait_by_size, 3600),
        "aph_by_size", hops, "mean_hops", number(m->hops), "shared_links",
        (json_int_t)m->shared_links, "jobs_sharing_links", (json_int_t)m->sharing_jobs, "dropped",
        "runtime", (json_int_t)dropped->runtime, "processors", (json_int_t)dropped->processors,
        "larger", (json_int_t)dropped->larger, "not_placeable", (json_int_t)r->never);
}
