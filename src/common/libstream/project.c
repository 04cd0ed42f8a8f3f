/* project.c - projections of records.
 *
 * The reader's format of a projection has just the fields of the path, each in a record of its own,
 * so that the conversion of libstream does the work: its structs are the elements, without gaps.
 * In a record that is absent, or null, a number is 0.
 *
 * Failure: the error message names the variable, and the field.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/convert.h"
#include "libstream/project.h"
#include "libstream/recast.h"
#include "libutil/strbuf.h"

/* Find the last field of a path in the records of `f`: NULL with an error message. */
static const struct stream_field *field_at(const stream_format_t *f, const char *path, bool strings,
                                           errmsg_t *err)
{
    for (;;) {
        size_t len = strcspn(path, ".");
        char name[STREAM_NAME_MAX + 1];
        const struct stream_field *fd = NULL;

        if (len <= STREAM_NAME_MAX) {
            memcpy(name, path, len);
            name[len] = '\0';
            fd = stream_format_find(f, name);
        }
        if (!fd) {
            errmsg_fail(err, ENOENT, "records of format %s have no field '%.*s'",
                        stream_format_name(f), (int)len, path);
            return NULL;
        }
        if (!path[len]) {
            if ((fd->type < STREAM_STRING && !fd->variable) ||
                (strings && fd->type == STREAM_STRING && fd->ndims == 0))
                return fd;
            errmsg_fail(err, EINVAL, "field %s.%s is not a number, or some of a fixed shape",
                        stream_format_name(f), fd->name);
            return NULL;
        }
        if (!fd->of || fd->ndims > 0) {
            errmsg_fail(err, EINVAL, "field %s.%s is not a record", stream_format_name(f),
                        fd->name);
            return NULL;
        }
        f = fd->of;
        path += len + 1;
    }
}

/* The format of records that have only this path, the innermost first: NULL with an error
 * message. */
static stream_format_t *format_of(const char *path, const struct stream_field *fd, errmsg_t *err)
{
    strbuf_t *sb = strbuf_create(STREAM_TEXT_MAX);
    const char *end = path + strlen(path);
    stream_format_t *f = NULL;
    unsigned depth = 0;
    char *text;

    while (end > path) {
        const char *begin = end;

        while (begin > path && begin[-1] != '.')
            begin--;
        strbuf_addf(sb, "record p%u\nfield %.*s ", depth, (int)(end - begin), begin);
        if (depth > 0)
            strbuf_addf(sb, "p%u", depth - 1);
        else {
            strbuf_addf(sb, "%s", stream_elem_name(fd->type));
            for (unsigned d = 0; d < fd->ndims; d++)
                strbuf_addf(sb, "[%" PRIu64 "]", fd->dims[d].fixed);
        }
        strbuf_add(sb, "\n");
        depth++;
        end = begin > path ? begin - 1 : path;
    }
    if (!(text = strbuf_take(sb)))
        errmsg_fail(err, ENOMEM, "out of memory for a field of records");
    else
        f = stream_format_sketch(text, err);
    free(text);
    return f;
}

stream_format_t *project_format(const stream_format_t *f, const char *path,
                                const struct stream_field **fd, errmsg_t *err)
{
    *fd = field_at(f, path, true, err);
    return *fd ? format_of(path, *fd, err) : NULL;
}

/* Append the dimensions of a field to those of the variable.  0, or -1. */
static int shape_of(const struct flux_stream_info *in, bool all, const struct stream_field *fd,
                    struct flux_transform_array *out, uint64_t *n, errmsg_t *err)
{
    *n = 1;
    if (in->ndims + fd->ndims > FLUX_TRANSFORM_DIMS)
        return errmsg_fail(err, E2BIG, "field %s has too many dimensions with its variable",
                           fd->name);
    *out = (struct flux_transform_array){.type = stream_elem_name(fd->type),
                                         .ndims = in->ndims + fd->ndims};
    for (unsigned d = 0; d < in->ndims; d++) {
        out->count[d] = all ? in->shape[d] : in->count[d];
        if (__builtin_mul_overflow(*n, out->count[d], n))
            return errmsg_fail(err, E2BIG, "there are too many records for field %s", fd->name);
    }
    for (unsigned d = 0; d < fd->ndims; d++)
        out->count[in->ndims + d] = fd->dims[d].fixed;
    /* The last dimension of a field is the fastest one, those of the array by columns are not. */
    if (in->columns && in->ndims + fd->ndims > 1)
        return errmsg_fail(err, EINVAL, "field %s of records in an array by columns", fd->name);
    return 0;
}

static int get(flux_stream_t *s, const char *var, const char *path, uint32_t rank,
               const struct flux_stream_info *in, struct flux_transform_array *out, void **own,
               errmsg_t *err)
{
    bool all = rank == FLUX_TRANSFORM_ALL;
    const stream_format_t *theirs = flux_stream_format(s, var, err);
    const struct stream_field *fd = theirs ? field_at(theirs, path, false, err) : NULL;
    stream_format_t *f = NULL;
    uint64_t n;
    size_t got;
    int rc = -1;

    if (!fd || shape_of(in, all, fd, out, &n, err) < 0 || !(f = format_of(path, fd, err)))
        return -1;
    if (__builtin_mul_overflow(n, stream_format_size(f), &out->size))
        errmsg_fail(err, E2BIG, "variable '%s' is too large", var);
    else if (!all)
        rc = flux_stream_get_records(s, rank, var, f, &out->data, &got, err);
    else if (!(*own = malloc(out->size + 1)))
        errmsg_fail(err, ENOMEM, "out of memory for the %zu bytes of variable '%s'", out->size,
                    var);
    else {
        out->data = *own;
        rc = flux_stream_get_record_box(s, var, NULL, NULL, NULL, f, *own, out->size, err);
    }
    stream_format_destroy(f);
    return rc;
}

int project_structs(const stream_format_t *f, const char *field,
                    const struct flux_transform_array *recs, struct flux_transform_array *out,
                    void **own, errmsg_t *err)
{
    struct flux_stream_info in = {.ndims = recs->ndims, .columns = recs->columns};
    const struct stream_field *fd = field_at(f, field, false, err);
    stream_format_t *to = NULL;
    stream_convert_t *c = NULL;
    void *encoded = NULL;
    const void *body;
    size_t len;
    uint64_t n;
    int rc = -1;

    *own = NULL;
    memcpy(in.count, recs->count, sizeof(in.count));
    if (!fd || shape_of(&in, false, fd, out, &n, err) < 0 || !(to = format_of(field, fd, err)))
        return -1;
    if (__builtin_mul_overflow(n, stream_format_size(to), &out->size))
        errmsg_fail(err, E2BIG, "there are too many records for field %s", field);
    else if ((c = stream_convert_create(f, STREAM_NATIVE, to, err)) &&
             recast_body(f, recs->data, n, &body, &len, &encoded, err) == 0 &&
             (*own = stream_convert_array(c, n, body, len, SIZE_MAX / 4, 0, err))) {
        out->data = *own;
        rc = 0;
    }
    free(encoded);
    stream_convert_destroy(c);
    stream_format_destroy(to);
    return rc;
}

int project_get(flux_stream_t *s, const char *path, uint32_t rank, struct flux_transform_array *out,
                void **own, errmsg_t *err)
{
    size_t len = strlen(path);

    *own = NULL;
    while (len > 0) { /* names of variables may have dots: the longest one counts */
        struct flux_stream_info in;
        char *var;
        int rc;

        while (len > 0 && path[len - 1] != '.')
            len--;
        if (len < 2 || !path[len])
            break;
        if (!(var = strndup(path, len - 1)))
            return errmsg_fail(err, ENOMEM, "out of memory for a field of records");
        rc = flux_stream_inquire(s, rank, var, &in, err);
        if (rc == 0 && in.format == 0)
            rc = errmsg_fail(err, ENOENT, "variable '%s' does not have records", var);
        else if (rc == 0) {
            rc = get(s, var, path + len, rank, &in, out, own, err);
            free(var);
            return rc;
        }
        free(var);
        if (errno != ENOENT)
            return rc;
        len--;
    }
    return errmsg_fail(err, ENOENT,
                       "there is no variable '%.127s', and no records with such a field", path);
}
