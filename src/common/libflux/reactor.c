/* reactor.c - one event loop per thread, on libev or on another engine.  Its watchers are in
 * watcher.c.
 *
 * Time: flux_reactor_now() is the time of the pass.  It is the clock since boot, plus a constant
 * that made it equal to the wall clock when the process started, and it never leaps.
 *
 * Invariant: a part of a reactor has the loop and the time of the whole.  Once it is stopped, none
 * of its watchers calls back, and they are destroyed with it: the loop continues without them.
 *
 * Failure: creation returns NULL with errno.
 */
#include "config.h"
#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "libutil/clock.h"
#include "reactor_private.h"

/* Offset from the clock since boot to the wall clock of the first reactor.  Set once per process,
 * so that times mean the same in all its threads. */
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

/* A timer may fire a little before its beat on the wall clock, which is set slightly all the
 * time. */
#define BEAT_SLACK 0.01 /* of a period */

double flux_reactor_beat(flux_reactor_t *r, double period)
{
    double now = flux_reactor_now(r);
    double wall = flux_reactor_to_wall(r, now);
    double phase = wall - (double)(int64_t)(wall / period) * period;
    double left = (phase < 0. ? 0. : period) - phase;

    return now + (left < BEAT_SLACK * period ? left + period : left);
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
