/* check_errmsg.c - error messages for people. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <string.h>

#include "libutil/errmsg.h"
#include "libutil/test/suite.h"

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
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, sentences);
    return run_case("errmsg", tc);
}
