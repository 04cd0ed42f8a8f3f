/* copy.c - moves the elements of parts.
 *
 * A move is a nest of loops, each with one stride for the source and one for the result.  If the
 * elements of the innermost loop are contiguous on both sides, it is one memcpy(), otherwise a loop
 * for the size of the elements, chosen once per move.  The loop around it is a plain loop, and all
 * outer loops are the digits of a counter.  If another loop has a smaller stride in the result than
 * the innermost one (rows become columns), that loop becomes the one around it, and both are
 * divided into tiles whose lines stay in the cache until they are complete.
 *
 * Invariants:
 *  1. A move touches part->elems elements of each side, at the places in the part.
 *
 * Failure: none.
 */
#include "config.h"
#include <string.h>

#include "copy.h"

#define TILE_BYTES 32
#define TILE_LINES 256

struct nest {
    unsigned ndims;
    size_t elem;
    uint64_t n[STREAM_NDIMS_MAX];
    size_t from[STREAM_NDIMS_MAX];
    size_t to[STREAM_NDIMS_MAX];
};

/* Reorder the loops, so that the loop around the innermost one has the smallest steps in the
 * result. */
static void arrange(struct nest *x)
{
    unsigned inner = x->ndims - 1, best = inner > 0 ? inner - 1 : 0, outer = best;
    uint64_t n = x->n[outer];
    size_t from = x->from[outer], to = x->to[outer];

    for (unsigned d = 0; d < inner; d++)
        if (x->to[d] < x->to[best])
            best = d;
    x->n[outer] = x->n[best];
    x->from[outer] = x->from[best];
    x->to[outer] = x->to[best];
    x->n[best] = n;
    x->from[best] = from;
    x->to[best] = to;
}

/* Run the two innermost loops. */
static void plane(const struct nest *x, stream_elem_line_f line, const uint8_t *src, uint8_t *dst)
{
    unsigned inner = x->ndims - 1, outer = inner > 0 ? inner - 1 : 0;
    uint64_t lines = inner > 0 ? x->n[outer] : 1;

    for (uint64_t i = 0; i < lines; i++, src += x->from[outer], dst += x->to[outer])
        line(dst, src, x->n[inner], x->to[inner], x->from[inner], x->elem);
}

/* Run them in tiles. */
static void tiles(const struct nest *x, stream_elem_line_f line, const uint8_t *src, uint8_t *dst)
{
    unsigned inner = x->ndims - 1, outer = inner - 1;
    uint64_t width = x->elem < TILE_BYTES ? TILE_BYTES / x->elem : 1;

    for (uint64_t i = 0; i < x->n[outer]; i += TILE_LINES)
        for (uint64_t k = 0; k < x->n[inner]; k += width) {
            struct nest tile = {.ndims = 2, .elem = x->elem};

            tile.n[0] = x->n[outer] - i < TILE_LINES ? x->n[outer] - i : TILE_LINES;
            tile.n[1] = x->n[inner] - k < width ? x->n[inner] - k : width;
            tile.from[0] = x->from[outer];
            tile.from[1] = x->from[inner];
            tile.to[0] = x->to[outer];
            tile.to[1] = x->to[inner];
            plane(&tile, line, src + i * x->from[outer] + k * x->from[inner],
                  dst + i * x->to[outer] + k * x->to[inner]);
        }
}

static void run(struct nest *x, const uint8_t *src, uint8_t *dst)
{
    unsigned inner = x->ndims - 1, outer = inner > 0 ? inner - 1 : 0;
    void (*two)(const struct nest *, stream_elem_line_f, const uint8_t *, uint8_t *) = plane;
    uint64_t at[STREAM_NDIMS_MAX] = {0};
    stream_elem_line_f line;
    unsigned d;

    arrange(x);
    if (inner > 0 && x->to[outer] < x->to[inner])
        two = tiles;
    line = stream_elem_line(x->to[inner], x->from[inner], x->elem);
    do {
        two(x, line, src, dst);
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

/* Make the loops of a part; a packed source has no gaps. */
static void nest_of(const struct stream_part *p, struct nest *x, bool packed)
{
    size_t step;

    x->ndims = p->ndims;
    x->elem = packed ? p->to_elem : p->from_elem;
    step = x->elem;
    for (unsigned d = p->ndims; d-- > 0;) {
        x->n[d] = p->dims[d].n;
        x->from[d] = packed ? step : p->dims[d].from;
        x->to[d] = p->dims[d].to;
        step *= p->dims[d].n;
    }
}

void stream_copy(const struct stream_part *part, const void *piece, void *box)
{
    struct nest x;

    nest_of(part, &x, false);
    run(&x, (const uint8_t *)piece + part->from, (uint8_t *)box + part->to);
}

void stream_copy_unpack(const struct stream_part *part, const void *packed, void *box)
{
    struct nest x;

    nest_of(part, &x, true);
    run(&x, packed, (uint8_t *)box + part->to);
}

/* --- runs --- */

/* The outermost of the dimensions that are, together with all inner ones, a single run of the
 * piece; and the number of bytes of the run. */
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
