/* sim_figure.c - the figures of the report.
 *
 *    asked         nodes that jobs asked for, by the hour of submission
 *    sizes         jobs by their number of nodes: bins of one node up to 18, then of six
 *    waits         mean waits by size, and over all jobs
 *    utilization   box plots of the samples that sim_metrics.c takes
 *    makespan      bars
 *    hops          box plots over the jobs of a size; a job's hops are a mean over pairs of nodes
 *    gantt-N       nodes by time; the color tells whether a job has one leaf, one pod, or more
 *
 * A log of years has more hours than a figure has pixels.  A bar then covers several hours, and
 * shows their mean.
 *
 * Failure: ENOMEM where documented; errors of the stream stay in it.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim_figure.h"
#include "sim_svg.h"

#define HOUR 3600
#define MAX_BARS 700
#define GANTT_MARKS 3000

/* --- series --- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int sim_series(struct sim_series *s, const struct sim_run *run, const struct sim_metrics *m,
               const char *label)
{
    double *v = calloc(run->n ? run->n : 1, sizeof(*v));

    if (!v)
        return -1;
    snprintf(s->label, sizeof(s->label), "%s", label);
    s->metrics = *m;
    for (size_t k = 0; k < SIM_SIZES; k++) {
        size_t n = 0;

        for (size_t i = 0; run->lists && i < run->n; i++)
            if (sim_size_class(run->jobs[i].nodes) == k)
                v[n++] = (double)run->places[i].hops;
        qsort(v, n, sizeof(*v), by_value);
        for (int q = 0; q < 5; q++)
            s->hops[k][q] = n > 0 ? v[sim_quantile_index(n, q)] : NAN;
    }
    free(v);
    return 0;
}

static size_t most(size_t n)
{
    return n < SIM_FIGURE_SERIES ? n : SIM_FIGURE_SERIES;
}

/* --- the workload --- */

int sim_figure_asked(FILE *f, const trace_t *t)
{
    const struct trace_job *j = trace_jobs(t);
    size_t n = trace_count(t), nbars;
    int64_t span = j[n - 1].submit - j[0].submit, hours = span / HOUR / MAX_BARS + 1;
    struct sim_svg s = {.f = f};
    double *bar;

    nbars = (size_t)(span / HOUR / hours) + 1;
    if (!(bar = calloc(nbars, sizeof(*bar))))
        return -1;
    for (size_t i = 0; i < n; i++)
        bar[(j[i].submit - j[0].submit) / HOUR / hours] += (double)j[i].nodes / (double)hours;
    for (size_t i = 0; i < nbars; i++)
        s.y1 = bar[i] > s.y1 ? bar[i] : s.y1;
    s.x1 = (double)nbars * (double)hours / 24;
    sim_svg_begin(&s, "asked", "Nodes asked for per hour", "days since the first job", "nodes");
    sim_svg_x_ticks(&s);
    sim_svg_y_ticks(&s);
    for (size_t i = 0; i < nbars; i++)
        if (bar[i] > 0)
            sim_svg_bar(&s, (double)i * (double)hours / 24, (double)hours / 24, 0, bar[i],
                        sim_svg_color(0), "hour %" PRId64 ": %.6g nodes", (int64_t)i * hours,
                        bar[i]);
    sim_svg_end(&s);
    free(bar);
    return 0;
}

#define SINGLE 18
#define WIDE 6

static size_t size_bin(int64_t nodes)
{
    return (size_t)(nodes <= SINGLE ? nodes - 1 : SINGLE + (nodes - SINGLE - 1) / WIDE);
}

int sim_figure_sizes(FILE *f, const trace_t *t)
{
    const struct trace_job *j = trace_jobs(t);
    size_t n = trace_count(t), nbins, *count, step;
    int64_t largest = 1;
    struct sim_svg s = {.f = f, .log_y = true, .y0 = 0.5};
    char name[32];

    for (size_t i = 0; i < n; i++)
        largest = j[i].nodes > largest ? j[i].nodes : largest;
    nbins = size_bin(largest) + 1;
    if (!(count = calloc(nbins, sizeof(*count))))
        return -1;
    for (size_t i = 0; i < n; i++) {
        size_t c = ++count[size_bin(j[i].nodes)];
        s.y1 = (double)c > s.y1 ? (double)c : s.y1;
    }
    s.x1 = (double)nbins;
    sim_svg_begin(&s, "sizes", "Sizes of the jobs", "nodes (bins of one node to 18, then of six)",
                  "jobs (log scale)");
    sim_svg_y_ticks(&s);
    step = nbins / 14 + 1;
    for (size_t i = 0; i < nbins; i++) {
        size_t from = i < SINGLE ? i + 1 : SINGLE + 1 + (i - SINGLE) * WIDE;

        if (i % step == 0) {
            snprintf(name, sizeof(name), "%zu", from);
            sim_svg_x_name(&s, (double)i + 0.5, name);
        }
        if (count[i] == 0)
            continue;
        snprintf(name, sizeof(name), i < SINGLE ? "%zu" : "%zu-%zu", from, from + WIDE - 1);
        sim_svg_bar(&s, (double)i + 0.05, 0.9, s.y0, (double)count[i], sim_svg_color(0),
                    "%s nodes: %zu jobs", name, count[i]);
    }
    sim_svg_end(&s);
    free(count);
    return 0;
}

/* --- comparisons --- */

static void legend(struct sim_svg *svg, const struct sim_series *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sim_svg_legend(svg, i, sim_svg_color(i), s[i].label);
}

void sim_figure_waits(FILE *f, const struct sim_series *s, size_t n)
{
    struct sim_svg svg = {.f = f, .x1 = SIM_SIZES + 1};
    double width;

    n = most(n);
    width = 0.8 / (double)n;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < SIM_SIZES; k++)
            svg.y1 = fmax(svg.y1, s[i].metrics.wait_by_size[k] / HOUR);
        svg.y1 = fmax(svg.y1, s[i].metrics.mean_wait / HOUR);
    }
    sim_svg_begin(&svg, "waits", "Mean wait by size", "nodes of a job", "hours");
    sim_svg_y_ticks(&svg);
    for (size_t k = 0; k <= SIM_SIZES; k++) {
        const char *name = k < SIM_SIZES ? sim_size_names[k] : "all";

        sim_svg_x_name(&svg, (double)k + 0.5, name);
        for (size_t i = 0; i < n; i++) {
            const struct sim_metrics *m = &s[i].metrics;
            double wait = (k < SIM_SIZES ? m->wait_by_size[k] : m->mean_wait) / HOUR;

            sim_svg_bar(&svg, (double)k + 0.1 + (double)i * width, width, 0, wait, sim_svg_color(i),
                        "%s, %s: %.5f h", s[i].label, name, wait);
        }
    }
    legend(&svg, s, n);
    sim_svg_end(&svg);
}

/* A column for each series: its name below, or its place in the legend if the name is long. */
static void columns(struct sim_svg *svg, const struct sim_series *s, size_t n)
{
    sim_svg_y_ticks(svg);
    for (size_t i = 0; i < n; i++) {
        char name[24];

        snprintf(name, sizeof(name), "%zu", i + 1);
        if (strlen(s[i].label) < sizeof(name) / 2)
            snprintf(name, sizeof(name), "%s", s[i].label);
        sim_svg_x_name(svg, (double)i + 0.5, name);
    }
    legend(svg, s, n);
}

void sim_figure_utilization(FILE *f, const struct sim_series *s, size_t n)
{
    struct sim_svg svg = {.f = f, .y1 = 1};

    n = most(n);
    svg.x1 = (double)n;
    sim_svg_begin(&svg, "utilization", "Utilization: minimum, quartiles, maximum", "policy",
                  "busy nodes / nodes");
    columns(&svg, s, n);
    for (size_t i = 0; i < n; i++) {
        const double *q = s[i].metrics.util;

        sim_svg_box(&svg, (double)i + 0.25, 0.5, q, sim_svg_color(i),
                    "%s: %.4f %.4f %.4f %.4f %.4f", s[i].label, q[0], q[1], q[2], q[3], q[4]);
    }
    sim_svg_end(&svg);
}

void sim_figure_makespan(FILE *f, const struct sim_series *s, size_t n)
{
    struct sim_svg svg = {.f = f};

    n = most(n);
    svg.x1 = (double)n;
    for (size_t i = 0; i < n; i++)
        svg.y1 = fmax(svg.y1, s[i].metrics.makespan / HOUR);
    sim_svg_begin(&svg, "makespan", "Makespan", "policy", "hours");
    columns(&svg, s, n);
    for (size_t i = 0; i < n; i++)
        sim_svg_bar(&svg, (double)i + 0.25, 0.5, 0, s[i].metrics.makespan / HOUR, sim_svg_color(i),
                    "%s: %.3f h", s[i].label, s[i].metrics.makespan / HOUR);
    sim_svg_end(&svg);
}

void sim_figure_hops(FILE *f, const struct sim_series *s, size_t n)
{
    struct sim_svg svg = {.f = f, .x1 = SIM_SIZES, .y1 = 4};
    double width;

    n = most(n);
    width = 0.8 / (double)n;
    sim_svg_begin(&svg, "hops", "Hops between the nodes of a job: minimum, quartiles, maximum",
                  "nodes of a job", "hops, average of its pairs");
    sim_svg_y_ticks(&svg);
    for (size_t k = 0; k < SIM_SIZES; k++) {
        sim_svg_x_name(&svg, (double)k + 0.5, sim_size_names[k]);
        for (size_t i = 0; i < n; i++) {
            const double *q = s[i].hops[k];

            sim_svg_box(&svg, (double)k + 0.1 + (double)i * width, width * 0.9, q, sim_svg_color(i),
                        "%s, %s nodes: %.3f %.3f %.3f %.3f %.3f", s[i].label, sim_size_names[k],
                        q[0], q[1], q[2], q[3], q[4]);
        }
    }
    legend(&svg, s, n);
    sim_svg_end(&svg);
}

/* --- who was where --- */

static size_t marks_in(const struct sim_run *run, int64_t from, int64_t to)
{
    size_t n = 0;

    for (size_t i = 0; i < run->n; i++)
        if (run->jobs[i].start < to && run->jobs[i].start + run->jobs[i].runtime > from)
            n += run->places[i].n;
    return n;
}

enum { ONE_LEAF, ONE_POD, PODS };

static int extent(const struct sim_run *run, const struct sim_machine *m, size_t i)
{
    const struct sim_place *p = &run->places[i];
    const struct sched_range *first = &run->ranges[p->at], *last = first + p->n - 1;
    uint32_t a, b;

    if (!m->tree)
        return ONE_LEAF;
    a = fattree_leaf(m->tree, first->first);
    b = fattree_leaf(m->tree, last->first + last->count - 1);
    return a == b ? ONE_LEAF : fattree_pod(m->tree, a) == fattree_pod(m->tree, b) ? ONE_POD : PODS;
}

static void gantt_job(struct sim_svg *s, const struct sim_run *run, const struct sim_machine *m,
                      size_t i, int64_t zero)
{
    const struct sched_replay_job *j = &run->jobs[i];
    const struct sim_place *p = &run->places[i];
    double start = (double)(j->start - zero) / HOUR;
    double end = (double)(j->start + j->runtime - zero) / HOUR;
    double left = fmax(start, s->x0), right = fmin(end, s->x1);
    int how = extent(run, m, i);

    for (uint32_t k = 0; k < p->n; k++) {
        const struct sched_range *g = &run->ranges[p->at + k];

        sim_svg_bar(s, left, right - left, g->first, (double)g->first + g->count,
                    sim_svg_color((size_t)how),
                    "job %" PRIu64 ", %u nodes (%u-%u here), hours %.2f to %.2f", j->id, j->nodes,
                    g->first, g->first + g->count - 1, start, end);
    }
}

void sim_figure_gantt(FILE *f, const struct sim_run *run, const struct sim_machine *m,
                      size_t number, const char *label)
{
    static const char *const names[] = {"on one leaf switch", "in one pod", "in several pods"};
    struct sim_svg s = {.f = f, .height = 420, .y1 = m->nodes, .exact_y = true};
    int64_t zero = run->jobs[0].submit, end = zero, from = zero, to;
    char id[32], title[192];

    for (size_t i = 0; i < run->n; i++)
        if (run->jobs[i].start + run->jobs[i].runtime > end)
            end = run->jobs[i].start + run->jobs[i].runtime;
    to = end;
    while (to - from > 60 && marks_in(run, from, to) > GANTT_MARKS) {
        int64_t cut = (to - from) / 4;

        from += cut;
        to -= cut;
    }
    snprintf(id, sizeof(id), "gantt-%zu", number);
    snprintf(title, sizeof(title), "Who was where: %s", label);
    s.x0 = (double)(from - zero) / HOUR;
    s.x1 = (double)(to - zero) / HOUR;
    sim_svg_begin(&s, id, title, "hours since the first job was submitted", "node");
    sim_svg_x_ticks(&s);
    sim_svg_y_ticks(&s);
    for (size_t i = 0, marks = 0; i < run->n && marks <= GANTT_MARKS; i++) {
        if (run->jobs[i].start >= to || run->jobs[i].start + run->jobs[i].runtime <= from)
            continue;
        gantt_job(&s, run, m, i, zero);
        marks += run->places[i].n;
    }
    for (size_t k = 0; m->tree && k < 3; k++)
        sim_svg_legend(&s, k, sim_svg_color(k), names[k]);
    sim_svg_end(&s);
}
