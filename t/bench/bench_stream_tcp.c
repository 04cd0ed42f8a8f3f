/* bench_stream_tcp.c - a stream by TCP, beside TCP itself, on the loopback interface.
 *
 *     bench_stream_tcp [sizes [N]]
 *
 * Each figure is the median of rounds that take turns: bare TCP from memory to memory of another
 * process, in pieces of 16 MiB; and steps of 16 and 64 MiB through a stream, where the writer
 * copies its data into the step and the reader gets them into its memory, plain and encrypted.
 * Latency is from before the writer's copy until the reader has the data, at 500 steps of 1 KiB a
 * second; the rate flat out is of 1 KiB steps.  Rows of a global array are boxes of 4 KiB: of each
 * step 8 are requested together, or each when the one before has come.  With `sizes`: steps of 1
 * KiB to 64 MiB as fast as they go, beside bare TCP in pieces of the same size; or only the first N
 * of these sizes.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "libstream/array.h"
#include "libstream/block.h"
#include "libstream/far_addr.h"
#include "libstream/far_key.h"
#include "libstream/outlet.h"
#include "libstream/test/far_connect.h"
#include "libstream/test/inlet_next.h"
#include "stream_sizes.h"

#define MIB ((size_t)1 << 20)
#define STEPS 60
#define WARM 20
#define SMALL 1024
#define FLAT_STEPS 50000
#define PACED_STEPS 500
#define PACE_US 2000
#define ROUNDS 5
#define ROWS 64
#define COLUMNS 512
#define BOXES 8
#define BOX_STEPS 2000

static const unsigned char key[KNOCK_KEY_LEN] = "bench";

/* What writer and reader of a round share. */
static struct common {
    char address[FAR_ADDR_MAX];
    double first_us;
    double last_us;
    double us[PACED_STEPS];
} * common;
static unsigned char *source;
static unsigned char *sink;

/* What a round is about. */
static struct round {
    bool bare;
    bool secure;
    bool paced;
    unsigned boxes; /* that are read of each step, and how many together; 0: all of it is read */
    size_t size;
    int steps;
    int warm;
} now;

static int listen_fd;
static outlet_t *out;

static void bare_write(void)
{
    struct pollfd p = {.fd = listen_fd, .events = POLLIN};
    int fd;

    if (poll(&p, 1, 10000) != 1 || (fd = accept(listen_fd, NULL, NULL)) < 0)
        bench_die("accept: %s", strerror(errno));
    for (int n = 0; n < now.steps; n++) {
        for (size_t at = 0; at < now.size;) {
            ssize_t sent = send(fd, source + at, now.size - at, 0);

            if (sent <= 0)
                bench_die("send: %s", strerror(errno));
            at += (size_t)sent;
        }
    }
    close(fd);
}

static void bare_read(void)
{
    struct pollfd p = {.events = POLLIN};

    if ((p.fd = far_connect(common->address)) < 0)
        bench_die("%s: %s", common->address, strerror(errno));
    for (int n = 0; n < now.steps; n++) {
        if (n == now.warm)
            common->first_us = bench_now_us();
        for (size_t at = 0; at < now.size;) {
            ssize_t got = recv(p.fd, sink + at, now.size - at, 0);

            if (got < 0 && errno == EAGAIN)
                poll(&p, 1, 1000);
            else if (got <= 0)
                bench_die("recv: %s", strerror(errno));
            else
                at += (size_t)got;
        }
    }
    common->last_us = bench_now_us();
}

static void stream_write(void)
{
    struct timespec pace = {.tv_nsec = PACE_US * 1000};
    errmsg_t err;
    void *buf;

    if (outlet_wait(out, 1, 10., &err) < 0)
        bench_die("%s", err.text);
    for (int n = 0; n < now.steps; n++) {
        double t = bench_now_us();

        if (outlet_begin(out, (uint64_t)n, now.size, -1., &buf, &err) < 0)
            bench_die("%s", err.text);
        memcpy(buf, source, now.size);
        if (now.boxes == 0)
            memcpy(buf, &t, sizeof(t));
        outlet_commit(out, now.size);
        if (now.paced)
            nanosleep(&pace, NULL);
    }
}

/* The array of steps from which boxes are read. */
static stream_array_t *mesh_create(void)
{
    struct stream_shape shape = {.name = "T",
                                 .kind = STREAM_GLOBAL,
                                 .type = STREAM_F64,
                                 .order = STREAM_NATIVE,
                                 .memory = STREAM_ROWS,
                                 .ndims = 2,
                                 .extents = {ROWS, COLUMNS}};
    const uint64_t none[] = {0, 0};
    stream_array_t *a = stream_array_create(&shape, NULL);

    if (!a || stream_array_add(a, 0, none, shape.extents, NULL) < 0 ||
        stream_array_seal(a, NULL) < 0)
        bench_die("cannot make an array");
    return a;
}

/* Write the table of such a step to `source`, and return the size of the step. */
static size_t mesh_write(void)
{
    stream_array_t *a = mesh_create();
    block_t *b = block_create();
    uint8_t desc[BLOCK_DESC_MAX];
    size_t size;

    stream_array_encode(a, desc);
    if (!b || block_add(b, "time", NULL, 0, sizeof(double)) < 0 ||
        block_add(b, "T", desc, stream_array_encoded(a), ROWS * COLUMNS * sizeof(double)) < 0)
        bench_die("cannot make a step");
    size = block_size(b);
    block_write(b, source);
    block_destroy(b);
    stream_array_destroy(a);
    return size;
}

static void boxes_read(inlet_t *i, const struct inlet_step *s, const stream_array_t *mesh)
{
    static const struct stream_want want;
    block_t *b = block_read(s->data, s->len, NULL);
    const struct block_var *var = b ? block_at(b, 1) : NULL;
    struct inlet_value v = {1, var ? var->off : 0, var ? var->len : 0};
    errmsg_t err;

    for (unsigned k = 0; k < BOXES; k++) {
        const struct stream_box box = {2, {k * (ROWS / BOXES), 0}, {1, COLUMNS}, {1, 1}};
        struct stream_part part;

        if (!stream_select_piece(mesh, 0, &box, &want, &part) ||
            inlet_ask(i, s, &v, &box, &part, sink + k * sizeof(double[COLUMNS]), &err) < 0 ||
            ((k + 1) % now.boxes == 0 && inlet_answer(i, &err) < 0))
            bench_die("%s", err.text);
    }
    block_destroy(b);
}

static void stream_read(void)
{
    struct far_grant g = {"bench", 1, UINT64_MAX};
    unsigned char secret[FAR_KEY_LEN];
    struct inlet_far_opts far = {.address = common->address,
                                 .secret = secret,
                                 .reader = g.reader,
                                 .expires = g.expires,
                                 .secure = now.secure};
    struct inlet_value v = {.len = now.size};
    stream_array_t *mesh = mesh_create();
    struct knock_want w;
    errmsg_t err;
    inlet_t *i;

    knock_want_init(&w);
    far_key_grant(secret, key, &g);
    if (!(i = inlet_connect_far(&far, &w, 10., &err)))
        bench_die("%s", err.text);
    for (int n = 0; n < now.steps; n++) {
        struct inlet_step s;
        double sent;

        if (n == now.warm)
            common->first_us = bench_now_us();
        if (inlet_next(i, 10., &s, &err) < 0 ||
            (now.boxes == 0 && inlet_fetch(i, &s, &v, &err) < 0))
            bench_die("%s", err.text);
        if (now.boxes > 0)
            boxes_read(i, &s, mesh);
        memcpy(&sent, s.data, sizeof(sent));
        if (now.paced)
            common->us[n] = bench_now_us() - sent;
        inlet_release(i, &s);
    }
    common->last_us = bench_now_us();
    inlet_destroy(i);
    stream_array_destroy(mesh);
}

/* The reader in a process of its own.  Returns steps per microsecond. */
static double run(const struct round *r)
{
    struct outlet_opts opts = {.key = key, .far = {.stream = "bench"}};
    errmsg_t err;
    pid_t pid;
    int status;

    now = *r;
    if (now.boxes > 0)
        now.size = mesh_write();
    if ((listen_fd = far_addr_listen("127.0.0.1", NULL, common->address, &err)) < 0)
        bench_die("%s", err.text);
    opts.far.listen = listen_fd;
    if (!now.bare && !(out = outlet_create(&opts, &err)))
        bench_die("%s", err.text);
    if ((pid = bench_fork()) == 0) {
        if (now.bare)
            bare_read();
        else
            stream_read();
        _exit(0);
    }
    if (now.bare) {
        bare_write();
        close(listen_fd);
    } else {
        stream_write();
        outlet_destroy(out);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("a reader failed");
    return (now.steps - now.warm) / (common->last_us - common->first_us);
}

/* The first `count` sizes. */
static void sweep(size_t count)
{
    double stream[SIZE_ROUNDS], bare[SIZE_ROUNDS];

    bench_title("a stream by TCP, on the loopback interface, steps of all sizes");
    for (size_t k = 0; k < count; k++) {
        const struct stream_size *z = &stream_sizes[k];
        struct round r = {.size = z->size, .steps = z->steps, .warm = z->warm};

        for (int n = 0; n < SIZE_ROUNDS; n++) {
            r.bare = false;
            stream[n] = run(&r) * (double)z->size / 1e3;
            r.bare = true;
            bare[n] = run(&r) * (double)z->size / 1e3;
        }
        bench_print(&(struct bench_figure){.name = z->name,
                                           .value = bench_percentile(stream, SIZE_ROUNDS, 50.),
                                           .unit = "GB/s",
                                           .ref_name = "bare TCP",
                                           .ref = bench_percentile(bare, SIZE_ROUNDS, 50.)});
    }
}

int main(int argc, char *argv[])
{
    enum { BARE, LARGE, SECURE, HUGE_STEPS, PACED, FLAT, SINGLE, TOGETHER, KINDS };
    static const struct round rounds[KINDS] = {
        [BARE] = {.bare = true, .size = 16 * MIB, .steps = STEPS, .warm = WARM},
        [LARGE] = {.size = 16 * MIB, .steps = STEPS, .warm = WARM},
        [SECURE] = {.secure = true, .size = 16 * MIB, .steps = STEPS, .warm = WARM},
        [HUGE_STEPS] = {.size = 64 * MIB, .steps = STEPS / 3, .warm = WARM / 3},
        [PACED] = {.paced = true, .size = SMALL, .steps = PACED_STEPS},
        [FLAT] = {.size = SMALL, .steps = FLAT_STEPS, .warm = 1},
        [SINGLE] = {.boxes = 1, .steps = BOX_STEPS, .warm = WARM},
        [TOGETHER] = {.boxes = BOXES, .steps = BOX_STEPS, .warm = WARM},
    };
    double rate[KINDS][ROUNDS + 1];
    double p50[ROUNDS + 1];
    double p99[ROUNDS + 1];

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    source = malloc(64 * MIB);
    sink = malloc(64 * MIB);
    if (common == MAP_FAILED || !source || !sink)
        bench_die("out of memory");
    memset(source, 1, 64 * MIB);
    memset(sink, 2, 64 * MIB);
    if (argc > 1) {
        sweep(stream_sizes_of(argc - 1, argv + 1));
        return 0;
    }
    for (int r = 0; r <= ROUNDS; r++) { /* the first does not count */
        for (int k = 0; k < KINDS; k++) {
            rate[k][r] = run(&rounds[k]);
            if (k != PACED)
                continue;
            p50[r] = bench_percentile(common->us, PACED_STEPS, 50.);
            p99[r] = bench_percentile(common->us, PACED_STEPS, 99.);
        }
    }
#define MEDIAN(v) bench_percentile((v) + 1, ROUNDS, 50.)
#define GBS(k) (MEDIAN(rate[k]) * (double)rounds[k].size / 1e3)
    bench_title("a stream by TCP, on the loopback interface");
    bench_print(&(struct bench_figure){.name = "steps of 16 MiB",
                                       .value = GBS(LARGE),
                                       .unit = "GB/s",
                                       .ref_name = "bare TCP",
                                       .ref = GBS(BARE),
                                       .at_least = 2.5,
                                       .ratio_at_least = 0.6});
    bench_print(&(struct bench_figure){.name = "steps of 64 MiB",
                                       .value = GBS(HUGE_STEPS),
                                       .unit = "GB/s",
                                       .ref_name = "bare TCP",
                                       .ref = GBS(BARE),
                                       .at_least = 2.});
    bench_print(&(struct bench_figure){.name = "steps of 16 MiB, encrypted",
                                       .value = GBS(SECURE),
                                       .unit = "GB/s",
                                       .ref_name = "bare TCP",
                                       .ref = GBS(BARE)});
    bench_print(&(struct bench_figure){
        .name = "steps of 1 KiB at 500 a second, p50", .value = MEDIAN(p50), .unit = "us"});
    bench_print(
        &(struct bench_figure){.name = "the same, p99", .value = MEDIAN(p99), .unit = "us"});
    bench_print(&(struct bench_figure){
        .name = "steps of 1 KiB flat out", .value = MEDIAN(rate[FLAT]) * 1e6, .unit = "per s"});
    bench_print(&(struct bench_figure){.name = "8 boxes of 4 KiB of a step, scheduled",
                                       .value = 1. / MEDIAN(rate[TOGETHER]),
                                       .unit = "us",
                                       .ref_name = "8 single gets",
                                       .ref = 1. / MEDIAN(rate[SINGLE])});
    return 0;
}
