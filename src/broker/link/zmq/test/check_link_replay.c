/* check_link_replay.c - what somebody between two brokers can do: alter, repeat, send back, or
 * record what passes, over TCP with CURVE.  None of it becomes a message, and none of it costs
 * memory. */
#include "link_bed.h"

#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>

#include "libutil/test/suite.h"

#define RECORD_MAX (1u << 20)
#define ROUNDS 200u
#define LEFT_MAX (256u * 1024)

/* Somebody between rank 1, which connects to `port`, and rank 0. */
static struct {
    int listener, client, server;
    unsigned port, target;
    bool alter; /* flip a bit of what comes next from rank 1 */
    struct record {
        char data[RECORD_MAX];
        size_t len, last; /* `last`: where the last part begins */
    } up, down;
} man;

static int loopback(unsigned port, bool listens, unsigned *got)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    if (listens) {
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&sin, len), 0);
        ck_assert_int_eq(listen(fd, 10), 0);
        ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
        *got = ntohs(sin.sin_port);
    } else
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&sin, len), 0);
    return fd;
}

static void give(int fd, const char *data, size_t len)
{
    ck_assert_int_eq(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Pass on what has come, once.  Returns false when the connection has ended. */
static bool pass(int from, int to, struct record *r)
{
    struct pollfd p = {.fd = from, .events = POLLIN};
    ssize_t n;

    if (poll(&p, 1, 0) < 1)
        return true;
    ck_assert_uint_lt(r->len, RECORD_MAX / 2);
    if ((n = recv(from, r->data + r->len, RECORD_MAX - r->len, 0)) <= 0)
        return false;
    r->last = r->len;
    r->len += (size_t)n;
    if (man.alter && r == &man.up)
        r->data[r->len - 1] ^= 1;
    give(to, r->data + r->last, (size_t)n);
    return true;
}

static void man_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct pollfd p = {.fd = man.listener, .events = POLLIN};

    if (man.client < 0 && poll(&p, 1, 0) == 1) {
        man.client = accept(man.listener, NULL, NULL);
        man.server = loopback(man.target, false, NULL);
    }
    if (man.client >= 0 &&
        (!pass(man.client, man.server, &man.up) || !pass(man.server, man.client, &man.down))) {
        close(man.client);
        close(man.server);
        man.client = man.server = -1;
        flux_watcher_stop(w);
    }
}

/* Rank 1 is connected to rank 0 through `man`, and its first message has arrived. */
static flux_watcher_t *man_between(void)
{
    flux_watcher_t *w = flux_timer_create(reactor, man_cb, NULL);
    char uri[64];
    errmsg_t err = {""};

    two_of_three();
    memset(&man, 0, sizeof(man));
    man.client = man.server = -1;
    man.listener = loopback(0, true, &man.port);
    man.target = (unsigned)atoi(strrchr(transport->ops->tree_uri(node[0].link), ':') + 1);
    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u", man.port);
    ck_assert_int_eq(transport->ops->connect(node[1].link, CORE_TREE, 0, uri,
                                             transport->ops->event_uri(node[0].link),
                                             node[0].key.pub, &err),
                     0);
    ck_assert_int_eq(transport->ops->start(node[1].link, &err), 0);
    flux_timer_start(w, 0., 0.001);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 100, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    return w;
}

/* ZeroMQ reads no further then, and leaves the connection open: only silence tells of it. 0: a bit
 * is flipped.  1: what was sent last is sent again.  2: what rank 0 has sent comes back. */
START_TEST(in_between)
{
    flux_watcher_t *w;

    silent_for(1.);
    w = man_between();
    if (_i == 0) {
        man.alter = true;
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, 2, 100, false), 0);
    } else {
        const struct record *r = _i == 1 ? &man.up : &man.down;

        ck_assert_uint_gt(r->len, 0);
        give(man.server, r->data + r->last, r->len - r->last);
    }
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 1);
    ck_assert_uint_eq(node[1].core.got[CORE_TREE], 0);
    flux_watcher_destroy(w);
    close(man.listener);
}
END_TEST

enum { RECORDED, ALTERED, REFLECTED, KINDS };

/* By many connections, all that rank 1 has ever sent is sent again, as it was or with one bit
 * flipped, or what rank 0 has sent comes back: there is no handshake, rank 1 does not notice, and
 * nothing is kept of them. */
START_TEST(costs_nothing)
{
    flux_watcher_t *w = man_between();
    const struct record *r = _i == REFLECTED ? &man.down : &man.up;
    size_t before = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        int fd = loopback(man.target, false, NULL);
        size_t bit = i * 7919 % (r->len * 8);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        static char data[RECORD_MAX];
        char answer[4096];
        ssize_t n = 1;

        memcpy(data, r->data, r->len);
        if (_i == ALTERED)
            data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        (void)send(fd, data, r->len, MSG_NOSIGNAL);
        if (_i != RECORDED) /* rank 0 may await more of what was altered */
            shutdown(fd, SHUT_WR);
        while (n > 0) { /* until rank 0 ends it */
            run_for(0.002);
            if (poll(&p, 1, 0) == 1)
                n = recv(fd, answer, sizeof(answer), 0);
        }
        close(fd);
        if (i == ROUNDS / 4)
            before = mallinfo2().uordblks;
    }
    run_for(0.1);
    ck_assert_uint_lt(mallinfo2().uordblks, before + LEFT_MAX);
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 1);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 2, 100, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 2, PATIENCE));
    flux_watcher_destroy(w);
    close(man.listener);
    close(man.client);
    close(man.server);
}
END_TEST

/* Wait until rank 0 has refused this connection. */
static void until_refused(void *monitor)
{
    zmq_pollitem_t p = {.socket = monitor, .events = ZMQ_POLLIN};

    for (unsigned i = 0; i < PATIENCE * 500; i++) {
        if (zmq_poll(&p, 1, 0) == 1)
            return;
        run_for(0.002);
    }
    ck_abort_msg("a stranger was not refused");
}

/* Strangers connect one after the other, each with a key that rank 0 has never seen. */
START_TEST(strange_keys)
{
    char pub[41], sec[41];
    size_t before = 0;

    two_of_three();
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *ctx = zmq_ctx_new(), *s, *monitor;

        ck_assert_int_eq(zmq_curve_keypair(pub, sec), 0);
        s = zmq_socket(ctx, ZMQ_DEALER);
        monitor = zmq_socket(ctx, ZMQ_PAIR);
        ck_assert_int_eq(zmq_socket_monitor(s, "inproc://monitor", ZMQ_EVENT_HANDSHAKE_FAILED_AUTH),
                         0);
        ck_assert_int_eq(zmq_connect(monitor, "inproc://monitor"), 0);
        intrude(s, pub, sec, "T\0\0\0\1intruder", LINK_ID_SIZE);
        until_refused(monitor);
        zmq_close(s);
        zmq_close(monitor);
        zmq_ctx_term(ctx);
        if (i == ROUNDS / 4)
            before = mallinfo2().uordblks;
    }
    run_for(0.1);
    ck_assert_uint_lt(mallinfo2().uordblks, before + LEFT_MAX);
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    ck_assert_ptr_nonnull(strstr(node[0].log, "refused"));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("link_replay");

    mallopt(M_ARENA_MAX, 1); /* mallinfo2() then also counts what the threads of ZeroMQ have */
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, in_between, 0, 3);
    tcase_add_loop_test(tc, costs_nothing, 0, KINDS);
    tcase_add_test(tc, strange_keys);
    return run_case("link_replay", tc);
}
