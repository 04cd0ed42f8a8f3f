/* bench_stream.c - a stream on one host, beside what memory and the kernel do at best.
 *
 *     bench_stream [sizes [N]]
 *
 * Each figure is the median of rounds that take turns: memcpy of 16 MiB in one process; a bare ring
 * of two places in shared memory with futexes between two processes, copying in and out; and the
 * same through a stream, where the writer copies its data in and the reader copies them out, in
 * steps of 16 and of 64 MiB.
 * Latency is from before the writer's copy to after the reader's, at 500 steps
 * of 1 KiB a second; the rate flat out is of 1 KiB steps from one writer to one reader that waits
 * for each.  With `sizes`: steps of 1 KiB to 64 MiB as fast as they go, beside the
 * bare ring; or only the first N of these sizes.
 */
#include "config.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "libstream/outlet.h"
#include "libstream/test/inlet_next.h"
#include "stream_sizes.h"

#define LARGE ((size_t)16 << 20)
#define LARGE_STEPS 40
#define LARGEST ((size_t)64 << 20)
#define LARGEST_STEPS 12
#define SMALL 1024
#define FLAT_STEPS 200000
#define PACED_STEPS 500
#define PACE_US 2000
#define ROUNDS 5

static const unsigned char key[KNOCK_KEY_LEN] = "bench";

/* What writer and reader of a round share. */
struct common {
    char name[64];
    _Atomic uint32_t full[2]; /* the bare ring: places */
    double first_us;
    double last_us;
    double us[PACED_STEPS];
    unsigned char ring[2][LARGEST];
};
static struct common *common;
static unsigned char *source;
static unsigned char *sink;

/* The steps of a round; the first ones, `warm`, do not count. */
static struct round {
    size_t size;
    int steps;
    int warm;
} now;

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void ring_wait(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) != value)
        futex(word, FUTEX_WAIT, !value);
}

static void ring_set(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    futex(word, FUTEX_WAKE, 1);
}

static void ring_write(void)
{
    for (int n = 0; n < now.steps; n++) {
        ring_wait(&common->full[n % 2], 0);
        memcpy(common->ring[n % 2], source, now.size);
        ring_set(&common->full[n % 2], 1);
    }
}

static void ring_read(void)
{
    for (int n = 0; n < now.steps; n++) {
        ring_wait(&common->full[n % 2], 1);
        if (n == now.warm)
            common->first_us = bench_now_us();
        memcpy(sink, common->ring[n % 2], now.size);
        ring_set(&common->full[n % 2], 0);
    }
    common->last_us = bench_now_us();
}

static outlet_t *out;

static void out_open(void)
{
    struct outlet_opts opts = {.key = key};
    errmsg_t err;

    if (!(out = outlet_create(&opts, &err)))
        bench_die("%s", err.text);
    strcpy(common->name, outlet_name(out));
}

static void out_put(uint64_t step, const void *data, size_t len)
{
    errmsg_t err;
    void *buf;

    if (outlet_begin(out, step, len, -1., &buf, &err) < 0)
        bench_die("%s", err.text);
    memcpy(buf, data, len);
    outlet_commit(out, len);
}

static inlet_t *in_open(void)
{
    struct knock_want w;
    errmsg_t err;
    inlet_t *i;

    knock_want_init(&w);
    if (!(i = inlet_connect(common->name, key, &w, 10., &err)))
        bench_die("%s", err.text);
    return i;
}

static void in_get(inlet_t *i, struct inlet_step *s)
{
    errmsg_t err;

    if (inlet_next(i, 10., s, &err) < 0)
        bench_die("%s", err.text);
}

static void wait_reader(void)
{
    while (!outlet_wanted(out))
        usleep(100);
}

static void stream_write(void)
{
    wait_reader();
    for (int n = 0; n < now.steps; n++)
        out_put((uint64_t)n, source, now.size);
}

static void stream_read(void)
{
    inlet_t *i = in_open();

    for (int n = 0; n < now.steps; n++) {
        struct inlet_step s;

        in_get(i, &s);
        if (n == now.warm)
            common->first_us = bench_now_us();
        memcpy(sink, s.data, s.len);
        inlet_release(i, &s);
    }
    common->last_us = bench_now_us();
    inlet_destroy(i);
}

static void paced_write(void)
{
    wait_reader();
    for (uint64_t n = 0; n < PACED_STEPS; n++) {
        double now = bench_now_us();

        memcpy(source, &now, sizeof(now));
        out_put(n, source, SMALL);
        usleep(PACE_US);
    }
}

static void paced_read(void)
{
    inlet_t *i = in_open();

    for (int n = 0; n < PACED_STEPS; n++) {
        struct inlet_step s;
        double sent;

        in_get(i, &s);
        memcpy(sink, s.data, s.len);
        memcpy(&sent, sink, sizeof(sent));
        common->us[n] = bench_now_us() - sent;
        inlet_release(i, &s);
    }
    inlet_destroy(i);
}

/* The reader in a process of its own. */
static void run(bool stream, void (*writer)(void), void (*reader)(void))
{
    pid_t pid;
    int status;

    if (stream)
        out_open();
    if ((pid = bench_fork()) == 0) {
        reader();
        _exit(0);
    }
    writer();
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("a reader failed");
    if (stream)
        outlet_destroy(out);
}

static double copy_rate(void)
{
    double t = bench_now_us();

    for (int n = 0; n < LARGE_STEPS; n++) {
        memcpy(sink, source, LARGE);
        __asm__ volatile("" : : "r"(sink) : "memory");
    }
    return LARGE_STEPS * (double)LARGE / (bench_now_us() - t) / 1e3;
}

/* Steps a microsecond: of a stream, or of the bare ring. */
static double rate_of(bool stream, const struct round *r)
{
    now = *r;
    run(stream, stream ? stream_write : ring_write, stream ? stream_read : ring_read);
    return (r->steps - r->warm) / (common->last_us - common->first_us);
}

/* The first `count` sizes. */
static void sweep(size_t count)
{
    double stream[SIZE_ROUNDS], ring[SIZE_ROUNDS];

    bench_title("a stream on one host, steps of all sizes, copied in and out");
    for (size_t k = 0; k < count; k++) {
        const struct stream_size *z = &stream_sizes[k];
        const struct round r = {z->size, z->steps, z->warm};

        for (int n = 0; n < SIZE_ROUNDS; n++) {
            stream[n] = rate_of(true, &r) * (double)z->size / 1e3;
            ring[n] = rate_of(false, &r) * (double)z->size / 1e3;
        }
        bench_print(&(struct bench_figure){.name = z->name,
                                           .value = bench_percentile(stream, SIZE_ROUNDS, 50.),
                                           .unit = "GB/s",
                                           .ref_name = "bare ring",
                                           .ref = bench_percentile(ring, SIZE_ROUNDS, 50.)});
    }
}

int main(int argc, char *argv[])
{
    static const struct round larges = {LARGE, LARGE_STEPS, 5};
    static const struct round largests = {LARGEST, LARGEST_STEPS, 3};
    static const struct round flats = {SMALL, FLAT_STEPS, 0};
    double copy[ROUNDS + 1];
    double ring[ROUNDS + 1];
    double ring64[ROUNDS + 1];
    double large[ROUNDS + 1];
    double largest[ROUNDS + 1];
    double flat[ROUNDS + 1];
    double p50[ROUNDS + 1];
    double p99[ROUNDS + 1];

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    source = malloc(LARGEST);
    sink = malloc(LARGEST);
    if (common == MAP_FAILED || !source || !sink)
        bench_die("out of memory");
    memset(source, 1, LARGEST);
    memset(sink, 2, LARGEST);
    if (argc > 1) {
        sweep(stream_sizes_of(argc - 1, argv + 1));
        return 0;
    }
    for (int r = 0; r <= ROUNDS; r++) { /* the first does not count */
        copy[r] = copy_rate();
        ring[r] = rate_of(false, &larges) * (double)LARGE / 1e3;
        large[r] = rate_of(true, &larges) * (double)LARGE / 1e3;
        ring64[r] = rate_of(false, &largests) * (double)LARGEST / 1e3;
        largest[r] = rate_of(true, &largests) * (double)LARGEST / 1e3;
        flat[r] = rate_of(true, &flats) * 1e6;
        run(true, paced_write, paced_read);
        p50[r] = bench_percentile(common->us, PACED_STEPS, 50.);
        p99[r] = bench_percentile(common->us, PACED_STEPS, 99.);
    }
#define MEDIAN(v) bench_percentile((v) + 1, ROUNDS, 50.)
    bench_title("a stream on one host");
    bench_print(&(struct bench_figure){.name = "steps of 16 MiB, copied in and out",
                                       .value = MEDIAN(large),
                                       .unit = "GB/s",
                                       .ref_name = "bare ring",
                                       .ref = MEDIAN(ring),
                                       .at_least = 5.,
                                       .ratio_at_least = 0.6});
    bench_print(&(struct bench_figure){.name = "the same",
                                       .value = MEDIAN(large),
                                       .unit = "GB/s",
                                       .ref_name = "memcpy",
                                       .ref = MEDIAN(copy)});
    bench_print(&(struct bench_figure){.name = "steps of 64 MiB, copied in and out",
                                       .value = MEDIAN(largest),
                                       .unit = "GB/s",
                                       .ref_name = "bare ring",
                                       .ref = MEDIAN(ring64),
                                       .at_least = 3.,
                                       .ratio_at_least = 0.6});
    bench_print(&(struct bench_figure){.name = "steps of 1 KiB at 500 a second, p50",
                                       .value = MEDIAN(p50),
                                       .unit = "us",
                                       .at_most = 50.});
    bench_print(&(struct bench_figure){
        .name = "the same, p99", .value = MEDIAN(p99), .unit = "us", .at_most = 300.});
    bench_print(&(struct bench_figure){.name = "steps of 1 KiB flat out",
                                       .value = MEDIAN(flat),
                                       .unit = "per s",
                                       .at_least = 100000.});
    return 0;
}
