/* tarray.c - computations with whole arrays.
 *
 * Numbers of any type are converted to doubles in blocks of BLOCK elements, which stay in the
 * cache, so that each computation is written once.  The conversion to other types is exact: it uses
 * long double, which represents all integers of 64 bits if it has a mantissa of that size.
 *
 * The description of a part of an array has the distance between neighbors in each dimension of the
 * result; lines of its fastest dimension are copied by the loops of elem.h.
 *
 * Invariants:
 *  1. Only the memory of the result is written, even if the elements change meanwhile, because they
 *     are in memory that another process writes.
 *
 * Failure: see each function.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "libtransform/tarray.h"

#define BLOCK 512

int tarray_finish(struct tarray *a)
{
    uint64_t bytes = stream_elem_size(a->type);

    a->elems = 1;
    for (unsigned i = 0; i < a->ndims; i++) {
        if (__builtin_mul_overflow(a->elems, a->count[i], &a->elems))
            goto big;
    }
    if (__builtin_mul_overflow(bytes, a->elems, &bytes) || bytes > SIZE_MAX / 2)
        goto big;
    return 0;
big:
    errno = E2BIG;
    return -1;
}

size_t tarray_size(const struct tarray *a)
{
    return a->elems * stream_elem_size(a->type);
}

bool tarray_numeric(enum stream_type type)
{
    return (type >= STREAM_I8 && type <= STREAM_F64) || type == STREAM_BOOL;
}

/* For each type of numbers, its name and that of C. */
#define NUMBERS(X)   \
    X(I8, int8_t)    \
    X(I16, int16_t)  \
    X(I32, int32_t)  \
    X(I64, int64_t)  \
    X(U8, uint8_t)   \
    X(U16, uint16_t) \
    X(U32, uint32_t) \
    X(U64, uint64_t) \
    X(F32, float)    \
    X(F64, double)   \
    X(BOOL, uint8_t)

static void load(enum stream_type type, const void *from, uint64_t at, size_t n, double *out)
{
    switch (type) {
        /* A field of a record need not be aligned. */
#define X(name, ctype)                                                        \
    case STREAM_##name:                                                       \
        for (size_t i = 0; i < n; i++) {                                      \
            ctype v;                                                          \
            memcpy(&v, (const char *)from + (at + i) * sizeof(v), sizeof(v)); \
            out[i] = (double)v;                                               \
        }                                                                     \
        break;
        NUMBERS(X)
#undef X
    default:
        break;
    }
}

static size_t block(const struct tarray *a, uint64_t at, double *out)
{
    size_t n = a->elems - at < BLOCK ? (size_t)(a->elems - at) : BLOCK;

    load(a->type, a->data, at, n, out);
    return n;
}

double tarray_at(const struct tarray *a, uint64_t i)
{
    double value = 0.;

    load(a->type, a->data, i, 1, &value);
    return value;
}

void tarray_stats(const struct tarray *a, struct tarray_stats *st)
{
    double v[BLOCK];
    size_t n;

    *st = (struct tarray_stats){0, INFINITY, -INFINITY, 0.};
    for (uint64_t at = 0; at < a->elems; at += n) {
        double sum = 0.; /* of a block: reduces errors of rounding */

        n = block(a, at, v);
        for (size_t i = 0; i < n; i++) {
            if (isnan(v[i]))
                continue;
            st->n++;
            sum += v[i];
            if (v[i] < st->min)
                st->min = v[i];
            if (v[i] > st->max)
                st->max = v[i];
        }
        st->sum += sum;
    }
}

void tarray_histogram(const struct tarray *a, double low, double high, uint64_t bins, uint64_t *out)
{
    double scale = (double)bins / (high - low);
    double v[BLOCK];
    size_t n;

    memset(out, 0, bins * sizeof(*out));
    for (uint64_t at = 0; at < a->elems; at += n) {
        n = block(a, at, v);
        for (size_t i = 0; i < n; i++) {
            uint64_t bin;

            if (!(v[i] >= low && v[i] <= high))
                continue;
            bin = (uint64_t)((v[i] - low) * scale);
            out[bin < bins ? bin : bins - 1]++;
        }
    }
}

uint64_t tarray_within(const struct tarray *a, double low, double high, void *values,
                       uint64_t *at_out, uint64_t max)
{
    size_t elem = stream_elem_size(a->type);
    uint64_t found = 0;
    double v[BLOCK];
    size_t n;

    for (uint64_t at = 0; at < a->elems; at += n) {
        n = block(a, at, v);
        for (size_t i = 0; i < n; i++) {
            if (!(v[i] >= low && v[i] <= high))
                continue;
            if (found == max)
                return found;
            if (values)
                memcpy((char *)values + found * elem, (const char *)a->data + (at + i) * elem,
                       elem);
            if (at_out)
                at_out[found] = at + i;
            found++;
        }
    }
    return found;
}

void tarray_scale(const struct tarray *a, double factor, double offset, double *out)
{
    size_t n;

    for (uint64_t at = 0; at < a->elems; at += n) {
        n = block(a, at, out + at);
        for (size_t i = 0; i < n; i++)
            out[at + i] = out[at + i] * factor + offset;
    }
}

/* --- conversion --- */

static long double load_exact(enum stream_type type, const void *from, uint64_t i)
{
    switch (type) {
#define X(name, ctype)                                             \
    case STREAM_##name: {                                          \
        ctype v;                                                   \
        memcpy(&v, (const char *)from + i * sizeof(v), sizeof(v)); \
        return (long double)v;                                     \
    }
        NUMBERS(X)
#undef X
    default:
        return 0.L;
    }
}

static void put(void *to, uint64_t i, const void *value, size_t size)
{
    memcpy((char *)to + i * size, value, size);
}

/* Store an integer from `low` to below `high`. */
static bool store_exact(enum stream_type type, void *to, uint64_t i, long double value)
{
    long double whole = truncl(value);

    switch (type) {
#define INT(name, ctype, low, high)                        \
    case STREAM_##name:                                    \
        if (!(whole >= (low) && whole < (high)))           \
            return false;                                  \
        put(to, i, &(ctype){(ctype)whole}, sizeof(ctype)); \
        return true;
        INT(I8, int8_t, -0x1p7L, 0x1p7L)
        INT(I16, int16_t, -0x1p15L, 0x1p15L)
        INT(I32, int32_t, -0x1p31L, 0x1p31L)
        INT(I64, int64_t, -0x1p63L, 0x1p63L)
        INT(U8, uint8_t, 0, 0x1p8L)
        INT(U16, uint16_t, 0, 0x1p16L)
        INT(U32, uint32_t, 0, 0x1p32L)
        INT(U64, uint64_t, 0, 0x1p64L)
        INT(BOOL, uint8_t, 0, 2)
#undef INT
    case STREAM_F32:
        put(to, i, &(float){(float)value}, sizeof(float));
        return true;
    default:
        put(to, i, &(double){(double)value}, sizeof(double));
        return true;
    }
}

int tarray_convert(const struct tarray *a, enum stream_type to, void *out, errmsg_t *err)
{
    stream_elem_f fn = stream_elem_converter(a->type, STREAM_NATIVE, to);

    if (fn) {
        fn(out, a->data, a->elems);
        return 0;
    }
    for (uint64_t i = 0; i < a->elems; i++) {
        long double value = load_exact(a->type, a->data, i);

        if (!store_exact(to, out, i, value))
            return errmsg_fail(err, ERANGE,
                               "element %" PRIu64 " is %.17Lg, which is not a value of %s", i,
                               value, stream_elem_name(to));
    }
    return 0;
}

/* --- neighbors --- */

/* The two numbers of a pair; false: not numbers below n. */
static bool pair_get(const struct tarray *a, uint64_t pairs, uint64_t i, uint64_t n,
                     uint64_t pair[2])
{
    for (unsigned k = 0; k < 2; k++) {
        long double v = load_exact(a->type, a->data, a->columns ? k * pairs + i : 2 * i + k);

        if (!(v >= 0.L && v < (long double)n) || v != truncl(v))
            return false;
        pair[k] = (uint64_t)v;
    }
    return true;
}

int tarray_adjacency(const struct tarray *a, uint64_t n, uint64_t *from, uint64_t *near,
                     errmsg_t *err)
{
    uint64_t pairs = a->ndims == 2 && a->count[1] == 2 ? a->count[0] : 0;
    uint64_t pair[2];
    uint64_t sum = 0;

    if (a->ndims != 2 || a->count[1] != 2 || !tarray_numeric(a->type))
        return errmsg_fail(err, EINVAL,
                           "a list of pairs has 2 dimensions, of which the second is 2");
    memset(from, 0, (n + 1) * sizeof(*from));
    for (uint64_t i = 0; i < pairs; i++) {
        if (!pair_get(a, pairs, i, n, pair))
            return errmsg_fail(err, ERANGE,
                               "pair %" PRIu64 " has a number that is not below %" PRIu64, i, n);
        from[pair[0]]++;
        from[pair[1]]++;
    }
    for (uint64_t i = 0; i <= n; i++) { /* compute the begin of each list */
        uint64_t count = from[i];

        from[i] = sum;
        sum += i < n ? count : 0;
    }
    for (uint64_t i = 0; i < pairs; i++) {
        bool known = pair_get(a, pairs, i, n, pair);

        for (unsigned k = 0; k < 2; k++) {
            if (!known || from[pair[k]] >= 2 * pairs)
                return errmsg_fail(err, ERANGE, "the list changes while it is read");
            near[from[pair[k]]++] = pair[1 - k];
        }
    }
    memmove(from + 1, from, n * sizeof(*from)); /* each element is now the begin of the next list */
    from[0] = 0;
    return 0;
}

/* --- parts --- */

void tarray_part_init(struct tarray_part *p, const struct tarray *a)
{
    memset(p, 0, sizeof(*p));
    for (unsigned i = 0; i < a->ndims; i++) {
        p->count[i] = a->count[i];
        p->stride[i] = 1;
    }
    p->columns = a->columns;
}

int tarray_part_shape(const struct tarray *a, const struct tarray_part *p, struct tarray *out,
                      errmsg_t *err)
{
    *out = (struct tarray){.type = a->type, .ndims = a->ndims, .columns = p->columns};
    for (unsigned i = 0; i < a->ndims; i++) {
        uint64_t last;

        if (p->stride[i] == 0 ||
            (p->count[i] > 0 &&
             (__builtin_mul_overflow(p->count[i] - 1, p->stride[i], &last) ||
              __builtin_add_overflow(last, p->start[i], &last) || last >= a->count[i])))
            return errmsg_fail(err, ERANGE,
                               "dimension %u has %" PRIu64 " elements: %" PRIu64 " from %" PRIu64
                               " on, each %" PRIu64 " behind the one before, are not inside",
                               i, a->count[i], p->count[i], p->start[i], p->stride[i]);
        out->count[p->reverse ? a->ndims - 1 - i : i] = p->count[i];
    }
    return tarray_finish(out) < 0 ? errmsg_fail(err, errno, "the array is too large") : 0;
}

/* The distance in elements from one to the next in each dimension. */
static void distances(unsigned ndims, const uint64_t *count, bool columns, uint64_t *by)
{
    uint64_t step = 1;

    for (unsigned k = 0; k < ndims; k++) {
        unsigned i = columns ? k : ndims - 1 - k;

        by[i] = step;
        step *= count[i];
    }
}

void tarray_select(const struct tarray *a, const struct tarray_part *p, void *out)
{
    size_t elem = stream_elem_size(a->type);
    const uint8_t *src = a->data;
    uint8_t *dst = out;
    uint64_t own[TARRAY_DIMS];
    uint64_t n[TARRAY_DIMS];  /* number of elements of the result, the fastest dimension first, */
    uint64_t by[TARRAY_DIMS]; /* bytes to the next one in the array, */
    uint64_t at[TARRAY_DIMS] = {0};
    stream_elem_line_f line;

    distances(a->ndims, a->count, a->columns, own);
    for (unsigned i = 0; i < a->ndims; i++) {
        unsigned to = p->reverse ? a->ndims - 1 - i : i;
        unsigned k = p->columns ? to : a->ndims - 1 - to;

        n[k] = p->count[i];
        by[k] = own[i] * p->stride[i] * elem;
        src += own[i] * p->start[i] * elem;
        if (n[k] == 0)
            return;
    }
    if (a->ndims == 0) {
        memcpy(dst, src, elem);
        return;
    }
    line = stream_elem_line(elem, by[0], elem);
    for (;;) {
        unsigned k = 1;

        line(dst, src, n[0], elem, by[0], elem);
        dst += n[0] * elem;
        while (k < a->ndims && ++at[k] == n[k]) {
            src -= by[k] * (n[k] - 1);
            at[k++] = 0;
        }
        if (k == a->ndims)
            return;
        src += by[k];
    }
}
