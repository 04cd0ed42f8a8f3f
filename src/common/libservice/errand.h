/* An errand: work of a module that would block its reactor, because it waits for the system.  A
 * thread does it.
 *
 * Thread rules: another thread calls `work`.  The owner must not touch the data of `work` until the
 * reactor has called `done` in the owner's thread, or errand_destroy() has returned.
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
