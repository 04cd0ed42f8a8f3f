/* sim_replay.c - flux sim TRACE: replay a log under each of the policies, and print the results.
 *
 * The lists of queue policies, node policies and speedups are combined, the last one varying
 * fastest.  One combination at a time is replayed and measured, its schedule written, and freed.
 *
 * Failure: a wrong option or pair of policies is reported before any file is read (exit code 2).
 * Output files are complete or absent (sim_out.c).
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strvec.h"
#include "sim.h"
#include "sim_report.h"

enum {
    OPT_FIRST = CMD_KEY(0),
    OPT_QUEUE,
    OPT_SELECT,
    OPT_DEPTH,
    OPT_SPEEDUP,
    OPT_SEED,
    OPT_OVERRUN,
    OPT_SCHEDULE,
    OPT_JSON,
    OPT_REPORT,
    OPT_FIGURES,
};

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("The machine"),
    SIM_MACHINE_OPTS,
    {SIM_OPT_PPN, "ppn", "N", "processors of a node, for logs in SWF (1)"},
    CMD_OPT_HEADING("The workload"),
    {OPT_FIRST, "first", "J", "replay the first J jobs only"},
    {OPT_OVERRUN, "overrun", "cut|extend",
     "a job that ran longer than its estimate is cut to it,\nor its estimate is raised (cut)"},
    CMD_OPT_HEADING("Policies (lists, separated by commas, multiply out)"),
    {OPT_QUEUE, "queue", "LIST", "fcfs, easy[:depth=D], conservative[:N], replan[:N] (easy)"},
    {OPT_SELECT, "select", "LIST",
     "count, first-fit, best-fit, spread, compact, buddy,\n"
     "interference-free[:wait=TIME] (first-fit)"},
    {OPT_DEPTH, "depth", "D", "easy: look at the first D jobs that wait, no more"},
    {OPT_SPEEDUP, "speedup", "LIST",
     "none, pctX, V1, V2: jobs run faster under buddy and\ninterference-free"},
    {OPT_SEED, "seed", "S", "seed of V1 and V2 (1)"},
    CMD_OPT_HEADING("Output"),
    {OPT_SCHEDULE, "schedule", "FILE",
     "write when and where each job ran, as CSV; with several\n"
     "policies their names are put before the suffix"},
    {OPT_JSON, "json", "[FILE]",
     "write the metrics as JSON (an array for several policies),\n"
     "to standard output instead of the table when no FILE is given"},
    {OPT_REPORT, "report", "FILE", "write a page of HTML with tables and figures"},
    {OPT_FIGURES, "figures", "DIR", "write each figure of the report to a file of its own, as SVG"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] TRACE\n"
    "derive [OPTION...] TRACE\n"
    "check [OPTION...] SCHEDULE\n"
    "network --tree=P,L,K [OPTION...]",
    "Replay a log of jobs (SWF, or CSV as sacct prints it; .gz is read) through the scheduler, "
    "and\n"
    "print waits, utilization, makespan, hops and shared links, a column for each policy. No "
    "session\n"
    "is needed. `derive` makes a workload for another machine out of a log, `check` looks for\n"
    "mistakes in a schedule, `network` simulates the cost of shared links.",
    opts,
    "Exit code: 0 on success, 1 if a file cannot be read or written, 2 on a usage error.",
    0,
};

struct replay {
    struct cmd *c;
    struct sim_machine machine;
    uint32_t ppn, first, depth;
    uint64_t seed;
    bool extend;
    strvec_t *queues, *selects, *speedups;
    const char *schedule, *json, *report_path, *figures;
    bool to_stdout; /* --json without a file */
    trace_t *trace;
    struct trace_dropped dropped;
    struct sim_policy *policies;
    struct sim_metrics *metrics;
    json_t *results;
    sim_report_t *report; /* NULL: none is wanted */
    size_t n;
    char label[160];
};

/* --- options --- */

static int list_option(struct replay *r, const char *what, const char *val, strvec_t **out)
{
    strvec_destroy(*out);
    *out = strvec_create();
    for (const char *s = val;; s++) {
        size_t n = strcspn(s, ",");
        char *word = strndup(s, n);
        int rc = !word || !*out ? -1 : n == 0 ? 1 : strvec_add(*out, word);

        free(word);
        if (rc > 0)
            return cmd_usage_error(r->c, "%s: a name is missing in '%s'", what, val);
        if (rc < 0)
            return cmd_error(r->c, "out of memory");
        s += n;
        if (!*s)
            return CMD_OK;
    }
}

/* An exit code; CMD_OK: continue. */
static int option(struct replay *r, int key, const char *val)
{
    struct cmd *c = r->c;
    int code;

    switch (key) {
    case OPT_QUEUE:
        return list_option(r, "--queue", val, &r->queues);
    case OPT_SELECT:
        return list_option(r, "--select", val, &r->selects);
    case OPT_SPEEDUP:
        return list_option(r, "--speedup", val, &r->speedups);
    case OPT_FIRST:
        return cmd_parse_u32(c, "--first", val, &r->first) < 0 ? CMD_USAGE : CMD_OK;
    case OPT_DEPTH:
        if (cmd_parse_u32(c, "--depth", val, &r->depth) < 0)
            return CMD_USAGE;
        return r->depth > 0 ? CMD_OK : cmd_usage_error(c, "--depth is at least 1");
    case OPT_SEED:
        return cmd_parse_u64(c, "--seed", val, &r->seed) < 0 ? CMD_USAGE : CMD_OK;
    case SIM_OPT_PPN:
        if (cmd_parse_u32(c, "--ppn", val, &r->ppn) < 0)
            return CMD_USAGE;
        return r->ppn > 0 && r->ppn <= TRACE_PPN_MAX
                   ? CMD_OK
                   : cmd_usage_error(c, "--ppn is between 1 and %u", TRACE_PPN_MAX);
    case OPT_OVERRUN:
        r->extend = strcmp(val, "extend") == 0;
        return r->extend || strcmp(val, "cut") == 0
                   ? CMD_OK
                   : cmd_usage_error(c, "--overrun is cut or extend, not '%s'", val);
    case OPT_SCHEDULE:
        r->schedule = val;
        return CMD_OK;
    case OPT_JSON:
        r->json = val;
        r->to_stdout = !val;
        return CMD_OK;
    case OPT_REPORT:
        r->report_path = val;
        return CMD_OK;
    case OPT_FIGURES:
        r->figures = val;
        return CMD_OK;
    default:
        return sim_machine_option(c, &r->machine, key, val, &code) < 0 ? code : CMD_OK;
    }
}

/* --- the list of replays --- */

static const char *nth(const strvec_t *v, size_t i, const char *otherwise)
{
    return v ? strvec_at(v, i) : otherwise;
}

static size_t length(const strvec_t *v)
{
    return v ? strvec_count(v) : 1;
}

static int plan(struct replay *r)
{
    size_t q = length(r->queues), s = length(r->selects), u = length(r->speedups);
    errmsg_t err;

    r->n = q * s * u;
    if (r->n > 1000)
        return cmd_usage_error(r->c, "these are %zu replays: at most 1000", r->n);
    r->policies = calloc(r->n, sizeof(*r->policies));
    r->metrics = calloc(r->n, sizeof(*r->metrics));
    if (!r->policies || !r->metrics)
        return cmd_error(r->c, "out of memory");
    for (size_t i = 0; i < r->n; i++) {
        struct sim_policy *p = &r->policies[i];
        struct sched_whole_options o = {.nnodes = r->machine.nodes, .tree = r->machine.tree};

        *p = (struct sim_policy){nth(r->queues, i / (s * u), "easy"),
                                 nth(r->selects, i / u % s, "first-fit"),
                                 nth(r->speedups, i % u, NULL), r->depth, r->seed};
        if (p->speedup && !sim_speedup_known(p->speedup))
            return cmd_usage_error(r->c, "--speedup is none, pctX, V1 or V2, not '%s'", p->speedup);
        o.queue = p->queue;
        o.select = p->select;
        o.depth = p->depth;
        if (sched_whole_check(&o, &err) < 0)
            return cmd_usage_error(r->c, "%s", err.text);
    }
    return CMD_OK;
}

/* "easy interference-free V2" */
static const char *label(struct replay *r, const struct sim_policy *p)
{
    snprintf(r->label, sizeof(r->label), "%s %s%s%s", p->queue, p->select, p->speedup ? " " : "",
             p->speedup ? p->speedup : "");
    return r->label;
}

/* --- running --- */

static void progress(size_t done, size_t njobs, void *arg)
{
    struct replay *r = arg;

    cmd_progress(r->c, "%s: %zu of %zu jobs", r->label, done, njobs);
}

/* FILE.csv of one replay, FILE-easy-first-fit-V2.csv of several.  NULL: ENOMEM. */
static char *schedule_path(const struct replay *r, const struct sim_policy *p)
{
    const char *slash = strrchr(r->schedule, '/'), *dot = strrchr(r->schedule, '.');
    char *path = NULL;

    if (r->n == 1)
        return strdup(r->schedule);
    if (!dot || (slash && dot < slash))
        dot = r->schedule + strlen(r->schedule);
    if (asprintf(&path, "%.*s-%s-%s%s%s%s", (int)(dot - r->schedule), r->schedule, p->queue,
                 p->select, p->speedup ? "-" : "", p->speedup ? p->speedup : "", dot) < 0)
        return NULL;
    return path;
}

static int write_schedule(struct replay *r, const struct sim_run *run)
{
    char *path = schedule_path(r, &run->policy);
    struct sim_out o;
    errmsg_t err;
    bool ok;

    if (!path)
        return cmd_error(r->c, "out of memory");
    ok = sim_out_open(&o, path, &err) == 0;
    free(path);
    if (!ok)
        return cmd_error(r->c, "%s", err.text);
    ok = sim_run_write(run, o.f) == 0;
    return sim_out_close(&o, ok, &err) < 0 ? cmd_error(r->c, "%s", err.text) : CMD_OK;
}

/* Measure it, and write its schedule. */
static int use_run(struct replay *r, size_t i, const struct sim_run *run)
{
    if (run->n == 0)
        return cmd_error(r->c, "no job is left that the machine can run");
    if (sim_metrics(run, &r->machine, &r->metrics[i]) < 0 ||
        json_array_append_new(r->results, sim_metrics_json(run, &r->metrics[i], &r->dropped)) < 0)
        return cmd_error(r->c, "out of memory");
    if (r->report && sim_report_add(r->report, run, &r->metrics[i], r->label) < 0)
        return cmd_error(r->c, "out of memory for the report");
    return r->schedule ? write_schedule(r, run) : CMD_OK;
}

static int run_one(struct replay *r, size_t i)
{
    errmsg_t err;
    struct sim_run *run;
    int rc;

    label(r, &r->policies[i]);
    if (!(run = sim_run(r->trace, &r->machine, &r->policies[i], progress, r, &err)))
        return cmd_error(r->c, "%s", err.text);
    rc = use_run(r, i, run);
    sim_run_destroy(run);
    return rc;
}

/* --- the table --- */

static void real_row(table_t *t, const struct replay *r, const char *title, size_t offset,
                     double unit, int decimals)
{
    table_row(t);
    table_str(t, title);
    for (size_t i = 0; i < r->n; i++) {
        double x = *(const double *)((const char *)&r->metrics[i] + offset) / unit;

        if (isfinite(x))
            table_real(t, x, decimals);
        else
            table_null(t);
    }
}

static void size_rows(table_t *t, const struct replay *r, const char *what, size_t offset,
                      double unit, int decimals)
{
    char title[64];

    for (size_t k = 0; k < SIM_SIZES; k++) {
        if (r->metrics[0].by_size[k] == 0)
            continue;
        snprintf(title, sizeof(title), "  %s, %s nodes", what, sim_size_names[k]);
        real_row(t, r, title, offset + k * sizeof(double), unit, decimals);
    }
}

static int print_table(struct replay *r)
{
    table_t *t = table_create();
    char machine[80];
    const struct trace_dropped *d = &r->dropped;

    sim_machine_describe(&r->machine, machine, sizeof(machine));
    printf("machine %s; %zu jobs; dropped: %zu without runtime, %zu without processors, %zu larger "
           "than the machine\n\n",
           machine, trace_count(r->trace), d->runtime, d->processors, d->larger);
    table_column(t, "metric", "", TABLE_LEFT);
    for (size_t i = 0; i < r->n; i++)
        table_column(t, label(r, &r->policies[i]), label(r, &r->policies[i]), TABLE_RIGHT);
    for (size_t k = 0; k < SIM_ROWS; k++) {
        const struct sim_row *row = &sim_rows[k];

        real_row(t, r, row->below ? row->below : row->title, row->offset, row->unit, row->decimals);
        if (k == 1)
            size_rows(t, r, "mean wait", offsetof(struct sim_metrics, wait_by_size), 3600, 5);
    }
    size_rows(t, r, "hops", offsetof(struct sim_metrics, hops_by_size), 1, 3);
    table_row(t);
    table_str(t, "shared links");
    for (size_t i = 0; i < r->n; i++)
        table_u64(t, r->metrics[i].shared_links);
    table_row(t);
    table_str(t, "jobs that shared a link");
    for (size_t i = 0; i < r->n; i++)
        table_u64(t, r->metrics[i].sharing_jobs);
    table_row(t);
    table_str(t, "sum of starts (s)");
    for (size_t i = 0; i < r->n; i++)
        table_i64(t, r->metrics[i].sum_start);
    return cmd_print_table(r->c, t, false);
}

/* --- files --- */

static int write_json(struct replay *r)
{
    json_t *what = r->n == 1 ? json_array_get(r->results, 0) : r->results;
    struct sim_out o;
    errmsg_t err;
    bool ok;

    if (r->to_stdout)
        return cmd_print_json(r->c, json_incref(what));
    if (sim_out_open(&o, r->json, &err) < 0)
        return cmd_error(r->c, "%s", err.text);
    ok = json_dumpf(what, o.f, JSON_INDENT(2)) == 0 && putc('\n', o.f) != EOF;
    return sim_out_close(&o, ok, &err) < 0 ? cmd_error(r->c, "%s", err.text) : CMD_OK;
}

static void report_progress(size_t done, size_t total, void *arg)
{
    struct replay *r = arg;

    cmd_progress(r->c, "report: %zu of %zu replays", done, total);
}

static int begin_report(struct replay *r, const char *path)
{
    const char *base = strrchr(path, '/');
    const struct sim_report_options options = {
        .trace_name = base ? base + 1 : path,
        .trace = r->trace,
        .dropped = &r->dropped,
        .machine = &r->machine,
        .queue = r->policies[0].queue,
        .depth = r->depth,
        .seed = r->seed,
        .progress = report_progress,
        .arg = r,
    };

    if (!r->report_path && !r->figures)
        return CMD_OK;
    r->report = sim_report_create(&options);
    return r->report ? CMD_OK : cmd_error(r->c, "out of memory for the report");
}

static int write_report(struct replay *r)
{
    errmsg_t err;

    if (sim_report_finish(r->report, &err) < 0 ||
        (r->figures && sim_report_write_figures(r->report, r->figures, &err) < 0) ||
        (r->report_path && sim_report_write(r->report, r->report_path, &err) < 0))
        return cmd_error(r->c, "%s", err.text);
    return CMD_OK;
}

static int replay(struct replay *r, const char *path)
{
    errmsg_t err;
    int rc = plan(r);

    if (rc != CMD_OK)
        return rc;
    cmd_progress(r->c, "reading %s", path);
    if (!(r->trace = trace_read(path, r->ppn, &err)))
        return cmd_error(r->c, "%s", err.text);
    trace_keep(r->trace, r->machine.nodes, r->extend, r->first, &r->dropped);
    if (trace_count(r->trace) == 0)
        return cmd_error(r->c, "%s: no job is left that the machine can run", path);
    if (!(r->results = json_array()))
        return cmd_error(r->c, "out of memory");
    rc = begin_report(r, path);
    for (size_t i = 0; i < r->n && rc == CMD_OK; i++)
        rc = run_one(r, i);
    if (rc == CMD_OK && r->report)
        rc = write_report(r);
    if (rc == CMD_OK && (r->json || r->to_stdout))
        rc = write_json(r);
    cmd_progress_end(r->c);
    if (rc == CMD_OK && !r->to_stdout)
        rc = print_table(r);
    return rc;
}

int sim_replay(struct cmd *c, int argc, char **argv)
{
    struct replay r = {.c = c, .ppn = 1, .seed = 1};
    const char *val;
    int key, rc = CMD_OK;

    while (rc == CMD_OK && (key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        rc = option(&r, key, val);
    if (rc == CMD_OK && key < 0)
        rc = cmd_option_exit(key);
    else if (rc == CMD_OK) {
        if (argc - c->optind != 1)
            rc = cmd_usage_error(c, "expected one TRACE");
        else if (r.machine.nodes == 0)
            rc = cmd_usage_error(c, "the machine is missing: use --nodes, --tree or --topology");
        else
            rc = replay(&r, argv[c->optind]);
    }
    sim_machine_clear(&r.machine);
    strvec_destroy(r.queues);
    strvec_destroy(r.selects);
    strvec_destroy(r.speedups);
    sim_report_destroy(r.report);
    trace_destroy(r.trace);
    free(r.policies);
    free(r.metrics);
    json_decref(r.results);
    return rc;
}
