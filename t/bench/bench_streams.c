/* bench_streams.c - M writers and N readers of one global array of 16 MiB, on one host.
 *
 *     bench_streams [MxN...]       only these, and all of the array: powers of two up to 16
 *
 * Runs in a session (bench_stream.sh), in shared memory, or by TCP if the environment says so.
 * Each writer puts an equal share of the rows; each reader copies the same share of the rows out:
 * all of it, an eighth of its rows, or an eighth of its columns; and these again while the writers
 * make their rows in place.  A figure is the median of the rounds, in steps a second, from the
 * first reader that begins step WARM to the last one that ends the last step.
 *
 * By TCP, each way has bare TCP beside it in the same rounds: as many processes, and the
 * connections that have something to carry, over which writers send the same bytes of each step,
 * with nothing before or between them, and readers get them into their box.  Columns are sent as
 * rows of the same number of bytes, without being gathered.  The time that all processes of a run
 * spend on processors, for each step, depends less on what else the host does than the rate.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "libstream/far_addr.h"
#include "libstream/stream.h"
#include "libstream/test/far_connect.h"

#define ROWS 1024
#define COLUMNS 2048 /* numbers of 8 bytes */
#define STEPS 120
#define WARM 40 /* steps before the measurement, in which memory is used for the first time */
#define ROUNDS 3
#define READERS_MAX 16
#define WRITERS_MAX 16

enum way { WHOLE, EIGHTH_ROWS, EIGHTH_COLUMNS, IN_PLACE_ROWS, IN_PLACE_COLUMNS, WAYS };

static struct common {
    _Atomic unsigned joined;
    double begin[READERS_MAX];
    double end[READERS_MAX];
} * common;

static flux_stream_t *stream_open(const char *name, enum flux_stream_mode mode, uint32_t rank,
                                  uint32_t size)
{
    struct flux_stream_opts opts = {.rank = rank, .size = size};
    errmsg_t err;
    flux_stream_t *s = flux_stream_open(bench_open(), name, mode, &opts, &err);

    if (!s)
        bench_die("%s", err.text);
    return s;
}

static void writer(const char *name, uint32_t rank, uint32_t writers, uint32_t readers,
                   enum way way)
{
    uint64_t shape[] = {ROWS, COLUMNS};
    uint64_t count[] = {ROWS / writers, COLUMNS};
    uint64_t offset[] = {rank * count[0], 0};
    struct flux_stream_array a = {
        .type = "f64", .ndims = 2, .shape = shape, .offset = offset, .count = count};
    bool place = way == IN_PLACE_ROWS || way == IN_PLACE_COLUMNS;
    double *piece = calloc(count[0] * count[1], sizeof(*piece));
    flux_stream_t *s = stream_open(name, FLUX_STREAM_WRITE, rank, writers);
    errmsg_t err;

    while (atomic_load(&common->joined) < readers)
        usleep(1000);
    for (int i = 0; i < STEPS; i++) {
        if (flux_stream_put_array(s, "T", &a, place ? NULL : piece, &err) < 0 ||
            (place && flux_stream_place(s, -1., &err) < 0))
            bench_die("%s", err.text);
        memset(place ? flux_stream_at(s, "T") : piece, i, 4096);
        if (flux_stream_end_step(s, -1., &err) < 0)
            bench_die("%s", err.text);
    }
    flux_stream_close(s);
}

static void reader(const char *name, uint32_t rank, uint32_t writers, uint32_t readers,
                   enum way way)
{
    uint64_t rows = ROWS / readers;
    uint64_t start[] = {rank * rows, 0};
    uint64_t count[] = {way == EIGHTH_ROWS || way == IN_PLACE_ROWS ? rows / 8 : rows,
                        way == EIGHTH_COLUMNS || way == IN_PLACE_COLUMNS ? COLUMNS / 8 : COLUMNS};
    size_t size = count[0] * count[1] * sizeof(double);
    double *box = calloc(1, size);
    flux_stream_t *s = stream_open(name, FLUX_STREAM_READ, 0, 0);
    errmsg_t err;
    int n;

    atomic_fetch_add(&common->joined, 1);
    for (n = 0; flux_stream_begin_step(s, FLUX_STREAM_NEXT, 60., NULL, &err) == 1; n++) {
        if (n == WARM)
            common->begin[rank] = bench_now_us();
        if (flux_stream_get_box(s, "T", start, count, NULL, box, size, &err) < 0)
            bench_die("%s", err.text);
        flux_stream_end_step(s, -1., NULL);
    }
    common->end[rank] = bench_now_us();
    if (n != STEPS)
        bench_die("%d of %d steps have come: %s", n, STEPS, err.text);
    flux_stream_close(s);
}

/* --- bare TCP --- */

static int listening[WRITERS_MAX];
static char addresses[WRITERS_MAX][FAR_ADDR_MAX];

/* Bytes of a step that go from a writer to a reader: of the rows that both have. */
static size_t bare_bytes(uint32_t writer, uint32_t writers, uint32_t reader, uint32_t readers,
                         enum way way)
{
    size_t each = ROWS / writers;
    size_t share = ROWS / readers;
    size_t first = writer * each > reader * share ? writer * each : reader * share;
    size_t end =
        (writer + 1) * each < (reader + 1) * share ? (writer + 1) * each : (reader + 1) * share;
    size_t bytes = end > first ? (end - first) * COLUMNS * sizeof(double) : 0;

    return way == WHOLE ? bytes : bytes / 8;
}

static void bare_listen(uint32_t writers)
{
    errmsg_t err;

    for (uint32_t i = 0; i < writers; i++) {
        if ((listening[i] = far_addr_listen("127.0.0.1", NULL, addresses[i], &err)) < 0)
            bench_die("%s", err.text);
    }
}

static void bare_writer(const char *name, uint32_t rank, uint32_t writers, uint32_t readers,
                        enum way way)
{
    size_t len[READERS_MAX];
    int fd[READERS_MAX];
    char *piece = calloc(ROWS / writers * COLUMNS, sizeof(double));

    for (uint32_t r = 0; r < readers; r++) {
        struct pollfd p = {.fd = listening[rank], .events = POLLIN};
        unsigned char reader;
        int conn;

        if (poll(&p, 1, 10000) != 1 || (conn = accept(listening[rank], NULL, NULL)) < 0 ||
            recv(conn, &reader, 1, MSG_WAITALL) != 1)
            bench_die("a reader of bare TCP does not come");
        fd[reader] = conn;
        len[reader] = bare_bytes(rank, writers, reader, readers, way);
    }
    for (int i = 0; i < STEPS; i++) {
        memset(piece, i, 4096);
        for (uint32_t r = 0; r < readers; r++) {
            for (size_t at = 0; at < len[r];) {
                ssize_t n = send(fd[r], piece + at, len[r] - at, MSG_NOSIGNAL);

                if (n <= 0)
                    bench_die("send: %s", strerror(errno));
                at += (size_t)n;
            }
        }
    }
    free(piece);
}

/* Get one step from all writers. */
static void bare_get(struct pollfd *p, uint32_t writers, const size_t *len, char *const *box)
{
    size_t got[WRITERS_MAX] = {0};
    uint32_t left = 0;

    for (uint32_t w = 0; w < writers; w++) {
        p[w].events = len[w] > 0 ? POLLIN : 0;
        left += len[w] > 0;
    }
    while (left > 0) {
        for (uint32_t w = 0; w < writers; w++) {
            ssize_t n = p[w].events ? recv(p[w].fd, box[w] + got[w], len[w] - got[w], 0) : -2;

            if (n == 0 || (n == -1 && errno != EAGAIN))
                bench_die("recv: %s", n == 0 ? "the end" : strerror(errno));
            if (n > 0 && (got[w] += (size_t)n) == len[w]) {
                p[w].events = 0;
                left--;
            }
        }
        if (left > 0)
            poll(p, writers, 1000);
    }
}

static void bare_reader(const char *name, uint32_t rank, uint32_t writers, uint32_t readers,
                        enum way way)
{
    struct pollfd p[WRITERS_MAX] = {{0}};
    size_t len[WRITERS_MAX];
    char *box[WRITERS_MAX];
    unsigned char me = (unsigned char)rank;

    for (uint32_t w = 0; w < writers; w++) {
        len[w] = bare_bytes(w, writers, rank, readers, way);
        box[w] = calloc(1, len[w] + 1);
        if ((p[w].fd = far_connect(addresses[w])) < 0)
            bench_die("%s: %s", addresses[w], strerror(errno));
        if (send(p[w].fd, &me, 1, MSG_NOSIGNAL) != 1)
            bench_die("send: %s", strerror(errno));
    }
    for (int n = 0; n < STEPS; n++) {
        if (n == WARM)
            common->begin[rank] = bench_now_us();
        bare_get(p, writers, len, box);
    }
    common->end[rank] = bench_now_us();
    for (uint32_t w = 0; w < writers; w++)
        free(box[w]);
}

/* --- all of them --- */

/* What the processes of a run do. */
struct kind {
    void (*writer)(const char *name, uint32_t rank, uint32_t writers, uint32_t readers,
                   enum way way);
    void (*reader)(const char *name, uint32_t rank, uint32_t writers, uint32_t readers,
                   enum way way);
};
static const struct kind streams = {writer, reader};
static const struct kind bare = {bare_writer, bare_reader};

/* Time on processors of the children that have ended, in us. */
static double used_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

struct result {
    double rate[ROUNDS]; /* steps a second */
    double used[ROUNDS]; /* us of processors for a step */
};

static void run(const struct kind *kind, uint32_t writers, uint32_t readers, enum way way,
                struct result *result, int round)
{
    double used = used_us();
    static unsigned number;
    double begin;
    double end;
    char name[32];

    snprintf(name, sizeof(name), "bench%u", number++);
    atomic_store(&common->joined, 0);
    if (kind == &bare)
        bare_listen(writers);
    for (uint32_t i = 0; i < writers + readers; i++) {
        if (bench_fork() > 0)
            continue;
        if (i < writers)
            kind->writer(name, i, writers, readers, way);
        else
            kind->reader(name, i - writers, writers, readers, way);
        _exit(0);
    }
    bench_wait(writers + readers);
    for (uint32_t i = 0; kind == &bare && i < writers; i++)
        close(listening[i]);
    begin = common->begin[0];
    end = common->end[0];
    for (uint32_t i = 1; i < readers; i++) {
        if (common->begin[i] < begin)
            begin = common->begin[i];
        if (common->end[i] > end)
            end = common->end[i];
    }
    result->rate[round] = (STEPS - WARM) / (end - begin) * 1e6;
    result->used[round] = (used_us() - used) / STEPS;
}

struct group {
    uint32_t writers;
    uint32_t readers;
    double at_least;
};

/* The first `ways` ways of a group, by TCP beside bare TCP. */
static void measure(const struct group *g, int ways, bool tcp)
{
    static const char *const names[WAYS] = {"all", "1/8 of the rows", "1/8 of the columns",
                                            "1/8 of rows made in place",
                                            "1/8 of columns made in place"};
    struct result result[WAYS];
    struct result bottom[WAYS]; /* of bare TCP */
    double whole = 0.;

    for (int r = 0; r < ROUNDS; r++) {
        for (int w = 0; w < ways; w++) {
            run(&streams, g->writers, g->readers, (enum way)w, &result[w], r);
            if (tcp)
                run(&bare, g->writers, g->readers, (enum way)w, &bottom[w], r);
        }
    }
    for (int w = 0; w < ways; w++) {
        char what[64];
        struct bench_figure f = {.name = what,
                                 .value = bench_percentile(result[w].rate, ROUNDS, 50.),
                                 .unit = "per s",
                                 .ref_name = w > 0 ? "all" : NULL,
                                 .ref = whole,
                                 .at_least = w > 0 || tcp ? 0. : g->at_least,
                                 .ratio_at_least = w > 0 ? 2. : 0.};

        snprintf(what, sizeof(what), "%u to %u, %s", g->writers, g->readers, names[w]);
        if (w == 0)
            whole = f.value;
        if (w > 0 || !tcp)
            bench_print(&f);
        if (!tcp)
            continue;
        f.ref_name = "bare TCP";
        f.ref = bench_percentile(bottom[w].rate, ROUNDS, 50.);
        f.ratio_at_least = w == 0 ? 0.6 : 0.;
        bench_print(&f);
        bench_print(&(struct bench_figure){.name = "the same, processors for a step",
                                           .value = bench_percentile(result[w].used, ROUNDS, 50.),
                                           .unit = "us",
                                           .ref_name = "bare TCP",
                                           .ref = bench_percentile(bottom[w].used, ROUNDS, 50.)});
    }
}

static struct group group_of(const char *text)
{
    struct group g = {0};
    int len = 0;

    if (sscanf(text, "%ux%u%n", &g.writers, &g.readers, &len) != 2 || text[len] || !g.writers ||
        g.writers > WRITERS_MAX || ROWS % g.writers || !g.readers || g.readers > READERS_MAX ||
        ROWS % g.readers)
        bench_die("'%s' is not MxN, powers of two up to %d", text, WRITERS_MAX);
    return g;
}

int main(int argc, char *argv[])
{
    static const struct group groups[] = {{1, 1, 0.}, {4, 2, 250.}, {8, 4, 200.}};
    bool tcp = getenv("FLUX_STREAM_TRANSPORT") != NULL;

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        bench_die("out of memory");
    bench_title(tcp ? "steps of a global array of 16 MiB, from writers to readers, by TCP"
                    : "steps of a global array of 16 MiB, from writers to readers");
    for (int i = 1; i < argc; i++) {
        struct group g = group_of(argv[i]);

        measure(&g, 1, tcp);
    }
    for (size_t i = 0; argc == 1 && i < sizeof(groups) / sizeof(groups[0]); i++)
        measure(&groups[i], WAYS, tcp);
    return 0;
}
