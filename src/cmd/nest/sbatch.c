/* sbatch.c - see sbatch.h.
 *
 * A table specifies for each option of sbatch whether it takes a value, the function that parses
 * the value, and the option of flux batch that replaces it, or the reason why it is ignored.
 *
 *    sbatch                           flux batch
 *    -n, -c, -J, -w, --gpus-per-task  the same under another name
 *    -N MIN-MAX                       --nodes=MIN; a warning that MAX is ignored
 *    -t                               --time-limit (0: inf)
 *    -o, -e, -i PATTERN               --output, ...: %j {{id}}, %x {{name}}, %t {{task}}, ...
 *    --mem (per node)                 --mem (per task): divided by the tasks of a node
 *    --mem-per-cpu                    --mem: times the cores of a task
 *    --gres=gpu:N, --gpus-per-node    --gpus-per-task: divided by the tasks of a node
 *    -a 1-10:2%3                      --cc=1,3,5,7,9; a warning that %3 is ignored
 *    -d afterok:1:2                   --dependency=afterok:1,afterok:2
 *
 * Invariants:
 *  1. An option of flux batch is printed once: the last value counts, as in sbatch.
 *  2. A value that is parsed here is checked here; others are checked by flux batch.
 *
 * Failure: -1 with an error message that names the option; the object can be destroyed.
 */
#include "config.h"
#include "sbatch.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "libutil/size.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define ARRAY_MAX 100000
#define LIST_MAX (1u << 20)
#define KEY_BASE 1000
#define MIB (1ull << 20)

struct sbatch {
    strvec_t *options, *ignored;
    uint32_t nodes, ntasks, per_node, cpus, gpus_per_node;
    uint64_t mem, mem_per_cpu; /* bytes */
    bool exclusive;
};

struct row {
    char letter;      /* 0: none */
    char arg;         /* 'n': none, 'v': a value, 'o': may have one */
    const char *name; /* of sbatch */
    int (*take)(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err);
    const char *to; /* option of flux batch; of ignore(): why */
};

static int no_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory");
}

static int put(sbatch_t *s, const char *option, const char *val, errmsg_t *err)
{
    int rc = val ? strvec_addf(s->options, "--%s=%s", option, val)
                 : strvec_addf(s->options, "--%s", option);

    return rc < 0 ? no_memory(err) : 0;
}

static int note(sbatch_t *s, errmsg_t *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int note(sbatch_t *s, errmsg_t *err, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return strvec_add(s->ignored, text) < 0 ? no_memory(err) : 0;
}

/* --- kinds of values --- */

static int copy(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    return put(s, r->to, val, err);
}

static int ignore(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    return note(s, err, "--%s: %s", r->name, r->to);
}

/* What flux batch does anyway. */
static int as_usual(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    return 0;
}

static int number(const struct row *r, const char *val, uint32_t *n, errmsg_t *err)
{
    if (str2u32(val, n) < 0 || *n == 0)
        return errmsg_fail(err, EINVAL, "--%s: '%.60s' is not a number of at least 1", r->name,
                           val);
    return 0;
}

static int take_nodes(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    const char *dash = strchr(val, '-');
    size_t len = dash ? (size_t)(dash - val) : strlen(val);
    char least[32];

    if (len >= sizeof(least))
        return number(r, val, &s->nodes, err);
    memcpy(least, val, len);
    least[len] = '\0';
    if (number(r, least, &s->nodes, err) < 0)
        return -1;
    return dash && strcmp(dash + 1, least) != 0
               ? note(s, err, "--nodes=%.60s: the job gets %s nodes, not more", val, least)
               : 0;
}

static int take_ntasks(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    return number(r, val, &s->ntasks, err);
}

static int take_per_node(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    return number(r, val, &s->per_node, err);
}

static int take_cpus(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    return number(r, val, &s->cpus, err);
}

static int take_time(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    return put(s, r->to, strcmp(val, "0") == 0 ? "inf" : val, err);
}

static int take_memory(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    uint64_t *dst = strcmp(r->name, "mem") == 0 ? &s->mem : &s->mem_per_cpu;
    bool bare = *val && val[strspn(val, "0123456789")] == '\0';
    errmsg_t why;

    if (size_parse(val, dst, &why) < 0 || (bare && *dst > UINT64_MAX / MIB))
        return errmsg_fail(err, EINVAL, "--%s: '%.60s' is not an amount of memory", r->name, val);
    if (bare)
        *dst *= MIB;
    if (*dst == 0)
        return note(s, err, "--%s=0: memory is allocated by the number of tasks", r->name);
    return 0;
}

/* N, TYPE:N, and with gpu: or gpu/ in front as in --gres. */
static int take_gpus(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    const char *colon = strrchr(val, ':'), *count = colon ? colon + 1 : val;

    if (strcmp(r->name, "gres") == 0) {
        if (strncmp(val, "gpu", 3) != 0 || strchr(val, ','))
            return note(s, err, "--gres=%.200s: only gpu:N is supported; consider --pool", val);
        if (!isdigit((unsigned char)*count)) /* gpu, gpu:TYPE */
            count = "1";
    }
    return number(r, count, &s->gpus_per_node, err);
}

/* Patterns in names of files. */
static int take_file(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    static const struct {
        char letter;
        const char *to;
    } marks[] = {{'%', "%"},      {'j', "{{id}}"},   {'A', "{{id}}"},   {'J', "{{id}}"},
                 {'a', "{{cc}}"}, {'x', "{{name}}"}, {'t', "{{task}}"}, {'n', "{{node}}"}};
    strbuf_t *sb = strbuf_create(0);
    char *text;
    int rc = 0;

    for (const char *p = val; rc == 0 && *p; p++) {
        size_t i = 0, n = sizeof(marks) / sizeof(marks[0]);

        while (*p == '%' && i < n && marks[i].letter != p[1])
            i++;
        if (*p == '%' && i < n) {
            strbuf_add(sb, marks[i].to);
            p++;
        } else {
            strbuf_addc(sb, *p);
            if (*p == '%')
                rc = note(s, err, "--%s=%.200s: '%%%.1s' is not replaced", r->name, val, p + 1);
        }
    }
    text = strbuf_take(sb);
    if (rc == 0)
        rc = text ? put(s, r->to, text, err) : no_memory(err);
    free(text);
    return rc;
}

static int bad_array(const char *val, errmsg_t *err)
{
    return errmsg_fail(err, EINVAL,
                       "--array: '%.60s' does not have the form 1-10, 0-20:2 or 1,3,5%%2", val);
}

/* FIRST[-LAST[:STEP]] at *p, appended as a list. */
static int array_range(const char **p, strbuf_t *sb, const char *val, errmsg_t *err)
{
    uint64_t n[3] = {0, 0, 1};
    size_t given = 0;

    for (;;) {
        if (!isdigit((unsigned char)**p))
            return bad_array(val, err);
        for (n[given] = 0; isdigit((unsigned char)**p) && n[given] < UINT32_MAX; (*p)++)
            n[given] = 10 * n[given] + (uint64_t)(**p - '0');
        given++;
        if (given == 3 || **p != (given == 1 ? '-' : ':'))
            break;
        (*p)++;
    }
    if (given == 1)
        n[1] = n[0];
    if (n[1] < n[0] || n[2] == 0 || n[1] >= UINT32_MAX || (n[1] - n[0]) / n[2] > ARRAY_MAX)
        return bad_array(val, err);
    if (n[2] == 1)
        return strbuf_addf(sb, "%" PRIu64 "-%" PRIu64, n[0], n[1]) < 0 ? bad_array(val, err) : 0;
    for (uint64_t i = n[0]; i <= n[1]; i += n[2]) {
        if (strbuf_addf(sb, "%s%" PRIu64, i > n[0] ? "," : "", i) < 0)
            return bad_array(val, err);
    }
    return 0;
}

static int take_array(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    strbuf_t *sb = strbuf_create(LIST_MAX);
    const char *p = val;
    char *text;
    int rc;

    while ((rc = array_range(&p, sb, val, err)) == 0 && *p == ',') {
        strbuf_addc(sb, ',');
        p++;
    }
    if (rc == 0 && *p == '%')
        rc =
            note(s, err, "--array=%.200s: the number of jobs that run at once is not limited", val);
    else if (rc == 0 && *p)
        rc = bad_array(val, err);
    text = strbuf_take(sb);
    if (rc == 0)
        rc = text ? put(s, r->to, text, err) : no_memory(err);
    free(text);
    return rc;
}

/* SCHEME:ID[:ID...][,...]: a SCHEME:ID for each. */
static int take_dependency(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    char *text = strdup(val), *save = NULL, *save_id = NULL, *item, *scheme, *id;
    char one[200];
    int rc = text ? 0 : no_memory(err);

    if (rc == 0 && (strchr(val, '?') || strstr(val, "singleton") || strstr(val, "aftercorr") ||
                    strchr(val, '+'))) {
        free(text);
        return errmsg_fail(err, EINVAL,
                           "--dependency=%.60s: supported are after, afterany, afterok, "
                           "afternotok, all of which must be satisfied",
                           val);
    }
    for (item = text ? strtok_r(text, ",", &save) : NULL; rc == 0 && item;
         item = strtok_r(NULL, ",", &save)) {
        scheme = strtok_r(item, ":", &save_id);
        while (rc == 0 && scheme && (id = strtok_r(NULL, ":", &save_id))) {
            snprintf(one, sizeof(one), "%.90s:%.90s", scheme, id);
            rc = put(s, r->to, one, err);
        }
    }
    free(text);
    return rc;
}

/* now+1hour: units are words. */
static int take_begin(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    static const struct {
        const char *word;
        unsigned seconds;
    } units[] = {{"second", 1}, {"minute", 60}, {"hour", 3600}, {"day", 86400}, {"week", 604800}};
    size_t digits;
    char text[64];

    if (!str_starts(val, "now+"))
        return put(s, r->to, val, err);
    digits = strspn(val + 4, "0123456789");
    for (size_t i = 0; digits > 0 && digits < 9 && i < sizeof(units) / sizeof(units[0]); i++) {
        if (str_starts(val + 4 + digits, units[i].word)) {
            snprintf(text, sizeof(text), "now+%llus",
                     strtoull(val + 4, NULL, 10) * units[i].seconds);
            return put(s, r->to, text, err);
        }
    }
    return put(s, r->to, val, err);
}

/* ALL is what happens anyway; NAME=VALUE adds to it. */
static int take_export(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    char *text = strdup(val), *save = NULL;
    int rc = text ? 0 : no_memory(err);
    bool all = false;

    for (char *item = text ? strtok_r(text, ",", &save) : NULL; rc == 0 && item;
         item = strtok_r(NULL, ",", &save)) {
        if (strcasecmp(item, "ALL") == 0)
            all = true;
        else if (strcasecmp(item, "NONE") == 0 || strcasecmp(item, "NIL") == 0)
            all = false;
        else
            rc = put(s, "env", item, err);
    }
    free(text);
    if (rc == 0 && !all)
        rc = note(s, err, "--export=%.200s: the whole environment is passed on", val);
    return rc;
}

static int take_constraint(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    char text[200];

    if (strpbrk(val, "|[]()*, ") || strlen(val) >= sizeof(text))
        return note(s, err, "--constraint=%.200s: only A&B is supported, as --requires=A,B", val);
    snprintf(text, sizeof(text), "%s", val);
    for (char *p = text; (p = strchr(p, '&'));)
        *p = ',';
    return put(s, r->to, text, err);
}

static int take_exclusive(sbatch_t *s, const struct row *r, const char *val, errmsg_t *err)
{
    if (val)
        return note(s, err, "--exclusive=%.60s: nodes are either shared or exclusive to one job",
                    val);
    s->exclusive = true;
    return 0;
}

/* --- the table --- */

#define NO_MAIL "no mail is sent"
#define NO_ACCOUNTS "there are no accounts"
#define NO_QUEUES "there is one queue"
#define NO_REQUEUE "jobs are not requeued"
#define NOT_HERE "not supported"
#define IN_SCRIPT "for flux submit and flux wreckrun in the script"

static const struct row rows[] = {
    {'A', 'v', "account", ignore, NO_ACCOUNTS},
    {'a', 'v', "array", take_array, "cc"},
    {0, 'v', "batch", ignore, NOT_HERE},
    {0, 'v', "bb", ignore, NOT_HERE},
    {0, 'v', "bbf", ignore, NOT_HERE},
    {'b', 'v', "begin", take_begin, "begin-time"},
    {'D', 'v', "chdir", copy, "chdir"},
    {'M', 'v', "clusters", ignore, NOT_HERE},
    {0, 'v', "comment", ignore, "use --setattr"},
    {'C', 'v', "constraint", take_constraint, "requires"},
    {0, 'n', "contiguous", ignore, NOT_HERE},
    {'S', 'v', "core-spec", ignore, NOT_HERE},
    {0, 'v', "cores-per-socket", ignore, NOT_HERE},
    {0, 'v', "cpu-bind", ignore, IN_SCRIPT},
    {0, 'v', "cpu-freq", ignore, NOT_HERE},
    {0, 'v', "cpus-per-gpu", ignore, NOT_HERE},
    {'c', 'v', "cpus-per-task", take_cpus, NULL},
    {0, 'v', "deadline", ignore, NOT_HERE},
    {0, 'v', "delay-boot", ignore, NOT_HERE},
    {'d', 'v', "dependency", take_dependency, "dependency"},
    {'m', 'v', "distribution", ignore, IN_SCRIPT},
    {'e', 'v', "error", take_file, "error"},
    {'x', 'v', "exclude", ignore, "use --hosts or --requires"},
    {0, 'o', "exclusive", take_exclusive, NULL},
    {0, 'v', "export", take_export, NULL},
    {0, 'o', "export-file", ignore, NOT_HERE},
    {'B', 'v', "extra-node-info", ignore, NOT_HERE},
    {'F', 'v', "nodefile", ignore, "use --hosts"},
    {0, 'o', "get-user-env", ignore, "the environment of flux batch is passed on"},
    {0, 'v', "gid", ignore, NOT_HERE},
    {'G', 'v', "gpus", ignore, "use --gpus-per-node or --gpus-per-task"},
    {0, 'v', "gpu-bind", ignore, IN_SCRIPT},
    {0, 'v', "gpu-freq", ignore, NOT_HERE},
    {0, 'v', "gpus-per-node", take_gpus, NULL},
    {0, 'v', "gpus-per-socket", ignore, NOT_HERE},
    {0, 'v', "gpus-per-task", copy, "gpus-per-task"},
    {0, 'v', "gres", take_gpus, NULL},
    {0, 'v', "gres-flags", ignore, NOT_HERE},
    {0, 'v', "hint", ignore, NOT_HERE},
    {'H', 'n', "hold", copy, "hold"},
    {0, 'n', "ignore-pbs", as_usual, NULL},
    {'i', 'v', "input", take_file, "input"},
    {'J', 'v', "job-name", copy, "name"},
    {0, 'v', "kill-on-invalid-dep", ignore, "such a job always ends"},
    {'k', 'o', "no-kill", ignore, "a job ends with its node"},
    {'L', 'v', "licenses", ignore, "use --pool"},
    {0, 'v', "mail-type", ignore, NO_MAIL},
    {0, 'v', "mail-user", ignore, NO_MAIL},
    {0, 'v', "mcs-label", ignore, NOT_HERE},
    {0, 'v', "mem", take_memory, NULL},
    {0, 'v', "mem-bind", ignore, IN_SCRIPT},
    {0, 'v', "mem-per-cpu", take_memory, NULL},
    {0, 'v', "mem-per-gpu", ignore, "use --mem or --mem-per-cpu"},
    {0, 'v', "mincpus", ignore, NOT_HERE},
    {0, 'v', "network", ignore, NOT_HERE},
    {0, 'o', "nice", ignore, "use --urgency"},
    {0, 'n', "no-requeue", as_usual, NULL},
    {'w', 'v', "nodelist", copy, "hosts"},
    {'N', 'v', "nodes", take_nodes, NULL},
    {'n', 'v', "ntasks", take_ntasks, NULL},
    {0, 'v', "ntasks-per-core", ignore, NOT_HERE},
    {0, 'v', "ntasks-per-gpu", ignore, NOT_HERE},
    {0, 'v', "ntasks-per-node", take_per_node, NULL},
    {0, 'v', "ntasks-per-socket", ignore, NOT_HERE},
    {0, 'v', "open-mode", ignore, "output files are always truncated"},
    {'o', 'v', "output", take_file, "output"},
    {'O', 'n', "overcommit", ignore, IN_SCRIPT},
    {'s', 'n', "oversubscribe", ignore, NOT_HERE},
    {0, 'n', "parsable", as_usual, NULL},
    {'p', 'v', "partition", ignore, NO_QUEUES},
    {0, 'v', "power", ignore, NOT_HERE},
    {0, 'v', "priority", ignore, "use --urgency"},
    {0, 'v', "profile", ignore, NOT_HERE},
    {0, 'o', "propagate", ignore, "use --rlimit"},
    {'q', 'v', "qos", ignore, NO_QUEUES},
    {'Q', 'n', "quiet", as_usual, NULL},
    {0, 'n', "reboot", ignore, NOT_HERE},
    {0, 'n', "requeue", ignore, NO_REQUEUE},
    {0, 'v', "reservation", ignore, NOT_HERE},
    {0, 'v', "signal", ignore, "SIGTERM is sent at the time limit, SIGKILL after --grace"},
    {0, 'v', "sockets-per-node", ignore, NOT_HERE},
    {0, 'n', "spread-job", ignore, NOT_HERE},
    {0, 'v', "switches", ignore, NOT_HERE},
    {0, 'n', "test-only", ignore, "use --dry-run"},
    {0, 'v', "thread-spec", ignore, NOT_HERE},
    {0, 'v', "threads-per-core", ignore, NOT_HERE},
    {'t', 'v', "time", take_time, "time-limit"},
    {0, 'v', "time-min", ignore, NOT_HERE},
    {0, 'v', "tmp", ignore, NOT_HERE},
    {0, 'v', "tres-per-task", ignore, NOT_HERE},
    {0, 'v', "uid", ignore, NOT_HERE},
    {0, 'n', "use-min-nodes", ignore, NOT_HERE},
    {'v', 'n', "verbose", as_usual, NULL},
    {'W', 'n', "wait", copy, "wait"},
    {0, 'v', "wait-all-nodes", as_usual, NULL},
    {0, 'v', "wckey", ignore, NO_ACCOUNTS},
    {0, 'v', "wrap", ignore, "the script is always run"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* --- lines --- */

static void make_tables(char *shorts, struct option *longs)
{
    *shorts++ = ':';
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];

        longs[i] = (struct option){r->name,
                                   r->arg == 'n'   ? no_argument
                                   : r->arg == 'v' ? required_argument
                                                   : optional_argument,
                                   NULL, KEY_BASE + (int)i};
        if (!r->letter)
            continue;
        *shorts++ = r->letter;
        for (int colons = r->arg == 'n' ? 0 : r->arg == 'v' ? 1 : 2; colons > 0; colons--)
            *shorts++ = ':';
    }
    *shorts = '\0';
}

static const struct row *row_of(int key)
{
    if (key >= KEY_BASE)
        return &rows[key - KEY_BASE];
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].letter && rows[i].letter == key)
            return &rows[i];
    }
    return NULL;
}

int sbatch_line(sbatch_t *s, int argc, char **argv, errmsg_t *err)
{
    struct option longs[ROWS + 1] = {0};
    char shorts[4 * ROWS + 2];
    const struct row *r;
    int key, rc = 0;

    make_tables(shorts, longs);
    optind = 0; /* glibc: start over */
    opterr = 0;
    while (rc == 0 && (key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const char *word = argv[optind > 0 ? optind - 1 : 0];

        if (key == ':')
            return errmsg_fail(err, EINVAL, "option '%.60s' requires a value", word);
        if (key == '?' || !(r = row_of(key))) {
            if (optopt > 0 && optopt < KEY_BASE)
                rc = note(s, err, "-%c: unknown", optopt);
            else
                rc = note(s, err, "%.200s: unknown", word);
            continue;
        }
        rc = r->take(s, r, optarg, err);
    }
    for (; rc == 0 && optind < argc; optind++)
        rc = note(s, err, "%.200s: not an option", argv[optind]);
    return rc;
}

/* --- what several options say --- */

static int put_number(sbatch_t *s, const char *option, uint64_t n, const char *unit, errmsg_t *err)
{
    char text[40];

    snprintf(text, sizeof(text), "%" PRIu64 "%s", n, unit);
    return put(s, option, text, err);
}

static int finish_shape(sbatch_t *s, errmsg_t *err)
{
    /* With both numbers given, that of tasks on each node is a bound, which sharing out keeps. */
    if (s->per_node && s->nodes && s->ntasks)
        s->per_node = 0;
    if (s->per_node && !s->nodes && !s->ntasks)
        s->nodes = 1;
    if (s->exclusive && !s->nodes && s->ntasks <= 1)
        s->nodes = 1;
    if (s->nodes && s->ntasks && s->ntasks < s->nodes) {
        if (note(s, err, "--nodes=%u: %u task%s use at most one node each", s->nodes, s->ntasks,
                 s->ntasks == 1 ? "" : "s") < 0)
            return -1;
        s->nodes = s->ntasks;
    }
    if ((s->nodes && put_number(s, "nodes", s->nodes, "", err) < 0) ||
        (s->ntasks && put_number(s, "ntasks", s->ntasks, "", err) < 0) ||
        (s->per_node && put_number(s, "tasks-per-node", s->per_node, "", err) < 0) ||
        (s->cpus && put_number(s, "cores-per-task", s->cpus, "", err) < 0))
        return -1;
    if (!s->exclusive)
        return 0;
    return s->nodes ? put(s, "exclusive", NULL, err) : note(s, err, "--exclusive requires --nodes");
}

/* Tasks on a node; 0 when that is open. */
static uint32_t tasks_of_node(const sbatch_t *s)
{
    if (s->per_node)
        return s->per_node;
    if (s->nodes)
        return s->ntasks ? (s->ntasks + s->nodes - 1) / s->nodes : 1;
    return s->ntasks > 1 ? 0 : 1;
}

int sbatch_finish(sbatch_t *s, errmsg_t *err)
{
    uint64_t mem = s->mem_per_cpu;
    uint32_t tasks;

    if (finish_shape(s, err) < 0)
        return -1;
    tasks = tasks_of_node(s);
    if (s->mem && !tasks) {
        if (note(
                s, err,
                "--mem: the number of tasks that share it depends on --nodes, which is not given") <
            0)
            return -1;
    } else if (s->mem) {
        mem = s->mem / tasks;
    } else if (mem && s->cpus > 1 && mem <= UINT64_MAX / s->cpus) {
        mem *= s->cpus;
    }
    if (mem && put_number(s, "mem", mem / MIB + (mem % MIB != 0), "M", err) < 0)
        return -1;
    if (s->gpus_per_node && (!tasks || s->gpus_per_node % tasks != 0))
        return note(s, err, "GPUs: %u per node cannot be divided evenly among the tasks",
                    s->gpus_per_node);
    return s->gpus_per_node ? put_number(s, "gpus-per-task", s->gpus_per_node / tasks, "", err) : 0;
}

/* --- the object --- */

sbatch_t *sbatch_create(void)
{
    sbatch_t *s = calloc(1, sizeof(*s));

    if (s && (!(s->options = strvec_create()) || !(s->ignored = strvec_create()))) {
        sbatch_destroy(s);
        errno = ENOMEM;
        return NULL;
    }
    return s;
}

void sbatch_destroy(sbatch_t *s)
{
    int saved = errno;

    if (s) {
        strvec_destroy(s->options);
        strvec_destroy(s->ignored);
        free(s);
    }
    errno = saved;
}

const strvec_t *sbatch_options(const sbatch_t *s)
{
    return s->options;
}

const strvec_t *sbatch_ignored(const sbatch_t *s)
{
    return s->ignored;
}
