/* Descriptors passed over sockets: each keeps to its message, what is lost is an error. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libutil/fdpass.h"
#include "libutil/test/suite.h"

static int sv[2];

static void setup(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
}

static void teardown(void)
{
    close(sv[0]);
    close(sv[1]);
}

START_TEST(passes)
{
    int p[2], fd = -1;
    char buf[16], c;

    ck_assert_int_eq(pipe(p), 0);
    ck_assert_int_eq(fdpass_send(sv[0], "abc", 3, p[1]), 3);
    close(p[1]);
    ck_assert_int_eq(fdpass_recv(sv[1], buf, sizeof(buf), &fd, 0), 3);
    ck_assert(memcmp(buf, "abc", 3) == 0);
    ck_assert_int_ge(fd, 0);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    ck_assert_int_eq(read(p[0], &c, 1), 1);
    close(fd);
    close(p[0]);
}
END_TEST

/* On a stream, bytes before may come along; those behind, or another descriptor, never. */
START_TEST(ends_with_its_bytes)
{
    char buf[16];
    int fd = 7;

    ck_assert_int_eq(write(sv[0], "plain", 5), 5);
    ck_assert_int_eq(fdpass_send(sv[0], "with", 4, sv[0]), 4);
    ck_assert_int_eq(fdpass_send(sv[0], "too", 3, sv[0]), 3);
    ck_assert_int_eq(fdpass_recv(sv[1], buf, sizeof(buf), &fd, 0), 9);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(fdpass_recv(sv[1], buf, sizeof(buf), &fd, 0), 3);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(fdpass_recv(sv[1], buf, sizeof(buf), &fd, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(fd, -1);
    shutdown(sv[0], SHUT_WR);
    ck_assert_int_eq(fdpass_recv(sv[1], buf, sizeof(buf), &fd, 0), 0);
}
END_TEST

/* A process passes two at once: the first is received, and the other one does not stay open. */
START_TEST(one_of_two)
{
    union {
        char buf[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } u = {.buf = {0}};
    struct iovec iov = {(void *)"x", 1};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = u.buf, .msg_controllen = sizeof(u.buf)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    char buf[16];
    int fd = -1, next = dup(0);

    close(next);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), sv, 2 * sizeof(int));
    ck_assert_int_eq(sendmsg(sv[0], &m, 0), 1);
    ck_assert_int_eq(fdpass_recv(sv[1], buf, sizeof(buf), &fd, 0), 1);
    ck_assert_int_eq(fd, next);
    ck_assert_int_eq(fcntl(next + 1, F_GETFD), -1);
    close(fd);
}
END_TEST

START_TEST(no_room)
{
    struct rlimit rl, low;
    char buf[16];
    int fd = 7, next = dup(0);

    close(next);
    ck_assert_int_eq(fdpass_send(sv[0], "x", 1, sv[0]), 1);
    getrlimit(RLIMIT_NOFILE, &rl);
    low = rl;
    low.rlim_cur = (rlim_t)next; /* the next one would have this number */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    ck_assert_int_eq(fdpass_recv(sv[1], buf, sizeof(buf), &fd, 0), -1);
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(fd, -1);
    setrlimit(RLIMIT_NOFILE, &rl);
}
END_TEST

START_TEST(gone)
{
    close(sv[1]);
    ck_assert_int_eq(fdpass_send(sv[0], "x", 1, 0), -1);
    ck_assert_int_eq(errno, EPIPE);
    sv[1] = -1;
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fdpass");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, passes);
    tcase_add_test(tc, ends_with_its_bytes);
    tcase_add_test(tc, one_of_two);
    tcase_add_test(tc, no_room);
    tcase_add_test(tc, gone);
    return run_case("fdpass", tc);
}
