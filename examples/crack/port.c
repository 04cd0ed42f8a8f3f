/* port.c - what the stages of the pipeline have in common.
 *
 * A port is one end of a stream, with a handle of its own, and counts the seconds that are spent in
 * it.  If CRACK_FILES is in the environment, files in the directory that it names take the place of
 * streams.  A reader has at most DEPTH steps of each writer before it, so that a simulation that is
 * faster than its analysis waits, and all stages are near each other in time. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flux/stream.h"
#include "port.h"
#include "port_file.h"

#define OPTIONS_MAX 8

#define DEPTH 2
#define TIMEOUT 60. /* seconds that other stages have to come */

struct port {
    const char *name;
    port_file_t *file; /* instead of the stream */
    flux_t *h;
    flux_stream_t *s;
    double seconds;
    uint64_t steps;
    uint64_t bytes;
};

struct stage stage = {"crack", 0, 1};
static double began;

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* The number in a text, at least `min`; ends the program otherwise. */
static double number(const char *option, const char *text, double min)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= min && value <= UINT32_MAX))
        stage_die("%s: '%s' is not a number from %g on", option, text, min);
    return value;
}

void stage_init(const char *name)
{
    errmsg_t err;

    stage.name = name;
    if (flux_stream_rank(&stage.rank, &stage.size, &err) < 0)
        stage_die("%s", err.text);
    began = now();
}

void stage_die(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", stage.name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

void stage_options(int argc, char *argv[], const struct stage_option *options)
{
    struct option table[OPTIONS_MAX + 1] = {{0}};
    int n = 0, at;

    for (; n < OPTIONS_MAX && options[n].name; n++)
        table[n] = (struct option){options[n].name,
                                   options[n].flag ? no_argument : required_argument, NULL, n + 1};
    while ((at = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (at == '?')
            exit(2);
        const struct stage_option *o = &options[at - 1];
        char name[40];
        snprintf(name, sizeof(name), "--%s", o->name);
        if (o->flag)
            *o->flag = true;
        else
            *o->value = number(name, optarg, o->min);
    }
}

void *stage_alloc(void *old, size_t count, size_t size)
{
    void *new = reallocarray(old, count ? count : 1, size);

    if (!new)
        stage_die("no memory for %zu times %zu bytes", count, size);
    return new;
}

static port_t *port_open(const char *name, enum flux_stream_mode mode,
                         const struct flux_stream_opts *opts)
{
    port_t *p = stage_alloc(NULL, 1, sizeof(*p));
    const char *dir = getenv("CRACK_FILES");
    errmsg_t err;

    *p = (port_t){.name = name};
    if (dir) {
        p->file = mode == FLUX_STREAM_READ ? port_file_read(dir, name) : port_file_write(dir, name);
        return p;
    }
    p->h = flux_open(NULL, NULL, &err);
    p->s = p->h ? flux_stream_open(p->h, name, mode, opts, &err) : NULL;
    if (!p->s)
        stage_die("%s", err.text);
    return p;
}

port_t *port_read(const char *stream, const char *onoff)
{
    struct flux_stream_opts opts = {.timeout = TIMEOUT, .depth = DEPTH, .onoff = onoff};

    return port_open(stream, FLUX_STREAM_READ, &opts);
}

port_t *port_write(const char *stream, uint32_t readers)
{
    struct flux_stream_opts opts = {.timeout = TIMEOUT, .readers = readers};

    return port_open(stream, FLUX_STREAM_WRITE, &opts);
}

bool port_next(port_t *p)
{
    double begin = now();
    errmsg_t err;
    int rc = p->file ? port_file_next(p->file)
                     : flux_stream_begin_step(p->s, FLUX_STREAM_NEXT, -1., NULL, &err);

    if (rc < 0)
        stage_die("%s", err.text);
    p->seconds += now() - begin;
    p->steps += rc == 1;
    return rc == 1;
}

uint32_t port_writers(const port_t *p)
{
    return p->file ? port_file_writers(p->file) : flux_stream_writers(p->s);
}

size_t port_get(port_t *p, uint32_t writer, const char *var, const char *type, uint64_t columns,
                const void **data)
{
    struct flux_stream_info info;
    errmsg_t err;
    size_t len;

    if (p->file) {
        size_t rows = port_file_get(p->file, writer, var, type, columns, data, &len);

        p->bytes += len;
        return rows;
    }
    if (flux_stream_inquire(p->s, writer, var, &info, &err) < 0 ||
        flux_stream_get(p->s, writer, var, data, &len, &err) < 0)
        stage_die("%s", err.text);
    if (strcmp(info.type, type) != 0 || info.columns ||
        (columns == 1 ? info.ndims != 1 : info.ndims != 2 || info.count[1] != columns))
        stage_die("%s: %s is not an array of %s with %" PRIu64 " in a row", p->name, var, type,
                  columns);
    p->bytes += len;
    return (size_t)info.count[0];
}

void port_put(port_t *p, const char *var, const char *type, uint64_t rows, uint64_t columns,
              const void *data)
{
    uint64_t count[] = {rows, columns};
    struct flux_stream_array array = {.type = type, .ndims = columns == 1 ? 1 : 2, .count = count};
    double begin = now();
    errmsg_t err;

    if (p->file)
        port_file_put(p->file, var, type, rows, columns, data);
    else if (flux_stream_put_array(p->s, var, &array, data, &err) < 0)
        stage_die("%s", err.text);
    p->seconds += now() - begin;
}

void port_end(port_t *p)
{
    double begin = now();
    errmsg_t err;

    if (p->file)
        port_file_end(p->file);
    else if (flux_stream_end_step(p->s, -1., &err) < 0)
        stage_die("%s", err.text);
    p->seconds += now() - begin;
}

void port_switch(port_t *p, const char *onoff, bool on)
{
    errmsg_t err;

    if (!p->file && flux_stream_switch(p->h, onoff, on, &err) < 0)
        stage_die("%s", err.text);
}

static void port_close(port_t *p)
{
    if (p->file)
        port_file_close(p->file);
    flux_stream_close(p->s);
    flux_close(p->h);
    free(p);
}

void port_finish(port_t *in, port_t *out)
{
    double whole = now() - began;

    printf("%s %" PRIu32 ": %" PRIu64 " steps, %.1f MB, %.3f s: %.3f s waiting, %.3f s in output\n",
           stage.name, stage.rank, in->steps, (double)in->bytes / 1e6, whole, in->seconds,
           out->seconds);
    port_close(in);
    port_close(out);
}
