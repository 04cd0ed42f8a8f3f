/* trace.c - logs of jobs: the array of jobs, and the reader that splits a file into lines.
 *
 * A file is read in blocks through zlib, which also reads plain files.  A line that is cut off at
 * the end of a block is moved to the front of the next block, so a log takes only the memory of its
 * jobs.
 *
 * Invariants:
 *  1. Every error message about the contents names the file and the line.
 *  2. A line is parsed once its end, or the end of the file, has been seen: nothing is parsed
 *     twice.
 *  3. A value out of range is an error here.  Jobs that a machine cannot run are dropped in
 *     trace_edit.c.
 *
 * Failure: the first error ends the reading, and no part of a trace is returned.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "trace_private.h"

#define BLOCK ((size_t)256 * 1024)
#define LINE_MAX_BYTES ((size_t)64 * 1024)

struct reader {
    trace_t *t;
    const char *name;
    uint32_t ppn;
    size_t number;   /* lines so far */
    bool known, csv; /* which format it is */
    struct trace_csv columns;
    errmsg_t *err;
};

/* --- the array --- */

static trace_t *trace_create(errmsg_t *err)
{
    trace_t *t = calloc(1, sizeof(*t));

    if (!t)
        errmsg_set(err, "out of memory");
    return t;
}

void trace_destroy(trace_t *t)
{
    int saved = errno;

    if (t)
        free(t->jobs);
    free(t);
    errno = saved;
}

const struct trace_job *trace_jobs(const trace_t *t)
{
    return t->jobs;
}

size_t trace_count(const trace_t *t)
{
    return t->n;
}

int trace_add(trace_t *t, const struct trace_job *job, errmsg_t *err)
{
    if (t->n == t->space) {
        size_t space = t->space ? t->space + t->space / 2 : 1024;
        struct trace_job *jobs = reallocarray(t->jobs, space, sizeof(*jobs));

        if (!jobs)
            return errmsg_fail(err, ENOMEM, "out of memory after %zu jobs", t->n);
        t->jobs = jobs;
        t->space = space;
    }
    t->jobs[t->n++] = *job;
    return 0;
}

/* --- numbers --- */

int trace_number(const struct trace_line *l, const char *what, const char *s, size_t len,
                 int64_t *out, errmsg_t *err)
{
    size_t i = 0, digits = 0;
    int64_t value = 0;
    bool negative = false, large = false;

    if (i < len && (s[i] == '-' || s[i] == '+'))
        negative = s[i++] == '-';
    for (; i < len && s[i] >= '0' && s[i] <= '9'; i++, digits++) {
        value = value * 10 + (s[i] - '0');
        if (value > TRACE_VALUE_MAX) {
            large = true;
            value = TRACE_VALUE_MAX;
        }
    }
    if (i < len && s[i] == '.')
        for (i++; i < len && s[i] >= '0' && s[i] <= '9'; i++)
            digits++;
    if (i < len || digits == 0)
        return errmsg_fail(err, EINVAL, "%s, line %zu: %s '%.*s' is not a number", l->name,
                           l->number, what, (int)(len < 40 ? len : 40), s);
    if (large)
        return errmsg_fail(err, EINVAL, "%s, line %zu: %s '%.*s' is out of range", l->name,
                           l->number, what, (int)(len < 40 ? len : 40), s);
    *out = negative ? -value : value;
    return 0;
}

/* --- lines --- */

static bool is_blank(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] != ' ' && s[i] != '\t')
            return false;
    return true;
}

static int read_line(struct reader *r, const char *text, size_t len)
{
    struct trace_line l = {r->name, ++r->number, text, len};

    if (len > 0 && text[len - 1] == '\r')
        l.len--;
    if (memchr(text, '\0', len))
        return errmsg_fail(r->err, EINVAL, "%s, line %zu holds a NUL byte: it is not a log of jobs",
                           r->name, r->number);
    if (is_blank(l.text, l.len))
        return 0;
    if (!r->known && trace_csv_is_header(&l)) {
        r->known = r->csv = true;
        return trace_csv_header(&r->columns, &l, r->err);
    }
    if (r->csv)
        return trace_csv_line(r->t, &r->columns, &l, r->err);
    if (l.text[strspn(l.text, " \t")] == ';')
        return 0;
    r->known = true;
    return trace_swf_line(r->t, &l, r->ppn, r->err);
}

/* Parse the complete lines of a block; with `last` also the text behind the last newline.  The
 * number of parsed bytes goes to *used. */
static int read_block(struct reader *r, const char *data, size_t len, bool last, size_t *used)
{
    size_t at = 0;

    while (at < len) {
        const char *end = memchr(data + at, '\n', len - at);
        size_t n = end ? (size_t)(end - data) - at : len - at;

        if (n > LINE_MAX_BYTES)
            return errmsg_fail(r->err, EINVAL, "%s, line %zu is longer than %zu bytes", r->name,
                               r->number + 1, LINE_MAX_BYTES);
        if (!end && !last)
            break;
        if (read_line(r, data + at, n) < 0)
            return -1;
        at += n + (end ? 1 : 0);
    }
    *used = at;
    return 0;
}

/* A file without jobs is an error, and not an empty log. */
static int read_done(struct reader *r)
{
    if (r->t->n == 0)
        return errmsg_fail(r->err, EINVAL, "%s holds no job", r->name);
    return 0;
}

static int read_error(struct reader *r, gzFile f)
{
    int code;
    const char *text = gzerror(f, &code);

    if (code == Z_ERRNO)
        return errmsg_fail(r->err, errno ? errno : EIO, "cannot read %s, line %zu: %s", r->name,
                           r->number + 1, strerror(errno));
    return errmsg_fail(r->err, code == Z_MEM_ERROR ? ENOMEM : EINVAL,
                       "%s, line %zu: the compressed file is broken (%s)", r->name, r->number + 1,
                       code == Z_BUF_ERROR ? "it ends too early" : text);
}

static int read_all(struct reader *r, gzFile f, char *block)
{
    size_t have = 0, used = 0;

    for (;;) {
        int n = gzread(f, block + have, (unsigned int)(BLOCK - have));
        int code = Z_OK;

        /* A truncated file is read up to its end; gzerror() then reports the truncation. */
        if (n >= 0)
            gzerror(f, &code);
        if (n < 0 || (n == 0 && code != Z_OK && code != Z_STREAM_END))
            return read_error(r, f);
        have += (size_t)n;
        block[have] = '\0';
        if (read_block(r, block, have, n == 0, &used) < 0)
            return -1;
        if (n == 0)
            return read_done(r);
        memmove(block, block + used, have - used);
        have -= used;
    }
}

trace_t *trace_read(const char *path, uint32_t ppn, errmsg_t *err)
{
    bool standard = strcmp(path, "-") == 0;
    struct reader r = {.name = standard ? "standard input" : path, .ppn = ppn, .err = err};
    char *block = malloc(BLOCK + 1);
    gzFile f = NULL;
    int fd;

    errno = 0;
    r.t = trace_create(err);
    if (!block || !r.t) {
        errmsg_fail(err, ENOMEM, "out of memory");
        goto fail;
    }
    if (standard && (fd = dup(0)) >= 0) {
        if (!(f = gzdopen(fd, "rb")))
            close(fd);
    } else if (!standard)
        f = gzopen(path, "rbe");
    if (!f) {
        errmsg_fail(err, errno ? errno : ENOMEM, "cannot open %s: %s", r.name,
                    strerror(errno ? errno : ENOMEM));
        goto fail;
    }
    gzbuffer(f, 128 * 1024);
    if (read_all(&r, f, block) < 0)
        goto fail;
    gzclose(f);
    free(block);
    return r.t;
fail:
    if (f) {
        int saved = errno;
        gzclose(f);
        errno = saved;
    }
    trace_destroy(r.t);
    free(block);
    return NULL;
}
