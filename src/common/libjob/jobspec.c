/* jobspec.c - jobspec text to jobspec_t: its frame, resources and tasks.
 *
 * jansson checks the syntax; then every object is read by a table of its members, each with a
 * function for its value.  The position of the reader is a chain of struct path on the C stack,
 * which is formatted only for an error message.  attributes are read in jobspec_attr.c and
 * jobspec_shell.c.
 *
 *    {"version": 1,
 *     "resources": [ {"type":"node","count":N,"exclusive":b?,"with":[SLOT]} or SLOT,
 *                    {"type":POOL,"count":n}... ],
 *        SLOT: {"type":"slot","count":n,"label":l,"with":[{"type":"core","count":n},
 *               {"type":"gpu","count":n}?, {"type":"memory","count":MiB}?]}
 *     "tasks": [{"command":[..],"slot":l,"count":{"per_slot":n} or {"total":n},
 *                "environment":{...}?}...],
 *     "attributes": {"system":{"duration":s,...},"user":{...}?}}
 *
 * Invariants:
 *  1. A jobspec_t that was returned satisfies the guarantees of all accessors: at least one
 *     argument, one slot, one task; products of counts are within their bounds.
 *  2. Every error message for a value begins with the path of that value, of a missing member with
 *     the path it would have, and for a syntax error with the path of the object around it.
 *  3. An accepted jobspec has no member that is ignored.
 *
 * Failure: nothing remains allocated; errno and one error message.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobspec_private.h"
#include "libschema/jsonsize.h"
#include "libutil/strutil.h"

/* --- paths --- */

#define VALUES_MAX 262144u /* in the JSON of one jobspec */
#define PATH_MAX_TEXT 150  /* leaves room for the error message */
#define PATH_KEY_TEXT 48

static size_t path_print(const struct path *p, char *buf, size_t size)
{
    size_t n = 0;

    if (!p)
        return 0;
    n = path_print(p->up, buf, size);
    if (n + 1 >= size)
        return n;
    if (p->key)
        n += (size_t)snprintf(buf + n, size - n, "%s%.*s", n ? "." : "", PATH_KEY_TEXT, p->key);
    else
        n += (size_t)snprintf(buf + n, size - n, "[%zu]", p->index);
    return n < size ? n : size - 1;
}

int jspec_path_fail(errmsg_t *err, const struct path *at, const char *fmt, ...)
{
    char where[PATH_MAX_TEXT] = "";
    char why[sizeof(err->text)];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    path_print(at, where, sizeof(where));
    return errmsg_fail(err, EINVAL, "%s%s%s", where, *where ? ": " : "", why);
}

/* --- values --- */

/* Most jobspecs come from jobspec_build(), which writes members in the order of the tables: check
 * that place of the table first. */
int jspec_take_object(jobspec_t *js, const struct path *at, const json_t *obj,
                      const struct member *table, errmsg_t *err)
{
    struct path here = {.up = at};
    size_t n = 0, next = 0;
    uint32_t seen = 0;

    if (!json_is_object(obj))
        return jspec_path_fail(err, at, "must be an object");
    while (table[n].name)
        n++;
    for (void *it = json_object_iter((json_t *)obj); it;
         it = json_object_iter_next((json_t *)obj, it)) {
        size_t tried = 0;

        here.key = json_object_iter_key(it);
        while (tried < n && strcmp(table[next % n].name, here.key) != 0) {
            next++;
            tried++;
        }
        if (tried == n)
            return jspec_path_fail(err, &here, "is unknown");
        next %= n;
        if (table[next].take(js, &here, json_object_iter_value(it), err) < 0)
            return -1;
        seen |= UINT32_C(1) << next++;
    }
    for (size_t i = 0; i < n; i++) {
        here.key = table[i].name;
        if (table[i].required && !(seen >> i & 1))
            return jspec_path_fail(err, &here, "is missing");
    }
    return 0;
}

int jspec_get_integer(const struct path *at, const json_t *val, uint64_t min, uint64_t max,
                      uint64_t *out, errmsg_t *err)
{
    if (!json_is_integer(val) || json_integer_value(val) < (json_int_t)min ||
        (uint64_t)json_integer_value(val) > max)
        return jspec_path_fail(err, at, "must be an integer of %llu to %llu",
                               (unsigned long long)min, (unsigned long long)max);
    *out = (uint64_t)json_integer_value(val);
    return 0;
}

int jspec_get_seconds(const struct path *at, const json_t *val, double *out, errmsg_t *err)
{
    if (!json_is_number(val) || !isfinite(json_number_value(val)) || json_number_value(val) < 0)
        return jspec_path_fail(err, at, "must be a number >= 0");
    *out = json_number_value(val);
    return 0;
}

int jspec_get_text(const struct path *at, const json_t *val, const char **out, errmsg_t *err)
{
    if (!json_is_string(val) || !json_string_length(val))
        return jspec_path_fail(err, at, "must be a non-empty string");
    *out = json_string_value(val);
    return 0;
}

json_t *jspec_take_bytes(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    char *bytes;
    json_t *text;

    if (json_is_string(val))
        return (json_t *)val;
    if (!(bytes = jobspec_text_get(val)) && errno != ENOMEM) {
        jspec_path_fail(err, at,
                        "must be a string, or {\"bytes\":...} with characters up to U+00FF");
        return NULL;
    }
    text = bytes ? json_string_nocheck(bytes) : NULL;
    free(bytes);
    if (!js->bytes)
        js->bytes = json_array();
    if (json_array_append_new(js->bytes, text) == 0)
        return text;
    errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    return NULL;
}

int jspec_get_path(jobspec_t *js, const struct path *at, const json_t *val, const char **out,
                   errmsg_t *err)
{
    const json_t *text = jspec_take_bytes(js, at, val, err);

    return text ? jspec_get_text(at, text, out, err) : -1;
}

int jspec_get_bool(const struct path *at, const json_t *val, bool *out, errmsg_t *err)
{
    if (!json_is_boolean(val))
        return jspec_path_fail(err, at, "must be true or false");
    *out = json_is_true(val);
    return 0;
}

/* --- resources --- */

/* One vertex of the resources, whatever its type. */
struct vertex {
    const char *type;
    const char *label;
    const json_t *count;
    const json_t *exclusive;
    const json_t *with;
};

enum { HAS_LABEL = 1, HAS_EXCLUSIVE = 2, HAS_WITH = 4 };

static int get_vertex(const struct path *at, const json_t *val, struct vertex *v, errmsg_t *err)
{
    struct path here = {.up = at};

    memset(v, 0, sizeof(*v));
    if (!json_is_object(val))
        return jspec_path_fail(err, at, "must be an object");
    for (void *it = json_object_iter((json_t *)val); it;
         it = json_object_iter_next((json_t *)val, it)) {
        const json_t *member = json_object_iter_value(it);

        here.key = json_object_iter_key(it);
        if (!strcmp(here.key, "type")) {
            if (jspec_get_text(&here, member, &v->type, err) < 0)
                return -1;
        } else if (!strcmp(here.key, "count"))
            v->count = member;
        else if (!strcmp(here.key, "label")) {
            if (jspec_get_text(&here, member, &v->label, err) < 0)
                return -1;
        } else if (!strcmp(here.key, "exclusive"))
            v->exclusive = member;
        else if (!strcmp(here.key, "with"))
            v->with = member;
        else
            return jspec_path_fail(err, &here, "is unknown");
    }
    here.key = "type";
    if (!v->type)
        return jspec_path_fail(err, &here, "is missing");
    here.key = "count";
    if (!v->count)
        return jspec_path_fail(err, &here, "is missing");
    return 0;
}

/* Refuse those of the members label, exclusive and with that this type of vertex does not have. */
static int only_has(const struct path *at, const struct vertex *v, int has, errmsg_t *err)
{
    struct path here = {.up = at};

    if (v->label && !(has & HAS_LABEL))
        here.key = "label";
    else if (v->exclusive && !(has & HAS_EXCLUSIVE))
        here.key = "exclusive";
    else if (v->with && !(has & HAS_WITH))
        here.key = "with";
    else
        return 0;
    return jspec_path_fail(err, &here, "is not allowed for a '%.64s'", v->type);
}

static int get_count(const struct path *at, const struct vertex *v, uint64_t max, uint64_t *out,
                     errmsg_t *err)
{
    struct path here = {.up = at, .key = "count"};
    return jspec_get_integer(&here, v->count, 1, max, out, err);
}

static int get_count32(const struct path *at, const struct vertex *v, uint32_t *out, errmsg_t *err)
{
    uint64_t n;

    if (get_count(at, v, RREQ_COUNT_MAX, &n, err) < 0)
        return -1;
    *out = (uint32_t)n;
    return 0;
}

/* A number of slots, or a range of it: {"min":1,"max":16}. */
static int take_slot_count(jobspec_t *js, const struct path *at, const struct vertex *v,
                           errmsg_t *err)
{
    const struct path count = {.up = at, .key = "count"};
    const char *const names[] = {"min", "max"};
    uint64_t n[2] = {1};

    if (!json_is_object(v->count))
        return get_count32(at, v, &js->rreq.nslots, err);
    for (int i = 0; i < 2; i++) {
        const struct path here = {.up = &count, .key = names[i]};
        const json_t *val = json_object_get(v->count, names[i]);

        if (!val)
            return jspec_path_fail(err, &here, "is missing");
        if (jspec_get_integer(&here, val, n[0], RREQ_COUNT_MAX, &n[i], err) < 0)
            return -1;
    }
    if (json_object_size(v->count) > 2)
        return jspec_path_fail(err, &count, "must have min and max only");
    js->min_slots = (uint32_t)n[0];
    js->rreq.nslots = (uint32_t)n[1];
    return 0;
}

static int take_in_slot(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path type = {.up = at, .key = "type"};
    struct vertex v;

    if (get_vertex(at, val, &v, err) < 0 || only_has(at, &v, 0, err) < 0)
        return -1;
    if (!strcmp(v.type, "core")) {
        if (js->rreq.cores)
            return jspec_path_fail(err, &type, "'core' occurs twice in a slot");
        return get_count32(at, &v, &js->rreq.cores, err);
    }
    if (!strcmp(v.type, "gpu")) {
        if (js->rreq.gpus)
            return jspec_path_fail(err, &type, "'gpu' occurs twice in a slot");
        return get_count32(at, &v, &js->rreq.gpus, err);
    }
    if (!strcmp(v.type, "memory")) {
        if (js->rreq.memory)
            return jspec_path_fail(err, &type, "'memory' occurs twice in a slot");
        return get_count(at, &v, RREQ_QUANTITY_MAX, &js->rreq.memory, err);
    }
    return jspec_path_fail(err, &type, "must be core, gpu or memory in a slot");
}

static int take_slot(jobspec_t *js, const struct path *at, const struct vertex *v, errmsg_t *err)
{
    struct path with = {.up = at, .key = "with"};
    struct path label = {.up = at, .key = "label"};
    struct path item = {.up = &with};

    if (only_has(at, v, HAS_LABEL | HAS_WITH, err) < 0 || take_slot_count(js, at, v, err) < 0)
        return -1;
    if (!v->label)
        return jspec_path_fail(err, &label, "is missing");
    if (!v->with)
        return jspec_path_fail(err, &with, "is missing");
    if (!json_is_array(v->with) || !json_array_size(v->with))
        return jspec_path_fail(err, &with, "must be a non-empty array");
    for (; item.index < json_array_size(v->with); item.index++)
        if (take_in_slot(js, &item, json_array_get(v->with, item.index), err) < 0)
            return -1;
    if (!js->rreq.cores)
        return jspec_path_fail(err, &with, "must have a core");
    js->label = v->label;
    return 0;
}

static int take_node(jobspec_t *js, const struct path *at, const struct vertex *v, errmsg_t *err)
{
    struct path with = {.up = at, .key = "with"};
    struct path exclusive = {.up = at, .key = "exclusive"};
    struct path item = {.up = &with};
    struct path type = {.up = &item, .key = "type"};
    struct vertex slot;

    if (only_has(at, v, HAS_EXCLUSIVE | HAS_WITH, err) < 0 ||
        get_count32(at, v, &js->rreq.nnodes, err) < 0)
        return -1;
    if (v->exclusive && jspec_get_bool(&exclusive, v->exclusive, &js->rreq.exclusive, err) < 0)
        return -1;
    if (!v->with)
        return jspec_path_fail(err, &with, "is missing");
    if (!json_is_array(v->with) || json_array_size(v->with) != 1)
        return jspec_path_fail(err, &with, "must be an array with one slot");
    if (get_vertex(&item, json_array_get(v->with, 0), &slot, err) < 0)
        return -1;
    if (strcmp(slot.type, "slot") != 0)
        return jspec_path_fail(err, &type, "must be slot inside a node");
    return take_slot(js, &item, &slot, err);
}

static int take_pool(jobspec_t *js, const struct path *at, const struct vertex *v, errmsg_t *err)
{
    struct path type = {.up = at, .key = "type"};
    uint64_t count;
    errmsg_t why;

    if (!strcmp(v->type, "core") || !strcmp(v->type, "gpu") || !strcmp(v->type, "memory"))
        return jspec_path_fail(err, &type, "'%s' must be inside a slot", v->type);
    if (!rreq_name_valid(v->type))
        return jspec_path_fail(err, &type, "must be node, slot, or the name of a pool");
    for (size_t i = 0; i < js->rreq.npools; i++)
        if (!strcmp(js->rreq.pools[i].name, v->type))
            return jspec_path_fail(err, &type, "'%s' occurs twice", v->type);
    if (only_has(at, v, 0, err) < 0 || get_count(at, v, RREQ_QUANTITY_MAX, &count, err) < 0)
        return -1;
    if (rreq_add_pool(&js->rreq, v->type, count, &why) < 0) {
        if (errno == ENOMEM)
            return errmsg_fail(err, ENOMEM, "%s", why.text);
        return jspec_path_fail(err, at, "%s", why.text);
    }
    return 0;
}

static int take_resources(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path item = {.up = at};
    struct path type = {.up = &item, .key = "type"};
    struct vertex v;
    uint64_t nodes;

    if (!json_is_array(val) || !json_array_size(val))
        return jspec_path_fail(err, at, "must be a non-empty array");
    for (; item.index < json_array_size(val); item.index++) {
        bool node, slot;

        if (get_vertex(&item, json_array_get(val, item.index), &v, err) < 0)
            return -1;
        node = !strcmp(v.type, "node");
        slot = !strcmp(v.type, "slot");
        if ((node || slot) && js->label)
            return jspec_path_fail(err, &type, "a job must have exactly one node or slot entry");
        if ((node   ? take_node(js, &item, &v, err)
             : slot ? take_slot(js, &item, &v, err)
                    : take_pool(js, &item, &v, err)) < 0)
            return -1;
    }
    if (!js->label)
        return jspec_path_fail(err, at, "must have a node or a slot");
    nodes = js->rreq.nnodes ? js->rreq.nnodes : 1;
    if (nodes * (js->min_slots ? js->min_slots : js->rreq.nslots) > JOBSPEC_TASKS_MAX)
        return jspec_path_fail(err, at, "must have at most %u slots in total", JOBSPEC_TASKS_MAX);
    nodes *= js->rreq.nslots;
    js->nslots = nodes < JOBSPEC_TASKS_MAX ? (uint32_t)nodes : JOBSPEC_TASKS_MAX;
    return 0;
}

/* --- tasks --- */

static int take_command(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path item = {.up = at};
    const char **argv;
    size_t argc;

    if (!json_is_array(val) || !json_array_size(val))
        return jspec_path_fail(err, at, "must be a non-empty array");
    argc = json_array_size(val);
    if (!(argv = calloc(argc + 1, sizeof(*argv))))
        return errmsg_fail(err, ENOMEM, "out of memory for a command");
    js->programs[js->nprograms - 1].argv = argv;
    if (js->nprograms == 1)
        js->argc = argc;
    for (; item.index < argc; item.index++) {
        const json_t *arg = jspec_take_bytes(js, &item, json_array_get(val, item.index), err);

        if (!arg)
            return -1;
        argv[item.index] = json_string_value(arg);
    }
    item.index = 0;
    if (!*argv[0])
        return jspec_path_fail(err, &item, "must be a non-empty string");
    return 0;
}

static int take_task_slot(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    const char *label;

    if (jspec_get_text(at, val, &label, err) < 0)
        return -1;
    if (js->label && strcmp(label, js->label) != 0)
        return jspec_path_fail(err, at, "must be the label of the slot, '%.64s'", js->label);
    return 0;
}

static int take_per_slot(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    uint64_t n;

    if (jspec_get_integer(at, val, 1, JOBSPEC_TASKS_MAX, &n, err) < 0)
        return -1;
    js->per_slot = (uint32_t)n;
    return 0;
}

static int take_total(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    uint64_t n;

    if (jspec_get_integer(at, val, 1, JOBSPEC_TASKS_MAX, &n, err) < 0)
        return -1;
    js->programs[js->nprograms - 1].ntasks = (uint32_t)n;
    return 0;
}

static const struct member count_members[] = {
    {"per_slot", take_per_slot, false},
    {"total", take_total, false},
    {NULL, NULL, false},
};

static int take_count(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    if (jspec_take_object(js, at, val, count_members, err) < 0)
        return -1;
    if (!js->per_slot == !js->programs[js->nprograms - 1].ntasks)
        return jspec_path_fail(err, at, "must have either per_slot or total");
    return 0;
}

static int take_changes(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    return jspec_get_environment(js, at, val, &js->programs[js->nprograms - 1].env, err);
}

static const struct member task_members[] = {
    {"command", take_command, true},
    {"slot", take_task_slot, true},
    {"count", take_count, true},
    {"environment", take_changes, false},
    {NULL, NULL, false},
};

static int take_tasks(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    struct path item = {.up = at};
    size_t n = json_array_size(val);

    if (n == 0 || n > JOBSPEC_PROGRAMS_MAX)
        return jspec_path_fail(err, at, "must be an array of 1 to %d entries",
                               JOBSPEC_PROGRAMS_MAX);
    if (!(js->programs = calloc(n, sizeof(*js->programs))))
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    for (; item.index < n; item.index++) {
        js->nprograms++;
        if (jspec_take_object(js, &item, json_array_get(val, item.index), task_members, err) < 0)
            return -1;
        if (n > 1 && js->per_slot)
            return jspec_path_fail(err, &item,
                                   "must have a total of tasks, as required for several entries");
    }
    return 0;
}

/* --- the whole --- */

static int take_version(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err)
{
    (void)js;
    if (!json_is_integer(val) || json_integer_value(val) != 1)
        return jspec_path_fail(err, at, "must be 1");
    return 0;
}

static const struct member jobspec_members[] = {
    {"version", take_version, true},
    {"resources", take_resources, true},
    {"tasks", take_tasks, true},
    {"attributes", jspec_take_attributes, true},
    {NULL, NULL, false},
};

/* Check the conditions between members, which can come in any order. */
static int check_tasks(jobspec_t *js, errmsg_t *err)
{
    const struct path tasks = {.key = "tasks"};
    struct path entry = {.up = &tasks};
    const struct path slot = {.up = &entry, .key = "slot"}, count = {.up = &entry, .key = "count"};
    const json_t *list = json_object_get(js->root, "tasks");
    uint64_t ntasks = (uint64_t)js->per_slot * js->nslots;

    if (js->min_slots && js->per_slot)
        return jspec_path_fail(err, &count,
                               "must have a total of tasks, as required for a range of slots");
    for (; entry.index < js->nprograms; entry.index++) {
        const json_t *task = json_array_get(list, entry.index);

        if (take_task_slot(js, &slot, json_object_get(task, "slot"), err) < 0)
            return -1;
        ntasks += js->programs[entry.index].ntasks;
        if (ntasks > JOBSPEC_TASKS_MAX)
            return jspec_path_fail(err, &count, "results in %llu tasks, which is more than %u",
                                   (unsigned long long)ntasks, JOBSPEC_TASKS_MAX);
    }
    js->ntasks = (uint32_t)ntasks;
    if (js->per_slot)
        js->programs[0].ntasks = js->ntasks;
    return 0;
}

static int check_whole(jobspec_t *js, errmsg_t *err)
{
    if (check_tasks(js, err) < 0)
        return -1;
    if (!js->name) {
        const char *first = js->programs[0].argv[0], *slash = strrchr(first, '/');

        js->name = slash && slash[1] ? slash + 1 : first;
        if (js->bytes) { /* some texts are not UTF-8; the name is for people and for JSON, so it has
                          * to be */
            if (!(js->name_copy = strdup(js->name)))
                return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
            str_clean(js->name_copy);
            js->name = js->name_copy;
        }
    }
    js->rreq.duration = js->duration;
    return 0;
}

static int load(jobspec_t *js, const char *text, size_t len, errmsg_t *err)
{
    json_error_t jerr;
    char where[PATH_MAX_TEXT];

    if (len > JOBSPEC_MAX)
        return errmsg_fail(err, EMSGSIZE, "a jobspec has at most %u bytes, this one has %zu",
                           JOBSPEC_MAX, len);
    /* A parsed value takes up to 80 times its text. */
    if (flux_json_count(text, len, VALUES_MAX) > VALUES_MAX)
        return errmsg_fail(err, EMSGSIZE, "a jobspec has at most %u values, this one has more",
                           VALUES_MAX);
    errno = 0;
    if ((js->root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &jerr)))
        return 0;
    if (errno == ENOMEM || json_error_code(&jerr) == json_error_out_of_memory)
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec of %zu bytes", len);
    jspec_json_where(text, len, jerr.position > 0 ? (size_t)jerr.position : 0, where,
                     sizeof(where));
    return errmsg_fail(err, EINVAL, "%s%sis not JSON at byte %d: %.80s", where, *where ? ": " : "",
                       jerr.position, jerr.text);
}

jobspec_t *jobspec_parse(const char *text, size_t len, errmsg_t *err)
{
    jobspec_t *js = calloc(1, sizeof(*js));

    if (!js) {
        errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
        return NULL;
    }
    joboptions_init(&js->options);
    if (load(js, text, len, err) < 0 ||
        jspec_take_object(js, NULL, js->root, jobspec_members, err) < 0 ||
        check_whole(js, err) < 0) {
        jobspec_destroy(js);
        return NULL;
    }
    return js;
}

void jobspec_destroy(jobspec_t *js)
{
    int saved = errno;

    if (!js)
        return;
    rreq_clear(&js->rreq);
    for (size_t i = 0; i < js->nprograms; i++)
        free((void *)js->programs[i].argv);
    free(js->programs);
    free(js->hosts);
    free(js->deps);
    free(js->rlimits);
    free(js->softlimits);
    free(js->name_copy);
    json_decref(js->bytes);
    json_decref(js->root);
    free(js);
    errno = saved;
}

/* --- accessors --- */

const struct rreq *jobspec_rreq(const jobspec_t *js)
{
    return &js->rreq;
}

const char *const *jobspec_command(const jobspec_t *js, size_t *argc)
{
    if (argc)
        *argc = js->argc;
    return js->programs[0].argv;
}

const struct jobspec_program *jobspec_programs(const jobspec_t *js, size_t *n)
{
    *n = js->nprograms;
    return js->programs;
}

uint32_t jobspec_nslots(const jobspec_t *js)
{
    return js->nslots;
}

uint32_t jobspec_min_slots(const jobspec_t *js)
{
    return js->min_slots;
}

uint32_t jobspec_ntasks(const jobspec_t *js)
{
    return js->ntasks;
}

uint32_t jobspec_per_slot(const jobspec_t *js)
{
    return js->per_slot;
}

double jobspec_begin(const jobspec_t *js)
{
    return js->begin;
}

const char *jobspec_cwd(const jobspec_t *js)
{
    return js->cwd;
}

const char *jobspec_name(const jobspec_t *js)
{
    return js->name;
}

const char *jobspec_hosts(const jobspec_t *js)
{
    return js->hosts;
}

const json_t *jobspec_env(const jobspec_t *js)
{
    return js->env;
}

const json_t *jobspec_files(const jobspec_t *js)
{
    return js->files;
}

const struct jobspec_dep *jobspec_dependencies(const jobspec_t *js, size_t *n)
{
    *n = js->ndeps;
    return js->deps;
}

const struct joboptions *jobspec_options(const jobspec_t *js)
{
    return &js->options;
}
