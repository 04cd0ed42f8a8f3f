/* A reactor for tests whose clock stands still, so that slices are counted: only deferrals call
 * back, and the timer that was started last, and only when the test says so. */
#ifndef FLUX_TEST_STILL_H
#define FLUX_TEST_STILL_H

#include <check.h>

#include "libflux/reactor.h"

#define STILL_DEFERRED_MAX 32

struct still {
    flux_watcher_t *w[STILL_DEFERRED_MAX];
    size_t n;
    double passed; /* seconds since the beginning */
    flux_watcher_t *timer;
};

static inline double still_now(void *impl)
{
    return 100. + ((struct still *)impl)->passed;
}

static inline int still_timer(void *impl, flux_watcher_t *w, double at)
{
    ((struct still *)impl)->timer = w;
    return 0;
}

static inline void still_no_timer(void *impl, flux_watcher_t *w)
{
}

static inline int still_defer(void *impl, flux_watcher_t *w)
{
    struct still *s = impl;

    ck_assert_uint_lt(s->n, STILL_DEFERRED_MAX);
    s->w[s->n++] = w;
    return 0;
}

static inline void still_clear(void *impl, flux_watcher_t *w)
{
    struct still *s = impl;
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (s->w[i] != w)
            s->w[n++] = s->w[i];
    }
    s->n = n;
}

static const struct flux_reactor_ops still_ops = {.now = still_now,
                                                  .timer_set = still_timer,
                                                  .timer_clear = still_no_timer,
                                                  .defer = still_defer,
                                                  .defer_clear = still_clear};

/* The first of what is deferred, if there is any. */
static inline void still_turn(struct still *s)
{
    flux_watcher_t *w = s->n > 0 ? s->w[0] : NULL;

    if (!w)
        return;
    still_clear(s, w);
    flux_watcher_fire(w);
}

/* Until nothing is deferred. */
static inline void still_run(struct still *s)
{
    while (s->n > 0)
        still_turn(s);
}

#endif
