/* select.c - boxes of global arrays: checks, and the parts that they consist of.
 *
 * In each dimension, the elements of a box that are in a piece form one arithmetic sequence; a part
 * is the product of these sequences.
 *
 * Invariants:
 *  1. The parts of a selection have no element of the box in common, since pieces do not overlap.
 *  2. A part reads only inside its piece, and writes only inside the box.
 *
 * Failure: nothing is left.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/invariant.h"
#include "libutil/le.h"
#include "select.h"

#define BYTES_MAX ((uint64_t)1 << 62)

struct stream_select {
    struct stream_part *parts;
    size_t n, space;
    uint64_t elems;
    uint64_t present;
};

/* --- boxes --- */

int stream_select_check(const struct stream_shape *shape, const struct stream_box *box,
                        errmsg_t *err)
{
    uint64_t bytes = 16; /* the size of the largest number, and of larger records */

    if (shape->elem > bytes)
        bytes = shape->elem;
    if (shape->kind != STREAM_GLOBAL || box->ndims != shape->ndims)
        return errmsg_fail(err, EINVAL, "variable '%.64s' is not a global array of %u dimensions",
                           shape->name, box->ndims);
    for (unsigned d = 0; d < box->ndims; d++) {
        uint64_t start = box->start[d], count = box->count[d], last;

        if (box->stride[d] == 0)
            return errmsg_fail(err, EINVAL,
                               "a box of variable '%.64s' has the stride 0 in "
                               "dimension %u",
                               shape->name, d);
        if (count > 0 && (__builtin_mul_overflow(count - 1, box->stride[d], &last) ||
                          __builtin_add_overflow(last, start, &last) || last >= shape->extents[d]))
            return errmsg_fail(err, ERANGE,
                               "a box of variable '%.64s' ends outside the array in dimension %u, "
                               "which has %llu elements",
                               shape->name, d, (unsigned long long)shape->extents[d]);
        if (count > 0 && (__builtin_mul_overflow(bytes, count, &bytes) || bytes > BYTES_MAX))
            return errmsg_fail(err, E2BIG, "a box of variable '%.64s' is too large", shape->name);
    }
    return 0;
}

void stream_select_encode(const struct stream_box *box, uint8_t *buf)
{
    for (unsigned d = 0; d < box->ndims; d++, buf += 24) {
        le_put64(buf, box->start[d]);
        le_put64(buf + 8, box->count[d]);
        le_put64(buf + 16, box->stride[d]);
    }
}

int stream_select_decode(const struct stream_shape *shape, const void *data, size_t len,
                         struct stream_box *box, errmsg_t *err)
{
    const uint8_t *p = data;

    if (len != 24 * (size_t)shape->ndims)
        return errmsg_fail(err, EPROTO, "%zu bytes are not a box of variable '%.64s'", len,
                           shape->name);
    box->ndims = shape->ndims;
    for (unsigned d = 0; d < box->ndims; d++, p += 24) {
        box->start[d] = le_get64(p);
        box->count[d] = le_get64(p + 8);
        box->stride[d] = le_get64(p + 16);
    }
    if (stream_select_check(shape, box, err) < 0) {
        errno = EPROTO;
        return -1;
    }
    return 0;
}

/* --- parts --- */

/* The elements start, start + stride, ... (`count` of them) that are in a piece, which begins at
 * `offset`: the index of the first one, and their number. */
static uint64_t meet(uint64_t start, uint64_t count, uint64_t stride, uint64_t offset,
                     uint64_t piece, uint64_t *first)
{
    uint64_t end = offset + piece, last;

    *first = offset > start ? (offset - start - 1) / stride + 1 : 0;
    if (start >= end || *first >= count)
        return 0;
    last = (end - 1 - start) / stride;
    if (last >= count)
        last = count - 1;
    return last < *first ? 0 : last - *first + 1;
}

/* The distance in bytes between neighbors in each dimension of a box without gaps. */
static void steps(enum stream_memory memory, unsigned ndims, const uint64_t *count, size_t elem,
                  size_t *out)
{
    size_t step = elem;

    for (unsigned i = 0; i < ndims; i++) {
        unsigned d = memory == STREAM_ROWS ? ndims - 1 - i : i;

        out[d] = step;
        step *= count[d];
    }
}

/* Add a loop inside the others, or merge it with the innermost one. */
static void add_loop(struct stream_part *p, uint64_t n, size_t from, size_t to)
{
    unsigned last = p->ndims - 1;

    if (n == 1)
        return;
    if (p->ndims > 0 && p->dims[last].from == n * from && p->dims[last].to == n * to) {
        p->dims[last].n *= n;
        p->dims[last].from = from;
        p->dims[last].to = to;
        return;
    }
    p->dims[p->ndims].n = n;
    p->dims[p->ndims].from = from;
    p->dims[p->ndims++].to = to;
}

bool stream_select_piece(const stream_array_t *a, size_t piece, const struct stream_box *box,
                         const struct stream_want *want, struct stream_part *part)
{
    const struct stream_shape *s = stream_array_shape(a);
    struct stream_piece pc = stream_array_piece(a, piece);
    enum stream_memory to_memory = want->memory ? want->memory : s->memory;
    uint64_t n[STREAM_NDIMS_MAX];
    size_t from_step[STREAM_NDIMS_MAX], to_step[STREAM_NDIMS_MAX];

    part->piece = piece;
    part->rank = pc.rank;
    part->elems = 1;
    part->from_elem = s->elem;
    part->to_elem = want->elem ? want->elem : s->elem;
    part->from = part->to = 0;
    part->ndims = 0;
    steps(s->memory, s->ndims, pc.count, part->from_elem, from_step);
    steps(to_memory, s->ndims, box->count, part->to_elem, to_step);
    for (unsigned d = 0; d < s->ndims; d++) {
        uint64_t first;

        n[d] =
            meet(box->start[d], box->count[d], box->stride[d], pc.offset[d], pc.count[d], &first);
        if (n[d] == 0)
            return false;
        INVARIANT(2, first + n[d] <= box->count[d]);
        part->elems *= n[d];
        part->from += (box->start[d] + first * box->stride[d] - pc.offset[d]) * from_step[d];
        part->to += first * to_step[d];
    }
    for (unsigned i = 0; i < s->ndims; i++) {
        unsigned d = s->memory == STREAM_ROWS ? i : s->ndims - 1 - i;

        add_loop(part, n[d], box->stride[d] * from_step[d], to_step[d]);
    }
    if (part->ndims == 0) { /* one element */
        part->dims[0].n = 1;
        part->dims[0].from = part->from_elem;
        part->dims[0].to = part->to_elem;
        part->ndims = 1;
    }
    return true;
}

/* --- selections --- */

struct collect {
    stream_select_t *sel;
    const stream_array_t *a;
    const struct stream_box *box;
    const struct stream_want *want;
};

static int collect(size_t piece, void *arg)
{
    struct collect *c = arg;
    stream_select_t *sel = c->sel;

    if (sel->n == sel->space) {
        size_t space = sel->space ? 2 * sel->space : 4;
        struct stream_part *parts = realloc(sel->parts, space * sizeof(*parts));

        if (!parts)
            return -1;
        sel->parts = parts;
        sel->space = space;
    }
    if (stream_select_piece(c->a, piece, c->box, c->want, &sel->parts[sel->n]))
        sel->present += sel->parts[sel->n++].elems;
    return 0;
}

static int by_piece(const void *x, const void *y)
{
    const struct stream_part *p = x, *q = y;

    return (p->piece > q->piece) - (p->piece < q->piece);
}

stream_select_t *stream_select_create(const stream_array_t *a, const struct stream_box *box,
                                      const struct stream_want *want, errmsg_t *err)
{
    const struct stream_shape *s = stream_array_shape(a);
    struct collect c = {NULL, a, box, want};
    uint64_t high[STREAM_NDIMS_MAX];

    if (stream_select_check(s, box, err) < 0)
        return NULL;
    if (!(c.sel = calloc(1, sizeof(*c.sel)))) {
        errmsg_fail(err, ENOMEM, "out of memory for a box of variable '%.64s'", s->name);
        return NULL;
    }
    c.sel->elems = 1;
    for (unsigned d = 0; d < box->ndims; d++) {
        c.sel->elems *= box->count[d];
        high[d] = box->start[d] + (box->count[d] > 0 ? (box->count[d] - 1) * box->stride[d] : 0);
    }
    if (want->elem > 0 && c.sel->elems > BYTES_MAX / want->elem) {
        errmsg_fail(err, E2BIG, "a box of variable '%.64s' is too large", s->name);
        stream_select_destroy(c.sel);
        return NULL;
    }
    if (c.sel->elems > 0 && stream_array_visit(a, box->start, high, collect, &c) < 0) {
        errmsg_fail(err, ENOMEM, "out of memory for a box of variable '%.64s'", s->name);
        stream_select_destroy(c.sel);
        return NULL;
    }
    INVARIANT(1, c.sel->present <= c.sel->elems);
    if (c.sel->n > 0)
        qsort(c.sel->parts, c.sel->n, sizeof(*c.sel->parts), by_piece);
    return c.sel;
}

void stream_select_destroy(stream_select_t *sel)
{
    int saved_errno = errno;

    if (!sel)
        return;
    free(sel->parts);
    free(sel);
    errno = saved_errno;
}

size_t stream_select_count(const stream_select_t *sel)
{
    return sel->n;
}

const struct stream_part *stream_select_part(const stream_select_t *sel, size_t i)
{
    return &sel->parts[i];
}

uint64_t stream_select_elems(const stream_select_t *sel)
{
    return sel->elems;
}

uint64_t stream_select_missing(const stream_select_t *sel)
{
    return sel->elems - sel->present;
}
