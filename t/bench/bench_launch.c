/* How long starting a job takes, the whole command: flux wreckrun beside mpiexec.hydra and bare
 * fork/exec.
 *
 *     bench_launch true [N...]             N tasks of /bin/true (1 16 64)
 *     bench_launch pmi PROGRAM [N...]      N tasks of PROGRAM, a PMI exchange (64 256)
 *     bench_launch mpi PROGRAM [N...]      the same of an MPI program, each but once a round: its
 *                                          tasks wait for each other in busy loops
 *     bench_launch count [N...]            what N tasks of /bin/true cost, counted (1): threads
 *                                          that are woken and system calls of brokers, launchers,
 *                                          the command and the tasks (these not counted as woken),
 *                                          and requests that brokers route
 *
 * Beside PMI exchanges there are as many bare round trips (struct bench_echo), one after the other.
 * Each process of PROGRAM (pmi_exchange.c) makes PMI_CALLS of them: init, get_maxes and
 * get_my_kvsname; a put; a barrier before the gets, and one after them; finalize; and a get for
 * each process.  So N tasks make N * (N + PMI_CALLS).
 *
 * Tasks are not bound to the cores they asked for: hydra does not do that either, and has no limit
 * of one task a core.
 *
 * Runs inside a session ($FLUX_URI), with $FLUX the command.  Rounds of the three take turns.
 * Without hydra its column is left out.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "bench_count.h"
#include "libflux/future.h"

extern char **environ;

#define ROUNDS 5
#define MPI_ROUNDS 3 /* of MPI programs, which take seconds each */
#define COUNT_RUNS 30
#define RANKS_MAX 64
#define TRUE "/bin/true"
#define PMI_CALLS 7
#define PMI_BYTES 100 /* of a line of PMI-1, about */

struct command {
    char *argv[14];
    size_t copies; /* of it, at a time */
    bool failed;
};

static posix_spawn_file_actions_t quiet;

static void block(void *arg, double *us, size_t n)
{
    struct command *cmd = arg;
    pid_t *pids = calloc(cmd->copies, sizeof(*pids));

    for (size_t i = 0; pids && i < n; i++) {
        double begin = bench_now_us();

        for (size_t k = 0; k < cmd->copies; k++)
            if (posix_spawnp(&pids[k], cmd->argv[0], &quiet, NULL, cmd->argv, environ) != 0)
                bench_die("cannot run %s", cmd->argv[0]);
        for (size_t k = 0; k < cmd->copies; k++) {
            int status;

            if (waitpid(pids[k], &status, 0) < 0 || status != 0)
                bench_die("%s %s %s failed (status %d)", cmd->argv[0], cmd->argv[1], cmd->argv[2],
                          status);
        }
        us[i] = bench_now_us() - begin;
    }
    free(pids);
}

/* Round trips of `trips` lines, one after the other. */
struct exchange {
    struct bench_echo echo;
    size_t trips;
    double *us;
};

static void exchange_block(void *arg, double *us, size_t n)
{
    struct exchange *x = arg;

    bench_echo_start(&x->echo);
    if (!x->us && !(x->us = malloc(x->trips * sizeof(*x->us))))
        bench_die("out of memory");
    for (size_t i = 0; i < n; i++) {
        double begin = bench_now_us();

        bench_echo_block(&x->echo, x->us, x->trips);
        us[i] = bench_now_us() - begin;
    }
}

/* --- counts --- */

struct session {
    flux_t *ranks[RANKS_MAX];
    uint32_t size;
    pid_t pids[2 * RANKS_MAX + 1]; /* of brokers, their launchers, and this process */
    size_t npids;
};

/* A member of the response of a service at a rank. */
static double stat_of(struct session *s, uint32_t rank, const char *topic, const char *name)
{
    flux_future_t *f = flux_rpc(s->ranks[rank], topic, NULL, rank, 0);
    const char *json;
    json_t *obj;
    errmsg_t err;
    double value;

    if (!f || flux_future_wait(f, -1.) < 0 || flux_rpc_get_json(f, &json, &err) < 0)
        bench_die("%s: no answer from rank %u", topic, rank);
    obj = json_loads(json, 0, NULL);
    value = json_number_value(json_object_get(obj, name));
    json_decref(obj);
    flux_future_destroy(f);
    return value;
}

static void open_session(struct session *s)
{
    flux_t *h = bench_open();

    s->size = flux_size(h) < RANKS_MAX ? flux_size(h) : RANKS_MAX;
    s->npids = 0;
    for (uint32_t i = 0; i < s->size; i++) {
        pid_t launcher;

        s->ranks[i] = bench_open_rank(h, i, NULL);
        s->pids[s->npids++] = bench_broker_pid(s->ranks[i]);
        if ((launcher = (pid_t)stat_of(s, i, "wrexec.stats", "launcher")) > 0)
            s->pids[s->npids++] = launcher;
    }
    flux_close(h);
}

static void close_session(struct session *s)
{
    for (uint32_t i = 0; i < s->size; i++)
        flux_close(s->ranks[i]);
}

static double requests(struct session *s)
{
    double sum = 0.;

    for (uint32_t i = 0; i < s->size; i++)
        sum += stat_of(s, i, "broker.stats", "requests");
    return sum;
}

/* How often the command has waited; its children are not of this process. */
static double run_waits(struct command *cmd, unsigned n)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    double sum = 0.;

    for (unsigned i = 0; i < n; i++) {
        struct rusage ru;
        int status;
        pid_t pid;

        /* Not posix_spawn(3), which makes two system calls for each signal. */
        if ((pid = vfork()) == 0) {
            dup2(null, 0);
            dup2(null, 1);
            execvp(cmd->argv[0], cmd->argv);
            _exit(127);
        }
        if (pid < 0)
            bench_die("cannot run %s", cmd->argv[0]);
        if (wait4(pid, &status, 0, &ru) < 0 || status != 0)
            bench_die("%s %s failed (status %d)", cmd->argv[0], cmd->argv[1], status);
        sum += (double)ru.ru_nvcsw;
    }
    close(null);
    return sum;
}

/* 0: they are not counted here. */
static double count_calls(struct command *cmd, const pid_t *pids, size_t n)
{
    double calls;

    if (!bench_calls_start(pids, n))
        return 0.;
    calls = (double)bench_calls();
    (void)run_waits(cmd, COUNT_RUNS);
    calls = ((double)bench_calls() - calls) / COUNT_RUNS;
    bench_calls_stop();
    return calls;
}

static void print_count(const char *what, const char *count, double value, double bare)
{
    char name[64];

    snprintf(name, sizeof(name), "launch, %s tasks: %s", count, what);
    bench_print(&(struct bench_figure){.name = name,
                                       .value = value,
                                       .unit = "",
                                       .ref_name = bare > 0. ? "bare fork/exec" : NULL,
                                       .ref = bare});
}

static void count_launch(struct command *cmd, const char *count)
{
    struct command bare = {.argv = {(char *)TRUE}};
    const pid_t self = getpid();
    double wakeups, routed, calls;
    struct session s;

    (void)run_waits(cmd, 2); /* launchers are there then */
    open_session(&s);
    routed = requests(&s);
    routed = 2. * requests(&s) - routed; /* the questions themselves do not count */
    wakeups = bench_wakeups(s.pids, s.npids);
    wakeups = run_waits(cmd, COUNT_RUNS) + bench_wakeups(s.pids, s.npids) - wakeups;
    routed = requests(&s) - routed;
    print_count("wake-ups", count, wakeups / COUNT_RUNS, 0.);
    s.pids[s.npids++] = self;
    if ((calls = count_calls(cmd, s.pids, s.npids)) > 0.)
        print_count("system calls", count, calls, atoi(count) * count_calls(&bare, &self, 1));
    print_count("requests", count, routed / COUNT_RUNS, 0.);
    close_session(&s);
}

static bool have(const char *program)
{
    char cmd[256];

    snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null", program);
    return system(cmd) == 0;
}

enum what { LAUNCH, PMI, MPI, COUNT };

/* The aim for the ratio to bare fork/exec; 0: none. */
static double launch_aim(unsigned ntasks)
{
    return ntasks == 1 ? 2.5 : ntasks == 16 ? 1.3 : ntasks == 64 ? 1.1 : 0.;
}

static void measure(const char *program, const char *count, enum what what)
{
    unsigned ntasks = (unsigned)atoi(count);
    const char *flux = getenv("FLUX"), *nodes = getenv("BENCH_NODES");
    char name[64];
    struct command cmds[3] = {
        {.argv = {(char *)(flux ? flux : "flux"), (char *)"wreckrun", (char *)"-N",
                  (char *)(nodes && ntasks >= (unsigned)atoi(nodes) ? nodes : "1"), (char *)"-n",
                  (char *)count, (char *)"--overcommit", (char *)"--cpu-affinity=off",
                  (char *)program},
         .copies = 1},
        {.argv = {(char *)"mpiexec.hydra", (char *)"-n", (char *)count, (char *)program},
         .copies = 1},
        {.argv = {(char *)program, NULL, NULL}, .copies = ntasks},
    };
    struct exchange trips = {.echo = {.size = PMI_BYTES, .cpu = BENCH_ANY_CPU},
                             .trips = (size_t)ntasks * (ntasks + PMI_CALLS)};
    struct bench_op ops[4];
    size_t nops = 0, each = what == MPI ? 1 : ntasks <= 4 ? 20 : ntasks <= 16 ? 10 : 4;
    bool bare = what == LAUNCH;
    bool hydra = have("mpiexec.hydra");

    if (what == COUNT) {
        count_launch(&cmds[0], count);
        return;
    }
    for (size_t i = 0; i < 3; i++)
        if ((i != 1 || hydra) && (i != 2 || bare))
            ops[nops++] =
                (struct bench_op){.block = block, .arg = &cmds[i], .n = each, .cpu = BENCH_ANY_CPU};
    if (what == PMI)
        ops[nops++] =
            (struct bench_op){.block = exchange_block, .arg = &trips, .n = 1, .cpu = BENCH_ANY_CPU};
    bench_rounds(ops, nops, what == MPI ? MPI_ROUNDS : ROUNDS);
    snprintf(name, sizeof(name), "%s, %s tasks%s",
             bare          ? "launch"
             : what == PMI ? "PMI exchange"
                           : "MPI",
             count, nodes && ntasks >= (unsigned)atoi(nodes) ? " over all" : " on one");
    bench_print(&(struct bench_figure){.name = name,
                                       .value = ops[0].p50 / 1e3,
                                       .unit = "ms",
                                       .ref_name = hydra ? "mpiexec.hydra" : NULL,
                                       .ref = hydra ? ops[1].p50 / 1e3 : 0,
                                       .ratio_at_most = hydra ? 1 : 0});
    if (bare || what == PMI)
        bench_print(&(struct bench_figure){.name = name,
                                           .value = ops[0].p50 / 1e3,
                                           .unit = "ms",
                                           .ref_name = bare ? "bare fork/exec" : "bare round trips",
                                           .ref = ops[nops - 1].p50 / 1e3,
                                           .ratio_at_most = bare            ? launch_aim(ntasks)
                                                            : ntasks == 256 ? 1.5
                                                                            : 0.});
}

int main(int argc, char **argv)
{
    static const char *const some[] = {"1", "16", "64"}, *const many[] = {"64", "256"};
    enum what what = argc <= 2                 ? LAUNCH
                     : !strcmp(argv[1], "pmi") ? PMI
                     : !strcmp(argv[1], "mpi") ? MPI
                                               : LAUNCH;

    if (argc >= 2 && !strcmp(argv[1], "count"))
        what = COUNT;
    if (what == LAUNCH && (argc < 2 || strcmp(argv[1], "true") != 0))
        bench_die(
            "usage: bench_launch true|count [N...] | pmi PROGRAM [N...] | mpi PROGRAM [N...]");
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    if (what == PMI || what == MPI) {
        for (int i = 3; i < argc; i++)
            measure(argv[2], argv[i], what);
        for (size_t i = 0; argc == 3 && i < sizeof(many) / sizeof(*many); i++)
            measure(argv[2], many[i], what);
    } else {
        for (int i = 2; i < argc; i++)
            measure(TRUE, argv[i], what);
        for (size_t i = 0; argc == 2 && i < (what == COUNT ? 1 : sizeof(some) / sizeof(*some)); i++)
            measure(TRUE, some[i], what);
    }
    posix_spawn_file_actions_destroy(&quiet);
    return 0;
}
