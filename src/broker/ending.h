/* The first step of a session's shutdown: its jobs end.
 *
 * Before rank 0 shuts the session down, it asks the job service to end all running jobs in order,
 * with their grace period, and waits for that for a limited time.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_ENDING_H
#define BROKER_ENDING_H

#include "core.h"

typedef struct ending ending_t;

/* Send the request.  The reactor calls `done` once: when no job runs any more, when there is no job
 * service, or after `limit` seconds.  NULL with ENOMEM: `done` will not be called. */
ending_t *ending_start(core_t *core, double limit, void (*done)(void *arg), void *arg);
void ending_destroy(ending_t *e); /* NULL-safe, keeps errno; not from within `done` */

#endif
