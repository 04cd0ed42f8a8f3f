/* check_share.c - a relay, in a network namespace of its own where that is possible: it connects to
 * itself, as one of another host would. */
#include "config.h"
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libstream/share.h"
#include "libstream/share_private.h"
#include "libutil/fdpass.h"
#include "libutil/test/suite.h"

static errmsg_t err;

/* --- a relay --- */

static struct relay_thread {
    pthread_t thread;
    int stop;
    share_relay_t *r;
} relay;

static const struct share_place place;

static void *relay_main(void *arg)
{
    share_relay_run(relay.r, relay.stop, 0.);
    share_relay_destroy(relay.r);
    return NULL;
}

static void namespace_new(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd;

    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return;
    ck_assert_int_ge(fd = socket(AF_INET, SOCK_DGRAM, 0), 0);
    ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
    close(fd);
}

static void relay_next(void)
{
    ck_assert_msg((relay.r = share_relay_create("127.0.0.1", NULL, &err)) != NULL, "%s", err.text);
    ck_assert_int_ge(relay.stop = eventfd(0, 0), 0);
    ck_assert_int_eq(pthread_create(&relay.thread, NULL, relay_main, NULL), 0);
}

static void relay_begin(void)
{
    namespace_new();
    relay_next();
}

static void relay_end(void)
{
    const uint64_t one = 1;

    ck_assert_int_eq(write(relay.stop, &one, sizeof(one)), sizeof(one));
    pthread_join(relay.thread, NULL);
    close(relay.stop);
}

/* Register a writer; `text` is "", or its former address. */
static int registered(char text[FAR_ADDR_MAX])
{
    int fd = share_register(&place, text, &err);

    ck_assert_msg(fd >= 0, "%s", err.text);
    return fd;
}

static int connected(const char *text)
{
    struct share_id own = {.address = ""};
    int fd = share_connect(&place, text, &own, &err);

    ck_assert_msg(fd >= 0, "%s", err.text);
    ck_assert_int_eq(strncmp(own.address, "tcp://127.0.0.1:", 16), 0);
    return fd;
}

/* What the relay passes to a writer. */
static int passed(int writer)
{
    struct pollfd p = {.fd = writer, .events = POLLIN};
    char byte;
    int fd = -1;

    ck_assert_int_eq(poll(&p, 1, 20000), 1);
    ck_assert_int_eq(fdpass_recv(writer, &byte, 1, &fd, 0), 1);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Read until the end, at most `max` bytes.  Returns their number. */
static size_t take(int fd, char *buf, size_t max)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t got = 0;
    ssize_t n = 1;

    while (got < max && n != 0) {
        ck_assert_int_eq(poll(&p, 1, 20000), 1);
        n = recv(fd, buf + got, max - got, 0);
        ck_assert(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
        if (n < 0 && errno == ECONNRESET)
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    return got;
}

/* Write as much as there is room for, until it is all or nothing moves. */
static size_t fill(int fd, const char *buf, size_t len)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    size_t at = 0;

    while (at < len && poll(&p, 1, 300) == 1) {
        ssize_t n = send(fd, buf + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        ck_assert(n >= 0 || errno == EAGAIN);
        at += n > 0 ? (size_t)n : 0;
    }
    return at;
}

/* --- tests --- */

#define KEY "00112233445566778899aabbccddeeff"

/* What is in the fields of a request comes out again; anything else is refused. */
START_TEST(requests)
{
    struct share_request r = {.kind = SHARE_CONNECT,
                              .token = 0x1234567890abcdef,
                              .to = {"a key", "tcp://10.1.2.3:4"},
                              .own = {"another key", "tcp://10.1.2.4:5"}};
    struct share_id own = {.address = ""};
    unsigned char buf[SHARE_REQUEST_LEN];
    struct share_request out;
    static const struct {
        size_t at;
        unsigned char byte;
    } wrong[] = {{0, 'f'}, {8, 0}, {8, 3}, {11, 1}, {12, 1}};
    static const char *const texts[] = {
        "",
        "tcp://10.1.2.3:4",
        "share://",
        "share://1234567890123456@10.1.2.3:4",
        "share://123456789012345." KEY "@10.1.2.3:4",
        "share://1234567890123456." KEY,
        "share://1234567890123456." KEY ":10.1.2.3:4",
        "share://1234567890123456." KEY "0@10.1.2.3:4",
        "share://12345678901234567." KEY "@10.1.2.3:4",
    };

    share_request_encode(&r, buf);
    ck_assert_int_eq(share_request_decode(buf, &out), 0);
    ck_assert(out.kind == r.kind && out.token == r.token);
    ck_assert_int_eq(memcmp(&out.to, &r.to, sizeof(r.to)), 0);
    ck_assert_int_eq(memcmp(&out.own, &r.own, sizeof(r.own)), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        share_request_encode(&r, buf);
        buf[wrong[i].at] = wrong[i].byte;
        ck_assert_int_eq(share_request_decode(buf, &out), -1);
        ck_assert_int_eq(errno, EPROTO);
    }
    for (size_t i = 0; i < 2; i++) { /* an address without end */
        share_request_encode(&r, buf);
        memset(buf + 24 + i * SHARE_ID_LEN, 'x', SHARE_ID_LEN);
        ck_assert_int_eq(share_request_decode(buf, &out), -1);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_int_eq(share_connect(&place, texts[i], &own, &err), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
}
END_TEST

#define BIG ((size_t)20 << 20)

/* Bytes arrive in their order, in both directions; an end that does not read holds up its own
 * channel, which then has a bounded number of bytes on the way, and no other one. */
START_TEST(channels)
{
    char text[FAR_ADDR_MAX] = "";
    char *buf = malloc(BIG);
    char *back = malloc(BIG);
    int writer, reader[2], end[2];
    size_t stuck;

    relay_begin();
    writer = registered(text);
    for (int i = 0; i < 2; i++) {
        reader[i] = connected(text);
        end[i] = passed(writer);
    }
    for (size_t i = 0; i < BIG; i++)
        buf[i] = (char)(i * 2654435761u >> 24);
    stuck = fill(end[0], buf, BIG); /* nobody reads */
    ck_assert_uint_gt(stuck, 1 << 20);
    ck_assert_uint_lt(stuck, BIG / 2);
    for (size_t at = 0; at < BIG; at += BIG / 20) {
        ck_assert_uint_eq(fill(end[1], buf + at, BIG / 20), BIG / 20);
        ck_assert_uint_eq(take(reader[1], back, BIG / 20), BIG / 20);
        ck_assert_int_eq(memcmp(back, buf + at, BIG / 20), 0);
    }
    ck_assert_uint_eq(fill(reader[0], "hello", 5), 5);
    ck_assert_uint_eq(take(end[0], back, 5), 5);
    ck_assert_int_eq(memcmp(back, "hello", 5), 0);
    /* What was said before the end of the writer is still read. */
    close(end[0]);
    ck_assert_uint_eq(take(reader[0], back, BIG), stuck);
    ck_assert_int_eq(memcmp(back, buf, stuck), 0);
    /* The end of a reader. */
    close(reader[1]);
    ck_assert_uint_eq(take(end[1], back, BIG), 0);
    close(reader[0]);
    close(end[1]);
    close(writer);
    relay_end();
    free(buf);
    free(back);
}
END_TEST

/* Ends: of a writer that is not registered any more, of a relay that is not there, of the relay. */
START_TEST(ends)
{
    char text[FAR_ADDR_MAX] = "";
    char nobody[] = SHARE_PREFIX "0123456789abcdef." KEY "@127.0.0.1:1";
    char byte;
    int writer, reader, end;

    relay_begin();
    writer = registered(text);
    reader = connected(nobody);
    ck_assert_uint_eq(take(reader, &byte, 1), 0);
    close(reader);
    reader = connected(text);
    end = passed(writer);
    close(writer);
    ck_assert_uint_eq(fill(reader, "x", 1), 1);
    ck_assert_uint_eq(take(end, &byte, 1), 1);
    while (true) { /* until the relay knows that the writer is not registered any more */
        int late = connected(text);

        if (take(late, &byte, 1) == 0) {
            close(late);
            break;
        }
    }
    relay_end();
    ck_assert_uint_eq(take(reader, &byte, 1), 0);
    ck_assert_uint_eq(take(end, &byte, 1), 0);
    close(reader);
    close(end);
}
END_TEST

/* A relay that takes the place of another one takes over its address from the first process, be it
 * a writer or a reader, and writers keep theirs; others get new ones. */
START_TEST(again)
{
    struct share_id own = {.address = ""};
    char text[FAR_ADDR_MAX] = "";
    char first[FAR_ADDR_MAX];
    char byte;
    int writer, reader, end, other;

    relay_begin();
    writer = registered(text);
    memcpy(first, text, sizeof(first));
    for (int i = 0; i < 2; i++) {
        relay_end();
        ck_assert_uint_eq(take(writer, &byte, 1), 0);
        close(writer);
        relay_next();
        if (i == 1) { /* a reader that has used the former relay is the first */
            reader = share_connect(&place, text, &own, &err);
            ck_assert_int_ge(reader, 0);
            ck_assert_uint_eq(take(reader, &byte, 1), 0);
            close(reader);
        }
        writer = registered(text);
        ck_assert_str_eq(text, first);
        ck_assert_int_ge(reader = share_connect(&place, text, &own, &err), 0);
        end = passed(writer);
        ck_assert_uint_eq(fill(reader, "x", 1), 1);
        ck_assert_uint_eq(take(end, &byte, 1), 1);
        close(reader);
        close(end);
    }
    other = registered(text); /* the token has an owner */
    ck_assert_str_ne(text, first);
    close(other);
    memcpy(text, first, sizeof(text));
    close(writer);
    relay_end();
    relay_next();
    first[0] = '\0';
    other = registered(first); /* now a process that knows nothing is the first */
    writer = registered(text);
    ck_assert_str_eq(strchr(text, '@'), strchr(first, '@'));
    close(other);
    close(writer);
    relay_end();
}
END_TEST

/* A relay ends when nobody has used it for a while, and not before. */
START_TEST(idle)
{
    share_relay_t *r;
    int stop;

    namespace_new();
    ck_assert_int_ge(stop = eventfd(0, 0), 0);
    ck_assert_msg((r = share_relay_create("127.0.0.1", NULL, &err)) != NULL, "%s", err.text);
    share_relay_run(r, stop, 0.01);
    ck_assert_ptr_null(share_relay_create("127.0.0.1", NULL, &err));
    ck_assert_int_eq(errno, EADDRINUSE);
    share_relay_destroy(r);
    close(stop);
}
END_TEST

int main(void)
{
    RUN_SUITE("share", requests, channels, ends, again, idle);
}
