/* bench.c - what all benchmarks need.
 *
 * The socket to compare with is the plainest there is: two processes, blocking read and write, one
 * system call each, messages of the same size as Flux's.
 *
 * Failure: a benchmark that cannot measure ends with a sentence and exit code 1.  A figure that
 * misses its aim is marked, and is not a failure: that is for whoever reads it to judge.
 */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "libflux/attr.h"

#define STREAM_CHUNK 65536

void bench_die(const char *fmt, ...)
{
    va_list ap;

    fflush(stdout);
    fprintf(stderr, "bench: ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

pid_t bench_fork(void)
{
    pid_t pid;

    fflush(stdout);
    if ((pid = fork()) < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

void bench_wait(size_t n)
{
    int status;

    while (n-- > 0) {
        if (wait(&status) < 0 || status != 0)
            bench_die("a process failed");
    }
}

double bench_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_percentile(double *v, size_t n, double p)
{
    size_t i = (size_t)((double)n * p / 100.);

    qsort(v, n, sizeof(*v), compare);
    return v[i < n ? i : n - 1];
}

void bench_title(const char *fmt, ...)
{
    va_list ap;

    printf("# ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

/* Three digits that mean something. */
static void print_value(char *buf, size_t size, double v)
{
    snprintf(buf, size, v >= 100. ? "%.0f" : v >= 10. ? "%.1f" : "%.2f", v);
}

void bench_print(const struct bench_figure *f)
{
    double ratio = f->ref_name && f->ref > 0. ? f->value / f->ref : 0.;
    char value[32];
    char ref[32] = "";
    char rel[32] = "";
    char aim[96] = "";
    const char *mark = "";
    const struct aim {
        double bound; /* 0: none */
        double value;
        bool upper;
        const char *unit;
    } aims[] = {{f->ratio_at_most, ratio, true, "x"},
                {f->ratio_at_least, ratio, false, "x"},
                {f->at_most, f->value, true, ""},
                {f->at_least, f->value, false, ""}};

    print_value(value, sizeof(value), f->value);
    if (f->ref_name) {
        print_value(ref, sizeof(ref), f->ref);
        snprintf(rel, sizeof(rel), "x%.2f", ratio);
    }
    for (size_t i = 0, len = 0; i < sizeof(aims) / sizeof(aims[0]); i++) {
        const struct aim *a = &aims[i];

        if (a->bound <= 0.)
            continue;
        len += (size_t)snprintf(aim + len, sizeof(aim) - len, "%s%s %s%.6g", len > 0 ? ", " : "",
                                a->upper ? "<=" : ">=", a->unit, a->bound);
        if (a->upper ? a->value > a->bound : a->value < a->bound)
            mark = a->upper ? "OVER" : "UNDER";
        else if (!*mark)
            mark = "ok";
    }
    printf("%-40s %9s %-5s  %-26s %9s %-5s %8s  %-10s %s\n", f->name, value, f->unit,
           f->ref_name ? f->ref_name : "", ref,
           f->ref_name ? (f->ref_unit ? f->ref_unit : f->unit) : "", rel, aim, mark);
    fflush(stdout);
}

void bench_pin(pid_t pid, int cpu)
{
    char path[64];
    struct dirent *d;
    cpu_set_t set;
    DIR *dir;

    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (cpu == BENCH_ANY_CPU || cpu == i)
            CPU_SET(i, &set);
    }
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    if (!(dir = opendir(path)))
        bench_die("%s: %s", path, strerror(errno));
    while ((d = readdir(dir))) {
        if (d->d_name[0] != '.' && sched_setaffinity(atoi(d->d_name), sizeof(set), &set) < 0)
            bench_die("cannot bind process %d to processor %d: %s", (int)pid, cpu, strerror(errno));
    }
    closedir(dir);
}

struct worker {
    pid_t pid;
    int fd; /* a byte each way for a round */
};

static void work(const struct bench_op *op, double *us, int fd)
{
    char c;

    if (op->cpu != BENCH_ANY_CPU)
        bench_pin(getpid(), op->cpu);
    while (read(fd, &c, 1) == 1) {
        op->block(op->arg, us, op->n);
        if (write(fd, &c, 1) != 1)
            break;
    }
    _exit(0);
}

static void start_worker(struct worker *w, const struct bench_op *op, double *us)
{
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        bench_die("socketpair: %s", strerror(errno));
    if ((w->pid = bench_fork()) == 0) {
        close(fd[0]);
        work(op, us, fd[1]);
    }
    close(fd[1]);
    w->fd = fd[0];
}

static void run_worker(struct worker *w)
{
    char c = 0;

    if (write(w->fd, &c, 1) != 1 || read(w->fd, &c, 1) != 1)
        bench_die("a measuring process has failed");
}

void bench_rounds(struct bench_op *ops, size_t nops, size_t rounds)
{
    double *p50 = calloc(nops * rounds, sizeof(*p50));
    double *p99 = calloc(nops * rounds, sizeof(*p99));
    struct worker *workers = calloc(nops, sizeof(*workers));
    size_t max = 0;
    double *us;

    for (size_t i = 0; i < nops; i++)
        max = ops[i].n > max ? ops[i].n : max;
    us = mmap(NULL, max * sizeof(*us), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!p50 || !p99 || !workers || us == MAP_FAILED)
        bench_die("out of memory");
    for (size_t i = 0; i < nops; i++)
        start_worker(&workers[i], &ops[i], us);
    for (size_t round = 0; round <= rounds; round++) {
        for (size_t i = 0; i < nops; i++) {
            run_worker(&workers[i]);
            if (round > 0) {
                p50[i * rounds + round - 1] = bench_percentile(us, ops[i].n, 50.);
                p99[i * rounds + round - 1] = bench_percentile(us, ops[i].n, 99.);
            }
        }
    }
    /* A worker's end is also open in those that were started after it. */
    for (size_t i = nops; i-- > 0;) {
        /* Its end of the socket is also open in those forked after it: closing would not end it. */
        kill(workers[i].pid, SIGKILL);
        close(workers[i].fd);
        waitpid(workers[i].pid, NULL, 0);
        ops[i].p50 = bench_percentile(p50 + i * rounds, rounds, 50.);
        ops[i].p99 = bench_percentile(p99 + i * rounds, rounds, 50.);
    }
    munmap(us, max * sizeof(*us));
    free(workers);
    free(p50);
    free(p99);
}

/* --- the plain socket --- */

static void echo_serve(int fd)
{
    static char buf[STREAM_CHUNK];
    ssize_t n;

    while ((n = read(fd, buf, sizeof(buf))) > 0) {
        for (ssize_t done = 0; done < n;) {
            ssize_t m = write(fd, buf + done, (size_t)(n - done));
            if (m < 0)
                _exit(1);
            done += m;
        }
    }
    _exit(0);
}

void bench_echo_start(struct bench_echo *e)
{
    int fd[2];

    if (e->started)
        return;
    e->started = true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        bench_die("socketpair: %s", strerror(errno));
    if ((e->pid = bench_fork()) == 0) {
        close(fd[0]);
        bench_pin(getpid(), e->cpu);
        echo_serve(fd[1]);
    }
    close(fd[1]);
    e->fd = fd[0];
    if (!(e->buf = calloc(1, e->size > STREAM_CHUNK ? e->size : STREAM_CHUNK)))
        bench_die("out of memory");
}

void bench_echo_stop(struct bench_echo *e)
{
    if (e->started) {
        close(e->fd);
        waitpid(e->pid, NULL, 0);
        free(e->buf);
        e->started = false;
    }
}

static void write_all(int fd, const char *buf, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, buf, len);
        if (n < 0)
            bench_die("write: %s", strerror(errno));
        buf += n;
        len -= (size_t)n;
    }
}

static size_t read_some(int fd, char *buf, size_t len)
{
    ssize_t n = read(fd, buf, len);

    if (n <= 0)
        bench_die("read: %s", n < 0 ? strerror(errno) : "the other end is gone");
    return (size_t)n;
}

void bench_echo_block(void *arg, double *us, size_t n)
{
    struct bench_echo *e = arg;
    double last;

    bench_echo_start(e);
    last = bench_now_us();
    for (size_t i = 0; i < n; i++) {
        double now;
        write_all(e->fd, e->buf, e->size);
        for (size_t got = 0; got < e->size;)
            got += read_some(e->fd, e->buf, e->size - got);
        now = bench_now_us();
        us[i] = now - last;
        last = now;
    }
}

double bench_echo_rate(struct bench_echo *e, size_t n, size_t window)
{
    size_t sent = 0; /* bytes */
    size_t got = 0;
    double begin;

    bench_echo_start(e);
    begin = bench_now_us();
    while (got < n * e->size) {
        size_t end = got + window * e->size;
        if (end > n * e->size)
            end = n * e->size;
        while (sent < end) {
            size_t len = end - sent > STREAM_CHUNK ? STREAM_CHUNK : end - sent;
            write_all(e->fd, e->buf, len);
            sent += len;
        }
        got += read_some(e->fd, e->buf, STREAM_CHUNK);
    }
    return (double)n / (bench_now_us() - begin) * 1e6;
}

/* --- connections --- */

flux_t *bench_open(void)
{
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);

    if (!h)
        bench_die("%s", err.text);
    return h;
}

flux_t *bench_open_rank(flux_t *h, uint32_t rank, flux_reactor_t *r)
{
    errmsg_t err;
    char *dir = flux_attr_get(h, "rundir", &err);
    char uri[256];
    flux_t *other;

    if (!dir)
        bench_die("%s", err.text);
    snprintf(uri, sizeof(uri), "local://%s/%u/local", dir, rank);
    free(dir);
    if (!(other = flux_open(uri, r, &err)))
        bench_die("%s", err.text);
    return other;
}

pid_t bench_broker_pid(flux_t *h)
{
    errmsg_t err;
    char *text = flux_attr_get(h, "broker.pid", &err);
    pid_t pid;

    if (!text)
        bench_die("%s", err.text);
    pid = atoi(text);
    free(text);
    return pid;
}
