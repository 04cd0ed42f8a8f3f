/* bench_peers.c - the key-value store beside what others use: Redis and etcd.
 *
 *    bench_peers redis SOCKET        cached get, put and commit, puts in batches; and the wake-ups
 *                                    and system calls of clients and server for a commit
 *    bench_peers durable DIR [PORT]  commits that are on disk when they are answered, beside etcd,
 *                                    and one at a time beside bare writes with fdatasync(2); DIR
 *                                    is on that disk, PORT etcd's
 *    bench_peers load get|put SIZE CLIENTS COUNT     no figure: something to look at with perf
 *
 * Runs in a session; durable: of one with a statedir, on the same disk as etcd's data.  The clients
 * of both are alike (bench_client.h): all in this process, on one reactor, each with one operation
 * under way.  Rounds of one and of the other take turns; a figure is the median of its rounds.
 *
 * Every put writes a value that its key did not have.
 *
 * The wake-ups of a durable commit include those of its fdatasync, which sleeps until the disk has
 * written, once or more; those of a bare one are subtracted.  What remains are those of the request
 * and its response, and two more: that of the thread that syncs, and that of the loop when it has
 * done so.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"
#include "bench_client.h"
#include "bench_count.h"

#define CLIENTS_MAX 64
#define DEPTH_MAX 16
#define KEYS 500
#define ROUNDS 5
#define ROUND_US 400000. /* a round takes that long, about */
#define CALIBRATE 200
#define OPS_MAX 200000
#define WAKEUPS 4.1 /* of a durable commit of one client, besides those of fdatasync */
#define PER_COUNT 4000
#define BATCH 10000
#define BATCHES 10
#define SYNCS 200
#define SYNC_BYTES 128

/* Clients of one server; what they do in a round. */
struct load {
    const struct bench_client_ops *ops;
    flux_reactor_t *r;
    struct bench_client *clients[CLIENTS_MAX];
    size_t count; /* of clients that take part */
    size_t depth; /* operations of each under way */
    bool put;
    size_t size; /* bytes of a value */
    char *value;
    unsigned n; /* of operations ever started */
    size_t total;
    size_t started;
    size_t done;
    double us[OPS_MAX];
};

struct slot {
    struct load *load;
    struct bench_client *client;
    double begin;
};

static void done_cb(void *arg);

static void start(struct slot *s)
{
    struct load *l = s->load;
    unsigned n = l->n++;
    char key[64];
    char count[16];

    snprintf(key, sizeof(key), "bench.v%zu.k%u", l->size, n % KEYS);
    l->started++;
    s->begin = bench_now_us();
    if (!l->put) {
        l->ops->get(s->client, key, l->size, done_cb, s);
        return;
    }
    snprintf(count, sizeof(count), "%08x", n);
    memcpy(l->value, count, 8);
    l->ops->put(s->client, key, l->value, l->size, done_cb, s);
}

static void done_cb(void *arg)
{
    struct slot *s = arg;
    struct load *l = s->load;

    l->us[l->done++] = bench_now_us() - s->begin;
    if (l->started < l->total)
        start(s);
    else if (l->done == l->total)
        flux_reactor_stop(l->r, 0);
}

/* Operations a second. */
static double run(struct load *l, size_t total)
{
    struct slot slots[CLIENTS_MAX * DEPTH_MAX];
    double begin = bench_now_us();

    l->total = total > OPS_MAX ? OPS_MAX : total;
    l->started = l->done = 0;
    flux_reactor_update(l->r);
    for (size_t i = 0; i < l->count * l->depth; i++) {
        slots[i] = (struct slot){.load = l, .client = l->clients[i % l->count]};
        start(&slots[i]);
    }
    flux_reactor_run(l->r);
    return (double)l->total / (bench_now_us() - begin) * 1e6;
}

static struct load *load_open(const struct bench_client_ops *ops, flux_reactor_t *r,
                              const char *where, size_t count)
{
    struct load *l = calloc(1, sizeof(*l));

    if (!l || !(l->value = calloc(1, 1 << 20)))
        bench_die("out of memory");
    memset(l->value, 'x', 1 << 20);
    l->ops = ops;
    l->r = r;
    for (size_t i = 0; i < count; i++)
        l->clients[i] = ops->open(r, where);
    return l;
}

static void load_close(struct load *l, size_t count)
{
    for (size_t i = 0; i < count; i++)
        l->ops->close(l->clients[i]);
    free(l->value);
    free(l);
}

struct result {
    double rate;
    double p50;
    double p99;
};

/* Both in turns. */
static void compare(struct load *const loads[], size_t n, struct result *results)
{
    double rates[2][ROUNDS];
    double p50[2][ROUNDS];
    double p99[2][ROUNDS];
    size_t total[2];

    for (size_t i = 0; i < n; i++) {
        size_t least = loads[i]->count * loads[i]->depth;
        double rate = run(loads[i], CALIBRATE + least);
        rate = run(loads[i], (size_t)(rate * ROUND_US / 4e6) + least);
        total[i] = (size_t)(rate * ROUND_US / 1e6) + least;
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < n; i++) {
            rates[i][round] = run(loads[i], total[i]);
            p50[i][round] = bench_percentile(loads[i]->us, loads[i]->done, 50.);
            p99[i][round] = bench_percentile(loads[i]->us, loads[i]->done, 99.);
        }
    }
    for (size_t i = 0; i < n; i++) {
        results[i].rate = bench_percentile(rates[i], ROUNDS, 50.);
        results[i].p50 = bench_percentile(p50[i], ROUNDS, 50.);
        results[i].p99 = bench_percentile(p99[i], ROUNDS, 50.);
    }
}

static void set(struct load *const loads[], size_t n, bool put, size_t size, size_t clients)
{
    for (size_t i = 0; i < n; i++) {
        loads[i]->put = put;
        loads[i]->size = size;
        loads[i]->count = clients;
        loads[i]->depth = 1;
    }
}

/* --- counts --- */

/* What an operation costs this process and the server, counted. */
static void count(struct load *l, pid_t server, size_t n, double *wakeups, double *calls)
{
    const pid_t pids[] = {server, getpid()};

    *calls = 0.;
    *wakeups = bench_wakeups(pids, 2);
    (void)run(l, n);
    *wakeups = (bench_wakeups(pids, 2) - *wakeups) / (double)n;
    if (bench_calls_start(pids, 2)) {
        uint64_t begin = bench_calls();

        (void)run(l, n);
        *calls = (double)(bench_calls() - begin) / (double)n;
        bench_calls_stop();
    }
}

/* --- Redis --- */

static void batches_done(void *arg)
{
    flux_reactor_stop(arg, 0);
}

static double batches(struct load *l)
{
    double begin = bench_now_us();

    for (unsigned i = 0; i < BATCHES; i++) {
        l->ops->put_many(l->clients[0], "bench.many.k", BATCH, l->n++ * BATCH, batches_done, l->r);
        flux_reactor_run(l->r);
    }
    return (double)BATCHES * BATCH / (bench_now_us() - begin) * 1e6;
}

static void redis_batches(struct load *const loads[])
{
    double rates[2][ROUNDS];
    struct bench_figure f = {
        .name = "puts, 10000 in a commit",
        .unit = "/s",
        .ref_name = "Redis SET, 10000 pipelined",
        .ratio_at_least = 1.,
    };

    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < 2; i++)
            rates[i][round] = batches(loads[i]);
    }
    f.value = bench_percentile(rates[0], ROUNDS, 50.);
    f.ref = bench_percentile(rates[1], ROUNDS, 50.);
    bench_print(&f);
}

/* Clients that do not wait for each commit, beside those of Redis that wait for each SET. */
static void redis_window(struct load *const loads[])
{
    struct result res[2];
    struct bench_figure f = {
        .name = "put+commit of 8 B, 8 clients, 16 each",
        .unit = "/s",
        .ref_name = "Redis SET, unpipelined",
        .ratio_at_least = 1.,
    };

    set(loads, 2, true, 8, 8);
    loads[0]->depth = DEPTH_MAX;
    compare(loads, 2, res);
    f.value = res[0].rate;
    f.ref = res[1].rate;
    bench_print(&f);
}

/* Who listens on a UNIX socket. */
static pid_t listener(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        bench_die("%s: %s", path, strerror(errno));
    close(fd);
    return cred.pid;
}

static void redis_counts(struct load *const loads[], const char *socket)
{
    flux_t *h = bench_open();
    const pid_t servers[2] = {bench_broker_pid(h), listener(socket)};
    double wakeups[2], calls[2];

    flux_close(h);
    set(loads, 2, true, 8, 8);
    for (size_t i = 0; i < 2; i++)
        count(loads[i], servers[i], PER_COUNT, &wakeups[i], &calls[i]);
    bench_print(&(struct bench_figure){.name = "wake-ups of put+commit, 8 clients",
                                       .value = wakeups[0],
                                       .unit = "",
                                       .ref_name = "Redis SET",
                                       .ref = wakeups[1]});
    if (calls[0] > 0. && calls[1] > 0.)
        bench_print(&(struct bench_figure){.name = "system calls of put+commit, 8 clients",
                                           .value = calls[0],
                                           .unit = "",
                                           .ref_name = "Redis SET",
                                           .ref = calls[1]});
}

static void redis(const char *uri, const char *socket)
{
    static const size_t sizes[] = {8, 512, 32768};
    static const size_t counts[] = {1, 8};
    flux_reactor_t *r = flux_reactor_create(false);
    struct load *loads[] = {load_open(&bench_flux, r, uri, 8),
                            load_open(&bench_redis, r, socket, 8)};

    bench_title("beside Redis: clients on one reactor, each with one operation under way");
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        set(loads, 2, true, sizes[s], 1);
        for (size_t i = 0; i < 2; i++)
            run(loads[i], KEYS);
        for (int put = 0; put < 2; put++) {
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                struct result res[2];
                char name[64];
                struct bench_figure f = {.name = name, .unit = "/s"};
                set(loads, 2, put, sizes[s], counts[c]);
                compare(loads, 2, res);
                snprintf(name, sizeof(name), "%s of %zu B, %zu client%s",
                         put ? "put+commit" : "cached get", sizes[s], counts[c],
                         counts[c] > 1 ? "s" : "");
                f.value = res[0].rate;
                f.ref = res[1].rate;
                f.ref_name = put ? "Redis SET" : "Redis GET";
                f.ratio_at_least = !put ? 1. / 3. : counts[c] > 1 ? 1. : sizes[s] == 8 ? 0.8 : 0.;
                bench_print(&f);
            }
        }
    }
    redis_window(loads);
    redis_batches(loads);
    redis_counts(loads, socket);
    for (size_t i = 0; i < 2; i++)
        load_close(loads[i], 8);
    flux_reactor_destroy(r);
}

/* --- on disk --- */

/* What the disk takes for one small append and fdatasync: nothing durable is faster alone. */
static double sync_us(int fd)
{
    static const char buf[SYNC_BYTES] = "x";
    double us[SYNCS];

    for (size_t i = 0; i < SYNCS; i++) {
        double begin = bench_now_us();
        if (write(fd, buf, sizeof(buf)) != (ssize_t)sizeof(buf) || fdatasync(fd) < 0)
            bench_die("cannot write to the disk: %s", strerror(errno));
        us[i] = bench_now_us() - begin;
    }
    return bench_percentile(us, SYNCS, 50.);
}

/* One client beside bare writes, in turns: time, and wake-ups of this process and the broker. */
static void durable_alone(struct load *l, const char *dir)
{
    double commit_us[ROUNDS], bare_us[ROUNDS], commits = 0., syncs = 0.;
    double wakeups, calls;
    flux_t *h = bench_open();
    const pid_t pids[] = {bench_broker_pid(h), getpid()};
    char path[256];
    int fd;

    flux_close(h);
    snprintf(path, sizeof(path), "%s/bench-sync", dir);
    if ((fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_TRUNC, 0600)) < 0)
        bench_die("%s: %s", path, strerror(errno));
    set(&l, 1, true, SYNC_BYTES, 1);
    (void)run(l, SYNCS);
    (void)sync_us(fd);
    for (size_t i = 0; i < ROUNDS; i++) {
        double begin = bench_wakeups(pids, 2), between;
        bare_us[i] = sync_us(fd);
        between = bench_wakeups(pids, 2);
        (void)run(l, SYNCS);
        commits += bench_wakeups(pids, 2) - between;
        syncs += between - begin;
        commit_us[i] = bench_percentile(l->us, l->done, 50.);
    }
    close(fd);
    unlink(path);
    count(l, pids[0], SYNCS, &wakeups, &calls);
    bench_print(&(struct bench_figure){.name = "durable commit, 1 client, p50",
                                       .value = bench_percentile(commit_us, ROUNDS, 50.),
                                       .unit = "us",
                                       .ref_name = "write and fdatasync p50",
                                       .ref = bench_percentile(bare_us, ROUNDS, 50.),
                                       .ratio_at_most = 1.4});
    bench_print(&(struct bench_figure){.name = "... wake-ups, less those of fdatasync",
                                       .value = (commits - syncs) / (ROUNDS * SYNCS),
                                       .unit = "",
                                       .at_most = WAKEUPS});
    if (calls > 0.)
        bench_print(&(struct bench_figure){
            .name = "... system calls, with fdatasync", .value = calls, .unit = ""});
}

static void durable(const char *uri, const char *port, const char *dir)
{
    static const size_t counts[] = {1, 8, 64};
    flux_reactor_t *r = flux_reactor_create(false);
    struct load *loads[2] = {load_open(&bench_flux, r, uri, CLIENTS_MAX)};
    size_t n = 1;

    if (port)
        loads[n++] = load_open(&bench_etcd, r, port, CLIENTS_MAX);
    bench_title("durable commits of %d B", SYNC_BYTES);
    durable_alone(loads[0], dir);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct result res[2] = {0};
        char name[64];
        struct bench_figure f = {.name = name, .unit = "/s"};
        set(loads, n, true, SYNC_BYTES, counts[c]);
        compare(loads, n, res);
        snprintf(name, sizeof(name), "durable commits, %zu client%s", counts[c],
                 counts[c] > 1 ? "s" : "");
        f.value = res[0].rate;
        f.at_least = counts[c] == 64 ? 50000. : counts[c] == 8 ? 4200. : 0.;
        if (port) {
            f.ref_name = "etcd Put (gRPC)";
            f.ref = res[1].rate;
            f.ratio_at_least = counts[c] == 64 ? 0. : counts[c] == 8 ? 1. : 1.5;
        }
        bench_print(&f);
        snprintf(name, sizeof(name), "... one of them, p50");
        f.unit = "us";
        f.value = res[0].p50;
        f.ref = res[1].p50;
        f.ratio_at_least = 0.;
        f.at_least = 0.;
        bench_print(&f);
    }
    for (size_t i = 0; i < n; i++)
        load_close(loads[i], CLIENTS_MAX);
    flux_reactor_destroy(r);
}

static void load(const char *uri, char *argv[])
{
    flux_reactor_t *r = flux_reactor_create(false);
    size_t clients = strtoul(argv[2], NULL, 10);
    size_t left = strtoul(argv[3], NULL, 10);
    struct load *l;

    if (clients < 1 || clients > CLIENTS_MAX)
        bench_die("1 to %d clients", CLIENTS_MAX);
    l = load_open(&bench_flux, r, uri, clients);
    set(&l, 1, true, strtoul(argv[1], NULL, 10), clients);
    run(l, KEYS + clients);
    l->put = strcmp(argv[0], "put") == 0;
    for (; left > OPS_MAX; left -= OPS_MAX)
        run(l, OPS_MAX);
    printf("%.0f/s\n", run(l, left + clients));
    load_close(l, clients);
    flux_reactor_destroy(r);
}

int main(int argc, char *argv[])
{
    const char *uri = getenv("FLUX_URI");

    if (!uri)
        bench_die("run this in a session");
    if (argc == 3 && strcmp(argv[1], "redis") == 0)
        redis(uri, argv[2]);
    else if ((argc == 3 || argc == 4) && strcmp(argv[1], "durable") == 0)
        durable(uri, argc == 4 ? argv[3] : NULL, argv[2]);
    else if (argc == 6 && strcmp(argv[1], "load") == 0)
        load(uri, argv + 2);
    else
        bench_die("usage: bench_peers redis SOCKET | durable DIR [PORT OF ETCD]");
    return 0;
}
