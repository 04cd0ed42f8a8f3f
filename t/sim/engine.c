/* engine.c - reactors on the virtual clock.
 *
 * A watcher's slot holds its event of the clock while one is to come.  Time in seconds begins at
 * EPOCH, so that nobody can take "no time" for a time; a double has about 0.1 ns there.
 */
#include "config.h"
#include <math.h>
#include <stdlib.h>

#include "engine.h"

#define EPOCH 1000000.

struct engine {
    vclock_t *clock;
    struct vowner *owner;
    const double *wall;
    double rate;
};

double engine_seconds(int64_t ns)
{
    return EPOCH + 1e-9 * (double)ns;
}

static double local_seconds(const struct engine *e, int64_t ns)
{
    return EPOCH + e->rate * 1e-9 * (double)ns;
}

static double engine_now(void *impl)
{
    struct engine *e = impl;

    return local_seconds(e, vclock_now(e->clock));
}

static double engine_wall(void *impl)
{
    struct engine *e = impl;

    return engine_now(e) + *e->wall;
}

static void fire(void *arg, void *data)
{
    flux_watcher_t *w = data;

    flux_watcher_set_engine_data(w, NULL);
    flux_watcher_fire(w);
}

static void clear(void *impl, flux_watcher_t *w)
{
    struct engine *e = impl;

    vclock_cancel(e->clock, flux_watcher_engine_data(w));
    flux_watcher_set_engine_data(w, NULL);
}

static int set(struct engine *e, flux_watcher_t *w, int64_t at, bool deferred)
{
    vevent_t *ev = vclock_add(e->clock, e->owner, at, deferred, fire, e, w);

    flux_watcher_set_engine_data(w, ev);
    return ev ? 0 : -1;
}

/* Never early: who looks at the time when the timer fires, and sets it again for what is left,
 * would do so for ever, since here no time passes meanwhile. */
static int timer_set(void *impl, flux_watcher_t *w, double at)
{
    struct engine *e = impl;
    int64_t ns = llround((at - EPOCH) / e->rate * 1e9);

    clear(impl, w);
    while (local_seconds(e, ns) < at)
        ns++;
    return set(e, w, ns, false);
}

static int defer(void *impl, flux_watcher_t *w)
{
    struct engine *e = impl;

    clear(impl, w);
    return set(e, w, vclock_now(e->clock), true);
}

static void engine_destroy(void *impl)
{
    free(impl);
}

flux_reactor_t *engine_create(vclock_t *c, struct vowner *owner, const double *wall, double rate)
{
    static const struct flux_reactor_ops ops = {
        .now = engine_now,
        .timer_set = timer_set,
        .timer_clear = clear,
        .defer = defer,
        .defer_clear = clear,
        .destroy = engine_destroy,
        .wall = engine_wall,
    };
    struct engine *e = calloc(1, sizeof(*e));
    flux_reactor_t *r;

    if (!e)
        return NULL;
    e->clock = c;
    e->owner = owner;
    e->wall = wall;
    e->rate = rate;
    if (!(r = flux_reactor_create_ops(&ops, e)))
        free(e);
    return r;
}
