/* Chores: work that can be deferred while short requests are served.
 *
 * Thread rules: those of the reactor.
 */
#ifndef BROKER_CHORES_H
#define BROKER_CHORES_H

#include "libflux/reactor.h"

typedef struct chores chores_t;

struct chore {
    bool (*pending)(void *arg);
    /* Do a portion of the work; while the loop hurries (flux_reactor_hurry), a small one of about
     * 10 us. */
    void (*run)(void *arg, bool hurries);
};

/* `table` has `n` chores, and is not copied.  NULL with ENOMEM. */
chores_t *chores_create(flux_reactor_t *r, const struct chore *table, size_t n, void *arg);
void chores_destroy(chores_t *c); /* NULL-safe, keeps errno */

/* A chore has become pending. */
void chores_wake(chores_t *c);

#endif
