/* Windows of a reduction: by number and bytes. */
#include <check.h>

#include "libreduce/window.h"
#include "libutil/test/suite.h"

START_TEST(by_count)
{
    struct window w;

    window_init(&w, (struct window_limits){.count = 3});
    ck_assert(!window_add(&w, 1000));
    ck_assert(!window_add(&w, 1000));
    ck_assert(window_add(&w, 0));
    window_reset(&w);
    ck_assert(!window_add(&w, 1));
}
END_TEST

START_TEST(by_bytes)
{
    struct window w;

    window_init(&w, (struct window_limits){.bytes = 100});
    ck_assert(!window_add(&w, 99));
    ck_assert(!window_add(&w, 0));
    ck_assert(window_add(&w, 1));
    window_reset(&w);
    ck_assert(window_add(&w, 100));
}
END_TEST

START_TEST(without_limits)
{
    struct window w;

    window_init(&w, (struct window_limits){0});
    for (int i = 0; i < 1000; i++)
        ck_assert(!window_add(&w, 1 << 20));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("window");

    tcase_add_test(tc, by_count);
    tcase_add_test(tc, by_bytes);
    tcase_add_test(tc, without_limits);
    return run_case("window", tc);
}
