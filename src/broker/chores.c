/* chores.c - deferrable work of the broker's loop, done in portions between other work.
 *
 *    the loop     in each pass                                        portion
 *    hurries      one chore, the next in turn that is pending, and    small
 *                 none before other work has taken twice as long as
 *                 the last one did
 *    otherwise    all that are pending                                ordinary
 *
 * So while short requests are served, these requests and the modules that handle them get two
 * thirds of the time, and wait for at most one small portion, however much work is pending.  A pass
 * without other work always runs a chore, so no chore waits forever.
 *
 * Invariants:
 *  1. The deferral is active, or will be started by chores_wake(), while a chore is pending.
 *  2. A pending chore waits for one portion of each other chore at most.
 *
 * Failure: none.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "chores.h"

#define OTHERS 2       /* other work takes this many times as long as chores */
#define IDLE_PASS 3e-6 /* seconds of a pass without any work */

struct chores {
    flux_reactor_t *r;
    const struct chore *table;
    size_t n;
    void *arg;
    flux_watcher_t *defer;
    size_t last;   /* the chore that was done last in a hurry: */
    double cost;   /* seconds that it took, */
    double others; /* that other work has taken since, */
    double seen;   /* and the end of the time that is counted */
};

static bool may_run(chores_t *c, double now)
{
    double others = now - c->seen;

    c->seen = now;
    c->others += others;
    return c->others >= OTHERS * c->cost || others < IDLE_PASS;
}

static void run(chores_t *c, bool hurries)
{
    double begin = c->seen;

    for (size_t i = 1; i <= c->n; i++) {
        size_t at = (c->last + i) % c->n;

        if (!c->table[at].pending(c->arg))
            continue;
        c->table[at].run(c->arg, hurries);
        if (hurries) {
            c->last = at;
            break;
        }
    }
    c->seen = flux_reactor_clock(c->r);
    c->cost = c->seen - begin;
    c->others = 0.;
}

static bool any_pending(const chores_t *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->table[i].pending(c->arg))
            return true;
    return false;
}

static void chores_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    chores_t *c = arg;
    bool hurries = flux_reactor_hurries(r);

    if (may_run(c, flux_reactor_clock(r)) || !hurries)
        run(c, hurries);
    if (any_pending(c))
        flux_watcher_start(c->defer);
}

chores_t *chores_create(flux_reactor_t *r, const struct chore *table, size_t n, void *arg)
{
    chores_t *c = calloc(1, sizeof(*c));

    if (!c || !(c->defer = flux_defer_create(r, chores_cb, c))) {
        free(c);
        errno = ENOMEM;
        return NULL;
    }
    c->r = r;
    c->table = table;
    c->n = n;
    c->arg = arg;
    return c;
}

void chores_destroy(chores_t *c)
{
    if (c) {
        int saved = errno;

        flux_watcher_destroy(c->defer);
        free(c);
        errno = saved;
    }
}

void chores_wake(chores_t *c)
{
    flux_watcher_start(c->defer);
}
