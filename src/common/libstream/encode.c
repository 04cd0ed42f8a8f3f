/* encode.c - C structs as bytes.
 *
 * The fixed part is copied as a whole; the data that it points to follow, depth first, and the
 * pointers in the copy are replaced by offsets.  One walk does both jobs: without an output it
 * counts bytes.  Formats without pointers and holes need no walk at all, however many records there
 * are.
 *
 * Invariants:
 *  1. The output stays within the space, even if the struct has changed since it was measured.
 *  2. A struct is followed once: records are trees.  So a walk ends.
 *  3. No byte of the output comes from memory that the program did not fill: holes are zeros, and
 *     no pointer of this process is left in it.
 *
 * Failure: the output is not a record; the error message names the field.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "encode.h"
#include "format_private.h"
#include "libutil/invariant.h"

static const uint8_t magic[4] = {'F', 'S', 'R', 1};

struct walk {
    uint8_t *out; /* the body; NULL: count only */
    size_t space; /* of the body */
    size_t used;
    const uint8_t *root; /* the structs that are encoded, */
    size_t roots;        /* and their bytes */
    hmap_t *seen;        /* structs that pointers pointed to; NULL until there is one */
    errmsg_t *err;
};

#define FIELD_FAIL(x, f, fd, errnum, what, ...) \
    errmsg_fail((x)->err, errnum, "field %s.%s " what, (f)->name, (fd)->name, ##__VA_ARGS__)

static int records(struct walk *x, const stream_format_t *f, const uint8_t *src, size_t at,
                   uint64_t n, unsigned depth);

/* Reserve room at the end for a block: its offset. */
static int reserve(struct walk *x, size_t bytes, size_t align, size_t *at)
{
    size_t begin = (x->used + align - 1) & ~(align - 1);

    if (begin > x->space || bytes > x->space - begin)
        return errmsg_fail(x->err, x->out ? ENOBUFS : E2BIG,
                           x->out ? "the record does not fit into %zu bytes"
                                  : "the record is larger than %zu bytes",
                           x->space);
    if (x->out)
        memset(x->out + x->used, 0, begin - x->used);
    *at = begin;
    x->used = begin + bytes;
    INVARIANT(1, x->used <= x->space);
    return 0;
}

/* Append a block with a copy of these bytes. */
static int append(struct walk *x, const void *src, size_t bytes, size_t align, size_t *at)
{
    if (reserve(x, bytes, align, at) < 0)
        return -1;
    if (x->out)
        memcpy(x->out + *at, src, bytes);
    return 0;
}

static const void *get_pointer(const uint8_t *src)
{
    const void *p;

    memcpy(&p, src, sizeof(p));
    return p;
}

/* Replace a pointer in the output by an offset. */
static void put_offset(struct walk *x, size_t at, size_t offset)
{
    if (x->out)
        memcpy(x->out + at, &(uintptr_t){offset}, sizeof(void *));
}

static int get_size(struct walk *x, const stream_format_t *f, const uint8_t *src, unsigned i,
                    uint64_t *out)
{
    const struct stream_field *fd = &f->fields[f->sizes[i]];

    if (!stream_elem_size_value(fd->type, STREAM_NATIVE, src + fd->offset, out))
        return FIELD_FAIL(x, f, fd, EINVAL, "is the size of an array, and negative");
    return 0;
}

static int count_elements(struct walk *x, const stream_format_t *f, const struct stream_field *fd,
                          const uint64_t *sizes, uint64_t *out)
{
    uint64_t n = fd->count, bytes;

    for (unsigned d = 0; d < fd->ndims; d++)
        if (!fd->dims[d].fixed &&
            __builtin_mul_overflow(n, sizes[stream_format_size_index(f, fd->dims[d].field)], &n))
            return FIELD_FAIL(x, f, fd, E2BIG, "has too many elements");
    if (__builtin_mul_overflow(n, fd->elem, &bytes) || bytes > x->space)
        return FIELD_FAIL(x, f, fd, E2BIG, "has too many elements");
    *out = n;
    return 0;
}

static int string(struct walk *x, const stream_format_t *f, const struct stream_field *fd,
                  const char *s, size_t at)
{
    size_t offset = 0;

    if (!s && !((fd->flags & STREAM_OPTIONAL) && fd->ndims == 0))
        return FIELD_FAIL(x, f, fd, EINVAL, "is or has a string that is NULL");
    if (s && append(x, s, strlen(s) + 1, 1, &offset) < 0)
        return -1;
    put_offset(x, at, offset);
    return 0;
}

/* Record that a pointer to a struct was followed. */
static int see(struct walk *x, const stream_format_t *f, const struct stream_field *fd,
               const void *p)
{
    uint64_t key = (uint64_t)(uintptr_t)p;

    if (!x->seen && !(x->seen = hmap_create_u64(NULL)))
        return errmsg_fail(x->err, ENOMEM, "out of memory for a record");
    if (key - (uint64_t)(uintptr_t)x->root < x->roots || hmap_get_u64(x->seen, key))
        return FIELD_FAIL(x, f, fd, EINVAL,
                          "points to a struct that another pointer points to, "
                          "or that it is in: records are trees");
    if (hmap_put_u64(x->seen, key, x) < 0)
        return errmsg_fail(x->err, ENOMEM, "out of memory for a record");
    return 0;
}

static int link_to(struct walk *x, const stream_format_t *f, const struct stream_field *fd,
                   const void *p, size_t at, unsigned depth)
{
    size_t offset = 0;

    if (p && (see(x, f, fd, p) < 0 || append(x, p, fd->of->size, 8, &offset) < 0))
        return -1;
    put_offset(x, at, offset);
    return p ? records(x, fd->of, p, offset, 1, depth + 1) : 0;
}

/* Encode a field that is not plain bytes. */
static int field(struct walk *x, const stream_format_t *f, const struct stream_field *fd,
                 const uint8_t *src, size_t at, const uint64_t *sizes, unsigned depth)
{
    const uint8_t *elems = src + fd->offset;
    uint64_t n = fd->count;

    at += fd->offset;
    if (fd->slot) {
        size_t block = 0;

        elems = get_pointer(elems);
        if ((elems || !(fd->flags & STREAM_OPTIONAL)) && count_elements(x, f, fd, sizes, &n) < 0)
            return -1;
        if (!elems && n > 0 && !(fd->flags & STREAM_OPTIONAL))
            return FIELD_FAIL(x, f, fd, EINVAL, "is NULL, but has elements");
        if (!elems)
            n = 0;
        if (n > 0 && append(x, elems, n * fd->elem, 8, &block) < 0)
            return -1;
        put_offset(x, at, block);
        at = block;
    }
    if (fd->type == STREAM_RECORD && !fd->pointers)
        return records(x, fd->of, elems, at, n, depth + 1);
    if (!fd->pointers)
        return 0;
    for (uint64_t i = 0; i < n; i++) {
        const void *p = get_pointer(elems + i * fd->elem);
        int rc = fd->type == STREAM_STRING ? string(x, f, fd, p, at + i * fd->elem)
                                           : link_to(x, f, fd, p, at + i * fd->elem, depth);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Encode records whose fixed parts are in the output already. */
static int records(struct walk *x, const stream_format_t *f, const uint8_t *src, size_t at,
                   uint64_t n, unsigned depth)
{
    uint64_t sizes[STREAM_SIZES_MAX];

    if (f->plain || (f->flat && !x->out))
        return 0;
    if (depth == STREAM_VALUE_DEPTH)
        return errmsg_fail(x->err, E2BIG, "records of format %s are more than %d inside each other",
                           f->name, STREAM_VALUE_DEPTH);
    for (uint64_t i = 0; i < n; i++, src += f->size, at += f->size) {
        for (size_t h = 0; x->out && h < f->nholes; h++)
            memset(x->out + at + f->holes[h].offset, 0, f->holes[h].len);
        for (unsigned s = 0; s < f->nsizes; s++)
            if (get_size(x, f, src, s, &sizes[s]) < 0)
                return -1;
        for (size_t k = 0; k < f->nfields; k++) {
            const struct stream_field *fd = &f->fields[k];

            if ((fd->slot || fd->pointers || fd->of) && field(x, f, fd, src, at, sizes, depth) < 0)
                return -1;
        }
    }
    return 0;
}

static int walk(const stream_format_t *f, const void *recs, uint64_t n, uint8_t *out, size_t space,
                size_t *len, errmsg_t *err)
{
    struct walk x = {.out = out, .space = space, .root = recs, .err = err};
    size_t at;
    int rc;

    if (f->pointer != sizeof(void *))
        return errmsg_fail(err, EINVAL,
                           "format %s has pointers of %zu bytes: structs of this host "
                           "have others",
                           f->name, f->pointer);
    if (__builtin_mul_overflow(n, f->size, &x.roots))
        return errmsg_fail(err, E2BIG, "there are too many records of format %s", f->name);
    rc = append(&x, recs, x.roots, 8, &at);
    if (rc == 0)
        rc = records(&x, f, recs, at, n, 0);
    hmap_destroy(x.seen);
    *len = x.used;
    return rc;
}

int stream_encode_size(const stream_format_t *f, const void *rec, size_t *len, errmsg_t *err)
{
    size_t body;

    if (walk(f, rec, 1, NULL, SIZE_MAX / 4, &body, err) < 0)
        return -1;
    *len = STREAM_HEADER + body;
    return 0;
}

int stream_encode(const stream_format_t *f, const void *rec, void *buf, size_t space, size_t *len,
                  errmsg_t *err)
{
    size_t body;

    if (space < STREAM_HEADER)
        return errmsg_fail(err, ENOBUFS, "the record does not fit into %zu bytes", space);
    if (walk(f, rec, 1, (uint8_t *)buf + STREAM_HEADER, space - STREAM_HEADER, &body, err) < 0)
        return -1;
    stream_encode_header(f, buf, body);
    *len = STREAM_HEADER + body;
    return 0;
}

int stream_encode_array_size(const stream_format_t *f, const void *recs, uint64_t n, size_t *len,
                             errmsg_t *err)
{
    return walk(f, recs, n, NULL, SIZE_MAX / 4, len, err);
}

int stream_encode_array(const stream_format_t *f, const void *recs, uint64_t n, void *buf,
                        size_t space, size_t *len, errmsg_t *err)
{
    return walk(f, recs, n, buf, space, len, err);
}

void *stream_encode_header(const stream_format_t *f, void *buf, size_t len)
{
    uint8_t *p = buf;

    memcpy(p, magic, sizeof(magic));
    p[4] = STREAM_NATIVE;
    p[5] = (uint8_t)f->pointer;
    p[6] = p[7] = 0;
    memcpy(p + 8, f->hash, 8);
    memcpy(p + 16, &(uint64_t){len}, 8);
    return p + STREAM_HEADER;
}

int stream_encode_open(const void *data, size_t len, struct stream_header *head, errmsg_t *err)
{
    uint8_t p[STREAM_HEADER]; /* a copy, since the writer may still write */
    uint64_t body;

    if (len < sizeof(p))
        return errmsg_fail(err, EPROTO, "a record of %zu bytes has no header", len);
    memcpy(p, data, sizeof(p));
    if (memcmp(p, magic, sizeof(magic)) != 0 || (p[4] != STREAM_LITTLE && p[4] != STREAM_BIG) ||
        (p[5] != 4 && p[5] != 8) || p[6] || p[7])
        return errmsg_fail(err, EPROTO, "a record of %zu bytes has an invalid header", len);
    head->order = p[4];
    head->pointer = p[5];
    head->id = 0;
    for (int i = 0; i < 8; i++)
        head->id = head->id << 8 | p[8 + i];
    stream_elem_size_value(STREAM_U64, head->order, p + 16, &body);
    if (body != len - sizeof(p))
        return errmsg_fail(err, EPROTO, "the length of a record is wrong: %zu bytes", len);
    head->body = (const uint8_t *)data + sizeof(p);
    head->len = len - sizeof(p);
    return 0;
}
