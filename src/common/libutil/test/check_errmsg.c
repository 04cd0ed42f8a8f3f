/* check_errmsg.c - sentences for people. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <string.h>

#include "libutil/errmsg.h"

START_TEST(sentences)
{
    errmsg_t e;
    char big[1000];

    errno = 7;
    errmsg_set(&e, "rank %d is lost", 3);
    ck_assert_int_eq(errno, 7);
    ck_assert_str_eq(e.text, "rank 3 is lost");
    ck_assert_int_eq(errmsg_fail(&e, EINVAL, "a\nb\x1b[1m%s", "\x7f"), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_eq(e.text, "a b [1m ");
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    errmsg_set(&e, "%s", big);
    ck_assert_uint_eq(strlen(e.text), sizeof(e.text) - 1);
    errmsg_set(NULL, "nobody listens");
    ck_assert_int_eq(errmsg_fail(NULL, EIO, "nobody listens"), -1);
    ck_assert_int_eq(errno, EIO);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("errmsg");
    TCase *tc = tcase_create("core");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, sentences);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
