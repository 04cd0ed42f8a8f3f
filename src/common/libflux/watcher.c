/* watcher.c - the watchers of a reactor: timers, files, signals, children, and the end of a pass.
 *
 * All kinds of watchers use one struct.  On libev it embeds the ev_* watcher; another engine gets
 * it through struct flux_reactor_ops.
 *
 *    kind     libev                              other engine
 *    timer    ev_timer                           timer_set / timer_clear
 *    deadline ev_io, a timerfd (CLOCK_BOOTTIME)  timer_set / timer_clear
 *    defer    ev_prepare + ev_idle               defer / defer_clear
 *    fd       ev_io                              ENOTSUP
 *    signal   ev_signal (default loop)           ENOTSUP
 *    child    ev_child (default loop)            ENOTSUP
 *
 * Invariants:
 *  1. A callback may destroy its own or any other watcher of the same reactor.
 *  2. A deferral fires once per start: before the loop sleeps, and after all ready watchers have
 *     been handled.
 *  3. A watcher after flux_watcher_unref() never keeps flux_reactor_run() from returning.
 *
 * Failure: creation returns NULL with errno.  Starting a watcher cannot fail, but libev aborts the
 * process if it has no memory for its tables, which grow with the watchers started here.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "reactor_private.h"

#define DEADLINE_MIN 1e-9 /* seconds: 0 would mean never */
#define DEADLINE_MAX 1e9

static flux_watcher_t *watcher_create(flux_reactor_t *r, enum flux_watcher_kind kind,
                                      flux_watcher_f cb, void *arg)
{
    flux_watcher_t *w;

    if (!r->loop && kind != KIND_TIMER && kind != KIND_DEADLINE && kind != KIND_DEFER) {
        errno = ENOTSUP;
        return NULL;
    }
    if (!(w = calloc(1, sizeof(*w))))
        return NULL;
    w->r = r;
    list_init(&w->node);
    if (r->part)
        list_append(&r->watchers, &w->node);
    w->kind = kind;
    w->cb = cb;
    w->arg = arg;
    return w;
}

static void call(flux_watcher_t *w, int revents)
{
    static const char *const kinds[] = {[KIND_TIMER] = "a timer",
                                        [KIND_DEADLINE] = "a deadline",
                                        [KIND_FD] = "a file",
                                        [KIND_DEFER] = "deferred work"};
    flux_reactor_t *r = w->r;
    const char *kind = kinds[w->kind];
    flux_watcher_f cb = w->cb;
    double begin;

    if (!r->part) {
        w->cb(r, w, revents, w->arg);
    } else if (!r->stopped) {
        begin = flux_reactor_clock(r);
        w->cb(r, w, revents, w->arg);
        r->part->turn(r->part_arg, kind, cb, flux_reactor_clock(r) - begin);
    }
}

static void timer_cb(struct ev_loop *loop, ev_timer *t, int revents)
{
    flux_watcher_t *w = t->data;

    /* The time of the pass must not be before the time for which the timer was set. */
    w->r->whole->now = flux_reactor_clock(w->r);
    if (!ev_is_active(t)) {
        w->active = false;
        if (w->unref)
            ev_ref(loop);
    }
    call(w, 0);
}

static void deadline_cb(struct ev_loop *loop, ev_io *io, int revents)
{
    flux_watcher_t *w = io->data;
    uint64_t count;

    if (read(io->fd, &count, sizeof(count)) < 0)
        return; /* the timer was set again after the loop had found it ready */
    w->r->whole->now = flux_reactor_clock(w->r);
    flux_watcher_stop(w);
    call(w, 0);
}

/* 0: never. */
static void deadline_set(flux_watcher_t *w, double after)
{
    struct itimerspec t = {.it_value = {.tv_sec = (time_t)after}};

    t.it_value.tv_nsec = (long)((after - (double)t.it_value.tv_sec) * 1e9);
    (void)timerfd_settime(w->ev.io.fd, 0, &t, NULL);
}

static void io_cb(struct ev_loop *loop, ev_io *io, int revents)
{
    int ready = 0;

    if (revents & EV_READ)
        ready |= FLUX_POLLIN;
    if (revents & EV_WRITE)
        ready |= FLUX_POLLOUT;
    if (revents & EV_ERROR)
        ready |= FLUX_POLLERR;
    call(io->data, ready);
}

static void signal_cb(struct ev_loop *loop, ev_signal *s, int revents)
{
    call(s->data, s->signum);
}

static void child_cb(struct ev_loop *loop, ev_child *c, int revents)
{
    flux_watcher_t *w = c->data;
    int status = c->rstatus;

    flux_watcher_stop(w);
    call(w, status);
}

static void defer_cb(struct ev_loop *loop, ev_prepare *p, int revents)
{
    flux_watcher_t *w = p->data;

    flux_watcher_stop(w);
    call(w, 0);
}

static void idle_cb(struct ev_loop *loop, ev_idle *i, int revents)
{
}

flux_watcher_t *flux_timer_create(flux_reactor_t *r, flux_watcher_f cb, void *arg)
{
    flux_watcher_t *w = watcher_create(r, KIND_TIMER, cb, arg);

    if (w && r->loop) {
        ev_timer_init(&w->ev.timer, timer_cb, 0., 0.);
        w->ev.timer.data = w;
    }
    return w;
}

flux_watcher_t *flux_deadline_create(flux_reactor_t *r, flux_watcher_f cb, void *arg)
{
    flux_watcher_t *w = watcher_create(r, KIND_DEADLINE, cb, arg);
    int fd;

    if (!w || !r->loop)
        return w;
    if ((fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) < 0) {
        flux_watcher_destroy(w);
        return NULL;
    }
    ev_io_init(&w->ev.io, deadline_cb, fd, EV_READ);
    w->ev.io.data = w;
    w->has_fd = true;
    return w;
}

flux_watcher_t *flux_fd_watcher_create(flux_reactor_t *r, int fd, int events, flux_watcher_f cb,
                                       void *arg)
{
    flux_watcher_t *w = watcher_create(r, KIND_FD, cb, arg);

    if (w) {
        ev_io_init(&w->ev.io, io_cb, fd,
                   (events & FLUX_POLLIN ? EV_READ : 0) | (events & FLUX_POLLOUT ? EV_WRITE : 0));
        w->ev.io.data = w;
    }
    return w;
}

flux_watcher_t *flux_signal_watcher_create(flux_reactor_t *r, int signum, flux_watcher_f cb,
                                           void *arg)
{
    flux_watcher_t *w;

    if (r->loop && !r->signals) {
        errno = ENOTSUP;
        return NULL;
    }
    if ((w = watcher_create(r, KIND_SIGNAL, cb, arg))) {
        ev_signal_init(&w->ev.sig, signal_cb, signum);
        w->ev.sig.data = w;
    }
    return w;
}

flux_watcher_t *flux_child_watcher_create(flux_reactor_t *r, int pid, flux_watcher_f cb, void *arg)
{
    flux_watcher_t *w;

    if (r->loop && !r->signals) {
        errno = ENOTSUP;
        return NULL;
    }
    if ((w = watcher_create(r, KIND_CHILD, cb, arg))) {
        ev_child_init(&w->ev.child, child_cb, pid, 0);
        w->ev.child.data = w;
    }
    return w;
}

flux_watcher_t *flux_defer_create(flux_reactor_t *r, flux_watcher_f cb, void *arg)
{
    flux_watcher_t *w = watcher_create(r, KIND_DEFER, cb, arg);

    if (w && r->loop) {
        ev_prepare_init(&w->ev.prepare, defer_cb);
        ev_idle_init(&w->idle, idle_cb);
        w->ev.prepare.data = w;
    }
    return w;
}

void flux_watcher_start(flux_watcher_t *w)
{
    struct ev_loop *loop = w->r->loop;

    if (w->active)
        return;
    w->active = true;
    if (!loop) {
        if (w->kind == KIND_TIMER || w->kind == KIND_DEADLINE)
            w->r->ops->timer_set(w->r->impl, w, w->r->ops->now(w->r->impl) + w->after);
        else
            w->r->ops->defer(w->r->impl, w);
        return;
    }
    switch (w->kind) {
    case KIND_TIMER:
        ev_timer_set(&w->ev.timer, w->after, w->repeat);
        ev_timer_start(loop, &w->ev.timer);
        break;
    case KIND_DEADLINE:
        deadline_set(w, w->after < DEADLINE_MIN   ? DEADLINE_MIN
                        : w->after > DEADLINE_MAX ? DEADLINE_MAX
                                                  : w->after);
        ev_io_start(loop, &w->ev.io);
        break;
    case KIND_FD:
        ev_io_start(loop, &w->ev.io);
        break;
    case KIND_SIGNAL:
        ev_signal_start(loop, &w->ev.sig);
        break;
    case KIND_CHILD:
        ev_child_start(loop, &w->ev.child);
        break;
    case KIND_DEFER:
        w->r->whole->deferred++;
        ev_prepare_start(loop, &w->ev.prepare);
        ev_idle_start(loop, &w->idle);
        return; /* fires in this iteration, so unref makes no difference */
    }
    if (w->unref)
        ev_unref(loop);
}

void flux_watcher_stop(flux_watcher_t *w)
{
    struct ev_loop *loop;

    if (!w || !w->active)
        return;
    loop = w->r->loop;
    w->active = false;
    if (!loop) {
        if (w->kind == KIND_TIMER || w->kind == KIND_DEADLINE)
            w->r->ops->timer_clear(w->r->impl, w);
        else
            w->r->ops->defer_clear(w->r->impl, w);
        return;
    }
    if (w->unref && w->kind != KIND_DEFER)
        ev_ref(loop);
    switch (w->kind) {
    case KIND_TIMER:
        ev_timer_stop(loop, &w->ev.timer);
        break;
    case KIND_DEADLINE:
        ev_io_stop(loop, &w->ev.io);
        deadline_set(w, 0.);
        break;
    case KIND_FD:
        ev_io_stop(loop, &w->ev.io);
        break;
    case KIND_SIGNAL:
        ev_signal_stop(loop, &w->ev.sig);
        break;
    case KIND_CHILD:
        ev_child_stop(loop, &w->ev.child);
        break;
    case KIND_DEFER:
        w->r->whole->deferred--;
        ev_prepare_stop(loop, &w->ev.prepare);
        ev_idle_stop(loop, &w->idle);
        break;
    }
}

bool flux_watcher_active(const flux_watcher_t *w)
{
    return w && w->active;
}

void flux_watcher_destroy(flux_watcher_t *w)
{
    if (w) {
        int saved = errno;
        flux_watcher_stop(w);
        list_remove(&w->node);
        if (w->has_fd)
            close(w->ev.io.fd);
        free(w);
        errno = saved;
    }
}

void flux_watcher_unref(flux_watcher_t *w)
{
    if (w->unref)
        return;
    w->unref = true;
    if (w->active && w->r->loop && w->kind != KIND_DEFER)
        ev_unref(w->r->loop);
}

void flux_timer_start(flux_watcher_t *w, double after, double repeat)
{
    flux_watcher_stop(w);
    w->after = after < 0. ? 0. : after;
    w->repeat = repeat;
    flux_watcher_start(w);
}

void flux_fd_watcher_set(flux_watcher_t *w, int events)
{
    bool active = w->active;
    int ev = (events & FLUX_POLLIN ? EV_READ : 0) | (events & FLUX_POLLOUT ? EV_WRITE : 0);

    if ((w->ev.io.events & (EV_READ | EV_WRITE)) == ev)
        return;
    if (active)
        flux_watcher_stop(w);
    ev_io_set(&w->ev.io, w->ev.io.fd, ev);
    if (active)
        flux_watcher_start(w);
}

void flux_watcher_fire(flux_watcher_t *w)
{
    if (!w->active)
        return;
    if (w->kind == KIND_TIMER && w->repeat > 0.)
        w->r->ops->timer_set(w->r->impl, w, w->r->ops->now(w->r->impl) + w->repeat);
    else
        w->active = false;
    call(w, 0);
}

void flux_watcher_set_engine_data(flux_watcher_t *w, void *data)
{
    w->engine_data = data;
}

void *flux_watcher_engine_data(const flux_watcher_t *w)
{
    return w->engine_data;
}
