/* check_buf.c - buf against a byte counter model. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/buf.h"
#include "libutil/test/suite.h"

START_TEST(basics)
{
    buf_t *b = buf_create(0);
    char *p;

    ck_assert_ptr_nonnull(b);
    ck_assert_uint_eq(buf_len(b), 0);
    ck_assert_ptr_nonnull(buf_data(b));
    ck_assert_int_eq(buf_append(b, NULL, 0), 0);
    ck_assert_int_eq(buf_append(b, "hello", 5), 0);
    p = buf_reserve(b, 6);
    ck_assert_ptr_nonnull(p);
    memcpy(p, " world", 6);
    buf_commit(b, 6);
    ck_assert_uint_eq(buf_len(b), 11);
    ck_assert_mem_eq(buf_data(b), "hello world", 11);
    buf_consume(b, 6);
    ck_assert_mem_eq(buf_data(b), "world", 5);
    buf_consume(b, 100); /* more than is held: all of it */
    ck_assert_uint_eq(buf_len(b), 0);
    ck_assert_ptr_nonnull(buf_reserve(b, 0));
    errno = 42;
    buf_destroy(b);
    buf_destroy(NULL);
    ck_assert_int_eq(errno, 42);
}
END_TEST

START_TEST(bound)
{
    buf_t *b = buf_create(10);

    ck_assert_int_eq(buf_append(b, "12345678", 8), 0);
    errno = 0;
    ck_assert_int_eq(buf_append(b, "abc", 3), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert_uint_eq(buf_len(b), 8);
    ck_assert_int_eq(buf_append(b, "ab", 2), 0);
    ck_assert_ptr_null(buf_reserve(b, 1));
    buf_consume(b, 4);
    ck_assert_int_eq(buf_append(b, "wxyz", 4), 0);
    ck_assert_mem_eq(buf_data(b), "5678abwxyz", 10);
    errno = 0;
    ck_assert_ptr_null(buf_reserve(b, SIZE_MAX));
    ck_assert_int_eq(errno, ENOBUFS);
    buf_destroy(b);
    b = buf_create(0);
    ck_assert_ptr_null(buf_reserve(b, SIZE_MAX));
    ck_assert_ptr_null(buf_reserve(b, SIZE_MAX / 2));
    buf_destroy(b);
}
END_TEST

/* The bytes are a running counter, so that every loss, repeat or reorder shows. */
START_TEST(random_stream)
{
    buf_t *b = buf_create(0);
    unsigned char in = 0;
    unsigned char out = 0;
    size_t len = 0;
    size_t bad = 0;

    srandom(_i + 1);
    for (int step = 0; step < 20000; step++) {
        size_t n = random() % ((step / 2000) % 2 ? 300 : 3000);

        if (random() % 2) {
            unsigned char *p = buf_reserve(b, n);

            ck_assert_ptr_nonnull(p);
            for (size_t i = 0; i < n; i++)
                p[i] = in++;
            buf_commit(b, n);
            len += n;
        } else {
            const unsigned char *p = buf_data(b);

            if (n > len)
                n = len;
            for (size_t i = 0; i < n; i++)
                bad += p[i] != out++;
            buf_consume(b, n);
            len -= n;
        }
        ck_assert_uint_eq(buf_len(b), len);
        ck_assert_uint_eq(bad, 0);
    }
    buf_destroy(b);
}
END_TEST

START_TEST(gives_back)
{
    buf_t *b = buf_create(0);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    char block[4096] = {0};

    for (int i = 0; i < 4096; i++)
        ck_assert_int_eq(buf_append(b, block, sizeof(block)), 0);
    buf_consume(b, buf_len(b) - 10);
    ck_assert_int_eq(buf_append(b, block, sizeof(block)), 0);
    for (int i = 0; i < 8192; i++) { /* never empty, yet small from now on */
        ck_assert_int_eq(buf_append(b, block, sizeof(block)), 0);
        buf_consume(b, sizeof(block));
    }
    ck_assert_uint_lt(mallinfo2().uordblks + mallinfo2().hblkhd, before + 300000);
    buf_consume(b, buf_len(b));
    ck_assert_uint_lt(mallinfo2().uordblks + mallinfo2().hblkhd, before + 70000);
    buf_destroy(b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, basics);
    tcase_add_test(tc, bound);
    tcase_add_loop_test(tc, random_stream, 0, 4);
    tcase_add_test(tc, gives_back);
    return run_case("buf", tc);
}
