/* check_far_strangers.c - streams between hosts: readers that are not admitted, or say what no
 * reader says; writers that are not heard, or say what no writer says; and addresses that other
 * processes have taken. */
#include "config.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"
#include "far_connect.h"
#include "libstream/far_link.h"
#include "libstream/far_msg.h"
#include "libutil/clock.h"
#include "libutil/test/suite.h"

static unsigned char secret[FAR_KEY_LEN] = "what the module has told";

static int dial(const char *address)
{
    int fd = far_connect(address);

    ck_assert_msg(fd >= 0, "%s: %s", address, strerror(errno));
    return fd;
}

/* From another address of this host. */
static int dial_from(const char *address, const char *from)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, from, &in.sin_addr);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    inet_pton(AF_INET, "127.0.0.1", &in.sin_addr);
    in.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    return fd;
}

/* Receive until the end, at most 30 s: how many bytes came. */
static size_t drain(int fd)
{
    unsigned char buf[1000];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t got = 0;
    ssize_t n;

    while (poll(&p, 1, 30000) == 1 && (n = recv(fd, buf, sizeof(buf), 0)) > 0)
        got += (size_t)n;
    ck_assert_msg(n == 0 || errno == ECONNRESET, "a stranger is not disconnected");
    close(fd);
    return got;
}

static void wrong(const char *address, struct far_grant g, const unsigned char *key)
{
    struct inlet_far_opts far = {
        .address = address, .secret = secret, .reader = 7, .expires = g.expires};
    struct knock_want w;

    knock_want_init(&w);
    far_key_grant(secret, key, &g);
    ck_assert_ptr_null(inlet_connect_far(&far, &w, 30., &err));
    ck_assert_msg(errno == EACCES, "%s", err.text);
}

/* Whoever does not know the capability is refused; whoever says anything else gets a greeting and
 * nothing. */
START_TEST(strangers)
{
    static const unsigned char other[FAR_KEY_LEN] = "of another writer";
    uint64_t now = (uint64_t)clock_wall();
    unsigned char buf[2 * FAR_HELLO_LEN];
    const char *at;
    outlet_t *o;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    at = writer_address(o);
    wrong(at, (struct far_grant){"test", 7, now - 2}, ends_key);   /* old */
    wrong(at, (struct far_grant){"test", 8, now + 60}, ends_key);  /* another reader */
    wrong(at, (struct far_grant){"tests", 7, now + 60}, ends_key); /* stream */
    wrong(at, (struct far_grant){"test", 7, now + 60}, other);
    for (size_t len = 1; len <= sizeof(buf); len += 51) {
        int fd = dial(at);

        memset(buf, (int)len, len);
        ck_assert_int_eq(send(fd, buf, len, MSG_NOSIGNAL), (ssize_t)len);
        if (len < FAR_HELLO_LEN)
            shutdown(fd, SHUT_WR);
        ck_assert_uint_le(drain(fd), FAR_GREETING_LEN);
    }
    ck_assert_uint_ge(stats(o).refused, 5);
    ck_assert_uint_eq(stats(o).readers, 0);
    outlet_destroy(o);
}
END_TEST

/* Grants expire by the clock of the module, as the writer was told it last; a message that was read
 * late does not set it back. */
START_TEST(clocks)
{
    const double first[] = {1e6, 5e9};
    struct knock_want w;
    outlet_t *o;

    ends_way = (enum way)_i;
    knock_want_init(&w);
    for (size_t k = 0; k < 2; k++) {
        struct far_grant g = {"test", 7, (uint64_t)first[k] + 60};
        struct inlet_far_opts far = {.secret = secret, .reader = 7, .expires = g.expires};
        inlet_t *i;

        o = writer(0., 0);
        far.address = writer_address(o);
        outlet_set_clock(o, first[k]);
        outlet_set_clock(o, first[k] - 30);
        wrong(far.address, (struct far_grant){"test", 7, (uint64_t)first[k] - 2}, ends_key);
        far_key_grant(secret, ends_key, &g);
        ck_assert_ptr_nonnull(i = inlet_connect_far(&far, &w, 30., &err));
        inlet_destroy(i);
        outlet_set_clock(o, first[k] + 100);
        wrong(far.address, g, ends_key);
        outlet_set_clock(o, first[k]); /* another module */
        far_key_grant(secret, ends_key, &g);
        ck_assert_ptr_nonnull(i = inlet_connect_far(&far, &w, 30., &err));
        inlet_destroy(i);
        outlet_destroy(o);
    }
}
END_TEST

/* A connection that is greeted, and has said nothing. */
static int greeted(int fd, unsigned char *greeting)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    poll(&p, 1, 30000);
    ck_assert_int_eq(recv(fd, greeting, FAR_GREETING_LEN, 0), FAR_GREETING_LEN);
    return fd;
}

/* It says what it wants: how it is welcomed. */
static struct far_welcome welcomed(int fd, const unsigned char *greeting,
                                   const struct knock_want *want, struct far_keys *keys)
{
    struct far_grant g = {"test", 7, (uint64_t)clock_wall() + 60};
    struct far_hello h = {.want = *want, .reader = g.reader, .expires = g.expires};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    unsigned char hello[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];
    struct far_welcome w;

    far_key_grant(secret, ends_key, &g);
    far_hello_make(hello, &h, secret, greeting);
    ck_assert_int_eq(send(fd, hello, sizeof(hello), 0), sizeof(hello));
    poll(&p, 1, 30000);
    ck_assert_int_eq(recv(fd, welcome, sizeof(welcome), 0), sizeof(welcome));
    ck_assert_int_eq(far_welcome_read(welcome, &w, secret, hello), 0);
    far_keys_make(keys, secret, hello, greeting);
    return w;
}

/* More silent strangers than may knock do not keep anybody out, of another host or of theirs. */
START_TEST(crowd)
{
    char text[FAR_ADDR_MAX];
    struct outlet_opts opts = {.key = ends_key,
                               .space = 64 << 20,
                               .knock = 1000.,
                               .far = {.stream = "test", .linger = 0.01}};
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char last[FAR_GREETING_LEN];
    struct far_keys keys;
    struct knock_want w;
    int silent[160];
    outlet_t *o;
    inlet_t *i;
    int fd;

    ends_way = TCP;
    ck_assert_int_ge(opts.far.listen = far_addr_listen("127.0.0.1", NULL, text, &err), 0);
    ck_assert_ptr_nonnull(o = outlet_create(&opts, &err));
    for (int k = 0; k < 80; k++)
        silent[k] = dial(text);
    fd = greeted(dial_from(text, "127.0.0.2"), greeting);
    for (int k = 80; k < 160; k++)
        silent[k] = dial(text);
    /* They are greeted one after the other; as many as may stay are the last of their address. */
    greeted(silent[159], last);
    ck_assert_uint_eq(stats(o).refused, 160 + 1 - 64);
    for (int k = 0; k < 160 - 63; k++)
        ck_assert_uint_le(drain(silent[k]), FAR_GREETING_LEN);
    knock_want_init(&w);
    ck_assert_int_eq(welcomed(fd, greeting, &w, &keys).errnum, 0);
    i = reader_try(text, &w);
    ck_assert_msg(i != NULL, "%s", err.text);
    close(fd);
    wait_readers(o, 1);
    put(o, 1);
    get_release(i, 1);
    for (int k = 160 - 63; k < 160; k++)
        close(silent[k]);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

static void *destroy(void *o)
{
    outlet_destroy(o);
    return NULL;
}

/* Whoever has knocked before the writer closes the stream, and wants to be in a group afterwards,
 * is not admitted; nor is one that connects after that, while readers may still resume. */
START_TEST(late)
{
    char text[FAR_ADDR_MAX];
    struct outlet_opts opts = {
        .key = ends_key,
        .space = 64 << 20,
        .keep = 1,
        .far = {.stream = "test", .linger = 1000., .shared = "through a relay"}};
    unsigned char greeting[FAR_GREETING_LEN];
    struct far_keys keys;
    struct inlet_step s;
    struct knock_want w;
    pthread_t t;
    outlet_t *o;
    inlet_t *i;
    int errnum;
    int fd;

    ends_way = (enum way)_i;
    ck_assert_int_ge(opts.far.listen = far_addr_listen("127.0.0.1", NULL, text, &err), 0);
    ck_assert_ptr_nonnull(o = outlet_create(&opts, &err));
    knock_want_init(&w);
    ck_assert_msg((i = reader_try(text, &w)) != NULL, "%s", err.text);
    put(o, 1);
    s = get(i, 1);
    fd = greeted(dial(text), greeting);
    ck_assert_int_eq(pthread_create(&t, NULL, destroy, o), 0);
    get_error(i, ENODATA);
    ck_assert_int_eq(knock_group_set(&w, "late", NULL, &err), 0);
    ck_assert_int_eq(welcomed(fd, greeting, &w, &keys).errnum, ECONNRESET);
    close(fd);
    knock_want_init(&w);
    do { /* the thread of the writer may not know yet that it closes */
        fd = greeted(dial(text), greeting);
        errnum = welcomed(fd, greeting, &w, &keys).errnum;
        close(fd);
    } while (errnum == 0);
    ck_assert_int_eq(errnum, ECONNRESET);
    ck_assert_int_eq(inlet_release(i, &s), 0);
    pthread_join(t, NULL);
    inlet_destroy(i);
}
END_TEST

/* A reader that is admitted, byte by byte: what it must not say. */
static far_link_t *admitted(const char *address)
{
    unsigned char greeting[FAR_GREETING_LEN];
    int fd = greeted(dial(address), greeting);
    struct knock_want want;
    struct far_welcome w;
    struct far_keys keys;
    far_link_t *l;

    knock_want_init(&want);
    w = welcomed(fd, greeting, &want, &keys);
    ck_assert_ptr_nonnull(l = far_link_create(fd));
    if (w.secure)
        ck_assert_int_eq(far_link_secure(l, keys.to_writer, keys.to_reader), 0);
    return l;
}

START_TEST(talkers)
{
    static const struct far_msg bad[] = {
        {.type = FAR_RELEASE, .number = 1},                        /* not held */
        {.type = FAR_BYTES, .number = 1, .step = 0, .len = 8},     /* not held */
        {.type = FAR_BYTES, .number = 1, .step = 1, .len = ~0ull}, /* too long: 2 is held */
        {.type = FAR_BOX, .number = 1, .step = 0},                 /* not a box */
        {.type = FAR_BOX, .number = 1, .step = 99},
        {.type = FAR_END, .number = 1}, /* a writer's */
    };
    outlet_t *o;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        far_link_t *l = admitted(writer_address(o));
        unsigned char head[FAR_HEAD_LEN];
        struct iovec iov = {head, sizeof(head)};

        wait_readers(o, 1);
        if (k >= 2)
            put(o, k);
        far_msg_encode(&bad[k], head);
        ck_assert_int_eq(far_link_send(l, &iov, 1), sizeof(head));
        wait_readers(o, 0);
        ck_assert_uint_eq(stats(o).live, 0);
        far_link_destroy(l);
    }
    outlet_destroy(o);
}
END_TEST

/* A writer that says what a writer does not say, to a reader that is joined. */
static void *lie(void *arg)
{
    int fd = accept_reader(*(int *)arg, secret);
    unsigned char c;

    ck_assert_int_eq(send(fd, (int *)arg + 1, FAR_HEAD_LEN, MSG_NOSIGNAL), FAR_HEAD_LEN);
    while (recv(fd, &c, 1, 0) > 0)
        ;
    close(fd);
    return NULL;
}

/* A writer that resets two connections, closes the third, and then refuses who comes, or dies. */
struct moody {
    int listen;
    bool dies;
};

static void *hang_up(void *arg)
{
    const struct moody *m = arg;

    for (int k = 0; k < (m->dies ? 3 : 4); k++) {
        const struct linger reset = {.l_onoff = k < 2};
        int fd = accept(m->listen, NULL, NULL);
        unsigned char greeting[FAR_GREETING_LEN];
        unsigned char hello[FAR_HELLO_LEN];
        unsigned char no[FAR_WELCOME_LEN];

        far_greeting_make(greeting);
        ck_assert_int_eq(send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL), sizeof(greeting));
        if (k > 0)
            ck_assert_int_eq(recv(fd, hello, sizeof(hello), MSG_WAITALL), sizeof(hello));
        far_refusal_make(no);
        if (k == 3)
            ck_assert_int_eq(send(fd, no, sizeof(no), MSG_NOSIGNAL), sizeof(no));
        if (k == 2 && m->dies)
            close(m->listen);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
    }
    if (!m->dies)
        close(m->listen);
    return NULL;
}

/* A reader that was not answered tries again, unless the writer has died; one that is refused does
 * not. */
START_TEST(unheard)
{
    char text[FAR_ADDR_MAX];
    char says[2 * FAR_ADDR_MAX];
    struct inlet_far_opts far = {.address = text, .secret = secret};
    struct moody m = {far_addr_listen("127.0.0.1", NULL, text, &err), _i == 1};
    struct knock_want w;
    pthread_t t;

    ck_assert_int_eq(fcntl(m.listen, F_SETFL, 0), 0);
    ck_assert_int_eq(pthread_create(&t, NULL, hang_up, &m), 0);
    knock_want_init(&w);
    ck_assert_ptr_null(inlet_connect_far(&far, &w, 30., &err));
    ck_assert_msg(errno == (m.dies ? ECONNRESET : EACCES), "%s", err.text);
    snprintf(says, sizeof(says),
             m.dies ? "the writer of a stream at %s died before it answered"
                    : "the writer at %s refuses the capability: the stream may have begun anew "
                      "since its name was looked up",
             text);
    ck_assert_str_eq(err.text, says);
    pthread_join(t, NULL);
}
END_TEST

/* A process of another kind: it answers with what no writer says; or just hangs up. */
struct other {
    int listen;
    bool talks;
};

static void *other(void *arg)
{
    static const unsigned char hi[FAR_GREETING_LEN] = "220 mail.example.org";
    const struct other *o = arg;
    int fd = accept(o->listen, NULL, NULL);

    if (o->talks)
        ck_assert_int_eq(send(fd, hi, sizeof(hi), MSG_NOSIGNAL), sizeof(hi));
    close(fd);
    close(o->listen);
    return NULL;
}

/* A reader finds the writer at its second address when somebody else is at the first: a program of
 * another kind, or the writer of another stream. */
START_TEST(addresses_taken)
{
    char text[FAR_ADDR_MAX];
    char both[2 * FAR_ADDR_MAX];
    unsigned char another[FAR_KEY_LEN] = "another key";
    struct outlet_opts opts = {.key = another, .space = 64 << 20};
    struct knock_want w;
    struct inlet_step s;
    outlet_t *taker = NULL;
    outlet_t *o;
    inlet_t *i;
    pthread_t t;
    struct other arg = {far_addr_listen("127.0.0.1", NULL, text, &err), _i == 0};

    ck_assert_msg(arg.listen >= 0, "%s", err.text);
    if (_i < 2) {
        ck_assert_int_eq(fcntl(arg.listen, F_SETFL, 0), 0);
        ck_assert_int_eq(pthread_create(&t, NULL, other, &arg), 0);
    } else {
        opts.far =
            (struct outlet_far_opts){.listen = arg.listen, .stream = "other", .linger = 0.01};
        ck_assert_msg((taker = outlet_create(&opts, &err)) != NULL, "%s", err.text);
    }
    ends_way = TCP;
    o = writer(0., 1);
    snprintf(both, sizeof(both), "tcp://127.0.0.1:1,%s,%s", text, writer_address(o));
    knock_want_init(&w);
    ck_assert_msg((i = reader_try(both, &w)) != NULL, "%s", err.text);
    put(o, 3);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    ck_assert_uint_eq(s.step, 3);
    inlet_destroy(i);
    if (_i < 2)
        pthread_join(t, NULL);
    else { /* the error that is told is that of the process which has come closest */
        snprintf(both, sizeof(both), "%s,tcp://127.0.0.1:1", text);
        ck_assert_ptr_null(reader_try(both, &w));
        ck_assert_msg(errno == EACCES && strstr(err.text, text), "%s", err.text);
    }
    outlet_destroy(taker);
    outlet_destroy(o);
}
END_TEST

START_TEST(liars)
{
    static const struct far_msg says[] = {
        {.type = FAR_DATA, .number = 1, .len = 1ull << 32}, /* not asked for */
        {.type = FAR_AGAIN, .number = 1, .len = 10},        /* as which one? */
        {.type = FAR_STEP, .number = 0, .len = 10},         /* numbers rise from 1 on */
        {.type = FAR_STEP, .number = 1, .len = 1ull << 60}, /* no such addresses */
        {.type = FAR_STEP,
         .number = 1,
         .len = 5000,
         .payload = 4000}, /* half a step, and silence */
    };
    char text[FAR_ADDR_MAX];
    struct {
        int listen;
        unsigned char head[FAR_HEAD_LEN];
    } arg;

    arg.listen = far_addr_listen("127.0.0.1", NULL, text, &err);
    ck_assert_int_eq(fcntl(arg.listen, F_SETFL, 0), 0);
    for (size_t k = 0; k < sizeof(says) / sizeof(says[0]); k++) {
        struct inlet_far_opts far = {.address = text, .secret = secret};
        struct knock_want w;
        struct inlet_step s;
        pthread_t t;
        inlet_t *i;
        int rc;

        far_msg_encode(&says[k], arg.head);
        ck_assert_int_eq(pthread_create(&t, NULL, lie, &arg), 0);
        knock_want_init(&w);
        ck_assert_msg((i = inlet_connect_far(&far, &w, 30., &err)) != NULL, "%s", err.text);
        rc = inlet_next(i, k == 4 ? 0.01 : 30., &s, &err);
        ck_assert_int_eq(rc, -1);
        ck_assert_msg(errno == (k == 3   ? ENOSPC
                                : k == 4 ? ETIMEDOUT
                                         : EPROTO),
                      "%zu: %s", k, err.text);
        inlet_destroy(i);
        pthread_join(t, NULL);
    }
    close(arg.listen);
}
END_TEST

int main(void)
{
    const TTest *const tcp[] = {strangers, clocks, late, talkers};
    const TTest *const once[] = {crowd, liars};
    TCase *tc = tcase_create("far_strangers");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
        tcase_add_test(tc, once[i]);
    for (size_t i = 0; i < sizeof(tcp) / sizeof(tcp[0]); i++)
        tcase_add_loop_test(tc, tcp[i], TCP, WAYS);
    tcase_add_loop_test(tc, unheard, 0, 2);
    tcase_add_loop_test(tc, addresses_taken, 0, 3);
    return run_case("far_strangers", tc);
}
