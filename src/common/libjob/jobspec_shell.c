/* jobspec_shell.c - attributes.system.shell.options of a jobspec: the options of the launcher.
 *
 * Invariants: those of jobspec.c.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobspec_private.h"

static int take_output(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_path(js, at, val, &js->options.output, err);
}

static int take_error(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_path(js, at, val, &js->options.error, err);
}

static int take_input(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_path(js, at, val, &js->options.input, err);
}

static int take_label(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_bool(at, val, &js->options.label, err);
}

static int take_kill(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_bool(at, val, &js->options.kill_on_bad_exit, err);
}

static int take_survive(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_bool(at, val, &js->options.survive_node_loss, err);
}

static int take_requeue(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_bool(at, val, &js->options.requeue, err);
}

static int take_nested(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_bool(at, val, &js->options.nested, err);
}

static int take_stdin(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    int v = json_is_string(val) ? job_stdin_parse(json_string_value(val)) : -1;

    if (v < 0)
        return jspec_path_fail(err, at, "must be first, all or none");
    js->options.stdin_mode = (enum job_stdin)v;
    return 0;
}

static int take_layout(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    int v = json_is_string(val) ? job_layout_parse(json_string_value(val)) : -1;

    if (v < 0)
        return jspec_path_fail(err, at, "must be block or cyclic");
    js->options.layout = (enum job_layout)v;
    return 0;
}

static int get_affinity(const struct path *at, const json_t *val, enum job_affinity *out,
                        errmsg_t *err)
{
    int v = json_is_string(val) ? job_affinity_parse(json_string_value(val)) : -1;

    if (v < 0)
        return jspec_path_fail(err, at, "must be on, off or per-task");
    *out = (enum job_affinity)v;
    return 0;
}

static int take_cpu(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return get_affinity(at, val, &js->options.cpu_affinity, err);
}

static int take_gpu(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return get_affinity(at, val, &js->options.gpu_affinity, err);
}

static int take_mpi(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    int v = json_is_string(val) ? job_mpi_parse(json_string_value(val)) : -1;

    if (v < 0)
        return jspec_path_fail(err, at, "must be both, pmi, pmix or none");
    js->options.mpi = (enum job_mpi)v;
    return 0;
}

static int take_grace(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_seconds(at, val, &js->options.grace, err);
}

static int take_output_limit(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_integer(at, val, 0, INT64_MAX, &js->options.output_limit, err);
}

static int get_limits(const struct path *at, const json_t *val, struct job_rlimit **limits,
                      size_t *count, errmsg_t *err)
{
    struct path here = {.up = at};
    size_t n = json_object_size(val);

    if (!json_is_object(val))
        return jspec_path_fail(err, at, "must be an object");
    if (n && !(*limits = calloc(n, sizeof(**limits))))
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    for (void *it = json_object_iter((json_t *)val); it;
         it = json_object_iter_next((json_t *)val, it)) {
        struct job_rlimit *r = &(*limits)[*count];
        const json_t *v = json_object_iter_value(it);

        here.key = r->name = json_object_iter_key(it);
        if ((r->resource = job_rlimit_parse(r->name)) < 0)
            return jspec_path_fail(err, &here, "is unknown");
        if (json_is_string(v) && !strcmp(json_string_value(v), "unlimited"))
            r->value = JOBSPEC_NO_LIMIT;
        else if (json_is_integer(v) && json_integer_value(v) >= 0)
            r->value = (uint64_t)json_integer_value(v);
        else
            return jspec_path_fail(err, &here, "must be an integer >= 0, or \"unlimited\"");
        ++*count;
    }
    return 0;
}

static int take_rlimits(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    int rc = get_limits(at, val, &js->rlimits, &js->options.nrlimits, err);

    js->options.rlimits = js->rlimits;
    return rc;
}

static int take_softlimits(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    int rc = get_limits(at, val, &js->softlimits, &js->options.nsoftlimits, err);

    js->options.softlimits = js->softlimits;
    return rc;
}

static int take_umask(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    const char *text = json_string_value(val);

    if (!text || !text[0] || strlen(text) > 4 || strspn(text, "01234567") != strlen(text) ||
        strtol(text, NULL, 8) > 0777)
        return jspec_path_fail(err, at,
                               "must be an octal number in a string, from \"0\" to \"0777\"");
    js->options.umask = (int)strtol(text, NULL, 8);
    return 0;
}

static const struct member option_members[] = {
    {"output", take_output, false},
    {"error", take_error, false},
    {"input", take_input, false},
    {"label", take_label, false},
    {"stdin", take_stdin, false},
    {"layout", take_layout, false},
    {"cpu-affinity", take_cpu, false},
    {"gpu-affinity", take_gpu, false},
    {"kill-on-bad-exit", take_kill, false},
    {"survive-node-loss", take_survive, false},
    {"requeue", take_requeue, false},
    {"rlimits", take_rlimits, false},
    {"soft-limits", take_softlimits, false},
    {"umask", take_umask, false},
    {"mpi", take_mpi, false},
    {"grace", take_grace, false},
    {"output-limit", take_output_limit, false},
    {"nested", take_nested, false},
    {NULL, NULL, false},
};

static int take_options(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_take_object(js, at, val, option_members, err);
}

static const struct member shell_members[] = {
    {"options", take_options, false},
    {NULL, NULL, false},
};

int jspec_take_shell(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_take_object(js, at, val, shell_members, err);
}
