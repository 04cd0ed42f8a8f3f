/* jobspec_attr.c - attributes of a jobspec, except the options of the launcher.
 *
 *    "attributes": {"system": {...}, "user": {anything}?}
 *    system: duration, cwd, environment, job.name, dependencies, begin-time, constraints, files,
 *            shell.options
 *
 * Invariants: those of jobspec.c.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobspec_private.h"
#include "libidset/hostlist.h"
#include "libidset/idset.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

/* Report an error that a lower library found in a text.  Only ENOMEM keeps its errno. */
static int refuse(const struct path *at, const errmsg_t *why, errmsg_t *err)
{
    if (errno == ENOMEM)
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    return jspec_path_fail(err, at, "%s", why->text);
}

static int take_duration(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_seconds(at, val, &js->duration, err);
}

static int take_begin(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_seconds(at, val, &js->begin, err);
}

static int take_cwd(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    if (jspec_get_path(js, at, val, &js->cwd, err) < 0)
        return -1;
    if (js->cwd[0] != '/')
        return jspec_path_fail(err, at, "must be a path that begins with '/'");
    return 0;
}

int jspec_get_environment(jobspec_t *js, const struct path *at, const json_t *val,
                          const json_t **out, errmsg_t *err)
{
    struct path here = {.up = at};

    if (!json_is_object(val))
        return jspec_path_fail(err, at, "must be an object");
    for (void *it = json_object_iter((json_t *)val); it;
         it = json_object_iter_next((json_t *)val, it)) {
        json_t *text = json_object_iter_value(it);

        here.key = json_object_iter_key(it);
        if (!*here.key || strchr(here.key, '='))
            return jspec_path_fail(err, at, "must have non-empty names without '='");
        if (json_is_string(text) || json_is_null(text))
            continue;
        if (!json_is_object(text))
            return jspec_path_fail(err, &here, "must be a string, or null to unset it");
        if (!(text = jspec_take_bytes(js, &here, text, err)))
            return -1;
        /* The jobspec owns this JSON, so the text can be replaced by its bytes. */
        if (json_object_iter_set((json_t *)val, it, text) < 0)
            return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    }
    *out = val;
    return 0;
}

static int take_environment(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_environment(js, at, val, &js->env, err);
}

static int take_name(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    if (jspec_get_text(at, val, &js->name, err) < 0)
        return -1;
    if (json_string_length(val) > JOBSPEC_NAME_MAX)
        return jspec_path_fail(err, at, "must have at most %d bytes", JOBSPEC_NAME_MAX);
    for (const char *p = js->name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return jspec_path_fail(err, at, "must have no control characters");
    return 0;
}

static const struct member job_members[] = {
    {"name", take_name, false},
    {NULL, NULL, false},
};

static int take_job(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_take_object(js, at, val, job_members, err);
}

/* --- dependencies --- */

static int get_dependency(const struct path *at, const json_t *val, struct jobspec_dep *dep,
                          errmsg_t *err)
{
    struct path here = {.up = at};
    const char *scheme = NULL, *value = NULL;
    int number;

    if (!json_is_object(val))
        return jspec_path_fail(err, at, "must be an object");
    for (void *it = json_object_iter((json_t *)val); it;
         it = json_object_iter_next((json_t *)val, it)) {
        here.key = json_object_iter_key(it);
        if (strcmp(here.key, "scheme") != 0 && strcmp(here.key, "value") != 0)
            return jspec_path_fail(err, &here, "is unknown");
        if (jspec_get_text(&here, json_object_iter_value(it), here.key[0] == 's' ? &scheme : &value,
                           err) < 0)
            return -1;
    }
    here.key = "scheme";
    if (!scheme)
        return jspec_path_fail(err, &here, "is missing");
    if ((number = job_dep_parse(scheme)) < 0)
        return jspec_path_fail(err, &here, "must be after, afterany, afterok or afternotok");
    dep->scheme = (enum job_dep_scheme)number;
    here.key = "value";
    if (!value)
        return jspec_path_fail(err, &here, "is missing");
    if (str2u64(value, &dep->id) < 0 || !dep->id || dep->id > IDSET_MAX)
        return jspec_path_fail(err, &here, "must be the id of a job, as a string");
    return 0;
}

static int take_dependencies(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path item = {.up = at};
    size_t n = json_array_size(val);

    if (!json_is_array(val) || n > JOBSPEC_DEPS_MAX)
        return jspec_path_fail(err, at, "must be an array of at most %d entries", JOBSPEC_DEPS_MAX);
    if (n && !(js->deps = calloc(n, sizeof(*js->deps))))
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    for (; item.index < n; item.index++)
        if (get_dependency(&item, json_array_get(val, item.index), &js->deps[item.index], err) < 0)
            return -1;
    js->ndeps = n;
    return 0;
}

/* --- constraints --- */

/* A text, or an array of texts that are joined with commas (RFC 31 has the latter). */
static char *get_joined(const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path item = {.up = at};
    strbuf_t *sb = NULL;
    const char *s;
    char *text;

    if (json_is_string(val)) {
        if (jspec_get_text(at, val, &s, err) < 0)
            return NULL;
        text = strdup(s);
        goto done;
    }
    if (!json_is_array(val) || !json_array_size(val)) {
        jspec_path_fail(err, at, "must be a non-empty string, or a non-empty array of strings");
        return NULL;
    }
    sb = strbuf_create(0);
    for (; item.index < json_array_size(val); item.index++) {
        if (jspec_get_text(&item, json_array_get(val, item.index), &s, err) < 0) {
            strbuf_destroy(sb);
            return NULL;
        }
        strbuf_add(sb, item.index ? "," : "");
        strbuf_add(sb, s);
    }
    text = strbuf_take(sb);
done:
    if (!text)
        errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    return text;
}

static int take_ranks(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    char *text = get_joined(at, val, err);
    errmsg_t why;

    if (!text)
        return -1;
    js->rreq.ranks = idset_parse(text, &why);
    free(text);
    if (!js->rreq.ranks)
        return refuse(at, &why, err);
    if (idset_empty(js->rreq.ranks))
        return jspec_path_fail(err, at, "must not be empty");
    return 0;
}

static int take_hosts(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    size_t count;
    errmsg_t why;

    if (js->hosts)
        return jspec_path_fail(err, at, "hosts and hostlist are the same: give only one of them");
    if (!(js->hosts = get_joined(at, val, err)))
        return -1;
    return hostlist_check(js->hosts, &count, &why) == 0 ? 0 : refuse(at, &why, err);
}

static int take_properties(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path item = {.up = at};
    const char *s;
    errmsg_t why;

    if (!json_is_array(val) || !json_array_size(val))
        return jspec_path_fail(err, at, "must be a non-empty array");
    for (; item.index < json_array_size(val); item.index++) {
        if (jspec_get_text(&item, json_array_get(val, item.index), &s, err) < 0)
            return -1;
        if (rreq_add_property(&js->rreq, s, &why) < 0)
            return refuse(&item, &why, err);
    }
    return 0;
}

static const struct member constraint_members[] = {
    {"ranks", take_ranks, false},
    {"hosts", take_hosts, false},
    {"hostlist", take_hosts, false},
    {"properties", take_properties, false},
    {NULL, NULL, false},
};

static int take_constraints(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_take_object(js, at, val, constraint_members, err);
}

/* --- files --- */

static int take_files(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path here = {.up = at};

    if (!json_is_object(val))
        return jspec_path_fail(err, at, "must be an object");
    for (void *it = json_object_iter((json_t *)val); it;
         it = json_object_iter_next((json_t *)val, it)) {
        const char *name = json_object_iter_key(it);

        here.key = name;
        if (!*name || strlen(name) > JOBSPEC_NAME_MAX || strchr(name, '/') || !strcmp(name, ".") ||
            !strcmp(name, ".."))
            return jspec_path_fail(err, at, "must have file names without '/'");
        if (!json_is_string(json_object_iter_value(it)))
            return jspec_path_fail(err, &here, "must be a string");
    }
    js->files = val;
    return 0;
}

/* --- attributes --- */

static const struct member system_members[] = {
    {"duration", take_duration, true},
    {"cwd", take_cwd, false},
    {"job", take_job, false},
    {"begin-time", take_begin, false},
    {"dependencies", take_dependencies, false},
    {"constraints", take_constraints, false},
    {"environment", take_environment, false},
    {"files", take_files, false},
    {"shell", jspec_take_shell, false},
    {NULL, NULL, false},
};

static int take_system(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_take_object(js, at, val, system_members, err);
}

static int take_user(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    if (!json_is_object(val))
        return jspec_path_fail(err, at, "must be an object");
    return 0;
}

static const struct member attribute_members[] = {
    {"system", take_system, true},
    {"user", take_user, false},
    {NULL, NULL, false},
};

int jspec_take_attributes(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_take_object(js, at, val, attribute_members, err);
}
