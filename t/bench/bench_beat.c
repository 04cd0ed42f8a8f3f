/* bench_beat.c - whether processes work at the same moments.
 *
 *     bench_beat PERIOD WINDOW BEATS PID...
 *
 * A beat is a multiple of PERIOD seconds of the wall clock.  Print which part, in percent, of the
 * processor time of these processes is spent from 10 ms before a beat to WINDOW seconds after it,
 * and which part of their turns on a processor begins there: in all, and in the beat in which it
 * was least.  Print also the sum of all turns, the processor time in percent of one processor, and
 * in a second line the processes that had turns at other times.  Their numbers are those of their
 * places in the command, from 0: ranks.
 *
 *     TIME TIME_LEAST TURNS TURNS_LEAST ALL_TURNS CPU
 *     rank RANK in N beats (N turns), ...
 *
 * The scheduler counts both for each thread (/proc/PID/task/TID/schedstat), and is asked at these
 * moments.  A beat does not count, and another one takes its place, if this process itself was late
 * to ask: it could not tell then when the others had worked.
 */
#include "config.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "libutil/clock.h"

#define BEFORE 0.01
#define ASK_LATE (BEFORE / 2)
#define THREADS_MAX 64 /* of a process */
#define LATE_SHOWN 8

struct count {
    double time; /* nanoseconds on a processor */
    double turns;
};

struct process {
    int fd[THREADS_MAX];
    size_t n;
    struct count before, after, next; /* a beat: before it, after its window, before the next */
    long late_beats;
    double late_turns;
};

static void open_threads(struct process *p, const char *pid)
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
        if (p->n == THREADS_MAX)
            bench_die("process %s has more than %d threads", pid, THREADS_MAX);
        snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/schedstat", pid, d->d_name);
        if ((p->fd[p->n] = open(path, O_RDONLY | O_CLOEXEC)) >= 0)
            p->n++;
    }
    closedir(dir);
}

static struct count count(const struct process *p)
{
    struct count c = {0., 0.};

    for (size_t i = 0; i < p->n; i++) {
        char text[100];
        ssize_t len = pread(p->fd[i], text, sizeof(text) - 1, 0);
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

/* Returns whether it is not much later than that. */
static bool wait_until(double wall)
{
    double left = wall - clock_wall();
    struct timespec ts = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};

    if (left > 0.)
        nanosleep(&ts, NULL);
    return clock_wall() < wall + ASK_LATE;
}

static double share(double in, double out)
{
    return in + out > 0. ? 100. * in / (in + out) : 100.;
}

/* Add what the processes did in this beat, and note which of them worked outside its window. */
static void add_beat(struct process *p, size_t n, struct count *in, struct count *out)
{
    for (size_t i = 0; i < n; i++) {
        double late = p[i].next.turns - p[i].after.turns;

        in->time += p[i].after.time - p[i].before.time;
        in->turns += p[i].after.turns - p[i].before.turns;
        out->time += p[i].next.time - p[i].after.time;
        out->turns += late;
        p[i].late_beats += late > 0.;
        p[i].late_turns += late;
    }
}

static int by_lateness(const void *a, const void *b)
{
    const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;

    return (x->late_turns < y->late_turns) - (x->late_turns > y->late_turns);
}

static void print_late(struct process *p, size_t n)
{
    struct process **late = calloc(n, sizeof(struct process *));
    size_t nlate = 0;

    if (!late)
        bench_die("out of memory");
    for (size_t i = 0; i < n; i++) {
        if (p[i].late_beats)
            late[nlate++] = &p[i];
    }
    qsort(late, nlate, sizeof(struct process *), by_lateness);
    for (size_t i = 0; i < nlate && i < LATE_SHOWN; i++)
        printf("%srank %td in %ld beats (%.0f turns)", i ? ", " : "", late[i] - p,
               late[i]->late_beats, late[i]->late_turns);
    if (nlate > LATE_SHOWN)
        printf(", and %zu more", nlate - LATE_SHOWN);
    printf("%s\n", nlate ? "" : "none");
    free(late);
}

int main(int argc, char **argv)
{
    struct count in = {0., 0.}, out = {0., 0.};
    double period = argc > 4 ? strtod(argv[1], NULL) : 0.;
    double window = argc > 4 ? strtod(argv[2], NULL) : 0.;
    long beats = argc > 4 ? strtol(argv[3], NULL, 10) : 0, counted = 0;
    size_t n = argc > 4 ? (size_t)argc - 4 : 0;
    struct process *p = calloc(n + 1, sizeof(*p));
    double least_time = 100., least_turns = 100., beat;
    bool began_well;

    if (!p || period <= 0. || window <= 0. || window + BEFORE >= period || beats < 1)
        bench_die("usage: bench_beat PERIOD WINDOW BEATS PID...");
    for (size_t i = 0; i < n; i++)
        open_threads(&p[i], argv[i + 4]);
    beat = ((double)(long)(clock_wall() / period) + 2.) * period;
    began_well = wait_until(beat - BEFORE);
    for (size_t i = 0; i < n; i++)
        p[i].before = count(&p[i]);
    for (long i = 0; counted < beats; i++, beat += period) {
        struct count beat_in = {0., 0.}, beat_out = {0., 0.};
        bool good = began_well;

        if (i == 10 * beats)
            bench_die("the host is too busy: most beats were read late");
        good = wait_until(beat + window) && good;
        for (size_t j = 0; j < n; j++)
            p[j].after = count(&p[j]);
        began_well = wait_until(beat + period - BEFORE);
        for (size_t j = 0; j < n; j++)
            p[j].next = count(&p[j]);
        if (good && began_well) {
            counted++;
            add_beat(p, n, &beat_in, &beat_out);
            if (share(beat_in.time, beat_out.time) < least_time)
                least_time = share(beat_in.time, beat_out.time);
            if (share(beat_in.turns, beat_out.turns) < least_turns)
                least_turns = share(beat_in.turns, beat_out.turns);
            in.time += beat_in.time;
            in.turns += beat_in.turns;
            out.time += beat_out.time;
            out.turns += beat_out.turns;
        }
        for (size_t j = 0; j < n; j++)
            p[j].before = p[j].next;
    }
    printf("%.2f %.2f %.2f %.2f %.0f %.3f\n", share(in.time, out.time), least_time,
           share(in.turns, out.turns), least_turns, in.turns + out.turns,
           (in.time + out.time) * 1e-7 / ((double)beats * period));
    print_late(p, n);
    free(p);
    return 0;
}
