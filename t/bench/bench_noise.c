/* bench_noise.c - how much of its processors a program gets.
 *
 *     bench_noise calibrate              print how many turns of the loop take a millisecond
 *     bench_noise TURNS SECONDS          on each processor, do units of that many turns for so
 *     long;
 *                                        print how many units were done in all, and the time that
 *                                        99.9% of them took at most, in microseconds
 *
 * A parallel program is as slow as its slowest process: what other processes take from one
 * processor, all lose.  bench_noise.sh compares the units that are done beside a session with
 * those that are done without one.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define UNITS_MAX 100000
#define CPUS_MAX 256

struct share {
    size_t n;
    double us[UNITS_MAX];
};

static void unit(unsigned long turns)
{
    volatile unsigned x = 1;

    for (unsigned long i = 0; i < turns; i++)
        x = x * 1664525u + 1013904223u;
}

static unsigned long calibrate(void)
{
    enum { RUNS = 200, TURNS = 100000 };
    double us[RUNS];

    for (size_t i = 0; i < RUNS; i++) {
        double begin = bench_now_us();

        unit(TURNS);
        us[i] = bench_now_us() - begin;
    }
    return (unsigned long)(TURNS * 1000. / bench_percentile(us, RUNS, 50));
}

static void work(struct share *s, int cpu, unsigned long turns, double end)
{
    double now, before;

    bench_pin(getpid(), cpu);
    for (before = bench_now_us(); before < end && s->n < UNITS_MAX; before = now) {
        unit(turns);
        now = bench_now_us();
        s->us[s->n++] = now - before;
    }
}

int main(int argc, char **argv)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct share *s;
    unsigned long turns;
    double end, *all;
    size_t n = 0;

    if (argc == 2 && strcmp(argv[1], "calibrate") == 0) {
        printf("%lu\n", calibrate());
        return 0;
    }
    if (argc != 3 || (turns = strtoul(argv[1], NULL, 10)) == 0 || cpus < 1 || cpus > CPUS_MAX)
        bench_die("usage: bench_noise calibrate | TURNS SECONDS");
    s = mmap(NULL, (size_t)cpus * sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
             -1, 0);
    if (s == MAP_FAILED)
        bench_die("out of memory");
    end = bench_now_us() + strtod(argv[2], NULL) * 1e6;
    for (int i = 0; i < cpus; i++) {
        pid_t pid = fork();

        if (pid < 0)
            bench_die("cannot fork");
        if (pid == 0) {
            work(&s[i], i, turns, end);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        continue;
    if (!(all = malloc((size_t)cpus * UNITS_MAX * sizeof(*all))))
        bench_die("out of memory");
    for (int i = 0; i < cpus; i++) {
        memcpy(all + n, s[i].us, s[i].n * sizeof(*all));
        n += s[i].n;
    }
    printf("%zu %.1f\n", n, bench_percentile(all, n, 99.9));
    free(all);
    munmap(s, (size_t)cpus * sizeof(*s));
    return 0;
}
