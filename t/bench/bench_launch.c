/* How long starting a job takes, the whole command: flux wreckrun beside mpiexec.hydra and bare
 * fork/exec.
 *
 *     bench_launch true [N...]             N tasks of /bin/true (1 16 64)
 *     bench_launch pmi PROGRAM [N...]      N tasks of PROGRAM, a PMI exchange (64 256)
 *     bench_launch mpi PROGRAM [N...]      the same of an MPI program, each but once a round: its
 *                                          tasks wait for each other in busy loops
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
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

extern char **environ;

#define ROUNDS 5
#define MPI_ROUNDS 3 /* of MPI programs, which take seconds each */
#define TRUE "/bin/true"

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

static bool have(const char *program)
{
    char cmd[256];

    snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null", program);
    return system(cmd) == 0;
}

enum what { LAUNCH, PMI, MPI };

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
    struct bench_op ops[3];
    size_t nops = 0, each = what == MPI ? 1 : ntasks <= 4 ? 20 : ntasks <= 16 ? 10 : 4;
    bool bare = what == LAUNCH;
    bool hydra = have("mpiexec.hydra");

    for (size_t i = 0; i < 3; i++)
        if ((i != 1 || hydra) && (i != 2 || bare))
            ops[nops++] =
                (struct bench_op){.block = block, .arg = &cmds[i], .n = each, .cpu = BENCH_ANY_CPU};
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
    if (bare)
        bench_print(&(struct bench_figure){.name = name,
                                           .value = ops[0].p50 / 1e3,
                                           .unit = "ms",
                                           .ref_name = "bare fork/exec",
                                           .ref = ops[nops - 1].p50 / 1e3});
}

int main(int argc, char **argv)
{
    static const char *const some[] = {"1", "16", "64"}, *const many[] = {"64", "256"};
    enum what what = argc <= 2                 ? LAUNCH
                     : !strcmp(argv[1], "pmi") ? PMI
                     : !strcmp(argv[1], "mpi") ? MPI
                                               : LAUNCH;

    if (what == LAUNCH && (argc < 2 || strcmp(argv[1], "true") != 0))
        bench_die("usage: bench_launch true [N...] | pmi PROGRAM [N...] | mpi PROGRAM [N...]");
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    if (what != LAUNCH) {
        for (int i = 3; i < argc; i++)
            measure(argv[2], argv[i], what);
        for (size_t i = 0; argc == 3 && i < sizeof(many) / sizeof(*many); i++)
            measure(argv[2], many[i], what);
    } else {
        for (int i = 2; i < argc; i++)
            measure(TRUE, argv[i], LAUNCH);
        for (size_t i = 0; argc == 2 && i < sizeof(some) / sizeof(*some); i++)
            measure(TRUE, some[i], LAUNCH);
    }
    posix_spawn_file_actions_destroy(&quiet);
    return 0;
}
