/* Run Check cases and give main's exit code; for the programs of this directory and its like. */
#ifndef FLUX_TEST_SUITE_H
#define FLUX_TEST_SUITE_H

#include <check.h>
#include <stddef.h>

static inline int run_suite(const char *name, const TTest *const *tests, size_t n)
{
    Suite *s = suite_create(name);
    TCase *tc = tcase_create("core");
    SRunner *sr;
    int failed;

    for (size_t i = 0; i < n; i++)
        tcase_add_test(tc, tests[i]);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}

#define RUN_SUITE(name, ...)                                             \
    do {                                                                 \
        const TTest *const list_[] = {__VA_ARGS__};                      \
        return run_suite(name, list_, sizeof(list_) / sizeof(list_[0])); \
    } while (0)

#endif
