/* check_slice.c - slices of arrays as text, and elements as JSON. */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "../slice.h"
#include "libutil/test/suite.h"

static const struct flux_stream_info info = {.ndims = 2, .shape = {10, 7}};

static void good(const char *text, uint64_t s0, uint64_t n0, uint64_t d0, uint64_t s1, uint64_t n1,
                 uint64_t d1)
{
    struct slice sl;
    errmsg_t err;

    ck_assert_msg(slice_parse(&sl, text, &info, &err) == 0, "%s: %s", text, err.text);
    ck_assert(sl.start[0] == s0 && sl.count[0] == n0 && sl.stride[0] == d0);
    ck_assert(sl.start[1] == s1 && sl.count[1] == n1 && sl.stride[1] == d1);
    ck_assert_uint_eq(sl.elems, n0 * n1);
}

START_TEST(slices)
{
    good("", 0, 10, 1, 0, 7, 1);
    good(":", 0, 10, 1, 0, 7, 1);
    good("3", 3, 1, 1, 0, 7, 1);
    good("0:10,:", 0, 10, 1, 0, 7, 1);
    good("2:5,6", 2, 3, 1, 6, 1, 1);
    good(":4,5:", 0, 4, 1, 5, 2, 1);
    good("::3,1:6:2", 0, 4, 3, 1, 3, 2);
    good("2:9:18446744073709551615,:", 2, 1, UINT64_MAX, 0, 7, 1);
}
END_TEST

START_TEST(wrong)
{
    static const char *const malformed[] = {
        ",",     "a",  "1:2:0", "1:2:",    "1,2,3", "1:x",
        ": , :", "1,", "-1:2",  "1:2:3:4", ":,",    "99999999999999999999:"};
    static const char *const outside[] = {"10", "0:11", ":,7", "5:5", "6:5"};
    struct slice sl;
    errmsg_t err;

    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        ck_assert_msg(slice_parse(&sl, malformed[i], &info, &err) == -1, "%s", malformed[i]);
        ck_assert_int_eq(errno, EINVAL);
    }
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        ck_assert_msg(slice_parse(&sl, outside[i], &info, &err) == -1, "%s", outside[i]);
        ck_assert_int_eq(errno, ERANGE);
    }
    ck_assert_str_eq(err.text, "'6:5': dimension 1 of the array has 10 elements");
}
END_TEST

static void element(const char *type, const void *at, const char *want)
{
    json_t *o = slice_element(type, at);
    char *text = json_dumps(o, JSON_ENCODE_ANY | JSON_COMPACT);

    ck_assert_str_eq(text, want);
    free(text);
    json_decref(o);
}

START_TEST(elements)
{
    element("i8", &(int8_t){-5}, "-5");
    element("i16", &(int16_t){-500}, "-500");
    element("i32", &(int32_t){-50000}, "-50000");
    element("i64", &(int64_t){INT64_MIN + 1}, "-9223372036854775807");
    element("u8", &(uint8_t){200}, "200");
    element("u16", &(uint16_t){60000}, "60000");
    element("u32", &(uint32_t){4000000000}, "4000000000");
    element("u64", &(uint64_t){INT64_MAX}, "9223372036854775807");
    element("f32", &(float){0.5f}, "0.5");
    element("f64", &(double){-2.25}, "-2.25");
    element("f64", &(double){NAN}, "null");
    element("c64", (float[]){1.f, -1.f}, "[1.0,-1.0]");
    element("c128", (double[]){0.5, INFINITY}, "[0.5,null]");
    element("bool", &(uint8_t){1}, "true");
    element("char", "A", "65");
    element("bytes", "\xff", "255");
    element("record", "", "null");
}
END_TEST

int main(void)
{
    RUN_SUITE("slice", slices, wrong, elements);
}
