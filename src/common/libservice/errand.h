/* Work that a module cannot do on the loop, since it waits for the system: a thread does it.
 *
 * Thread rules: `work` is called by another thread and touches only what the owner leaves alone
 * until `done`, which the reactor calls in the owner's thread, or until errand_destroy().
 */
#ifndef SERVICE_ERRAND_H
#define SERVICE_ERRAND_H

#include "libflux/reactor.h"

typedef struct errand errand_t;

/* Begin.  `done` is called once, unless the errand is destroyed before; it may destroy the errand.
 * NULL with errno. */
errand_t *errand_start(flux_reactor_t *r, void (*work)(void *arg), void (*done)(void *arg),
                       void *arg);
/* NULL-safe, keeps errno.  Waits for the thread. */
void errand_destroy(errand_t *e);

#endif
