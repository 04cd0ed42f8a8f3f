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
 * A figure is a script of gnuplot with its data (sim_plot.h): a data block for each series, in
 * which a comment names the columns.
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
#include "sim_plot.h"

#define HOUR 3600
#define MAX_BARS 700
#define GANTT_MARKS 3000
#define GANTT_LINED 300

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
    double *bar, width = (double)hours / 24;

    nbars = (size_t)(span / HOUR / hours) + 1;
    if (!(bar = calloc(nbars, sizeof(*bar))))
        return -1;
    for (size_t i = 0; i < n; i++)
        bar[(j[i].submit - j[0].submit) / HOUR / hours] += (double)j[i].nodes / (double)hours;
    sim_plot_begin(f, "asked", 0, "Nodes asked for per hour", "days since the first job", "nodes");
    sim_plot_data(f, "asked", 0, "hour nodes");
    for (size_t i = 0; i < nbars; i++)
        if (bar[i] > 0)
            fprintf(f, "%" PRId64 " %.6g\n", (int64_t)i * hours, bar[i]);
    sim_plot_data_end(f);
    fprintf(f,
            "set xrange [0:%g]\nset yrange [0:*]\n"
            "plot $asked0 using ($1/24.+%g):2:(%g) with boxes notitle\n",
            (double)nbars * width, width / 2, width);
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

    for (size_t i = 0; i < n; i++)
        largest = j[i].nodes > largest ? j[i].nodes : largest;
    nbins = size_bin(largest) + 1;
    if (!(count = calloc(nbins, sizeof(*count))))
        return -1;
    for (size_t i = 0; i < n; i++)
        count[size_bin(j[i].nodes)]++;
    sim_plot_begin(f, "sizes", 0, "Sizes of the jobs",
                   "nodes (bins of one node to 18, then of six)", "jobs (log scale)");
    sim_plot_data(f, "sizes", 0, "from to bin jobs");
    for (size_t i = 0; i < nbins; i++) {
        size_t from = i < SINGLE ? i + 1 : SINGLE + 1 + (i - SINGLE) * WIDE;

        if (count[i] > 0)
            fprintf(f, "%zu %zu %zu %zu\n", from, i < SINGLE ? from : from + WIDE - 1, i, count[i]);
    }
    sim_plot_data_end(f);
    step = nbins / 14 + 1;
    for (size_t i = 0; i < nbins; i += step)
        fprintf(f, "%s'%zu' %zu", i == 0 ? "set xtics (" : ", ",
                i < SINGLE ? i + 1 : SINGLE + 1 + (i - SINGLE) * WIDE, i);
    fprintf(f,
            ")\nset logscale y\nset xrange [-0.5:%zu.5]\nset yrange [0.5:*]\n"
            "plot $sizes0 using 3:4:(0.9) with boxes notitle\n",
            nbins - 1);
    free(count);
    return 0;
}

/* --- comparisons --- */

/* Ticks in the middle of the columns, one for each size of jobs. */
static void size_ticks(FILE *f, bool all)
{
    for (size_t k = 0; k < SIM_SIZES; k++)
        fprintf(f, "%s'%s' %zu.5", k == 0 ? "set xtics (" : ", ", sim_size_names[k], k);
    if (all)
        fprintf(f, ", 'all' %d.5", SIM_SIZES);
    fprintf(f, ")\nset xrange [0:%d]\n", SIM_SIZES + all);
}

/* Plot the data blocks "$NAMEi" with one legend for each.  `how` has the columns of bars. */
static void plot_bars(FILE *f, const char *name, const struct sim_series *s, size_t n,
                      const char *how)
{
    fputs("plot ", f);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%s$%s%zu using %s with boxes linetype %zu title ", i ? ", " : "", name, i, how,
                i + 1);
        sim_plot_quote(f, s[i].label);
    }
    putc('\n', f);
}

/* The same for box plots: columns are name, place, minimum, quartiles, maximum. */
static void plot_boxes(FILE *f, const char *name, const struct sim_series *s, size_t n,
                       double width)
{
    fputs("plot ", f);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%s$%s%zu using 2:4:3:7:6:(%g) with candlesticks linetype %zu title ",
                i ? ", " : "", name, i, width, i + 1);
        sim_plot_quote(f, s[i].label);
        fprintf(f,
                " whiskerbars, $%s%zu using 2:5:5:5:5:(%g) with candlesticks linecolor rgb 'black' "
                "linewidth 2 "
                "notitle",
                name, i, width);
    }
    putc('\n', f);
}

static void put_box(FILE *f, const char *name, double place, const double q[5])
{
    if (!isfinite(q[0]))
        return;
    sim_plot_quote_value(f, name);
    fprintf(f, " %.4g %.4f %.4f %.4f %.4f %.4f\n", place, q[0], q[1], q[2], q[3], q[4]);
}

void sim_figure_waits(FILE *f, const struct sim_series *s, size_t n)
{
    double width;

    n = most(n);
    width = 0.8 / (double)n;
    sim_plot_begin(f, "waits", 0, "Mean wait by size", "nodes of a job", "hours");
    for (size_t i = 0; i < n; i++) {
        sim_plot_data(f, "waits", i, s[i].label);
        for (size_t k = 0; k <= SIM_SIZES; k++) {
            const struct sim_metrics *m = &s[i].metrics;
            double wait = (k < SIM_SIZES ? m->wait_by_size[k] : m->mean_wait) / HOUR;

            if (isfinite(wait))
                fprintf(f, "%s %.4g %.5f\n", k < SIM_SIZES ? sim_size_names[k] : "all",
                        (double)k + 0.1 + ((double)i + 0.5) * width, wait);
        }
        sim_plot_data_end(f);
    }
    size_ticks(f, true);
    fprintf(f, "set yrange [0:*]\nset boxwidth %g\n", width);
    plot_bars(f, "waits", s, n, "2:3");
}

/* A column for each series: its name below, or its place in the legend if the name is long. */
static void columns(FILE *f, const struct sim_series *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[24];

        snprintf(name, sizeof(name), "%zu", i + 1);
        if (strlen(s[i].label) < sizeof(name) / 2)
            snprintf(name, sizeof(name), "%s", s[i].label);
        fputs(i == 0 ? "set xtics (" : ", ", f);
        sim_plot_quote_tick(f, name);
        fprintf(f, " %zu.5", i);
    }
    fprintf(f, ")\nset xrange [0:%zu]\n", n);
}

void sim_figure_utilization(FILE *f, const struct sim_series *s, size_t n)
{
    n = most(n);
    sim_plot_begin(f, "utilization", 0, "Utilization: minimum, quartiles, maximum", "policy",
                   "busy nodes / nodes");
    for (size_t i = 0; i < n; i++) {
        sim_plot_data(f, "util", i, "policy place minimum quartiles maximum");
        put_box(f, s[i].label, (double)i + 0.5, s[i].metrics.util);
        sim_plot_data_end(f);
    }
    columns(f, s, n);
    fputs("set yrange [0:1]\n", f);
    plot_boxes(f, "util", s, n, 0.5);
}

void sim_figure_makespan(FILE *f, const struct sim_series *s, size_t n)
{
    n = most(n);
    sim_plot_begin(f, "makespan", 0, "Makespan", "policy", "hours");
    for (size_t i = 0; i < n; i++) {
        sim_plot_data(f, "makespan", i, "policy place hours");
        sim_plot_quote_value(f, s[i].label);
        fprintf(f, " %zu.5 %.3f\n", i, s[i].metrics.makespan / HOUR);
        sim_plot_data_end(f);
    }
    columns(f, s, n);
    fputs("set yrange [0:*]\nset boxwidth 0.5\n", f);
    plot_bars(f, "makespan", s, n, "2:3");
}

void sim_figure_hops(FILE *f, const struct sim_series *s, size_t n)
{
    double width;

    n = most(n);
    width = 0.8 / (double)n;
    sim_plot_begin(f, "hops", 0, "Hops between the nodes of a job: minimum, quartiles, maximum",
                   "nodes of a job", "hops, average of its pairs");
    for (size_t i = 0; i < n; i++) {
        sim_plot_data(f, "hops", i, s[i].label);
        for (size_t k = 0; k < SIM_SIZES; k++)
            put_box(f, sim_size_names[k], (double)k + 0.1 + ((double)i + 0.5) * width,
                    s[i].hops[k]);
        sim_plot_data_end(f);
    }
    size_ticks(f, false);
    fputs("set yrange [0:4]\n", f);
    plot_boxes(f, "hops", s, n, width * 0.9);
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

static void gantt_job(FILE *f, const struct sim_run *run, size_t i, int64_t zero)
{
    const struct sched_replay_job *j = &run->jobs[i];
    const struct sim_place *p = &run->places[i];
    double start = (double)(j->start - zero) / HOUR;
    double end = (double)(j->start + j->runtime - zero) / HOUR;

    for (uint32_t k = 0; k < p->n; k++) {
        const struct sched_range *g = &run->ranges[p->at + k];

        fprintf(f, "%" PRIu64 " %u %u %u %.2f %.2f\n", j->id, j->nodes, g->first,
                g->first + g->count - 1, start, end);
    }
}

void sim_figure_gantt(FILE *f, const struct sim_run *run, const struct sim_machine *m,
                      size_t number, const char *label)
{
    static const char *const names[] = {"on one leaf switch", "in one pod", "in several pods"};
    int64_t zero = run->jobs[0].submit, end = zero, from = zero, to;
    char name[32], title[192];
    size_t marks[3] = {0}, plotted = 0;

    for (size_t i = 0; i < run->n; i++)
        if (run->jobs[i].start + run->jobs[i].runtime > end)
            end = run->jobs[i].start + run->jobs[i].runtime;
    to = end;
    while (to - from > 60 && marks_in(run, from, to) > GANTT_MARKS) {
        int64_t cut = (to - from) / 4;

        from += cut;
        to -= cut;
    }
    snprintf(name, sizeof(name), "gantt_%zu", number);
    snprintf(title, sizeof(title), "Who was where: %s", label);
    sim_plot_begin(f, name, 420, title, "hours since the first job was submitted", "node");
    for (int how = 0; how < 3; how++) {
        sim_plot_data(f, "jobs", (size_t)how, "job nodes first last start end");
        for (size_t i = 0; i < run->n && marks[how] <= GANTT_MARKS; i++) {
            if (run->jobs[i].start >= to || run->jobs[i].start + run->jobs[i].runtime <= from ||
                extent(run, m, i) != how)
                continue;
            gantt_job(f, run, i, zero);
            marks[how] += run->places[i].n;
        }
        sim_plot_data_end(f);
    }
    fprintf(f, "set xrange [%.6f:%.6f]\nset yrange [0:%u]\n", (double)(from - zero) / HOUR,
            (double)(to - zero) / HOUR, m->nodes);
    /* A line around each mark would hide those that are narrower. */
    if (marks[0] + marks[1] + marks[2] < GANTT_LINED)
        fputs("set style fill solid 0.85 border linecolor rgb 'white'\n", f);
    fputs("plot ", f);
    for (int how = 0; how < 3; how++) {
        if (marks[how] == 0)
            continue;
        fprintf(f, "%s$jobs%d using 5:3:5:6:3:($4+1) with boxxyerror linetype %d ",
                plotted++ ? ", " : "", how, how + 1);
        if (m->tree)
            fprintf(f, "title '%s'", names[how]);
        else
            fputs("notitle", f);
    }
    putc('\n', f);
}
