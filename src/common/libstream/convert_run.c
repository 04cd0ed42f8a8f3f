/* convert_run.c - checks bodies of records, and converts them.
 *
 * One walk over the body does both jobs, in the order of its blocks; without an output it checks
 * and counts.  Records inside records are walked by recursion.
 *
 * The body may be in memory that another process writes to.  Therefore each offset is compared with
 * the expected place of the block, and then the expected place is used; each size is read once,
 * into a variable that is used and written to the result; strings are terminated after they were
 * copied.  The count of the first walk bounds the second walk.
 *
 * Invariants:
 *  1. `next` only grows, and is at most `len`: a walk reads each block once, so it ends, and a
 *     pointer cannot lead back.
 *  2. `used` is at most `space`: no walk writes beyond the result.
 *  3. A pointer of the result leads into the result, with STREAM_BORROW for numbers into the body,
 *     or is NULL.
 *
 * Failure: EPROTO; the error message names the field.  The result is then undefined.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "convert_private.h"
#include "libutil/invariant.h"

struct run {
    const stream_convert_t *c;
    const uint8_t *body;
    size_t len;
    size_t next;  /* the expected place of the next block, before its alignment */
    uint8_t *out; /* NULL: check only */
    size_t space;
    size_t used;
    bool borrow;
    errmsg_t *err;
};

#define COLUMN 64 /* number of records whose field is converted at once */

#define BAD(x, f, fd, what, ...) \
    errmsg_fail((x)->err, EPROTO, "field %s.%s " what, (f)->name, (fd)->name, ##__VA_ARGS__)

static int records(struct run *x, const struct convert_record *r, const uint8_t *src, uint8_t *dst,
                   uint64_t n, unsigned depth);

/* --- the result --- */

/* Allocate memory for an element or a block: *at, NULL if there is no output. */
static int result(struct run *x, uint64_t bytes, size_t align, uint8_t **at)
{
    size_t begin = (x->used + align - 1) & ~(align - 1);

    if (begin > x->space || bytes > x->space - begin)
        return errmsg_fail(x->err, EMSGSIZE, "the record needs more than %zu bytes here", x->space);
    *at = x->out ? x->out + begin : NULL;
    x->used = begin + bytes;
    INVARIANT(2, x->used <= x->space);
    return 0;
}

static void put_pointer(uint8_t *dst, const void *p)
{
    if (dst)
        memcpy(dst, &p, sizeof(p));
}

static int put_string(struct run *x, uint8_t *dst, const void *s, size_t len)
{
    uint8_t *at = NULL;

    if (result(x, len + 1, 1, &at) < 0)
        return -1;
    if (at) {
        memcpy(at, s, len);
        at[len] = '\0';
    }
    put_pointer(dst, at);
    return 0;
}

/* Fill a field of the record `dst`. */
static int fill(struct run *x, const struct convert_fill *fl, uint8_t *dst, unsigned depth)
{
    uint8_t *at = dst ? dst + fl->to->offset : NULL;

    if (fl->record)
        return records(x, fl->record, NULL, at, fl->to->count, depth + 1);
    if (!fl->string) {
        if (at)
            memcpy(at, fl->value, fl->to->elem);
        return 0;
    }
    for (uint64_t i = 0; i < fl->to->count; i++)
        if (put_string(x, at ? at + i * sizeof(char *) : NULL, fl->string, strlen(fl->string)) < 0)
            return -1;
    return 0;
}

/* --- the body --- */

static uint64_t get_offset(const struct run *x, const stream_format_t *f, const uint8_t *src)
{
    uint64_t v;

    stream_elem_size_value(f->pointer == 4 ? STREAM_U32 : STREAM_U64, x->c->order, src, &v);
    return v;
}

/* The block at `offset`, which must be the next one. */
static int block(struct run *x, const stream_format_t *f, const struct stream_field *fd,
                 uint64_t offset, uint64_t bytes, size_t align, const uint8_t **at)
{
    size_t begin = (x->next + align - 1) & ~(align - 1);

    if (offset != begin)
        return BAD(x, f, fd, "is said to be at %llu in the record: expected %zu",
                   (unsigned long long)offset, begin);
    if (begin > x->len || bytes > x->len - begin)
        return BAD(x, f, fd, "ends beyond the %zu bytes of the record", x->len);
    for (size_t i = x->next; i < begin; i++)
        if (x->body[i] != 0)
            return BAD(x, f, fd, "follows bytes that are not 0");
    *at = x->body + begin;
    x->next = begin + bytes;
    INVARIANT(1, x->next <= x->len);
    return 0;
}

static int string(struct run *x, const struct convert_record *r, const struct convert_part *p,
                  const uint8_t *src, uint8_t *rec, uint8_t *dst, unsigned depth)
{
    uint64_t offset = get_offset(x, r->from, src);
    const uint8_t *s = NULL, *end;

    if (offset == 0) {
        if (!(p->from->flags & STREAM_OPTIONAL) || p->from->ndims > 0)
            return BAD(x, r->from, p->from, "is or has a string that is null");
        return p->absent.to ? fill(x, &p->absent, rec, depth) : 0;
    }
    if (block(x, r->from, p->from, offset, 0, 1, &s) < 0)
        return -1;
    if (!(end = memchr(s, '\0', x->len - x->next)))
        return BAD(x, r->from, p->from, "is or has a string without an end");
    x->next += (size_t)(end - s) + 1;
    return p->to ? put_string(x, dst, s, (size_t)(end - s)) : 0;
}

/* Convert element number `i` of records, if the writer or the reader has pointers to them. */
static int linked(struct run *x, const struct convert_record *r, const struct convert_part *p,
                  const uint8_t *src, uint8_t *dst, unsigned depth)
{
    if (p->from->pointers) {
        uint64_t offset = get_offset(x, r->from, src);

        src = NULL;
        if (offset && block(x, r->from, p->from, offset, p->from->of->size, 8, &src) < 0)
            return -1;
    }
    if (!p->to)
        return src ? records(x, p->record, src, NULL, 1, depth + 1) : 0;
    if (p->to->pointers && src) {
        uint8_t *at = NULL;

        if (result(x, p->to->of->size, 8, &at) < 0)
            return -1;
        put_pointer(dst, at);
        dst = at;
    } else if (p->to->pointers) {
        return 0; /* NULL: the memory is zeros */
    }
    return records(x, src ? p->record : p->absent.record, src, dst, 1, depth + 1);
}

/* --- fields --- */

/* The number of elements; if the sizes are too large, a number that does not fit into any body. */
static uint64_t count_elements(const struct convert_record *r, const struct stream_field *fd,
                               const uint64_t *sizes)
{
    uint64_t n = fd->count;

    for (unsigned d = 0; d < fd->ndims; d++)
        if (!fd->dims[d].fixed &&
            __builtin_mul_overflow(n, sizes[stream_format_size_index(r->from, fd->dims[d].field)],
                                   &n))
            n = UINT64_MAX;
    return n;
}

/* Find the elements of a field: *src, NULL if the field is absent or has none. */
static int find_elements(struct run *x, const struct convert_record *r,
                         const struct convert_part *p, const uint8_t *rec, uint64_t n,
                         const uint8_t **src)
{
    const struct stream_field *fd = p->from;
    uint64_t offset;

    *src = rec + fd->offset;
    if (!fd->slot)
        return 0;
    offset = get_offset(x, r->from, *src);
    *src = NULL;
    if (offset == 0) {
        if (n > 0 && !(fd->flags & STREAM_OPTIONAL))
            return BAD(x, r->from, fd, "is null, but has elements");
        return 0;
    }
    if (n == 0)
        return BAD(x, r->from, fd, "is not null, but has no elements");
    if (n > x->len / fd->elem)
        return BAD(x, r->from, fd, "has more elements than the %zu bytes of the record", x->len);
    return block(x, r->from, fd, offset, n * fd->elem, 8, src);
}

/* Convert a field that is not just elements in place. */
static int part(struct run *x, const struct convert_record *r, const struct convert_part *p,
                const uint8_t *rec, uint8_t *out, const uint64_t *sizes, unsigned depth)
{
    const struct stream_field *from = p->from, *to = p->to;
    const uint8_t *src = NULL;
    uint8_t *dst = out && to ? out + to->offset : NULL;
    uint64_t n = count_elements(r, from, sizes);

    if (find_elements(x, r, p, rec, n, &src) < 0)
        return -1;
    if (!src)
        return p->absent.to ? fill(x, &p->absent, out, depth) : 0;
    if (to && to->slot) {
        uint8_t *at = NULL;

        if (x->borrow && p->copies && from->slot) {
            put_pointer(dst, src);
            return 0;
        }
        if (result(x, n * to->elem, 8, &at) < 0)
            return -1;
        put_pointer(dst, at);
        dst = at;
        if (at && to->pointers)
            memset(at, 0, n * to->elem);
    }
    if (from->type < STREAM_STRING) {
        bool checked = from->type == STREAM_BOOL;

        if (!to || (!dst && !checked))
            return 0;
        if (dst ? !p->convert(dst, src, n) : !stream_elem_truth(src, n))
            return BAD(x, r->from, from, "has a truth value that is neither 0 nor 1");
        return 0;
    }
    if (from->type == STREAM_RECORD && !from->pointers && !(to && to->pointers))
        return records(x, p->record, src, dst, n, depth + 1);
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *s = src + i * from->elem;
        uint8_t *d = dst ? dst + i * to->elem : NULL;
        int rc = from->type == STREAM_STRING ? string(x, r, p, s, out, d, depth)
                                             : linked(x, r, p, s, d, depth);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* --- records --- */

/* Copy elements in place, or convert them by loops. */
static int in_place(struct run *x, const struct convert_record *r, const uint8_t *src, uint8_t *dst)
{
    for (size_t i = 0; dst && i < r->nmoves; i++)
        memcpy(dst + r->moves[i].to, src + r->moves[i].from, r->moves[i].len);
    for (size_t i = 0; i < r->nloops; i++) {
        const struct convert_loop *l = &r->loops[i];
        const uint8_t *s = src + l->from->offset;
        bool ok = true;

        if (dst)
            ok = l->convert(dst + l->to, s, l->from->count);
        else if (l->from->type == STREAM_BOOL)
            ok = stream_elem_truth(s, l->from->count);
        if (!ok)
            return BAD(x, r->from, l->from, "has a truth value that is neither 0 nor 1");
    }
    return 0;
}

static int record(struct run *x, const struct convert_record *r, const uint8_t *src, uint8_t *dst,
                  unsigned depth)
{
    uint64_t sizes[STREAM_SIZES_MAX];

    if (dst && !r->full)
        memset(dst, 0, r->to->size);
    if (src && in_place(x, r, src, dst) < 0)
        return -1;
    for (unsigned s = 0; src && s < r->from->nsizes; s++) {
        const struct convert_size *size = &r->sizes[s];

        if (!stream_elem_size_value(size->from->type, x->c->order, src + size->from->offset,
                                    &sizes[s]))
            return BAD(x, r->from, size->from, "is the size of an array, and negative");
        if (dst && size->to && stream_elem_integer(size->to->type) && !size->to->slot)
            stream_elem_size_put(size->to->type, dst + size->to->offset, sizes[s]);
    }
    for (size_t i = 0; i < r->nparts; i++)
        if (part(x, r, &r->parts[i], src, dst, sizes, depth) < 0)
            return -1;
    for (size_t i = 0; i < r->nfills; i++)
        if (fill(x, &r->fills[i], dst, depth) < 0)
            return -1;
    return 0;
}

/* Convert one field of several records: collect its elements, convert them, and distribute the
 * results. */
static bool convert_column(const struct convert_loop *l, size_t from_size, size_t to_size,
                           const uint8_t *src, uint8_t *dst, uint64_t n)
{
    uint8_t in[16 * COLUMN], out[16 * COLUMN];
    size_t elem = l->from->elem;
    bool ok;

    stream_elem_line(elem, from_size, elem)(in, src + l->from->offset, n, elem, from_size, elem);
    ok = l->convert(out, in, n);
    stream_elem_line(to_size, l->bytes, l->bytes)(dst + l->to, out, n, to_size, l->bytes, l->bytes);
    return ok;
}

/* Convert records whose fields are all in place on both sides: field by field, a few records at a
 * time. */
static int flat_records(struct run *x, const struct convert_record *r, const uint8_t *src,
                        uint8_t *dst, uint64_t n)
{
    size_t from = r->from->size, to = r->to->size;

    for (uint64_t m; n > 0; n -= m, src += m * from, dst += m * to) {
        m = n < COLUMN ? n : COLUMN;
        if (!r->full)
            memset(dst, 0, m * to);
        for (size_t i = 0; i < r->nmoves; i++) {
            const struct convert_move *v = &r->moves[i];

            stream_elem_line(to, from, v->len)(dst + v->to, src + v->from, m, to, from, v->len);
        }
        for (size_t i = 0; i < r->nloops; i++) {
            const struct convert_loop *l = &r->loops[i];
            bool ok = true;

            if (l->from->count == 1)
                ok = convert_column(l, from, to, src, dst, m);
            for (uint64_t k = 0; l->from->count > 1 && k < m; k++)
                ok &= l->convert(dst + k * to + l->to, src + k * from + l->from->offset,
                                 l->from->count);
            if (!ok)
                return BAD(x, r->from, l->from, "has a truth value that is neither 0 nor 1");
        }
    }
    return 0;
}

/* Convert records.  `src` NULL: the writer does not have them. */
static int records(struct run *x, const struct convert_record *r, const uint8_t *src, uint8_t *dst,
                   uint64_t n, unsigned depth)
{
    if (r->same && dst)
        memcpy(dst, src, n * r->to->size);
    if (r->same || (r->quiet && !dst))
        return 0;
    if (depth == STREAM_VALUE_DEPTH)
        return errmsg_fail(x->err, E2BIG, "records are more than %d inside each other",
                           STREAM_VALUE_DEPTH);
    if (dst && n > 1 && src && r->flat)
        return flat_records(x, r, src, dst, n);
    for (uint64_t i = 0; i < n; i++)
        if (record(x, r, src ? src + i * r->from->size : NULL, dst ? dst + i * r->to->size : NULL,
                   depth) < 0)
            return -1;
    return 0;
}

/* --- the whole --- */

/* Convert `n` records, whose fixed parts are the beginning of the body. */
static int walk(const stream_convert_t *c, uint64_t n, const void *body, size_t len, void *out,
                size_t space, unsigned flags, size_t *used, errmsg_t *err)
{
    struct run x = {.c = c,
                    .body = body,
                    .len = len,
                    .next = n * c->from->size,
                    .out = out,
                    .space = space,
                    .borrow = flags & STREAM_BORROW,
                    .err = err};
    uint8_t *at = NULL;

    if (n > len / c->from->size)
        return errmsg_fail(err, EPROTO,
                           "%llu records of format %s have %zu bytes: expected %zu for each",
                           (unsigned long long)n, c->from->name, len, c->from->size);
    if (n > SIZE_MAX / 4 / c->to->size)
        return errmsg_fail(err, E2BIG, "there are too many records of format %s", c->to->name);
    if (result(&x, n * c->to->size, 8, &at) < 0 || records(&x, c->top, body, at, n, 0) < 0)
        return -1;
    if (x.next != len)
        return errmsg_fail(err, EPROTO, "%llu records of format %s have %zu bytes: expected %zu",
                           (unsigned long long)n, c->from->name, len, x.next);
    *used = x.used;
    return 0;
}

int stream_convert_check(const stream_convert_t *c, const void *body, size_t len, size_t *need,
                         errmsg_t *err)
{
    return stream_convert_array_check(c, 1, body, len, need, err);
}

int stream_convert_array_check(const stream_convert_t *c, uint64_t n, const void *body, size_t len,
                               size_t *need, errmsg_t *err)
{
    return walk(c, n, body, len, NULL, SIZE_MAX / 4, 0, need, err);
}

int stream_convert_into(const stream_convert_t *c, const void *body, size_t len, void *out,
                        size_t space, unsigned flags, errmsg_t *err)
{
    return stream_convert_array_into(c, 1, body, len, out, space, flags, err);
}

int stream_convert_array_into(const stream_convert_t *c, uint64_t n, const void *body, size_t len,
                              void *out, size_t space, unsigned flags, errmsg_t *err)
{
    size_t used;

    return walk(c, n, body, len, out, space, flags, &used, err);
}

void *stream_convert(const stream_convert_t *c, const void *body, size_t len, size_t budget,
                     unsigned flags, errmsg_t *err)
{
    return stream_convert_array(c, 1, body, len, budget, flags, err);
}

void *stream_convert_array(const stream_convert_t *c, uint64_t n, const void *body, size_t len,
                           size_t budget, unsigned flags, errmsg_t *err)
{
    size_t need;
    void *out;

    if (walk(c, n, body, len, NULL, budget, flags, &need, err) < 0)
        return NULL;
    if (!(out = malloc(need > 0 ? need : 1))) {
        errmsg_fail(err, ENOMEM, "out of memory for records of %zu bytes", need);
        return NULL;
    }
    if (stream_convert_array_into(c, n, body, len, out, need, flags, err) < 0) {
        int saved_errno = errno;

        free(out);
        errno = saved_errno;
        return NULL;
    }
    return out;
}
