/* jobopts.c - the options that describe a job.
 *
 * Each option is checked when it is parsed, so that the error message names it.  Conditions
 * between several options (nodes and tasks) are checked when the jobspec is made (jobopts_spec.c),
 * and the service checks everything again.  A table maps the key of an option to the function for
 * its kind of value and to the place of the value, so that each option takes one line.
 *
 * Failure: an error message and -1; the object is unchanged, and can be destroyed.
 */
#include "config.h"
#include "jobopts.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobopts_private.h"
#include "libjob/submit.h"
#include "libidset/hostlist.h"
#include "libutil/clock.h"
#include "libutil/size.h"
#include "libutil/strutil.h"

extern char **environ;

jobopts_t *jobopts_create(struct cmd *c)
{
    jobopts_t *jo = calloc(1, sizeof(*jo));

    if (jo) {
        jo->c = c;
        jo->urgency = JOB_URGENCY_DEFAULT;
        joboptions_init(&jo->options);
        jo->env = strvec_copy_argv(environ);
    }
    if (!jo || !jo->env) {
        jobopts_destroy(jo);
        cmd_error(c, "out of memory");
        return NULL;
    }
    return jo;
}

void jobopts_destroy(jobopts_t *jo)
{
    int saved = errno;

    if (!jo)
        return;
    for (size_t i = 0; i < jo->npools; i++)
        free((char *)jo->pools[i].name);
    for (size_t i = 0; i < jo->options.nrlimits; i++)
        free((char *)jo->rlimits[i].name);
    json_decref(jo->files);
    json_decref(jo->settings);
    strvec_destroy(jo->properties);
    free(jo->deps);
    jobopts_programs_clear(jo);
    strvec_destroy(jo->argv);
    strvec_destroy(jo->env);
    free(jo->ranks);
    free(jo->hosts);
    free(jo->chdir);
    free(jo->in);
    free(jo->out);
    free(jo->err);
    free(jo->name);
    free(jo);
    errno = saved;
}

int jobopts_no_memory(jobopts_t *jo)
{
    cmd_error(jo->c, "out of memory");
    return -1;
}

char *jobopts_absolute(struct cmd *c, const char *path)
{
    char *cwd = NULL, *full = NULL;

    if (path && path[0] == '/')
        full = strdup(path);
    else if (!(cwd = getcwd(NULL, 0))) {
        cmd_error(c, "cannot determine the working directory: %s", strerror(errno));
        return NULL;
    } else if (!path)
        return cwd;
    else if (asprintf(&full, "%s/%s", cwd, path) < 0)
        full = NULL;
    free(cwd);
    if (!full)
        cmd_error(c, "out of memory");
    return full;
}

/* --- kinds of values: `dst` is the member of struct jobopts --- */

static int take_count(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    if (cmd_parse_u32(jo->c, what, val, dst) < 0)
        return -1;
    if (*(uint32_t *)dst == 0)
        return cmd_usage_error(jo->c, "%s: the number must be at least 1", what), -1;
    return 0;
}

static int take_u32(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    return cmd_parse_u32(jo->c, what, val, dst);
}

static int take_flag(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    *(bool *)dst = true;
    return 0;
}

static int take_text(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    char *copy = strdup(val);

    if (!copy)
        return jobopts_no_memory(jo);
    free(*(char **)dst);
    *(char **)dst = copy;
    return 0;
}

static int take_path(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    char *full = jobopts_absolute(jo->c, val);

    if (!full)
        return -1;
    free(*(char **)dst);
    *(char **)dst = full;
    return 0;
}

static int take_memory(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    uint64_t bytes;
    errmsg_t err;

    if (size_parse(val, &bytes, &err) < 0)
        return cmd_usage_error(jo->c, "%s: %s", what, err.text), -1;
    if (bytes == 0)
        return cmd_usage_error(jo->c, "%s: must be greater than 0", what), -1;
    *(uint64_t *)dst = (bytes + (1u << 20) - 1) >> 20;
    return 0;
}

static int take_limit(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    errmsg_t err;

    if (job_limit_parse(val, dst, &err) == 0)
        return 0;
    cmd_usage_error(jo->c, "%s: %s", what, err.text);
    return -1;
}

/* 17:30, 17:30:15 (the next time it is so late), 2030-12-31, 2030-12-31T17:30[:15]: local time. */
static int parse_clock(const char *s, time_t now, double *out)
{
    static const char *const forms[] = {
        "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d",
        "%H:%M:%S",          "%H:%M"};
    struct tm today;
    time_t t;

    localtime_r(&now, &today);
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        struct tm tm = {0};
        bool daily = forms[i][1] == 'H';
        const char *end;

        if (daily) {
            tm.tm_year = today.tm_year;
            tm.tm_mon = today.tm_mon;
            tm.tm_mday = today.tm_mday;
        }
        end = strptime(s, forms[i], &tm);
        if (!end || *end)
            continue;
        tm.tm_isdst = -1;
        if ((t = mktime(&tm)) == (time_t)-1)
            return -1;
        if (daily && t <= now) {
            tm.tm_mday++;
            tm.tm_isdst = -1;
            t = mktime(&tm);
        }
        *out = (double)t;
        return 0;
    }
    return -1;
}

static int take_begin(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    double now = clock_wall();
    double t;

    if (val[0] == '+' || str_starts(val, "now+")) {
        if (cmd_parse_duration(jo->c, what, strchr(val, '+') + 1, &t) < 0)
            return -1;
        if (isinf(t))
            return cmd_usage_error(jo->c, "%s: the time must be finite", what), -1;
        *(double *)dst = now + t;
        return 0;
    }
    if (parse_clock(val, (time_t)now, dst) == 0)
        return 0;
    cmd_usage_error(jo->c, "%s: '%s' is not a time such as +1h, 17:30 or 2030-12-31T17:30", what,
                    val);
    return -1;
}

/* -q exists for users of other resource managers; "default" is the only queue. */
static int take_queue(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    if (strcmp(val, "default") == 0)
        return 0;
    return cmd_usage_error(jo->c,
                           "%s: there is no queue '%s': the only queue is called default; to "
                           "suppress ids, use --quiet",
                           what, val),
           -1;
}

static int take_urgency(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    uint32_t n;

    if (strcmp(val, "hold") == 0)
        n = 0;
    else if (strcmp(val, "default") == 0)
        n = JOB_URGENCY_DEFAULT;
    else if (strcmp(val, "expedite") == 0)
        n = JOB_URGENCY_MAX;
    else if (str2u32(val, &n) < 0 || n > JOB_URGENCY_MAX)
        return cmd_usage_error(jo->c,
                               "%s: '%s' is not a number from 0 to %d, hold, default or expedite",
                               what, val, JOB_URGENCY_MAX),
               -1;
    *(uint32_t *)dst = n;
    return 0;
}

static int take_hold(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    *(uint32_t *)dst = 0;
    return 0;
}

/* NAME=VALUE sets, -NAME removes, NAME is as here. */
static int take_env(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    const char *eq = strchr(val, '=');
    char *name;
    int rc = 0;

    if (val[0] == '-' && val[1] && !eq) {
        strvec_unsetenv(jo->env, val + 1);
    } else if (eq) {
        name = strndup(val, (size_t)(eq - val));
        rc = name ? strvec_setenv(jo->env, name, eq + 1) : -1;
        free(name);
    } else if (!*val) {
        rc = -1;
    } else if (getenv(val)) {
        rc = strvec_setenv(jo->env, val, getenv(val));
    }
    if (rc < 0)
        cmd_usage_error(jo->c, "%s: '%s' is not NAME=VALUE, NAME or -NAME", what, val);
    return rc;
}

/* What programs that open streams look for: libstream/stream_way.c. */
static int take_share(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    return strvec_setenv(jo->env, "FLUX_STREAM_SHARE", "yes") < 0 ? jobopts_no_memory(jo) : 0;
}

static int take_ranks(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    errmsg_t err;
    idset_t *ids = idset_parse(val, &err);
    bool empty = ids && idset_empty(ids);

    idset_destroy(ids);
    if (!ids || empty)
        return cmd_usage_error(jo->c, "%s: %s", what, ids ? "no rank is given" : err.text), -1;
    return take_text(jo, what, val, dst);
}

static int take_hosts(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    errmsg_t err;
    size_t count;

    if (hostlist_check(val, &count, &err) < 0)
        return cmd_usage_error(jo->c, "%s: %s", what, err.text), -1;
    return take_text(jo, what, val, dst);
}

/* --- values that add up --- */

/* NAME=VALUE: its name to be freed, *value leads into `val`. */
static char *split(jobopts_t *jo, const char *what, const char *val, const char **value)
{
    const char *eq = strchr(val, '=');
    char *name;

    if (!eq || eq == val) {
        cmd_usage_error(jo->c, "%s: '%s' is not NAME=VALUE", what, val);
        return NULL;
    }
    if (!(name = strndup(val, (size_t)(eq - val))))
        jobopts_no_memory(jo);
    *value = eq + 1;
    return name;
}

static int take_pool(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    const char *count;
    char *name = split(jo, what, val, &count);
    size_t i = 0;
    uint64_t n;

    if (!name || cmd_parse_u64(jo->c, what, count, &n) < 0)
        goto fail;
    if (n == 0 || n > INT64_MAX) {
        cmd_usage_error(jo->c, "%s: '%s' is not a quantity of at least 1", what, count);
        goto fail;
    }
    while (i < jo->npools && strcmp(jo->pools[i].name, name) != 0)
        i++;
    if (i == JOBOPTS_ITEMS_MAX) {
        cmd_usage_error(jo->c, "%s: more than %d pools", what, JOBOPTS_ITEMS_MAX);
        goto fail;
    }
    if (i == jo->npools) {
        jo->npools++;
    } else {
        free((char *)jo->pools[i].name);
    }
    jo->pools[i] = (struct jobspec_pool){name, n};
    return 0;
fail:
    free(name);
    return -1;
}

static int take_rlimit(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    const char *text;
    char *name;
    uint64_t n = JOBSPEC_NO_LIMIT;
    size_t i = 0;
    int resource;

    if (strcmp(val, "none") == 0) {
        jo->no_softlimits = true;
        return 0;
    }
    if (!(name = split(jo, what, val, &text)))
        return -1;
    resource = job_rlimit_parse(name);
    if (resource < 0)
        cmd_usage_error(
            jo->c, "%s: '%s' is not the name of a setrlimit(2) limit: nofile, nproc, core, ...",
            what, name);
    if (resource >= 0 && strcmp(text, "unlimited") != 0 &&
        (size_parse(text, &n, NULL) < 0 || n > INT64_MAX)) {
        cmd_usage_error(jo->c, "%s: '%s' is neither a number nor 'unlimited'", what, text);
        resource = -1;
    }
    if (resource < 0) {
        free(name);
        return -1;
    }
    while (i < jo->options.nrlimits && jo->rlimits[i].resource != resource)
        i++;
    /* There are fewer resources than places. */
    if (i == jo->options.nrlimits)
        jo->options.nrlimits++;
    else
        free((char *)jo->rlimits[i].name);
    jo->rlimits[i] = (struct job_rlimit){resource, name, n};
    return 0;
}

/* Parts between commas, each through `one`. */
static int each_part(jobopts_t *jo, const char *what, const char *val,
                     int (*one)(jobopts_t *jo, const char *what, const char *part))
{
    strvec_t *v = strvec_split(val, ',');
    int rc = v ? 0 : jobopts_no_memory(jo);

    for (size_t i = 0; rc == 0 && i < strvec_count(v); i++) {
        if (*strvec_at(v, i))
            rc = one(jo, what, strvec_at(v, i));
        else
            rc = (cmd_usage_error(jo->c, "%s: '%s' contains an empty element", what, val), -1);
    }
    strvec_destroy(v);
    return rc;
}

static int one_property(jobopts_t *jo, const char *what, const char *part)
{
    if (!jo->properties)
        jo->properties = strvec_create();
    return strvec_add(jo->properties, part) < 0 ? jobopts_no_memory(jo) : 0;
}

static int take_properties(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    return each_part(jo, what, val, one_property);
}

static int one_dependency(jobopts_t *jo, const char *what, const char *part)
{
    const char *colon = strchr(part, ':');
    char *scheme = colon ? strndup(part, (size_t)(colon - part)) : NULL;
    int num = scheme ? job_dep_parse(scheme) : -1;
    struct jobspec_dep *more;
    uint64_t id;

    free(scheme);
    if (num < 0)
        return cmd_usage_error(
                   jo->c, "%s: '%s' is not one of after:ID, afterany:ID, afterok:ID, afternotok:ID",
                   what, part),
               -1;
    if (str2u64(colon + 1, &id) < 0 || id == 0 || id > IDSET_MAX)
        return cmd_usage_error(jo->c, "%s: '%s' is not a job id", what, colon + 1), -1;
    if (!(more = realloc(jo->deps, (jo->ndeps + 1) * sizeof(*more))))
        return jobopts_no_memory(jo);
    jo->deps = more;
    jo->deps[jo->ndeps++] = (struct jobspec_dep){(enum job_dep_scheme)num, id};
    return 0;
}

static int take_dependency(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    return each_part(jo, what, val, one_dependency);
}

/* A value of JSON when it is that, else text. */
static json_t *any_value(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

    return v ? v : json_string(text);
}

static int key_and_value(jobopts_t *jo, const char *what, const char *val,
                         int (*set)(jobopts_t *jo, const char *key, json_t *value))
{
    const char *eq = strchr(val, '=');
    char *key = eq ? strndup(val, (size_t)(eq - val)) : strdup(val);
    json_t *v = eq ? any_value(eq + 1) : json_true();
    int rc;

    if (!v) {
        cmd_usage_error(jo->c, "%s: the value of '%s' is not UTF-8", what, val);
        rc = -1;
    } else if (!key || !*key) {
        json_decref(v);
        cmd_usage_error(jo->c, "%s: '%s' is not KEY=VALUE", what, val);
        rc = -1;
    } else {
        rc = set(jo, key, v);
    }
    free(key);
    return rc;
}

static int take_setopt(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    return key_and_value(jo, what, val, jobopts_setopt);
}

static int take_setattr(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    static const char cwd[] = "cwd=";

    /* Drivers of workflows say --chdir so. */
    if (str_starts(val, cwd))
        return take_path(jo, what, val + strlen(cwd), &jo->chdir);
    return key_and_value(jo, what, val, jobopts_setattr);
}

/* --- options of the launcher that have an option of their own --- */

/* A word that `parse` knows; `all` lists them. */
static int take_word(jobopts_t *jo, const char *what, const char *val, int (*parse)(const char *s),
                     const char *all)
{
    int num = parse(val);

    if (num < 0)
        cmd_usage_error(jo->c, "%s: '%s' is not one of %s", what, val, all);
    return num;
}

static int take_who(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    int num = take_word(jo, what, val, job_stdin_parse, "first, all, none");

    if (num < 0)
        return -1;
    jo->options.stdin_mode = (enum job_stdin)num;
    jo->who = job_stdin_name(jo->options.stdin_mode);
    return 0;
}

static int take_layout(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    int num = take_word(jo, what, val, job_layout_parse, "block, cyclic");

    return num < 0 ? -1 : (*(enum job_layout *)dst = (enum job_layout)num, 0);
}

static int take_affinity(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    int num = take_word(jo, what, val, job_affinity_parse, "on, off, per-task");

    return num < 0 ? -1 : (*(enum job_affinity *)dst = (enum job_affinity)num, 0);
}

static int take_mpi(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    int num = take_word(jo, what, val, job_mpi_parse, "both, pmi, pmix, none");

    return num < 0 ? -1 : (*(enum job_mpi *)dst = (enum job_mpi)num, 0);
}

static int take_grace(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    errmsg_t err;

    if (job_grace_parse(val, dst, &err) == 0)
        return 0;
    cmd_usage_error(jo->c, "%s: %s", what, err.text);
    return -1;
}

static int take_size(jobopts_t *jo, const char *what, const char *val, void *dst)
{
    uint64_t bytes;
    errmsg_t err;

    if (size_parse(val, &bytes, &err) < 0)
        return cmd_usage_error(jo->c, "%s: %s", what, err.text), -1;
    if (bytes > INT64_MAX)
        return cmd_usage_error(jo->c, "%s: '%s' is too large", what, val), -1;
    *(uint64_t *)dst = bytes;
    return 0;
}

/* --- the table --- */

static const struct {
    int key;
    const char *what;
    int (*take)(jobopts_t *jo, const char *what, const char *val, void *dst);
    size_t offset;
} options[] = {
#define ROW(key, what, take, member)                      \
    {                                                     \
        key, what, take, offsetof(struct jobopts, member) \
    }
    ROW('N', "--nodes", take_count, nnodes),
    ROW('n', "--ntasks", take_count, ntasks),
    ROW(JOBOPTS_KEY_TASKS_PER_NODE, "--tasks-per-node", take_count, per_node),
    ROW('c', "--cores-per-task", take_count, cores),
    ROW('g', "--gpus-per-task", take_u32, gpus),
    ROW(JOBOPTS_KEY_MEM, "--mem", take_memory, mem),
    ROW('x', "--exclusive", take_flag, exclusive),
    ROW(JOBOPTS_KEY_OVERCOMMIT, "--overcommit", take_flag, overcommit),
    ROW(JOBOPTS_KEY_POOL, "--pool", take_pool, npools),
    ROW(JOBOPTS_KEY_REQUIRES, "--requires", take_properties, properties),
    ROW(JOBOPTS_KEY_RANKS, "--ranks", take_ranks, ranks),
    ROW(JOBOPTS_KEY_HOSTS, "--hosts", take_hosts, hosts),
    ROW('t', "--time-limit", take_limit, limit),
    ROW(JOBOPTS_KEY_NAME, "--name", take_text, name),
    ROW('q', "--queue", take_queue, name),
    ROW(JOBOPTS_KEY_URGENCY, "--urgency", take_urgency, urgency),
    ROW(JOBOPTS_KEY_HOLD, "--hold", take_hold, urgency),
    ROW(JOBOPTS_KEY_DEPENDENCY, "--dependency", take_dependency, ndeps),
    ROW(JOBOPTS_KEY_BEGIN, "--begin-time", take_begin, begin),
    ROW(JOBOPTS_KEY_REQUEUE, "--requeue", take_flag, options.requeue),
    ROW(JOBOPTS_KEY_ENV, "--env", take_env, env),
    ROW(JOBOPTS_KEY_SHARE, "--share-connections", take_share, env),
    ROW(JOBOPTS_KEY_CHDIR, "--chdir", take_path, chdir),
    ROW('i', "--input", take_path, in),
    ROW('O', "--output", take_path, out),
    ROW('E', "--error", take_path, err),
    ROW('l', "--label-io", take_flag, options.label),
    ROW(JOBOPTS_KEY_STDIN, "--stdin", take_who, who),
    ROW(JOBOPTS_KEY_LAYOUT, "--layout", take_layout, options.layout),
    ROW(JOBOPTS_KEY_CPU_AFFINITY, "--cpu-affinity", take_affinity, options.cpu_affinity),
    ROW(JOBOPTS_KEY_GPU_AFFINITY, "--gpu-affinity", take_affinity, options.gpu_affinity),
    ROW(JOBOPTS_KEY_KILL_ON_BAD_EXIT, "--kill-on-bad-exit", take_flag, options.kill_on_bad_exit),
    ROW(JOBOPTS_KEY_SURVIVE_NODE_LOSS, "--survive-node-loss", take_flag, options.survive_node_loss),
    ROW(JOBOPTS_KEY_RLIMIT, "--rlimit", take_rlimit, rlimits),
    ROW(JOBOPTS_KEY_MPI, "--mpi", take_mpi, options.mpi),
    ROW(JOBOPTS_KEY_GRACE, "--grace", take_grace, options.grace),
    ROW(JOBOPTS_KEY_OUTPUT_LIMIT, "--output-limit", take_size, options.output_limit),
    ROW('o', "--setopt", take_setopt, settings),
    ROW(JOBOPTS_KEY_SETATTR, "--setattr", take_setattr, settings),
    ROW(JOBOPTS_KEY_DRY_RUN, "--dry-run", take_flag, dry_run),
#undef ROW
};

int jobopts_option(jobopts_t *jo, int key, const char *val)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
        if (options[i].key == key) {
            void *dst = (char *)jo + options[i].offset;

            return options[i].take(jo, options[i].what, val, dst) < 0 ? -1 : 1;
        }
    }
    return 0;
}
