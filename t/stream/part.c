/* part.c - programs that share the records of steps, for t/stream-part.t.
 *
 *    part write NAME STEPS RANK SIZE READERS [leave]
 *    part read NAME LOG MEMBER [by=WHAT] [key=FIELD] [crash=N]
 *
 * Each step of a writer has RECORDS records "atoms", each with the number at.id, of which there are
 * IDS, and the text tag, which goes with it.  The writer prints "open", waits for a line of
 * standard input and for READERS before the first step, and until groups have ended its steps, or
 * leaves at once.
 *
 * A member of the group "g" appends lines to LOG: "b MEMBER STEP" and for each of its records
 * " RANK.INDEX.ID", when it has begun the step; "e" and the same, before it ends it; and "z MEMBER"
 * at the end of the stream.  The lines of all members are in the order in which they were written.
 * crash=N ends it by SIGKILL between the two lines of the Nth step that it has records of.
 */
#include "config.h"
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/handle.h"
#include "libstream/format.h"
#include "libstream/stream.h"

#define RECORDS 40
#define IDS 23
#define LINE 4096

struct place {
    uint16_t x;
    uint32_t id;
};
struct atom {
    double weight;
    struct place at;
    char *tag;
};
static const struct stream_row place_rows[] = {
    STREAM_SCALAR(struct place, x, U16),
    STREAM_SCALAR(struct place, id, U32),
    STREAM_ROW_END,
};
static const struct stream_table place_table = STREAM_TABLE(struct place, "place", place_rows);
static const struct stream_row atom_rows[] = {
    STREAM_SCALAR(struct atom, weight, F64),
    STREAM_NESTED(struct atom, at, struct place, &place_table),
    STREAM_TEXT(struct atom, tag, 0),
    STREAM_ROW_END,
};
static const struct stream_table atom_table = STREAM_TABLE(struct atom, "atom", atom_rows);

static errmsg_t err = {"no input"};

static _Noreturn void die(void)
{
    printf("error: %s\n", err.text);
    exit(1);
}

static uint32_t id_of(uint64_t step, uint32_t rank, uint64_t i)
{
    return (uint32_t)((i * 7 + step * 13 + rank * 5) % IDS);
}

static void writer(flux_t *h, char **argv, bool leaves, stream_format_t *f)
{
    uint64_t steps = strtoull(argv[1], NULL, 10);
    struct flux_stream_opts opts = {.rank = (uint32_t)atoi(argv[2]),
                                    .size = (uint32_t)atoi(argv[3])};
    flux_stream_t *s = flux_stream_open(h, argv[0], FLUX_STREAM_WRITE, &opts, &err);
    struct atom atoms[RECORDS] = {{.weight = 1.}};
    char tags[IDS][8];
    char line[16];
    uint64_t n = RECORDS;

    if (!s)
        die();
    for (uint32_t id = 0; id < IDS; id++)
        snprintf(tags[id], sizeof(tags[id]), "t%u", id);
    puts("open");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin) ||
        flux_stream_wait_readers(s, (uint32_t)atoi(argv[4]), 60., &err) < 0)
        die();
    for (uint64_t step = 0; step < steps; step++) {
        for (uint64_t i = 0; i < n; i++) {
            atoms[i].at.id = id_of(step, opts.rank, i);
            atoms[i].tag = tags[atoms[i].at.id];
        }
        if (flux_stream_put_array(s, "atoms",
                                  &(struct flux_stream_array){.ndims = 1, .count = &n, .format = f},
                                  atoms, &err) < 0 ||
            flux_stream_end_step(s, 60., &err) < 0)
            die();
    }
    if (!leaves && flux_stream_drain(s, 60., &err) < 0)
        die();
    flux_stream_close(s);
}

/* Append a line of the records of this member.  Returns how many they are. */
static size_t append(int log, flux_stream_t *s, char what, const char *member, uint64_t step,
                     stream_format_t *f)
{
    char line[LINE];
    size_t len = (size_t)snprintf(line, sizeof(line), "%c %s %" PRIu64, what, member, step);
    size_t total = 0;

    for (uint32_t rank = 0; rank < flux_stream_writers(s); rank++) {
        const struct flux_stream_range *own;
        const struct atom *atoms;
        size_t nranges, n;

        if (flux_stream_get_records(s, rank, "atoms", f, (const void **)&atoms, &n, &err) < 0 ||
            flux_stream_mine(s, rank, "atoms", &own, &nranges, &err) < 0)
            die();
        for (size_t k = 0; k < nranges; k++) {
            for (uint64_t i = own[k].start; i < own[k].start + own[k].count; i++) {
                total++;
                len += (size_t)snprintf(line + len, sizeof(line) - len, " %u.%" PRIu64 ".%u", rank,
                                        i, i < n ? atoms[i].at.id : 0);
            }
        }
    }
    line[len++] = '\n';
    if (write(log, line, len) != (ssize_t)len)
        exit(1);
    return total;
}

static void reader(flux_t *h, int argc, char **argv, stream_format_t *f)
{
    struct flux_stream_opts opts = {.group = "g"};
    int log = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    unsigned crash = 0, nth = 0;
    flux_stream_t *s;
    uint64_t step;
    int rc;

    for (int i = 3; i < argc; i++) {
        const char *val = strchr(argv[i], '=');

        if (strncmp(argv[i], "by=", 3) == 0)
            opts.by = val + 1;
        else if (strncmp(argv[i], "key=", 4) == 0)
            opts.key = val + 1;
        else if (strncmp(argv[i], "crash=", 6) == 0)
            crash = (unsigned)atoi(val + 1);
    }
    if (log < 0 || !(s = flux_stream_open(h, argv[0], FLUX_STREAM_READ, &opts, &err)))
        die();
    puts("open");
    fflush(stdout);
    while ((rc = flux_stream_begin_step(s, FLUX_STREAM_NEXT, 60., &step, &err)) == 1) {
        if (append(log, s, 'b', argv[2], step, f) > 0 && ++nth == crash)
            raise(SIGKILL);
        append(log, s, 'e', argv[2], step, f);
        if (flux_stream_end_step(s, 0., &err) < 0)
            die();
    }
    if (rc < 0)
        die();
    dprintf(log, "z %s\n", argv[2]);
    flux_stream_close(s);
}

int main(int argc, char **argv)
{
    flux_t *h = flux_open(NULL, NULL, &err);
    stream_format_t *f = stream_format_create(&atom_table, &err);

    if (!h || !f)
        die();
    if (argc >= 7 && strcmp(argv[1], "write") == 0)
        writer(h, argv + 2, argc > 7, f);
    else if (argc >= 5 && strcmp(argv[1], "read") == 0)
        reader(h, argc - 2, argv + 2, f);
    else
        return 2;
    stream_format_destroy(f);
    flux_close(h);
    return 0;
}
