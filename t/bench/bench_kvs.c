/* bench_kvs.c - what the key-value store costs: commits, reads and fences, beside a plain UNIX
 * socket.
 *
 *    bench_kvs
 *    bench_kvs fill DIR KEYS COMMITS    no figure: COMMITS commits, each of KEYS new keys in DIR
 *
 * A commit puts one key with a value that was not there before.  It is done into an empty
 * directory and into one of DIR_SIZE keys: a store whose cost grows with the directory shows there.
 *
 * A watcher, with a connection of its own, is measured from the moment that the commit is sent.
 *
 * Small round trips depend on where processes run (bench_rpc.c), so those of clients of the
 * master's broker are measured as the scheduler places them, and with the clients and all brokers
 * on one processor; those of clients of the last rank as the scheduler places them.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "libflux/attr.h"
#include "libkvs/kvs.h"

#define ROUNDS 5
#define PER_ROUND 1000
#define FENCES 300
#define DIR_SIZE 5000
#define RATE_COUNT 20000
#define RATE_WINDOW 512
#define RATE_ROUNDS 3
#define WIRE_SIZE 120 /* bytes of a small commit, about */
#define MAX_RANKS 4

struct kvs {
    flux_t *h;
    flux_t *watcher;
    flux_future_t *watch;
    uint32_t rank;
    const char *dir;
    unsigned keys; /* of that directory, used in turn */
    unsigned n;
};

static flux_t *handle(struct kvs *k)
{
    if (!k->h) {
        flux_t *h = bench_open();
        k->h = bench_open_rank(h, k->rank, NULL);
        flux_close(h);
    }
    return k->h;
}

static void put(flux_kvs_txn_t *txn, const char *dir, unsigned key, unsigned value)
{
    char name[64];
    char text[32];
    errmsg_t err;

    snprintf(name, sizeof(name), "%s.k%u", dir, key);
    snprintf(text, sizeof(text), "%d-%u", (int)getpid(), value);
    if (flux_kvs_txn_put(txn, name, text, &err) < 0)
        bench_die("put %s: %s", name, err.text);
}

static flux_future_t *commit(struct kvs *k)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f;

    if (!txn)
        bench_die("out of memory");
    put(txn, k->dir, k->n % k->keys, k->n);
    k->n++;
    f = flux_kvs_commit(k->h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    if (!f)
        bench_die("commit: %s", strerror(errno));
    return f;
}

static void commit_check(flux_future_t *f)
{
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        bench_die("commit: %s", err.text);
    flux_future_destroy(f);
}

static void commit_block(void *arg, double *us, size_t n)
{
    struct kvs *k = arg;
    double last;

    handle(k);
    last = bench_now_us();
    for (size_t i = 0; i < n; i++) {
        flux_future_t *f = commit(k);
        double now;
        flux_future_wait(f, -1.);
        commit_check(f);
        now = bench_now_us();
        us[i] = now - last;
        last = now;
    }
}

static void get_block(void *arg, double *us, size_t n)
{
    struct kvs *k = arg;
    double last;

    handle(k);
    last = bench_now_us();
    for (size_t i = 0; i < n; i++) {
        flux_future_t *f;
        char name[64];
        const char *data;
        size_t len;
        errmsg_t err;
        double now;
        snprintf(name, sizeof(name), "%s.k%u", k->dir, k->n++ % k->keys);
        if (!(f = flux_kvs_lookup(k->h, NULL, name, 0, NULL)))
            bench_die("get %s: %s", name, strerror(errno));
        flux_future_wait(f, -1.);
        if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
            bench_die("get %s: %s", name, err.text);
        flux_future_destroy(f);
        now = bench_now_us();
        us[i] = now - last;
        last = now;
    }
}

static void hear(struct kvs *k)
{
    const char *data;
    size_t len;
    errmsg_t err;

    if (flux_future_wait(k->watch, -1.) < 0 || flux_kvs_lookup_get(k->watch, &data, &len, &err) < 0)
        bench_die("watch: %s", err.text);
    flux_future_next(k->watch);
}

/* From the commit to the watcher, at the same broker. */
static void watch_block(void *arg, double *us, size_t n)
{
    struct kvs *k = arg;
    char name[64];

    handle(k);
    if (!k->watcher) {
        k->watcher = bench_open_rank(k->h, k->rank, NULL);
        snprintf(name, sizeof(name), "%s.k0", k->dir);
        if (!(k->watch = flux_kvs_watch(k->watcher, NULL, name, 0)))
            bench_die("watch: %s", strerror(errno));
        hear(k);
    }
    for (size_t i = 0; i < n; i++) {
        double begin = bench_now_us();
        flux_future_t *f = commit(k);
        hear(k);
        us[i] = bench_now_us() - begin;
        flux_future_wait(f, -1.);
        commit_check(f);
    }
}

/* A fence of one participant per rank, each with a key of its own. */
struct fences {
    flux_t *h[MAX_RANKS];
    flux_reactor_t *r;
    uint32_t count;
    uint32_t left;
    unsigned n;
};

static void fence_cb(flux_future_t *f, void *arg)
{
    struct fences *fs = arg;

    commit_check(f);
    if (--fs->left == 0)
        flux_reactor_stop(fs->r, 0);
}

static void fence_block(void *arg, double *us, size_t n)
{
    struct fences *fs = arg;
    flux_t *h;

    if (!fs->r) {
        if (!(fs->r = flux_reactor_create(false)))
            bench_die("out of memory");
        h = bench_open();
        for (uint32_t i = 0; i < fs->count; i++)
            fs->h[i] = bench_open_rank(h, i, fs->r);
        flux_close(h);
    }
    for (size_t i = 0; i < n; i++) {
        double begin = bench_now_us();
        char name[64];
        snprintf(name, sizeof(name), "bench-%d-%u", (int)getpid(), fs->n++);
        fs->left = fs->count;
        flux_reactor_update(fs->r);
        for (uint32_t k = 0; k < fs->count; k++) {
            flux_kvs_txn_t *txn = flux_kvs_txn_create();
            flux_future_t *f;
            if (!txn)
                bench_die("out of memory");
            put(txn, "bench.fence", k, fs->n);
            f = flux_kvs_fence(fs->h[k], NULL, name, fs->count, txn);
            flux_kvs_txn_destroy(txn);
            if (!f || flux_future_then(f, 0., fence_cb, fs) < 0)
                bench_die("fence: %s", strerror(errno));
        }
        flux_reactor_run(fs->r);
        us[i] = bench_now_us() - begin;
    }
}

/* --- many at a time --- */

struct stream {
    struct kvs k;
    unsigned sent;
    unsigned done;
};

static void stream_send(struct stream *s);

static void stream_cb(flux_future_t *f, void *arg)
{
    struct stream *s = arg;

    commit_check(f);
    if (++s->done == RATE_COUNT)
        flux_reactor_stop(flux_get_reactor(s->k.h), 0);
    else if (s->sent < RATE_COUNT)
        stream_send(s);
}

static void stream_send(struct stream *s)
{
    s->sent++;
    if (flux_future_then(commit(&s->k), 0., stream_cb, s) < 0)
        bench_die("commit: %s", strerror(errno));
}

static void rate(uint32_t rank)
{
    struct bench_echo echo = {.size = WIRE_SIZE, .cpu = BENCH_ANY_CPU};
    double flux[RATE_ROUNDS];
    double bare[RATE_ROUNDS];
    char name[64];
    struct bench_figure f = {.name = name, .unit = "/s", .ref_name = "UNIX socket, same window"};

    for (size_t i = 0; i < RATE_ROUNDS; i++) {
        struct stream s = {.k = {.rank = rank, .dir = "bench.rate", .keys = 1000}};
        double begin;
        bare[i] = bench_echo_rate(&echo, RATE_COUNT * 5, RATE_WINDOW);
        handle(&s.k);
        begin = bench_now_us();
        for (int n = 0; n < RATE_WINDOW; n++)
            stream_send(&s);
        if (flux_run(s.k.h) < 0)
            bench_die("commit: the broker is gone");
        flux[i] = RATE_COUNT / (bench_now_us() - begin) * 1e6;
        flux_close(s.k.h);
    }
    bench_echo_stop(&echo);
    f.value = bench_percentile(flux, RATE_ROUNDS, 50.);
    f.ref = bench_percentile(bare, RATE_ROUNDS, 50.);
    snprintf(name, sizeof(name), "commits at rank %u, %d under way", rank, RATE_WINDOW);
    bench_print(&f);
}

/* --- one at a time --- */

static void fill(flux_t *h, const char *dir, unsigned first, unsigned keys)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f;

    if (!txn)
        bench_die("out of memory");
    for (unsigned i = first; i < first + keys; i++)
        put(txn, dir, i, 0);
    if (!(f = flux_kvs_commit(h, NULL, txn)))
        bench_die("commit: %s", strerror(errno));
    flux_kvs_txn_destroy(txn);
    flux_future_wait(f, -1.);
    commit_check(f);
}

/* Bind all brokers of the session. */
static void pin_brokers(flux_t *h, int cpu)
{
    for (uint32_t i = 0; i < flux_size(h); i++) {
        flux_t *rank = bench_open_rank(h, i, NULL);
        bench_pin(bench_broker_pid(rank), cpu);
        flux_close(rank);
    }
}

enum place { FREE, ONE_CPU };

/* In a session of one, at the master of several, and below it. */
enum where { ALONE, MASTER, BELOW };

static void latency(flux_t *h, uint32_t rank, enum place place)
{
    const int cpu = place == FREE ? BENCH_ANY_CPU : 0;
    const enum where where = flux_size(h) == 1 ? ALONE : rank == 0 ? MASTER : BELOW;
    struct bench_echo echo = {.size = WIRE_SIZE, .cpu = cpu};
    struct kvs one = {.rank = rank, .dir = "bench.one", .keys = 1};
    struct kvs big = {.rank = rank, .dir = "bench.big", .keys = DIR_SIZE};
    struct kvs get_one = one;
    struct kvs get_big = big;
    struct kvs watch = {.rank = rank, .dir = "bench.watch", .keys = 1};
    struct bench_op ops[] = {
        {bench_echo_block, &echo, PER_ROUND, cpu, 0., 0.},
        {commit_block, &one, PER_ROUND, cpu, 0., 0.},
        {commit_block, &big, PER_ROUND, cpu, 0., 0.},
        {get_block, &get_one, PER_ROUND, cpu, 0., 0.},
        {get_block, &get_big, PER_ROUND, cpu, 0., 0.},
        {watch_block, &watch, PER_ROUND, cpu, 0., 0.},
    };
    static const struct {
        const char *text;
        double aims[3]; /* by where */
    } names[] = {
        {"", {0.}},
        {"put+commit", {4., 6., 20.}},
        {"put+commit of 5000", {4., 6., 20.}},
        {"get", {2.5, 2.5, 2.5}},
        {"get of 5000", {2.5, 2.5, 0.}}, /* below, what the commits of a round changed is fetched */
        {"put till a watcher hears", {4., 4., 25.}},
    };
    size_t count = sizeof(ops) / sizeof(ops[0]);
    char name[64];

    pin_brokers(h, cpu);
    bench_rounds(ops, count, ROUNDS);
    pin_brokers(h, BENCH_ANY_CPU);
    for (size_t i = 1; i < count; i++) {
        struct bench_figure f = {.name = name,
                                 .value = ops[i].p50,
                                 .unit = "us",
                                 .ref_name = "UNIX socket p50",
                                 .ref = ops[0].p50,
                                 .ratio_at_most = names[i].aims[where]};
        snprintf(name, sizeof(name), "%s, rank %u, %s p50", names[i].text, rank,
                 place == FREE ? "free" : "one cpu");
        bench_print(&f);
    }
}

static void fences(uint32_t count)
{
    struct bench_echo echo = {.size = WIRE_SIZE, .cpu = BENCH_ANY_CPU};
    struct fences fs = {.count = count};
    struct bench_op ops[] = {
        {bench_echo_block, &echo, PER_ROUND, BENCH_ANY_CPU, 0., 0.},
        {fence_block, &fs, FENCES, BENCH_ANY_CPU, 0., 0.},
    };
    char name[64];
    struct bench_figure f = {.name = name, .unit = "us", .ref_name = "UNIX socket p50"};

    bench_rounds(ops, 2, ROUNDS);
    f.value = ops[1].p50;
    f.ref = ops[0].p50;
    snprintf(name, sizeof(name), "put+fence by %u ranks p50", count);
    bench_print(&f);
}

static void measure(flux_t *h)
{
    uint32_t size = flux_size(h);

    bench_title("key-value store in a session of %u", size);
    fill(h, "bench.one", 0, 1);
    fill(h, "bench.watch", 0, 1);
    fill(h, "bench.big", 0, DIR_SIZE);
    latency(h, 0, FREE);
    latency(h, 0, ONE_CPU);
    if (size > 1)
        latency(h, size - 1, FREE);
    fences(size < MAX_RANKS ? size : MAX_RANKS);
    rate(0);
    if (size > 1)
        rate(size - 1);
}

int main(int argc, char *argv[])
{
    flux_t *h = bench_open();

    if (argc == 5 && strcmp(argv[1], "fill") == 0) {
        unsigned keys = (unsigned)strtoul(argv[3], NULL, 10);
        unsigned commits = (unsigned)strtoul(argv[4], NULL, 10);

        for (unsigned i = 0; i < commits; i++)
            fill(h, argv[2], i * keys, keys);
    } else if (argc == 1) {
        measure(h);
    } else {
        bench_die("usage: bench_kvs [fill DIR KEYS COMMITS]");
    }
    flux_close(h);
    return 0;
}
