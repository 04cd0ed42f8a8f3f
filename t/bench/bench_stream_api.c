/* bench_stream_api.c - what programs pay that use streams by flux/stream.h, on one host.
 *
 * Runs in a session (bench_stream.sh).  Each figure is the median of rounds with processes of their
 * own:
 *
 *    nobody subscribed   a step of 1 KiB: one variable is put, and the step is ended
 *    flat out            steps of 1 KiB to one reader, which gets the variable of each; in steps a
 *                        second, from the first step that counts to the last
 *    memory              of a writer of steps of 16 MiB, which are made in place for a reader whose
 *                        queue has two: what the process has more than before it opened the stream
 *    a name              looked up by a client: request and response
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "libflux/future.h"
#include "libstream/stream.h"
#include "libstream/stream_wire.h"

#define MIB ((size_t)1 << 20)
#define SMALL 1024
#define LARGE (16 * MIB)
#define ALONE_STEPS 200000
#define FLAT_STEPS 200000
#define FLAT_WARM 20000
#define LARGE_STEPS 40
#define LOOKUPS 1000
#define ROUNDS 5

static struct common {
    double alone_us; /* for a step */
    double first_us; /* of the reader */
    double last_us;
    double memory; /* bytes */
    double lookup_us[LOOKUPS];
} * common;
static unsigned char data[SMALL];

static flux_stream_t *stream_open(const char *name, enum flux_stream_mode mode, uint32_t depth)
{
    struct flux_stream_opts opts = {.size = 1, .depth = depth};
    errmsg_t err;
    flux_stream_t *s = flux_stream_open(bench_open(), name, mode, &opts, &err);

    if (!s)
        bench_die("%s", err.text);
    return s;
}

static void put_small(flux_stream_t *s, int steps)
{
    errmsg_t err;

    for (int n = 0; n < steps; n++) {
        if (flux_stream_put(s, "data", data, sizeof(data), &err) < 0 ||
            flux_stream_end_step(s, -1., &err) < 0)
            bench_die("%s", err.text);
    }
}

static void alone(const char *name)
{
    flux_stream_t *s = stream_open(name, FLUX_STREAM_WRITE, 0);
    double began;

    put_small(s, 1000);
    began = bench_now_us();
    put_small(s, ALONE_STEPS);
    common->alone_us = (bench_now_us() - began) / ALONE_STEPS;
    flux_stream_close(s);
}

static void wait_reader(flux_stream_t *s)
{
    errmsg_t err;

    if (flux_stream_wait_readers(s, 1, 30., &err) < 0)
        bench_die("%s", err.text);
}

static void flat_write(const char *name)
{
    flux_stream_t *s = stream_open(name, FLUX_STREAM_WRITE, 0);

    wait_reader(s);
    put_small(s, FLAT_STEPS);
    flux_stream_close(s);
}

static void flat_read(const char *name)
{
    flux_stream_t *s = stream_open(name, FLUX_STREAM_READ, 0);
    errmsg_t err;
    int n;

    for (n = 0; flux_stream_begin_step(s, FLUX_STREAM_NEXT, 60., NULL, &err) == 1; n++) {
        const void *got;
        size_t len;

        if (n == FLAT_WARM)
            common->first_us = bench_now_us();
        if (flux_stream_get(s, 0, "data", &got, &len, &err) < 0)
            bench_die("%s", err.text);
        flux_stream_end_step(s, -1., NULL);
    }
    common->last_us = bench_now_us();
    if (n != FLAT_STEPS)
        bench_die("%d of %d steps have come: %s", n, FLAT_STEPS, err.text);
    flux_stream_close(s);
}

/* Memory of this process, and what it shares with others, in bytes. */
static double resident(void)
{
    unsigned long size;
    unsigned long pages;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%lu %lu", &size, &pages) != 2)
        bench_die("/proc/self/statm cannot be read");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void large_write(const char *name)
{
    double before;
    flux_stream_t *s;
    errmsg_t err;

    flux_close(bench_open()); /* what connecting takes is not memory of a writer */
    before = resident();
    s = stream_open(name, FLUX_STREAM_WRITE, 0);
    wait_reader(s);
    for (int n = 0; n < LARGE_STEPS; n++) {
        if (flux_stream_put(s, "data", NULL, LARGE, &err) < 0 ||
            flux_stream_place(s, -1., &err) < 0)
            bench_die("%s", err.text);
        memset(flux_stream_at(s, "data"), n, LARGE);
        if (flux_stream_end_step(s, -1., &err) < 0)
            bench_die("%s", err.text);
    }
    common->memory = resident() - before;
    flux_stream_close(s);
}

static void large_read(const char *name)
{
    flux_stream_t *s = stream_open(name, FLUX_STREAM_READ, 2);
    errmsg_t err;

    while (flux_stream_begin_step(s, FLUX_STREAM_NEXT, 60., NULL, &err) == 1)
        flux_stream_end_step(s, -1., NULL);
    flux_stream_close(s);
}

static void look(const char *name)
{
    flux_stream_t *s = stream_open(name, FLUX_STREAM_WRITE, 0);
    struct stream_ask_format ask = {.name = name};
    struct stream_text text;
    flux_t *h = bench_open();
    errmsg_t err;

    if (flux_stream_define(s, "n u64", &err) < 0)
        bench_die("%s", err.text);
    for (int n = 0; n < LOOKUPS; n++) {
        double began = bench_now_us();
        flux_future_t *f = flux_rpc_struct(h, "stream.format", &stream_ask_format_schema, &ask,
                                           FLUX_NODEID_ANY, 0);

        if (!f || flux_rpc_wait_struct(f, 30., &stream_text_schema, &text, &err) < 0)
            bench_die("a name cannot be looked up: %s", f ? err.text : strerror(errno));
        flux_future_destroy(f);
        common->lookup_us[n] = bench_now_us() - began;
    }
    flux_close(h);
    flux_stream_close(s);
}

/* Each in a process of its own; `b` may be NULL. */
static void run(void (*a)(const char *name), void (*b)(const char *name))
{
    void (*const both[])(const char *) = {a, b};
    static unsigned number;
    char name[32];

    snprintf(name, sizeof(name), "api%u", number++);
    for (int i = 0; i < 2 && both[i]; i++) {
        if (bench_fork() > 0)
            continue;
        both[i](name);
        _exit(0);
    }
    bench_wait(both[1] ? 2 : 1);
}

int main(void)
{
    double us[ROUNDS + 1], flat[ROUNDS + 1], memory[ROUNDS + 1], p50[ROUNDS + 1], p99[ROUNDS + 1];

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        bench_die("out of memory");
    for (int r = 0; r <= ROUNDS; r++) { /* the first does not count */
        run(alone, NULL);
        us[r] = common->alone_us;
        run(flat_write, flat_read);
        flat[r] = (FLAT_STEPS - FLAT_WARM) / (common->last_us - common->first_us) * 1e6;
        run(large_write, large_read);
        memory[r] = common->memory / (double)MIB;
        run(look, NULL);
        p50[r] = bench_percentile(common->lookup_us, LOOKUPS, 50.);
        p99[r] = bench_percentile(common->lookup_us, LOOKUPS, 99.);
    }
#define MEDIAN(v) bench_percentile((v) + 1, ROUNDS, 50.)
    bench_title("streams by flux/stream.h, on one host");
    bench_print(&(struct bench_figure){.name = "a step of 1 KiB that nobody has subscribed to",
                                       .value = MEDIAN(us),
                                       .unit = "us",
                                       .at_most = 1.});
    bench_print(&(struct bench_figure){.name = "steps of 1 KiB flat out, flux/stream.h",
                                       .value = MEDIAN(flat),
                                       .unit = "per s",
                                       .at_least = 100000.});
    bench_print(&(struct bench_figure){.name = "memory of a writer of steps of 16 MiB",
                                       .value = MEDIAN(memory),
                                       .unit = "MiB",
                                       .ref_name = "two steps",
                                       .ref = 2. * LARGE / MIB,
                                       .ratio_at_most = 1.1});
    bench_print(&(struct bench_figure){
        .name = "a name is looked up, p50", .value = MEDIAN(p50), .unit = "us", .at_most = 1000.});
    bench_print(
        &(struct bench_figure){.name = "the same, p99", .value = MEDIAN(p99), .unit = "us"});
    return 0;
}
