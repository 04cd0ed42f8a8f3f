/* check_size.c - sizes in bytes as text. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/size.h"
#include "libutil/test/suite.h"

START_TEST(good)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } tests[] = {
        {"0", 0},
        {"64", 64},
        {"64B", 64},
        {"64K", 65536},
        {"64k", 65536},
        {"64KiB", 65536},
        {"64KB", 64000},
        {"1.5M", 1572864},
        {"2GiB", 2147483648},
        {"3GB", 3000000000},
        {"1T", 1099511627776},
        {"1P", 1125899906842624},
        {"15E", 15ULL << 60},
        {"18446744073709551615", UINT64_MAX},
        {"0.5K", 512},
        {"1.3K", 1331},
        {"15.999E", 18445591152204944769ULL},
        {"0E", 0},
        {"0001", 1},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        uint64_t n = 1;

        ck_assert_msg(size_parse(tests[i].text, &n, NULL) == 0, "%s", tests[i].text);
        ck_assert_msg(n == tests[i].bytes, "%s is %ju", tests[i].text, (uintmax_t)n);
    }
}
END_TEST

START_TEST(bad)
{
    static const struct {
        const char *text;
        int errnum;
    } tests[] = {
        {"", EINVAL},
        {"-1", EINVAL},
        {"+1", EINVAL},
        {" 1", EINVAL},
        {"1 ", EINVAL},
        {"1 K", EINVAL},
        {"K", EINVAL},
        {".5K", EINVAL},
        {"1.K", EINVAL},
        {"1.5", EINVAL},
        {"1.5B", EINVAL},
        {"1Ki", EINVAL},
        {"1KIB", EINVAL},
        {"1Kb", EINVAL},
        {"1X", EINVAL},
        {"1KK", EINVAL},
        {"0x1", EINVAL},
        {"1e3", EINVAL},
        {"1.2.3K", EINVAL},
        {"inf", EINVAL},
        {"16E", ERANGE},
        {"18446744073709551616", ERANGE},
        {"99999999999999999999E", ERANGE},
        {"100000000000000000000", ERANGE},
        {"1bytes", EINVAL},
        {"1\xc3", EINVAL},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        uint64_t n = 42;
        errmsg_t err = {""};

        errno = 0;
        ck_assert_msg(size_parse(tests[i].text, &n, &err) == -1, "\"%s\"", tests[i].text);
        ck_assert_int_eq(errno, tests[i].errnum);
        ck_assert_uint_eq(n, 42);
        ck_assert_uint_gt(strlen(err.text), 10);
    }
    ck_assert_int_eq(size_parse(NULL, &(uint64_t){0}, NULL), -1);
}
END_TEST

START_TEST(format)
{
    char buf[32];

    ck_assert_str_eq(size_format(0, buf, sizeof(buf)), "0");
    ck_assert_str_eq(size_format(1000, buf, sizeof(buf)), "1000");
    ck_assert_str_eq(size_format(1536, buf, sizeof(buf)), "1.5K");
    ck_assert_str_eq(size_format(10ULL << 20, buf, sizeof(buf)), "10M");
    ck_assert_str_eq(size_format(UINT64_MAX, buf, sizeof(buf)), "18446744073709551615");
    ck_assert_str_eq(size_format(1ULL << 63, buf, sizeof(buf)), "8E");
    ck_assert_str_eq(size_format_short(999, buf, sizeof(buf)), "999");
    ck_assert_str_eq(size_format_short(1000, buf, sizeof(buf)), "0.98K");
    ck_assert_str_eq(size_format_short(1536, buf, sizeof(buf)), "1.50K");
    ck_assert_str_eq(size_format_short(15 << 20, buf, sizeof(buf)), "15.0M");
    ck_assert_str_eq(size_format_short(UINT64_MAX, buf, sizeof(buf)), "16.0E");
    ck_assert_str_eq(size_format(1536, buf, 3), "1.");
}
END_TEST

START_TEST(round_trip)
{
    srandom(1);
    for (int i = 0; i < 100000; i++) {
        uint64_t n = ((uint64_t)random() << (random() % 33)) & (UINT64_MAX << (random() % 33));
        uint64_t back = n + 1;
        char buf[32];

        if (size_parse(size_format(n, buf, sizeof(buf)), &back, NULL) < 0 || back != n)
            ck_abort_msg("%ju became %s, which is %ju", (uintmax_t)n, buf, (uintmax_t)back);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, good);
    tcase_add_test(tc, bad);
    tcase_add_test(tc, format);
    tcase_add_test(tc, round_trip);
    return run_case("size", tc);
}
