/* bench_rpc.c - what a request costs: at the local broker, in numbers, and across hops of the tree.
 *
 *    bench_rpc local      beside a plain UNIX socket: two processes, the same bytes
 *    bench_rpc hops       beside plain ZeroMQ: DEALER and ROUTER in two processes, over ipc, with
 *                         and without CURVE.  In a session whose tree is a chain: what rank n+1
 *                         takes longer than rank n is one hop.
 *
 * "blocking" is what a command does (flux_future_wait), "reactor" what a daemon does
 * (flux_future_then and a loop).
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "bench.h"
#include "libflux/future.h"

#define PAYLOAD 32
#define ROUNDS 7
#define PER_ROUND 4000
#define HOP_ROUNDS 7
#define HOP_PER_ROUND 1500
#define MAX_HOPS 3
#define RATE_COUNT 100000
#define RATE_ROUNDS 5

struct rpc {
    flux_t *h;
    const char *topic;
    uint32_t nodeid;
    char payload[PAYLOAD];
    /* reactor */
    double *us;
    size_t n;
    size_t sent;
    size_t done;
    double last;
};

static flux_future_t *request(struct rpc *r)
{
    flux_future_t *f = flux_rpc_raw(r->h, r->topic, r->payload, PAYLOAD, r->nodeid, 0);

    if (!f)
        bench_die("%s: %s", r->topic, strerror(errno));
    return f;
}

static void check(struct rpc *r, flux_future_t *f)
{
    const void *data;
    size_t len;
    errmsg_t err;

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0)
        bench_die("%s at rank %d: %s", r->topic, (int)r->nodeid, err.text);
    if (len != PAYLOAD)
        bench_die("%s: %zu bytes came back of %d", r->topic, len, PAYLOAD);
}

static void blocking_block(void *arg, double *us, size_t n)
{
    struct rpc *r = arg;
    double last = bench_now_us();

    for (size_t i = 0; i < n; i++) {
        flux_future_t *f = request(r);
        double now;
        if (flux_future_wait(f, -1.) < 0)
            bench_die("%s: %s", r->topic, strerror(errno));
        check(r, f);
        flux_future_destroy(f);
        now = bench_now_us();
        us[i] = now - last;
        last = now;
    }
}

static void reactor_send(struct rpc *r);

static void reactor_cb(flux_future_t *f, void *arg)
{
    struct rpc *r = arg;
    double now;

    check(r, f);
    flux_future_destroy(f);
    now = bench_now_us();
    if (r->us)
        r->us[r->done] = now - r->last;
    r->last = now;
    if (++r->done == r->n)
        flux_reactor_stop(flux_get_reactor(r->h), 0);
    else if (r->sent < r->n)
        reactor_send(r);
}

static void reactor_send(struct rpc *r)
{
    r->sent++;
    if (flux_future_then(request(r), 0., reactor_cb, r) < 0)
        bench_die("%s: %s", r->topic, strerror(errno));
}

static void reactor_run(struct rpc *r, double *us, size_t n, size_t window)
{
    r->us = us;
    r->n = n;
    r->sent = 0;
    r->done = 0;
    r->last = bench_now_us();
    flux_reactor_update(flux_get_reactor(r->h));
    for (size_t i = 0; i < window; i++)
        reactor_send(r);
    if (flux_run(r->h) < 0)
        bench_die("%s: the broker is gone", r->topic);
}

static void reactor_block(void *arg, double *us, size_t n)
{
    reactor_run(arg, us, n, 1);
}

static double rate(struct rpc *r, size_t n, size_t window)
{
    double begin = bench_now_us();

    reactor_run(r, NULL, n, window);
    return (double)n / (bench_now_us() - begin) * 1e6;
}

/* Bytes that a request has on the local socket. */
static size_t wire_size(const char *topic)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    char payload[PAYLOAD] = {0};
    size_t size;

    if (!msg || flux_msg_set_raw(msg, payload, PAYLOAD) < 0)
        bench_die("out of memory");
    size = flux_msg_encoded_size(msg);
    flux_msg_destroy(msg);
    return size;
}

/* --- local --- */

static void local_latency(flux_t *h, struct bench_echo *echo)
{
    struct rpc main_thread = {.h = h, .topic = "broker.ping", .nodeid = FLUX_NODEID_ANY};
    struct rpc module = {.h = h, .topic = "barrier.ping", .nodeid = FLUX_NODEID_ANY};
    struct bench_op ops[] = {
        {.block = bench_echo_block, .arg = echo, .n = PER_ROUND},
        {.block = blocking_block, .arg = &main_thread, .n = PER_ROUND},
        {.block = reactor_block, .arg = &main_thread, .n = PER_ROUND},
        {.block = blocking_block, .arg = &module, .n = PER_ROUND},
        {.block = reactor_block, .arg = &module, .n = PER_ROUND},
    };
    static const char *const names[] = {"", "broker's thread, blocking", "broker's thread, reactor",
                                        "module's thread, blocking", "module's thread, reactor"};
    char name[64];

    bench_rounds(ops, 5, ROUNDS);
    for (size_t i = 1; i < 5; i++) {
        struct bench_figure f = {name, ops[i].p50, "us", "UNIX socket p50", ops[0].p50,
                                 NULL, 0.,         0.,   i < 3 ? 4. : 0.};
        snprintf(name, sizeof(name), "RPC %s p50", names[i]);
        bench_print(&f);
        f.value = ops[i].p99;
        f.ref_name = "UNIX socket p99";
        f.ref = ops[0].p99;
        f.ratio_at_most = 0.;
        snprintf(name, sizeof(name), "RPC %s p99", names[i]);
        bench_print(&f);
    }
}

static void local_rate(flux_t *h, struct bench_echo *echo)
{
    static const size_t windows[] = {256, 1024, 4096};
    enum { NWINDOWS = 3 };
    struct rpc r = {.h = h, .topic = "broker.ping", .nodeid = FLUX_NODEID_ANY};
    double flux[NWINDOWS][RATE_ROUNDS];
    double bare[NWINDOWS][RATE_ROUNDS];
    char name[64];

    for (size_t round = 0; round < RATE_ROUNDS; round++) {
        for (size_t w = 0; w < NWINDOWS; w++) {
            bare[w][round] = bench_echo_rate(echo, RATE_COUNT, windows[w]);
            flux[w][round] = rate(&r, RATE_COUNT, windows[w]);
        }
    }
    for (size_t w = 0; w < NWINDOWS; w++) {
        struct bench_figure f = {.name = name,
                                 .unit = "/s",
                                 .value = bench_percentile(flux[w], RATE_ROUNDS, 50.),
                                 .ref_name = "UNIX socket, same window",
                                 .ref = bench_percentile(bare[w], RATE_ROUNDS, 50.),
                                 .at_least = 150000.};
        snprintf(name, sizeof(name), "RPCs of one client, %zu under way", windows[w]);
        bench_print(&f);
    }
}

static void bench_local(void)
{
    struct bench_echo echo;
    flux_t *h;

    bench_echo_start(&echo, wire_size("broker.ping"));
    h = bench_open();
    bench_title("local RPC with %d bytes of payload, %zu with header", PAYLOAD, echo.size);
    local_latency(h, &echo);
    local_rate(h, &echo);
    flux_close(h);
    bench_echo_stop(&echo);
}

/* --- plain ZeroMQ --- */

struct bare_zmq {
    void *ctx;
    void *sock;
    pid_t pid;
    size_t size;
    char *buf;
};

struct keys {
    char server_public[41], server_secret[41];
    char client_public[41], client_secret[41];
};

static void zmq_check(int rc, const char *what)
{
    if (rc < 0)
        bench_die("%s: %s", what, zmq_strerror(errno));
}

/* ROUTER: identity and body come in, and go back. */
static void router_serve(const char *uri, const struct keys *k)
{
    void *ctx = zmq_ctx_new();
    void *sock = zmq_socket(ctx, ZMQ_ROUTER);
    int one = 1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (k) {
        zmq_check(zmq_setsockopt(sock, ZMQ_CURVE_SERVER, &one, sizeof(one)), "CURVE");
        zmq_check(zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, k->server_secret, 41), "CURVE");
    }
    zmq_check(zmq_bind(sock, uri), uri);
    for (;;) {
        zmq_msg_t id;
        zmq_msg_t body;
        zmq_msg_init(&id);
        zmq_msg_init(&body);
        zmq_check(zmq_msg_recv(&id, sock, 0), "recv");
        zmq_check(zmq_msg_recv(&body, sock, 0), "recv");
        zmq_check(zmq_msg_send(&id, sock, ZMQ_SNDMORE), "send");
        zmq_check(zmq_msg_send(&body, sock, 0), "send");
    }
}

static void bare_start(struct bare_zmq *z, const char *dir, const char *name, size_t size,
                       const struct keys *k)
{
    char uri[256];

    snprintf(uri, sizeof(uri), "ipc://%s/%s", dir, name);
    fflush(stdout);
    if ((z->pid = fork()) < 0)
        bench_die("fork: %s", strerror(errno));
    if (z->pid == 0)
        router_serve(uri, k);
    z->ctx = zmq_ctx_new();
    z->sock = zmq_socket(z->ctx, ZMQ_DEALER);
    if (k) {
        zmq_check(zmq_setsockopt(z->sock, ZMQ_CURVE_SERVERKEY, k->server_public, 41), "CURVE");
        zmq_check(zmq_setsockopt(z->sock, ZMQ_CURVE_PUBLICKEY, k->client_public, 41), "CURVE");
        zmq_check(zmq_setsockopt(z->sock, ZMQ_CURVE_SECRETKEY, k->client_secret, 41), "CURVE");
    }
    zmq_check(zmq_connect(z->sock, uri), uri);
    z->size = size;
    if (!(z->buf = calloc(1, size)))
        bench_die("out of memory");
}

static void bare_stop(struct bare_zmq *z)
{
    int zero = 0;

    kill(z->pid, SIGKILL);
    waitpid(z->pid, NULL, 0);
    zmq_setsockopt(z->sock, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_close(z->sock);
    zmq_ctx_term(z->ctx);
    free(z->buf);
}

static void bare_block(void *arg, double *us, size_t n)
{
    struct bare_zmq *z = arg;
    double last = bench_now_us();

    for (size_t i = 0; i < n; i++) {
        double now;
        zmq_check(zmq_send(z->sock, z->buf, z->size, 0), "send");
        zmq_check(zmq_recv(z->sock, z->buf, z->size, 0), "recv");
        now = bench_now_us();
        us[i] = now - last;
        last = now;
    }
}

/* --- hops --- */

static void bench_hops(void)
{
    char dir[] = "/tmp/flux-bench.XXXXXX";
    struct bare_zmq plain;
    struct bare_zmq curve;
    struct keys k;
    struct rpc to[MAX_HOPS + 1];
    struct bench_op ops[MAX_HOPS + 3];
    char name[64];
    char path[64];
    size_t size = wire_size("broker.ping") + 4; /* one route id */
    flux_t *h;

    if (!mkdtemp(dir))
        bench_die("%s: %s", dir, strerror(errno));
    zmq_check(zmq_curve_keypair(k.server_public, k.server_secret), "CURVE");
    zmq_check(zmq_curve_keypair(k.client_public, k.client_secret), "CURVE");
    bare_start(&plain, dir, "plain", size, NULL);
    bare_start(&curve, dir, "curve", size, &k);
    h = bench_open();
    if (flux_size(h) <= MAX_HOPS || flux_rank(h) != 0)
        bench_die("hops are measured from rank 0 in a chain of %d brokers", MAX_HOPS + 1);
    bench_title("one hop of the tree");
    ops[0] = (struct bench_op){.block = bare_block, .arg = &plain, .n = HOP_PER_ROUND};
    ops[1] = (struct bench_op){.block = bare_block, .arg = &curve, .n = HOP_PER_ROUND};
    for (uint32_t i = 0; i <= MAX_HOPS; i++) {
        to[i] = (struct rpc){.h = h, .topic = "broker.ping", .nodeid = i};
        ops[2 + i] = (struct bench_op){.block = blocking_block, .arg = &to[i], .n = HOP_PER_ROUND};
    }
    bench_rounds(ops, MAX_HOPS + 3, HOP_ROUNDS);
    for (uint32_t i = 0; i <= MAX_HOPS; i++) {
        struct bench_figure f = {.name = name, .value = ops[2 + i].p50, .unit = "us"};
        snprintf(name, sizeof(name), "RPC over %u hops p50", i);
        bench_print(&f);
    }
    for (uint32_t i = 1; i <= MAX_HOPS + 1; i++) {
        bool all = i == MAX_HOPS + 1;
        struct bench_figure f = {.name = name,
                                 .value = all ? (ops[2 + MAX_HOPS].p50 - ops[2].p50) / MAX_HOPS
                                              : ops[2 + i].p50 - ops[1 + i].p50,
                                 .unit = "us",
                                 .ref_name = "ZeroMQ round trip, plain",
                                 .ref = ops[0].p50,
                                 .ratio_at_most = 3.};
        if (all)
            snprintf(name, sizeof(name), "a hop, mean of %d", MAX_HOPS);
        else
            snprintf(name, sizeof(name), "hop %u adds", i);
        bench_print(&f);
        f.ref_name = "ZeroMQ round trip, CURVE";
        f.ref = ops[1].p50;
        bench_print(&f);
    }
    flux_close(h);
    bare_stop(&plain);
    bare_stop(&curve);
    snprintf(path, sizeof(path), "%s/plain", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/curve", dir);
    unlink(path);
    rmdir(dir);
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], "local") == 0)
        bench_local();
    else if (argc == 2 && strcmp(argv[1], "hops") == 0)
        bench_hops();
    else {
        fprintf(stderr, "usage: flux start ... bench_rpc local|hops\n");
        return 2;
    }
    return 0;
}
