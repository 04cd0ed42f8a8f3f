/* check_strutil.c - strict numbers and string functions. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libutil/strutil.h"
#include "libutil/test/suite.h"

START_TEST(numbers)
{
    uint32_t u32 = 7;
    uint64_t u64 = 7;
    int32_t i32 = 7;

    ck_assert(str2u32("4294967295", &u32) == 0 && u32 == UINT32_MAX);
    ck_assert(str2u32("0", &u32) == 0 && u32 == 0);
    ck_assert(str2u64("18446744073709551615", &u64) == 0 && u64 == UINT64_MAX);
    ck_assert(str2i32("2147483647", &i32) == 0 && i32 == INT32_MAX);
    ck_assert(str2i32("-2147483648", &i32) == 0 && i32 == INT32_MIN);
    ck_assert(str2i32("-0", &i32) == 0 && i32 == 0);
    ck_assert(str2i32("-1", &i32) == 0 && i32 == -1);
}
END_TEST

START_TEST(bad_numbers)
{
    static const char *malformed[] = {"",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "1.0",
                                      "0x1",
                                      "a",
                                      "1a",
                                      "--1",
                                      "-",
                                      "\n",
                                      "1\n",
                                      "99999999999999999999999x"};
    uint32_t u32 = 7;
    uint64_t u64 = 7;
    int32_t i32 = 7;

    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        errno = 0;
        ck_assert_int_eq(str2u32(malformed[i], &u32), -1);
        ck_assert_int_eq(errno, EINVAL);
        errno = 0;
        ck_assert_int_eq(str2i32(malformed[i], &i32), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_int_eq(str2u64(NULL, &u64), -1);
    ck_assert_int_eq(str2i32(NULL, &i32), -1);
    ck_assert(str2u32("-1", &u32) < 0 && errno == EINVAL);
    ck_assert(str2u32("4294967296", &u32) < 0 && errno == ERANGE);
    ck_assert(str2u64("18446744073709551616", &u64) < 0 && errno == ERANGE);
    ck_assert(str2i32("2147483648", &i32) < 0 && errno == ERANGE);
    ck_assert(str2i32("-2147483649", &i32) < 0 && errno == ERANGE);
    ck_assert(u32 == 7 && u64 == 7 && i32 == 7);
}
END_TEST

START_TEST(booleans)
{
    bool b = false;

    ck_assert(str2bool("yes", &b) == 0 && b);
    ck_assert(str2bool("off", &b) == 0 && !b);
    ck_assert(str2bool("1", &b) == 0 && b);
    ck_assert(str2bool("false", &b) == 0 && !b);
    ck_assert(str2bool("", &b) < 0 && str2bool("Yes", &b) < 0 && str2bool(NULL, &b) < 0);
}
END_TEST

START_TEST(ends)
{
    ck_assert(str_starts("kvs.commit", "kvs."));
    ck_assert(str_starts("a", "") && str_ends("a", "") && str_ends("", ""));
    ck_assert(!str_starts("kvs", "kvs.") && !str_starts(NULL, "x") && !str_starts("x", NULL));
    ck_assert(str_ends("mod.so", ".so") && !str_ends("so", ".so") && !str_ends(NULL, "x"));
}
END_TEST

START_TEST(utf8)
{
    static const struct {
        const char *text;
        size_t span;
    } tests[] = {
        {"", 0},
        {"abc", 3},
        {"\xc3\xa9", 2},
        {"\xe2\x82\xac!", 4},
        {"\xf0\x9f\x98\x80", 4},
        {"a\xff", 1},
        {"a\x80", 1},
        {"a\xc3", 1},            /* cut off */
        {"\xc0\x80", 0},         /* overlong */
        {"\xe0\x80\x80", 0},     /* overlong */
        {"\xf0\x80\x80\x80", 0}, /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
        {"\xf4\x8f\xbf\xbf", 4},
        {"\xf5\x80\x80\x80", 0},
        {"\xe2\x82!", 0},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        ck_assert_uint_eq(str_utf8_span(tests[i].text, strlen(tests[i].text)), tests[i].span);
    ck_assert_uint_eq(str_utf8_span("\xe2\x82\xac", 2), 0);
}
END_TEST

START_TEST(clean)
{
    static const char *const pairs[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"two\nlines\r\n", "two lines"},
        {"\xff\xfe", "??"},
        {"a\x01\x7f"
         "b",
         "a  b"},
        {"\xc3\xa4\xc3", "\xc3\xa4?"},
    };
    char text[32];

    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        snprintf(text, sizeof(text), "%s", pairs[i][0]);
        str_clean(text);
        ck_assert_str_eq(text, pairs[i][1]);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, numbers);
    tcase_add_test(tc, bad_numbers);
    tcase_add_test(tc, booleans);
    tcase_add_test(tc, ends);
    tcase_add_test(tc, utf8);
    tcase_add_test(tc, clean);
    return run_case("strutil", tc);
}
