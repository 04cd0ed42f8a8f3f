/* Windows of a reduction: by number, bytes and age. */
#include <check.h>

#include "libreduce/window.h"
#include "libutil/test/suite.h"

START_TEST(by_count)
{
    struct window w;

    window_init(&w, (struct window_limits){.count = 3});
    ck_assert(window_empty(&w));
    ck_assert(!window_due(&w, 1e9));
    ck_assert(!window_add(&w, 1000, 1.));
    ck_assert(!window_add(&w, 1000, 1e6));
    ck_assert(!window_empty(&w));
    ck_assert(window_add(&w, 0, 1e6));
    window_reset(&w);
    ck_assert(window_empty(&w));
    ck_assert(!window_add(&w, 1, 0.));
}
END_TEST

START_TEST(by_bytes)
{
    struct window w;

    window_init(&w, (struct window_limits){.bytes = 100});
    ck_assert(!window_add(&w, 99, 0.));
    ck_assert(!window_add(&w, 0, 0.));
    ck_assert(window_add(&w, 1, 0.));
    window_reset(&w);
    ck_assert(window_add(&w, 100, 0.));
}
END_TEST

START_TEST(by_age)
{
    struct window w;

    window_init(&w, (struct window_limits){.age = 2., .count = 10});
    ck_assert(window_wait(&w, 5.) < 0);
    ck_assert(!window_add(&w, 1, 5.));
    ck_assert_double_eq_tol(window_wait(&w, 5.), 2., 1e-9);
    ck_assert_double_eq_tol(window_wait(&w, 6.5), .5, 1e-9);
    ck_assert(!window_add(&w, 1, 6.9));
    ck_assert(!window_due(&w, 6.9));
    ck_assert(window_due(&w, 7.));
    ck_assert_double_eq(window_wait(&w, 8.), 0.);
    window_reset(&w);
    ck_assert(!window_due(&w, 9.));
    ck_assert(!window_add(&w, 1, 9.));
    ck_assert_double_eq_tol(window_wait(&w, 9.), 2., 1e-9);
}
END_TEST

START_TEST(without_limits)
{
    struct window w;

    window_init(&w, (struct window_limits){0});
    for (int i = 0; i < 1000; i++)
        ck_assert(!window_add(&w, 1 << 20, i));
    ck_assert(window_wait(&w, 2000.) < 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("window");

    tcase_add_test(tc, by_count);
    tcase_add_test(tc, by_bytes);
    tcase_add_test(tc, by_age);
    tcase_add_test(tc, without_limits);
    return run_case("window", tc);
}
