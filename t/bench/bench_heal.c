/* bench_heal.c - for how long brokers inside the tree are missed when they die or stop.
 *
 *    bench_heal kill|stop|many COUNT SEED
 *
 * Purpose.  It runs at rank 0 of a session with --topology=kary:2 whose brokers are started again
 * when they die (flux start --restart).  Its victims are brokers with children, chosen by the seed,
 * each of them once, so that their children are still those of the shape.
 *
 *    kill   one after the other, by SIGKILL; each is waited for before the next one
 *    stop   likewise, by SIGSTOP; SIGKILL ends it when it has been declared lost
 *    many   COUNT at once, by SIGKILL
 *
 * Format: lines of a word and milliseconds, for bench_heal.sh, which makes figures of them.
 *
 *    verdict    from the SIGSTOP until rank 0 has declared the broker lost
 *    answered   from the SIGKILL (or the verdict) until a child of the broker has the answer of
 *               rank 0 to a request that it sent then
 *    back       from the SIGKILL until the broker that is started in its place answers rank 0
 *    whole      from the SIGKILLs until all other ranks have answered rank 0
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "libflux/future.h"
#include "libflux/overlay_wire.h"
#include "libidset/idset.h"

#define PATIENCE 60. /* seconds for anything: then the session does not heal */
#define RANKS_MAX 4096

static void print(const char *what, double begin_us)
{
    printf("%s %.3f\n", what, (bench_now_us() - begin_us) * 1e-3);
    fflush(stdout);
}

static bool ping(flux_t *h, uint32_t rank)
{
    flux_future_t *f = flux_rpc(h, "broker.ping", NULL, rank, 0);
    errmsg_t err = {"out of memory"};
    bool ok = f && flux_future_wait(f, PATIENCE) == 0 && flux_rpc_get(f, &err) == 0;

    if (!ok && f && flux_future_errnum(f) != EHOSTUNREACH)
        bench_die("rank %u: %s", rank, flux_future_error(f));
    flux_future_destroy(f);
    return ok;
}

/* A request that ends with EHOSTUNREACH is sent again, as a program would. */
static void until_answered(flux_t *h, uint32_t rank)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    double begin = bench_now_us();

    while (!ping(h, rank)) {
        if (bench_now_us() - begin > PATIENCE * 1e6)
            bench_die("rank %u cannot be reached", rank);
        nanosleep(&pause, NULL);
    }
}

static bool is_lost(flux_t *h, uint32_t rank)
{
    flux_future_t *f = flux_rpc(h, "overlay.status", NULL, 0, 0);
    struct overlay_status s;
    errmsg_t err = {"out of memory"};
    idset_t *lost;
    bool yes;

    if (!f || flux_rpc_wait_struct(f, PATIENCE, &overlay_status_schema, &s, &err) < 0)
        bench_die("overlay.status: %s", err.text);
    if (!(lost = idset_parse(s.lost, &err)))
        bench_die("overlay.status: %s", err.text);
    yes = idset_test(lost, rank);
    idset_destroy(lost);
    flux_future_destroy(f);
    return yes;
}

static void until_lost(flux_t *h, uint32_t rank)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    double begin = bench_now_us();

    while (!is_lost(h, rank)) {
        if (bench_now_us() - begin > PATIENCE * 1e6)
            bench_die("rank %u is stopped, and not declared lost", rank);
        nanosleep(&pause, NULL);
    }
}

static pid_t broker_of(flux_t *h, uint32_t rank)
{
    flux_t *other = bench_open_rank(h, rank, NULL);
    pid_t pid = bench_broker_pid(other);

    flux_close(other);
    return pid;
}

/* `count` ranks of those with two children, in random order. */
static void choose(uint32_t *victims, size_t count, uint32_t size, unsigned *seed)
{
    uint32_t inner = (size - 1) / 2, ranks[RANKS_MAX];

    if (size > RANKS_MAX || inner < 2 || count > inner - 1)
        bench_die("a session of %u has fewer than %zu brokers inside the tree", size, count);
    for (uint32_t i = 1; i < inner; i++)
        ranks[i] = i;
    for (size_t i = 0; i < count; i++) {
        uint32_t pick = 1 + (uint32_t)rand_r(seed) % (inner - 1 - (uint32_t)i);

        victims[i] = ranks[pick];
        ranks[pick] = ranks[inner - 1 - i];
    }
}

static void one(flux_t *h, uint32_t victim, bool stop)
{
    flux_t *orphan = bench_open_rank(h, 2 * victim + 1, NULL);
    pid_t pid = broker_of(h, victim);
    double begin = bench_now_us();

    if (stop) {
        kill(pid, SIGSTOP);
        until_lost(h, victim);
        print("verdict", begin);
        begin = bench_now_us();
    } else {
        kill(pid, SIGKILL);
    }
    until_answered(orphan, 0);
    print("answered", begin);
    flux_close(orphan);
    if (stop)
        kill(pid, SIGKILL);
    until_answered(h, victim);
    if (!stop)
        print("back", begin);
}

static void many(flux_t *h, const uint32_t *victims, size_t count)
{
    uint32_t ranks[RANKS_MAX];
    pid_t pids[RANKS_MAX];
    size_t n = 0;
    double begin;

    for (uint32_t rank = 0; rank < flux_size(h); rank++) {
        bool dies = false;

        for (size_t i = 0; i < count; i++)
            dies = dies || victims[i] == rank;
        if (!dies)
            ranks[n++] = rank;
    }
    for (size_t i = 0; i < count; i++)
        pids[i] = broker_of(h, victims[i]);
    begin = bench_now_us();
    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    while (n > 0) {
        flux_future_t *f = flux_mrpc(h, "broker.ping", NULL, ranks, n, 0);
        size_t left = 0;
        errmsg_t err;

        if (!f)
            bench_die("out of memory");
        do {
            if (flux_future_wait(f, PATIENCE) < 0)
                bench_die("rank %u does not answer", flux_mrpc_rank(f));
            if (flux_rpc_get(f, &err) < 0)
                ranks[left++] = flux_mrpc_rank(f);
        } while (flux_future_next(f) == 0);
        flux_future_destroy(f);
        n = left;
        if (bench_now_us() - begin > PATIENCE * 1e6)
            bench_die("%zu ranks cannot be reached", n);
    }
    print("whole", begin);
    for (size_t i = 0; i < count; i++)
        until_answered(h, victims[i]);
}

int main(int argc, char **argv)
{
    uint32_t victims[RANKS_MAX];
    size_t count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned seed = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    flux_t *h;

    if (count == 0 || count > RANKS_MAX)
        bench_die("usage: bench_heal kill|stop|many COUNT SEED");
    h = bench_open();
    choose(victims, count, flux_size(h), &seed);
    if (strcmp(argv[1], "many") == 0)
        many(h, victims, count);
    else
        for (size_t i = 0; i < count; i++)
            one(h, victims[i], strcmp(argv[1], "stop") == 0);
    flux_close(h);
    return 0;
}
