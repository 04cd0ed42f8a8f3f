/* stream_async.c - a step that is ended without waiting for room in the queues of readers.
 *
 * When a step cannot be published at once, its bytes are copied as they will be in the memory of
 * steps, and the program continues with the next step.  A thread, which exists until the step is
 * published, does the rest: it waits until the stream is neither paused nor throttled, waits for
 * readers that block, copies the step to its place and publishes it.  Messages of the module arrive
 * meanwhile at the handle, in the program's thread, which passes them on to the thread.
 *
 * Each call that ends, or lays out, another step waits for this one first.
 *
 * Invariants:
 *  1. At most one step of a stream is pending, so that the memory for it has a bound.
 *  2. While a step is pending, only the thread begins, commits or aborts steps in the outlet.  The
 *     fields of the stream belong to the program's thread.
 *
 * Failure: flux_stream_wait_step(), or the call that waits in its place, returns the error of the
 * thread, and the step is lost.  A stream that is removed, or closed for too long, cancels the
 * wait.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libstream/stream_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

#define SLICE 0.1 /* seconds between two checks whether the wait was canceled */

struct stream_async {
    outlet_t *out;
    char *image; /* the bytes of the step; NULL: it has its place in the outlet already */
    uint64_t size;
    uint64_t step;
    bool pin; /* the step has pinned variables */
    int fd;   /* readable when the thread is done */
    pthread_t thread;

    pthread_mutex_t lock; /* of all fields below */
    pthread_cond_t cond;  /* on the monotonic clock */
    bool paused;
    double due; /* when the step may be published */
    int canceled;
    bool done;
    int errnum; /* 0: the step is published */
    double held;
    errmsg_t err;
};

/* --- the thread --- */

/* Wait on the condition, with the lock, until `until` (INFINITY: any time). */
static void cond_wait(struct stream_async *a, double until)
{
    struct timespec ts;

    if (isinf(until)) {
        pthread_cond_wait(&a->cond, &a->lock);
        return;
    }
    ts.tv_sec = (time_t)until;
    ts.tv_nsec = (long)((until - (double)ts.tv_sec) * 1e9);
    pthread_cond_timedwait(&a->cond, &a->lock, &ts);
}

/* Wait until the step may be published.  0, or the errno why it must not be. */
static int hold(struct stream_async *a)
{
    double begin = clock_now();
    int errnum;

    pthread_mutex_lock(&a->lock);
    while (a->canceled == 0 && (a->paused || clock_now() < a->due))
        cond_wait(a, a->paused ? INFINITY : a->due);
    a->held = clock_now() - begin;
    errnum = a->canceled;
    pthread_mutex_unlock(&a->lock);
    return errnum;
}

static int canceled(struct stream_async *a)
{
    int errnum;

    pthread_mutex_lock(&a->lock);
    errnum = a->canceled;
    pthread_mutex_unlock(&a->lock);
    return errnum;
}

/* Give the step its place.  0, and whether anybody sees it; or an errno. */
static int place(struct stream_async *a, bool *placed)
{
    int errnum = 0;
    void *buf;

    *placed = !a->image;
    while (errnum == 0 && !*placed && outlet_wanted(a->out)) {
        if (outlet_begin(a->out, a->step, a->size, SLICE, &buf, &a->err) == 0) {
            memcpy(buf, a->image, a->size);
            *placed = true;
        } else if (errno == ETIMEDOUT)
            errnum = canceled(a);
        else
            errnum = errno;
    }
    return errnum;
}

static void *async_main(void *arg)
{
    static const uint64_t one = 1;
    struct stream_async *a = arg;
    bool placed = false;
    int errnum = hold(a);

    if (errnum == 0)
        errnum = place(a, &placed);
    if (a->pin)
        outlet_pin_commit(a->out);
    if (placed)
        outlet_commit(a->out, a->size);
    else if (!a->image)
        outlet_abort(a->out);
    pthread_mutex_lock(&a->lock);
    a->errnum = errnum;
    a->done = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
    while (write(a->fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    return NULL;
}

/* --- the program's thread --- */

/* Called for a message of the module while a step is pending. */
static void heard_cb(flux_future_t *f, void *arg)
{
    flux_stream_t *s = arg;

    stream_writer_take(s, NULL);
}

void stream_async_listen(flux_stream_t *s)
{
    if (s->pending)
        flux_future_then(s->f, 0., heard_cb, s);
}

void stream_async_update(flux_stream_t *s, int errnum)
{
    struct stream_async *a = s->pending;

    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->paused = s->paused;
    if (s->limit == 0. || s->due == 0.)
        a->due = 0.;
    if (errnum > 0)
        a->canceled = errnum;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

static void async_destroy(struct stream_async *a)
{
    int saved = errno;

    if (!a)
        return;
    if (a->fd >= 0)
        close(a->fd);
    pthread_cond_destroy(&a->cond);
    pthread_mutex_destroy(&a->lock);
    free(a->image);
    free(a);
    errno = saved;
}

static struct stream_async *async_create(flux_stream_t *s, errmsg_t *err)
{
    struct stream_async *a = calloc(1, sizeof(*a));
    pthread_condattr_t attr;

    if (!a) {
        errmsg_fail(err, ENOMEM, "out of memory for step %" PRIu64 " of stream '%s'", s->step,
                    s->name);
        return NULL;
    }
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->cond, &attr);
    pthread_condattr_destroy(&attr);
    a->out = s->out;
    a->step = s->step;
    if ((a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s' cannot wait: %s", s->step, s->name,
                    strerror(errno));
    if (a->fd < 0 || (!s->placed && !(a->image = stream_writer_image(s, err)))) {
        async_destroy(a);
        return NULL;
    }
    a->size = block_size(s->vars);
    if (!s->cleared) {
        a->paused = s->paused;
        if (s->limit > 0.)
            a->due = stream_writer_due(s);
    }
    return a;
}

static int async_start(struct stream_async *a)
{
    sigset_t all;
    sigset_t old;
    int rc;

    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&a->thread, NULL, async_main, a);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = rc;
    return rc == 0 ? 0 : -1;
}

int flux_stream_end_step_async(flux_stream_t *s, errmsg_t *err)
{
    struct stream_async *a;
    double now = 0.;
    int pin = 0;

    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    if (s->pending && stream_writer_settle(s, &now, err) < 0) {
        if (errno != ETIMEDOUT)
            return -1;
        return errmsg_fail(err, EBUSY, "step %" PRIu64 " of stream '%s' is not published yet",
                           s->pending->step, s->name);
    }
    INVARIANT(1, !s->pending);
    if (stream_writer_end(s, 0., err) == 0)
        return 1;
    if (errno != ETIMEDOUT)
        return -1;
    if ((a = async_create(s, err)) && (pin = stream_pin_update(s, err)) >= 0) {
        a->pin = pin > 0;
        if (async_start(a) < 0)
            errmsg_fail(err, errno, "step %" PRIu64 " of stream '%s' gets no thread: %s", s->step,
                        s->name, strerror(errno));
        else
            s->pending = a;
    }
    if (!s->pending) {
        if (pin > 0)
            outlet_pin_commit(s->out);
        async_destroy(a);
        stream_writer_forget(s);
        return -1;
    }
    stream_async_listen(s);
    stream_writer_next(s);
    return 0;
}

/* The thread is done: report its result. */
static int async_end(flux_stream_t *s, errmsg_t *err)
{
    struct stream_async *a = s->pending;
    int rc = 0;

    pthread_join(a->thread, NULL);
    s->pending = NULL;
    flux_future_then(s->f, 0., NULL, NULL);
    s->held += a->held;
    if (a->errnum > 0 && a->errnum == a->canceled)
        rc = errmsg_fail(err, a->errnum, "step %" PRIu64 " of stream '%s' was not published: %s",
                         a->step, s->name,
                         a->errnum == ECANCELED ? "the stream was removed" : "it was closed");
    else if (a->errnum > 0)
        rc = errmsg_fail(err, a->errnum, "%s", a->err.text);
    INVARIANT(2, a->done);
    async_destroy(a);
    return rc;
}

int stream_async_wait(flux_stream_t *s, double timeout, errmsg_t *err)
{
    double until = timeout < 0. ? INFINITY : clock_now() + timeout;
    struct stream_async *a = s->pending;

    while (a) {
        double now = clock_now();
        bool done;

        pthread_mutex_lock(&a->lock);
        if (!a->done && now < until)
            cond_wait(a, now + SLICE < until ? now + SLICE : until);
        done = a->done;
        pthread_mutex_unlock(&a->lock);
        if (done)
            return async_end(s, err);
        stream_writer_report(s, NULL); /* cancels the step if the stream was removed */
        if (clock_now() >= until)
            return errmsg_fail(err, ETIMEDOUT,
                               "step %" PRIu64 " of stream '%s' has waited %g s to be published",
                               a->step, s->name, timeout);
    }
    return 0;
}

void stream_async_close(flux_stream_t *s, double seconds)
{
    if (!s->pending || stream_async_wait(s, seconds, NULL) == 0 || !s->pending)
        return;
    stream_async_update(s, ETIMEDOUT);
    stream_async_wait(s, -1., NULL);
}

int stream_async_fd(flux_stream_t *s, errmsg_t *err)
{
    if (s->pending)
        return s->pending->fd;
    return errmsg_fail(err, EAGAIN, "stream '%s' has no step that waits to be published", s->name);
}

int flux_stream_wait_step(flux_stream_t *s, double timeout, errmsg_t *err)
{
    if (s->mode != FLUX_STREAM_WRITE)
        return errmsg_fail(err, EINVAL, "stream '%s' was opened for reading", s->name);
    return stream_async_wait(s, timeout, err);
}
