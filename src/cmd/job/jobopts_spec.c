/* jobopts_spec.c - from options to a jobspec, and to the service.
 *
 *    given                      nodes             slots                     tasks
 *    nothing                    anywhere          1                         1
 *    -n N                       anywhere          N                         one a slot
 *    -N K                       K                 1 on each                 one a slot
 *    -N K -n N                  K                 N / K on each, rounded up N in all, or one a slot
 *    --tasks-per-node T, -N K   K                 T on each                 one a slot
 *    --tasks-per-node T, -n N   N / T, rounded up T on each                 N in all, or one a slot
 *    --overcommit               as above          as above, or fewer        N in all
 *
 * With several programs N is the sum of theirs.
 *
 * {{cc}} stays in the text until the number is known: it stands within JSON strings only, and a
 * decimal number needs no quoting there.
 *
 * Failure: NULL or -1 after a sentence.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "jobopts_private.h"
#include "libjob/job.h"
#include "libutil/strbuf.h"

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

/* Several programs have each their number of tasks; -n was that of the first. */
static uint32_t tasks_of_programs(jobopts_t *jo)
{
    uint64_t n = 0;

    jo->programs[0].ntasks = jo->ntasks ? jo->ntasks : 1;
    for (size_t i = 0; i < jo->nprograms; i++)
        n += jo->programs[i].ntasks;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Nodes, slots and tasks; see above. */
static int shape(jobopts_t *jo, struct jobspec_parts *p)
{
    uint32_t nnodes = jo->nnodes, per_node = jo->per_node;
    uint32_t ntasks = jo->nprograms ? tasks_of_programs(jo) : jo->ntasks;

    if (per_node && !nnodes && !ntasks)
        return cmd_usage_error(jo->c, "--tasks-per-node requires --nodes or --ntasks"), -1;
    if (per_node && nnodes && ntasks && (uint64_t)per_node * nnodes != ntasks)
        return cmd_usage_error(jo->c, "%u tasks on each of %u nodes are not %u", per_node, nnodes,
                               ntasks),
               -1;
    if (nnodes && ntasks && ntasks < nnodes && !jo->one_per_node)
        return cmd_usage_error(jo->c, "%u nodes require at least %u tasks, one each; there %s %u",
                               nnodes, nnodes, ntasks == 1 ? "is" : "are", ntasks),
               -1;
    if (per_node && !nnodes)
        nnodes = divide_up(ntasks, per_node);
    if (jo->exclusive && !nnodes)
        return cmd_usage_error(jo->c, "--exclusive requires --nodes"), -1;
    p->nnodes = nnodes;
    if (nnodes)
        p->nslots = per_node ? per_node : ntasks ? divide_up(ntasks, nnodes) : 1;
    else
        p->nslots = ntasks ? ntasks : 1;
    if (jo->one_per_node) {
        p->ntasks = nnodes ? nnodes : 1;
        p->min_slots = jo->overcommit ? 1 : 0;
    } else if (jo->overcommit) {
        p->ntasks = ntasks ? ntasks : nnodes ? nnodes * p->nslots : 1;
        p->min_slots = 1;
    } else if (ntasks && nnodes && (uint64_t)nnodes * p->nslots != ntasks) {
        p->ntasks = ntasks;
    } else {
        p->per_slot = 1;
    }
    return 0;
}

/* What the submitter's shell has set is what tasks are to have: the file mode creation mask, and
 * the soft limits but for those that --rlimit sets. */
static void carry(jobopts_t *jo)
{
    static const struct {
        int resource;
        const char *name;
    } limits[] = {{RLIMIT_AS, "as"},      {RLIMIT_CORE, "core"},   {RLIMIT_CPU, "cpu"},
                  {RLIMIT_DATA, "data"},  {RLIMIT_FSIZE, "fsize"}, {RLIMIT_NOFILE, "nofile"},
                  {RLIMIT_STACK, "stack"}};
    struct rlimit rl;
    mode_t mask = umask(0077);

    umask(mask);
    jo->options.umask = (int)mask;
    jo->options.softlimits = jo->softlimits;
    jo->options.nsoftlimits = 0;
    for (size_t i = 0; !jo->no_softlimits && i < sizeof(limits) / sizeof(limits[0]); i++) {
        size_t k = 0;

        while (k < jo->options.nrlimits && jo->rlimits[k].resource != limits[i].resource)
            k++;
        if (k < jo->options.nrlimits || getrlimit(limits[i].resource, &rl) < 0)
            continue;
        jo->softlimits[jo->options.nsoftlimits++] = (struct job_rlimit){
            limits[i].resource, limits[i].name,
            rl.rlim_cur == RLIM_INFINITY ? JOBSPEC_NO_LIMIT : (uint64_t)rl.rlim_cur};
    }
}

static int set_cc(json_t **env)
{
    *env = json_object();
    return json_object_set_new(*env, "FLUX_JOB_CC", json_string("{{cc}}"));
}

/* The texts of files are not templates, a batch script that has {{cc}} in a command of its own
 * least of all: their braces are written in another way, which JSON has for every character. */
static char *protect_files(char *text, json_t *files)
{
    char *plain = files ? json_dumps(files, JSON_COMPACT) : NULL, *safe = NULL;
    char *at = plain ? strstr(text, plain) : NULL;
    strbuf_t *sb = strbuf_create(0);
    const char *p = plain, *mark;

    if (!files || !strstr(plain ? plain : "{{cc}}", "{{cc}}")) {
        safe = text;
        text = NULL;
    } else if (at) {
        strbuf_addn(sb, text, (size_t)(at - text));
        for (; (mark = strstr(p, "{{cc}}")); p = mark + 1) {
            strbuf_addn(sb, p, (size_t)(mark - p));
            strbuf_add(sb, "\\u007b");
        }
        strbuf_add(sb, p);
        strbuf_add(sb, at + strlen(plain));
        safe = strbuf_take(sb);
        sb = NULL;
    }
    strbuf_destroy(sb);
    free(plain);
    free(text);
    return safe;
}

static int apply_settings(jobopts_t *jo, json_t *spec)
{
    const char *path;
    errmsg_t err;
    json_t *val;

    json_object_foreach(jo->settings, path, val)
    {
        if (jobspec_set(spec, path, json_incref(val), &err) < 0)
            return cmd_usage_error(jo->c, "%s", err.text), -1;
    }
    return 0;
}

char *jobopts_jobspec(jobopts_t *jo, bool cc)
{
    struct jobspec_parts p;
    json_t *env = NULL, *spec = NULL;
    char *text = NULL;
    errmsg_t err;

    jobspec_parts_init(&p);
    jo->usage_error = true;
    if (!jo->nprograms && (!jo->argv || strvec_count(jo->argv) == 0)) {
        cmd_usage_error(jo->c, "a COMMAND is required");
        return NULL;
    }
    if (shape(jo, &p) < 0)
        return NULL;
    jo->usage_error = false;
    if (!jo->chdir && !(jo->chdir = jobopts_absolute(jo->c, NULL)))
        return NULL;
    if (jo->nprograms == 0)
        p.argv = (const char *const *)strvec_argv(jo->argv);
    p.programs = jo->programs;
    p.nprograms = jo->nprograms;
    p.cores = jo->cores;
    p.gpus = jo->gpus;
    p.memory = jo->mem;
    p.exclusive = jo->exclusive;
    p.pools = jo->pools;
    p.npools = jo->npools;
    p.duration = jo->limit;
    p.begin = jo->begin;
    p.cwd = jo->chdir;
    p.name = jo->name;
    p.ranks = jo->ranks;
    p.hosts = jo->hosts;
    p.properties = jo->properties ? (const char *const *)strvec_argv(jo->properties) : NULL;
    p.deps = jo->deps;
    p.ndeps = jo->ndeps;
    p.files = jo->files;
    carry(jo);
    p.options = jo->options;
    p.options.input = jo->in;
    p.options.output = jo->out;
    p.options.error = jo->err;
    p.options.rlimits = jo->rlimits;
    if (cc && set_cc(&env) < 0)
        goto nomem;
    p.env = env;
    if (!(spec = jobspec_build(&p, &err))) {
        cmd_error(jo->c, "%s", err.text);
        goto out;
    }
    if (apply_settings(jo, spec) < 0)
        goto out;
    if ((text = jobspec_encode(spec, NULL)) && cc)
        text = protect_files(text, jo->files);
    if (text)
        goto out;
nomem:
    cmd_error(jo->c, "out of memory");
out:
    json_decref(env);
    json_decref(spec);
    return text;
}

char *jobopts_replace_cc(const char *jobspec, uint32_t cc)
{
    strbuf_t *sb = strbuf_create(0);
    const char *mark;

    while ((mark = strstr(jobspec, "{{cc}}"))) {
        strbuf_addn(sb, jobspec, (size_t)(mark - jobspec));
        strbuf_addf(sb, "%u", cc);
        jobspec = mark + strlen("{{cc}}");
    }
    strbuf_add(sb, jobspec);
    return strbuf_take(sb);
}

int jobopts_submit(jobopts_t *jo, uint32_t flags, uint64_t *id)
{
    char *spec = jobopts_jobspec(jo, false);
    flux_t *h = spec ? cmd_handle(jo->c) : NULL; /* now, so that the job follows at once */
    flux_future_t *f;
    errmsg_t err;
    int rc = -1;

    if (!h) {
        free(spec);
        return -1;
    }
    f = flux_job_submit(h, spec, strlen(spec), (const char *const *)jobopts_env(jo),
                        (int)jo->urgency, flags, &err);
    if (!f)
        cmd_error(jo->c, "%s", err.text);
    else if (cmd_wait(jo->c, f, -1., "the job to be accepted") == 0 &&
             (rc = flux_job_submit_get(f, id, &err)) < 0)
        cmd_error(jo->c, "%s", err.text);
    flux_future_destroy(f);
    free(spec);
    return rc;
}
