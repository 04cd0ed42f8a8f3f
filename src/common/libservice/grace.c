/* grace.c - collective operations after the loss of a broker: recent losses, suspects, timers.
 *
 * Invariants:
 *  1. `recent` holds each rank that was lost during the last *seconds.  It may also hold ranks that
 *     were lost earlier, if since then no period of that length has passed without a loss.
 *  2. The timer of a wait runs from its last suspect on.
 *
 * Failure: a rank that cannot be stored for lack of memory is not suspected; the operation then
 * waits as if the rank were there.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "grace.h"
#include "libflux/log.h"
#include "libflux/reactor.h"

struct grace {
    flux_t *h;
    const double *seconds;
    idset_t *recent;
    double last; /* time of the last loss */
};

struct grace_wait {
    idset_t *suspects;
    flux_watcher_t *timer;
    grace_f cb;
    void *arg;
};

grace_t *grace_create(flux_t *h, const double *seconds)
{
    grace_t *g = calloc(1, sizeof(*g));

    if (!g || !(g->recent = idset_create())) {
        free(g);
        errno = ENOMEM;
        return NULL;
    }
    g->h = h;
    g->seconds = seconds;
    return g;
}

void grace_destroy(grace_t *g)
{
    int saved = errno;

    if (!g)
        return;
    idset_destroy(g->recent);
    free(g);
    errno = saved;
}

const idset_t *grace_recent(const grace_t *g)
{
    bool any = !idset_empty(g->recent) && flux_now(g->h) - g->last < *g->seconds;

    return any ? g->recent : NULL;
}

void grace_lost(grace_t *g, const idset_t *ranks)
{
    if (!grace_recent(g))
        (void)idset_range_clear(g->recent, 0, IDSET_MAX);
    if (idset_add(g->recent, ranks) < 0)
        flux_log(g->h, LOG_ERR, "out of memory for the ranks that were lost");
    g->last = flux_now(g->h);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *timer, int revents, void *arg)
{
    grace_wait_t *w = arg;
    char *lost = idset_format(w->suspects, 0);

    w->cb(w->arg, lost ? lost : "?");
    free(lost);
}

int grace_suspect(grace_t *g, grace_wait_t **w, const idset_t *ranks, grace_f cb, void *arg)
{
    if (!*w) {
        if (!(*w = calloc(1, sizeof(**w))))
            return -1;
        (*w)->cb = cb;
        (*w)->arg = arg;
        if (!((*w)->suspects = idset_create()) ||
            !((*w)->timer = flux_timer_create(flux_get_reactor(g->h), timer_cb, *w))) {
            grace_wait_destroy(*w);
            *w = NULL;
            errno = ENOMEM;
            return -1;
        }
    }
    if (idset_add((*w)->suspects, ranks) < 0)
        return -1;
    flux_timer_start((*w)->timer, *g->seconds, 0.);
    return 0;
}

const idset_t *grace_suspects(const grace_wait_t *w)
{
    return w ? w->suspects : NULL;
}

void grace_wait_destroy(grace_wait_t *w)
{
    int saved = errno;

    if (!w)
        return;
    idset_destroy(w->suspects);
    flux_watcher_destroy(w->timer);
    free(w);
    errno = saved;
}
