/* check_duration.c - durations as text. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/duration.h"
#include "libutil/test/suite.h"

START_TEST(good)
{
    static const struct {
        const char *text;
        double seconds;
    } tests[] = {
        {"0", 0},
        {"90", 90},
        {"1.5", 1.5},
        {"1.5h", 5400},
        {"30s", 30},
        {"100ms", 0.1},
        {"2d", 172800},
        {"1d", 86400},
        {"1m", 60},
        {"7us", 7e-6},
        {"3ns", 3e-9},
        {"0.5d", 43200},
        {"007s", 7},
        {"0.001", 0.001},
        {"0.1", 0.1},
        {"1000000000000", 1e12},
        {"inf", INFINITY},
        {"0.0000000000000000000000001", 1e-25},
        {".5", 0.5},
        {"1.", 1},
        {"1.m", 60},
        {"1e3", 1000},
        {"1.5e+1h", 54000},
        {"25E-1s", 2.5},
        {"2:30", 150},
        {"1:00:00", 3600},
        {"0:90:00", 5400},
        {"01:02:03", 3723},
        {"1-0", 86400},
        {"2-12", 216000},
        {"1-00:30", 88200},
        {"1-01:01:01", 90061},
        {"0-0:0:5", 5},
        {"INF", INFINITY},
        {"Infinity", INFINITY},
        {"UNLIMITED", INFINITY},
        {"infinite", INFINITY},
        {"0e99999", 0},
        {"1e-99999", 0},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        double x = -1;

        ck_assert_int_eq(duration_parse(tests[i].text, &x, NULL), 0);
        ck_assert_msg(x == tests[i].seconds, "%s is %.17g", tests[i].text, x);
    }
}
END_TEST

/* Without a unit a job's limit counts minutes; nothing else differs. */
START_TEST(minutes)
{
    static const char *same[] = {"90s", "1.5h", "inf", "2:30", "1:0:0", "1-12", "100ms"};
    double x, y;

    ck_assert_int_eq(duration_parse_minutes("30", &x, NULL), 0);
    ck_assert(x == 1800);
    ck_assert_int_eq(duration_parse_minutes("0.5", &x, NULL), 0);
    ck_assert(x == 30);
    ck_assert_int_eq(duration_parse_minutes("1e12", &x, NULL), -1);
    ck_assert_int_eq(errno, ERANGE);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        ck_assert_int_eq(duration_parse_minutes(same[i], &x, NULL), 0);
        ck_assert_int_eq(duration_parse(same[i], &y, NULL), 0);
        ck_assert_msg(x == y, "%s", same[i]);
    }
}
END_TEST

START_TEST(bad)
{
    static const char *tests[] = {
        "",      " ",         "-1",   "+1",      "nan",  "NaN",   "-inf", "0x10",  " 1",    "1 ",
        "1 s",   "s",         ".",    ".s",      "1..2", "1.2.3", "1sec", "1S",    "1D",    "1h30m",
        "1,5",   "1\n",       "ms",   "1.5hh",   "1w",   "e3",    "1e",   "1e+",   "1e3e3", ":",
        "1:",    ":1",        "1::2", "1:2:3:4", "1:2:", "1:-2",  "1:2s", "1:2.5", "1-",    "-1:0",
        "1-2-3", "1-2:3:4:5", "1-:2", "1:2-3",   "--1",  "infin", "1-2h", "1.5-2",
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        double x = 42;
        errmsg_t err = {""};

        errno = 0;
        ck_assert_msg(duration_parse(tests[i], &x, &err) == -1, "\"%s\" was taken", tests[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert(x == 42);
        ck_assert_uint_gt(strlen(err.text), 10);
    }
    ck_assert_int_eq(duration_parse(NULL, &(double){0}, NULL), -1);
}
END_TEST

START_TEST(out_of_range)
{
    char big[6000];
    double x = 42;

    ck_assert_int_eq(duration_parse("1000000000001", &x, NULL), -1);
    ck_assert_int_eq(errno, ERANGE);
    ck_assert_int_eq(duration_parse("1e99999", &x, NULL), -1);
    ck_assert_int_eq(errno, ERANGE);
    ck_assert_int_eq(duration_parse("99999999999-0", &x, NULL), -1);
    ck_assert_int_eq(errno, ERANGE);
    ck_assert_int_eq(duration_parse("1:99999999999999999999", &x, NULL), -1);
    ck_assert_int_eq(errno, ERANGE);
    ck_assert_int_eq(duration_parse("999999999999d", &x, NULL), -1);
    ck_assert_int_eq(errno, ERANGE);
    memset(big, '9', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    ck_assert_int_eq(duration_parse(big, &x, NULL), -1);
    ck_assert_int_eq(errno, ERANGE);
    memset(big, '0', sizeof(big) - 1);
    ck_assert_int_eq(duration_parse(big, &x, NULL), 0);
    ck_assert(x == 0);
    big[1] = '.';
    x = 42;
    ck_assert_int_eq(duration_parse(big, &x, NULL), -1);
    ck_assert(x == 42);
}
END_TEST

START_TEST(format)
{
    static const struct {
        double seconds;
        const char *text;
    } tests[] = {
        {0, "0s"},
        {1, "1s"},
        {90, "1.5m"},
        {5400, "1.5h"},
        {86400, "1d"},
        {0.1, "100ms"},
        {0.0005, "500us"},
        {1e-9, "1ns"},
        {3661, "3661s"},
        {INFINITY, "inf"},
        {-1, "?"},
        {NAN, "?"},
        {100000, "100000s"},
        {1e12, "1000000000000s"},
        {0.1 + 0.2, "300ms"},
        {1234.56789, "20.5761m"},
        {60, "1m"},
        {1e-12, "0.001ns"},
    };
    char buf[32];

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        ck_assert_str_eq(duration_format(tests[i].seconds, buf, sizeof(buf)), tests[i].text);
    ck_assert_str_eq(duration_format(86400, buf, 2), "1");
}
END_TEST

/* What is formatted parses to the same within the 6 digits promised. */
START_TEST(round_trip)
{
    srandom(1);
    for (int i = 0; i < 100000; i++) {
        double x = ldexp((double)random(), (int)(random() % 60) - 50);
        double y;
        char buf[32];

        if (x > 1e12)
            continue;
        if (duration_parse(duration_format(x, buf, sizeof(buf)), &y, NULL) < 0)
            ck_abort_msg("%s does not parse", buf);
        if (x >= 1e-9 && fabs(x - y) > 1e-5 * x)
            ck_abort_msg("%.17g became %s", x, buf);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, good);
    tcase_add_test(tc, minutes);
    tcase_add_test(tc, bad);
    tcase_add_test(tc, out_of_range);
    tcase_add_test(tc, format);
    tcase_add_test(tc, round_trip);
    return run_case("duration", tc);
}
