/* bench_streams.c - M writers and N readers of one global array of 16 MiB, on one host.
 *
 * Runs in a session (bench_stream.sh), in shared memory, or by TCP if the environment says so.
 * Each writer puts an equal share of the rows; each reader copies the same share of the rows out:
 * all of it, an eighth of its rows, or an eighth of its columns; and these again while the writers
 * make their rows in place.  A figure is the median of the rounds, in steps a second, from the
 * first reader that begins step WARM to the last one that ends the last step.
 */
#include "config.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "libstream/stream.h"

#define ROWS 1024
#define COLUMNS 2048 /* numbers of 8 bytes */
#define STEPS 120
#define WARM 40 /* steps before the measurement, in which memory is used for the first time */
#define ROUNDS 3
#define READERS_MAX 4

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

static void reader(const char *name, uint32_t rank, uint32_t readers, enum way way)
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

/* Steps a second. */
static double run(uint32_t writers, uint32_t readers, enum way way)
{
    static unsigned number;
    double begin;
    double end;
    char name[32];
    int status;

    snprintf(name, sizeof(name), "bench%u", number++);
    atomic_store(&common->joined, 0);
    fflush(stdout);
    for (uint32_t i = 0; i < writers + readers; i++) {
        pid_t pid = fork();

        if (pid < 0)
            bench_die("fork failed");
        if (pid > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (i < writers)
            writer(name, i, writers, readers, way);
        else
            reader(name, i - writers, readers, way);
        _exit(0);
    }
    for (uint32_t i = 0; i < writers + readers; i++) {
        if (wait(&status) < 0 || status != 0)
            bench_die("a process failed");
    }
    begin = common->begin[0];
    end = common->end[0];
    for (uint32_t i = 1; i < readers; i++) {
        if (common->begin[i] < begin)
            begin = common->begin[i];
        if (common->end[i] > end)
            end = common->end[i];
    }
    return (STEPS - WARM) / (end - begin) * 1e6;
}

int main(void)
{
    static const struct {
        uint32_t writers, readers;
        double at_least;
    } groups[] = {{1, 1, 0.}, {4, 2, 250.}, {8, 4, 200.}};
    static const char *const ways[WAYS] = {"all", "1/8 of the rows", "1/8 of the columns",
                                           "1/8 of rows made in place",
                                           "1/8 of columns made in place"};
    bool tcp = getenv("FLUX_STREAM_TRANSPORT") != NULL;

    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        bench_die("out of memory");
    bench_title(tcp ? "steps of a global array of 16 MiB, from writers to readers, by TCP"
                    : "steps of a global array of 16 MiB, from writers to readers");
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        double rate[WAYS][ROUNDS];
        double whole = 0.;

        for (int r = 0; r < ROUNDS; r++) {
            for (int w = 0; w < WAYS; w++)
                rate[w][r] = run(groups[g].writers, groups[g].readers, (enum way)w);
        }
        for (int w = 0; w < WAYS; w++) {
            char what[64];
            struct bench_figure f = {.name = what,
                                     .value = bench_percentile(rate[w], ROUNDS, 50.),
                                     .unit = "per s",
                                     .ref_name = w > 0 ? "all" : NULL,
                                     .ref = whole,
                                     .at_least = w > 0 || tcp ? 0. : groups[g].at_least,
                                     .ratio_at_least = w > 0 ? 2. : 0.};

            snprintf(what, sizeof(what), "%u to %u, %s", groups[g].writers, groups[g].readers,
                     ways[w]);
            if (w == 0)
                whole = f.value;
            bench_print(&f);
        }
    }
    return 0;
}
