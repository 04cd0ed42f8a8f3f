/* stream_sift.c - transforms of what a writer has put, so that less of it travels.
 *
 * When a writer ends a step, the chain (chain.h) runs, with the variables that the program has put
 * as its only input: the pieces of this writer, since others are elsewhere.  The result takes their
 * place: variables that transforms have put, and of those of the program the ones that are kept.
 * Nothing is copied for this; the values go once, as always, to the memory of the step.
 *
 * A step that a transform drops is only counted, as one that nobody would see.  Of several writers
 * each decides for itself: readers get the steps that all of them have.  A step that nobody would
 * see, and that need not wait, does not run the chain, unless something of it may be pinned.
 *
 * Values that a program writes in their place (flux_stream_place()) have this place in memory of
 * the process when there are transforms, because the place in the memory of the stream is that of
 * the result.
 *
 * Invariants:
 *  1. The chain runs at most once for a step, also when the end of the step is tried again.
 *  2. `own` is not freed before the step is published, or forgotten: values are there.
 *
 * Failure: the chain is detached, and the stream goes on without it, beginning with this step as it
 * was put.  The log of the session has the step, the file and the line.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/log.h"
#include "libstream/encode.h"
#include "libstream/project.h"
#include "libstream/stream_private.h"
#include "libutil/invariant.h"

int stream_sift_describe(const char *var, const struct flux_transform_array *a, bool alone,
                         const stream_format_t *f, uint8_t *desc, size_t *len, errmsg_t *err)
{
    static const uint64_t none[FLUX_STREAM_DIMS_MAX];
    bool whole = !a->piece && alone && a->ndims > 0 && (!f || stream_format_flat(f));
    struct flux_stream_array array = {.type = a->type,
                                      .ndims = a->ndims,
                                      .shape = whole      ? a->count
                                               : a->piece ? a->shape
                                                          : NULL,
                                      .offset = whole      ? none
                                                : a->piece ? a->offset
                                                           : NULL,
                                      .count = a->count,
                                      .columns = a->columns,
                                      .format = f};
    uint64_t elems;
    size_t elem;

    *len = 0;
    if (strcmp(a->type, "bytes") == 0 && a->ndims == 1 && !a->piece)
        return 0; /* it has no description */
    return stream_global_describe(var, &array, desc, len, &elems, &elem, err);
}

/* --- the input of a chain --- */

static const char *put_name(void *arg, size_t i)
{
    const flux_stream_t *s = arg;
    const struct block_var *v = block_at(s->vars, i);

    return v ? v->name : NULL;
}

static bool put_has(void *arg, const char *var)
{
    const flux_stream_t *s = arg;

    return block_find(s->vars, var) != NULL;
}

/* Describe a variable as flux_stream_inquire() does.  1; 0: it has no description; -1. */
static int put_inquire(const struct block_var *v, struct flux_stream_info *in, errmsg_t *err)
{
    const struct stream_shape *sh;
    stream_array_t *a;

    if (v->desc_len == 0)
        return 0;
    if (!(a = stream_array_decode(v->desc, v->desc_len, err)))
        return -1;
    sh = stream_array_shape(a);
    *in = (struct flux_stream_info){.type = stream_elem_name(sh->type),
                                    .elem = sh->elem,
                                    .format = sh->id,
                                    .global = sh->kind == STREAM_GLOBAL,
                                    .columns = sh->memory == STREAM_COLUMNS,
                                    .ndims = sh->ndims};
    for (unsigned i = 0; i < sh->ndims; i++) {
        const struct stream_piece p =
            stream_array_count(a) > 0 ? stream_array_piece(a, 0) : (struct stream_piece){.rank = 0};

        in->count[i] = p.count ? p.count[i] : 0;
        in->offset[i] = p.offset ? p.offset[i] : 0;
        in->shape[i] = in->global ? sh->extents[i] : in->count[i];
    }
    stream_array_destroy(a);
    return 1;
}

/* The records of a variable, as structs. */
static int put_structs(flux_stream_t *s, size_t i, const struct flux_stream_info *in,
                       struct flux_transform_array *out, void **own, errmsg_t *err)
{
    const struct stream_put *p = &s->put[i];
    const struct block_var *v = block_at(s->vars, i);
    const stream_format_t *f = p->format;
    errmsg_t why;
    size_t len;
    int rc;

    *out = (struct flux_transform_array){.type = "record",
                                         .ndims = in->ndims,
                                         .columns = in->columns,
                                         .data = p->data,
                                         .piece = in->global && !s->alone};
    memcpy(out->count, in->count, sizeof(out->count));
    memcpy(out->shape, in->shape, sizeof(out->shape));
    memcpy(out->offset, in->offset, sizeof(out->offset));
    if (f) /* they may be wrong, even endless */
        rc = stream_encode_array_size(f, p->data, p->n, &len, &why);
    else
        rc = stream_records_structs(s, v, p->data, &f, &out->data, own, &why);
    if (rc < 0)
        return errmsg_fail(err, errno, "variable '%s': %s", v->name, why.text);
    out->format = stream_format_text(f);
    out->size = stream_format_size(f);
    for (unsigned d = 0; d < in->ndims; d++)
        out->size *= in->count[d];
    return 0;
}

/* A field of the records of a variable. */
static int put_field(flux_stream_t *s, size_t i, const char *field,
                     const struct flux_stream_info *in, struct flux_transform_array *out,
                     void **own, errmsg_t *err)
{
    struct flux_transform_array recs;
    const stream_format_t *f;
    void *structs = NULL;
    int rc;

    if (put_structs(s, i, in, &recs, &structs, err) < 0)
        return -1;
    f = stream_chain_format(s->chain, &recs, err);
    rc = f ? project_structs(f, field, &recs, out, own, err) : -1;
    free(structs);
    return rc;
}

/* Find a variable of records of which `path` has a field: the longest name counts. */
static const struct block_var *put_records(const flux_stream_t *s, const char *path,
                                           struct flux_stream_info *in, const char **field,
                                           errmsg_t *err)
{
    const struct block_var *v;
    size_t len = strlen(path);
    char name[BLOCK_NAME_MAX + 1];

    while (len > 0 && --len > 0) {
        if (path[len] != '.' || len > BLOCK_NAME_MAX)
            continue;
        memcpy(name, path, len);
        name[len] = '\0';
        if ((v = block_find(s->vars, name)) && put_inquire(v, in, err) == 1 && in->format > 0) {
            *field = path + len + 1;
            return v;
        }
    }
    return NULL;
}

static int put_get(void *arg, const char *var, uint32_t rank, const stream_format_t *want,
                   struct flux_transform_array *out, void **own, errmsg_t *err)
{
    flux_stream_t *s = arg;
    const struct block_var *v = block_find(s->vars, var);
    struct flux_stream_info in;
    const char *field;
    size_t i;
    int rc;

    if (rank != FLUX_TRANSFORM_ALL && rank != s->rank)
        return errmsg_fail(err, ENOENT,
                           "variable '%.127s' of rank %u is not at this writer, of rank %u", var,
                           rank, s->rank);
    if (!v && (v = put_records(s, var, &in, &field, err)))
        return put_field(s, (size_t)(v - block_at(s->vars, 0)), field, &in, out, own, err);
    if (!v)
        return errmsg_fail(err, ENOENT,
                           "step %" PRIu64 " of stream '%s' has no variable '%.127s' of rank %u",
                           s->step, s->name, var, s->rank);
    i = (size_t)(v - block_at(s->vars, 0));
    if ((rc = put_inquire(v, &in, err)) < 0)
        return -1;
    *out = (struct flux_transform_array){
        .type = "bytes", .ndims = 1, .count = {v->len}, .data = s->put[i].data, .size = v->len};
    if (rc == 0)
        return 0;
    if (in.format > 0)
        return put_structs(s, i, &in, out, own, err);
    out->type = in.type;
    out->ndims = in.ndims;
    out->columns = in.columns;
    out->piece = in.global && !s->alone;
    memcpy(out->count, in.count, sizeof(out->count));
    memcpy(out->shape, in.shape, sizeof(out->shape));
    memcpy(out->offset, in.offset, sizeof(out->offset));
    return 0;
}

/* --- the result --- */

/* Add a variable to the new table.  0, or -1 with an error message. */
static int add(block_t *b, struct stream_put **put, size_t *room, const struct block_var *v,
               const struct stream_put *value, errmsg_t *err)
{
    size_t n = block_count(b);

    if (n == *room) {
        size_t want = n > 0 ? 2 * n : 8;
        struct stream_put *more = realloc(*put, want * sizeof(*more));

        if (!more)
            return errmsg_fail(err, ENOMEM, "out of memory for variable '%s'", v->name);
        *put = more;
        *room = want;
    }
    if (block_add(b, v->name, v->desc, v->desc_len, v->len) < 0)
        return errmsg_fail(err, errno, "variable '%s': %s", v->name, strerror(errno));
    (*put)[n] = *value;
    return 0;
}

/* The stream's own format of records that were put, which readers may ask for.  NULL with an error
 * message. */
static const stream_format_t *put_known(flux_stream_t *s, const struct flux_transform_array *a,
                                        errmsg_t *err)
{
    const stream_format_t *f = stream_chain_format(s->chain, a, err);

    if (!f || stream_records_define(s, f, err) < 0)
        return NULL;
    return stream_records_format(s, stream_format_id(f), err);
}

/* Collect what the transforms have put, and what they keep.  0, or -1. */
static int collect(flux_stream_t *s, block_t *b, struct stream_put **put, size_t *room,
                   errmsg_t *err)
{
    const struct flux_transform_array *a;
    const struct block_var *v;
    uint8_t desc[BLOCK_DESC_MAX];
    const char *name;
    size_t len;

    for (size_t i = 0; (v = block_at(s->vars, i)); i++) {
        if (stream_chain_keeps(s->chain, v->name) && add(b, put, room, v, &s->put[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; (a = stream_chain_made(s->chain, i, &name)); i++) {
        struct block_var made = {.name = (char *)name, .desc = desc, .len = a->size};
        struct stream_put value = {.data = a->data};
        const stream_format_t *f = NULL;

        if (a->format && !(f = put_known(s, a, err)))
            return -1;
        if (stream_sift_describe(name, a, s->alone, f, desc, &len, err) < 0)
            return -1;
        if (f && !stream_format_flat(f)) { /* encoded when the step has its place */
            value.format = f;
            value.n = made.len / stream_format_size(f);
            made.len = 0;
        }
        made.desc_len = (uint32_t)len;
        if (add(b, put, room, &made, &value, err) < 0)
            return -1;
    }
    return 0;
}

/* Let the result take the place of what was put.  1, or -1. */
static int replace(flux_stream_t *s, errmsg_t *err)
{
    block_t *b = block_create();
    struct stream_put *put = NULL;
    size_t room = 0;

    if (!b)
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (collect(s, b, &put, &room, err) < 0) {
        block_destroy(b);
        free(put);
        return -1;
    }
    block_destroy(s->vars);
    free(s->put);
    s->vars = b;
    s->put = put;
    s->room = room;
    return 1;
}

/* The stream goes on without its transforms. */
static void detach(flux_stream_t *s, const char *why)
{
    s->faults++;
    errmsg_set(&s->fault, "step %" PRIu64 " of stream '%s': %s", s->step, s->name, why);
    flux_log(s->h, LOG_ERR, "%s: writer %u goes on without its transforms", s->fault.text, s->rank);
    stream_chain_destroy(s->chain);
    s->chain = NULL;
}

bool stream_sift(flux_stream_t *s)
{
    static const struct stream_chain_ops ops = {put_name, put_has, put_get};
    const struct stream_chain_input in = {&ops, s};
    errmsg_t why;
    int rc;

    INVARIANT(1, !s->sifted);
    stream_sift_unplace(s);
    if (!s->chain || s->placed)
        return true;
    rc = stream_chain_run(s->chain, &in, 1, s->step, &why);
    if (rc > 0)
        rc = replace(s, &why);
    if (rc < 0)
        detach(s, why.text);
    return rc != 0;
}

int stream_sift_place(flux_stream_t *s, errmsg_t *err)
{
    if (!(s->own = aligned_alloc(64, (block_size(s->vars) + 63) / 64 * 64)))
        return errmsg_fail(err, ENOMEM, "out of memory for step %" PRIu64 " of stream '%s'",
                           s->step, s->name);
    s->placed = s->own;
    return 0;
}

void stream_sift_unplace(flux_stream_t *s)
{
    const struct block_var *v;

    if (!s->own || s->placed != s->own)
        return;
    for (size_t i = 0; (v = block_at(s->vars, i)); i++) {
        if (!s->put[i].format) /* else it is encoded once more, from where it was put */
            s->put[i].data = s->own + v->off;
    }
    block_unwrite(s->vars);
    s->placed = NULL;
    s->reserved = 0;
}
