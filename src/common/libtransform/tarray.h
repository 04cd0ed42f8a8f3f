/* Computations with whole arrays, for transforms of streams in Lua (transform_lua.c).
 *
 * An array is a view of elements without gaps.  Results are written to memory of the caller, after
 * a call that returns its size.  Numbers are integers, floats and truth values; a NaN does not
 * count as a value.
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

/* For arrays of numbers: */

struct tarray_stats {
    uint64_t n; /* number of values; other elements are NaN */
    double min; /* INFINITY without a value */
    double max;
    double sum;
};
void tarray_stats(const struct tarray *a, struct tarray_stats *st);
/* Count the values in each of `bins` equal parts of low..high; `high` belongs to the last part. */
void tarray_histogram(const struct tarray *a, double low, double high, uint64_t bins,
                      uint64_t *out);
/* Find the values from low to high, both included: the first `max` in the order of memory.  Returns
 * their number; copies the values, and their positions (from 0), to the arrays that are not
 * NULL. */
uint64_t tarray_within(const struct tarray *a, double low, double high, void *values, uint64_t *at,
                       uint64_t max);
/* Each value * factor + offset. */
void tarray_scale(const struct tarray *a, double factor, double offset, double *out);
/* Convert to another type of numbers: integers lose the fraction of floats, smaller floats lose
 * precision.  0, or -1 with ERANGE and an error message: a value is not one of that type. */
int tarray_convert(const struct tarray *a, enum stream_type to, void *out, errmsg_t *err);
/* A value as a double, possibly rounded. */
double tarray_at(const struct tarray *a, uint64_t i);

/* Convert a list of pairs (2 columns, or rows of 2) of numbers below `n` to lists of neighbors:
 * those of i are near[from[i]] to near[from[i + 1] - 1], in the order of the list; `from` has n + 1
 * elements, `near` as many as the list.  0, or -1 with EINVAL or ERANGE and an error message. */
int tarray_adjacency(const struct tarray *pairs, uint64_t n, uint64_t *from, uint64_t *near,
                     errmsg_t *err);

/* For arrays of any type: */

/* A part of an array, for tarray_select(): in each dimension `count` elements at distances of
 * `stride`, from `start` on; with `reverse` the dimensions in reverse order; `columns` is the order
 * of the result in memory. */
struct tarray_part {
    uint64_t start[TARRAY_DIMS];
    uint64_t count[TARRAY_DIMS];
    uint64_t stride[TARRAY_DIMS];
    bool reverse;
    bool columns;
};
/* The part that is the whole array, unchanged. */
void tarray_part_init(struct tarray_part *p, const struct tarray *a);
/* The shape of the result; its `data` is NULL.  0, or -1 with ERANGE and an error message. */
int tarray_part_shape(const struct tarray *a, const struct tarray_part *p, struct tarray *out,
                      errmsg_t *err);
void tarray_select(const struct tarray *a, const struct tarray_part *p, void *out);

#endif
