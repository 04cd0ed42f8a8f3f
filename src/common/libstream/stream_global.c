/* stream_global.c - arrays of a step: the writers' pieces.  stream_schedule.c gets their elements.
 *
 * Each writer describes its own piece of a variable (array.h), in the bytes that block.h calls the
 * description.  A reader puts the pieces of all writers together into one array, which it keeps for
 * the next steps: this is repeated only when the bytes of a description have changed.
 *
 * Invariants:
 *  1. A piece of the array has the number of its writer as its rank, and each writer has at most
 *     one.
 *  2. At most BLOCK_VARS_MAX arrays are kept.
 *
 * Failure: descriptions that are malformed, that contradict each other, or whose pieces overlap are
 * EPROTO, with the variable and the writers.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/array.h"
#include "libstream/stream_private.h"
#include "libutil/invariant.h"

_Static_assert(FLUX_STREAM_DIMS_MAX == STREAM_NDIMS_MAX, "one limit");

/* --- writing --- */

/* Can records of this format be elements of this array?  Makes the format known.  0, or -1. */
static int check_format(flux_stream_t *s, const char *var, const struct flux_stream_array *array,
                        const void *data, errmsg_t *err)
{
    const stream_format_t *f = array->format;

    if (stream_format_flat(f))
        ;
    else if (array->shape)
        return errmsg_fail(err, EOPNOTSUPP,
                           "variable '%.127s' in step %" PRIu64
                           " of stream '%s': records of format %s have pointers, "
                           "and cannot be elements of a global array",
                           var, s->step, s->name, stream_format_name(f));
    else if (!data)
        return errmsg_fail(err, EINVAL,
                           "variable '%.127s' in step %" PRIu64
                           " of stream '%s': records of format %s have pointers, "
                           "and cannot be made in their place",
                           var, s->step, s->name, stream_format_name(f));
    return stream_records_define(s, f, err);
}

int stream_global_describe(const char *var, const struct flux_stream_array *array, uint8_t *desc,
                           size_t *len, uint64_t *elems, size_t *elem, errmsg_t *err)
{
    struct stream_shape shape = {.name = var,
                                 .kind = array->ndims == 0 ? STREAM_VALUE
                                         : array->shape    ? STREAM_GLOBAL
                                                           : STREAM_LOCAL,
                                 .type = array->format ? STREAM_RECORD
                                         : array->type ? stream_elem_by_name(array->type)
                                                       : 0,
                                 .id = array->format ? stream_format_id(array->format) : 0,
                                 .elem = array->format ? stream_format_size(array->format) : 0,
                                 .order = STREAM_NATIVE,
                                 .memory = array->columns ? STREAM_COLUMNS : STREAM_ROWS,
                                 .ndims = array->ndims};
    stream_array_t *a;
    bool empty = false;
    int rc = -1;

    if (!shape.type || (!array->format && stream_elem_size(shape.type) == 0) ||
        array->ndims > STREAM_NDIMS_MAX)
        return errmsg_fail(err, EINVAL,
                           "variable '%.127s': type '%.20s' with %u dimensions is not possible",
                           var, array->type ? array->type : "", array->ndims);
    for (unsigned i = 0; i < array->ndims; i++) {
        if (shape.kind == STREAM_GLOBAL)
            shape.extents[i] = array->shape[i];
        if (array->count[i] == 0)
            empty = true;
    }
    if (!(a = stream_array_create(&shape, err)))
        return -1;
    if ((empty || stream_array_add(a, 0, shape.kind == STREAM_GLOBAL ? array->offset : NULL,
                                   array->ndims > 0 ? array->count : NULL, err) == 0) &&
        stream_array_seal(a, err) == 0) {
        *len = stream_array_encoded(a);
        INVARIANT(1, *len <= BLOCK_DESC_MAX);
        stream_array_encode(a, desc);
        *elems = empty ? 0 : stream_array_piece(a, 0).elems;
        *elem = stream_array_shape(a)->elem;
        rc = 0;
    }
    stream_array_destroy(a);
    return rc;
}

int flux_stream_put_array(flux_stream_t *s, const char *var, const struct flux_stream_array *array,
                          const void *data, errmsg_t *err)
{
    uint8_t desc[BLOCK_DESC_MAX];
    uint64_t elems;
    errmsg_t why;
    size_t elem;
    size_t len;

    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (array->format && check_format(s, var, array, data, err) < 0)
        return -1;
    if (stream_global_describe(var, array, desc, &len, &elems, &elem, &why) < 0)
        return errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s': %s", s->step, s->name,
                           why.text);
    if (array->format && !stream_format_flat(array->format))
        return stream_writer_put_records(s, var, desc, len, array->format, data, elems, err);
    return stream_writer_put(s, var, desc, len, data, elems * elem, err);
}

/* --- reading --- */

/* An array, and the descriptions from which it was built. */
struct known {
    stream_array_t *array; /* NULL: no writer has this variable */
    uint8_t *made_of;      /* for each writer: length in 4 bytes, description */
    size_t len;
};

static void known_free(void *val)
{
    struct known *k = val;

    stream_array_destroy(k->array);
    free(k->made_of);
    free(k);
}

/* The description of a variable by a writer; its length is 0 if there is none.  -1: the block is
 * not available. */
static int desc_of(flux_stream_t *s, uint32_t writer, const char *var, const struct block_var **v,
                   uint32_t *len, errmsg_t *err)
{
    struct stream_found f;

    if (stream_reader_find(s, writer, var, &f, err) < 0)
        return -1;
    *v = f.var;
    *len = *v ? (*v)->desc_len : 0;
    return 0;
}

/* Are these the descriptions of the writers in this step?  1, 0, or -1. */
static int known_still(flux_stream_t *s, const struct known *k, const char *var, errmsg_t *err)
{
    size_t at = 0;

    for (uint32_t w = 0; w < s->nsources; w++) {
        const struct block_var *v;
        uint32_t len;

        if (desc_of(s, w, var, &v, &len, err) < 0)
            return -1;
        if (k->len - at < sizeof(len) + len || memcmp(k->made_of + at, &len, sizeof(len)) != 0 ||
            (len > 0 && memcmp(k->made_of + at + sizeof(len), v->desc, len) != 0))
            return 0;
        at += sizeof(len) + len;
    }
    return at == k->len;
}

static bool shapes_equal(const struct stream_shape *a, const struct stream_shape *b)
{
    return a->kind == b->kind && a->type == b->type && a->order == b->order &&
           a->memory == b->memory && a->ndims == b->ndims && a->elem == b->elem && a->id == b->id &&
           (a->kind != STREAM_GLOBAL ||
            memcmp(a->extents, b->extents, a->ndims * sizeof(a->extents[0])) == 0);
}

/* Add a writer's piece to the array, which the first writer creates.  0 or -1. */
static int known_add(flux_stream_t *s, struct known *k, uint32_t writer, const char *var,
                     const struct block_var *v, errmsg_t *err)
{
    stream_array_t *own = stream_array_decode(v->desc, v->desc_len, err);
    int rc = -1;

    if (!own)
        return -1;
    if ((stream_array_shape(own)->order != STREAM_NATIVE &&
         stream_array_shape(own)->type != STREAM_RECORD) ||
        stream_array_count(own) > 1)
        errmsg_fail(err, EPROTO,
                    "rank %u of the writers of stream '%s' describes variable '%s' in step %" PRIu64
                    " in a way that is not known",
                    writer, s->name, var, s->step);
    else if (k->array && !shapes_equal(stream_array_shape(own), stream_array_shape(k->array)))
        errmsg_fail(err, EPROTO,
                    "the writers of stream '%s' do not agree about variable '%s' in step %" PRIu64
                    ": rank %u describes another array",
                    s->name, var, s->step, writer);
    else if (k->array || (k->array = stream_array_create(stream_array_shape(own), err))) {
        rc = 0;
        if (stream_array_count(own) == 1) {
            struct stream_piece p = stream_array_piece(own, 0);

            rc = stream_array_add(k->array, writer, p.offset, p.count, err);
        }
    }
    stream_array_destroy(own);
    return rc;
}

static struct known *known_make(flux_stream_t *s, const char *var, errmsg_t *err)
{
    struct known *k = calloc(1, sizeof(*k));

    if (!k)
        goto nomem;
    for (uint32_t w = 0; w < s->nsources; w++) {
        const struct block_var *v;
        uint8_t *more;
        uint32_t len;

        if (desc_of(s, w, var, &v, &len, err) < 0)
            goto fail;
        if (!(more = realloc(k->made_of, k->len + sizeof(len) + len)))
            goto nomem;
        k->made_of = more;
        memcpy(more + k->len, &len, sizeof(len));
        if (len > 0)
            memcpy(more + k->len + sizeof(len), v->desc, len);
        k->len += sizeof(len) + len;
        if (len > 0 && known_add(s, k, w, var, v, err) < 0)
            goto fail;
    }
    if (k->array && stream_array_seal(k->array, err) < 0) {
        if (errno == EINVAL)
            errno = EPROTO;
        goto fail;
    }
    return k;
nomem:
    errmsg_fail(err, ENOMEM, "out of memory for variable '%.127s' of stream '%s'", var, s->name);
fail:
    if (k) {
        int saved = errno;

        known_free(k);
        errno = saved;
    }
    return NULL;
}

stream_array_t *stream_global_array(flux_stream_t *s, const char *var, errmsg_t *err)
{
    struct known *k = s->arrays ? hmap_get(s->arrays, var) : NULL;
    int still = k ? known_still(s, k, var, err) : 0;

    if (still < 0)
        return NULL;
    if (!still) {
        if (!(k = known_make(s, var, err)))
            return NULL;
        if (!k->array) { /* not kept, because the number of names without a variable is unlimited */
            known_free(k);
            errmsg_fail(err, ENOENT,
                        "step %" PRIu64
                        " of stream '%s' has no variable '%.127s' that is described",
                        s->step, s->name, var);
            return NULL;
        }
        if (s->arrays && hmap_count(s->arrays) >= BLOCK_VARS_MAX) {
            hmap_destroy(s->arrays);
            s->arrays = NULL;
        }
        if ((!s->arrays && !(s->arrays = hmap_create_str(known_free))) ||
            hmap_put(s->arrays, var, k) < 0) {
            known_free(k);
            errmsg_fail(err, ENOMEM, "out of memory for variable '%.127s' of stream '%s'", var,
                        s->name);
            return NULL;
        }
    }
    return k->array;
}

/* The number of a writer's piece, or -1. */
static int64_t piece_of(const stream_array_t *a, uint32_t writer)
{
    size_t low = 0;
    size_t high = stream_array_count(a);

    while (low < high) { /* pieces are in the order of their writers */
        size_t mid = (low + high) / 2;
        uint32_t rank = stream_array_piece(a, mid).rank;

        if (rank == writer)
            return (int64_t)mid;
        if (rank < writer)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}

uint64_t stream_global_elems(const stream_array_t *a, uint32_t writer)
{
    int64_t piece = piece_of(a, writer);

    return piece < 0 ? 0 : stream_array_piece(a, (size_t)piece).elems;
}

int flux_stream_inquire(flux_stream_t *s, uint32_t writer, const char *var,
                        struct flux_stream_info *info, errmsg_t *err)
{
    stream_array_t *a = stream_global_array(s, var, err);
    const struct stream_shape *sh;
    int64_t piece = -1;

    if (!a)
        return -1;
    sh = stream_array_shape(a);
    *info = (struct flux_stream_info){.type = stream_elem_name(sh->type),
                                      .elem = sh->elem,
                                      .format = sh->id,
                                      .swapped = sh->order != STREAM_NATIVE,
                                      .global = sh->kind == STREAM_GLOBAL,
                                      .columns = sh->memory == STREAM_COLUMNS,
                                      .ndims = sh->ndims};
    if (writer == FLUX_STREAM_ALL && !info->global)
        return errmsg_fail(err, EINVAL,
                           "variable '%s' in step %" PRIu64
                           " of stream '%s' is not a global array: each writer has its own",
                           var, s->step, s->name);
    if (writer != FLUX_STREAM_ALL && (piece = piece_of(a, writer)) < 0)
        return errmsg_fail(err, ENOENT,
                           "rank %u of the writers of stream '%s' has nothing of variable '%s' in "
                           "step %" PRIu64,
                           writer, s->name, var, s->step);
    for (unsigned i = 0; i < sh->ndims; i++) {
        const struct stream_piece p = piece >= 0 ? stream_array_piece(a, (size_t)piece)
                                                 : (struct stream_piece){.count = sh->extents};

        info->count[i] = p.count[i];
        info->offset[i] = p.offset ? p.offset[i] : 0;
        info->shape[i] = info->global ? sh->extents[i] : p.count[i];
    }
    return 0;
}
