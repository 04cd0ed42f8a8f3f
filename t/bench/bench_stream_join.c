/* bench_stream_join.c - a reader that comes late to M writers, and pieces that change.
 *
 *     bench_stream_join [M[xN]...]     1, 4, 16, 64 and 256 writers; N readers, 1 without it
 *
 * Runs in a session (bench_stream.sh), in shared memory, or by TCP if the environment says so.
 * Each writer is a process, has a small piece of a global array, and keeps its newest step.
 *
 * Joining is the time from before a reader opens the stream until it has the whole array: names,
 * addresses, connections to all writers, their descriptions, and the data.  Then a reader stays,
 * and the writers put steps of which all pieces are others than in the step before, or the same:
 * the time that a writer takes to put and end such a step, which tells its piece, and the time from
 * when all have done that until the reader has the whole array.  With several readers, of which
 * each is a process, it is the time until all have it.  A figure is the median.
 */
#include "config.h"
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "libstream/stream.h"

#define WRITERS_MAX 1024
#define READERS_MAX 64
#define ROUNDS 15
#define LEAST 8 /* elements of a piece */

static struct common {
    sem_t done; /* posted by each writer when it has ended a step */
    sem_t go[WRITERS_MAX];
    sem_t got; /* posted by each further reader when it has the array */
    sem_t get[READERS_MAX];
    uint64_t elements; /* of each piece in the next step; 0: there is none */
    double told[WRITERS_MAX];
} * common;

struct group {
    uint32_t writers;
    uint32_t readers;
};

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) < 0)
        ;
}

static flux_stream_t *stream_open(flux_t *h, const char *name, enum flux_stream_mode mode,
                                  const struct flux_stream_opts *opts)
{
    errmsg_t err;
    flux_stream_t *s = flux_stream_open(h, name, mode, opts, &err);

    if (!s)
        bench_die("%s", err.text);
    return s;
}

static void writer(const char *name, uint32_t rank, uint32_t writers)
{
    struct flux_stream_opts opts = {.rank = rank, .size = writers, .keep = 1};
    flux_stream_t *s = stream_open(bench_open(), name, FLUX_STREAM_WRITE, &opts);
    double piece[LEAST + 2 * ROUNDS];
    errmsg_t err;

    for (size_t i = 0; i < sizeof(piece) / sizeof(piece[0]); i++)
        piece[i] = rank;
    for (;;) {
        wait_for(&common->go[rank]);
        uint64_t count = common->elements;
        uint64_t shape = writers * count, offset = rank * count;
        struct flux_stream_array a = {
            .type = "f64", .ndims = 1, .shape = &shape, .offset = &offset, .count = &count};

        if (count == 0)
            break;
        double begin = bench_now_us();
        if (flux_stream_put_array(s, "T", &a, piece, &err) < 0 ||
            flux_stream_end_step(s, -1., &err) < 0)
            bench_die("%s", err.text);
        common->told[rank] = bench_now_us() - begin;
        sem_post(&common->done);
    }
    flux_stream_close(s);
}

/* Let all writers put a step with pieces of this size. */
static void put(uint32_t writers, uint64_t elements)
{
    common->elements = elements;
    for (uint32_t i = 0; i < writers; i++)
        sem_post(&common->go[i]);
    for (uint32_t i = 0; i < writers && elements > 0; i++)
        wait_for(&common->done);
}

/* Get the next step, which must have all pieces. */
static void get(flux_stream_t *s, uint32_t writers, double *array, size_t size)
{
    errmsg_t err;
    uint64_t n = writers * common->elements;

    if (flux_stream_begin_step(s, FLUX_STREAM_NEXT, 60., NULL, &err) != 1 ||
        flux_stream_get_box(s, "T", NULL, NULL, NULL, array, size, &err) < 0)
        bench_die("%s", err.text);
    if (array[0] != 0. || array[n - 1] != (double)(writers - 1))
        bench_die("the array is not that of the writers");
    flux_stream_end_step(s, -1., NULL);
}

/* A further reader, until the writers have no more steps. */
static void reader(const char *name, uint32_t number, uint32_t writers, double *array, size_t size)
{
    flux_stream_t *s =
        stream_open(bench_open(), name, FLUX_STREAM_READ, &(struct flux_stream_opts){0});

    get(s, writers, array, size);
    for (;;) {
        sem_post(&common->got);
        wait_for(&common->get[number]);
        if (common->elements == 0)
            break;
        get(s, writers, array, size);
    }
    flux_stream_close(s);
}

/* Who reads of whom, for the name of a figure. */
static const char *parties(const struct group *g)
{
    static char text[64];
    int n = snprintf(text, sizeof(text), "%u writer%s", g->writers, g->writers == 1 ? "" : "s");

    if (g->readers > 1)
        snprintf(text + n, sizeof(text) - (size_t)n, " to %u readers", g->readers);
    return text;
}

static double join(flux_t *h, const char *name, uint32_t writers, double *array, size_t size)
{
    double begin = bench_now_us();
    flux_stream_t *s = stream_open(h, name, FLUX_STREAM_READ, &(struct flux_stream_opts){0});

    get(s, writers, array, size);
    double took = bench_now_us() - begin;
    flux_stream_close(s);
    return took;
}

/* Steps with other pieces than before, or the same ones. */
static void pieces(flux_stream_t *s, const struct group *g, bool change, double *array, size_t size)
{
    const char *what = change ? "new" : "old";
    uint64_t elements = common->elements;
    double told[ROUNDS], got[ROUNDS];
    char name[64];

    for (int r = 0; r < ROUNDS; r++) {
        put(g->writers, elements += change);
        double begin = bench_now_us();
        for (uint32_t i = 1; i < g->readers; i++)
            sem_post(&common->get[i]);
        get(s, g->writers, array, size);
        for (uint32_t i = 1; i < g->readers; i++)
            wait_for(&common->got);
        got[r] = bench_now_us() - begin;
        told[r] = bench_percentile(common->told, g->writers, 50.);
    }
    snprintf(name, sizeof(name), "tell %s pieces, %s", what, parties(g));
    bench_print(&(struct bench_figure){
        .name = name, .value = bench_percentile(told, ROUNDS, 50.), .unit = "us"});
    snprintf(name, sizeof(name), "read %s pieces, %s", what, parties(g));
    bench_print(&(struct bench_figure){.name = name,
                                       .value = bench_percentile(got, ROUNDS, 50.),
                                       .unit = "us",
                                       .at_most = 15000.});
}

/* Start the processes of a group: the writers, or the further readers. */
static void start(const char *name, const struct group *g, bool read, double *array, size_t size)
{
    for (uint32_t i = read; i < (read ? g->readers : g->writers); i++) {
        if (bench_fork() > 0)
            continue;
        if (read)
            reader(name, i, g->writers, array, size);
        else
            writer(name, i, g->writers);
        _exit(0);
    }
}

static void end(const struct group *g)
{

    put(g->writers, 0);
    for (uint32_t i = 1; i < g->readers; i++)
        sem_post(&common->get[i]);
    bench_wait(g->writers + g->readers - 1);
}

static void measure(const struct group *g)
{
    size_t size = g->writers * (LEAST + 2 * ROUNDS) * sizeof(double);
    double *array = malloc(size);
    double took[ROUNDS];
    char name[64], stream[32];

    if (!array)
        bench_die("out of memory");
    snprintf(stream, sizeof(stream), "join%ux%u", g->writers, g->readers);
    start(stream, g, false, NULL, 0);
    put(g->writers, LEAST);
    flux_t *h = bench_open();
    for (int r = 0; r < ROUNDS; r++)
        took[r] = join(h, stream, g->writers, array, size);
    snprintf(name, sizeof(name), "join, %u writer%s", g->writers, g->writers == 1 ? "" : "s");
    bench_print(&(struct bench_figure){.name = name,
                                       .value = bench_percentile(took, ROUNDS, 50.) / 1e3,
                                       .unit = "ms",
                                       .at_most = g->writers <= 64 ? 10. : 0.});
    flux_stream_t *s = stream_open(h, stream, FLUX_STREAM_READ, &(struct flux_stream_opts){0});
    get(s, g->writers, array, size);
    start(stream, g, true, array, size);
    for (uint32_t i = 1; i < g->readers; i++)
        wait_for(&common->got);
    pieces(s, g, true, array, size);
    pieces(s, g, false, array, size);
    flux_stream_close(s);
    end(g);
    flux_close(h);
    free(array);
}

static struct group group_of(const char *text)
{
    struct group g = {.readers = 1};
    int len = 0;

    if (sscanf(text, "%u%n", &g.writers, &len) == 1 && text[len] == 'x')
        sscanf(text, "%ux%u%n", &g.writers, &g.readers, &len);
    if (len == 0 || text[len] || g.writers < 1 || g.writers > WRITERS_MAX || g.readers < 1 ||
        g.readers > READERS_MAX)
        bench_die("'%s' is not a number of writers from 1 to %d, or MxN with at most %d readers",
                  text, WRITERS_MAX, READERS_MAX);
    return g;
}

int main(int argc, char *argv[])
{
    static const char *const all[] = {"1", "4", "16", "64", "256"};
    struct rlimit files;
    int n = argc > 1 ? argc - 1 : (int)(sizeof(all) / sizeof(all[0]));

    /* A reader has descriptors for each writer. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        bench_die("out of memory");
    sem_init(&common->done, 1, 0);
    sem_init(&common->got, 1, 0);
    for (int i = 0; i < WRITERS_MAX; i++)
        sem_init(&common->go[i], 1, 0);
    for (int i = 0; i < READERS_MAX; i++)
        sem_init(&common->get[i], 1, 0);
    bench_title("a late reader, and pieces that change%s",
                getenv("FLUX_STREAM_TRANSPORT") ? ", by TCP" : "");
    for (int i = 0; i < n; i++) {
        struct group g = group_of(argc > 1 ? argv[i + 1] : all[i]);

        measure(&g);
    }
    return 0;
}
