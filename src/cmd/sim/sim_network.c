/* sim_network.c - flux sim network: the cost of shared links.
 *
 * Workload: a log of jobs that ask for more than the machine has (LOAD), so that it fills up and
 * its free nodes are scattered as in production.  Only the jobs of the requested sizes (with
 * uniformly distributed logarithms) are measured.  Others, which fit on a leaf, do a fraction SMALL
 * of the work: without them, free nodes would be in large pieces, and first-fit would look better
 * than it is.  Each job has one of the patterns.
 *
 * Measurement: EASY replays the log with first-fit and with interference-free.  At SNAPSHOTS times
 * of each replay all running jobs begin to send at once; a job's time is that of its last message.
 * No rank sends or receives more than one unit of data, so the best time is 1 for any size and
 * pattern, and means over different jobs can be compared.
 *
 * With --flows the messages come from a file (sim_flows.c).
 *
 * All random numbers come from the seed.  Workload i does not depend on the number of workloads.
 *
 * Failure: an exit code, after an error message.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim_net.h"
#include "sim_pattern.h"

#define MAX_LINKS 4000000
#define MAX_JOBS 10000
#define LOAD 1.2
#define SMALL 0.15
#define MEAN_RUNTIME 3600
#define SNAPSHOTS 3
/* Flows that end within so much of the time that has passed end together: much faster, and less
 * than the error of anything else here. */
#define GRAIN 0.02

enum { OPT_JOBS = CMD_KEY(0), OPT_SIZES, OPT_SEED, OPT_WORKLOADS, OPT_FLOWS, OPT_JSON };

static const struct cmd_opt opts[] = {
    {SIM_OPT_TREE, "tree", "P,L,K", "a full fat tree: P pods of L leaf switches of K nodes"},
    {OPT_JOBS, "jobs", "N", "jobs of these sizes in a workload (60)"},
    {OPT_SIZES, "sizes", "A-B", "nodes of a job (1/20 to 2/5 of the machine)"},
    {OPT_WORKLOADS, "workloads", "N", "how many workloads (15)"},
    {OPT_SEED, "seed", "S", "seed of the random numbers (1)"},
    {OPT_FLOWS, "flows", "FILE",
     "instead of workloads, read messages from FILE (\"from to\nsize\" in each line) and print "
     "when "
     "each of them ends"},
    {OPT_JSON, "json", NULL, "print JSON"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "--tree=P,L,K [OPTION...]",
    "Simulate the cost of shared links in a fat tree: place jobs by first-fit and by\n"
    "interference-free, let all of them send in one of four patterns, and print how much longer "
    "they\n"
    "take under first-fit. Links carry one unit of data per unit of time, and are shared fairly;\n"
    "routes are static (D-mod-k).",
    opts,
    "Exit code: 0 on success, 1 if a file cannot be read, 2 on a usage error.",
    0,
};

enum { FIRST_FIT, APART, PLACEMENTS };
static const char *const selects[PLACEMENTS] = {"first-fit", "interference-free"};

struct job {
    enum sim_pattern pattern;
    uint64_t seed;
    bool measured;
    uint32_t nodes, *list; /* its nodes in the present replay; NULL: it has not started */
    int64_t start, end;
};

struct summary {
    size_t n;
    double sum;
};

struct network {
    struct cmd *c;
    struct sim_machine machine;
    uint32_t jobs, smallest, largest, workloads;
    uint64_t seed;
    const char *flows;
    bool json;
    /* The present workload; a replay's id of a job is its place in `job`. */
    struct job *job;
    struct sched_replay_job *log, *replay;
    size_t njobs, space;
    int64_t last_submit;
    struct summary times[SIM_PATTERN_COUNT][PLACEMENTS];
    uint32_t workload, placement, snapshot; /* for progress */
};

/* --- workloads --- */

static double draw_real(uint64_t *rng) /* in [0, 1) */
{
    return (double)(sim_pattern_random(rng) >> 11) / 9007199254740992.;
}

static void add_job(struct network *n, uint64_t *rng, double at, uint32_t nodes, bool measured)
{
    /* Some run long, most do not. */
    double runtime = 1 - log(1 - draw_real(rng)) * MEAN_RUNTIME;
    struct job *j = &n->job[n->njobs];

    *j = (struct job){.nodes = nodes, .measured = measured};
    j->pattern = (enum sim_pattern)sim_pattern_below(rng, SIM_PATTERN_COUNT);
    j->seed = sim_pattern_random(rng);
    n->log[n->njobs] = (struct sched_replay_job){n->njobs,         (int64_t)at, (int64_t)runtime,
                                                 (int64_t)runtime, nodes,       0};
    n->njobs++;
}

static uint32_t draw_size(const struct network *n, uint64_t *rng)
{
    double lo = log(n->smallest), hi = log((double)n->largest + 1);
    uint32_t nodes = (uint32_t)exp(lo + draw_real(rng) * (hi - lo));

    return nodes < n->smallest ? n->smallest : nodes > n->largest ? n->largest : nodes;
}

/* Mean of draw_size(). */
static double mean_size(const struct network *n)
{
    double width = (double)n->largest + 1 - n->smallest;

    return width / log(((double)n->largest + 1) / n->smallest);
}

/* Small jobs for each large one. */
static uint32_t small_each(const struct network *n)
{
    double each = SMALL / (1 - SMALL) * mean_size(n) / ((n->machine.k + 1) / 2.);

    return (uint32_t)ceil(each);
}

static void make_workload(struct network *n)
{
    uint64_t rng = n->seed + n->workload * UINT64_C(0x2545f4914f6cdd1d);
    uint32_t each = small_each(n);
    double step = mean_size(n) / (1 - SMALL) * MEAN_RUNTIME / (n->machine.nodes * LOAD);

    n->njobs = 0;
    for (uint32_t i = 0; i < n->jobs; i++) {
        add_job(n, &rng, i * step, draw_size(n, &rng), true);
        for (uint32_t k = 0; k < each; k++)
            add_job(n, &rng, (i + (double)k / each) * step,
                    1 + sim_pattern_below(&rng, n->machine.k), false);
    }
    n->last_submit = (int64_t)(n->jobs * step);
}

static int started_cb(size_t i, const struct sched_range *range, size_t nrange, void *arg)
{
    struct network *n = arg;
    struct job *j = &n->job[n->replay[i].id];
    uint32_t at = 0;

    if (!(j->list = calloc(j->nodes, sizeof(*j->list))))
        return -1;
    for (size_t k = 0; k < nrange; k++)
        for (uint32_t x = 0; x < range[k].count; x++)
            j->list[at++] = range[k].first + x;
    j->start = n->replay[i].start;
    j->end = j->start + n->replay[i].runtime;
    return 0;
}

static void forget_lists(struct network *n)
{
    for (size_t i = 0; i < n->njobs; i++) {
        free(n->job[i].list);
        n->job[i].list = NULL;
    }
}

static int place(struct network *n, int placement, errmsg_t *err)
{
    const struct sched_replay_ops ops = {started_cb, NULL, n};
    const struct sched_whole_options options = {"easy", selects[placement], 0, n->machine.nodes,
                                                n->machine.tree};

    memcpy(n->replay, n->log, n->njobs * sizeof(*n->replay));
    errmsg_set(err, "out of memory for the lists of nodes");
    return sched_replay(&options, n->replay, n->njobs, &ops, err);
}

/* --- sending --- */

struct sending {
    sim_net_t *net;
    const uint32_t *list;
};

static int send_cb(uint32_t from, uint32_t to, double size, void *arg)
{
    struct sending *s = arg;

    return sim_net_add(s->net, s->list[from], s->list[to], size) == SIZE_MAX ? -1 : 0;
}

static void progress_cb(size_t done, size_t nflows, void *arg)
{
    struct network *n = arg;

    cmd_progress(n->c, "workload %u of %u, %s: %zu of %zu messages", n->workload + 1, n->workloads,
                 selects[n->placement], done, nflows);
}

static bool runs_at(const struct job *j, int64_t at)
{
    return j->list && j->start <= at && at < j->end;
}

/* The messages of the jobs that run at a moment, each job's together; *first of a job: its
 * first. */
static int add_messages(const struct network *n, int64_t at, sim_net_t *net, size_t *first)
{
    for (size_t i = 0; i < n->njobs; i++) {
        const struct job *j = &n->job[i];
        struct sending s = {net, j->list};

        first[i] = sim_net_count(net);
        if (runs_at(j, at) && sim_pattern_messages(j->pattern, j->nodes, j->seed, send_cb, &s) < 0)
            return -1;
    }
    first[n->njobs] = sim_net_count(net);
    return 0;
}

static void add_times(struct network *n, int64_t at, const size_t *first, const double *finish)
{
    for (size_t i = 0; i < n->njobs; i++) {
        const struct job *j = &n->job[i];
        struct summary *s = &n->times[j->pattern][n->placement];
        double time = 0;

        if (!j->measured || !runs_at(j, at))
            continue;
        for (size_t k = first[i]; k < first[i + 1]; k++)
            time = fmax(time, finish[k]);
        s->sum += time;
        s->n++;
    }
}

static int measure(struct network *n, int64_t at)
{
    const struct sim_machine *m = &n->machine;
    sim_net_t *net = sim_net_create(m->pods, m->leaves, m->k);
    size_t *first = calloc(n->njobs + 1, sizeof(*first));
    double *finish = NULL;
    int rc = -1;

    if (net && first && add_messages(n, at, net, first) == 0 &&
        (finish = calloc(first[n->njobs] + 1, sizeof(*finish))) &&
        sim_net_run(net, GRAIN, finish, progress_cb, n) == 0) {
        add_times(n, at, first, finish);
        rc = 0;
    }
    free(finish);
    free(first);
    sim_net_destroy(net);
    return rc;
}

static int run_workload(struct network *n, errmsg_t *err)
{
    int rc = 0;

    make_workload(n);
    for (n->placement = 0; n->placement < PLACEMENTS && rc == 0; n->placement++) {
        rc = place(n, (int)n->placement, err);
        /* The first half of the workload fills the machine. */
        for (n->snapshot = 0; n->snapshot < SNAPSHOTS && rc == 0; n->snapshot++) {
            int64_t at = n->last_submit / 2 + n->last_submit / 2 * n->snapshot / SNAPSHOTS;

            if ((rc = measure(n, at)) < 0)
                errmsg_fail(err, ENOMEM, "out of memory for the messages");
        }
        forget_lists(n);
    }
    return rc;
}

/* --- the table --- */

static void mean_cell(table_t *t, const struct summary *s)
{
    if (s->n > 0)
        table_real(t, s->sum / (double)s->n, 3);
    else
        table_null(t);
}

static int print_summary(struct network *n)
{
    table_t *t = table_create();
    double ratios = 0;
    size_t patterns = 0;

    table_column(t, "pattern", "PATTERN", TABLE_LEFT);
    table_column(t, "jobs_first_fit", "JOBS", TABLE_RIGHT);
    table_column(t, "time_first_fit", "FIRST-FIT", TABLE_RIGHT);
    table_column(t, "jobs_interference_free", "JOBS", TABLE_RIGHT);
    table_column(t, "time_interference_free", "INTERFERENCE-FREE", TABLE_RIGHT);
    table_column(t, "ratio", "RATIO", TABLE_RIGHT);
    for (size_t i = 0; i < SIM_PATTERN_COUNT; i++) {
        const struct summary *s = n->times[i];

        table_row(t);
        table_str(t, sim_pattern_names[i]);
        for (int p = 0; p < PLACEMENTS; p++) {
            table_u64(t, s[p].n);
            mean_cell(t, &s[p]);
        }
        if (s[FIRST_FIT].n == 0 || s[APART].n == 0) {
            table_null(t);
            continue;
        }
        table_real(
            t, s[FIRST_FIT].sum / (double)s[FIRST_FIT].n / (s[APART].sum / (double)s[APART].n), 3);
        ratios += s[FIRST_FIT].sum / (double)s[FIRST_FIT].n / (s[APART].sum / (double)s[APART].n);
        patterns++;
    }
    table_row(t);
    table_str(t, "mean of the patterns");
    for (int k = 0; k < 2 * PLACEMENTS; k++)
        table_null(t);
    if (patterns > 0)
        table_real(t, ratios / (double)patterns, 3);
    else
        table_null(t);
    if (!n->json)
        printf("mean times of jobs that send, 1 at best; machine %u,%u,%u, jobs of %u to %u "
               "nodes\n\n",
               n->machine.pods, n->machine.leaves, n->machine.k, n->smallest, n->largest);
    return cmd_print_table(n->c, t, n->json);
}

static int run_workloads(struct network *n)
{
    errmsg_t err;
    int rc = 0;

    n->space = (size_t)n->jobs * (1 + small_each(n));
    n->job = calloc(n->space, sizeof(*n->job));
    n->log = calloc(n->space, sizeof(*n->log));
    n->replay = calloc(n->space, sizeof(*n->replay));
    if (!n->job || !n->log || !n->replay)
        rc = errmsg_fail(&err, ENOMEM, "out of memory");
    for (; rc == 0 && n->workload < n->workloads; n->workload++)
        rc = run_workload(n, &err);
    free(n->job);
    free(n->log);
    free(n->replay);
    cmd_progress_end(n->c);
    return rc < 0 ? cmd_error(n->c, "%s", err.text) : print_summary(n);
}

/* --- the command --- */

static int sizes_option(struct network *n, const char *val)
{
    char *end;
    unsigned long a, b;

    errno = 0;
    a = strtoul(val, &end, 10);
    b = a;
    if (end != val && *end == '-')
        b = strtoul(end + 1, &end, 10);
    if (errno || val[strspn(val, "0123456789-")] || end == val || *end || a < 2 || b < a ||
        b > FATTREE_NODES_MAX)
        return cmd_usage_error(n->c, "--sizes is A-B with 2 <= A <= B, not '%s'", val);
    n->smallest = (uint32_t)a;
    n->largest = (uint32_t)b;
    return CMD_OK;
}

static int count_option(struct network *n, const char *what, const char *val, uint32_t *out)
{
    if (cmd_parse_u32(n->c, what, val, out) < 0)
        return CMD_USAGE;
    return *out >= 1 && *out <= MAX_JOBS
               ? CMD_OK
               : cmd_usage_error(n->c, "%s is between 1 and %d", what, MAX_JOBS);
}

static int option(struct network *n, int key, const char *val)
{
    int code;

    switch (key) {
    case OPT_JOBS:
        return count_option(n, "--jobs", val, &n->jobs);
    case OPT_WORKLOADS:
        return count_option(n, "--workloads", val, &n->workloads);
    case OPT_SIZES:
        return sizes_option(n, val);
    case OPT_SEED:
        return cmd_parse_u64(n->c, "--seed", val, &n->seed) < 0 ? CMD_USAGE : CMD_OK;
    case OPT_FLOWS:
        n->flows = val;
        return CMD_OK;
    case OPT_JSON:
        n->json = true;
        return CMD_OK;
    default:
        return sim_machine_option(n->c, &n->machine, key, val, &code) < 0 ? code : CMD_OK;
    }
}

static int check(struct network *n, int nargs)
{
    const struct sim_machine *m = &n->machine;

    if (nargs > 0)
        return cmd_usage_error(n->c, "there are no arguments");
    if (m->nodes == 0)
        return cmd_usage_error(n->c, "the machine is missing: use --tree");
    if ((uint64_t)m->nodes + (uint64_t)m->pods * m->k * m->k > MAX_LINKS / 2)
        return cmd_usage_error(n->c, "this machine has too many links: at most %d", MAX_LINKS);
    if (n->flows)
        return CMD_OK;
    if (n->largest == 0) {
        n->smallest = m->nodes / 20 > 2 ? m->nodes / 20 : 2;
        n->largest = m->nodes * 2 / 5 > n->smallest ? m->nodes * 2 / 5 : n->smallest;
    }
    if (n->largest > m->nodes)
        return cmd_usage_error(n->c, "a job of %u nodes is larger than the machine of %u",
                               n->largest, m->nodes);
    return CMD_OK;
}

int sim_network(struct cmd *c, int argc, char **argv)
{
    struct network n = {.c = c, .jobs = 60, .workloads = 15, .seed = 1};
    const char *val;
    int key, rc = CMD_OK;

    while (rc == CMD_OK && (key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        rc = option(&n, key, val);
    if (rc == CMD_OK)
        rc = key < 0 ? cmd_option_exit(key) : check(&n, argc - c->optind);
    if (rc == CMD_OK && key == 0)
        rc = n.flows ? sim_flows(c, &n.machine, n.flows, n.json) : run_workloads(&n);
    sim_machine_clear(&n.machine);
    return rc;
}
