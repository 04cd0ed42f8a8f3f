/* The first step of a broker that leaves a running session: its nodes get no more jobs, and the
 * jobs that run there end.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_LEAVING_H
#define BROKER_LEAVING_H

#include "core.h"

typedef struct leaving leaving_t;

/* `why`: for the log and for the jobs that are ended.  `grace`: seconds after which running jobs
 * are ended; negative: they are waited for.  `done` is called once, usually by the reactor.  NULL
 * with ENOMEM: `done` will not be called. */
leaving_t *leaving_start(core_t *core, const char *why, double grace, void (*done)(void *arg),
                         void *arg);
void leaving_destroy(leaving_t *l); /* NULL-safe, keeps errno; not from within `done` */

#endif
