/* peer.c - programs that write and read streams, for t/stream-basic.t.
 *
 *    peer write NAME STEPS RANK SIZE [OPTION=VALUE...]
 *    peer read NAME [OPTION=VALUE...]
 *
 * A writer puts, into each step, its number as "n" and a block of 100,000 bytes that depend on the
 * rank and the number as "data".  A reader checks all of it, and prints the first step, the last
 * one, and how many there were; then why it ended.
 *
 * Options: policy, keep and timeout are those of opening a stream; newest=1 lets a reader begin the
 * newest steps; ready=1 waits for a line of standard input before the first step, and hold=1 after
 * the last one of a writer; crash=N ends a writer by SIGKILL instead of ending step N.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libstream/stream.h"

#define DATA_LEN 100000

static int newest, hold, ready;
static uint64_t crash = UINT64_MAX;
static struct flux_stream_opts opts;

static _Noreturn void die(const char *why)
{
    printf("error: %s\n", why);
    exit(1);
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
    else if (strncmp(arg, "newest", n) == 0)
        newest = 1;
    else if (strncmp(arg, "hold", n) == 0)
        hold = 1;
    else if (strncmp(arg, "ready", n) == 0)
        ready = 1;
    else if (strncmp(arg, "crash", n) == 0)
        crash = (uint64_t)atoi(val);
    else if (strncmp(arg, "timeout", n) == 0)
        opts.timeout = atof(val);
    else
        die("an option is not known");
}

static void fill(unsigned char *data, uint32_t rank, uint64_t step)
{
    for (size_t i = 0; i < DATA_LEN; i++)
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

static int writer(flux_t *h, char **argv)
{
    static unsigned char data[DATA_LEN];
    uint64_t steps = (uint64_t)atoi(argv[1]);
    flux_stream_t *s;
    errmsg_t err;

    opts.rank = (uint32_t)atoi(argv[2]);
    opts.size = (uint32_t)atoi(argv[3]);
    if (!(s = flux_stream_open(h, argv[0], FLUX_STREAM_WRITE, &opts, &err)) ||
        (opts.rank == 0 && flux_stream_define(s, "n u64, data bytes", &err) < 0))
        die(err.text);
    say("open");
    if (ready)
        wait_input();
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t n = flux_stream_step(s);

        fill(data, opts.rank, n);
        put(s, "n", &n, sizeof(n));
        put(s, "data", data, sizeof(data));
        if (n == crash)
            raise(SIGKILL);
        if (flux_stream_end_step(s, 60., &err) < 0)
            die(err.text);
    }
    if (hold) {
        say("written");
        wait_input();
    }
    flux_stream_close(s);
    return 0;
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
            die(err.text);
        memcpy(&n, p, sizeof(n));
        if (len != sizeof(n) || n != step)
            die("a step has the wrong number");
        if (flux_stream_get(s, rank, "data", &p, &len, &err) < 0)
            die(err.text);
        fill(data, rank, step);
        if (len != DATA_LEN || memcmp(p, data, len) != 0)
            die("a step has wrong data");
        if (flux_stream_get(s, rank, "none", &p, &len, &err) == 0 || errno != ENOENT)
            die("there is a variable that nobody has put");
    }
}

static int reader(flux_t *h, char **argv)
{
    flux_stream_t *s;
    errmsg_t err;
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t step;
    unsigned n = 0;
    int rc;

    if (!(s = flux_stream_open(h, argv[0], FLUX_STREAM_READ, &opts, &err)))
        die(err.text);
    say("open");
    if (ready)
        wait_input();
    while ((rc = flux_stream_begin_step(s, newest ? FLUX_STREAM_NEWEST : FLUX_STREAM_NEXT, 60.,
                                        &step, &err)) == 1) {
        if (n++ == 0)
            first = step;
        else if (step <= last)
            die("steps do not rise");
        check(s, last = step);
        flux_stream_end_step(s, 0., NULL);
    }
    printf("%" PRIu64 "-%" PRIu64 " %u\n%s\n", first, last, n, rc == 0 ? "the end" : err.text);
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
