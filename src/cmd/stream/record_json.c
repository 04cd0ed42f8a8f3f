/* record_json.c - structs as JSON objects, field by field, by the description of their format.
 *
 * The structs come from flux_stream_get_records(), so that pointers and sizes are sound.
 *
 * Failure: NULL, without memory.
 */
#include "config.h"
#include <string.h>

#include "libutil/hex.h"
#include "libutil/strutil.h"
#include "record_json.h"
#include "slice.h"

/* A text of `n` bytes, or up to its NUL: bytes that are not UTF-8 are replaced by '?'. */
static json_t *text(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = strndup(s, len);
    json_t *o = NULL;

    if (copy) {
        for (size_t at = 0; (at += str_utf8_span(copy + at, len - at)) < len;)
            copy[at++] = '?';
        o = json_stringn(copy, len);
    }
    free(copy);
    return o;
}

static json_t *bytes(const void *p, size_t n)
{
    char *digits = malloc(2 * n + 1);
    json_t *o = NULL;

    if (digits) {
        *hex_encode(digits, p, n) = '\0';
        o = json_string(digits);
    }
    free(digits);
    return o;
}

static json_t *element(const struct stream_field *fd, const char *at)
{
    const void *p = at;

    if (fd->pointers) {
        memcpy(&p, at, sizeof(p));
        if (!p)
            return json_null();
    }
    if (fd->type == STREAM_RECORD)
        return record_json(fd->of, p);
    if (fd->type == STREAM_STRING)
        return text(p, SIZE_MAX);
    if (fd->type == STREAM_CHAR)
        return text(p, 1);
    return fd->type == STREAM_BYTES ? bytes(p, 1) : slice_element(stream_elem_name(fd->type), p);
}

/* The elements of dimension `d` and those behind it; `*at` moves behind them. */
static json_t *elements(const struct stream_field *fd, const uint64_t *n, unsigned d,
                        const char **at)
{
    json_t *list;

    if (d == fd->ndims) {
        const char *mine = *at;

        *at += fd->elem;
        return element(fd, mine);
    }
    if (d + 1 == fd->ndims && (fd->type == STREAM_CHAR || fd->type == STREAM_BYTES)) {
        const char *mine = *at;

        *at += n[d];
        return fd->type == STREAM_CHAR ? text(mine, n[d]) : bytes(mine, n[d]);
    }
    list = json_array();
    for (uint64_t i = 0; list && i < n[d]; i++) {
        if (json_array_append_new(list, elements(fd, n, d + 1, at)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *field(const stream_format_t *f, const struct stream_field *fd, const char *rec)
{
    uint64_t n[STREAM_DIMS_MAX];
    const char *at = rec + fd->offset;
    bool empty = false;

    for (unsigned d = 0; d < fd->ndims; d++) {
        const struct stream_field *size;

        n[d] = fd->dims[d].fixed;
        if (n[d] == 0) {
            size = stream_format_field(f, fd->dims[d].field);
            if (!stream_elem_size_value(size->type, STREAM_NATIVE, rec + size->offset, &n[d]))
                n[d] = 0;
        }
        empty |= n[d] == 0;
    }
    if (fd->slot) {
        const void *slot = at;

        memcpy(&at, slot, sizeof(at));
        if (!at && !empty)
            return json_null();
    }
    return at ? elements(fd, n, 0, &at) : json_array();
}

json_t *record_json(const stream_format_t *f, const void *rec)
{
    json_t *o = json_object();

    for (size_t i = 0; o && i < stream_format_count(f); i++) {
        const struct stream_field *fd = stream_format_field(f, i);

        if (json_object_set_new(o, fd->name, field(f, fd, rec)) < 0) {
            json_decref(o);
            o = NULL;
        }
    }
    return o;
}
