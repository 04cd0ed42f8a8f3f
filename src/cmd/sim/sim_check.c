/* sim_check.c - flux sim check: verify that a schedule is possible.
 *
 * The command reads a file that --schedule wrote (sim_schedule.c), and checks these rules, without
 * any code of the scheduler:
 *  1. Every job is present once.  With --trace, these are exactly the jobs that the machine can
 *     run, with their submit times and nodes.
 *  2. No job starts before its submission, or ends before its start.
 *  3. A job's list has as many nodes as the job, all of the machine, none twice.
 *  4. No two jobs hold a node at the same time.
 *  5. With switches, and without --links=shared, no two jobs hold a group of links at the same
 *     time.  A job on several leaves holds the uplinks of each of them; a job in several pods also
 *     holds the uplinks of each of these pods.
 *
 * A job holds its nodes and links in [start, end).  Events are processed in the order of time, ends
 * first.  Each node knows its holder, and each group of links has a list of holders.
 *
 * Failure: exit code 1, after an error message with file and line for a file that cannot be parsed,
 * or for each problem of the schedule.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim_schedule.h"

#define NONE SIZE_MAX

enum { OPT_TRACE = CMD_KEY(0), OPT_LINKS, OPT_ALL, OPT_JSON };

static const struct cmd_opt opts[] = {
    SIM_MACHINE_OPTS,
    {OPT_TRACE, "trace", "FILE", "compare with the log that was replayed"},
    {SIM_OPT_PPN, "ppn", "N", "processors of a node, for --trace (1)"},
    {OPT_LINKS, "links", "apart|shared", "jobs may not share links, or may (apart)"},
    {OPT_ALL, "all", NULL, "print all problems, not the first 20 alone"},
    {OPT_JSON, "json", NULL, "print a JSON object"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] SCHEDULE",
    "Check a schedule that flux sim wrote (--schedule): every job once, no node held by two jobs "
    "at\n"
    "a time, and no link group (the uplinks of a leaf, or of a pod) either.",
    opts,
    "Exit code: 0 if the schedule is valid, 1 if it is not, or a file cannot be read; 2 on a usage "
    "error.",
    0,
};

struct holders {
    size_t *row, n, space;
};

struct event {
    int64_t at;
    bool begins;
    size_t row;
};

struct check {
    struct cmd *c;
    struct sim_machine machine;
    uint32_t ppn;
    const char *path, *trace;
    struct sim_schedule s;
    bool shared, all, json;
    size_t *owner; /* of each node: a row */
    struct holders *leaf, *pod;
    json_t *problems;
    size_t nproblems;
};

#define SHOWN 20

/* --- problems --- */

static void problem(struct check *k, json_t *o, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void problem(struct check *k, json_t *o, const char *fmt, ...)
{
    va_list ap;

    k->nproblems++;
    if (!k->all && k->nproblems > SHOWN) {
        json_decref(o);
        return;
    }
    if (k->json) {
        json_array_append_new(k->problems, o);
        return;
    }
    json_decref(o);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

static int64_t id_of(const struct check *k, size_t row)
{
    return k->s.rows[row].value[JOB];
}

static void job_problem(struct check *k, const char *path, size_t line, int64_t job,
                        const char *what)
{
    problem(k,
            json_pack("{s:s, s:I, s:s, s:I}", "problem", what, "job", (json_int_t)job, "file", path,
                      "line", (json_int_t)line),
            "%s, line %zu: job %" PRId64 ": %s", path, line, job, what);
}

static void row_problem(struct check *k, const struct sim_schedule_row *r, const char *what)
{
    job_problem(k, k->path, r->line, r->value[JOB], what);
}

/* `kind` number `number` is held by two jobs. */
static void overlap(struct check *k, const char *kind, uint32_t number, size_t a, size_t b)
{
    const int64_t *x = k->s.rows[a].value, *y = k->s.rows[b].value;
    int64_t from = x[START] > y[START] ? x[START] : y[START];
    int64_t to = x[END] < y[END] ? x[END] : y[END];
    const char *what = strcmp(kind, "node") == 0 ? "" : "the uplinks of ";

    problem(k,
            json_pack("{s:s, s:s, s:i, s:[II], s:[II], s:I, s:I}", "problem", "overlap", "of", kind,
                      "number", (int)number, "jobs", (json_int_t)x[JOB], (json_int_t)y[JOB],
                      "lines", (json_int_t)k->s.rows[a].line, (json_int_t)k->s.rows[b].line, "from",
                      (json_int_t)from, "to", (json_int_t)to),
            "jobs %" PRId64 " and %" PRId64 " both hold %s%s %u from %" PRId64 " to %" PRId64
            " (%s, lines %zu and %zu)",
            x[JOB], y[JOB], what, kind, number, from, to, k->path, k->s.rows[a].line,
            k->s.rows[b].line);
}

/* --- each job by itself --- */

static int by_id(const void *a, const void *b)
{
    const struct sim_schedule_row *x = a, *y = b;

    return x->value[JOB] < y->value[JOB] ? -1 : x->value[JOB] > y->value[JOB];
}

static int by_first(const void *a, const void *b)
{
    const struct sim_schedule_range *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

/* false: its nodes cannot be checked any further. */
static bool check_nodes(struct check *k, const struct sim_schedule_row *r)
{
    struct sim_schedule_range *g = k->s.ranges + r->at;
    uint64_t count = 0;
    bool twice = false;

    qsort(g, r->n, sizeof(*g), by_first);
    for (size_t i = 0; i < r->n; i++) {
        if (g[i].last >= k->machine.nodes) {
            row_problem(k, r, "a node of its list is not of this machine");
            return false;
        }
        count += g[i].last - g[i].first + 1;
        twice = twice || (i > 0 && g[i].first <= g[i - 1].last);
    }
    if (twice)
        row_problem(k, r, "a node is twice in its list");
    else if (count != (uint64_t)r->value[NODES])
        row_problem(k, r, "its list does not name as many nodes as it has");
    return !twice;
}

static void check_rows(struct check *k)
{
    /* qsort(3) with no element may be given no array. */
    if (k->s.nrows > 0)
        qsort(k->s.rows, k->s.nrows, sizeof(*k->s.rows), by_id);
    for (size_t i = 0; i < k->s.nrows; i++) {
        struct sim_schedule_row *r = &k->s.rows[i];

        if (i > 0 && r->value[JOB] == r[-1].value[JOB])
            row_problem(k, r, "it occurs more than once");
        if (r->value[START] < r->value[SUBMIT])
            row_problem(k, r, "it starts before it was submitted");
        if (r->value[END] <= r->value[START])
            row_problem(k, r, "it does not end after it started");
        if (!check_nodes(k, r))
            r->n = 0;
    }
}

static int trace_by_id(const void *a, const void *b)
{
    const struct trace_job *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static int check_trace(struct check *k)
{
    struct trace_dropped dropped;
    struct trace_job *jobs;
    errmsg_t err;
    size_t n, at = 0;
    trace_t *t = trace_read(k->trace, k->ppn, &err);

    if (!t)
        return cmd_error(k->c, "%s", err.text);
    trace_keep(t, k->machine.nodes, false, 0, &dropped);
    n = trace_count(t);
    if (!(jobs = calloc(n ? n : 1, sizeof(*jobs)))) {
        trace_destroy(t);
        return cmd_error(k->c, "out of memory");
    }
    memcpy(jobs, trace_jobs(t), n * sizeof(*jobs));
    trace_destroy(t);
    if (n > 0)
        qsort(jobs, n, sizeof(*jobs), trace_by_id);
    for (size_t i = 0; i < n; i++) {
        for (; at < k->s.nrows && id_of(k, at) < jobs[i].id; at++)
            row_problem(k, &k->s.rows[at], "it is not in the log");
        if (at == k->s.nrows || id_of(k, at) > jobs[i].id) {
            job_problem(k, k->trace, jobs[i].line, jobs[i].id,
                        "it is in the log and not in the schedule");
            continue;
        }
        if (k->s.rows[at].value[SUBMIT] != jobs[i].submit ||
            k->s.rows[at].value[NODES] != jobs[i].nodes)
            job_problem(k, k->trace, jobs[i].line, jobs[i].id,
                        "its submit time or its nodes in the log are not those of the schedule");
        while (at < k->s.nrows && id_of(k, at) == jobs[i].id)
            at++;
    }
    for (; at < k->s.nrows; at++)
        row_problem(k, &k->s.rows[at], "it is not in the log");
    free(jobs);
    return CMD_OK;
}

/* --- who holds what, over time --- */

static int hold(struct check *k, struct holders *h, const char *kind, uint32_t number, size_t row)
{
    size_t *p = sim_schedule_grow(h->row, &h->space, h->n, sizeof(*p));

    if (!p)
        return -1;
    h->row = p;
    for (size_t i = 0; i < h->n; i++)
        overlap(k, kind, number, h->row[i], row);
    h->row[h->n++] = row;
    return 0;
}

static void let_go(struct holders *h, size_t row)
{
    for (size_t i = 0; i < h->n; i++) {
        if (h->row[i] == row) {
            h->row[i] = h->row[--h->n];
            return;
        }
    }
}

static int links(struct check *k, struct holders *h, const char *kind, uint32_t number, size_t row,
                 bool begins)
{
    if (begins)
        return hold(k, h, kind, number, row);
    let_go(h, row);
    return 0;
}

static int walk_links(struct check *k, size_t row, bool begins)
{
    const fattree_t *t = k->machine.tree;
    const struct sim_schedule_row *r = &k->s.rows[row];
    const struct sim_schedule_range *g = k->s.ranges + r->at;
    uint32_t first, last, leaf = FATTREE_NONE, pod = FATTREE_NONE;
    bool pods;

    if (!t || k->shared || r->n == 0)
        return 0;
    first = fattree_leaf(t, g[0].first);
    last = fattree_leaf(t, g[r->n - 1].last);
    pods = fattree_pod(t, first) != fattree_pod(t, last);
    if (first == last)
        return 0;
    for (size_t i = 0; i < r->n; i++) {
        for (uint32_t x = g[i].first; x <= g[i].last; x++) {
            if (fattree_leaf(t, x) == leaf)
                continue;
            leaf = fattree_leaf(t, x);
            if (links(k, &k->leaf[leaf], "leaf", leaf, row, begins) < 0)
                return -1;
            if (!pods || fattree_pod(t, leaf) == pod)
                continue;
            pod = fattree_pod(t, leaf);
            if (links(k, &k->pod[pod], "pod", pod, row, begins) < 0)
                return -1;
        }
    }
    return 0;
}

static void walk_nodes(struct check *k, size_t row, bool begins)
{
    const struct sim_schedule_row *r = &k->s.rows[row];

    for (size_t i = 0; i < r->n; i++) {
        const struct sim_schedule_range *g = &k->s.ranges[r->at + i];

        for (uint32_t x = g->first; x <= g->last; x++) {
            if (begins) {
                if (k->owner[x] != NONE)
                    overlap(k, "node", x, k->owner[x], row);
                k->owner[x] = row;
            } else if (k->owner[x] == row)
                k->owner[x] = NONE;
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int walk(struct check *k)
{
    size_t n = 0;
    struct event *e = calloc(2 * k->s.nrows + 1, sizeof(*e));
    int rc = 0;

    k->owner = calloc(k->machine.nodes, sizeof(*k->owner));
    if (k->machine.tree) {
        k->leaf = calloc(fattree_nleaves(k->machine.tree), sizeof(*k->leaf));
        k->pod = calloc(fattree_npods(k->machine.tree), sizeof(*k->pod));
    }
    if (!e || !k->owner || (k->machine.tree && (!k->leaf || !k->pod))) {
        free(e);
        return -1;
    }
    for (uint32_t x = 0; x < k->machine.nodes; x++)
        k->owner[x] = NONE;
    for (size_t i = 0; i < k->s.nrows; i++) {
        if (k->s.rows[i].value[END] <= k->s.rows[i].value[START])
            continue;
        e[n++] = (struct event){k->s.rows[i].value[START], true, i};
        e[n++] = (struct event){k->s.rows[i].value[END], false, i};
    }
    qsort(e, n, sizeof(*e), by_time);
    for (size_t i = 0; i < n && rc == 0; i++) {
        walk_nodes(k, e[i].row, e[i].begins);
        rc = walk_links(k, e[i].row, e[i].begins);
    }
    free(e);
    return rc;
}

/* --- the command --- */

static int report(struct check *k)
{
    if (k->json) {
        json_t *o = json_pack("{s:I, s:I, s:O}", "jobs", (json_int_t)k->s.nrows, "count",
                              (json_int_t)k->nproblems, "problems", k->problems);
        int rc = cmd_print_json(k->c, o);

        return rc != CMD_OK ? rc : k->nproblems ? CMD_FAIL : CMD_OK;
    }
    if (!k->all && k->nproblems > SHOWN)
        printf("and %zu more\n", k->nproblems - SHOWN);
    if (k->nproblems == 0)
        printf("%zu jobs: nothing is wrong%s\n", k->s.nrows,
               !k->machine.tree || k->shared ? "" : ", and no link was shared");
    return k->nproblems ? CMD_FAIL : CMD_OK;
}

static int check(struct check *k)
{
    int rc = sim_schedule_read(k->c, k->path, &k->s);

    if (rc != CMD_OK)
        return rc;
    if (!(k->problems = json_array()))
        return cmd_error(k->c, "out of memory");
    check_rows(k);
    if (k->trace && (rc = check_trace(k)) != CMD_OK)
        return rc;
    if (walk(k) < 0)
        return cmd_error(k->c, "out of memory");
    return report(k);
}

static void clear(struct check *k)
{
    uint32_t nleaves = k->leaf ? fattree_nleaves(k->machine.tree) : 0;
    uint32_t npods = k->pod ? fattree_npods(k->machine.tree) : 0;

    for (uint32_t i = 0; i < nleaves; i++)
        free(k->leaf[i].row);
    for (uint32_t i = 0; i < npods; i++)
        free(k->pod[i].row);
    free(k->leaf);
    free(k->pod);
    free(k->owner);
    sim_schedule_clear(&k->s);
    json_decref(k->problems);
    sim_machine_clear(&k->machine);
}

static int option(struct check *k, int key, const char *val)
{
    int code;

    switch (key) {
    case OPT_TRACE:
        k->trace = val;
        return CMD_OK;
    case OPT_LINKS:
        k->shared = strcmp(val, "shared") == 0;
        return k->shared || strcmp(val, "apart") == 0
                   ? CMD_OK
                   : cmd_usage_error(k->c, "--links is apart or shared, not '%s'", val);
    case OPT_ALL:
        k->all = true;
        return CMD_OK;
    case OPT_JSON:
        k->json = true;
        return CMD_OK;
    case SIM_OPT_PPN:
        if (cmd_parse_u32(k->c, "--ppn", val, &k->ppn) < 0)
            return CMD_USAGE;
        return k->ppn > 0 && k->ppn <= TRACE_PPN_MAX
                   ? CMD_OK
                   : cmd_usage_error(k->c, "--ppn is between 1 and %u", TRACE_PPN_MAX);
    default:
        return sim_machine_option(k->c, &k->machine, key, val, &code) < 0 ? code : CMD_OK;
    }
}

int sim_check(struct cmd *c, int argc, char **argv)
{
    struct check k = {.c = c, .ppn = 1};
    const char *val;
    int key, rc = CMD_OK;

    while (rc == CMD_OK && (key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        rc = option(&k, key, val);
    if (rc == CMD_OK && key < 0)
        rc = cmd_option_exit(key);
    else if (rc == CMD_OK) {
        if (argc - c->optind != 1)
            rc = cmd_usage_error(c, "expected one SCHEDULE");
        else if (k.machine.nodes == 0)
            rc = cmd_usage_error(c, "the machine is missing: use --nodes, --tree or --topology");
        else {
            k.path = argv[c->optind];
            rc = check(&k);
        }
    }
    clear(&k);
    return rc;
}
