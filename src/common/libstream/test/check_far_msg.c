/* check_far_msg.c - what goes between hosts: messages byte by byte, capabilities, encryption,
 * records, and texts of addresses. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"
#include "far_connect.h"
#include "libstream/far_link.h"
#include "libstream/far_msg.h"
#include "libstream/lane.h"
#include "libutil/le.h"
#include "libutil/test/suite.h"

static unsigned char secret[FAR_KEY_LEN] = "what the module has told";

/* --- messages --- */

START_TEST(golden)
{
    static const unsigned char bytes[FAR_HEAD_LEN] =
        "\x0a\0\0\0\x18\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    struct far_msg m = {.type = FAR_BOX, .payload = 24, .number = 3, .step = 1};
    unsigned char head[FAR_HEAD_LEN];
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char other[FAR_GREETING_LEN];
    unsigned char hello[FAR_HELLO_LEN];
    struct far_hello h = {.secure = true,
                          .want = {.policy = KNOCK_SAMPLE,
                                   .every = 3,
                                   .depth = 7,
                                   .bytes = 0x0102030405060708,
                                   .seen = 0x0203},
                          .reader = 9,
                          .expires = 1000};
    struct far_hello out;

    far_msg_encode(&m, head);
    ck_assert_mem_eq(head, bytes, sizeof(head));
    far_greeting_make(greeting);
    far_greeting_make(other);
    ck_assert_mem_eq(greeting, "FLUXSTRF\1\0\0\0\0\0\0\0", 16);
    ck_assert(memcmp(greeting + 16, other + 16, 32) != 0);
    far_hello_make(hello, &h, secret, greeting);
    ck_assert_mem_eq(hello,
                     "FLUXSTRF\1\0\0\0\1\0\0\0\4\0\0\0\3\0\0\0\7\0\0\0\0\0\0\0"
                     "\x8\7\6\5\4\3\2\1\x9\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0\3\2\0\0\0\0\0",
                     64);
    ck_assert_int_eq(far_hello_read(hello, &out), 0);
    ck_assert(out.secure && out.reader == 9 && out.expires == 1000);
    ck_assert(out.want.policy == KNOCK_SAMPLE && out.want.every == 3 && out.want.depth == 7 &&
              out.want.bytes == h.want.bytes && out.want.seen == h.want.seen);
    ck_assert(far_hello_proves(hello, secret, greeting));
    ck_assert(!far_hello_proves(hello, secret, other));
    h.resume = true; /* the number of a step in the place of `seen` */
    h.have = 0x0405;
    far_hello_make(hello, &h, secret, greeting);
    ck_assert_mem_eq(hello + 12, "\5\0\0\0", 4);
    ck_assert_mem_eq(hello + 56, "\5\4\0\0\0\0\0\0", 8);
    ck_assert_int_eq(far_hello_read(hello, &out), 0);
    ck_assert(out.resume && out.have == 0x0405 && out.want.seen == 0 && out.reader == 9);
    h = (struct far_hello){.want = {.every = 1, .depth = 1, .group = "g", .by_record = true}};
    far_hello_make(hello, &h, secret, greeting);
    ck_assert_mem_eq(hello + 12, "\20\0\0\0", 4);
    ck_assert_int_eq(far_hello_read(hello, &out), 0);
    ck_assert(out.want.by_record && !out.want.follow);
    hello[96] = 0; /* of no group */
    ck_assert_int_eq(far_hello_read(hello, &out), -1);
}
END_TEST

/* No byte of what proves something can be changed. */
START_TEST(proofs)
{
    struct far_hello h = {
        .want = {.every = 1, .depth = 2, .group = "group", .key = "x"}, .reader = 1, .expires = 2};
    struct far_welcome w = {.errnum = EBUSY, .secure = true};
    struct far_welcome wout;
    struct far_hello hout;
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char hello[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];

    far_greeting_make(greeting);
    far_hello_make(hello, &h, secret, greeting);
    far_welcome_make(welcome, &w, secret, hello);
    ck_assert_int_eq(far_welcome_read(welcome, &wout, secret, hello), 0);
    ck_assert(wout.errnum == EBUSY && wout.secure);
    for (unsigned i = 0; i < FAR_HELLO_LEN; i++) {
        hello[i] ^= 4;
        ck_assert(far_hello_read(hello, &hout) < 0 || !far_hello_proves(hello, secret, greeting));
        ck_assert_int_eq(far_welcome_read(welcome, &wout, secret, hello), -1);
        hello[i] ^= 4;
    }
    for (unsigned i = 0; i < FAR_WELCOME_LEN; i++) {
        welcome[i] ^= 4;
        ck_assert_int_eq(far_welcome_read(welcome, &wout, secret, hello), -1);
        ck_assert_int_eq(errno, EPROTO);
        welcome[i] ^= 4;
    }
    far_refusal_make(welcome);
    ck_assert_mem_eq(welcome, "FLUXSTRF\1\0\0\0\15\0\0\0\0\0\0\0", 20);
    ck_assert_int_eq(far_welcome_read(welcome, &wout, secret, hello), 0);
    ck_assert(wout.errnum == EACCES && !wout.secure);
    for (unsigned i = 0; i < FAR_WELCOME_LEN; i++) { /* nothing else is said without a proof */
        welcome[i] ^= 4;
        ck_assert_int_eq(far_welcome_read(welcome, &wout, secret, hello), -1);
        welcome[i] ^= 4;
    }
    for (unsigned i = 0; i < 16; i++) {
        greeting[i] ^= 4;
        ck_assert_int_eq(far_greeting_check(greeting), -1);
        greeting[i] ^= 4;
    }
}
END_TEST

/* Each type has its side, its numbers and its payload. */
START_TEST(strict)
{
    for (uint32_t type = 0; type < 16; type++) {
        for (unsigned bit = 0; bit < 4; bit++) {
            unsigned char head[FAR_HEAD_LEN] = {0};
            struct far_msg m;
            bool reader = (type >= FAR_TAKE && type <= FAR_BOX) || type == FAR_CLAIM;
            bool writer = (type >= FAR_STEP && type <= FAR_END) || type == FAR_PINNED ||
                          type == FAR_NOTE || type == FAR_PARTS;
            static const uint8_t uses[16] = {
                [FAR_STEP] = 0xf,  [FAR_AGAIN] = 0xe, [FAR_DATA] = 0xa, [FAR_END] = 0x2,
                [FAR_RELEASE] = 2, [FAR_BYTES] = 0xe, [FAR_BOX] = 7,    [FAR_PINNED] = 3,
                [FAR_CLAIM] = 0xc, [FAR_NOTE] = 0xc,  [FAR_PARTS] = 4};

            le_put32(head, type);
            if (type == FAR_END) {
                le_put64(head + 8, LANE_FAILED + 1);
                ck_assert_int_eq(far_msg_decode(head, true, &m), -1);
                le_put64(head + 8, LANE_CLOSED + bit % LANE_FAILED);
            }
            ck_assert_int_eq(far_msg_decode(head, true, &m), writer ? 0 : -1);
            ck_assert_int_eq(far_msg_decode(head, false, &m), reader ? 0 : -1);
            if (bit == 0)
                le_put32(head + 4, type == FAR_BOX ? 24 : 1);
            else
                le_put64(head + 8 * bit, LANE_CLOSED);
            if (type == FAR_STEP)
                le_put64(head + 24, 1);
            ck_assert_msg((far_msg_decode(head, writer, &m) == 0) ==
                              ((writer || reader) && (uses[type] >> bit & 1)),
                          "type %u, number %u", type, bit);
        }
    }
}
END_TEST

/* --- keys and links --- */

START_TEST(grants)
{
    struct far_grant g = {"heat", 1, 1000};
    struct far_grant others[] = {{"heat2", 1, 1000}, {"heat", 2, 1000}, {"heat", 1, 1001}};
    unsigned char key[FAR_KEY_LEN] = "key";
    unsigned char a[FAR_KEY_LEN];
    unsigned char b[FAR_KEY_LEN];

    far_key_grant(a, key, &g);
    far_key_grant(b, key, &g);
    ck_assert(far_key_equal(a, b));
    for (int i = 0; i < 3; i++) {
        far_key_grant(b, key, &others[i]);
        ck_assert(!far_key_equal(a, b));
    }
    key[31] = 1;
    far_key_grant(b, key, &g);
    ck_assert(!far_key_equal(a, b));
}
END_TEST

static void pair(far_link_t *l[2], bool secure)
{
    unsigned char other[FAR_KEY_LEN] = "other";
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(l[i] = far_link_create(fds[i]));
        if (secure)
            ck_assert_int_eq(far_link_secure(l[i], i ? other : secret, i ? secret : other), 0);
    }
}

/* Bytes of all lengths, in pieces, through a socket that is full now and then. */
START_TEST(links)
{
    enum { LEN = 3000000 };
    unsigned char *from = malloc(LEN);
    unsigned char *to = malloc(LEN);
    far_link_t *l[2];
    size_t put_at = 0;
    size_t got = 0;
    size_t piece = 1;

    pair(l, _i);
    for (size_t i = 0; i < LEN; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 24);
    while (got < LEN) {
        struct iovec iov[3] = {{NULL, 0}, {from + put_at, piece}, {NULL, 0}};
        ssize_t n;

        if (iov[1].iov_len > LEN - put_at)
            iov[1].iov_len = LEN - put_at;
        iov[1].iov_len /= 2;
        iov[2].iov_base = from + put_at + iov[1].iov_len;
        iov[2].iov_len =
            piece < LEN - put_at - iov[1].iov_len ? piece : LEN - put_at - iov[1].iov_len;
        n = iov[2].iov_len > 0 ? far_link_send(l[0], iov, 3) : far_link_flush(l[0]);
        ck_assert(n >= 0 || errno == EAGAIN);
        if (n > 0)
            put_at += (size_t)n;
        n = far_link_recv(l[1], to + got, piece < LEN - got ? piece : LEN - got);
        ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
        if (n > 0)
            got += (size_t)n;
        piece = piece * 3 % 200003 + 1;
    }
    ck_assert_mem_eq(from, to, LEN);
    ck_assert(_i ? far_link_sent(l[0]) > LEN : far_link_sent(l[0]) == LEN);
    far_link_destroy(l[0]);
    ck_assert_int_eq(far_link_recv(l[1], to, 1), 0);
    far_link_destroy(l[1]);
    free(from);
    free(to);
}
END_TEST

/* A record that was changed, repeated or invented ends the connection. */
START_TEST(records)
{
    struct iovec iov = {"hello", 5};
    unsigned char wire[100];
    far_link_t *l[2];

    for (int k = 0; k < 25 + 3; k++) {
        unsigned char buf[100];
        ssize_t n;
        int in;

        pair(l, true);
        in = far_link_fd(l[0]);
        ck_assert_int_eq(far_link_send(l[0], &iov, 1), 5);
        n = recv(far_link_fd(l[1]), wire, sizeof(wire), 0);
        ck_assert_int_eq(n, 4 + 5 + 16);
        if (k < n)
            wire[k] ^= 1;
        else if (k == n)
            memset(wire, 0, 4); /* no bytes */
        else if (k == n + 1)
            memset(wire, 0xff, 4); /* 4 GiB */
        ck_assert_int_eq(send(in, wire, (size_t)n, 0), n);
        if (k > n + 1) { /* twice */
            ck_assert_int_eq(far_link_recv(l[1], buf, sizeof(buf)), 5);
            ck_assert_int_eq(send(in, wire, (size_t)n, 0), n);
        }
        shutdown(in, SHUT_WR);
        n = far_link_recv(l[1], buf, sizeof(buf));
        ck_assert(n == 0 || (n < 0 && errno == EBADMSG));
        far_link_destroy(l[0]);
        far_link_destroy(l[1]);
    }
}
END_TEST

START_TEST(addresses)
{
    static const char *const bad[] = {"",
                                      "tcp://",
                                      "tcp://127.0.0.1",
                                      "tcp://127.0.0.1:0",
                                      "tcp://127.0.0.1:65536",
                                      "tcp://localhost:1",
                                      "udp://127.0.0.1:1",
                                      "tcp://[::1:5",
                                      "tcp://127.0.0.1:1,"};
    const char *list = "tcp://127.0.0.1:1,,tcp://[::1]:2";
    char text[FAR_ADDR_MAX];
    char one[FAR_ADDR_MAX];
    const char *all;
    int fd;
    int l;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(far_addr_begin(bad[i]), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    l = far_addr_listen(NULL, "lo", text, &err);
    ck_assert_msg(l >= 0, "%s", err.text);
    ck_assert_msg(strncmp(text, "tcp://127.0.0.1:", 16) == 0, "%s", text);
    all = text;
    ck_assert(far_addr_next(&all, one));
    ck_assert_int_ge(fd = far_connect(one), 0);
    ck_assert(!far_addr_silent(fd, 1e-9));
    close(fd);
    close(l);
    ck_assert_int_eq(far_connect(one), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    l = far_addr_listen(NULL, NULL, text, &err);
    ck_assert_msg(l >= 0 && strlen(text) > 0, "%s", err.text);
    close(l);
    l = far_addr_listen("::1", NULL, text, &err);
    ck_assert(l >= 0 && strncmp(text, "tcp://[::1]:", 12) == 0);
    close(l);
    ck_assert(far_addr_next(&list, text));
    ck_assert_str_eq(text, "tcp://127.0.0.1:1");
    ck_assert(far_addr_next(&list, text));
    ck_assert_str_eq(text, "");
    ck_assert(far_addr_next(&list, text));
    ck_assert_str_eq(text, "tcp://[::1]:2");
    ck_assert(!far_addr_next(&list, text));
}
END_TEST
int main(void)
{
    const TTest *const tests[] = {golden, proofs, strict, grants, records, addresses};
    TCase *tc = tcase_create("far_msg");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, links, 0, 2);
    return run_case("far_msg", tc);
}
