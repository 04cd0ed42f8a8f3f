/* bench_beat.c - whether processes work at the same moments.
 *
 *     bench_beat PERIOD WINDOW BEATS PID...
 *
 * A beat is a multiple of PERIOD seconds of the wall clock.  Print which part, in percent, of the
 * processor time of these processes is spent from 10 ms before a beat to WINDOW seconds after it,
 * and which part of their turns on a processor begins there: in all, and in the beat in which it
 * was least.  Print also the sum of all turns, and the processor time in percent of one processor.
 *
 *     TIME TIME_LEAST TURNS TURNS_LEAST ALL_TURNS CPU
 *
 * The scheduler counts both for each thread (/proc/PID/task/TID/schedstat), and is asked at these
 * moments.
 */
#include "config.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "libutil/clock.h"

#define BEFORE 0.01
#define THREADS_MAX 4096

struct count {
    double time; /* nanoseconds on a processor */
    double turns;
};

struct all {
    int fd[THREADS_MAX];
    size_t n;
};

static void open_threads(struct all *all, const char *pid)
{
    char path[64];
    struct dirent *d;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%s/task", pid);
    if (!(dir = opendir(path)))
        bench_die("there is no process %s", pid);
    while ((d = readdir(dir))) {
        if (d->d_name[0] == '.')
            continue;
        if (all->n == THREADS_MAX)
            bench_die("more than %d threads", THREADS_MAX);
        snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/schedstat", pid, d->d_name);
        if ((all->fd[all->n] = open(path, O_RDONLY | O_CLOEXEC)) >= 0)
            all->n++;
    }
    closedir(dir);
}

static struct count count(const struct all *all)
{
    struct count c = {0., 0.};

    for (size_t i = 0; i < all->n; i++) {
        char text[100];
        ssize_t len = pread(all->fd[i], text, sizeof(text) - 1, 0);
        double waited;
        struct count one;

        if (len <= 0)
            continue; /* the thread has ended */
        text[len] = '\0';
        if (sscanf(text, "%lf %lf %lf", &one.time, &waited, &one.turns) != 3)
            bench_die("the scheduler keeps no statistics of threads");
        c.time += one.time;
        c.turns += one.turns;
    }
    return c;
}

static void wait_until(double wall)
{
    double left = wall - clock_wall();
    struct timespec ts = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};

    if (left > 0.)
        nanosleep(&ts, NULL);
}

static double share(double in, double out)
{
    return in + out > 0. ? 100. * in / (in + out) : 100.;
}

int main(int argc, char **argv)
{
    struct all *all = calloc(1, sizeof(*all));
    struct count in = {0., 0.}, out = {0., 0.};
    double period = argc > 4 ? strtod(argv[1], NULL) : 0.;
    double window = argc > 4 ? strtod(argv[2], NULL) : 0.;
    long beats = argc > 4 ? strtol(argv[3], NULL, 10) : 0;
    double least_time = 100., least_turns = 100., beat;
    struct count before, after, next;

    if (!all || period <= 0. || window <= 0. || window + BEFORE >= period || beats < 1)
        bench_die("usage: bench_beat PERIOD WINDOW BEATS PID...");
    for (int i = 4; i < argc; i++)
        open_threads(all, argv[i]);
    beat = ((double)(long)(clock_wall() / period) + 2.) * period;
    wait_until(beat - BEFORE);
    before = count(all);
    for (long i = 0; i < beats; i++, beat += period, before = next) {
        double part_time, part_turns;

        wait_until(beat + window);
        after = count(all);
        wait_until(beat + period - BEFORE);
        next = count(all);
        part_time = share(after.time - before.time, next.time - after.time);
        part_turns = share(after.turns - before.turns, next.turns - after.turns);
        least_time = part_time < least_time ? part_time : least_time;
        least_turns = part_turns < least_turns ? part_turns : least_turns;
        in.time += after.time - before.time;
        in.turns += after.turns - before.turns;
        out.time += next.time - after.time;
        out.turns += next.turns - after.turns;
    }
    printf("%.2f %.2f %.2f %.2f %.0f %.3f\n", share(in.time, out.time), least_time,
           share(in.turns, out.turns), least_turns, in.turns + out.turns,
           (in.time + out.time) * 1e-7 / ((double)beats * period));
    free(all);
    return 0;
}
