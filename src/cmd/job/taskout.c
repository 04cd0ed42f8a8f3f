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
 * Without labels, the data of a task go to the sink as they come, as long as it is the only one
 * that writes there.  Once there is another one, no line is interrupted by another task: while a
 * line of one is open (its beginning was written, its end was not), the data of the others are
 * held.  The line is given up, and the next one may begin, when nothing has come from its task for
 * PATIENCE seconds, so that a prompt holds back nothing for long; when another task has more than
 * LINE_MAX_HELD bytes held, and all together have ALL_MAX_HELD; and when the job ends.  No byte is
 * added.
 *
 *    list of the sink   what its entries (a task each) hold          leave it when
 *    READY              at least one whole line                      the open line ends: the whole
 *                                                                    lines are written
 *    PART               no end of a line                             the open line ends: the first
 *                                                                    one is written, and is open
 *    TAIL               no end of a line, of a task that writes      its end comes, or nothing for
 *                       pieces of BULK bytes and more: so the end    PATIENCE seconds
 *                       is near, and others need not wait for it
 *
 * 1. READY and PART are empty while no line is open.
 * 2. The task of the open line holds nothing.
 * 3. TAIL is in the order of the times since which its entries wait.
 * 4. Work for a piece of output does not depend on the number of tasks.
 *
 * Failure: an error of a stream is reported once, and further data for it is discarded.  Without
 * memory to hold data, they are written at once, with labels as a line of their own.
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
#include "libutil/list.h"

#define LINE_MAX_HELD 65536
#define ALL_MAX_HELD (1024 * 1024)
#define PATIENCE 1.
#define BULK 4096

enum { READY, PART, TAIL, NLISTS, NOWHERE };

struct outsink {
    flux_reactor_t *reactor;
    int fd;       /* -1: swallow */
    bool regular; /* never waited for */
    buf_t *buf;   /* what has no room yet */
    flux_watcher_t *w;
    struct outsink_cb cb;
    /* of lines without labels */
    const taskout_t *writer; /* the last one, with the key of its task; NULL: none yet */
    uint64_t writer_key;
    bool shared; /* another one has come */
    bool open;   /* the last byte written was not the end of a line */
    double last; /* time of the last piece from the task of the open line */
    struct list_node held[NLISTS];
    size_t nheld; /* bytes */
    flux_watcher_t *timer;
};

/* Of one task and stream: an unfinished line, or with others before and after it. */
struct line {
    taskout_t *t;
    uint64_t key;
    buf_t *buf;
    double last; /* time of the last piece, or since when the end of a line is waited for */
    bool bulk;   /* which was large, or came within PATIENCE of one that was */
    int list;    /* of the sink; NOWHERE: `buf` is empty, or there are labels */
    struct list_node node;
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
    for (int i = 0; i < NLISTS; i++)
        list_init(&s->held[i]);
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
    flux_watcher_destroy(s->timer);
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
    hmap_t *lines; /* task * 2 + stream -> struct line; with labels, and where tasks share a sink */
};

static void line_destroy(void *arg)
{
    struct line *l = arg;

    if (!l)
        return;
    if (l->list != NOWHERE)
        l->t->sink[l->key & 1]->nheld -= buf_len(l->buf);
    list_remove(&l->node);
    buf_destroy(l->buf);
    free(l);
}

static struct line *get_line(taskout_t *t, uint64_t key)
{
    struct line *l = hmap_get_u64(t->lines, key);

    if (l || !(l = calloc(1, sizeof(*l))))
        return l;
    list_init(&l->node);
    l->list = NOWHERE;
    l->t = t;
    l->key = key;
    if (!(l->buf = buf_create(0)) || hmap_put_u64(t->lines, key, l) < 0) {
        line_destroy(l);
        return NULL;
    }
    return l;
}

taskout_t *taskout_create(const struct taskout_params *p, outsink_t *out, outsink_t *err)
{
    taskout_t *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->p = *p;
    t->sink[0] = out;
    t->sink[1] = err;
    if (!(t->lines = hmap_create_u64(line_destroy))) {
        free(t);
        return NULL;
    }
    return t;
}

/* Its tasks write no more. */
static void leave_sink(const taskout_t *t, outsink_t *s)
{
    if (s->writer == t) {
        s->writer = NULL;
        s->open = false;
    }
}

void taskout_destroy(taskout_t *t)
{
    int saved = errno;

    if (!t)
        return;
    leave_sink(t, t->sink[0]);
    leave_sink(t, t->sink[1]);
    hmap_destroy(t->lines);
    free(t);
    errno = saved;
}

void taskout_set_ranks(taskout_t *t, const idset_t *ranks)
{
    t->p.ranks = ranks;
}

/* --- with labels --- */

static void write_label(taskout_t *t, outsink_t *s, uint32_t task)
{
    char label[96];
    uint32_t num = t->p.ranks ? idset_nth(t->p.ranks, task) : task;
    int n = snprintf(label, sizeof(label), "%s%u: ", t->p.prefix ? t->p.prefix : "", num);

    if (n > 0)
        outsink_write(s, label, (size_t)n < sizeof(label) ? (size_t)n : sizeof(label) - 1);
}

static void write_held(outsink_t *s, struct line *l, size_t len)
{
    outsink_write(s, buf_data(l->buf), len);
    buf_consume(l->buf, len);
}

/* The label, what is held of the line, and these bytes. */
static void write_line(taskout_t *t, uint64_t key, struct line *l, const char *p, size_t len)
{
    outsink_t *s = t->sink[key & 1];

    write_label(t, s, (uint32_t)(key / 2));
    if (l && buf_len(l->buf) > 0)
        write_held(s, l, buf_len(l->buf));
    outsink_write(s, p, len);
}

/* Whole lines only, each with its label; the rest waits for its end. */
static void write_lines(taskout_t *t, uint64_t key, const char *p, size_t len)
{
    struct line *l = hmap_get_u64(t->lines, key);
    const char *end = p + len, *nl;

    while (p < end && (nl = memchr(p, '\n', (size_t)(end - p)))) {
        write_line(t, key, l, p, (size_t)(nl + 1 - p));
        p = nl + 1;
    }
    if (p == end)
        return;
    if (!(l = get_line(t, key)) || buf_append(l->buf, p, (size_t)(end - p)) < 0) {
        write_line(t, key, l, p, (size_t)(end - p));
        outsink_write(t->sink[key & 1], "\n", 1);
    } else if (buf_len(l->buf) >= LINE_MAX_HELD) {
        write_line(t, key, l, "\n", 1);
    }
}

/* --- without labels --- */

/* The bytes up to the last end of a line. */
static size_t whole_lines(const void *p, size_t len)
{
    const char *nl = memrchr(p, '\n', len);

    return nl ? (size_t)(nl + 1 - (const char *)p) : 0;
}

static void hold_in(outsink_t *s, struct line *l, int list)
{
    list_remove(&l->node);
    l->list = list;
    if (list != NOWHERE)
        list_append(&s->held[list], &l->node);
}

static void write_piece(outsink_t *s, const taskout_t *t, uint64_t key, const char *p, size_t len,
                        double now)
{
    outsink_write(s, p, len);
    s->writer = t;
    s->writer_key = key;
    s->open = p[len - 1] != '\n';
    s->last = now;
}

/* All that it holds, in the midst of whatever line is open. */
static void spill(outsink_t *s, struct line *l)
{
    if (buf_len(l->buf) > 0)
        write_piece(s, l->t, l->key, buf_data(l->buf), buf_len(l->buf), l->last);
    s->nheld -= buf_len(l->buf);
    buf_consume(l->buf, buf_len(l->buf));
    hold_in(s, l, NOWHERE);
}

/* Write what no open line keeps from it. */
static void release(outsink_t *s, double now)
{
    struct list_node *n;

    if (s->open && now - s->last >= PATIENCE)
        s->open = false;
    while (!s->open && (n = list_first(&s->held[READY]))) {
        struct line *l = list_entry(n, struct line, node);
        size_t len = whole_lines(buf_data(l->buf), buf_len(l->buf));

        write_held(s, l, len);
        s->nheld -= len;
        l->last = now;
        hold_in(s, l, buf_len(l->buf) == 0 ? NOWHERE : l->bulk ? TAIL : PART);
    }
    while (!s->open && (n = list_first(&s->held[PART]))) {
        spill(s, list_entry(n, struct line, node));
        s->open = now - s->last < PATIENCE;
    }
    while (!s->open && (n = list_first(&s->held[TAIL]))) {
        if (now - list_entry(n, struct line, node)->last < PATIENCE)
            break;
        spill(s, list_entry(n, struct line, node));
        s->open = false;
    }
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg);

/* While something is held, it runs to the earliest time at which something may change. */
static void set_timer(outsink_t *s, double now)
{
    struct list_node *tail = list_first(&s->held[TAIL]);
    double since;

    if (s->open && !(list_empty(&s->held[READY]) && list_empty(&s->held[PART]) && !tail))
        since = s->last;
    else if (tail)
        since = list_entry(tail, struct line, node)->last;
    else
        return;
    if (!s->timer && (s->timer = flux_timer_create(s->reactor, timer_cb, s)))
        flux_watcher_unref(s->timer);
    if (s->timer && !flux_watcher_active(s->timer))
        flux_timer_start(s->timer, since + PATIENCE > now ? since + PATIENCE - now : 0., 0.);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    outsink_t *s = arg;
    double now = flux_reactor_now(r);

    release(s, now);
    set_timer(s, now);
}

/* Add to what a task holds, which is written by release(). */
static void hold(outsink_t *s, struct line *l, const char *p, size_t len)
{
    bool ready = l->list == READY || memchr(p, '\n', len);

    if (buf_append(l->buf, p, len) < 0) {
        spill(s, l);
        write_piece(s, l->t, l->key, p, len, l->last);
        return;
    }
    s->nheld += len;
    if (buf_len(l->buf) > LINE_MAX_HELD && s->nheld > ALL_MAX_HELD) {
        s->open = false; /* the line of another task is given up */
        if (!ready) {
            spill(s, l);
            return;
        }
    }
    hold_in(s, l, ready ? READY : l->bulk ? TAIL : PART);
}

/* Of a task that holds nothing, while no line of another one is open. */
static void write_through(outsink_t *s, struct line *l, const char *p, size_t len)
{
    size_t n = whole_lines(p, len);
    bool mine = s->open;

    if (n > 0) {
        write_piece(s, l->t, l->key, p, n, l->last);
        mine = false;
        release(s, l->last);
    }
    if (n == len)
        return;
    if (!mine && (s->open || l->bulk))
        hold(s, l, p + n, len - n);
    else
        write_piece(s, l->t, l->key, p + n, len - n, l->last);
}

static void write_shared(outsink_t *s, struct line *l, const char *p, size_t len, double now)
{
    bool mine = s->writer == l->t && s->writer_key == l->key;

    l->bulk = len >= BULK || (l->bulk && now - l->last < PATIENCE);
    l->last = now;
    if ((s->open && !mine) || (buf_len(l->buf) > 0 && !memchr(p, '\n', len))) {
        hold(s, l, p, len);
    } else {
        spill(s, l);
        write_through(s, l, p, len);
    }
}

static void write_plain(taskout_t *t, uint64_t key, const char *p, size_t len)
{
    outsink_t *s = t->sink[key & 1];
    double now = flux_reactor_now(s->reactor);
    struct line *l;

    if (len == 0)
        return;
    if (s->writer && !(s->writer == t && s->writer_key == key))
        s->shared = true;
    if (!s->shared) {
        write_piece(s, t, key, p, len, now);
        return;
    }
    release(s, now);
    if ((l = get_line(t, key)))
        write_shared(s, l, p, len, now);
    else
        write_piece(s, t, key, p, len, now);
    release(s, now);
    set_timer(s, now);
}

void taskout_write(taskout_t *t, uint32_t task, uint32_t stream, const void *data, size_t len)
{
    uint64_t key = 2ull * task + (stream - 1);

    if (t->p.label)
        write_lines(t, key, data, len);
    else
        write_plain(t, key, data, len);
}

/* The other jobs of the sinks need not wait for it. */
static void leave_sinks(taskout_t *t)
{
    for (int i = 0; i < 2; i++) {
        leave_sink(t, t->sink[i]);
        release(t->sink[i], flux_reactor_now(t->sink[i]->reactor));
    }
}

void taskout_finish(taskout_t *t)
{
    size_t pos = 0;
    uint64_t key;
    void *val;

    leave_sinks(t); /* first the whole lines */
    while (hmap_next(t->lines, &pos, NULL, &key, &val)) {
        struct line *l = val;

        if (buf_len(l->buf) == 0)
            continue;
        if (t->p.label)
            write_line(t, key, l, "\n", 1);
        else
            spill(t->sink[key & 1], l);
    }
    leave_sinks(t);
}
