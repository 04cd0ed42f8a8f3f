/* bench_event.c - how long an event takes until every rank has it, and how many of them go through.
 *
 *    bench_event
 *
 * One reader per rank of the session, each a client of its own broker.  A publisher, client of each
 * rank in turn, publishes an event and sleeps until the last reader has it.  That is done with one
 * process per reader, and with one process which has a connection to every rank: then the cost of
 * waking the readers is not part of it, and what is left is Flux's.
 *
 * Throughput: one publisher with many events under way; the rate is what the slowest of the readers
 * (processes) has got.
 *
 * Beside it stands plain ZeroMQ without encryption: a PUB socket, and as many processes as there
 * are ranks below the root, each with a SUB socket over ipc.  They wake up only those processes,
 * not the clients of each.
 *
 * The clock is the machine's, so that times taken in different processes can be subtracted.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "bench.h"
#include "libflux/dispatch.h"
#include "libflux/event.h"

#define ROUNDS 7
#define PER_ROUND 320
#define STREAM_COUNT 20000
#define STREAM_WINDOW 512
#define STREAM_ROUNDS 3
#define PAYLOAD 32

enum { PING, STREAM, KINDS };

/* Shared by all processes. */
struct board {
    atomic_uint got[KINDS]; /* readers that have the event at hand, or the last of the stream */
    atomic_uint ready;
    double last_us; /* when the last of them had it */
    unsigned readers;
    int wake; /* eventfd: the last reader wakes the publisher */
};

struct reader {
    struct board *board;
    unsigned streamed;
    bool lost; /* the stream had a gap */
    uint64_t last_seq;
};

static void report(struct board *b, int kind)
{
    if (atomic_fetch_add(&b->got[kind], 1) + 1 == b->readers) {
        uint64_t one = 1;
        b->last_us = bench_now_us();
        if (write(b->wake, &one, sizeof(one)) < 0)
            bench_die("eventfd: %s", strerror(errno));
    }
}

static void ping_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct reader *r = arg;

    report(r->board, PING);
}

static void stream_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct reader *r = arg;
    uint64_t seq = flux_msg_seq(msg);

    if (r->streamed > 0 && seq != r->last_seq + 1)
        bench_die("rank %u: event %llu came after %llu", flux_rank(h), (unsigned long long)seq,
                  (unsigned long long)r->last_seq);
    r->last_seq = seq;
    if (++r->streamed == STREAM_COUNT) {
        r->streamed = 0;
        report(r->board, STREAM);
    }
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_EVENT, "bench.ping", ping_cb, 0},
    {FLUX_MSG_EVENT, "bench.stream", stream_cb, 0},
    FLUX_HANDLER_END,
};

static void subscribe(flux_t *h, struct reader *r)
{
    flux_future_t *f;
    errmsg_t err;

    if (!flux_handlers_add(h, handlers, r))
        bench_die("rank %u: handlers: %s", flux_rank(h), strerror(errno));
    if (!(f = flux_event_subscribe(h, "bench.")) ||
        flux_rpc_wait_struct(f, 30., NULL, NULL, &err) < 0)
        bench_die("rank %u: subscribe: %s", flux_rank(h), f ? err.text : strerror(errno));
    flux_future_destroy(f);
    atomic_fetch_add(&r->board->ready, 1);
}

/* A process that reads for ranks first .. first + count - 1. */
static pid_t start_reader(struct board *b, uint32_t first, uint32_t count)
{
    flux_reactor_t *reactor;
    struct reader *readers;
    flux_t *h;
    pid_t pid;

    if ((pid = bench_fork()) > 0)
        return pid;
    h = bench_open();
    if (!(readers = calloc(count, sizeof(*readers))) || !(reactor = flux_reactor_create(false)))
        bench_die("out of memory");
    for (uint32_t i = 0; i < count; i++) {
        readers[i].board = b;
        subscribe(bench_open_rank(h, first + i, reactor), &readers[i]);
    }
    flux_close(h);
    flux_reactor_run(reactor);
    _exit(0);
}

static void start_readers(struct board *b, pid_t *pids, uint32_t nprocs)
{
    struct timespec tick = {.tv_nsec = 5000000};

    atomic_store(&b->ready, 0);
    for (uint32_t i = 0; i < nprocs; i++)
        pids[i] = start_reader(b, nprocs > 1 ? i : 0, nprocs > 1 ? 1 : b->readers);
    while (atomic_load(&b->ready) < b->readers) {
        for (uint32_t i = 0; i < nprocs; i++) {
            if (waitpid(pids[i], NULL, WNOHANG) > 0)
                bench_die("a reader has failed");
        }
        nanosleep(&tick, NULL);
    }
}

static void stop_readers(pid_t *pids, uint32_t nprocs)
{
    for (uint32_t i = 0; i < nprocs; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

static void wait_for_readers(struct board *b)
{
    struct pollfd pfd = {.fd = b->wake, .events = POLLIN};
    uint64_t n;

    if (poll(&pfd, 1, 20000) <= 0 || read(b->wake, &n, sizeof(n)) < 0)
        bench_die("an event did not reach all readers within 20 s: %u and %u of %u have it",
                  atomic_load(&b->got[PING]), atomic_load(&b->got[STREAM]), b->readers);
}

static flux_t **open_ranks(uint32_t count)
{
    flux_t **from = calloc(count, sizeof(*from));
    flux_t *h = bench_open();

    if (!from)
        bench_die("out of memory");
    for (uint32_t i = 0; i < count; i++)
        from[i] = bench_open_rank(h, i, NULL);
    flux_close(h);
    return from;
}

/* --- publishers --- */

struct publisher {
    struct board *board;
    flux_t **from;  /* by rank; opened by the process that publishes */
    uint32_t count; /* ranks 0 .. count - 1 publish, in turn */
};

static void publish_block(void *arg, double *us, size_t n)
{
    struct publisher *p = arg;
    char payload[PAYLOAD] = {0};

    if (!p->from)
        p->from = open_ranks(p->count);
    for (size_t i = 0; i < n; i++) {
        flux_t *h = p->from[i % p->count];
        flux_future_t *f;
        errmsg_t err;
        double begin;
        atomic_store(&p->board->got[PING], 0);
        begin = bench_now_us();
        if (!(f = flux_event_publish_raw(h, "bench.ping", payload, sizeof(payload))) ||
            flux_rpc_wait_struct(f, 0., NULL, NULL, &err) < 0)
            bench_die("publish: %s", f ? err.text : strerror(errno));
        flux_future_destroy(f);
        wait_for_readers(p->board);
        us[i] = p->board->last_us - begin;
    }
}

/* --- plain ZeroMQ --- */

struct bare_zmq {
    struct board *board; /* its own */
    char uri[128];
    uint32_t count;
    void *pub;
};

static void sub_serve(struct board *b, const char *uri)
{
    void *sub = zmq_socket(zmq_ctx_new(), ZMQ_SUB);
    char buf[256];

    if (zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "", 0) < 0 || zmq_connect(sub, uri) < 0)
        bench_die("%s: %s", uri, zmq_strerror(errno));
    while (zmq_recv(sub, buf, sizeof(buf), 0) > 0)
        report(b, PING);
    _exit(1);
}

/* An XPUB socket tells who subscribes, so that none is missed. */
static void bare_start(struct bare_zmq *z)
{
    char buf[16];
    int one = 1;

    for (uint32_t i = 0; i < z->count; i++) {
        if (bench_fork() == 0)
            sub_serve(z->board, z->uri);
    }
    z->pub = zmq_socket(zmq_ctx_new(), ZMQ_XPUB);
    /* Otherwise equal subscriptions are told once. */
    zmq_setsockopt(z->pub, ZMQ_XPUB_VERBOSE, &one, sizeof(one));
    if (zmq_bind(z->pub, z->uri) < 0)
        bench_die("%s: %s", z->uri, zmq_strerror(errno));
    for (uint32_t i = 0; i < z->count; i++) {
        if (zmq_recv(z->pub, buf, sizeof(buf), 0) < 0)
            bench_die("%s: %s", z->uri, zmq_strerror(errno));
    }
}

static void bare_block(void *arg, double *us, size_t n)
{
    struct bare_zmq *z = arg;
    char payload[100] = {0};

    if (!z->pub)
        bare_start(z);
    for (size_t i = 0; i < n; i++) {
        double begin;
        atomic_store(&z->board->got[PING], 0);
        begin = bench_now_us();
        if (zmq_send(z->pub, payload, sizeof(payload), 0) < 0)
            bench_die("%s: %s", z->uri, zmq_strerror(errno));
        wait_for_readers(z->board);
        us[i] = z->board->last_us - begin;
    }
}

/* --- latency --- */

static struct board *board_create(unsigned readers)
{
    struct board *b =
        mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (b == MAP_FAILED || (b->wake = eventfd(0, EFD_CLOEXEC)) < 0)
        bench_die("cannot set up: %s", strerror(errno));
    b->readers = readers;
    return b;
}

static void latency(struct board *b, uint32_t size, const char *how, double aim)
{
    char dir[] = "/tmp/flux-bench.XXXXXX";
    struct bare_zmq bare = {.count = size > 1 ? size - 1 : 1};
    struct publisher root = {b, NULL, 1};
    struct publisher any = {b, NULL, size};
    struct bench_op ops[] = {
        {bare_block, &bare, PER_ROUND, BENCH_ANY_CPU, 0., 0.},
        {publish_block, &root, PER_ROUND, BENCH_ANY_CPU, 0., 0.},
        {publish_block, &any, PER_ROUND, BENCH_ANY_CPU, 0., 0.},
    };
    char name[64];

    bare.board = board_create(bare.count);
    if (!mkdtemp(dir))
        bench_die("%s: %s", dir, strerror(errno));
    snprintf(bare.uri, sizeof(bare.uri), "ipc://%s/pub", dir);
    bench_rounds(ops, 3, ROUNDS);
    unlink(bare.uri + strlen("ipc://"));
    rmdir(dir);
    close(bare.board->wake);
    munmap(bare.board, sizeof(*bare.board));
    for (int i = 1; i < 3; i++) {
        struct bench_figure f = {.name = name,
                                 .value = ops[i].p50,
                                 .unit = "us",
                                 .ref_name = "ZeroMQ fan-out p50",
                                 .ref = ops[0].p50,
                                 .at_most = i == 2 && size == 16 ? aim : 0.};
        snprintf(name, sizeof(name), "event from %s, %s p50", i == 1 ? "rank 0" : "any rank", how);
        bench_print(&f);
        f.value = ops[i].p99;
        f.ref_name = "ZeroMQ fan-out p99";
        f.ref = ops[0].p99;
        f.at_most = 0.;
        snprintf(name, sizeof(name), "event from %s, %s p99", i == 1 ? "rank 0" : "any rank", how);
        bench_print(&f);
    }
}

/* --- throughput --- */

struct stream {
    flux_t *h;
    unsigned sent;
    unsigned done;
    char payload[PAYLOAD];
};

static void stream_send(struct stream *s);

static void stream_done_cb(flux_future_t *f, void *arg)
{
    struct stream *s = arg;
    errmsg_t err;

    if (flux_rpc_get(f, &err) < 0)
        bench_die("publish: %s", err.text);
    flux_future_destroy(f);
    if (++s->done == STREAM_COUNT)
        flux_reactor_stop(flux_get_reactor(s->h), 0);
    else if (s->sent < STREAM_COUNT)
        stream_send(s);
}

static void stream_send(struct stream *s)
{
    flux_future_t *f = flux_event_publish_raw(s->h, "bench.stream", s->payload, PAYLOAD);

    s->sent++;
    if (!f || flux_future_then(f, 0., stream_done_cb, s) < 0)
        bench_die("publish: %s", strerror(errno));
}

/* Events per second that each reader has got. */
static double stream_rate(struct board *b, flux_t *h)
{
    struct stream s = {.h = h};
    double begin = bench_now_us();

    atomic_store(&b->got[STREAM], 0);
    flux_reactor_update(flux_get_reactor(h));
    for (int i = 0; i < STREAM_WINDOW; i++)
        stream_send(&s);
    if (flux_run(h) < 0)
        bench_die("publish: the broker is gone");
    wait_for_readers(b);
    return STREAM_COUNT / (b->last_us - begin) * 1e6;
}

static void throughput(struct board *b, flux_t **from, uint32_t size, const char *how)
{
    double rates[2][STREAM_ROUNDS];
    struct bench_echo echo = {.size = 100, .cpu = BENCH_ANY_CPU};
    double bare[STREAM_ROUNDS];
    char name[64];

    for (size_t i = 0; i < STREAM_ROUNDS; i++) {
        bare[i] = bench_echo_rate(&echo, STREAM_COUNT * 5, STREAM_WINDOW);
        rates[0][i] = stream_rate(b, from[0]);
        rates[1][i] = stream_rate(b, from[size / 3]);
    }
    bench_echo_stop(&echo);
    for (int i = 0; i < 2; i++) {
        struct bench_figure f = {.name = name,
                                 .value = bench_percentile(rates[i], STREAM_ROUNDS, 50.),
                                 .unit = "/s",
                                 .ref_name = "UNIX socket, same window",
                                 .ref = bench_percentile(bare, STREAM_ROUNDS, 50.),
                                 .at_least = size == 16 ? 20000. : 0.};
        snprintf(name, sizeof(name), "events from rank %u, %s", i == 0 ? 0 : size / 3, how);
        bench_print(&f);
    }
}

int main(int argc, char *argv[])
{
    flux_t *h = bench_open();
    uint32_t size = flux_size(h);
    struct board *b = board_create(size);
    pid_t *pids = calloc(size, sizeof(*pids));

    if (!pids)
        bench_die("out of memory");
    flux_close(h);
    bench_title("events to %u ranks", size);
    for (uint32_t nprocs = 1; nprocs <= size; nprocs += size > 1 ? size - 1 : 1) {
        const char *how = nprocs == 1 ? "1 reader" : "a reader each";
        flux_t **from;
        start_readers(b, pids, nprocs);
        latency(b, size, how, nprocs == 1 ? 200. : 250.);
        from = open_ranks(size);
        throughput(b, from, size, how);
        for (uint32_t i = 0; i < size; i++)
            flux_close(from[i]);
        free(from);
        stop_readers(pids, nprocs);
    }
    free(pids);
    return 0;
}
