/* bench_local.c - what a request to the local broker costs, beside a bare UNIX-socket round trip.
 *
 * A child process is the broker: a core with the local connector and nothing else, so that what is
 * measured is the connector, the core's routing and the client's transport.  Round trips of both
 * kinds alternate in blocks, so that a noisy machine disturbs both alike.  They run on one
 * processor, since waking up another, idle one takes several times longer than all the rest, and
 * whether the kernel does that is chance.  The measurement of throughput has all processors.
 */
#include "config.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libflux/future.h"
#include "src/broker/connector.h"
#include "src/broker/test/alone.h"

#define BLOCKS 20
#define PER_BLOCK 1000
#define MANY 400000
#define WINDOW 4096

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_local: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void broker(int fd)
{
    struct core_config cfg;
    flux_reactor_t *r = flux_reactor_create(false);
    core_t *core;
    connector_t *cn;
    errmsg_t err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    core_config_init(&cfg);
    cfg.userid = geteuid();
    if (!r || !(core = core_create(&cfg, r, NULL, NULL, &err)))
        die("core");
    core_set_link(core, &alone_ops, NULL);
    if (!(cn = connector_create(core, NULL, &connector_limits_default, &err)) ||
        core_start(core) < 0 || connector_adopt(cn, fd, &err) < 0)
        die("connector");
    core_local_ready(core);
    flux_reactor_run(r);
    _exit(0);
}

static void echo(int fd)
{
    char buf[4096];
    ssize_t n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((n = read(fd, buf, sizeof(buf))) > 0) {
        if (write(fd, buf, (size_t)n) != n)
            break;
    }
    _exit(0);
}

static pid_t spawn(void (*fn)(int), int *fd)
{
    int sv[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) < 0 || (pid = fork()) < 0)
        die("fork");
    if (pid == 0) {
        close(sv[0]);
        fn(sv[1]);
    }
    close(sv[1]);
    *fd = sv[0];
    return pid;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void rpc(flux_t *h)
{
    flux_future_t *f = flux_rpc(h, "broker.ping", "{}", FLUX_NODEID_ANY, 0);

    if (!f || flux_future_wait(f, 0.) < 0 || flux_rpc_get(f, NULL) < 0)
        die("rpc");
    flux_future_destroy(f);
}

/* All three processes, to one processor or to those there were. */
static void place(const pid_t pids[3], const cpu_set_t *cpus)
{
    for (int i = 0; i < 3; i++) {
        if (sched_setaffinity(pids[i], sizeof(*cpus), cpus) < 0)
            die("sched_setaffinity");
    }
}

struct many {
    flux_t *h;
    int sent;
    int received;
};

static void many_cb(flux_future_t *f, void *arg);

static void many_send(struct many *m)
{
    flux_future_t *f = flux_rpc(m->h, "broker.ping", NULL, FLUX_NODEID_ANY, 0);

    if (!f || flux_future_then(f, 0., many_cb, m) < 0)
        die("rpc");
    m->sent++;
}

static void many_cb(flux_future_t *f, void *arg)
{
    struct many *m = arg;

    if (flux_rpc_get(f, NULL) < 0)
        die(flux_future_error(f));
    flux_future_destroy(f);
    m->received++;
    if (m->sent < MANY)
        many_send(m);
    else if (m->received == MANY)
        flux_reactor_stop(flux_get_reactor(m->h), 0);
}

int main(void)
{
    static double bare[BLOCKS * PER_BLOCK];
    static double flux[BLOCKS * PER_BLOCK];
    char msg[64] = "";
    char uri[32];
    int echo_fd;
    int broker_fd;
    pid_t echo_pid = spawn(echo, &echo_fd);
    pid_t broker_pid = spawn(broker, &broker_fd);
    struct many m = {0};
    errmsg_t err;
    double t;
    double p50_bare;
    double p50_flux;
    const pid_t pids[3] = {0, echo_pid, broker_pid};
    cpu_set_t all;
    cpu_set_t one;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        die("sched_getaffinity");
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    place(pids, &one);

    snprintf(uri, sizeof(uri), "fd://%d", broker_fd);
    if (!(m.h = flux_open(uri, NULL, &err)))
        die(err.text);
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < PER_BLOCK; i++) {
            t = now();
            if (write(echo_fd, msg, sizeof(msg)) != sizeof(msg) ||
                read(echo_fd, msg, sizeof(msg)) != sizeof(msg))
                die("echo");
            bare[b * PER_BLOCK + i] = now() - t;
        }
        for (int i = 0; i < PER_BLOCK; i++) {
            t = now();
            rpc(m.h);
            flux[b * PER_BLOCK + i] = now() - t;
        }
    }
    qsort(bare, BLOCKS * PER_BLOCK, sizeof(double), compare);
    qsort(flux, BLOCKS * PER_BLOCK, sizeof(double), compare);
    p50_bare = bare[BLOCKS * PER_BLOCK / 2];
    p50_flux = flux[BLOCKS * PER_BLOCK / 2];
    printf("UNIX-socket round trip p50: %.1f us\n", p50_bare * 1e6);
    printf("local RPC p50: %.1f us, p99: %.1f us\n", p50_flux * 1e6,
           flux[BLOCKS * PER_BLOCK * 99 / 100] * 1e6);
    printf("local RPC p50 / UNIX-socket round trip p50: %.2f (at most 2)\n", p50_flux / p50_bare);
    place(pids, &all);
    t = now();
    for (int i = 0; i < WINDOW; i++)
        many_send(&m);
    if (flux_run(m.h) < 0)
        die("run");
    printf("local RPCs with %d outstanding: %.0f per second (at least 150000)\n", WINDOW,
           MANY / (now() - t));
    flux_close(m.h);
    close(echo_fd);
    kill(broker_pid, SIGKILL);
    waitpid(echo_pid, NULL, 0);
    waitpid(broker_pid, NULL, 0);
    return 0;
}
