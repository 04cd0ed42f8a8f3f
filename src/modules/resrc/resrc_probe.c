/* resrc_probe.c - runs flux-inventory beside the broker (see resrc_probe.h).
 *
 *    state      what happens                               left when (by)
 *    running    its output is read; after TIMEOUT it is    both streams have ended and the process
 *               killed (timer_cb)                          is reaped (finish)
 *    over       the callback has been called; nothing is   never
 *               watched any more
 *
 * The output is bounded: more than OUT_MAX bytes are a failure.
 *
 * The broker's main loop may reap the process before this thread does; its exit status is then
 * unknown.  Therefore empty output counts as a failure, not the status.
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/paths.h"
#include "libsubprocess/process.h"
#include "libutil/buf.h"
#include "resrc_probe.h"

#define TIMEOUT 60.
#define OUT_MAX (64u << 20)
#define ERR_MAX 4096
#define READ_SIZE 4096

extern char **environ;

struct stream {
    probe_t *p;
    int number;
    buf_t *buf;
    flux_watcher_t *w;
};

struct probe {
    flux_t *h;
    probe_f cb;
    void *arg;
    process_t *proc;
    struct stream out;
    struct stream err;
    flux_watcher_t *end;
    flux_watcher_t *timer;
    int status;
    bool reaped;
    bool known;          /* `status` is valid */
    const char *failure; /* why this file ended the program, or NULL */
};

static void finish(probe_t *p)
{
    char error[300] = "", words[80];
    size_t len = buf_len(p->err.buf);

    if (!p->failure && buf_len(p->out.buf) > 0) {
        if (buf_append(p->out.buf, "", 1) == 0) {
            p->cb(p, buf_data(p->out.buf), buf_len(p->out.buf) - 1, "", p->arg);
            return;
        }
        p->failure = "has too much to say";
    }
    if (p->failure) {
        snprintf(error, sizeof(error), "flux-inventory %s", p->failure);
    } else if (len > 0) {
        if (len >= sizeof(error))
            len = sizeof(error) - 1;
        memcpy(error, buf_data(p->err.buf), len);
        error[len] = '\0';
        error[strcspn(error, "\n")] = '\0';
    } else {
        snprintf(error, sizeof(error), "flux-inventory said nothing%s%s",
                 p->known ? ", and ended with " : "",
                 p->known ? spawn_status_text(p->status, words, sizeof(words)) : "");
    }
    p->cb(p, NULL, 0, error, p->arg);
}

static void maybe_finish(probe_t *p)
{
    if (p->reaped && !p->out.w && !p->err.w) {
        flux_watcher_stop(p->timer);
        finish(p);
    }
}

static void stream_end(struct stream *s)
{
    flux_watcher_destroy(s->w);
    s->w = NULL;
    process_close(s->p->proc, s->number);
}

static void fail(probe_t *p, const char *why)
{
    if (!p->failure)
        p->failure = why;
    if (!p->reaped)
        process_kill(p->proc, SIGKILL);
}

static void stream_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct stream *s = arg;
    probe_t *p = s->p;
    void *room = buf_reserve(s->buf, READ_SIZE);
    ssize_t n;

    if (!room) {
        if (s == &p->out)
            fail(p, "has too much to say");
        stream_end(s);
        maybe_finish(p);
        return;
    }
    n = read(process_fd(p->proc, s->number), room, READ_SIZE);
    if (n > 0) {
        buf_commit(s->buf, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        stream_end(s);
        maybe_finish(p);
    }
}

static void end_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    probe_t *p = arg;

    int rc = process_reap(p->proc, &p->status);

    if (rc == 0)
        return;
    p->known = rc > 0;
    flux_watcher_destroy(p->end);
    p->end = NULL;
    p->reaped = true;
    maybe_finish(p);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    fail(arg, "took too long: does a device or a file system hang?");
}

static int stream_start(probe_t *p, struct stream *s, int number, size_t max)
{
    s->p = p;
    s->number = number;
    if (!(s->buf = buf_create(max)) ||
        !(s->w = flux_fd_watcher_create(flux_get_reactor(p->h), process_fd(p->proc, number),
                                        FLUX_POLLIN, stream_cb, s)))
        return -1;
    flux_watcher_start(s->w);
    return 0;
}

static int watch(probe_t *p)
{
    flux_reactor_t *r = flux_get_reactor(p->h);

    if (stream_start(p, &p->out, 1, OUT_MAX) < 0 || stream_start(p, &p->err, 2, ERR_MAX) < 0 ||
        !(p->end = flux_fd_watcher_create(r, process_pidfd(p->proc), FLUX_POLLIN, end_cb, p)) ||
        !(p->timer = flux_timer_create(r, timer_cb, p)))
        return -1;
    flux_watcher_start(p->end);
    flux_timer_start(p->timer, TIMEOUT, 0.);
    return 0;
}

probe_t *resrc_probe_start(flux_t *h, const char *arg1, const char *arg2, probe_f cb, void *arg,
                           errmsg_t *err)
{
    char *argv[] = {(char *)"flux-inventory", (char *)arg1, (char *)(arg1 ? arg2 : NULL), NULL};
    char *program = flux_path_exec(argv[0], err);
    struct process_params pp = {.spawn = {.path = program, .argv = argv, .envp = environ},
                                .pipes = PROCESS_STDIN | PROCESS_STDOUT | PROCESS_STDERR};
    probe_t *p = program ? calloc(1, sizeof(*p)) : NULL;

    if (p) {
        p->h = h;
        p->cb = cb;
        p->arg = arg;
        if (!(p->proc = process_create(&pp, err))) {
            free(p);
            p = NULL;
        } else if (process_close(p->proc, 0), watch(p) < 0) {
            errmsg_fail(err, errno, "cannot run flux-inventory: %s", strerror(errno));
            resrc_probe_destroy(p);
            p = NULL;
        }
    } else if (program) {
        errmsg_fail(err, ENOMEM, "no memory to run flux-inventory");
    }
    free(program);
    return p;
}

void resrc_probe_destroy(probe_t *p)
{
    int saved = errno;

    if (!p)
        return;
    flux_watcher_destroy(p->out.w);
    flux_watcher_destroy(p->err.w);
    flux_watcher_destroy(p->end);
    flux_watcher_destroy(p->timer);
    process_destroy(p->proc);
    buf_destroy(p->out.buf);
    buf_destroy(p->err.buf);
    free(p);
    errno = saved;
}
