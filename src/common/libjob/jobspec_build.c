/* jobspec_build.c - build a jobspec from the parameters of a client.
 *
 * Members are in the order of the reader's tables, which saves the reader a search.  Options with
 * default values are left out, so that the text of a plain job stays small.
 *
 * Invariants:
 *  1. jobspec_parse() accepts the result of jobspec_build(), unless a value exceeds a bound; then
 *     its error message names that value.
 *
 * Failure: nothing remains allocated; EINVAL with an error message, or ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobspec_build.h"

/* The state of a build.  It records the first failure, so that callers check only once. */
struct build {
    errmsg_t *err;
    int errnum;
};

static void fail(struct build *b, int errnum, const char *what)
{
    if (b->errnum)
        return;
    b->errnum = errnum;
    if (errnum == ENOMEM)
        errmsg_set(b->err, "out of memory for a jobspec");
    else
        errmsg_set(b->err, "%s is not UTF-8, as a jobspec requires", what);
}

/* Takes over `val`. */
static void put(struct build *b, json_t *obj, const char *key, json_t *val)
{
    if (!obj || !val || json_object_set_new(obj, key, val) < 0)
        fail(b, ENOMEM, key);
}

static void push(struct build *b, json_t *array, json_t *val)
{
    if (!array || !val || json_array_append_new(array, val) < 0)
        fail(b, ENOMEM, "");
}

static json_t *text(struct build *b, const char *what, const char *s)
{
    json_t *v;

    errno = 0;
    if (!(v = json_string(s)))
        fail(b, errno == ENOMEM ? ENOMEM : EINVAL, what);
    return v;
}

/* A text of arbitrary bytes. */
static json_t *bytes(struct build *b, const char *s)
{
    json_t *v = jobspec_text(s);

    if (!v)
        fail(b, ENOMEM, "");
    return v;
}

static void put_path(struct build *b, json_t *obj, const char *key, const char *s)
{
    if (s)
        put(b, obj, key, bytes(b, s));
}

static void put_text(struct build *b, json_t *obj, const char *key, const char *s)
{
    if (s)
        put(b, obj, key, text(b, key, s));
}

static void put_integer(struct build *b, json_t *obj, const char *key, uint64_t v)
{
    put(b, obj, key, json_integer((json_int_t)v));
}

static void put_default(struct build *b, json_t *obj, const char *key, int v, const char *name)
{
    if (v && name)
        put_text(b, obj, key, name);
}

static void put_object(struct build *b, json_t *obj, const char *key, json_t *member)
{
    if (member && json_object_size(member) == 0)
        json_decref(member);
    else
        put(b, obj, key, member);
}

static json_t *vertex(struct build *b, const char *type, uint64_t count)
{
    json_t *v = json_object();

    put_text(b, v, "type", type);
    put_integer(b, v, "count", count);
    return v;
}

static json_t *resources(struct build *b, const struct jobspec_parts *p)
{
    json_t *list = json_array(), *with = json_array();
    json_t *slot = vertex(b, "slot", p->nslots ? p->nslots : 1);

    if (p->min_slots) {
        json_t *range = json_object();

        put_integer(b, range, "min", p->min_slots);
        put_integer(b, range, "max", p->nslots ? p->nslots : 1);
        put(b, slot, "count", range);
    }
    push(b, with, vertex(b, "core", p->cores ? p->cores : 1));
    if (p->gpus)
        push(b, with, vertex(b, "gpu", p->gpus));
    if (p->memory)
        push(b, with, vertex(b, "memory", p->memory));
    put_text(b, slot, "label", "task");
    put(b, slot, "with", with);
    if (p->nnodes) {
        json_t *node = vertex(b, "node", p->nnodes), *slots = json_array();

        if (p->exclusive)
            put(b, node, "exclusive", json_true());
        push(b, slots, slot);
        put(b, node, "with", slots);
        push(b, list, node);
    } else {
        push(b, list, slot);
    }
    for (size_t i = 0; i < p->npools; i++)
        push(b, list, vertex(b, p->pools[i].name, p->pools[i].count));
    return list;
}

/* One program.  `per_slot` is the number of tasks in each slot; it applies when the program has no
 * total. */
static json_t *program(struct build *b, const struct jobspec_program *prog, uint32_t per_slot)
{
    json_t *task = json_object(), *command = json_array(), *count = json_object();

    for (size_t i = 0; prog->argv[i]; i++)
        push(b, command, bytes(b, prog->argv[i]));
    put(b, task, "command", command);
    put_text(b, task, "slot", "task");
    if (prog->ntasks)
        put_integer(b, count, "total", prog->ntasks);
    else
        put_integer(b, count, "per_slot", per_slot ? per_slot : 1);
    put(b, task, "count", count);
    if (prog->env && json_object_size(prog->env))
        put(b, task, "environment", json_incref((json_t *)prog->env));
    return task;
}

static json_t *tasks(struct build *b, const struct jobspec_parts *p)
{
    const struct jobspec_program only = {.argv = p->argv, .ntasks = p->ntasks};
    json_t *list = json_array();

    if (!p->nprograms)
        push(b, list, program(b, &only, p->per_slot));
    for (size_t i = 0; i < p->nprograms; i++)
        push(b, list, program(b, &p->programs[i], 0));
    return list;
}

static json_t *dependencies(struct build *b, const struct jobspec_parts *p)
{
    json_t *list = json_array();

    for (size_t i = 0; i < p->ndeps; i++) {
        json_t *dep = json_object();
        char id[24];

        snprintf(id, sizeof(id), "%llu", (unsigned long long)p->deps[i].id);
        put_text(b, dep, "scheme", job_dep_name(p->deps[i].scheme));
        put_text(b, dep, "value", id);
        push(b, list, dep);
    }
    return list;
}

static json_t *constraints(struct build *b, const struct jobspec_parts *p)
{
    json_t *obj = json_object();

    put_text(b, obj, "ranks", p->ranks);
    put_text(b, obj, "hosts", p->hosts);
    if (p->properties && p->properties[0]) {
        json_t *list = json_array();

        for (size_t i = 0; p->properties[i]; i++)
            push(b, list, text(b, "a property", p->properties[i]));
        put(b, obj, "properties", list);
    }
    return obj;
}

static json_t *rlimits(struct build *b, const struct job_rlimit *v, size_t n)
{
    json_t *obj = json_object();

    for (size_t i = 0; i < n; i++) {
        const struct job_rlimit *r = &v[i];

        if (r->value == JOBSPEC_NO_LIMIT)
            put_text(b, obj, r->name, "unlimited");
        else
            put_integer(b, obj, r->name, r->value);
    }
    return obj;
}

static json_t *options(struct build *b, const struct joboptions *o)
{
    json_t *obj = json_object();

    put_path(b, obj, "output", o->output);
    put_path(b, obj, "error", o->error);
    put_path(b, obj, "input", o->input);
    if (o->label)
        put(b, obj, "label", json_true());
    put_default(b, obj, "stdin", (int)o->stdin_mode, job_stdin_name(o->stdin_mode));
    put_default(b, obj, "layout", (int)o->layout, job_layout_name(o->layout));
    put_default(b, obj, "cpu-affinity", (int)o->cpu_affinity, job_affinity_name(o->cpu_affinity));
    put_default(b, obj, "gpu-affinity", (int)o->gpu_affinity, job_affinity_name(o->gpu_affinity));
    if (o->kill_on_bad_exit)
        put(b, obj, "kill-on-bad-exit", json_true());
    if (o->survive_node_loss)
        put(b, obj, "survive-node-loss", json_true());
    if (o->requeue)
        put(b, obj, "requeue", json_true());
    put_object(b, obj, "rlimits", rlimits(b, o->rlimits, o->nrlimits));
    put_object(b, obj, "soft-limits", rlimits(b, o->softlimits, o->nsoftlimits));
    if (o->umask >= 0) {
        char octal[16];

        snprintf(octal, sizeof(octal), "%04o", (unsigned)o->umask & 0777);
        put_text(b, obj, "umask", octal);
    }
    put_default(b, obj, "mpi", (int)o->mpi, job_mpi_name(o->mpi));
    if (o->grace >= 0)
        put(b, obj, "grace", json_real(o->grace));
    if (o->output_limit != JOBSPEC_NO_LIMIT)
        put_integer(b, obj, "output-limit", o->output_limit);
    if (o->nested)
        put(b, obj, "nested", json_true());
    return obj;
}

static json_t *system_attributes(struct build *b, const struct jobspec_parts *p)
{
    json_t *sys = json_object(), *job = json_object(), *shell = json_object();

    put(b, sys, "duration", json_real(p->duration));
    put_path(b, sys, "cwd", p->cwd);
    put_text(b, job, "name", p->name);
    put_object(b, sys, "job", job);
    if (p->begin > 0)
        put(b, sys, "begin-time", json_real(p->begin));
    if (p->ndeps)
        put(b, sys, "dependencies", dependencies(b, p));
    put_object(b, sys, "constraints", constraints(b, p));
    if (p->env && json_object_size(p->env))
        put(b, sys, "environment", json_incref((json_t *)p->env));
    if (p->files && json_object_size(p->files))
        put(b, sys, "files", json_incref((json_t *)p->files));
    put_object(b, shell, "options", options(b, &p->options));
    put_object(b, sys, "shell", shell);
    return sys;
}

void jobspec_parts_init(struct jobspec_parts *p)
{
    memset(p, 0, sizeof(*p));
    joboptions_init(&p->options);
}

static bool is_empty(const char *const *argv)
{
    return !argv || !argv[0] || !*argv[0];
}

json_t *jobspec_build(const struct jobspec_parts *p, errmsg_t *err)
{
    struct build b = {.err = err};
    json_t *spec, *attributes;

    if (!p->nprograms && is_empty(p->argv)) {
        errmsg_fail(err, EINVAL, "a job must have a command");
        return NULL;
    }
    for (size_t i = 0; i < p->nprograms; i++) {
        if (is_empty(p->programs[i].argv)) {
            errmsg_fail(err, EINVAL, "each program of a job must have a command");
            return NULL;
        }
    }
    spec = json_object();
    attributes = json_object();
    put_integer(&b, spec, "version", 1);
    put(&b, spec, "resources", resources(&b, p));
    put(&b, spec, "tasks", tasks(&b, p));
    put(&b, attributes, "system", system_attributes(&b, p));
    put(&b, spec, "attributes", attributes);
    if (b.errnum) {
        json_decref(spec);
        errno = b.errnum;
        return NULL;
    }
    return spec;
}

/* Find the member `key` (not NUL-terminated) of an object, or create it. */
static json_t *descend(json_t *obj, const char *key, size_t len, errmsg_t *err)
{
    char name[JOBSPEC_NAME_MAX + 1];
    json_t *member;

    if (!len || len > JOBSPEC_NAME_MAX) {
        errmsg_fail(err, EINVAL,
                    "a path of attributes consists of names of 1 to %d bytes, separated by dots",
                    JOBSPEC_NAME_MAX);
        return NULL;
    }
    memcpy(name, key, len);
    name[len] = '\0';
    if ((member = json_object_get(obj, name))) {
        if (json_is_object(member))
            return member;
        errmsg_fail(err, EINVAL, "'%s' is not an object, and cannot have members", name);
        return NULL;
    }
    member = json_object();
    if (!member || json_object_set_new(obj, name, member) < 0) {
        errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
        return NULL;
    }
    return member;
}

int jobspec_set(json_t *spec, const char *path, json_t *value, errmsg_t *err)
{
    json_t *obj = descend(spec, "attributes", strlen("attributes"), err);
    const char *dot;

    if (!value) {
        errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
        return -1;
    }
    for (; obj && (dot = strchr(path, '.')); path = dot + 1)
        obj = descend(obj, path, (size_t)(dot - path), err);
    if (!obj) {
        int saved = errno;
        json_decref(value);
        errno = saved;
        return -1;
    }
    if (!*path) {
        json_decref(value);
        return errmsg_fail(err, EINVAL, "a path of attributes must not end with a dot");
    }
    errno = 0;
    if (json_object_set_new(obj, path, value) < 0)
        return errmsg_fail(err, errno == ENOMEM ? ENOMEM : EINVAL,
                           errno == ENOMEM ? "out of memory for a jobspec"
                                           : "a path of attributes must be UTF-8");
    return 0;
}

struct text_buf {
    char *data;
    size_t len;
    size_t size;
};

static int text_add(const char *data, size_t len, void *arg)
{
    struct text_buf *t = arg;

    if (t->size - t->len <= len) {
        size_t size = (t->size ? t->size : 512) * 2 + len;
        char *p = realloc(t->data, size);

        if (!p)
            return -1;
        t->data = p;
        t->size = size;
    }
    memcpy(t->data + t->len, data, len);
    t->len += len;
    t->data[t->len] = '\0';
    return 0;
}

char *jobspec_encode(const json_t *spec, size_t *len)
{
    struct text_buf t = {0};

    if (json_dump_callback(spec, text_add, &t, JSON_COMPACT) < 0) {
        free(t.data);
        errno = ENOMEM;
        return NULL;
    }
    if (len)
        *len = t.len;
    return t.data;
}
