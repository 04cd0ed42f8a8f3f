/* peer.c - programs that write and read streams, for t/stream-basic.t.
 *
 *    peer write NAME STEPS RANK SIZE [OPTION=VALUE...]
 *    peer read NAME [OPTION=VALUE...]
 *
 * A writer puts, into each step, its number as "n", a block of 100,000 bytes that depend on the
 * rank and the number as "data", and ROWS rows of a global array of numbers as "T".  A reader
 * checks all of it, and prints the first step, the last one, and how many there were; then why it
 * ended.
 *
 * A member of a group, or of a team, prints each step in a line before it ends it.
 *
 * Options: policy, depth, bytes, readers, keep, stay, start, timeout, group, key, resume, team,
 * rank, size and transforms are those of opening a stream; count=N lets a reader leave after N
 * steps; newest=1 lets a reader begin the newest steps; ready=1 waits for a line of standard input
 * before the first step, and hold=1 after the last one of a writer; wait=N lets a writer wait then,
 * before the first step, until N readers have joined; overlap=1 lets each writer put the same rows,
 * place=1 writes them in their place, async=1 ends steps without waiting, and waits in a reactor;
 * crash=N ends a writer, or a reader, by SIGKILL instead of ending step N, or a reader a later one;
 * fail=N lets a writer fail in step N, and close the stream; drain=1 lets a writer wait until
 * groups have ended its steps, and evict=S is that of opening it; early=1 lets a member end a step
 * before it prints it, which is wrong; until=1 lets a writer write up to step STEPS, from whichever
 * it begins with, and print that one; stop=N stops a reader by SIGSTOP in the first step from N on;
 * bare=1 lets a writer define nothing, and put "own" as well, an array of one number more than its
 * rank; note=FILE lets a writer note the first and the last step that it has ended; near=1 tells a
 * reader that stays that it gets no data by TCP, so that it loses no step that it has begun.
 *
 * A writer that gets SIGTERM leaves the stream after the step that it is in.  A reader that gets
 * SIGUSR1 says so when it has begun another step.
 *
 * plant=KIND:N is a fault in step N, which readers have to notice: "torn", half of the data are
 * those of the step before; "offset", the rows are those of another place; "changed", with place=1
 * and hold=1, the writer changes the rows when the step is out, after its line of standard input,
 * as if the place were used again; "twice" and "missing", a reader takes the step twice, or not at
 * all.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libstream/stream.h"

#define DATA_LEN 100000
#define ROWS 8
#define COLUMNS 12

static int newest, hold, ready, overlap, place, drain, async, early, until, bare, near;
static volatile sig_atomic_t leaving, asked;
static uint32_t readers; /* that a writer waits for */
static jmp_buf lost;     /* a value of the step cannot be had any more */
static uint64_t crash = UINT64_MAX, stop = UINT64_MAX, failure = UINT64_MAX;
static unsigned count = UINT_MAX; /* steps that a reader begins */
static struct flux_stream_opts opts;
static const char *plant;
static const char *note; /* file; of a reader that stays, its output has the same */
static uint64_t planted;

static bool plants(const char *kind, uint64_t step)
{
    return plant && step == planted && strncmp(plant, kind, strlen(kind)) == 0;
}

static _Noreturn void die(const char *why)
{
    printf("error: %s\n", why);
    exit(1);
}

/* Getting a value has failed: between hosts, since its writer has died. */
static _Noreturn void no_value(const errmsg_t *err)
{
    if (errno == ECONNRESET)
        longjmp(lost, 1);
    die(err->text);
}

static void option(const char *arg)
{
    const char *val = strchr(arg, '=');
    size_t n;

    if (!val)
        die("an option has no value");
    n = (size_t)(val++ - arg);
    if (strncmp(arg, "policy", n) == 0)
        opts.policy = val;
    else if (strncmp(arg, "keep", n) == 0)
        opts.keep = (uint32_t)atoi(val);
    else if (strncmp(arg, "stay", n) == 0)
        opts.stay = true;
    else if (strncmp(arg, "start", n) == 0)
        opts.start = val;
    else if (strncmp(arg, "newest", n) == 0)
        newest = 1;
    else if (strncmp(arg, "place", n) == 0)
        place = 1;
    else if (strncmp(arg, "plant", n) == 0 && strchr(val, ':')) {
        plant = val;
        planted = (uint64_t)atoi(strchr(val, ':') + 1);
    } else if (strncmp(arg, "readers", n) == 0)
        opts.readers = (uint32_t)atoi(val);
    else if (strncmp(arg, "depth", n) == 0)
        opts.depth = (uint32_t)atoi(val);
    else if (strncmp(arg, "async", n) == 0)
        async = 1;
    else if (strncmp(arg, "overlap", n) == 0)
        overlap = 1;
    else if (strncmp(arg, "hold", n) == 0)
        hold = 1;
    else if (strncmp(arg, "ready", n) == 0)
        ready = 1;
    else if (strncmp(arg, "wait", n) == 0)
        readers = (uint32_t)atoi(val);
    else if (strncmp(arg, "crash", n) == 0)
        crash = (uint64_t)atoi(val);
    else if (strncmp(arg, "fail", n) == 0)
        failure = (uint64_t)atoi(val);
    else if (strncmp(arg, "group", n) == 0)
        opts.group = val;
    else if (strncmp(arg, "resume", n) == 0)
        opts.resume = atof(val);
    else if (strncmp(arg, "team", n) == 0)
        opts.team = val;
    else if (strncmp(arg, "rank", n) == 0)
        opts.rank = (uint32_t)atoi(val);
    else if (strncmp(arg, "size", n) == 0)
        opts.size = (uint32_t)atoi(val);
    else if (strncmp(arg, "count", n) == 0)
        count = (unsigned)atoi(val);
    else if (strncmp(arg, "key", n) == 0)
        opts.key = val;
    else if (strncmp(arg, "transforms", n) == 0)
        opts.transforms = val;
    else if (strncmp(arg, "drain", n) == 0)
        drain = 1;
    else if (strncmp(arg, "evict", n) == 0)
        opts.evict = atof(val);
    else if (strncmp(arg, "bytes", n) == 0)
        opts.bytes = (uint64_t)atoi(val);
    else if (strncmp(arg, "early", n) == 0)
        early = 1;
    else if (strncmp(arg, "stop", n) == 0)
        stop = (uint64_t)atoi(val);
    else if (strncmp(arg, "bare", n) == 0)
        bare = 1;
    else if (strncmp(arg, "note", n) == 0)
        note = val;
    else if (strncmp(arg, "near", n) == 0)
        near = 1;
    else if (strncmp(arg, "until", n) == 0)
        until = 1;
    else if (strncmp(arg, "timeout", n) == 0)
        opts.timeout = atof(val);
    else
        die("an option is not known");
}

static void fill(unsigned char *data, size_t len, uint32_t rank, uint64_t step)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)(i + 31 * rank + 7 * step);
}

static void say(const char *what)
{
    puts(what);
    fflush(stdout);
}

static void wait_input(void)
{
    char line[16];

    if (!fgets(line, sizeof(line), stdin))
        clearerr(stdin);
}

static void put(flux_stream_t *s, const char *var, const void *data, size_t len)
{
    errmsg_t err;

    if (flux_stream_put(s, var, data, len, &err) < 0)
        die(err.text);
}

static void put_own(flux_stream_t *s)
{
    static const int32_t own[64];
    uint64_t count = opts.rank + 1;
    errmsg_t err;

    if (flux_stream_put_array(
            s, "own", &(struct flux_stream_array){.type = "i32", .ndims = 1, .count = &count}, own,
            &err) < 0)
        die(err.text);
}

/* An element of the global array. */
static double element(uint64_t step, uint64_t row, uint64_t column)
{
    return (double)(1000000 * step + 1000 * row + column);
}

/* Returns where the rows are. */
static double *put_rows(flux_stream_t *s, double *rows)
{
    uint64_t shape[] = {(uint64_t)ROWS * opts.size, COLUMNS};
    uint64_t n = flux_stream_step(s);
    uint64_t offset[] = {overlap ? 0 : (uint64_t)ROWS * opts.rank, 0};
    uint64_t from = offset[0] + plants("offset", n);
    uint64_t count[] = {ROWS, COLUMNS};
    struct flux_stream_array a = {
        .type = "f64", .ndims = 2, .shape = shape, .offset = offset, .count = count};
    errmsg_t err;

    if (flux_stream_put_array(s, "T", &a, place ? NULL : rows, &err) < 0)
        die(err.text);
    if (place) {
        if (flux_stream_at(s, "T") || flux_stream_end_step(s, 0., &err) == 0 || errno != EINVAL)
            die("a step can be ended although a variable has no data");
        if (flux_stream_place(s, 60., &err) < 0)
            die(err.text);
        rows = flux_stream_at(s, "T");
        if (!rows || flux_stream_at(s, "none") || flux_stream_place(s, 0., &err) == 0 ||
            flux_stream_put(s, "late", "", 0, &err) == 0)
            die("a step that has its place can be changed");
    }
    for (uint64_t i = 0; i < ROWS; i++) {
        for (uint64_t k = 0; k < COLUMNS; k++)
            rows[i * COLUMNS + k] = element(n, from + i, k);
    }
    offset[0] = shape[0];
    if (flux_stream_put_array(s, "outside", &a, rows, &err) == 0 || errno != EINVAL)
        die("a piece outside of its array can be put");
    return rows;
}

static void published_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* flux_stream_end_step(), in a reactor. */
static int end_async(flux_t *h, flux_stream_t *s, errmsg_t *err)
{
    int rc = flux_stream_end_step_async(s, err);
    flux_watcher_t *w;

    if (rc != 0)
        return rc;
    w = flux_fd_watcher_create(flux_get_reactor(h), flux_stream_pollfd(s, err), FLUX_POLLIN,
                               published_cb, NULL);
    flux_watcher_start(w);
    flux_reactor_run(flux_get_reactor(h));
    flux_watcher_destroy(w);
    return flux_stream_wait_step(s, 0., err);
}

/* What is noted last is there when this process is killed. */
static void note_step(uint64_t n)
{
    static int fd;
    static uint64_t first;
    char text[64];
    int len;

    if (!note)
        return;
    if (fd == 0) {
        if ((fd = open(note, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
            die("the file for notes cannot be created");
        first = n;
    }
    len = snprintf(text, sizeof(text), "%020" PRIu64 "-%020" PRIu64 "\n", first, n);
    if (pwrite(fd, text, (size_t)len, 0) != len)
        die("a step cannot be noted");
}

static void leave(int signum)
{
    leaving = 1;
}

static int writer(flux_t *h, char **argv)
{
    static double rows[ROWS * COLUMNS];
    static unsigned char data[DATA_LEN];
    uint64_t steps = (uint64_t)atoi(argv[1]);
    flux_stream_t *s;
    double *held;
    errmsg_t err;

    opts.rank = (uint32_t)atoi(argv[2]);
    opts.size = (uint32_t)atoi(argv[3]);
    if (!(s = flux_stream_open(h, argv[0], FLUX_STREAM_WRITE, &opts, &err)) ||
        (opts.rank == 0 && !bare && flux_stream_define(s, "n u64, data bytes", &err) < 0))
        die(err.text);
    signal(SIGTERM, leave);
    say("open");
    if (ready)
        wait_input();
    if (flux_stream_wait_readers(s, readers, 60., &err) < 0)
        die(err.text);
    if (until) {
        printf("begins with %" PRIu64 "\n", flux_stream_step(s));
        fflush(stdout);
    }
    for (uint64_t i = 0; !leaving && (until ? flux_stream_step(s) < steps : i < steps); i++) {
        uint64_t n = flux_stream_step(s);

        fill(data, DATA_LEN, opts.rank, n);
        if (plants("torn", n))
            fill(data, DATA_LEN / 2, opts.rank, n - 1);
        put(s, "n", &n, sizeof(n));
        put(s, "data", data, sizeof(data));
        if (bare)
            put_own(s);
        held = put_rows(s, rows);
        if (n == crash)
            raise(SIGKILL);
        if (n == failure) {
            flux_stream_fail(s);
            break;
        }
        if ((async ? end_async(h, s, &err) : flux_stream_end_step(s, 60., &err)) < 0) {
            if (errno == ECANCELED && flux_stream_put(s, "n", &n, sizeof(n), NULL) < 0)
                die("a step of a stream that was removed is not forgotten");
            die(err.text);
        }
        note_step(n);
        if (plants("changed", n)) {
            wait_input();
            held[0] = -1.;
            say("changed");
        }
    }
    if (drain && flux_stream_drain(s, 60., &err) < 0)
        die(err.text);
    if (hold) {
        say("written");
        wait_input();
    }
    flux_stream_close(s);
    return 0;
}

/* A box of the global array: all, or each third row and second column. */
static void check_box(flux_stream_t *s, uint64_t step, const uint64_t *shape, uint64_t by_row,
                      uint64_t by_column)
{
    uint64_t start[] = {by_row - 1, by_column - 1};
    uint64_t count[] = {shape[0] / by_row, shape[1] / by_column};
    uint64_t stride[] = {by_row, by_column};
    double *box = calloc(count[0] * count[1], sizeof(*box));
    errmsg_t err;

    if (flux_stream_get_box(s, "T", start, count, stride, box, count[0] * count[1] * sizeof(*box),
                            &err) < 0) {
        int saved = errno;

        free(box);
        errno = saved;
        no_value(&err);
    }
    for (uint64_t i = 0; i < count[0]; i++) {
        for (uint64_t k = 0; k < count[1]; k++) {
            if (box[i * count[1] + k] !=
                element(step, start[0] + i * by_row, start[1] + k * by_column))
                die("a box has a wrong element");
        }
    }
    if (flux_stream_get_box(s, "T", NULL, NULL, NULL, box, 1, &err) == 0 || errno != ENOBUFS)
        die("a box fits into too little memory");
    start[0] = shape[0];
    if (flux_stream_get_box(s, "T", start, count, stride, box, sizeof(*box), &err) == 0 ||
        errno != ERANGE)
        die("a box can be outside of its array");
    free(box);
}

/* A column of the global array, and the last row of each writer, at once. */
static void check_schedule(flux_stream_t *s, uint64_t step, const uint64_t *shape)
{
    uint32_t writers = flux_stream_writers(s);
    uint64_t start[] = {0, 5};
    uint64_t count[] = {shape[0], 1};
    uint64_t stride[] = {ROWS - 1, 1};
    const struct flux_stream_box column = {start, count, NULL}, rows = {NULL, NULL, stride};
    size_t n = 2 * COLUMNS;
    double *buf = calloc(shape[0] + writers * n, sizeof(*buf));
    errmsg_t err;
    int rc;

    rc = flux_stream_schedule(s, "T", FLUX_STREAM_ALL, &column, buf, shape[0] * sizeof(*buf), &err);
    for (uint32_t w = 0; rc == 0 && w < writers; w++)
        rc = flux_stream_schedule(s, "T", w, &rows, buf + shape[0] + w * n, n * sizeof(*buf), &err);
    if (rc < 0 || flux_stream_perform(s, &err) < 0) {
        int saved = errno;

        free(buf);
        errno = saved;
        no_value(&err);
    }
    for (uint64_t i = 0; i < shape[0]; i++) {
        if (buf[i] != element(step, i, 5))
            die("a column has a wrong element");
    }
    for (uint64_t i = 0; i < 2 * writers; i++) {
        for (uint64_t k = 0; k < COLUMNS; k++) {
            if (buf[shape[0] + i * COLUMNS + k] !=
                element(step, i / 2 * ROWS + i % 2 * (ROWS - 1), k))
                die("a row of a writer has a wrong element");
        }
    }
    free(buf);
}

static void check_array(flux_stream_t *s, uint64_t step)
{
    uint32_t last = flux_stream_writers(s) - 1;
    struct flux_stream_info all;
    struct flux_stream_info own;
    errmsg_t err;

    if (flux_stream_inquire(s, FLUX_STREAM_ALL, "T", &all, &err) < 0 ||
        flux_stream_inquire(s, last, "T", &own, &err) < 0)
        die(err.text);
    if (strcmp(all.type, "f64") != 0 || !all.global || all.columns || all.ndims != 2 ||
        all.shape[0] != ROWS * (last + 1) || all.shape[1] != COLUMNS ||
        own.offset[0] != ROWS * last || own.offset[1] != 0 || own.count[0] != ROWS)
        die("the array is another one");
    check_box(s, step, all.shape, 1, 1);
    check_box(s, step, all.shape, 3, 2);
    check_schedule(s, step, all.shape);
    if (flux_stream_inquire(s, last, "data", &own, &err) == 0 || errno != ENOENT)
        die("a variable of bytes is an array");
}

static void check(flux_stream_t *s, uint64_t step)
{
    static unsigned char data[DATA_LEN];
    errmsg_t err;

    for (uint32_t rank = 0; rank < flux_stream_writers(s); rank++) {
        const void *p;
        size_t len;
        uint64_t n;

        if (flux_stream_get(s, rank, "n", &p, &len, &err) < 0)
            no_value(&err);
        memcpy(&n, p, sizeof(n));
        if (len != sizeof(n) || n != step)
            die("a step has the wrong number");
        if (flux_stream_get(s, rank, "data", &p, &len, &err) < 0)
            no_value(&err);
        fill(data, DATA_LEN, rank, step);
        if (len != DATA_LEN || memcmp(p, data, len) != 0)
            die("a step has wrong data");
        if (flux_stream_get(s, rank, "none", &p, &len, &err) == 0 || errno != ENOENT)
            die("there is a variable that nobody has put");
    }
    check_array(s, step);
}

/* false: the step was lost with its writer. */
static bool checked(flux_stream_t *s, uint64_t step)
{
    if (setjmp(lost))
        return false;
    check(s, step);
    return true;
}

static void ask(int signum)
{
    asked = 2; /* the first one may have begun already */
}

/* With a new writer, the next number may be a larger one: the test compares the steps that were
 * read, which are printed, with those that the writers had ended. */
static bool skips(const flux_stream_t *s, uint64_t *from, uint64_t last, uint64_t step,
                  uint64_t epoch)
{
    if (!opts.stay || flux_stream_epoch(s) == epoch)
        return false;
    printf("read %" PRIu64 "-%" PRIu64 "\n", *from, last);
    *from = step;
    return true;
}

static _Noreturn void missing(const flux_stream_t *s, uint64_t last, uint64_t step)
{
    printf("step %" PRIu64 " of epoch %" PRIu64 " comes after step %" PRIu64 "\n", step,
           flux_stream_epoch(s), last);
    die("a step is missing");
}

static int reader(flux_t *h, char **argv)
{
    flux_stream_t *s;
    errmsg_t err;
    uint64_t first = 0;
    uint64_t from = 0; /* since then, no step has been skipped */
    uint64_t last = 0;
    uint64_t epoch = 0;
    uint64_t step;
    unsigned n = 0;
    bool whole;
    int rc;

    if (!(s = flux_stream_open(h, argv[0], FLUX_STREAM_READ, &opts, &err)))
        die(err.text);
    signal(SIGUSR1, ask);
    say("open");
    if (ready)
        wait_input();
    rc = 1;
    while (n < count &&
           (rc = flux_stream_begin_step(s, newest ? FLUX_STREAM_NEWEST : FLUX_STREAM_NEXT, 60.,
                                        &step, &err)) == 1) {
        whole = checked(s, step);
        if (!whole && opts.stay && near)
            die("a step of a writer on this host was lost");
        for (unsigned k = plants("missing", step); whole && k < 1u + plants("twice", step); k++) {
            if (n++ == 0)
                first = from = step;
            else if (step <= last && !opts.group)
                die("steps do not rise");
            else if (step != last + 1 && !opts.policy && !opts.group &&
                     !skips(s, &from, last, step, epoch))
                missing(s, last, step);
            last = step;
            epoch = flux_stream_epoch(s);
        }
        if (asked && --asked == 0)
            say("reads on");
        if (early)
            flux_stream_end_step(s, 0., NULL);
        if (step >= crash)
            raise(SIGKILL);
        if (step >= stop) {
            stop = UINT64_MAX;
            say("stops");
            raise(SIGSTOP);
        }
        if (opts.group || opts.team) {
            printf("step %" PRIu64 "\n", step);
            fflush(stdout);
        }
        /* Nor has it changed while it was held. */
        if (whole && !early)
            (void)checked(s, step);
        flux_stream_end_step(s, 0., NULL);
    }
    if (opts.stay && n > 0 && !opts.group)
        printf("read %" PRIu64 "-%" PRIu64 "\n", from, last);
    printf("%" PRIu64 "-%" PRIu64 " %u\n%s\n", first, last, n,
           rc == 0   ? "the end"
           : rc == 1 ? "enough"
                     : err.text);
    flux_stream_close(s);
    return 0;
}

int main(int argc, char **argv)
{
    int operands;
    errmsg_t err;
    flux_t *h;
    int rc;

    if (argc < 3)
        return 2;
    operands = strcmp(argv[1], "write") == 0 ? 6 : 3;
    for (int i = operands; i < argc; i++)
        option(argv[i]);
    if (argc < operands)
        return 2;
    if (!(h = flux_open(NULL, NULL, &err)))
        die(err.text);
    rc = operands == 6 ? writer(h, argv + 2) : reader(h, argv + 2);
    flux_close(h);
    return rc;
}
