/* check_elem.c - types of elements: every conversion against one that is written down plainly,
 * values from text.
 */
#include "config.h"
#include <check.h>
#include <complex.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "libstream/elem.h"
#include "libutil/test/suite.h"

#define N 37

/* An element of a number's type, or of bool, as the widest type there is of its kind. */
struct number {
    int64_t i;
    uint64_t u;
    double re, im;
};

static bool is_signed(enum stream_type t)
{
    return t <= STREAM_I64;
}

static bool is_float(enum stream_type t)
{
    return t >= STREAM_F32 && t <= STREAM_C128;
}

static bool is_complex(enum stream_type t)
{
    return t == STREAM_C64 || t == STREAM_C128;
}

/* Bits of the whole numbers that the type represents. */
static unsigned bits(enum stream_type t)
{
    if (t == STREAM_BOOL)
        return 1;
    if (is_float(t))
        return t == STREAM_F32 || t == STREAM_C64 ? 24 : 53;
    return 8 * (unsigned)stream_elem_size(t) - is_signed(t);
}

/* The rules, as the documentation has them. */
static bool lossless(enum stream_type a, enum stream_type b)
{
    if (a == b)
        return true;
    if (a > STREAM_BOOL || b > STREAM_C128)
        return false;
    if (is_complex(a))
        return is_complex(b) && bits(b) >= bits(a);
    if (is_float(a))
        return is_float(b) && bits(b) >= bits(a);
    if (is_signed(a) && !is_signed(b) && !is_float(b))
        return false;
    return bits(b) >= bits(a);
}

static void get(enum stream_type t, const void *p, struct number *n)
{
    memset(n, 0, sizeof(*n));
#define INT(T, c)                 \
    case STREAM_##T: {            \
        c v;                      \
        memcpy(&v, p, sizeof(v)); \
        n->i = (int64_t)v;        \
        n->u = (uint64_t)v;       \
        n->re = (double)v;        \
        break;                    \
    }
#define REAL(T, c, parts)                     \
    case STREAM_##T: {                        \
        c v[2] = {0};                         \
        memcpy(v, p, (parts) * sizeof(v[0])); \
        n->re = v[0];                         \
        n->im = v[1];                         \
        break;                                \
    }
    switch (t) {
        INT(I8, int8_t)
        INT(I16, int16_t)
        INT(I32, int32_t)
        INT(I64, int64_t)
        INT(U8, uint8_t)
        INT(U16, uint16_t)
        INT(U32, uint32_t)
        INT(U64, uint64_t)
        INT(BOOL, uint8_t)
        INT(CHAR, uint8_t)
        INT(BYTES, uint8_t)
        REAL(F32, float, 1)
        REAL(F64, double, 1)
        REAL(C64, float, 2)
        REAL(C128, double, 2)
    default:
        ck_abort();
    }
}

static uint64_t seed = 13;
static uint64_t chance(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 11;
}

/* Values of the type, none of which is NaN. */
static void make(enum stream_type t, uint8_t *p)
{
    for (int i = 0; i < N; i++, p += stream_elem_size(t)) {
        double d = ((double)chance() - 4e15) / 1024.;
        float f = (float)d;
        for (size_t b = 0; b < stream_elem_size(t); b++)
            p[b] = t == STREAM_BOOL ? i % 2 : (uint8_t)chance();
        for (size_t b = 0; is_float(t) && b < stream_elem_size(t);) {
            bool small = bits(t) == 24;
            memcpy(p + b, small ? (void *)&f : (void *)&d, small ? 4 : 8);
            b += small ? 4 : 8;
        }
    }
}

/* The other byte order. */
static void turn(enum stream_type t, const uint8_t *from, uint8_t *to)
{
    size_t word = stream_elem_size(t) / (is_complex(t) ? 2 : 1);
    for (size_t i = 0; i < N * stream_elem_size(t); i++)
        to[i / word * word + word - 1 - i % word] = from[i];
}

START_TEST(test_conversions)
{
    static const enum stream_order orders[] = {STREAM_LITTLE, STREAM_BIG};
    uint8_t in[1 + 16 * N], turned[1 + 16 * N], out[2 + 16 * N];

    for (enum stream_type a = STREAM_I8; a <= STREAM_RECORD; a++)
        for (enum stream_type b = STREAM_I8; b <= STREAM_RECORD; b++)
            for (int o = 0; o < 2; o++) {
                stream_elem_f f = stream_elem_converter(a, orders[o], b);
                bool want = a < STREAM_STRING && b < STREAM_STRING && lossless(a, b);
                size_t to = stream_elem_size(b);

                ck_assert_msg((f != NULL) == want, "%s to %s", stream_elem_name(a),
                              stream_elem_name(b));
                if (!f)
                    continue;
                make(a, in + 1);
                turn(a, in + 1, turned + 1);
                memset(out, 0xa5, sizeof(out));
                ck_assert(f(out + 1, orders[o] == STREAM_NATIVE ? in + 1 : turned + 1, N));
                ck_assert_int_eq(out[0], 0xa5);
                ck_assert_int_eq(out[1 + N * to], 0xa5);
                for (int i = 0; i < N; i++) {
                    struct number x, y;
                    get(a, in + 1 + (size_t)i * stream_elem_size(a), &x);
                    get(b, out + 1 + (size_t)i * to, &y);
                    ck_assert_msg(x.re == y.re && x.im == y.im, "%s to %s: %g %g",
                                  stream_elem_name(a), stream_elem_name(b), x.re, y.re);
                    ck_assert(is_float(b) || (x.i == y.i && x.u == y.u));
                }
                if (stream_elem_copies(a, orders[o], b))
                    ck_assert(orders[o] == STREAM_NATIVE || to == 1);
            }
}
END_TEST

START_TEST(test_truth)
{
    uint8_t in[100] = {0}, out[1600];

    for (int i = 0; i < 100; i += 3)
        in[i] = 1;
    ck_assert(stream_elem_truth(in, 100));
    for (enum stream_type t = STREAM_I8; t <= STREAM_BOOL; t++) {
        stream_elem_f f = stream_elem_converter(STREAM_BOOL, STREAM_NATIVE, t);
        in[77] = 0;
        ck_assert(f(out, in, 100));
        in[77] = 2;
        ck_assert(!f(out, in, 100));
        ck_assert(f(out, in, 77));
    }
    ck_assert(!stream_elem_truth(in, 100));
    ck_assert(!stream_elem_copies(STREAM_BOOL, STREAM_NATIVE, STREAM_BOOL));
}
END_TEST

START_TEST(test_names)
{
    for (enum stream_type t = STREAM_I8; t < STREAM_RECORD; t++)
        ck_assert_int_eq(stream_elem_by_name(stream_elem_name(t)), t);
    ck_assert_int_eq(stream_elem_by_name("record"), 0);
    ck_assert_int_eq(stream_elem_by_name(""), 0);
    ck_assert_str_eq(stream_elem_name((enum stream_type)99), "?");
    ck_assert_uint_eq(stream_elem_size(STREAM_STRING), 0);
}
END_TEST

static const struct {
    enum stream_type type;
    const char *text;
    double value; /* NAN: refused */
} texts[] = {
    {STREAM_I8, "-128", -128},
    {STREAM_I8, "127", 127},
    {STREAM_I8, "128", NAN},
    {STREAM_I8, "-129", NAN},
    {STREAM_U8, "255", 255},
    {STREAM_U8, "256", NAN},
    {STREAM_U8, "-0", NAN},
    {STREAM_I16, "-32768", -32768},
    {STREAM_U16, "65535", 65535},
    {STREAM_I32, "-2147483648", -2147483648.},
    {STREAM_I32, "2147483648", NAN},
    {STREAM_U32, "4294967295", 4294967295.},
    {STREAM_I64, "-9223372036854775808", -9223372036854775808.},
    {STREAM_I64, "9223372036854775808", NAN},
    {STREAM_U64, "18446744073709551615", 18446744073709551615.},
    {STREAM_U64, "18446744073709551616", NAN},
    {STREAM_I32, "", NAN},
    {STREAM_I32, "-", NAN},
    {STREAM_I32, "1x", NAN},
    {STREAM_I32, " 1", NAN},
    {STREAM_I32, "+1", NAN},
    {STREAM_F32, "1.5", 1.5},
    {STREAM_F64, "-2.5e3", -2500},
    {STREAM_F64, " 1", NAN},
    {STREAM_F64, "1,5", NAN},
    {STREAM_F64, "", NAN},
    {STREAM_F32, "x", NAN},
    {STREAM_BOOL, "true", 1},
    {STREAM_BOOL, "false", 0},
    {STREAM_BOOL, "1", NAN},
    {STREAM_CHAR, "a", 'a'},
    {STREAM_CHAR, "", NAN},
    {STREAM_CHAR, "ab", NAN},
    {STREAM_BYTES, "1", NAN},
    {STREAM_C64, "1", NAN},
    {STREAM_STRING, "a", NAN},
};

START_TEST(test_parse)
{
    uint64_t out[2] = {0};
    struct number n;
    int rc;

    errno = 0;
    rc = stream_elem_parse(texts[_i].type, texts[_i].text, out);
    if (isnan(texts[_i].value)) {
        ck_assert_int_eq(rc, -1);
        ck_assert_int_eq(errno, EINVAL);
        return;
    }
    ck_assert_int_eq(rc, 0);
    get(texts[_i].type, out, &n);
    ck_assert(n.re == texts[_i].value);
}
END_TEST

/* Sizes of arrays. */
START_TEST(test_sizes)
{
    for (enum stream_type t = STREAM_I8; t <= STREAM_U64; t++) {
        uint8_t at[9], turned[9];
        size_t size = stream_elem_size(t);
        uint64_t v;

        stream_elem_size_put(t, at + 1, 100);
        for (size_t i = 0; i < size; i++)
            turned[1 + i] = at[size - i];
        ck_assert(stream_elem_size_value(t, STREAM_NATIVE, at + 1, &v) && v == 100);
        ck_assert(stream_elem_size_value(t,
                                         STREAM_NATIVE == STREAM_BIG ? STREAM_LITTLE : STREAM_BIG,
                                         turned + 1, &v) &&
                  v == 100);
        memset(at, 0xff, sizeof(at));
        ck_assert(stream_elem_size_value(t, STREAM_NATIVE, at + 1, &v) == (t > STREAM_I64));
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("elem");

    tcase_add_test(tc, test_conversions);
    tcase_add_test(tc, test_truth);
    tcase_add_test(tc, test_names);
    tcase_add_loop_test(tc, test_parse, 0, sizeof(texts) / sizeof(texts[0]));
    tcase_add_test(tc, test_sizes);
    return run_case("elem", tc);
}
