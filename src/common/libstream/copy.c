/* copy.c - moves the elements of parts.
 *
 * A move is a nest of loops with two steps each.  If the innermost one has elements that lie
 * together on both sides, it is a memcpy(), else a loop for the size of an element, which is chosen
 * once; the loop around it is a plain loop, and all others are the digits of a counter.
 *
 * Invariants:
 *  1. A move touches part->elems elements of each side, at the places that the part says.
 *
 * Failure: none.
 */
#include "config.h"
#include <string.h>

#include "copy.h"

/* One loop: n elements, `to` and `from` bytes apart. */
typedef void (*line_f)(uint8_t *dst, const uint8_t *src, uint64_t n, size_t to, size_t from,
                       size_t elem);

#define LINE(size)                                                                          \
    static void line_##size(uint8_t *restrict dst, const uint8_t *restrict src, uint64_t n, \
                            size_t to, size_t from, size_t elem)                            \
    {                                                                                       \
        (void)elem;                                                                         \
        for (uint64_t i = 0; i < n; i++, dst += to, src += from)                            \
            memcpy(dst, src, size);                                                         \
    }
LINE(1)
LINE(2)
LINE(4)
LINE(8)
LINE(16)

static void line_any(uint8_t *restrict dst, const uint8_t *restrict src, uint64_t n, size_t to,
                     size_t from, size_t elem)
{
    for (uint64_t i = 0; i < n; i++, dst += to, src += from)
        memcpy(dst, src, elem);
}

static void line_together(uint8_t *restrict dst, const uint8_t *restrict src, uint64_t n, size_t to,
                          size_t from, size_t elem)
{
    (void)to;
    (void)from;
    memcpy(dst, src, n * elem);
}

static line_f choose(size_t to, size_t from, size_t elem)
{
    if (to == elem && from == elem)
        return line_together;
    switch (elem) {
    case 1:
        return line_1;
    case 2:
        return line_2;
    case 4:
        return line_4;
    case 8:
        return line_8;
    case 16:
        return line_16;
    default:
        return line_any;
    }
}

struct nest {
    unsigned ndims;
    size_t elem;
    uint64_t n[STREAM_NDIMS_MAX];
    size_t from[STREAM_NDIMS_MAX];
    size_t to[STREAM_NDIMS_MAX];
};

static void run(const struct nest *x, const uint8_t *src, uint8_t *dst)
{
    unsigned inner = x->ndims - 1, outer = inner > 0 ? inner - 1 : 0;
    line_f line = choose(x->to[inner], x->from[inner], x->elem);
    uint64_t lines = inner > 0 ? x->n[outer] : 1, at[STREAM_NDIMS_MAX] = {0};
    unsigned d;

    do {
        const uint8_t *s = src;
        uint8_t *t = dst;

        for (uint64_t i = 0; i < lines; i++, s += x->from[outer], t += x->to[outer])
            line(t, s, x->n[inner], x->to[inner], x->from[inner], x->elem);
        for (d = outer; d-- > 0;) {
            src += x->from[d];
            dst += x->to[d];
            if (++at[d] < x->n[d])
                break;
            src -= x->n[d] * x->from[d];
            dst -= x->n[d] * x->to[d];
            at[d] = 0;
        }
    } while (d < outer);
}

/* The loops of a part; the side that is packed has no gaps. */
static void nest_of(const struct stream_part *p, struct nest *x, bool from_packed, bool to_packed)
{
    size_t step;

    x->ndims = p->ndims;
    x->elem = from_packed ? p->to_elem : p->from_elem;
    step = x->elem;
    for (unsigned d = p->ndims; d-- > 0;) {
        x->n[d] = p->dims[d].n;
        x->from[d] = from_packed ? step : p->dims[d].from;
        x->to[d] = to_packed ? step : p->dims[d].to;
        step *= p->dims[d].n;
    }
}

void stream_copy(const struct stream_part *part, const void *piece, void *box)
{
    struct nest x;

    nest_of(part, &x, false, false);
    run(&x, (const uint8_t *)piece + part->from, (uint8_t *)box + part->to);
}

void stream_copy_pack(const struct stream_part *part, const void *piece, void *packed)
{
    struct nest x;

    nest_of(part, &x, false, true);
    run(&x, (const uint8_t *)piece + part->from, packed);
}

void stream_copy_unpack(const struct stream_part *part, const void *packed, void *box)
{
    struct nest x;

    nest_of(part, &x, true, false);
    run(&x, packed, (uint8_t *)box + part->to);
}

/* --- runs --- */

/* The first dimension of those, from the innermost one outwards, that are one run of the piece; and
 * the bytes of the run. */
static unsigned together(const struct stream_part *p, size_t *bytes)
{
    unsigned d = p->ndims;

    *bytes = p->from_elem;
    while (d > 0 && p->dims[d - 1].from == *bytes)
        *bytes *= p->dims[--d].n;
    return d;
}

size_t stream_copy_run(const struct stream_part *part)
{
    size_t bytes;

    together(part, &bytes);
    return bytes;
}

uint64_t stream_copy_count(const struct stream_part *part)
{
    return part->elems * part->from_elem / stream_copy_run(part);
}

size_t stream_copy_runs(const struct stream_part *part, const void *piece, struct stream_runs *at,
                        struct iovec *iov, size_t max)
{
    const uint8_t *src = (const uint8_t *)piece + part->from;
    size_t bytes, n = 0;
    unsigned outer = together(part, &bytes), d;

    for (d = 0; d < outer; d++)
        src += at->at[d] * part->dims[d].from;
    while (n < max && !at->end) {
        iov[n].iov_base = (void *)src;
        iov[n++].iov_len = bytes;
        for (d = outer; d-- > 0;) {
            src += part->dims[d].from;
            if (++at->at[d] < part->dims[d].n)
                break;
            src -= part->dims[d].n * part->dims[d].from;
            at->at[d] = 0;
        }
        at->end = d >= outer;
    }
    return n;
}
