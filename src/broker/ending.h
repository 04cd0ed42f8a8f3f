/* The first part of a session's end: its jobs.
 *
 * Before rank 0 takes the session down it asks the job service to end what runs, in order and with
 * the grace that jobs have, and waits for that, but not for ever.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_ENDING_H
#define BROKER_ENDING_H

#include "core.h"

typedef struct ending ending_t;

/* Ask; `done` is called from the reactor, once, when no job runs any more, when there is nobody to
 * ask, or after `limit` seconds.  NULL with ENOMEM: nothing will be called. */
ending_t *ending_start(core_t *core, double limit, void (*done)(void *arg), void *arg);
void ending_destroy(ending_t *e); /* NULL-safe, keeps errno; not from within `done` */

#endif
