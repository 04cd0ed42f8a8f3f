/* check_tarray.c - computations with whole arrays, against loops over their elements. */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtransform/tarray.h"
#include "libutil/test/suite.h"

static errmsg_t err;

static struct tarray line(enum stream_type type, const void *data, uint64_t n)
{
    struct tarray a = {.type = type, .ndims = 1, .count = {n}, .data = data};

    ck_assert_int_eq(tarray_finish(&a), 0);
    return a;
}

/* More than a block, so that blocks are put together. */
#define N 1300

START_TEST(stats)
{
    static int16_t v[N];
    float f[4] = {NAN, 2.5f, -1.f, NAN};
    struct tarray_stats st;
    struct tarray a = line(STREAM_I16, v, N);

    for (int i = 0; i < N; i++)
        v[i] = (int16_t)(i - 300);
    tarray_stats(&a, &st);
    ck_assert(st.n == N && st.min == -300. && st.max == 999. && st.sum == N * 349.5);
    a = line(STREAM_F32, f, 4);
    tarray_stats(&a, &st);
    ck_assert(st.n == 2 && st.min == -1. && st.max == 2.5 && st.sum == 1.5);
    a = line(STREAM_F32, f, 0);
    tarray_stats(&a, &st);
    ck_assert(st.n == 0 && isinf(st.min) && isinf(st.max) && st.sum == 0.);
    a.count[0] = UINT64_MAX / 2;
    ck_assert_int_eq(tarray_finish(&a), -1);
    ck_assert_int_eq(errno, E2BIG);
}
END_TEST

START_TEST(ranges)
{
    double v[] = {0., 0.5, 1., 2., 3.9, 4., NAN, -1., 5.};
    struct tarray a = line(STREAM_F64, v, 9);
    uint64_t bins[4];
    double got[9];
    uint64_t at[9];
    double scaled[9];

    tarray_histogram(&a, 0., 4., 4, bins);
    ck_assert(bins[0] == 2 && bins[1] == 1 && bins[2] == 1 && bins[3] == 2);
    ck_assert_uint_eq(tarray_within(&a, 1., 4., NULL, NULL, UINT64_MAX), 4);
    ck_assert_uint_eq(tarray_within(&a, 1., 4., got, at, 4), 4);
    ck_assert(got[0] == 1. && got[3] == 4. && at[0] == 2 && at[3] == 5);
    ck_assert_uint_eq(tarray_within(&a, 6., INFINITY, got, at, 9), 0);
    got[2] = 77.;
    ck_assert_uint_eq(tarray_within(&a, 1., 4., got, at, 2), 2);
    ck_assert(got[1] == 2. && at[1] == 3 && got[2] == 77. && at[2] == 4);
    tarray_scale(&a, 2., 1., scaled);
    ck_assert(scaled[1] == 2. && scaled[8] == 11. && isnan(scaled[6]));
}
END_TEST

START_TEST(conversions)
{
    int64_t big[] = {INT64_MAX, INT64_MIN, 0};
    uint64_t u[] = {UINT64_MAX, 1, 0};
    double d[] = {-2.9, 127.9, 1.};
    int64_t i64[3];
    uint64_t u64[3];
    int8_t i8[3];
    float f32[3];
    uint8_t truth[3];
    struct tarray a = line(STREAM_F64, d, 3);

    ck_assert_int_eq(tarray_convert(&a, STREAM_I8, i8, &err), 0);
    ck_assert(i8[0] == -2 && i8[1] == 127 && i8[2] == 1);
    ck_assert_int_eq(tarray_convert(&a, STREAM_U64, u64, &err), -1);
    ck_assert_int_eq(errno, ERANGE);
    ck_assert_str_eq(err.text, "element 0 is -2.8999999999999999, which is not a value of u64");
    ck_assert_int_eq(tarray_convert(&a, STREAM_BOOL, truth, &err), -1);
    ck_assert_int_eq(tarray_convert(&a, STREAM_F32, f32, &err), 0);
    ck_assert(f32[2] == 1.f);
    d[1] = NAN;
    d[0] = 0.;
    ck_assert_int_eq(tarray_convert(&a, STREAM_I64, i64, &err), -1);
    a = line(STREAM_I64, big, 3);
    ck_assert_int_eq(tarray_convert(&a, STREAM_I64, i64, &err), 0);
    ck_assert_mem_eq(i64, big, sizeof(big));
    ck_assert_int_eq(tarray_convert(&a, STREAM_U64, u64, &err), -1);
    big[1] = 7;
    ck_assert_int_eq(tarray_convert(&a, STREAM_U64, u64, &err), 0);
    ck_assert(u64[0] == INT64_MAX && u64[1] == 7);
    a = line(STREAM_U64, u, 3);
    ck_assert_int_eq(tarray_convert(&a, STREAM_I64, i64, &err), -1);
    a = line(STREAM_U64, u + 1, 2);
    ck_assert_int_eq(tarray_convert(&a, STREAM_BOOL, truth, &err), 0);
    ck_assert(truth[0] == 1 && truth[1] == 0);
    ck_assert(tarray_numeric(STREAM_BOOL) && tarray_numeric(STREAM_I8));
    ck_assert(!tarray_numeric(STREAM_CHAR) && !tarray_numeric(STREAM_C64) && !tarray_numeric(0));
}
END_TEST

START_TEST(neighbors)
{
    uint32_t rows[] = {0, 1, 1, 2, 3, 1};
    uint32_t columns[] = {0, 1, 3, 1, 2, 1};
    uint64_t from[6];
    uint64_t near[6];
    static const uint64_t want_from[] = {0, 1, 4, 5, 6, 6};
    static const uint64_t want_near[] = {1, 0, 2, 3, 1, 1};
    struct tarray a = {.type = STREAM_U32, .ndims = 2, .count = {3, 2}, .data = rows};

    tarray_finish(&a);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tarray_adjacency(&a, 5, from, near, &err), 0);
        ck_assert_mem_eq(from, want_from, sizeof(from));
        ck_assert_mem_eq(near, want_near, sizeof(near));
        a.columns = true;
        a.data = columns;
    }
    ck_assert_int_eq(tarray_adjacency(&a, 3, from, near, &err), -1);
    ck_assert_str_eq(err.text, "pair 2 has a number that is not below 3");
    a.count[1] = 3;
    ck_assert_int_eq(tarray_adjacency(&a, 5, from, near, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* A list that changes while it is read: the neighbors are written over it. */
START_TEST(unsteady)
{
    uint64_t list[] = {1, 1, 0, 0, 77, 77};
    uint64_t from[3];
    struct tarray a = {.type = STREAM_U64, .ndims = 2, .count = {2, 2}, .data = list};

    tarray_finish(&a);
    ck_assert_int_eq(tarray_adjacency(&a, 2, from, list, &err), -1);
    ck_assert_int_eq(errno, ERANGE);
    ck_assert_str_eq(err.text, "the list changes while it is read");
    ck_assert(list[4] == 77 && list[5] == 77);
}
END_TEST

/* Where element (i, k, l) of an array of this shape is. */
static uint64_t at(const struct tarray *a, const uint64_t *i)
{
    if (a->columns)
        return i[0] + a->count[0] * (i[1] + a->count[1] * i[2]);
    return i[2] + a->count[2] * (i[1] + a->count[1] * i[0]);
}

static void check_part(const struct tarray *a, const struct tarray_part *p)
{
    struct tarray out;
    uint16_t *data;

    ck_assert_msg(tarray_part_shape(a, p, &out, &err) == 0, "%s", err.text);
    out.data = data = calloc(out.elems + 1, sizeof(*data));
    data[out.elems] = 12345;
    tarray_select(a, p, data);
    for (uint64_t i = 0; i < p->count[0]; i++) {
        for (uint64_t k = 0; k < p->count[1]; k++) {
            for (uint64_t l = 0; l < p->count[2]; l++) {
                uint64_t to[3] = {i, k, l};
                uint64_t from[3];

                for (int d = 0; d < 3; d++)
                    from[d] = p->start[d] + to[d] * p->stride[d];
                if (p->reverse) {
                    to[0] = l;
                    to[2] = i;
                }
                ck_assert_uint_eq(data[at(&out, to)], ((const uint16_t *)a->data)[at(a, from)]);
            }
        }
    }
    ck_assert_uint_eq(data[out.elems], 12345);
    free(data);
}

START_TEST(parts)
{
    uint16_t v[5 * 4 * 7];
    struct tarray a = {.type = STREAM_U16, .ndims = 3, .count = {5, 4, 7}, .data = v};
    struct tarray_part p;
    struct tarray out;

    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
        v[i] = (uint16_t)i;
    tarray_finish(&a);
    for (int i = 0; i < 16; i++) {
        a.columns = i & 1;
        tarray_part_init(&p, &a);
        check_part(&a, &p);
        p.columns = i & 2;
        p.reverse = i & 4;
        check_part(&a, &p);
        memcpy(p.start, (uint64_t[]){1, 0, 2}, 3 * sizeof(uint64_t));
        memcpy(p.count, (uint64_t[]){2, 2, i & 8 ? 2 : 0}, 3 * sizeof(uint64_t));
        memcpy(p.stride, (uint64_t[]){3, 2, 4}, 3 * sizeof(uint64_t));
        check_part(&a, &p);
    }
    p.count[1] = 3;
    ck_assert_int_eq(tarray_part_shape(&a, &p, &out, &err), -1);
    ck_assert_int_eq(errno, ERANGE);
    p.count[1] = UINT64_MAX;
    ck_assert_int_eq(tarray_part_shape(&a, &p, &out, &err), -1);
    p.count[1] = 1;
    p.stride[1] = 0;
    ck_assert_int_eq(tarray_part_shape(&a, &p, &out, &err), -1);
    a.ndims = 0;
    tarray_finish(&a);
    tarray_part_init(&p, &a);
    ck_assert_int_eq(tarray_part_shape(&a, &p, &out, &err), 0);
    tarray_select(&a, &p, v + 1);
    ck_assert_uint_eq(v[1], 0);
}
END_TEST

int main(void)
{
    RUN_SUITE("tarray", stats, ranges, conversions, neighbors, unsteady, parts);
}
