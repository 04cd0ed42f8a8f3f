/* bench_count.c - wake-ups and system calls of processes.
 *
 * The tracer stops each thread at the entry and at the exit of each system call; it counts entries.
 * When it ends, the kernel lets go of all that it traced.
 */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "bench_count.h"

/* Call `f` for each thread of a process. */
static void each_thread(pid_t pid, void (*f)(pid_t pid, pid_t tid, void *arg), void *arg)
{
    char path[64];
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    if (!(dir = opendir(path)))
        bench_die("%s: %s", path, strerror(errno));
    while ((e = readdir(dir))) {
        if (e->d_name[0] != '.')
            f(pid, atoi(e->d_name), arg);
    }
    closedir(dir);
}

/* --- wake-ups --- */

static void add_switches(pid_t pid, pid_t tid, void *arg)
{
    double *sum = arg;
    char path[64], line[128];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
    if (!(f = fopen(path, "r")))
        return; /* it has ended */
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
            *sum += strtod(line + 24, NULL);
    fclose(f);
}

double bench_wakeups(const pid_t *pids, size_t n)
{
    double sum = 0.;

    for (size_t i = 0; i < n; i++)
        each_thread(pids[i], add_switches, &sum);
    return sum;
}

/* --- system calls --- */

static struct board {
    atomic_uint_fast64_t stops;
    atomic_int ready; /* 1; or -errno */
} * board;
static pid_t tracer;

static void seize(pid_t pid, pid_t tid, void *arg)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK) < 0)
        atomic_store(&board->ready, -errno);
    else
        (void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
}

static _Noreturn void trace(const pid_t *pids, size_t n)
{
    int status;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < n; i++)
        each_thread(pids[i], seize, NULL);
    if (atomic_load(&board->ready) < 0)
        _exit(1);
    atomic_store(&board->ready, 1);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        int sig = 0;

        if (tid < 0)
            _exit(0);
        if (!WIFSTOPPED(status))
            continue;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            atomic_fetch_add(&board->stops, 1);
        else if (status >> 16 == 0)
            sig = WSTOPSIG(status);
        (void)ptrace(PTRACE_SYSCALL, tid, NULL, sig);
    }
}

bool bench_calls_start(const pid_t *pids, size_t n)
{
    int ready;

    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || (tracer = fork()) < 0)
        bench_die("tracer: %s", strerror(errno));
    if (tracer == 0)
        trace(pids, n);
    (void)prctl(PR_SET_PTRACER, tracer);
    while ((ready = atomic_load(&board->ready)) == 0)
        usleep(1000);
    if (ready > 0)
        return true;
    printf("system calls are not counted here: ptrace: %s\n", strerror(-ready));
    bench_calls_stop();
    return false;
}

uint64_t bench_calls(void)
{
    return atomic_load(&board->stops) / 2;
}

void bench_calls_stop(void)
{
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    munmap(board, sizeof(*board));
}
