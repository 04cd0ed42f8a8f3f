/* transform.c - run a chain of transforms on steps of streams.
 *
 * Each transform is a shared object with the table of stream_transform.h; Lua is one of them, a
 * module that takes the name of a file as its argument.  The first transform of a chain gets
 * variables of readers, each other one the variables of the preceding transform; the variables of
 * the last one go to a writer.
 *
 * A variable is read only when a transform requests it.  An array that one writer has completely is
 * used in place; pieces of several writers are copied into one array, in memory that is kept until
 * the next step.  Arrays of the result are global arrays, which the only writer has completely.
 *
 * Invariants:
 *  1. The arrays that a transform gets stay in place until the next step, or the end of the chain:
 *     the caller ends the step of `out` before those of the inputs.
 *  2. The result of a transform has each name once.
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
#include "libstream/elem.h"
#include "libstream/stream_transform.h"
#include "libtransform/project.h"
#include "libtransform/tarray.h"
#include "libtransform/transform.h"
#include "libutil/filetrust.h"

#define CHAIN_MAX 16
#define VARS_MAX 4096 /* of a result */

_Static_assert(FLUX_TRANSFORM_DIMS == FLUX_STREAM_DIMS_MAX && TARRAY_DIMS == FLUX_STREAM_DIMS_MAX,
               "one limit");

/* A variable of a result. */
struct made {
    char name[128];
    struct flux_transform_array a; /* its `type` is a name of elem.h */
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
};

/* Memory of an array that was joined from pieces; the data follow, aligned, or are elsewhere. */
struct whole {
    struct whole *next;
    void *own;
    char pad[48];
};

struct transform {
    struct stage stages[CHAIN_MAX];
    unsigned n;
    struct whole *wholes;
};

/* A call of one stage; `st` is the transform's view of it. */
struct call {
    struct flux_transform_step st;
    transform_t *t;
    struct stage *own;
    const struct stage *before; /* NULL: the inputs are streams */
    flux_stream_t *const *in;
    errmsg_t err; /* of get() or put() */
};

/* --- life --- */

static void forget_wholes(transform_t *t)
{
    while (t->wholes) {
        struct whole *w = t->wholes;

        t->wholes = w->next;
        free(w->own);
        free(w);
    }
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
}

void transform_destroy(transform_t *t)
{
    int saved = errno;

    if (!t)
        return;
    for (unsigned i = 0; i < t->n; i++)
        stage_unload(&t->stages[i]);
    forget_wholes(t);
    free(t);
    errno = saved;
}

transform_t *transform_create(errmsg_t *err)
{
    transform_t *t = calloc(1, sizeof(*t));

    if (!t)
        errmsg_fail(err, ENOMEM, "out of memory");
    return t;
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
static int add(transform_t *t, char *file, const char *arg, const char *shown, errmsg_t *err)
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

int transform_add(transform_t *t, const char *spec, errmsg_t *err)
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

int transform_add_lua(transform_t *t, const char *path, errmsg_t *err)
{
    char *file = flux_path_module("transform-lua", err);

    return file ? add(t, file, path, path, err) : -1;
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

static const char *call_name(const struct flux_transform_step *st, unsigned input, size_t i)
{
    const struct call *c = (const struct call *)st;

    if (input >= st->inputs)
        return NULL;
    if (c->before)
        return i < c->before->nmade ? c->before->made[i].name : NULL;
    return flux_stream_var(c->in[input], 0, i);
}

/* Join the pieces of all writers. */
static int whole_get(struct call *c, flux_stream_t *s, const char *var,
                     struct flux_transform_array *out)
{
    struct whole *w = out->size <= SIZE_MAX / 2 ? malloc(sizeof(*w) + out->size) : NULL;

    if (!w)
        return errmsg_fail(&c->err, ENOMEM, "out of memory for the %zu bytes of variable '%s'",
                           out->size, var);
    w->next = c->t->wholes;
    w->own = NULL;
    c->t->wholes = w;
    out->data = w + 1;
    return flux_stream_get_box(s, var, NULL, NULL, NULL, w + 1, out->size, &c->err);
}

/* A field of all records of a variable. */
static int field_get(struct call *c, flux_stream_t *s, const char *var, uint32_t rank,
                     struct flux_transform_array *out)
{
    void *own;
    int rc = project_get(s, var, rank, out, &own, &c->err);
    struct whole *w;

    if (!own)
        return rc;
    if (!(w = malloc(sizeof(*w))))
        rc = errmsg_fail(&c->err, ENOMEM, "out of memory for variable '%s'", var);
    else {
        *w = (struct whole){.next = c->t->wholes, .own = own};
        c->t->wholes = w;
        own = NULL;
    }
    free(own);
    return rc;
}

static int stream_get(struct call *c, flux_stream_t *s, const char *var, uint32_t rank,
                      struct flux_transform_array *out)
{
    bool all = rank == FLUX_TRANSFORM_ALL;
    struct flux_stream_info in;
    struct tarray shape;
    size_t len;

    *out = (struct flux_transform_array){.type = "bytes", .ndims = 1};
    if (all && flux_stream_writers(s) == 1)
        rank = 0;
    if (flux_stream_inquire(s, rank, var, &in, &c->err) < 0) {
        if (errno != ENOENT)
            return -1;
        if (rank == FLUX_TRANSFORM_ALL ||
            flux_stream_get(s, rank, var, &out->data, &out->size, NULL) < 0)
            return strchr(var, '.') ? field_get(c, s, var, rank, out) : -1;
        out->count[0] = out->size; /* it has no description */
        return 0;
    }
    if (in.format > 0)
        return errmsg_fail(&c->err, EINVAL,
                           "variable '%s' has records: get one of their fields, as '%s.FIELD'", var,
                           var);
    if (all && in.global) /* the only writer has the whole array, or there are holes */
        memcpy(in.count, in.shape, sizeof(in.count));
    shape = (struct tarray){.type = stream_elem_by_name(in.type), .ndims = in.ndims};
    memcpy(shape.count, in.count, sizeof(shape.count));
    if (tarray_finish(&shape) < 0)
        return errmsg_fail(&c->err, E2BIG, "variable '%s' is too large", var);
    out->type = in.type;
    out->ndims = in.ndims;
    out->columns = in.columns;
    memcpy(out->count, in.count, sizeof(out->count));
    out->size = tarray_size(&shape);
    if (rank == FLUX_TRANSFORM_ALL)
        return whole_get(c, s, var, out);
    if (flux_stream_get(s, rank, var, &out->data, &len, &c->err) < 0)
        return -1;
    if (len == out->size)
        return 0;
    if (all && in.global)
        return whole_get(c, s, var, out);
    return errmsg_fail(&c->err, EPROTO,
                       "variable '%s' has another number of bytes than its writer says", var);
}

static int call_get(const struct flux_transform_step *st, unsigned input, const char *var,
                    uint32_t rank, struct flux_transform_array *out)
{
    struct call *c = (struct call *)st;
    const struct made *m;

    if (input >= st->inputs)
        return errmsg_fail(&c->err, EINVAL, "there is no input %u of %u", input, st->inputs);
    if (!c->before)
        return stream_get(c, c->in[input], var, rank, out);
    if ((rank != FLUX_TRANSFORM_ALL && rank != 0) || !(m = made_find(c->before, var)))
        return errmsg_fail(&c->err, ENOENT, "%s has made no variable '%.127s'", c->before->shown,
                           var);
    *out = m->a;
    return 0;
}

static int call_put(const struct flux_transform_step *st, const char *var,
                    const struct flux_transform_array *a)
{
    struct call *c = (struct call *)st;
    struct stage *s = c->own;
    enum stream_type type = a->type ? stream_elem_by_name(a->type) : 0;
    struct tarray shape = {.type = type, .ndims = a->ndims};
    struct made *m;

    if (!type || stream_elem_size(type) == 0 || a->ndims > TARRAY_DIMS)
        return errmsg_fail(&c->err, EINVAL,
                           "variable '%.127s': type '%.20s' with %u dimensions is "
                           "not possible",
                           var, a->type ? a->type : "", a->ndims);
    memcpy(shape.count, a->count, a->ndims * sizeof(shape.count[0]));
    if (strlen(var) >= sizeof(m->name) || s->nmade >= VARS_MAX || tarray_finish(&shape) < 0)
        return errmsg_fail(&c->err, E2BIG, "variable '%.127s' is one too many, or too large", var);
    if (made_find(s, var))
        return errmsg_fail(&c->err, EEXIST, "variable '%s' was put before", var);
    if (s->nmade == s->room) {
        size_t room = s->room > 0 ? 2 * s->room : 8;
        struct made *more = realloc(s->made, room * sizeof(*more));

        if (!more)
            return errmsg_fail(&c->err, ENOMEM, "out of memory for variable '%s'", var);
        s->made = more;
        s->room = room;
    }
    m = &s->made[s->nmade++];
    memset(m, 0, sizeof(*m));
    strcpy(m->name, var);
    m->a = *a;
    m->a.type = stream_elem_name(type);
    m->a.size = tarray_size(&shape);
    return 0;
}

static const char *call_why(const struct flux_transform_step *st)
{
    return ((const struct call *)st)->err.text;
}

/* --- a step --- */

static int stage_run(struct call *c, errmsg_t *err)
{
    struct stage *s = c->own;
    char text[sizeof(err->text)] = "";
    bool named; /* the error message begins with the file already */
    int rc;

    s->nmade = 0;
    rc = s->ops->step(s->state, &c->st, text, sizeof(text));
    named = text[0] && strcmp(s->shown, s->file) != 0;
    if (rc < 0)
        return errmsg_fail(err, EINVAL, "%s%s%s", named ? "" : s->shown, named ? "" : ": ",
                           text[0] ? text : c->err.text);
    return rc > 0;
}

static int publish(const struct made *m, flux_stream_t *out, errmsg_t *err)
{
    static const uint64_t none[FLUX_STREAM_DIMS_MAX];
    struct flux_stream_array a = {.type = m->a.type,
                                  .ndims = m->a.ndims,
                                  .shape = m->a.ndims > 0 ? m->a.count : NULL,
                                  .offset = m->a.ndims > 0 ? none : NULL,
                                  .count = m->a.count,
                                  .columns = m->a.columns};

    if (strcmp(m->a.type, "bytes") == 0 && m->a.ndims == 1)
        return flux_stream_put(out, m->name, m->a.data, m->a.size, err);
    return flux_stream_put_array(out, m->name, &a, m->a.data, err);
}

int transform_step(transform_t *t, flux_stream_t *const *in, unsigned ninputs, uint64_t number,
                   flux_stream_t *out, errmsg_t *err)
{
    const struct stage *last = NULL;

    forget_wholes(t);
    for (unsigned i = 0; i < t->n; i++) {
        struct call c = {.st = {.number = number,
                                .inputs = i == 0 ? ninputs : 1,
                                .name = call_name,
                                .get = call_get,
                                .put = call_put,
                                .why = call_why},
                         .t = t,
                         .own = &t->stages[i],
                         .before = last,
                         .in = in};
        int rc = stage_run(&c, err);

        if (rc <= 0)
            return rc;
        last = &t->stages[i];
    }
    for (size_t i = 0; last && i < last->nmade; i++) {
        if (publish(&last->made[i], out, err) < 0)
            return -1;
    }
    return 1;
}
