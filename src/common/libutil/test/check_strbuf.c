/* check_strbuf.c - text under construction. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strbuf.h"
#include "libutil/test/suite.h"

START_TEST(basics)
{
    strbuf_t *sb = strbuf_create(0);
    char *s;

    ck_assert_str_eq(strbuf_str(sb), "");
    ck_assert_int_eq(strbuf_add(sb, "a"), 0);
    ck_assert_int_eq(strbuf_addc(sb, 'b'), 0);
    ck_assert_int_eq(strbuf_addn(sb, "cdef", 2), 0);
    ck_assert_int_eq(strbuf_addf(sb, "-%d-%s", 7, "x"), 0);
    ck_assert_str_eq(strbuf_str(sb), "abcd-7-x");
    ck_assert_uint_eq(strbuf_len(sb), 8);
    strbuf_trunc(sb, 100);
    strbuf_trunc(sb, 4);
    s = strbuf_take(sb);
    ck_assert_str_eq(s, "abcd");
    free(s);
    s = strbuf_take(strbuf_create(0));
    ck_assert_str_eq(s, "");
    free(s);
}
END_TEST

START_TEST(long_format)
{
    strbuf_t *sb = strbuf_create(0);
    char *s;

    for (int i = 0; i < 2000; i++)
        ck_assert_int_eq(strbuf_addf(sb, "%*d", i, i), 0);
    s = strbuf_take(sb);
    ck_assert_uint_eq(strlen(s), 1 + 1999 * 2000 / 2);
    free(s);
}
END_TEST

START_TEST(bound_sticks)
{
    strbuf_t *sb = strbuf_create(5);

    ck_assert_int_eq(strbuf_add(sb, "12345"), 0);
    ck_assert_int_eq(strbuf_addc(sb, '6'), -1);
    ck_assert_int_eq(errno, E2BIG);
    strbuf_trunc(sb, 0);
    errno = 0;
    ck_assert_int_eq(strbuf_add(sb, ""), -1);
    ck_assert_int_eq(errno, E2BIG);
    errno = 0;
    ck_assert_ptr_null(strbuf_take(sb));
    ck_assert_int_eq(errno, E2BIG);
}
END_TEST

START_TEST(null_means_enomem)
{
    errno = 0;
    ck_assert_int_eq(strbuf_add(NULL, "x"), -1);
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(strbuf_addf(NULL, "%d", 1), -1);
    ck_assert_str_eq(strbuf_str(NULL), "");
    ck_assert_uint_eq(strbuf_len(NULL), 0);
    ck_assert_ptr_null(strbuf_take(NULL));
    errno = 42;
    strbuf_destroy(NULL);
    strbuf_destroy(strbuf_create(0));
    ck_assert_int_eq(errno, 42);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, basics);
    tcase_add_test(tc, long_format);
    tcase_add_test(tc, bound_sticks);
    tcase_add_test(tc, null_means_enomem);
    return run_case("strbuf", tc);
}
