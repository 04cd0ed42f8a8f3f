/* reactor.c - one event loop per thread, on libev or on another engine.
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
 *  2. A deferral fires once per start: before the loop sleeps, and after everything that was ready
 *     has been handled.
 *  3. A watcher after flux_watcher_unref() never keeps flux_reactor_run() from returning.
 *  4. A part of a reactor has the loop and the time of the whole.  Once it is stopped, none of its
 *     watchers calls back, and at its end they end, too: the loop goes on without them.
 *
 * Failure: creation returns NULL with errno.  Starting a watcher cannot fail, but libev aborts the
 * process if it has no memory for its tables, which grow with the watchers started here.
 */
#include "config.h"
#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "reactor.h"
#include "libutil/clock.h"
#include "libutil/list.h"

enum kind { KIND_TIMER, KIND_DEADLINE, KIND_FD, KIND_SIGNAL, KIND_CHILD, KIND_DEFER };

#define DEADLINE_MIN 1e-9 /* seconds: 0 would mean never */
#define DEADLINE_MAX 1e9

struct flux_reactor {
    struct ev_loop *loop;  /* NULL on another engine */
    flux_reactor_t *whole; /* of which this is a part; a reactor of its own: itself */
    const struct flux_reactor_part_ops *part;
    void *part_arg;
    struct list_node watchers; /* of a part */
    double hurry;              /* see flux_reactor_hurry() */
    unsigned deferred;         /* active deferrals */
    double now;                /* time of this pass; libev's own time follows the wall clock */
    bool signals;
    const struct flux_reactor_ops *ops;
    void *impl;
    bool stopped;
    int rc;
    void (*sleep_cb)(void *arg);
    void *sleep_arg;
    ev_prepare sleep;
};

struct flux_watcher {
    flux_reactor_t *r;
    struct list_node node; /* in flux_reactor.watchers */
    enum kind kind;
    bool active;
    bool unref;
    bool has_fd; /* ev.io.fd is the watcher's own */
    flux_watcher_f cb;
    void *arg;
    void *engine_data;
    double after;
    double repeat;
    union {
        ev_timer timer;
        ev_io io;
        ev_signal sig;
        ev_child child;
        ev_prepare prepare;
    } ev;
    ev_idle idle; /* a started deferral keeps the loop from sleeping */
};

/* Offset from the clock since boot to one that starts at the time of day.  Set once per process, so
 * that times mean the same in all its threads. */
static double base;
static pthread_once_t base_once = PTHREAD_ONCE_INIT;

static void base_init(void)
{
    base = clock_wall() - clock_boot();
}

static double steady(void)
{
    return base + clock_boot();
}

static void before_poll(struct ev_loop *loop)
{
}

static void after_poll(struct ev_loop *loop)
{
    flux_reactor_t *r = ev_userdata(loop);

    r->now = steady();
}

flux_reactor_t *flux_reactor_create(bool signals)
{
    flux_reactor_t *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->signals = signals;
    r->loop = signals ? ev_default_loop(EVFLAG_SIGNALFD | EVFLAG_NOENV) : ev_loop_new(EVFLAG_NOENV);
    if (!r->loop) {
        free(r);
        errno = ENOMEM;
        return NULL;
    }
    pthread_once(&base_once, base_init);
    r->now = steady();
    r->whole = r;
    ev_set_userdata(r->loop, r);
    ev_set_loop_release_cb(r->loop, before_poll, after_poll);
    return r;
}

flux_reactor_t *flux_reactor_create_part(flux_reactor_t *whole,
                                         const struct flux_reactor_part_ops *ops, void *arg)
{
    flux_reactor_t *r;

    if (!whole->loop) {
        errno = ENOTSUP;
        return NULL;
    }
    if (!(r = calloc(1, sizeof(*r))))
        return NULL;
    r->loop = whole->loop;
    r->whole = whole->whole;
    r->part = ops;
    r->part_arg = arg;
    list_init(&r->watchers);
    return r;
}

flux_reactor_t *flux_reactor_create_ops(const struct flux_reactor_ops *ops, void *impl)
{
    flux_reactor_t *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->whole = r;
    r->ops = ops;
    r->impl = impl;
    return r;
}

bool flux_reactor_is_part(const flux_reactor_t *r)
{
    return r->part != NULL;
}

void flux_reactor_destroy(flux_reactor_t *r)
{
    if (r) {
        int saved = errno;
        struct list_node *n;

        while (r->part && (n = list_first(&r->watchers)))
            flux_watcher_destroy(list_entry(n, flux_watcher_t, node));
        if (r->loop && !r->part)
            ev_loop_destroy(r->loop);
        else if (!r->loop && r->ops->destroy)
            r->ops->destroy(r->impl);
        free(r);
        errno = saved;
    }
}

static void sleep_cb(struct ev_loop *loop, ev_prepare *p, int revents)
{
    flux_reactor_t *r = p->data;

    r->sleep_cb(r->sleep_arg);
}

int flux_reactor_before_sleep(flux_reactor_t *r, void (*cb)(void *arg), void *arg)
{
    if (!r->loop || r->part) {
        errno = ENOTSUP;
        return -1;
    }
    if (r->sleep_cb) {
        ev_ref(r->loop);
        ev_prepare_stop(r->loop, &r->sleep);
    }
    r->sleep_cb = cb;
    r->sleep_arg = arg;
    if (cb) {
        ev_prepare_init(&r->sleep, sleep_cb);
        ev_set_priority(&r->sleep, EV_MINPRI); /* deferrals are prepare watchers too, and come
                                                  first */
        r->sleep.data = r;
        ev_prepare_start(r->loop, &r->sleep);
        ev_unref(r->loop);
    }
    return 0;
}

int flux_reactor_run(flux_reactor_t *r)
{
    if (!r->loop)
        return 0;
    if (r->part) {
        errno = ENOTSUP;
        return -1;
    }
    r->stopped = false;
    r->rc = 0;
    ev_run(r->loop, 0);
    return r->rc;
}

void flux_reactor_stop(flux_reactor_t *r, int rc)
{
    r->stopped = true;
    r->rc = rc;
    if (r->part)
        r->part->stopped(r->part_arg);
    else if (r->loop)
        ev_break(r->loop, EVBREAK_ALL);
}

bool flux_reactor_stopped(const flux_reactor_t *r, int *rc)
{
    if (rc)
        *rc = r->rc;
    return r->stopped;
}

double flux_reactor_now(flux_reactor_t *r)
{
    return r->loop ? r->whole->now : r->ops->now(r->impl);
}

double flux_reactor_wall(flux_reactor_t *r)
{
    if (r->loop)
        return clock_wall();
    return r->ops->wall ? r->ops->wall(r->impl) : r->ops->now(r->impl);
}

double flux_reactor_to_wall(flux_reactor_t *r, double t)
{
    return t + (flux_reactor_wall(r) - flux_reactor_clock(r));
}

double flux_reactor_from_wall(flux_reactor_t *r, double wall)
{
    return wall - (flux_reactor_wall(r) - flux_reactor_clock(r));
}

void flux_reactor_update(flux_reactor_t *r)
{
    if (!r->loop)
        return;
    ev_now_update(r->loop);
    r->whole->now = steady();
}

double flux_reactor_clock(flux_reactor_t *r)
{
    return r->loop ? steady() : r->ops->now(r->impl);
}

void flux_reactor_hurry(flux_reactor_t *r, double until)
{
    r->whole->hurry = until;
}

bool flux_reactor_hurries(flux_reactor_t *r)
{
    return r->loop && r->whole->hurry > 0. && steady() < r->whole->hurry;
}

unsigned flux_reactor_deferred(const flux_reactor_t *r)
{
    return r->whole->deferred;
}

bool flux_reactor_virtual(const flux_reactor_t *r)
{
    return !r->loop;
}

static flux_watcher_t *watcher_create(flux_reactor_t *r, enum kind kind, flux_watcher_f cb,
                                      void *arg)
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
    double begin;

    if (!r->part) {
        w->cb(r, w, revents, w->arg);
    } else if (!r->stopped) {
        begin = steady();
        w->cb(r, w, revents, w->arg);
        r->part->turn(r->part_arg, kind, steady() - begin);
    }
}

static void timer_cb(struct ev_loop *loop, ev_timer *t, int revents)
{
    flux_watcher_t *w = t->data;

    w->r->whole->now = steady(); /* not earlier than the time for which it was set */
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
        return; /* it was set anew after the loop had seen it */
    w->r->whole->now = steady();
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
