/* bench_rpc.c - what a request costs: at the local broker, in numbers, and across hops of the tree.
 *
 *    bench_rpc local      beside a plain UNIX socket: two processes, the same bytes.  Where the
 *                         processes run decides more than all else: waking up another processor
 *                         that sleeps costs several times the rest.  So there are three lines: as
 *                         the scheduler places them, all on one processor, and the asking process
 *                         on another than the answering one
 *    bench_rpc hops       beside a plain UNIX socket, and plain ZeroMQ: DEALER and ROUTER in two
 *                         processes, over ipc, with and without CURVE.  In a session whose tree is
 *                         a chain: what rank n+1 takes longer than rank n is one hop.
 *
 *    bench_rpc beside     while a command runs that gives the broker a lot to do
 *
 * The first two count wake-ups and system calls as well (bench_count.h), which depend on no host.
 *
 *    bench_rpc count HOW local|hops    nothing but these counts, without bounds: for a session
 *                                      that differs from the default as HOW says
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
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "bench.h"
#include "bench_count.h"
#include "libflux/attr.h"
#include "libflux/future.h"

#define PAYLOAD 32
#define ROUNDS 5
#define PER_ROUND 2000
#define PER_COUNT 500
#define WAKEUPS 2.1 /* for an RPC to this broker; more for each hop */
#define LOCAL_CALLS 6.1
#define HOP_CALLS 6.1
#define HOP_ROUNDS 7
#define HOP_PER_ROUND 1500
#define MAX_HOPS 3
#define BESIDE_IDLE 5000
#define BESIDE_BLOCK 50
#define BESIDE_MAX 1000000
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

static void open_handle(struct rpc *r)
{
    if (!r->h)
        r->h = bench_open();
}

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
    double last;

    open_handle(r);
    last = bench_now_us();
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
    open_handle(arg);
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

struct place {
    const char *name;
    int asking;
    int answering;
};

static void local_latency(pid_t broker, const struct place *place)
{
    struct bench_echo echo = {.size = wire_size("broker.ping"), .cpu = place->answering};
    struct rpc rpcs[] = {
        {.topic = "broker.ping", .nodeid = FLUX_NODEID_ANY},
        {.topic = "broker.ping", .nodeid = FLUX_NODEID_ANY},
        {.topic = "barrier.ping", .nodeid = FLUX_NODEID_ANY},
        {.topic = "barrier.ping", .nodeid = FLUX_NODEID_ANY},
    };
    struct bench_op ops[] = {
        {.block = bench_echo_block, .arg = &echo}, {.block = blocking_block, .arg = &rpcs[0]},
        {.block = reactor_block, .arg = &rpcs[1]}, {.block = blocking_block, .arg = &rpcs[2]},
        {.block = reactor_block, .arg = &rpcs[3]},
    };
    enum { NOPS = sizeof(ops) / sizeof(ops[0]) };
    static const char *const names[] = {"", "to broker, blocking", "to broker, reactor",
                                        "to module, blocking", "to module, reactor"};
    char name[64];

    for (size_t i = 0; i < NOPS; i++) {
        ops[i].n = PER_ROUND;
        ops[i].cpu = place->asking;
    }
    bench_pin(broker, place->answering);
    bench_rounds(ops, NOPS, ROUNDS);
    bench_pin(broker, BENCH_ANY_CPU);
    for (size_t i = 1; i < NOPS; i++) {
        struct bench_figure f = {.name = name,
                                 .value = ops[i].p50,
                                 .unit = "us",
                                 .ref_name = "UNIX socket p50",
                                 .ref = ops[0].p50,
                                 .ratio_at_most = 2.};
        snprintf(name, sizeof(name), "%s, %s p50", names[i], place->name);
        bench_print(&f);
        f.value = ops[i].p99;
        f.ref_name = "UNIX socket p99";
        f.ref = ops[0].p99;
        f.ratio_at_most = 0.;
        snprintf(name, sizeof(name), "%s, %s p99", names[i], place->name);
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

/* How many threads are woken, and how many system calls they make, for a request and its response
 * in these processes. */
static void count(struct rpc *r, const pid_t *pids, size_t n, double *wakeups, double *calls)
{
    double us[PER_ROUND];

    blocking_block(r, us, 1);
    *wakeups = bench_wakeups(pids, n);
    blocking_block(r, us, PER_ROUND);
    *wakeups = (bench_wakeups(pids, n) - *wakeups) / PER_ROUND;
    *calls = 0.;
    if (bench_calls_start(pids, n)) {
        uint64_t begin = bench_calls();
        blocking_block(r, us, PER_COUNT);
        *calls = (double)(bench_calls() - begin) / PER_COUNT;
        bench_calls_stop();
    }
    flux_close(r->h);
}

/* `how`: NULL for the default, which has bounds. */
static void print_counts(const char *what, const char *how, double wakeups, double calls,
                         double most_calls)
{
    char name[128];
    struct bench_figure f = {
        .name = name, .unit = "", .value = wakeups, .at_most = how ? 0. : WAKEUPS};

    snprintf(name, sizeof(name), "wake-ups of %s%s%s", what, how ? ", " : "", how ? how : "");
    bench_print(&f);
    if (calls > 0.) {
        snprintf(name, sizeof(name), "system calls of %s%s%s", what, how ? ", " : "",
                 how ? how : "");
        f.value = calls;
        f.at_most = how ? 0. : most_calls;
        bench_print(&f);
    }
}

static void local_counts(const char *how)
{
    static const char *const topics[] = {"broker.ping", "barrier.ping"};
    static const char *const names[] = {"an RPC to the broker", "an RPC to a module"};
    flux_t *h = bench_open();
    const pid_t broker = bench_broker_pid(h);
    const pid_t pids[] = {broker, getpid()};

    flux_close(h);
    bench_pin(broker, 0);
    bench_pin(getpid(), 0);
    for (size_t i = 0; i < 2; i++) {
        struct rpc r = {.topic = topics[i], .nodeid = FLUX_NODEID_ANY};
        double wakeups, calls;

        count(&r, pids, 2, &wakeups, &calls);
        print_counts(names[i], how, wakeups, calls, LOCAL_CALLS);
    }
    bench_pin(broker, BENCH_ANY_CPU);
    bench_pin(getpid(), BENCH_ANY_CPU);
}

static void bench_local(void)
{
    static const struct place places[] = {
        {"placed freely", BENCH_ANY_CPU, BENCH_ANY_CPU},
        {"one cpu", 0, 0},
        {"two cpus", 1, 0},
    };
    struct bench_echo echo = {.size = wire_size("broker.ping"), .cpu = BENCH_ANY_CPU};
    flux_t *h = bench_open();
    pid_t broker = bench_broker_pid(h);

    bench_title("local RPC: %d bytes of payload, %zu with header", PAYLOAD, echo.size);
    for (size_t i = 0; i < (sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 3 : 2); i++)
        local_latency(broker, &places[i]);
    local_counts(NULL);
    local_rate(h, &echo);
    flux_close(h);
    bench_echo_stop(&echo);
}

/* --- plain ZeroMQ --- */

struct bare_zmq {
    char uri[128];
    const struct keys *keys; /* NULL: no CURVE */
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

static void bare_start(struct bare_zmq *z)
{
    const struct keys *k = z->keys;

    if ((z->pid = bench_fork()) == 0)
        router_serve(z->uri, k);
    z->ctx = zmq_ctx_new();
    z->sock = zmq_socket(z->ctx, ZMQ_DEALER);
    if (k) {
        zmq_check(zmq_setsockopt(z->sock, ZMQ_CURVE_SERVERKEY, k->server_public, 41), "CURVE");
        zmq_check(zmq_setsockopt(z->sock, ZMQ_CURVE_PUBLICKEY, k->client_public, 41), "CURVE");
        zmq_check(zmq_setsockopt(z->sock, ZMQ_CURVE_SECRETKEY, k->client_secret, 41), "CURVE");
    }
    zmq_check(zmq_connect(z->sock, z->uri), z->uri);
    if (!(z->buf = calloc(1, z->size)))
        bench_die("out of memory");
}

/* The process that answers ends with the one that asks. */
static void bare_block(void *arg, double *us, size_t n)
{
    struct bare_zmq *z = arg;
    double last;

    if (!z->sock)
        bare_start(z);
    last = bench_now_us();
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

static void check_chain(flux_t *h)
{
    if (flux_size(h) <= MAX_HOPS || flux_rank(h) != 0)
        bench_die("hops are measured from rank 0 in a chain of %d brokers", MAX_HOPS + 1);
}

/* What one hop adds to the counts, at all brokers. */
static void hop_counts(const char *how)
{
    flux_t *h = bench_open();
    pid_t pids[MAX_HOPS + 2];
    double wakeups[2], calls[2];

    check_chain(h);
    for (uint32_t i = 0; i <= MAX_HOPS; i++) {
        flux_t *rank = bench_open_rank(h, i, NULL);
        pids[i] = bench_broker_pid(rank);
        flux_close(rank);
        bench_pin(pids[i], 0);
    }
    flux_close(h);
    pids[MAX_HOPS + 1] = getpid();
    bench_pin(getpid(), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct rpc r = {.topic = "broker.ping", .nodeid = i ? MAX_HOPS : 0};
        count(&r, pids, MAX_HOPS + 2, &wakeups[i], &calls[i]);
    }
    print_counts("a hop", how, (wakeups[1] - wakeups[0]) / MAX_HOPS,
                 (calls[1] - calls[0]) / MAX_HOPS, HOP_CALLS);
    for (uint32_t i = 0; i < MAX_HOPS + 2; i++)
        bench_pin(pids[i], BENCH_ANY_CPU);
}

static void bench_hops(void)
{
    char dir[] = "/tmp/flux-bench.XXXXXX";
    size_t size = wire_size("broker.ping") + 4; /* one route id */
    struct bare_zmq plain = {.size = size};
    struct bare_zmq curve = {.size = size};
    struct keys k;
    struct rpc to[MAX_HOPS + 1];
    struct bench_echo echo = {.size = size, .cpu = BENCH_ANY_CPU};
    enum { RANK0 = 3, NOPS = RANK0 + MAX_HOPS + 1 }; /* the first are the references */
    struct bench_op ops[NOPS];
    char name[64];
    flux_t *h = bench_open();

    check_chain(h);
    flux_close(h);
    if (!mkdtemp(dir))
        bench_die("%s: %s", dir, strerror(errno));
    zmq_check(zmq_curve_keypair(k.server_public, k.server_secret), "CURVE");
    zmq_check(zmq_curve_keypair(k.client_public, k.client_secret), "CURVE");
    snprintf(plain.uri, sizeof(plain.uri), "ipc://%s/plain", dir);
    snprintf(curve.uri, sizeof(curve.uri), "ipc://%s/curve", dir);
    curve.keys = &k;
    bench_title("one hop of the tree");
    ops[0] = (struct bench_op){.block = bare_block, .arg = &plain};
    ops[1] = (struct bench_op){.block = bare_block, .arg = &curve};
    ops[2] = (struct bench_op){.block = bench_echo_block, .arg = &echo};
    for (uint32_t i = 0; i <= MAX_HOPS; i++) {
        to[i] = (struct rpc){.topic = "broker.ping", .nodeid = i};
        ops[RANK0 + i] = (struct bench_op){.block = blocking_block, .arg = &to[i]};
    }
    for (uint32_t i = 0; i < NOPS; i++) {
        ops[i].n = HOP_PER_ROUND;
        ops[i].cpu = BENCH_ANY_CPU;
    }
    bench_rounds(ops, NOPS, HOP_ROUNDS);
    bench_echo_stop(&echo);
    unlink(plain.uri + strlen("ipc://"));
    unlink(curve.uri + strlen("ipc://"));
    rmdir(dir);
    for (uint32_t i = 0; i <= MAX_HOPS; i++) {
        struct bench_figure f = {.name = name, .value = ops[RANK0 + i].p50, .unit = "us"};
        snprintf(name, sizeof(name), "RPC over %u hops p50", i);
        bench_print(&f);
    }
    for (uint32_t i = 1; i <= MAX_HOPS + 1; i++) {
        bool all = i == MAX_HOPS + 1;
        struct bench_figure f = {.name = name,
                                 .value =
                                     all ? (ops[RANK0 + MAX_HOPS].p50 - ops[RANK0].p50) / MAX_HOPS
                                         : ops[RANK0 + i].p50 - ops[RANK0 + i - 1].p50,
                                 .unit = "us",
                                 .ref_name = "UNIX socket round trip",
                                 .ref = ops[2].p50,
                                 .ratio_at_most = 1.3};
        if (all)
            snprintf(name, sizeof(name), "a hop, mean of %d", MAX_HOPS);
        else
            snprintf(name, sizeof(name), "hop %u adds", i);
        bench_print(&f);
        f.ratio_at_most = 0.;
        f.ref_name = "ZeroMQ round trip, plain";
        f.ref = ops[0].p50;
        bench_print(&f);
        f.ref_name = "ZeroMQ round trip, CURVE";
        f.ref = ops[1].p50;
        bench_print(&f);
    }
    hop_counts(NULL);
}

/* --- beside something else --- */

/* Requests to the broker, one after the other, while `command` runs; it yields to both. */
static void bench_beside(const char *what, char *const command[])
{
    double *us = malloc(BESIDE_MAX * sizeof(*us));
    struct rpc r = {.topic = "broker.ping", .nodeid = FLUX_NODEID_ANY};
    struct bench_figure f = {.unit = "us", .ref_name = "the same when idle", .ratio_at_most = 2.};
    char name[96];
    size_t n = 0;
    int status = 0;
    pid_t pid;

    if (!us)
        bench_die("out of memory");
    blocking_block(&r, us, BESIDE_IDLE);
    blocking_block(&r, us, BESIDE_IDLE);
    f.ref = bench_percentile(us, BESIDE_IDLE, 50.);
    if ((pid = fork()) < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        if (nice(10) == -1) /* or that was its value */
            errno = 0;
        execvp(command[0], command);
        bench_die("%s: %s", command[0], strerror(errno));
    }
    while (n < BESIDE_MAX && waitpid(pid, &status, WNOHANG) == 0) {
        blocking_block(&r, us + n, BESIDE_BLOCK);
        n += BESIDE_BLOCK;
    }
    if (n == BESIDE_MAX)
        waitpid(pid, &status, 0);
    if (status != 0 || n == 0)
        bench_die("%s: %s has failed", what, command[0]);
    f.name = name;
    snprintf(name, sizeof(name), "%s: ping p50", what);
    f.value = bench_percentile(us, n, 50.);
    bench_print(&f);
    snprintf(name, sizeof(name), "%s: ping p99", what);
    f = (struct bench_figure){.name = name, .unit = "us", .at_most = 1000.};
    f.value = bench_percentile(us, n, 99.);
    bench_print(&f);
    free(us);
    flux_close(r.h);
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], "local") == 0)
        bench_local();
    else if (argc == 2 && strcmp(argv[1], "hops") == 0)
        bench_hops();
    else if (argc == 4 && strcmp(argv[1], "count") == 0 && strcmp(argv[3], "local") == 0)
        local_counts(argv[2]);
    else if (argc == 4 && strcmp(argv[1], "count") == 0 && strcmp(argv[3], "hops") == 0)
        hop_counts(argv[2]);
    else if (argc > 3 && strcmp(argv[1], "beside") == 0)
        bench_beside(argv[2], argv + 3);
    else {
        fprintf(stderr, "usage: flux start ... bench_rpc local | hops | beside WHAT COMMAND... | "
                        "count HOW local|hops\n");
        return 2;
    }
    return 0;
}
