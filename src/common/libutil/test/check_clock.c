/* check_clock.c - the clocks' readings agree with each other, whatever their unit. */
#include "config.h"
#include "suite.h"

#include <math.h>
#include <time.h>

#include "libutil/clock.h"

START_TEST(test_units)
{
    uint64_t us = clock_now_us();
    double s = clock_now();
    uint64_t later = clock_now_us();

    ck_assert(us <= later);
    ck_assert_msg(s >= 1e-6 * (double)us - 1e-6 && s <= 1e-6 * (double)later + 2e-6,
                  "%f s is not between %f s and %f s", s, 1e-6 * (double)us, 1e-6 * (double)later);
}
END_TEST

/* The readings are those of the clocks that their names say. */
START_TEST(test_which)
{
    struct timespec before, after;

    clock_gettime(CLOCK_MONOTONIC, &before);
    uint64_t us = clock_now_us();
    clock_gettime(CLOCK_MONOTONIC, &after);
    ck_assert_uint_ge(us, (uint64_t)before.tv_sec * 1000000 + (uint64_t)before.tv_nsec / 1000);
    ck_assert_uint_le(us, (uint64_t)after.tv_sec * 1000000 + (uint64_t)after.tv_nsec / 1000);
    ck_assert_uint_ge(clock_wall_us(), UINT64_C(1577836800000000)); /* 2020 */
    ck_assert(clock_wall() >= 1577836800.);
    clock_gettime(CLOCK_BOOTTIME, &before);
    double s = clock_boot();
    clock_gettime(CLOCK_BOOTTIME, &after);
    ck_assert(s >= (double)before.tv_sec + 1e-9 * (double)before.tv_nsec - 1e-6);
    ck_assert(s <= (double)after.tv_sec + 1e-9 * (double)after.tv_nsec + 1e-6);
}
END_TEST

/* A timeout of poll(2) does not end too early, and is never one without end. */
START_TEST(test_poll)
{
    ck_assert_int_eq(clock_poll_ms(-1.), 0);
    ck_assert_int_eq(clock_poll_ms(0.), 0);
    ck_assert_int_eq(clock_poll_ms(1e-9), 1);
    ck_assert_int_eq(clock_poll_ms(2.5), 2501);
    ck_assert_int_eq(clock_poll_ms(1e300), 1000000000);
    ck_assert_int_eq(clock_poll_ms(INFINITY), 1000000000);
}
END_TEST

int main(void)
{
    RUN_SUITE("clock", test_units, test_which, test_poll);
}
