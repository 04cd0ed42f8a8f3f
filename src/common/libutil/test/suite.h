/* Run Check cases and give main's exit code; for the unit tests of all directories. */
#ifndef UTIL_TEST_SUITE_H
#define UTIL_TEST_SUITE_H

#include <check.h>
#include <stddef.h>
#include <stdlib.h>

/* How many of `n` runs by chance a test makes: all of them, or an eighth in a sanitized build,
 * which takes up to thirty times as long for each.  The first runs are the same in both. */
static inline unsigned suite_runs(unsigned n)
{
    const char *sanitizers = getenv("FLUX_TEST_SANITIZERS");

    return sanitizers && *sanitizers && n >= 8 ? n / 8 : n;
}

/* The step of a loop over allocations that fail: not each one with sanitizers, which are slower. */
static inline unsigned suite_stride(void)
{
    return suite_runs(8) == 8 ? 1 : 7;
}

/* Of a suite `name` of the one case `tc`, which is freed. */
static inline int run_case(const char *name, TCase *tc)
{
    Suite *s = suite_create(name);
    SRunner *sr;
    int failed;

    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}

/* Of one in which these tests run, each once and without anything around it. */
static inline int run_suite(const char *name, const TTest *const *tests, size_t n)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tc, tests[i]);
    return run_case(name, tc);
}

#define RUN_SUITE(name, ...)                                             \
    do {                                                                 \
        const TTest *const list_[] = {__VA_ARGS__};                      \
        return run_suite(name, list_, sizeof(list_) / sizeof(list_[0])); \
    } while (0)

#endif
