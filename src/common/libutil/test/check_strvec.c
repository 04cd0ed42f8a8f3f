/* check_strvec.c - vectors of strings. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strvec.h"
#include "libutil/test/suite.h"

START_TEST(basics)
{
    char *argv[] = {"a", "b", NULL};
    strvec_t *v = strvec_copy_argv(argv);
    char *s;

    ck_assert_uint_eq(strvec_count(v), 2);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(strvec_addf(v, "n%d", i), 0);
    ck_assert_uint_eq(strvec_count(v), 102);
    ck_assert_str_eq(strvec_at(v, 101), "n99");
    ck_assert_ptr_null(strvec_at(v, 102));
    ck_assert_ptr_null(strvec_argv(v)[102]);
    for (int i = 0; i < 99; i++)
        strvec_remove(v, 2);
    strvec_remove(v, 3);
    s = strvec_join(v, ", ");
    ck_assert_str_eq(s, "a, b, n99");
    free(s);
    strvec_destroy(v);
    v = strvec_copy_argv(NULL);
    ck_assert_uint_eq(strvec_count(v), 0);
    ck_assert_ptr_null(strvec_argv(v)[0]);
    s = strvec_join(v, ",");
    ck_assert_str_eq(s, "");
    free(s);
    strvec_destroy(v);
    ck_assert_int_eq(strvec_add(NULL, "x"), -1);
    errno = 42;
    strvec_destroy(NULL);
    ck_assert_int_eq(errno, 42);
}
END_TEST

START_TEST(split)
{
    static const struct {
        const char *text;
        size_t count;
        const char *joined;
    } tests[] = {
        {"", 0, ""},   {"a", 1, "a"},   {"a,b", 2, "a|b"}, {"a,,b", 3, "a||b"},
        {",", 2, "|"}, {"a,", 2, "a|"}, {",a", 2, "|a"},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        strvec_t *v = strvec_split(tests[i].text, ',');
        char *s = strvec_join(v, "|");

        ck_assert_uint_eq(strvec_count(v), tests[i].count);
        ck_assert_str_eq(s, tests[i].joined);
        free(s);
        strvec_destroy(v);
    }
}
END_TEST

START_TEST(environment)
{
    strvec_t *v = strvec_create();

    ck_assert_int_eq(strvec_setenv(v, "PATH", "/bin"), 0);
    ck_assert_int_eq(strvec_setenv(v, "PATHS", "x=y"), 0);
    ck_assert_int_eq(strvec_setenv(v, "PATH", ""), 0);
    ck_assert_uint_eq(strvec_count(v), 2);
    ck_assert_str_eq(strvec_argv(v)[0], "PATH=");
    ck_assert_str_eq(strvec_argv(v)[1], "PATHS=x=y");
    ck_assert_int_eq(strvec_setenv(v, "", "x"), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(strvec_setenv(v, "a=b", "x"), -1);
    ck_assert_int_eq(strvec_add(v, "PATH=again"), 0);
    strvec_unsetenv(v, "PAT");
    ck_assert_uint_eq(strvec_count(v), 3);
    strvec_unsetenv(v, "PATH");
    strvec_unsetenv(v, "NONE");
    ck_assert_uint_eq(strvec_count(v), 1);
    ck_assert_str_eq(strvec_argv(v)[0], "PATHS=x=y");
    strvec_destroy(v);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, basics);
    tcase_add_test(tc, split);
    tcase_add_test(tc, environment);
    return run_case("strvec", tc);
}
