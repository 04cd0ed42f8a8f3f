/* cmd_kap.c - flux kap: measure how long many processes take to put, synchronize and get.
 *
 * kap.h describes the parts of the program.  This file parses the options and prints the results.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "../session/cmd_session.h"
#include "kap.h"
#include "libkvs/kvs_key.h"
#include "libutil/size.h"
#include "../job/job_attach.h"

#define PROCS_MAX (1u << 20)
#define VALUE_MAX (16u << 20)
#define RUNS_MAX 100000
#define TIMEOUT 120.

enum {
    KEY_PRODUCERS = CMD_KEY(0),
    KEY_CONSUMERS,
    KEY_PUTS,
    KEY_GETS,
    KEY_STRIDE,
    KEY_REDUNDANT,
    KEY_DIRS,
    KEY_SYNC,
    KEY_REPEAT,
    KEY_JSON,
};

static const struct cmd_opt opts[] = {
    {'n', "nprocs", "N",
     "total number of simulated processes (default: one per rank, or as\n"
     "many as there are producers or consumers)"},
    {'r', "ranks", "RANKS", "run on these ranks (default: all ranks that are up)"},
    {KEY_PRODUCERS, "producers", "N", "number of processes that put keys (default: all)"},
    {KEY_CONSUMERS, "consumers", "N", "number of processes that get keys (default: all)"},
    {'s', "value-size", "BYTES", "size of each value (default: 8)"},
    {KEY_PUTS, "puts", "N", "number of keys that each producer puts (default: 1)"},
    {KEY_GETS, "gets", "N", "number of keys that each consumer gets (default: 1)"},
    {KEY_STRIDE, "stride", "N",
     "distance from the first key of a consumer to that of the next\n"
     "(default: the value of --gets, so that all get different keys)"},
    {KEY_REDUNDANT, "redundant", NULL,
     "use the same value for all keys (default: every value is unique)"},
    {KEY_DIRS, "dirs", "one|N", "put all keys in one directory (default), or N in each directory"},
    {KEY_SYNC, "sync", "fence|commit",
     "synchronize by one fence (default), or by commits and waiting\n"
     "for the version"},
    {'N', "namespace", "NAME", "use this namespace (default: primary)"},
    {KEY_REPEAT, "repeat", "N", "run the benchmark N times (default: 1)"},
    {'t', "timeout", "DURATION", "give up when a step takes longer (default: 2m)"},
    {KEY_JSON, "json", NULL, "print JSON, including the results of each run"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...]",
    "Measure the key-value store under the load of many processes: producers put, all\n"
    "synchronize, consumers get and compare every byte. Prints the latency of each phase in\n"
    "milliseconds, and the traffic of a fence at the broker of the master.",
    opts,
    NULL,
    0,
};

struct args {
    struct kap_config cfg;
    uint32_t repeat;
    const char *ranks;
    bool producers, consumers, stride; /* were given */
    bool json;
};

static int parse_u32(struct cmd *c, const char *what, const char *val, uint32_t min, uint32_t max,
                     uint32_t *out)
{
    if (cmd_parse_u32(c, what, val, out) < 0)
        return -1;
    if (*out < min || *out > max)
        return cmd_usage_error(c, "%s: %u is not between %u and %u", what, *out, min, max), -1;
    return 0;
}

static int parse_size(struct cmd *c, const char *val, uint32_t *out)
{
    uint64_t bytes;
    errmsg_t err;
    if (size_parse(val, &bytes, &err) < 0)
        return cmd_usage_error(c, "--value-size: %s", err.text), -1;
    if (bytes > VALUE_MAX)
        return cmd_usage_error(c, "--value-size: a value of the store has at most %u bytes",
                               VALUE_MAX),
               -1;
    *out = (uint32_t)bytes;
    return 0;
}

static int parse_one(struct cmd *c, struct args *a, int key, const char *val)
{
    struct kap_config *cfg = &a->cfg;
    switch (key) {
    case 'n':
        return parse_u32(c, "--nprocs", val, 1, PROCS_MAX, &cfg->nprocs);
    case 'r':
        a->ranks = val;
        return 0;
    case KEY_PRODUCERS:
        a->producers = true;
        return parse_u32(c, "--producers", val, 0, PROCS_MAX, &cfg->producers);
    case KEY_CONSUMERS:
        a->consumers = true;
        return parse_u32(c, "--consumers", val, 0, PROCS_MAX, &cfg->consumers);
    case 's':
        return parse_size(c, val, &cfg->value_size);
    case KEY_PUTS:
        return parse_u32(c, "--puts", val, 0, 1u << 20, &cfg->puts);
    case KEY_GETS:
        return parse_u32(c, "--gets", val, 0, UINT32_MAX, &cfg->gets);
    case KEY_STRIDE:
        a->stride = true;
        return cmd_parse_u32(c, "--stride", val, &cfg->stride);
    case KEY_REDUNDANT:
        cfg->redundant = true;
        return 0;
    case KEY_DIRS:
        cfg->dir_keys = 0;
        return strcmp(val, "one") == 0 ? 0
                                       : parse_u32(c, "--dirs", val, 1, UINT32_MAX, &cfg->dir_keys);
    case KEY_SYNC:
        cfg->commit = strcmp(val, "commit") == 0;
        if (!cfg->commit && strcmp(val, "fence") != 0)
            return cmd_usage_error(c, "--sync: '%s' is not one of fence, commit", val), -1;
        return 0;
    case 'N':
        cfg->ns = strcmp(val, "primary") == 0 ? "" : val;
        return 0;
    case KEY_REPEAT:
        return parse_u32(c, "--repeat", val, 1, RUNS_MAX, &a->repeat);
    case 't':
        if (cmd_parse_duration(c, "--timeout", val, &cfg->timeout) < 0)
            return -1;
        if (!(cfg->timeout > 0 && cfg->timeout < 1e6))
            return cmd_usage_error(c, "--timeout: must be greater than 0 and less than 11 days"),
                   -1;
        return 0;
    default:
        a->json = true;
        return 0;
    }
}

/* What was not said, and what does not go together. */
static int complete(struct cmd *c, struct args *a)
{
    struct kap_config *cfg = &a->cfg;
    if (!a->producers)
        cfg->producers = cfg->nprocs;
    if (!a->consumers)
        cfg->consumers = cfg->nprocs;
    if (!a->stride)
        cfg->stride = cfg->gets;
    if (cfg->producers > cfg->nprocs || cfg->consumers > cfg->nprocs)
        return cmd_usage_error(c, "%u producers or %u consumers are more than %u processes",
                               cfg->producers, cfg->consumers, cfg->nprocs);
    if (kap_keys(cfg) == 0) /* an empty fence: there is nothing to get */
        cfg->gets = 0;
    if (kap_keys(cfg) > UINT32_MAX)
        return cmd_usage_error(c, "%u producers with %u puts each are too many keys",
                               cfg->producers, cfg->puts);
    return CMD_OK;
}

/* As many ranks as there is work for, spread over those that were chosen.  Text to be freed; NULL
 * after an error message. */
static char *choose_ranks(struct cmd *c, flux_t *h, struct args *a)
{
    struct session s;
    idset_t *set = NULL, *used = idset_create();
    char *text = NULL;
    if (a->ranks) {
        set = cmd_parse_ranks(c, h, a->ranks);
    } else if (session_query(c, &s, false) == 0) {
        set = idset_copy(s.up);
        session_clear(&s);
    }
    if (set && used) {
        size_t n = idset_count(set);
        if (a->cfg.nprocs == 0) {
            /* What was said of them is left out of nobody. */
            uint32_t least =
                a->cfg.producers > a->cfg.consumers ? a->cfg.producers : a->cfg.consumers;
            a->cfg.nprocs = n > least ? (uint32_t)n : least;
        }
        size_t want = n < a->cfg.nprocs ? n : a->cfg.nprocs;
        for (size_t i = 0; i < want; i++)
            (void)idset_set(used, idset_nth(set, i * n / want));
        if (n == 0)
            cmd_error(c, "the set of ranks to run on is empty");
        else if (!(text = idset_format(used, 0)))
            cmd_error(c, "out of memory");
    }
    idset_destroy(set);
    idset_destroy(used);
    return text;
}

/* --- results --- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a run's slowest process took, in the middle one of the runs. */
static double typical_max(const struct kap_result *r, uint32_t runs, unsigned phase)
{
    double *max = calloc(runs, sizeof(*max)), mid = 0;
    for (uint32_t i = 0; max && i < runs; i++)
        max[i] = r[i].phase[phase].max;
    if (max) {
        qsort(max, runs, sizeof(*max), compare_doubles);
        mid = runs % 2 ? max[runs / 2] : (max[runs / 2 - 1] + max[runs / 2]) / 2;
    }
    free(max);
    return mid;
}

static void total(const struct kap_result *r, uint32_t runs, struct kap_result *sum)
{
    memset(sum, 0, sizeof(*sum));
    for (uint32_t i = 0; i < runs; i++) {
        for (unsigned p = 0; p < KAP_PHASES; p++)
            kap_stat_merge(&sum->phase[p], &r[i].phase[p]);
        sum->fence_msgs += r[i].fence_msgs;
        sum->fence_bytes += r[i].fence_bytes;
        sum->fence_local += r[i].fence_local;
    }
}

static json_t *phase_json(const struct kap_stat *s)
{
    json_t *obj = json_object();
    json_object_set_new(obj, "processes", json_integer((json_int_t)s->n));
    json_object_set_new(obj, "min", json_real(s->n ? s->min : 0));
    json_object_set_new(obj, "mean", json_real(s->n ? s->sum / (double)s->n : 0));
    json_object_set_new(obj, "max", json_real(s->n ? s->max : 0));
    return obj;
}

static json_t *result_json(const struct kap_result *r, uint32_t runs)
{
    json_t *obj = json_object();
    for (unsigned p = 0; p < KAP_PHASES; p++)
        json_object_set_new(obj, kap_phase_names[p], phase_json(&r->phase[p]));
    json_object_set_new(obj, "fence_messages", json_real((double)r->fence_msgs / runs));
    json_object_set_new(obj, "fence_bytes", json_real((double)r->fence_bytes / runs));
    json_object_set_new(obj, "fence_bytes_local", json_real((double)r->fence_local / runs));
    return obj;
}

static int print_json(struct cmd *c, const struct args *a, const struct kap_result *r)
{
    const struct kap_config *cfg = &a->cfg;
    struct kap_result sum;
    json_t *obj, *runs = json_array();
    total(r, a->repeat, &sum);
    obj = result_json(&sum, a->repeat);
    for (unsigned p = 0; p < KAP_PHASES; p++)
        json_object_set_new(json_object_get(obj, kap_phase_names[p]), "typical_max",
                            json_real(typical_max(r, a->repeat, p)));
    for (uint32_t i = 0; i < a->repeat; i++)
        json_array_append_new(runs, result_json(&r[i], 1));
    json_object_set_new(obj, "runs", runs);
    json_object_set_new(obj, "nprocs", json_integer(cfg->nprocs));
    json_object_set_new(obj, "producers", json_integer(cfg->producers));
    json_object_set_new(obj, "consumers", json_integer(cfg->consumers));
    json_object_set_new(obj, "ranks", json_string(cfg->ranks));
    json_object_set_new(obj, "value_size", json_integer(cfg->value_size));
    json_object_set_new(obj, "puts", json_integer(cfg->puts));
    json_object_set_new(obj, "gets", json_integer(cfg->gets));
    json_object_set_new(obj, "stride", json_integer(cfg->stride));
    json_object_set_new(obj, "redundant", json_boolean(cfg->redundant));
    json_object_set_new(obj, "keys_per_directory",
                        cfg->dir_keys ? json_integer(cfg->dir_keys) : json_null());
    json_object_set_new(obj, "sync", json_string(cfg->commit ? "commit" : "fence"));
    json_object_set_new(obj, "namespace", json_string(cfg->ns[0] ? cfg->ns : "primary"));
    return cmd_print_json(c, obj);
}

static int print_text(struct cmd *c, const struct args *a, const struct kap_result *r)
{
    const struct kap_config *cfg = &a->cfg;
    struct kap_result sum;
    table_t *t = table_create();
    double runs = a->repeat;
    int rc;
    total(r, a->repeat, &sum);
    table_column(t, "phase", "PHASE", TABLE_LEFT);
    table_column(t, "processes", "PROCESSES", TABLE_RIGHT);
    table_column(t, "min", "MIN/ms", TABLE_RIGHT);
    table_column(t, "mean", "MEAN/ms", TABLE_RIGHT);
    table_column(t, "max", "MAX/ms", TABLE_RIGHT);
    if (a->repeat > 1)
        table_column(t, "typical_max", "TYPICAL-MAX/ms", TABLE_RIGHT);
    for (unsigned p = 0; p < KAP_PHASES; p++) {
        const struct kap_stat *s = &sum.phase[p];
        table_row(t);
        table_str(t, kap_phase_names[p]);
        table_u64(t, s->n / a->repeat);
        if (s->n == 0)
            continue;
        table_real(t, s->min * 1e3, 3);
        table_real(t, s->sum / (double)s->n * 1e3, 3);
        table_real(t, s->max * 1e3, 3);
        if (a->repeat > 1)
            table_real(t, typical_max(r, a->repeat, p) * 1e3, 3);
    }
    rc = cmd_print_table(c, t, false);
    if (rc == CMD_OK && !cfg->commit)
        printf("a fence sent to the master: %.0f bytes in %.1f messages from other brokers, %.0f "
               "bytes from its own clients\n",
               (double)sum.fence_bytes / runs, (double)sum.fence_msgs / runs,
               (double)sum.fence_local / runs);
    return rc;
}

int cmd_kap(struct cmd *c, int argc, char **argv)
{
    struct args a = {.repeat = 1,
                     .cfg = {.ns = "", .value_size = 8, .puts = 1, .gets = 1, .timeout = TIMEOUT}};
    struct kap_result *results = NULL;
    char *ranks = NULL;
    char id[32];
    const char *val;
    flux_t *h;
    int key, code;
    if (argc == 3 && strcmp(argv[1], "--worker") == 0)
        return kap_work(c, argv[2]);
    job_attach_standard_fds();
    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (parse_one(c, &a, key, val) < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    if (a.cfg.nprocs > 0 && (code = complete(c, &a)) != CMD_OK)
        return code;
    if (!(h = cmd_handle(c)) || !(ranks = choose_ranks(c, h, &a)))
        return CMD_FAIL;
    snprintf(id, sizeof(id), "%llx", (unsigned long long)(flux_random(h) ^ (uint64_t)getpid()));
    a.cfg.id = id;
    a.cfg.ranks = ranks;
    if ((code = complete(c, &a)) != CMD_OK)
        goto out;
    code = CMD_FAIL;
    if (!(results = calloc(a.repeat, sizeof(*results))))
        cmd_error(c, "out of memory for %u results", a.repeat);
    else if (kap_run(c, h, &a.cfg, a.repeat, results) == 0)
        code = a.json ? print_json(c, &a, results) : print_text(c, &a, results);
out:
    free(results);
    free(ranks);
    return code;
}
