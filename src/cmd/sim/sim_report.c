/* sim_report.c - the page of flux sim --report.
 *
 * Format: one XHTML file in HTML syntax, without scripts and references to other files:
 *  1. a table of the requested replays: metrics by policy;
 *  2. the workload: figures "asked" and "sizes";
 *  3. a comparison of placements (on fat trees only): a table of mean waits, workload by policy,
 *     and the figures "utilization", "makespan" and "hops";
 *  4. waits by size in the requested replays; the first Gantt charts.
 *
 * The comparison needs replays of its own, the same for every report: first-fit (TO) and
 * interference-free (TA), TA with each of the speedups, and TO, TA, V1, V2 with the sizes of all
 * jobs doubled, on this machine and on one with twice as many pods (regular machines only).  The
 * queue policy is the first requested one if it allows a placement that may refuse (fcfs, easy),
 * else easy.
 *
 * The script of a figure is written to memory as soon as its data is there, so that no replay has
 * to be kept; gnuplot draws all figures at the end.
 *
 * Failure: errno and an error message; the file is complete or absent (sim_out.c).
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libutil/strutil.h"
#include "sim_figure.h"
#include "sim_plot.h"
#include "sim_report.h"

#define MAX_GANTT 4

/* --- the replays of the comparison --- */

enum { AS_IT_IS, DOUBLED, DOUBLED_BOTH, WORKLOADS };

static const struct study {
    int workload;
    const char *label, *select, *speedup;
} studies[] = {
    {AS_IT_IS, "TO", "first-fit", NULL},
    {AS_IT_IS, "TA", "interference-free", NULL},
    {AS_IT_IS, "TA 5%", "interference-free", "pct5"},
    {AS_IT_IS, "TA 10%", "interference-free", "pct10"},
    {AS_IT_IS, "TA 20%", "interference-free", "pct20"},
    {AS_IT_IS, "TA V1", "interference-free", "V1"},
    {AS_IT_IS, "TA V2", "interference-free", "V2"},
    {DOUBLED, "TO", "first-fit", NULL},
    {DOUBLED, "TA", "interference-free", NULL},
    {DOUBLED, "TA V1", "interference-free", "V1"},
    {DOUBLED, "TA V2", "interference-free", "V2"},
    {DOUBLED_BOTH, "TO", "first-fit", NULL},
    {DOUBLED_BOTH, "TA", "interference-free", NULL},
    {DOUBLED_BOTH, "TA V1", "interference-free", "V1"},
    {DOUBLED_BOTH, "TA V2", "interference-free", "V2"},
};
#define STUDIES (sizeof(studies) / sizeof(studies[0]))
#define STUDIES_AS_IT_IS 7 /* the first ones */

struct figure {
    char name[32];
    char *script;
    size_t len; /* of the script */
    char *svg;  /* NULL until it is drawn */
};

struct sim_report {
    struct sim_report_options o;
    struct sim_series *asked;
    size_t nasked, space;
    struct sim_series study[STUDIES];
    bool studied[STUDIES];
    size_t nstudied;
    size_t kept[WORKLOADS]; /* jobs of each workload */
    struct figure figures[8 + MAX_GANTT];
    size_t nfigures, ngantt;
    /* The script that is being written. */
    FILE *f;
    char *text;
    size_t len;
};

sim_report_t *sim_report_create(const struct sim_report_options *options)
{
    sim_report_t *r = calloc(1, sizeof(*r));

    if (r)
        r->o = *options;
    return r;
}

void sim_report_destroy(sim_report_t *r)
{
    int saved = errno;

    for (size_t i = 0; r && i < r->nfigures; i++) {
        free(r->figures[i].script);
        free(r->figures[i].svg);
    }
    if (r)
        free(r->asked);
    free(r);
    errno = saved;
}

/* --- figures --- */

/* The script is written to r->f in between.  0, or -1 with ENOMEM. */
static int begin_figure(sim_report_t *r)
{
    r->text = NULL;
    r->f = open_memstream(&r->text, &r->len);
    return r->f ? 0 : -1;
}

static int end_figure(sim_report_t *r, int rc, const char *name)
{
    struct figure *fig = &r->figures[r->nfigures];
    bool bad = ferror(r->f);

    if (fclose(r->f) != 0 || bad || rc < 0) {
        free(r->text);
        errno = ENOMEM;
        return -1;
    }
    snprintf(fig->name, sizeof(fig->name), "%s", name);
    fig->script = r->text;
    fig->len = r->len;
    r->nfigures++;
    return 0;
}

typedef void (*compare_f)(FILE *f, const struct sim_series *s, size_t n);

static int compare(sim_report_t *r, const char *name, compare_f draw, const struct sim_series *s,
                   size_t n)
{
    if (begin_figure(r) < 0)
        return -1;
    draw(r->f, s, n);
    return end_figure(r, 0, name);
}

static int draw_trace(sim_report_t *r)
{
    if (begin_figure(r) < 0 || end_figure(r, sim_figure_asked(r->f, r->o.trace), "asked") < 0)
        return -1;
    if (begin_figure(r) < 0 || end_figure(r, sim_figure_sizes(r->f, r->o.trace), "sizes") < 0)
        return -1;
    return 0;
}

static int draw_gantt(sim_report_t *r, const struct sim_run *run, const char *label)
{
    char name[32];

    if (!run->lists || r->ngantt == MAX_GANTT)
        return 0;
    snprintf(name, sizeof(name), "gantt-%zu", ++r->ngantt);
    if (begin_figure(r) < 0)
        return -1;
    sim_figure_gantt(r->f, run, r->o.machine, r->ngantt, label);
    return end_figure(r, 0, name);
}

int sim_report_add(sim_report_t *r, const struct sim_run *run, const struct sim_metrics *m,
                   const char *label)
{
    if (r->nasked == r->space) {
        size_t space = r->space ? r->space * 2 : 8;
        struct sim_series *s = reallocarray(r->asked, space, sizeof(*s));

        if (!s)
            return -1;
        r->asked = s;
        r->space = space;
    }
    if (sim_series(&r->asked[r->nasked], run, m, label) < 0)
        return -1;
    r->nasked++;
    return draw_gantt(r, run, label);
}

/* --- the comparison --- */

static int study(sim_report_t *r, size_t i, const trace_t *trace, const struct sim_machine *m,
                 errmsg_t *err)
{
    bool topology_may = strcmp(r->o.queue, "fcfs") == 0 || strcmp(r->o.queue, "easy") == 0;
    const struct sim_policy policy = {topology_may ? r->o.queue : "easy", studies[i].select,
                                      studies[i].speedup, topology_may ? r->o.depth : 0, r->o.seed};
    struct sim_metrics metrics;
    struct sim_run *run;
    int rc;

    if (r->o.progress)
        r->o.progress(r->nstudied++, STUDIES, r->o.arg);
    if (!(run = sim_run(trace, m, &policy, NULL, NULL, err)))
        return -1;
    rc = sim_metrics(run, m, &metrics);
    if (rc == 0)
        rc = sim_series(&r->study[i], run, &metrics, studies[i].label);
    if (rc < 0)
        errmsg_set(err, "out of memory");
    r->studied[i] = rc == 0 && run->n > 0;
    sim_run_destroy(run);
    return rc;
}

static int study_workload(sim_report_t *r, int workload, const trace_t *trace,
                          const struct sim_machine *m, errmsg_t *err)
{
    r->kept[workload] = trace_count(trace);
    for (size_t i = 0; i < STUDIES; i++)
        if (studies[i].workload == workload && r->kept[workload] > 0 &&
            study(r, i, trace, m, err) < 0)
            return -1;
    return 0;
}

static int study_doubled(sim_report_t *r, errmsg_t *err)
{
    const struct sim_machine *m = r->o.machine;
    struct sim_machine twice = {0};
    struct trace_dropped dropped;
    trace_t *trace;
    int rc = -1;

    /* A machine from a file cannot be doubled, nor can the largest. */
    if (m->pods == 0 || m->nodes > FATTREE_NODES_MAX / 2)
        return 0;
    if (!(trace = trace_multiply(r->o.trace, 2)))
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (sim_machine_create(&twice, m->pods * 2, m->leaves, m->k, err) == 0) {
        trace_keep(trace, twice.nodes, false, 0, &dropped);
        rc = study_workload(r, DOUBLED_BOTH, trace, &twice, err);
    }
    sim_machine_clear(&twice);
    if (rc == 0) {
        trace_keep(trace, m->nodes, false, 0, &dropped);
        rc = study_workload(r, DOUBLED, trace, m, err);
    }
    trace_destroy(trace);
    return rc;
}

/* TO and TA on this machine, and on the one with twice as many pods. */
static int draw_hops(sim_report_t *r)
{
    struct sim_series s[4];
    char machine[80];
    size_t n = 0;

    for (size_t i = 0; i < STUDIES; i++) {
        if (!r->studied[i] || studies[i].speedup || studies[i].workload == DOUBLED)
            continue;
        s[n] = r->study[i];
        snprintf(machine, sizeof(machine), "%u nodes", s[n].metrics.nodes);
        snprintf(s[n].label, sizeof(s[n].label), "%s, %s", studies[i].label, machine);
        n++;
    }
    return compare(r, "hops", sim_figure_hops, s, n);
}

static int draw_figures(sim_report_t *r, errmsg_t *err)
{
    for (size_t i = 0; i < r->nfigures; i++) {
        struct figure *fig = &r->figures[i];

        if (!(fig->svg = sim_plot_draw(fig->script, fig->len, err)))
            return -1;
    }
    return 0;
}

int sim_report_finish(sim_report_t *r, errmsg_t *err)
{
    const struct sim_series *s = r->asked;
    size_t n = r->nasked;

    if (r->o.machine->tree) {
        if (study_workload(r, AS_IT_IS, r->o.trace, r->o.machine, err) < 0 ||
            study_doubled(r, err) < 0)
            return -1;
        s = r->study;
        n = STUDIES_AS_IT_IS;
    }
    errmsg_set(err, "out of memory for the figures");
    if (draw_trace(r) < 0 || compare(r, "waits", sim_figure_waits, r->asked, r->nasked) < 0 ||
        compare(r, "utilization", sim_figure_utilization, s, n) < 0 ||
        compare(r, "makespan", sim_figure_makespan, s, n) < 0)
        return -1;
    if (r->o.machine->tree && draw_hops(r) < 0)
        return -1;
    return draw_figures(r, err);
}

/* --- the page --- */

/* Text for XML: markup is escaped; control characters, and bytes that are not UTF-8, become "?". */
static void put_text(FILE *f, const char *s)
{
    static const char *const escaped[] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;"};
    size_t good = str_utf8_span(s, strlen(s));

    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (good == 0) {
            putc('?', f);
            good = str_utf8_span(s + 1, strlen(s + 1));
            continue;
        }
        good--;
        if (c < ' ' || c == 0x7f)
            putc('?', f);
        else if (c < sizeof(escaped) / sizeof(escaped[0]) && escaped[c])
            fputs(escaped[c], f);
        else
            putc(c, f);
    }
}

static void put_figure(const sim_report_t *r, FILE *f, const char *name, const char *caption)
{
    for (size_t i = 0; i < r->nfigures; i++) {
        if (strncmp(r->figures[i].name, name, strlen(name)) == 0)
            fprintf(f, "<figure id=\"%s\">\n%s<figcaption>%s</figcaption>\n</figure>\n",
                    r->figures[i].name, r->figures[i].svg, caption);
    }
}

static void put_number(FILE *f, double x, int decimals)
{
    if (isfinite(x))
        fprintf(f, "<td>%.*f</td>", decimals, x);
    else
        fputs("<td>-</td>", f);
}

static void put_metrics(const sim_report_t *r, FILE *f)
{
    fputs("<table id=\"metrics\">\n<tr><th>policy</th>", f);
    for (size_t k = 0; k < SIM_ROWS; k++)
        fprintf(f, "<th>%s</th>", sim_rows[k].title);
    fputs("<th>shared links</th><th>jobs that shared a link</th><th>sum of starts "
          "(s)</th></tr>\n",
          f);
    for (size_t i = 0; i < r->nasked; i++) {
        const struct sim_metrics *m = &r->asked[i].metrics;

        fputs("<tr><th>", f);
        put_text(f, r->asked[i].label);
        fputs("</th>", f);
        for (size_t k = 0; k < SIM_ROWS; k++)
            put_number(f,
                       *(const double *)((const char *)m + sim_rows[k].offset) / sim_rows[k].unit,
                       sim_rows[k].decimals);
        fprintf(f, "<td>%llu</td><td>%zu</td><td>%lld</td></tr>\n",
                (unsigned long long)m->shared_links, m->sharing_jobs, (long long)m->sum_start);
    }
    fputs("</table>\n", f);
}

static void put_waits(const sim_report_t *r, FILE *f)
{
    static const char *const columns[] = {"TO", "TA", "TA V1", "TA V2"};
    static const char *const names[WORKLOADS] = {
        [AS_IT_IS] = "this workload on this machine",
        [DOUBLED] = "sizes doubled, on this machine",
        [DOUBLED_BOTH] = "sizes doubled, on a machine of twice as many pods",
    };

    fputs("<table id=\"workloads\">\n<caption>Mean wait in hours</caption>\n"
          "<tr><th>workload</th><th>jobs</th>",
          f);
    for (size_t k = 0; k < sizeof(columns) / sizeof(columns[0]); k++)
        fprintf(f, "<th>%s</th>", columns[k]);
    fputs("</tr>\n", f);
    for (int w = 0; w < WORKLOADS; w++) {
        if (r->kept[w] == 0)
            continue;
        fprintf(f, "<tr><th>%s</th><td>%zu</td>", names[w], r->kept[w]);
        for (size_t k = 0; k < sizeof(columns) / sizeof(columns[0]); k++)
            for (size_t i = 0; i < STUDIES; i++)
                if (studies[i].workload == w && strcmp(studies[i].label, columns[k]) == 0)
                    put_number(f, r->studied[i] ? r->study[i].metrics.mean_wait / 3600 : NAN, 5);
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
}

static void put_comparison(const sim_report_t *r, FILE *f)
{
    fputs("<h2>What placing apart costs</h2>\n<p>TO: first-fit. TA: interference-free, under "
          "which no two jobs may use the same link. With 5, 10 and 20%, jobs of more than four "
          "nodes run that much faster under TA, because nobody shares their links; V1 and V2 "
          "draw the speedup of each job at random.</p>\n",
          f);
    put_waits(r, f);
    put_figure(r, f, "utilization", "Samples of every minute.");
    put_figure(r, f, "makespan", "From the first submission to the last end.");
    put_figure(r, f, "hops",
               "0 on the same leaf switch, 2 in the same pod, 4 otherwise. On the machine of twice "
               "as many pods the sizes are doubled, too.");
}

static int put_page(const sim_report_t *r, FILE *f)
{
    char machine[80];
    const struct trace_dropped *d = r->o.dropped;

    sim_machine_describe(r->o.machine, machine, sizeof(machine));
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>flux sim: ",
          f);
    put_text(f, r->o.trace_name);
    fputs("</title>\n<style>\nbody {font-family: sans-serif; max-width: 60em; margin: 2em auto; "
          "padding: 0 1em; color: #222; background: #fff}\n"
          "table {border-collapse: collapse; margin: 1em 0; font-size: 85%}\n"
          "th, td {border: 1px solid #ccc; padding: 0.3em 0.6em; text-align: right}\n"
          "th:first-child {text-align: left}\nfigure {margin: 1.5em 0}\n"
          "svg {max-width: 100%; height: auto}\n"
          "figcaption, caption {color: #555; font-size: 85%; text-align: left}\n"
          "</style>\n</head>\n<body>\n<h1>Replay of ",
          f);
    put_text(f, r->o.trace_name);
    fprintf(f,
            "</h1>\n<p>Machine: %s. Jobs: %zu; left out: %zu without runtime, %zu without "
            "processors, %zu larger than the machine.</p>\n",
            machine, trace_count(r->o.trace), d->runtime, d->processors, d->larger);
    put_metrics(r, f);
    put_figure(r, f, "waits", "Waiting times under each of the selected policies.");
    fputs("<h2>The workload</h2>\n", f);
    put_figure(r, f, "asked",
               "Nodes of the jobs that were submitted in an hour; of a long log the mean of "
               "several hours.");
    put_figure(r, f, "sizes", "Jobs by their number of nodes.");
    if (r->o.machine->tree) {
        put_comparison(r, f);
    } else {
        fputs("<h2>Utilization and makespan</h2>\n", f);
        put_figure(r, f, "utilization", "Samples of every minute.");
        put_figure(r, f, "makespan", "From the first submission to the last end.");
    }
    if (r->ngantt > 0)
        fputs("<h2>Who was where</h2>\n", f);
    put_figure(r, f, "gantt-", "An excerpt from the middle of the replay, or all of a short one.");
    fputs(
        "<p>Made by flux sim; --figures writes the values of each figure. If the log is one of the "
        "Parallel Workloads Archive, thanks are due to those who contributed it.</p>\n"
        "</body>\n</html>\n",
        f);
    return ferror(f) ? -1 : 0;
}

int sim_report_write(const sim_report_t *r, const char *path, errmsg_t *err)
{
    struct sim_out o;

    if (sim_out_open(&o, path, err) < 0)
        return -1;
    return sim_out_close(&o, put_page(r, o.f) == 0, err);
}

static int write_text(const char *directory, const char *name, const char *suffix, const char *text,
                      errmsg_t *err)
{
    struct sim_out o;
    char *path;
    int rc;

    if (asprintf(&path, "%s/%s.%s", directory, name, suffix) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory");
    rc = sim_out_open(&o, path, err);
    free(path);
    return rc < 0 ? -1 : sim_out_close(&o, fputs(text, o.f) >= 0, err);
}

int sim_report_write_figures(const sim_report_t *r, const char *directory, errmsg_t *err)
{
    if (mkdir(directory, 0777) < 0 && errno != EEXIST)
        return errmsg_fail(err, errno, "cannot make the directory %s: %s", directory,
                           strerror(errno));
    for (size_t i = 0; i < r->nfigures; i++) {
        const struct figure *fig = &r->figures[i];

        if (write_text(directory, fig->name, "svg", fig->svg, err) < 0 ||
            write_text(directory, fig->name, "gp", fig->script, err) < 0)
            return -1;
    }
    return 0;
}
