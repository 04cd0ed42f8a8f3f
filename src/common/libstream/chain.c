/* chain.c - run a chain of transforms on steps of streams.
 *
 * Each transform is a shared object with the table of stream_transform.h; Lua is one of them, a
 * module that takes the name of a file as its argument.  The first transform of a chain gets
 * variables of its inputs (struct stream_chain_input): the steps of readers, or what a writer has
 * put.  Each other one gets the variables of the preceding transform.  Who runs the chain does with
 * the result what is to be done: a reader shows it in place of the step (stream_view.c), a writer
 * publishes it in place of what was put (stream_sift.c), and `flux stream transform` writes it to
 * another stream.
 *
 * Records are structs of this host, with the text of their format: recast.h parses each text once,
 * and converts structs to the format that a transform requests.
 *
 * A variable is read only when a transform requests it.  The result of a transform consists of the
 * variables that it has put, and those of its first input that it keeps: these are not touched.
 *
 * Invariants:
 *  1. The arrays that a transform gets stay in place until the next step, or the end of the chain:
 *     memory that an input has made for one is kept in `owned`.
 *  2. The result of a transform has each name once: what it has put hides what it keeps.
 *
 * Failure: a step fails as a whole, with an error message that names the file; the next one may
 * succeed.
 */
#include "config.h"
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/paths.h"
#include "libstream/block.h"
#include "libstream/chain.h"
#include "libstream/elem.h"
#include "libstream/encode.h"
#include "libstream/project.h"
#include "libstream/recast.h"
#include "libutil/filetrust.h"

#define CHAIN_MAX 16
#define VARS_MAX 4096 /* of a result */

_Static_assert(FLUX_TRANSFORM_DIMS == FLUX_STREAM_DIMS_MAX, "one limit");

/* A variable of a result. */
struct made {
    char name[BLOCK_NAME_MAX + 1];
    struct flux_transform_array a; /* its `type` is a name of elem.h, its `format` canonical */
};

struct stage {
    char *file;
    char *shown; /* name in messages: the file, or the Lua file */
    void *dso;
    const struct flux_transform *ops;
    void *state;
    bool created;
    struct made *made;
    size_t nmade;
    size_t room;
    bool keeps_all;
    char (*keeps)[BLOCK_NAME_MAX + 1];
    size_t nkeeps;
    size_t keeps_room;
    const char **names; /* of the result */
    size_t nnames;
    size_t names_room;
};

/* Memory of an array. */
struct owned {
    struct owned *next;
    void *mem;
};

struct stream_chain {
    struct stage stages[CHAIN_MAX];
    unsigned n;
    struct owned *owned;
    recast_t *recast;
    bool lost; /* an input has ended during the step */
    const struct made **result;
    size_t nresult;
    size_t result_room;
};

/* A call of one stage; `st` is the transform's view of it. */
struct call {
    struct flux_transform_step st;
    stream_chain_t *t;
    unsigned own;
    const struct stream_chain_input *in;
    errmsg_t err; /* of get(), put() or keep() */
};

/* --- life --- */

static void forget_owned(stream_chain_t *t)
{
    while (t->owned) {
        struct owned *o = t->owned;

        t->owned = o->next;
        free(o->mem);
        free(o);
    }
}

/* Make room for one more element of `size` bytes.  0, or -1 with ENOMEM. */
static int more(void *list, size_t n, size_t *room, size_t size)
{
    void **at = list;
    size_t want = *room > 0 ? 2 * *room : 8;
    void *p;

    if (n < *room)
        return 0;
    if (!(p = realloc(*at, want * size)))
        return -1;
    *at = p;
    *room = want;
    return 0;
}

static void stage_unload(struct stage *s)
{
    if (s->created && s->ops->destroy)
        s->ops->destroy(s->state);
    if (s->dso)
        dlclose(s->dso);
    free(s->file);
    free(s->shown);
    free(s->made);
    free(s->keeps);
    free(s->names);
}

void stream_chain_destroy(stream_chain_t *t)
{
    int saved = errno;

    if (!t)
        return;
    for (unsigned i = 0; i < t->n; i++)
        stage_unload(&t->stages[i]);
    forget_owned(t);
    recast_destroy(t->recast);
    free(t->result);
    free(t);
    errno = saved;
}

stream_chain_t *stream_chain_create(errmsg_t *err)
{
    stream_chain_t *t = calloc(1, sizeof(*t));

    if (t && (t->recast = recast_create()))
        return t;
    free(t);
    errmsg_fail(err, ENOMEM, "out of memory");
    return NULL;
}

static int stage_load(struct stage *s, const char *arg, errmsg_t *err)
{
    char text[sizeof(err->text)] = "";
    errmsg_t why;

    if (!file_is_trusted(s->file, &why))
        return errmsg_fail(err, errno, "transform %s", why.text);
    if (!(s->dso = dlopen(s->file, RTLD_NOW | RTLD_LOCAL)))
        return errmsg_fail(err, EINVAL, "transform %s cannot be loaded: %s", s->file, dlerror());
    if (!(s->ops = dlsym(s->dso, "flux_transform")))
        return errmsg_fail(err, EINVAL, "%s is not a transform: it does not export flux_transform",
                           s->file);
    if (s->ops->abi != FLUX_TRANSFORM_ABI || !s->ops->step)
        return errmsg_fail(err, EINVAL,
                           "%s was built for version %d of the interface of transforms, not %d",
                           s->file, s->ops->abi, FLUX_TRANSFORM_ABI);
    if (s->ops->create && !(s->state = s->ops->create(arg, text, sizeof(text))))
        return errmsg_fail(err, EINVAL, "transform %s: %s", s->shown, text);
    s->created = true;
    return 0;
}

/* Add a stage.  `file` is taken over. */
static int add(stream_chain_t *t, char *file, const char *arg, const char *shown, errmsg_t *err)
{
    struct stage *s = &t->stages[t->n];

    if (t->n == CHAIN_MAX) {
        free(file);
        return errmsg_fail(err, E2BIG, "a chain has at most %d transforms", CHAIN_MAX);
    }
    *s = (struct stage){.file = file, .shown = strdup(shown)};
    if (!s->shown)
        errmsg_fail(err, ENOMEM, "out of memory");
    if (!s->shown || stage_load(s, arg, err) < 0) {
        int saved = errno;

        stage_unload(s);
        errno = saved;
        return -1;
    }
    t->n++;
    return 0;
}

int stream_chain_add(stream_chain_t *t, const char *spec, errmsg_t *err)
{
    const char *base = strrchr(spec, '/');
    const char *colon = strchr(base ? base : spec, ':');
    char *file = NULL;

    /* A name without '/' would be searched in the directories of libraries. */
    if (asprintf(&file, "%s%.*s", base ? "" : "./", (int)(colon ? colon - spec : (int)strlen(spec)),
                 spec) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory");
    return add(t, file, colon ? colon + 1 : NULL, file, err);
}

int stream_chain_add_lua(stream_chain_t *t, const char *path, errmsg_t *err)
{
    char *file = flux_path_module("transform-lua", err);

    return file ? add(t, file, path, path, err) : -1;
}

/* Add the transform in `text`, which is changed. */
static int add_text(stream_chain_t *t, char *text, errmsg_t *err)
{
    size_t len;

    text += strspn(text, " \t");
    len = strlen(text);
    while (len > 0 && strchr(" \t", text[len - 1]))
        text[--len] = '\0';
    if (len == 0)
        return errmsg_fail(err, EINVAL, "a chain of transforms has an empty name of a file");
    if (len > 4 && strcmp(text + len - 4, ".lua") == 0)
        return stream_chain_add_lua(t, text, err);
    return stream_chain_add(t, text, err);
}

stream_chain_t *stream_chain_parse(const char *text, errmsg_t *err)
{
    stream_chain_t *t = stream_chain_create(err);
    char *copy = t ? strdup(text) : NULL;
    char *rest = copy;
    char *one;
    int rc = copy ? 0 : -1;

    if (t && !copy)
        errmsg_fail(err, ENOMEM, "out of memory");
    while (rc == 0 && (one = strsep(&rest, "|")))
        rc = add_text(t, one, err);
    free(copy);
    if (rc < 0) {
        stream_chain_destroy(t);
        t = NULL;
    }
    return t;
}

/* --- the functions for transforms --- */

static const struct made *made_find(const struct stage *s, const char *name)
{
    for (size_t i = 0; i < s->nmade; i++) {
        if (strcmp(s->made[i].name, name) == 0)
            return &s->made[i];
    }
    return NULL;
}

static bool keeps(const struct stage *s, const char *name)
{
    for (size_t i = 0; !s->keeps_all && i < s->nkeeps; i++) {
        if (strcmp(s->keeps[i], name) == 0)
            return true;
    }
    return s->keeps_all;
}

/* The variable in the result of the first `n` stages.  *input: it is the one of the input; else
 * NULL means that there is none. */
static const struct made *find(const stream_chain_t *t, unsigned n, const char *name, bool *input)
{
    *input = false;
    while (n-- > 0) {
        const struct made *m = made_find(&t->stages[n], name);

        if (m || !keeps(&t->stages[n], name))
            return m;
    }
    *input = true;
    return NULL;
}

static const char *call_name(const struct flux_transform_step *st, unsigned input, size_t i)
{
    const struct call *c = (const struct call *)st;

    if (input >= st->inputs)
        return NULL;
    if (c->own == 0)
        return c->in[input].ops->name(c->in[input].arg, i);
    return i < c->t->stages[c->own - 1].nnames ? c->t->stages[c->own - 1].names[i] : NULL;
}

/* Room to note the memory of an array: NULL with an error message. */
static struct owned *owned_add(struct call *c, const char *var)
{
    struct owned *o = calloc(1, sizeof(*o));

    if (!o) {
        errmsg_fail(&c->err, ENOMEM, "out of memory for variable '%.127s'", var);
        return NULL;
    }
    o->next = c->t->owned;
    c->t->owned = o;
    return o;
}

static int input_get(struct call *c, unsigned input, const char *var, uint32_t rank,
                     const stream_format_t *want, struct flux_transform_array *out)
{
    struct owned *o = owned_add(c, var);
    int rc;

    if (!o)
        return -1;
    memset(out, 0, sizeof(*out));
    rc = c->in[input].ops->get(c->in[input].arg, var, rank, want, out, &o->mem, &c->err);
    if (rc < 0 && errno == ECONNRESET)
        c->t->lost = true;
    return rc;
}

/* A field of records that a transform has made. */
static int made_field(struct call *c, const struct made *m, const char *field,
                      struct flux_transform_array *out)
{
    const stream_format_t *f = stream_chain_format(c->t, &m->a, &c->err);
    struct owned *o = f ? owned_add(c, m->name) : NULL;

    memset(out, 0, sizeof(*out));
    return o ? project_structs(f, field, &m->a, out, &o->mem, &c->err) : -1;
}

/* Find the variable of which `path` has a field: the longest name counts.  The result is that of
 * find(), and *field what is behind the name; NULL: there is none. */
static const struct made *find_records(const struct call *c, const char *path, bool *input,
                                       const char **field)
{
    char name[BLOCK_NAME_MAX + 1];
    const struct made *m;

    for (size_t len = strlen(path); len > 0 && --len > 0;) {
        if (path[len] != '.' || len > BLOCK_NAME_MAX)
            continue;
        memcpy(name, path, len);
        name[len] = '\0';
        *field = path + len + 1;
        m = find(c->t, c->own, name, input);
        if ((m && m->a.format) || (*input && c->in[0].ops->has(c->in[0].arg, name)))
            return m;
    }
    *input = false;
    *field = NULL;
    return NULL;
}

static int get(struct call *c, unsigned input, const char *var, uint32_t rank,
               const stream_format_t *want, struct flux_transform_array *out)
{
    const struct made *m;
    const char *field = NULL;
    bool source, fields;

    if (input >= c->st.inputs)
        return errmsg_fail(&c->err, EINVAL, "there is no input %u of %u", input, c->st.inputs);
    m = find(c->t, c->own, var, &source);
    if (c->own > 0 && !m && !(source && c->in[0].ops->has(c->in[0].arg, var)) && strchr(var, '.'))
        m = find_records(c, var, &fields, &field);
    if (field ? fields : source)
        return input_get(c, input, var, rank, want, out);
    if (!m || (rank != FLUX_TRANSFORM_ALL && rank != 0))
        return errmsg_fail(&c->err, ENOENT, "%s has made no variable '%.127s'",
                           c->t->stages[c->own - 1].shown, var);
    if (field)
        return made_field(c, m, field, out);
    *out = m->a;
    return 0;
}

static int call_get(const struct flux_transform_step *st, unsigned input, const char *var,
                    uint32_t rank, struct flux_transform_array *out)
{
    return get((struct call *)st, input, var, rank, NULL, out);
}

static uint64_t elems_of(const struct flux_transform_array *a)
{
    uint64_t n = 1;

    for (unsigned i = 0; i < a->ndims; i++)
        n *= a->count[i];
    return n;
}

static int call_get_records(const struct flux_transform_step *st, unsigned input, const char *var,
                            uint32_t rank, const char *format, struct flux_transform_array *out)
{
    struct call *c = (struct call *)st;
    const stream_format_t *to = recast_format(c->t->recast, format, &c->err);
    const stream_format_t *from;
    struct owned *o;
    errmsg_t why;

    if (!to || get(c, input, var, rank, to, out) < 0)
        return -1;
    if (!out->format)
        return errmsg_fail(&c->err, EINVAL, "variable '%.127s' does not have records", var);
    if (!(from = stream_chain_format(c->t, out, &c->err)) || !(o = owned_add(c, var)))
        return -1;
    if (recast_structs(c->t->recast, from, to, out->data, elems_of(out), &out->data, &o->mem,
                       &why) < 0)
        return errmsg_fail(&c->err, errno, "variable '%.127s': %s", var, why.text);
    out->format = stream_format_text(to);
    out->size = elems_of(out) * stream_format_size(to);
    return 0;
}

/* Bytes of an array.  0, or -1: it is too large. */
static int size_of(const struct flux_transform_array *a, size_t elem, size_t *size)
{
    *size = elem;
    for (unsigned i = 0; i < a->ndims; i++) {
        if (__builtin_mul_overflow(*size, a->count[i], size))
            return -1;
    }
    return *size <= SIZE_MAX / 2 ? 0 : -1;
}

/* Is the piece inside its array? */
static bool inside(const struct flux_transform_array *a)
{
    for (unsigned i = 0; a->piece && i < a->ndims; i++) {
        if (a->offset[i] > a->shape[i] || a->count[i] > a->shape[i] - a->offset[i])
            return false;
    }
    return true;
}

/* Can these records be put?  Their format, or NULL with an error message. */
static const stream_format_t *put_format(struct call *c, const char *var,
                                         const struct flux_transform_array *a)
{
    const stream_format_t *f;
    errmsg_t why;
    size_t size, len;

    if (!a->format) {
        errmsg_fail(&c->err, EINVAL, "variable '%.127s': records without a format", var);
        return NULL;
    }
    if (!(f = recast_format(c->t->recast, a->format, &why)))
        errmsg_fail(&c->err, errno, "variable '%.127s': its format: %s", var, why.text);
    else if (stream_format_flat(f))
        return f;
    else if (a->piece)
        errmsg_fail(&c->err, EOPNOTSUPP,
                    "variable '%.127s': records of format %s have pointers, and cannot be elements "
                    "of a global array",
                    var, stream_format_name(f));
    else if (size_of(a, stream_format_size(f), &size) < 0)
        errmsg_fail(&c->err, E2BIG, "variable '%.127s' is too large", var);
    else if (stream_encode_array_size(f, a->data, elems_of(a), &len, &why) == 0)
        return f;
    else
        errmsg_fail(&c->err, errno, "variable '%.127s': %s", var, why.text);
    return NULL;
}

static int call_put(const struct flux_transform_step *st, const char *var,
                    const struct flux_transform_array *a)
{
    struct call *c = (struct call *)st;
    struct stage *s = &c->t->stages[c->own];
    bool records = a->type && strcmp(a->type, "record") == 0;
    enum stream_type type = records ? STREAM_RECORD : a->type ? stream_elem_by_name(a->type) : 0;
    const stream_format_t *f = NULL;
    struct made *m;
    size_t size;

    if ((!records && stream_elem_size(type) == 0) || a->ndims > FLUX_TRANSFORM_DIMS)
        return errmsg_fail(&c->err, EINVAL,
                           "variable '%.127s': type '%.20s' with %u dimensions is "
                           "not possible",
                           var, a->type ? a->type : "", a->ndims);
    if (records && !(f = put_format(c, var, a)))
        return -1;
    if (s->nmade >= VARS_MAX ||
        size_of(a, f ? stream_format_size(f) : stream_elem_size(type), &size) < 0)
        return errmsg_fail(&c->err, E2BIG, "variable '%.127s' is one too many, or too large", var);
    if (!block_name_ok(var, strlen(var)))
        return errmsg_fail(&c->err, EINVAL, "'%.127s' is not a name of a variable", var);
    if (!inside(a))
        return errmsg_fail(&c->err, EINVAL, "variable '%s' is not inside its global array", var);
    if (made_find(s, var))
        return errmsg_fail(&c->err, EEXIST, "variable '%s' was put before", var);
    if (more(&s->made, s->nmade, &s->room, sizeof(*s->made)) < 0)
        return errmsg_fail(&c->err, ENOMEM, "out of memory for variable '%s'", var);
    m = &s->made[s->nmade++];
    memset(m, 0, sizeof(*m));
    strcpy(m->name, var);
    m->a = *a;
    m->a.type = stream_elem_name(type);
    m->a.format = f ? stream_format_text(f) : NULL;
    m->a.size = size;
    return 0;
}

static int call_keep(const struct flux_transform_step *st, const char *var)
{
    struct call *c = (struct call *)st;
    struct stage *s = &c->t->stages[c->own];
    const struct made *m;
    bool source;

    if (!var) {
        s->keeps_all = true;
        return 0;
    }
    m = find(c->t, c->own, var, &source);
    if (!m && !(source && c->in[0].ops->has(c->in[0].arg, var)))
        return errmsg_fail(&c->err, ENOENT, "there is no variable '%.127s' to keep", var);
    if (keeps(s, var))
        return 0;
    if (more(&s->keeps, s->nkeeps, &s->keeps_room, sizeof(*s->keeps)) < 0)
        return errmsg_fail(&c->err, ENOMEM, "out of memory for variable '%s'", var);
    strcpy(s->keeps[s->nkeeps++], var); /* a name that exists is not longer than others */
    return 0;
}

static const char *call_why(const struct flux_transform_step *st)
{
    return ((const struct call *)st)->err.text;
}

/* --- a step --- */

static int name_add(struct stage *s, const char *name, errmsg_t *err)
{
    if (more(&s->names, s->nnames, &s->names_room, sizeof(*s->names)) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory for variable '%s'", name);
    s->names[s->nnames++] = name;
    return 0;
}

/* List the names of the result, for the next transform. */
static int names_make(struct call *c, struct stage *s, errmsg_t *err)
{
    const char *name;

    s->nnames = 0;
    for (size_t i = 0; i < s->nmade; i++) {
        if (name_add(s, s->made[i].name, err) < 0)
            return -1;
    }
    if (!s->keeps_all && s->nkeeps == 0)
        return 0;
    for (size_t i = 0; (name = call_name(&c->st, 0, i)); i++) {
        if (keeps(s, name) && !made_find(s, name) && name_add(s, name, err) < 0)
            return -1;
    }
    return 0;
}

static int stage_run(struct call *c, errmsg_t *err)
{
    struct stage *s = &c->t->stages[c->own];
    char text[sizeof(err->text)] = "";
    bool named; /* the error message begins with the file already */
    int rc;

    s->nmade = s->nkeeps = 0;
    s->keeps_all = false;
    rc = s->ops->step(s->state, &c->st, text, sizeof(text));
    named = text[0] && strcmp(s->shown, s->file) != 0;
    if (rc < 0)
        return errmsg_fail(err, c->t->lost ? ECONNRESET : EINVAL, "%s%s%s", named ? "" : s->shown,
                           named ? "" : ": ", text[0] ? text : c->err.text);
    return rc == 0 ? 0 : names_make(c, s, err) < 0 ? -1 : 1;
}

/* List what the chain has made, as far as no later transform has dropped or replaced it. */
static int result_make(stream_chain_t *t, errmsg_t *err)
{
    t->nresult = 0;
    for (unsigned n = t->n; n-- > 0;) {
        const struct stage *s = &t->stages[n];

        for (size_t i = 0; i < s->nmade; i++) {
            bool source;

            if (find(t, t->n, s->made[i].name, &source) != &s->made[i])
                continue;
            if (more(&t->result, t->nresult, &t->result_room, sizeof(const struct made *)) < 0)
                return errmsg_fail(err, ENOMEM, "out of memory for variable '%s'", s->made[i].name);
            t->result[t->nresult++] = &s->made[i];
        }
        if (!s->keeps_all && s->nkeeps == 0)
            break;
    }
    return 1;
}

int stream_chain_run(stream_chain_t *t, const struct stream_chain_input *in, unsigned ninputs,
                     uint64_t number, errmsg_t *err)
{
    forget_owned(t);
    recast_renew(t->recast);
    t->lost = false;
    for (unsigned i = 0; i < t->n; i++) {
        struct call c = {.st = {.number = number,
                                .inputs = i == 0 ? ninputs : 1,
                                .name = call_name,
                                .get = call_get,
                                .get_records = call_get_records,
                                .put = call_put,
                                .keep = call_keep,
                                .why = call_why},
                         .t = t,
                         .own = i,
                         .in = in};
        int rc = stage_run(&c, err);

        if (rc <= 0)
            return rc;
    }
    return result_make(t, err);
}

const struct flux_transform_array *stream_chain_made(const stream_chain_t *t, size_t i,
                                                     const char **name)
{
    if (i >= t->nresult)
        return NULL;
    *name = t->result[i]->name;
    return &t->result[i]->a;
}

const stream_format_t *stream_chain_format(stream_chain_t *t, const struct flux_transform_array *a,
                                           errmsg_t *err)
{
    return recast_format(t->recast, a->format, err);
}

bool stream_chain_keeps(const stream_chain_t *t, const char *var)
{
    bool source;

    find(t, t->n, var, &source);
    return source;
}
