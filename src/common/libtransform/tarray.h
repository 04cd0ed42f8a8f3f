/* Computations with whole arrays: those that transforms of streams have in Lua (transform_lua.c).
 *
 * An array is a view of elements without gaps.  Results go into memory of the caller, who asks
 * first how much it is.  Numbers are integers, floats and truth values; a NaN counts as no value.
 *
 * Thread rules: any thread; there is no state.
 */
#ifndef TRANSFORM_TARRAY_H
#define TRANSFORM_TARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libstream/elem.h"
#include "libutil/errmsg.h"

#define TARRAY_DIMS 16

struct tarray {
    enum stream_type type;
    unsigned ndims;
    uint64_t count[TARRAY_DIMS];
    bool columns; /* the first dimension is the fastest */
    const void *data;
    uint64_t elems; /* product of `count`: tarray_finish() */
};

/* Fill in `elems`.  0, or -1 with E2BIG: its bytes are more than SIZE_MAX / 2. */
int tarray_finish(struct tarray *a);
size_t tarray_size(const struct tarray *a); /* bytes */
bool tarray_numeric(enum stream_type type);

/* Of an array of numbers: */

struct tarray_stats {
    uint64_t n; /* values; the others are NaN */
    double min; /* INFINITY without a value */
    double max;
    double sum;
};
void tarray_stats(const struct tarray *a, struct tarray_stats *st);
/* Count the values of `bins` equal parts of low..high, where high belongs to the last one. */
void tarray_histogram(const struct tarray *a, double low, double high, uint64_t bins,
                      uint64_t *out);
/* Values from low to high, both included, the first `max` in the order of memory: how many;
 * copy them, and their positions (from 0), where these are not NULL. */
uint64_t tarray_within(const struct tarray *a, double low, double high, void *values, uint64_t *at,
                       uint64_t max);
/* Each value * factor + offset. */
void tarray_scale(const struct tarray *a, double factor, double offset, double *out);
/* To another type of numbers: floats lose their fraction in integers, and precision in smaller
 * floats.  0, or -1 with ERANGE and an error message: a value is not one of that type. */
int tarray_convert(const struct tarray *a, enum stream_type to, void *out, errmsg_t *err);
/* A value, as far as a double has it. */
double tarray_at(const struct tarray *a, uint64_t i);

/* A list of pairs (2 columns, or rows of 2) of numbers below `n`, to lists of neighbors: those of i
 * are in near[from[i]] to near[from[i + 1] - 1], in the order of the list; `from` has n + 1
 * elements, `near` as many as the list.  0, or -1 with EINVAL or ERANGE and an error message. */
int tarray_adjacency(const struct tarray *pairs, uint64_t n, uint64_t *from, uint64_t *near,
                     errmsg_t *err);

/* Of an array of any type: */

/* What tarray_select() makes of an array: in each dimension `count` elements, each `stride` behind
 * the one before, from `start` on; with `reverse` the dimensions in reverse order; the result lies
 * in memory as `columns` says. */
struct tarray_part {
    uint64_t start[TARRAY_DIMS];
    uint64_t count[TARRAY_DIMS];
    uint64_t stride[TARRAY_DIMS];
    bool reverse;
    bool columns;
};
/* All of it, as it is. */
void tarray_part_init(struct tarray_part *p, const struct tarray *a);
/* The shape of the result; its `data` is NULL.  0, or -1 with ERANGE and an error message. */
int tarray_part_shape(const struct tarray *a, const struct tarray_part *p, struct tarray *out,
                      errmsg_t *err);
void tarray_select(const struct tarray *a, const struct tarray_part *p, void *out);

#endif
