/* taskout.c - write the output of tasks to the standard streams of this program.
 *
 * If a pipe or terminal has no room, the reactor waits for it and writes the data in pieces that
 * fit, so that signals are handled while the reader is stopped.  The caller bounds the amount of
 * queued data, by credit or by not requesting more.
 *
 * With labels, a line is held until it is complete or has LINE_MAX_HELD bytes; in the latter case
 * the part is printed as a line of its own, so that an endless line does not hold back other
 * output.
 *
 * Failure: an error of a stream is reported once, and further data for it is discarded.
 */
#include "config.h"
#include "taskout.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/buf.h"
#include "libutil/hmap.h"

#define LINE_MAX_HELD 65536

struct outsink {
    flux_reactor_t *reactor;
    int fd;       /* -1: swallow */
    bool regular; /* never waited for */
    buf_t *buf;   /* what has no room yet */
    flux_watcher_t *w;
    struct outsink_cb cb;
};

outsink_t *outsink_create(flux_reactor_t *r, int fd, const struct outsink_cb *cb)
{
    outsink_t *s = calloc(1, sizeof(*s));
    struct stat st;

    if (!s || !(s->buf = buf_create(0))) {
        free(s);
        return NULL;
    }
    s->reactor = r;
    s->fd = fd;
    s->cb = *cb;
    if (fstat(fd, &st) < 0)
        s->fd = -1;
    else
        s->regular = S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(fd));
    return s;
}

void outsink_destroy(outsink_t *s)
{
    int saved = errno;

    if (!s)
        return;
    flux_watcher_destroy(s->w);
    buf_destroy(s->buf);
    free(s);
    errno = saved;
}

size_t outsink_waiting(const outsink_t *s)
{
    return buf_len(s->buf);
}

static void sink_failed(outsink_t *s, int errnum)
{
    s->fd = -1;
    buf_consume(s->buf, buf_len(s->buf));
    flux_watcher_stop(s->w);
    s->cb.failed(s->cb.arg, errnum);
}

/* As much as goes without waiting; `len` or less, -1 after an error. */
static ssize_t write_some(outsink_t *s, const char *p, size_t len)
{
    size_t done = 0;

    while (done < len) {
        struct pollfd pfd = {s->fd, POLLOUT, 0};
        size_t n = len - done;
        ssize_t w;

        if (!s->regular) {
            if (poll(&pfd, 1, 0) <= 0)
                break;
            if (n > PIPE_BUF)
                n = PIPE_BUF;
        }
        w = write(s->fd, p + done, n);
        if (w > 0)
            done += (size_t)w;
        else if (w < 0 && errno == EAGAIN)
            break;
        else if (w < 0 && errno != EINTR)
            return -1;
    }
    return (ssize_t)done;
}

void outsink_flush(outsink_t *s)
{
    ssize_t n = s->fd < 0 ? 0 : write_some(s, buf_data(s->buf), buf_len(s->buf));

    if (n < 0) {
        sink_failed(s, errno);
        return;
    }
    buf_consume(s->buf, (size_t)n);
    if (buf_len(s->buf) == 0)
        flux_watcher_stop(s->w);
    s->cb.drained(s->cb.arg);
}

static void sink_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    outsink_flush(arg);
}

void outsink_write(outsink_t *s, const void *data, size_t len)
{
    const char *p = data;

    if (s->fd < 0)
        return;
    if (buf_len(s->buf) == 0) {
        ssize_t n = write_some(s, p, len);

        if (n < 0) {
            sink_failed(s, errno);
            return;
        }
        p += n;
        len -= (size_t)n;
    }
    if (len == 0)
        return;
    if (buf_append(s->buf, p, len) < 0) {
        sink_failed(s, errno);
        return;
    }
    if (!s->w)
        s->w = flux_fd_watcher_create(s->reactor, s->fd, FLUX_POLLOUT, sink_cb, s);
    if (s->w)
        flux_watcher_start(s->w);
}

struct taskout {
    struct taskout_params p;
    outsink_t *sink[2];
    hmap_t *lines; /* task * 2 + stream -> unfinished line */
};

static void free_line(void *arg)
{
    buf_destroy(arg);
}

taskout_t *taskout_create(const struct taskout_params *p, outsink_t *out, outsink_t *err)
{
    taskout_t *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->p = *p;
    t->sink[0] = out;
    t->sink[1] = err;
    if (p->label && !(t->lines = hmap_create_u64(free_line))) {
        free(t);
        return NULL;
    }
    return t;
}

void taskout_destroy(taskout_t *t)
{
    int saved = errno;

    if (!t)
        return;
    hmap_destroy(t->lines);
    free(t);
    errno = saved;
}

void taskout_set_ranks(taskout_t *t, const idset_t *ranks)
{
    t->p.ranks = ranks;
}

static void write_label(taskout_t *t, outsink_t *s, uint32_t task)
{
    char label[96];
    uint32_t num = t->p.ranks ? idset_nth(t->p.ranks, task) : task;
    int n = snprintf(label, sizeof(label), "%s%u: ", t->p.prefix ? t->p.prefix : "", num);

    if (n > 0)
        outsink_write(s, label, (size_t)n < sizeof(label) ? (size_t)n : sizeof(label) - 1);
}

/* Whole lines only, each with its label; the rest waits for its end. */
static void write_lines(taskout_t *t, uint32_t task, uint32_t stream, const char *p, size_t len)
{
    outsink_t *s = t->sink[stream - 1];
    uint64_t key = 2ull * task + (stream - 1);
    buf_t *part = hmap_get_u64(t->lines, key);
    const char *end = p + len, *nl;

    while (p < end && (nl = memchr(p, '\n', (size_t)(end - p)))) {
        write_label(t, s, task);
        if (part && buf_len(part) > 0) {
            outsink_write(s, buf_data(part), buf_len(part));
            buf_consume(part, buf_len(part));
        }
        outsink_write(s, p, (size_t)(nl + 1 - p));
        p = nl + 1;
    }
    if (p == end)
        return;
    if (!part && (!(part = buf_create(0)) || hmap_put_u64(t->lines, key, part) < 0)) {
        buf_destroy(part);
        return;
    }
    if (buf_append(part, p, (size_t)(end - p)) == 0 && buf_len(part) >= LINE_MAX_HELD) {
        write_label(t, s, task);
        outsink_write(s, buf_data(part), buf_len(part));
        outsink_write(s, "\n", 1);
        buf_consume(part, buf_len(part));
    }
}

void taskout_write(taskout_t *t, uint32_t task, uint32_t stream, const void *data, size_t len)
{
    if (t->p.label)
        write_lines(t, task, stream, data, len);
    else
        outsink_write(t->sink[stream - 1], data, len);
}

void taskout_finish(taskout_t *t)
{
    size_t pos = 0;
    uint64_t key;
    void *val;

    while (t->lines && hmap_next(t->lines, &pos, NULL, &key, &val)) {
        outsink_t *s = t->sink[key & 1];

        if (buf_len(val) == 0)
            continue;
        write_label(t, s, (uint32_t)(key / 2));
        outsink_write(s, buf_data(val), buf_len(val));
        outsink_write(s, "\n", 1);
        buf_consume(val, buf_len(val));
    }
}
