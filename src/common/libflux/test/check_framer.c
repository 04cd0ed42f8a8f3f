/* check_framer.c - messages over a stream socket, in pieces of any size. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libflux/framer.h"
#include "libutil/test/suite.h"

static flux_msg_t *make(int i, size_t payload, bool raw)
{
    char topic[32];
    flux_msg_t *msg;
    char *data = malloc(payload + 1);

    snprintf(topic, sizeof(topic), "test.%d", i);
    ck_assert((msg = flux_msg_create(FLUX_MSG_REQUEST, topic)) != NULL);
    flux_msg_set_matchtag(msg, (uint32_t)i + 1);
    memset(data, 'a' + i % 26, payload);
    data[payload] = '\0';
    if (raw)
        flux_msg_set_raw(msg, data, payload);
    else
        flux_msg_set_json(msg, data);
    for (int r = 0; r < i % 9; r++)
        flux_msg_route_push(msg, (uint32_t)r);
    free(data);
    return msg;
}

static void compare(const flux_msg_t *a, const flux_msg_t *b)
{
    size_t la;
    size_t lb;
    const void *pa = flux_msg_payload(a, &la);
    const void *pb = flux_msg_payload(b, &lb);

    ck_assert_str_eq(flux_msg_topic(a), flux_msg_topic(b));
    ck_assert_uint_eq(flux_msg_matchtag(a), flux_msg_matchtag(b));
    ck_assert_uint_eq(flux_msg_flags(a), flux_msg_flags(b));
    ck_assert_uint_eq(flux_msg_route_count(a), flux_msg_route_count(b));
    ck_assert_uint_eq(la, lb);
    ck_assert(la == 0 || memcmp(pa, pb, la) == 0);
}

/* Sizes around every bound of the framer: nothing, small, the scratch memory, chunks, large. */
static const size_t sizes[] = {0,     1,     100,   4000,  8100,  8192,  16200,  16300,  16384,
                               20000, 32700, 32768, 40000, 65000, 65536, 100000, 1 << 20};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))
#define ROUNDS 6

static void receive_some(framer_t *in, int fd, void *scratch, size_t size, int *received)
{
    errmsg_t err;
    flux_msg_t *msg;
    ssize_t n = framer_read(in, fd, scratch, size, false);

    ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
    while ((msg = framer_next(in, &err))) {
        int i = *received;
        flux_msg_t *want = make(i, sizes[(size_t)i % NSIZES], i % 2 == 0);
        compare(msg, want);
        flux_msg_destroy(want);
        flux_msg_destroy(msg);
        (*received)++;
        /* Now and then let go of the scratch memory in the middle. */
        if (i % 5 == 0) {
            ck_assert_int_eq(framer_park(in), 0);
            memset(scratch, 0xee, size);
        }
    }
    ck_assert_int_eq(errno, EAGAIN);
}

static char scratch_mem[FRAMER_SCRATCH];

static void send_all(int fd, outq_t *q, framer_t *in, int rfd, int *received, bool immediate)
{
    for (int i = 0; i < (int)NSIZES * ROUNDS; i++) {
        flux_msg_t *msg = make(i, sizes[(size_t)i % NSIZES], i % 2 == 0);
        if (immediate)
            ck_assert_int_eq(outq_send(q, fd, msg), 0);
        else
            ck_assert_int_eq(outq_add(q, msg), 0);
        flux_msg_destroy(msg);
        if (immediate && i % 3 == 0)
            receive_some(in, rfd, scratch_mem, sizeof(scratch_mem), received);
    }
    while (*received < (int)NSIZES * ROUNDS) {
        ck_assert_int_ge(outq_flush(q, fd), 0);
        receive_some(in, rfd, scratch_mem, sizeof(scratch_mem), received);
    }
    ck_assert_uint_eq(outq_bytes(q), 0);
    ck_assert_uint_eq(outq_messages(q), 0);
}

START_TEST(test_both_ways)
{
    int sv[2];
    framer_t *in = framer_create();
    outq_t *q = outq_create();
    int received = 0;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    send_all(sv[0], q, in, sv[1], &received, _i == 0);
    close(sv[0]);
    ck_assert_int_eq(framer_read(in, sv[1], scratch_mem, sizeof(scratch_mem), true), 0);
    close(sv[1]);
    framer_destroy(in);
    outq_destroy(q);
}
END_TEST

/* Byte by byte: nothing may depend on how the stream is cut. */
START_TEST(test_bytewise)
{
    int sv[2];
    framer_t *in = framer_create();
    int received = 0;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    for (int i = 0; i < 3; i++) {
        flux_msg_t *msg = make(i, sizes[i], i % 2 == 0);
        size_t size = flux_msg_encoded_size(msg);
        char *buf = malloc(size);
        flux_msg_encode(msg, buf);
        for (size_t j = 0; j < size; j++) {
            ck_assert_int_eq(received, i);
            ck_assert_int_eq(write(sv[0], buf + j, 1), 1);
            receive_some(in, sv[1], scratch_mem, sizeof(scratch_mem), &received);
        }
        free(buf);
        flux_msg_destroy(msg);
    }
    ck_assert_int_eq(received, 3);
    close(sv[0]);
    close(sv[1]);
    framer_destroy(in);
}
END_TEST

START_TEST(test_bad_bytes)
{
    int sv[2];
    framer_t *in = framer_create();
    flux_msg_t *msg = make(1, 10, true);
    size_t size = flux_msg_encoded_size(msg);
    char *buf = malloc(2 * size);
    flux_msg_t *got;
    errmsg_t err;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    flux_msg_encode(msg, buf);
    memset(buf + size, 0x55, size);
    ck_assert_int_eq(write(sv[0], buf, 2 * size), 2 * size);
    ck_assert_int_gt(framer_read(in, sv[1], scratch_mem, sizeof(scratch_mem), false), 0);
    ck_assert((got = framer_next(in, &err)) != NULL);
    compare(got, msg);
    ck_assert(framer_next(in, &err) == NULL);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert(strlen(err.text) > 0);
    ck_assert(framer_next(in, &err) == NULL);
    ck_assert_int_eq(errno, EPROTO);
    flux_msg_destroy(got);
    flux_msg_destroy(msg);
    free(buf);
    close(sv[0]);
    close(sv[1]);
    framer_destroy(in);
}
END_TEST

/* A header that announces too much is refused before any memory is taken. */
START_TEST(test_oversize)
{
    int sv[2];
    framer_t *in = framer_create();
    flux_msg_t *msg = make(0, 10, true);
    uint8_t buf[256];
    errmsg_t err;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    flux_msg_encode(msg, buf);
    memset(buf + 36, 0xff, 4);
    ck_assert_int_eq(write(sv[0], buf, FLUX_MSG_HEADER_SIZE), FLUX_MSG_HEADER_SIZE);
    ck_assert_int_gt(framer_read(in, sv[1], scratch_mem, sizeof(scratch_mem), false), 0);
    ck_assert(framer_next(in, &err) == NULL);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert(strstr(err.text, "limit"));
    flux_msg_destroy(msg);
    close(sv[0]);
    close(sv[1]);
    framer_destroy(in);
}
END_TEST

START_TEST(test_closed)
{
    int sv[2];
    outq_t *q = outq_create();
    flux_msg_t *msg = make(0, 10, true);

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    close(sv[1]);
    ck_assert_int_eq(outq_send(q, sv[0], msg), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_int_eq(outq_add(q, msg), 0);
    ck_assert_int_eq(outq_flush(q, sv[0]), -1);
    flux_msg_destroy(msg);
    outq_destroy(q);
    close(sv[0]);
    framer_destroy(NULL);
    outq_destroy(NULL);
}
END_TEST

static void read_one(framer_t *in, int fd)
{
    flux_msg_t *msg;
    errmsg_t err;

    ck_assert_int_gt(framer_read(in, fd, scratch_mem, sizeof(scratch_mem), false), 0);
    ck_assert_ptr_nonnull(msg = framer_next(in, &err));
    flux_msg_destroy(msg);
    ck_assert_ptr_null(framer_next(in, &err));
    ck_assert_int_eq(errno, EAGAIN);
}

/* A descriptor comes with a message where one is wanted, and does not stay open elsewhere. */
START_TEST(test_descriptor)
{
    int sv[2], fd, next;
    framer_t *in = framer_create();
    outq_t *q = outq_create();
    flux_msg_t *msg = make(0, 10, true);

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    next = dup(0);
    close(next);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(outq_send_fd(q, sv[0], msg, sv[0]), 0);
    read_one(in, sv[1]); /* not wanted */
    ck_assert_int_eq(fcntl(next, F_GETFD), -1);
    framer_want_fd(in);
    ck_assert_int_eq(framer_take_fd(in), -1);
    framer_want_fd(in);
    read_one(in, sv[1]);
    read_one(in, sv[1]); /* one is kept already */
    ck_assert_int_eq(fcntl(next + 1, F_GETFD), -1);
    ck_assert_int_eq(fd = framer_take_fd(in), next);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    ck_assert_int_eq(framer_take_fd(in), -1);
    framer_want_fd(in);
    read_one(in, sv[1]);
    framer_destroy(in); /* with a descriptor that nobody took */
    ck_assert_int_eq(fcntl(next, F_GETFD), -1);
    /* What cannot be passed: the message is sent. */
    in = framer_create();
    framer_want_fd(in);
    ck_assert_int_eq(outq_send_fd(q, sv[0], msg, next), 0);
    read_one(in, sv[1]);
    ck_assert_int_eq(framer_take_fd(in), -1);
    close(sv[1]);
    ck_assert_int_eq(outq_send_fd(q, sv[0], msg, sv[0]), -1);
    ck_assert_int_eq(errno, EPIPE);
    close(sv[0]);
    flux_msg_destroy(msg);
    framer_destroy(in);
    outq_destroy(q);
}
END_TEST

/* A process that may open no more gets the bytes without the descriptor. */
START_TEST(test_no_descriptor)
{
    int sv[2], next;
    framer_t *in = framer_create();
    outq_t *q = outq_create();
    flux_msg_t *msg = make(0, 10, true);
    struct rlimit rl, low;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    next = dup(0);
    close(next);
    framer_want_fd(in);
    ck_assert_int_eq(outq_send_fd(q, sv[0], msg, sv[0]), 0);
    getrlimit(RLIMIT_NOFILE, &rl);
    low = rl;
    low.rlim_cur = (rlim_t)next; /* the next one would have this number */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    read_one(in, sv[1]);
    setrlimit(RLIMIT_NOFILE, &rl);
    ck_assert_int_eq(framer_take_fd(in), -1);
    close(sv[0]);
    close(sv[1]);
    flux_msg_destroy(msg);
    framer_destroy(in);
    outq_destroy(q);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("framer");

    tcase_add_loop_test(tc, test_both_ways, 0, 2);
    tcase_add_test(tc, test_bytewise);
    tcase_add_test(tc, test_bad_bytes);
    tcase_add_test(tc, test_oversize);
    tcase_add_test(tc, test_closed);
    tcase_add_test(tc, test_descriptor);
    tcase_add_test(tc, test_no_descriptor);
    return run_case("framer", tc);
}
