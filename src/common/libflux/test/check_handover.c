/* check_handover.c - the state that one instance of a module leaves to the next, and wrong forms of
 * it.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "libflux/handover.h"
#include "libutil/test/suite.h"

static int wrong(flux_handover_t *o)
{
    errmsg_t err = {""};
    int rc = flux_handover_end(o, &err);

    if (rc == 0)
        return 0;
    ck_assert_str_ne(err.text, "");
    return errno;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(round_trip)
{
    flux_handover_t *o = flux_handover_create();
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "a.b"), *got;
    int p[2], fd;
    size_t len;

    ck_assert_int_eq(pipe(p), 0);
    flux_handover_put_mark(o, "one");
    flux_handover_put(o, 0);
    flux_handover_put(o, UINT64_MAX);
    flux_handover_put_data(o, "a\0b", 3);
    flux_handover_put_data(o, NULL, 0);
    flux_handover_put_str(o, "text");
    flux_handover_put_str(o, "");
    flux_handover_put_str(o, NULL);
    flux_handover_put_fd(o, p[1]);
    flux_handover_put_fd(o, -1);
    flux_handover_put_msg(o, msg);
    flux_handover_put_msg(o, NULL);
    flux_handover_put_mark(o, "end");
    ck_assert_int_eq(wrong(o), 0);
    ck_assert(is_open(p[1]));
    close(p[1]);

    flux_handover_get_mark(o, "one");
    ck_assert_uint_eq(flux_handover_get(o, 0), 0);
    ck_assert_uint_eq(flux_handover_get(o, UINT64_MAX), UINT64_MAX);
    ck_assert_mem_eq(flux_handover_get_data(o, &len), "a\0b", 3);
    ck_assert_uint_eq(len, 3);
    (void)flux_handover_get_data(o, &len);
    ck_assert_uint_eq(len, 0);
    ck_assert_str_eq(flux_handover_get_str(o), "text");
    ck_assert_str_eq(flux_handover_get_str(o), "");
    ck_assert_ptr_null(flux_handover_get_str(o));
    fd = flux_handover_get_fd(o);
    ck_assert_int_eq((int)write(fd, "x", 1), 1);
    ck_assert_int_eq(flux_handover_get_fd(o), -1);
    ck_assert_ptr_eq(got = flux_handover_get_msg(o), msg);
    ck_assert_ptr_null(flux_handover_get_msg(o));
    ck_assert_int_eq(wrong(o), EPROTO); /* not all was got */
    flux_handover_get_mark(o, "end");
    ck_assert_int_eq(wrong(o), 0);
    flux_handover_destroy(o);
    ck_assert(is_open(fd));
    close(fd);
    close(p[0]);
    flux_msg_destroy(got);
    flux_msg_destroy(msg);
}
END_TEST

/* A get of a missing or a different item fails, and so do all later ones. */
START_TEST(mismatch)
{
    for (int kind = 0; kind < 6; kind++) {
        for (int get = 0; get < 7; get++) {
            flux_handover_t *o = flux_handover_create();
            flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "a.b"), *got = NULL;
            int fd = -1;
            size_t len = 1;

            if (kind == 0)
                flux_handover_put(o, 5);
            else if (kind == 1)
                flux_handover_put_data(o, "abc", 4);
            else if (kind == 2)
                flux_handover_put_str(o, "abc");
            else if (kind == 3)
                flux_handover_put_fd(o, 0);
            else if (kind == 4)
                flux_handover_put_msg(o, msg);
            else
                flux_handover_put_mark(o, "abc");
            ck_assert_int_eq(wrong(o), 0);
            if (get == 0)
                flux_handover_get(o, 5);
            else if (get == 1)
                (void)flux_handover_get_data(o, &len);
            else if (get == 2)
                (void)flux_handover_get_str(o);
            else if (get == 3)
                fd = flux_handover_get_fd(o);
            else if (get == 4)
                got = flux_handover_get_msg(o);
            else if (get == 5)
                flux_handover_get_mark(o, "abc");
            else
                flux_handover_get(o, 4);
            ck_assert_int_eq(wrong(o), kind == get ? 0 : EPROTO);
            ck_assert(fd < 0 || kind == 3);
            ck_assert(!got || kind == 4);
            /* past the end */
            ck_assert_ptr_null(flux_handover_get_str(o));
            ck_assert_int_eq(wrong(o), EPROTO);
            ck_assert(!flux_handover_ok(o));
            if (fd >= 0)
                close(fd);
            flux_msg_destroy(got);
            flux_msg_destroy(msg);
            flux_handover_destroy(o);
        }
    }
}
END_TEST

START_TEST(strings)
{
    flux_handover_t *o = flux_handover_create();

    flux_handover_put_mark(o, "this");
    flux_handover_get_mark(o, "that");
    ck_assert_int_eq(wrong(o), EPROTO);
    flux_handover_destroy(o);
}
END_TEST

/* Items that were not taken are closed with the handover; the first error stays. */
START_TEST(left)
{
    flux_handover_t *o = flux_handover_create();
    char byte;
    int p[2];

    ck_assert_int_eq(pipe(p), 0);
    flux_handover_put_fd(o, p[1]);
    close(p[1]);
    flux_handover_destroy(o);
    ck_assert_int_eq((int)read(p[0], &byte, 1), 0); /* the pipe has no writer */
    close(p[0]);
    flux_handover_destroy(NULL);

    o = flux_handover_create();
    flux_handover_put_fd(o, 1 << 20);
    ck_assert_int_eq(wrong(o), EBADF);
    flux_handover_fail(o, ENOMEM);
    flux_handover_put(o, 1);
    ck_assert_int_eq(wrong(o), EBADF);
    flux_handover_destroy(o);
}
END_TEST

START_TEST(bounds)
{
    flux_handover_t *o = flux_handover_create();
    size_t len = 64u << 20;
    char *big = calloc(1, len);
    int p[2];

    for (size_t n = 0; n <= FLUX_HANDOVER_MAX / len; n++)
        flux_handover_put_data(o, big, len);
    ck_assert_int_eq(wrong(o), EFBIG);
    flux_handover_destroy(o);
    free(big);

    o = flux_handover_create();
    ck_assert_int_eq(pipe(p), 0);
    for (int i = 0; i < FLUX_HANDOVER_FDS_MAX; i++)
        flux_handover_put_fd(o, p[0]);
    ck_assert_int_eq(wrong(o), 0);
    flux_handover_put_fd(o, p[0]);
    ck_assert_int_eq(wrong(o), EFBIG);
    flux_handover_destroy(o);
    close(p[0]);
    close(p[1]);
}
END_TEST

int main(void)
{
    RUN_SUITE("handover", round_trip, mismatch, strings, left, bounds);
}
