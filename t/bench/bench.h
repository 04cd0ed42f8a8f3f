/* What all benchmarks need: clocks, percentiles, lines of output, and a plain UNIX socket to
 * compare with.
 *
 * Every figure is measured in rounds which take turns with the rounds of what it is compared with,
 * so that both see the same machine; a figure is the median of its rounds.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libflux/handle.h"

/* Say what is wrong on standard error, and exit 1. */
void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

double bench_now_us(void); /* monotonic; the same for all processes of the machine */

/* Sorts `v`.  `p` in 0..100; 50 is the median. */
double bench_percentile(double *v, size_t n, double p);

/* One line: name, value, unit, what it is compared with, ratio, aims, and whether all are met. */
struct bench_figure {
    const char *name;
    double value;
    const char *unit;
    const char *ref_name; /* NULL: nothing to compare with */
    double ref;
    const char *ref_unit; /* NULL: the same */
    double at_most;       /* aim for the value; 0: none */
    double at_least;
    double ratio_at_most; /* aim for value / ref */
    double ratio_at_least;
};
void bench_print(const struct bench_figure *f);
void bench_title(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Something measured: `block` does it `n` times and writes the time of each, in microseconds.
 *
 * Every operation has a process of its own, forked by bench_rounds(), so that the scheduler finds
 * the same pattern of who wakes whom as in a program that does nothing else; `block` opens what it
 * needs at its first call.  `cpu`: run there (BENCH_ANY_CPU: where the scheduler likes). */
#define BENCH_ANY_CPU (-1)
struct bench_op {
    void (*block)(void *arg, double *us, size_t n);
    void *arg;
    size_t n;
    int cpu;
    double p50; /* results: medians of the rounds */
    double p99;
};
/* All operations in turn, `rounds` times after one that does not count. */
void bench_rounds(struct bench_op *ops, size_t nops, size_t rounds);

/* fork(2) a process that is killed when this one ends. */
pid_t bench_fork(void);
/* Wait for this many processes, which must succeed. */
void bench_wait(size_t n);

/* Bind a process with all its threads to one processor, or to none. */
void bench_pin(pid_t pid, int cpu);

/* A process that sends back what it gets on a UNIX stream socket. */
struct bench_echo {
    size_t size; /* bytes of one message; set by the caller, as is `cpu` */
    int cpu;
    bool started;
    int fd;
    pid_t pid;
    char *buf;
};
void bench_echo_start(struct bench_echo *e); /* no effect when started */
void bench_echo_stop(struct bench_echo *e);
/* For struct bench_op: round trips of one message. */
void bench_echo_block(void *arg, double *us, size_t n);
/* Messages per second with `window` of them under way. */
double bench_echo_rate(struct bench_echo *e, size_t n, size_t window);

/* Connect to the broker of the environment, or to another rank of the session on this host (`r`: on
 * this reactor, NULL for one of its own). */
flux_t *bench_open(void);
flux_t *bench_open_rank(flux_t *h, uint32_t rank, flux_reactor_t *r);
pid_t bench_broker_pid(flux_t *h); /* of the broker it is connected to */

#endif
