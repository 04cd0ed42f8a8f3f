/* bed.h - a handle of the test's own, with a clock that the test sets. */
#ifndef LIBSERVICE_TEST_BED_H
#define LIBSERVICE_TEST_BED_H

#include <stdlib.h>
#include <string.h>

#include "libflux/test/fake.h"

/* --- a reactor whose only timer the test fires --- */

struct clock {
    flux_watcher_t *timer; /* the one that is set */
    double at;
    double now;
    flux_watcher_t *deferred[8];
    size_t ndeferred;
};

static inline double clock_now(void *impl)
{
    return ((struct clock *)impl)->now;
}

static inline int timer_set(void *impl, flux_watcher_t *w, double at)
{
    struct clock *c = impl;

    c->timer = w;
    c->at = at;
    return 0;
}

static inline void timer_clear(void *impl, flux_watcher_t *w)
{
    struct clock *c = impl;

    if (c->timer == w)
        c->timer = NULL;
}

static inline int defer(void *impl, flux_watcher_t *w)
{
    struct clock *c = impl;

    ck_assert_uint_lt(c->ndeferred, 8);
    c->deferred[c->ndeferred++] = w;
    return 0;
}

static inline void defer_clear(void *impl, flux_watcher_t *w)
{
    struct clock *c = impl;

    for (size_t i = 0; i < c->ndeferred; i++) {
        if (c->deferred[i] == w)
            c->deferred[i] = NULL;
    }
}

static const struct flux_reactor_ops clock_ops = {clock_now,   timer_set, timer_clear, defer,
                                                  defer_clear, NULL,      NULL};

static inline void settle(struct clock *c)
{
    for (size_t i = 0; i < c->ndeferred; i++) {
        flux_watcher_t *w = c->deferred[i];

        c->deferred[i] = NULL;
        if (w)
            flux_watcher_fire(w);
    }
    c->ndeferred = 0;
}

static inline struct fake *bed_create(struct clock *c, uint32_t rank)
{
    struct fake *f = calloc(1, sizeof(*f));

    memset(c, 0, sizeof(*c));
    c->now = 100.;
    ck_assert_ptr_nonnull(f);
    (void)fake_ops;
    ck_assert_ptr_nonnull(f->r = flux_reactor_create_ops(&clock_ops, c));
    ck_assert_ptr_nonnull(f->h = flux_handle_create(&fake_nowait_ops, f, f->r, rank, 8, 42));
    return f;
}

#endif
