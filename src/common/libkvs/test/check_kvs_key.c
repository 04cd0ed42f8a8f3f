/* check_kvs_key.c - which texts are keys. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libkvs/kvs_key.h"
#include "libutil/test/suite.h"

static const struct {
    const char *key;
    int errnum;
} cases[] = {
    {"a", 0},
    {"job.1.state", 0},
    {"P0-businesscard", 0},
    {"with space", 0},
    {"\xc3\xa4.\xe2\x82\xac", 0},
    {"", EINVAL},
    {".", EINVAL},
    {"a.", EINVAL},
    {".a", EINVAL},
    {"a.b..c", EINVAL},
    {"a\nb", EINVAL},
    {"a\x7f", EINVAL},
    {"\xff", EINVAL},
    {"a.\xc3", EINVAL},
};

START_TEST(good_and_bad)
{
    errmsg_t err = {""};
    errno = 0;
    int rc = kvs_key_check(cases[_i].key, strlen(cases[_i].key), &err);
    ck_assert_int_eq(rc, cases[_i].errnum ? -1 : 0);
    ck_assert_int_eq(errno, cases[_i].errnum);
    ck_assert(rc == 0 || err.text[0]);
}
END_TEST

START_TEST(limits)
{
    char key[2000];
    memset(key, 'x', sizeof(key));
    ck_assert_int_eq(kvs_key_check(key, 255, NULL), 0);
    ck_assert_int_eq(kvs_key_check(key, 256, NULL), -1);
    ck_assert_int_eq(errno, ENAMETOOLONG);
    for (int i = 1; i < 2000; i += 16)
        key[i] = '.';
    ck_assert_int_eq(kvs_key_check(key, 1000, NULL), 0);
    ck_assert_int_eq(kvs_key_check(key, 1024, NULL), -1); /* 65 names */
    ck_assert_int_eq(kvs_key_check(key, 1025, NULL), -1);
    ck_assert_int_eq(errno, ENAMETOOLONG);
}
END_TEST

START_TEST(names)
{
    const char *rest;
    size_t restlen;
    ck_assert_uint_eq(kvs_key_name("ab.c.d", 6, &rest, &restlen), 2);
    ck_assert_uint_eq(restlen, 3);
    ck_assert_uint_eq(kvs_key_name(rest, restlen, &rest, &restlen), 1);
    ck_assert_uint_eq(kvs_key_name(rest, restlen, &rest, &restlen), 1);
    ck_assert_ptr_null(rest);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, good_and_bad, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tc, limits);
    tcase_add_test(tc, names);
    return run_case("kvs_key", tc);
}
