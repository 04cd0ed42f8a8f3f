/* Collective operations (barriers, fences) after the loss of a broker.
 *
 * If the participants have not named their ranks, the module cannot know whether a lost rank had a
 * participant.  So each loss starts a timer for every operation that is incomplete at that time,
 * and for every operation that begins within the same time after the loss.  The ranks are
 * "suspects" until the timer ends; then the module ends the operation.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_GRACE_H
#define SERVICE_GRACE_H

#include "libflux/handle.h"
#include "libidset/idset.h"

/* The recent losses: one object for each module. */
typedef struct grace grace_t;
/* The suspects and the timer of one operation. */
typedef struct grace_wait grace_wait_t;

/* The timer of an operation has ended. `lost`: its suspects, as text.  May destroy the wait. */
typedef void (*grace_f)(void *arg, const char *lost);

/* *seconds is the time to wait; it is read when needed and must live as long as the result.  NULL
 * with ENOMEM. */
grace_t *grace_create(flux_t *h, const double *seconds);
void grace_destroy(grace_t *g); /* NULL-safe, keeps errno */

/* Record that these ranks were lost just now.  Logs a lack of memory. */
void grace_lost(grace_t *g, const idset_t *ranks);
/* The ranks that an operation which begins now has to suspect; NULL: none. */
const idset_t *grace_recent(const grace_t *g);

/* Add `ranks` to the suspects of an operation and start its timer anew. *w is created by the first
 * call (NULL before it).  0, or -1 with ENOMEM. */
int grace_suspect(grace_t *g, grace_wait_t **w, const idset_t *ranks, grace_f cb, void *arg);
/* The suspects of the operation; NULL for NULL. */
const idset_t *grace_suspects(const grace_wait_t *w);
void grace_wait_destroy(grace_wait_t *w); /* NULL-safe, keeps errno */

#endif
