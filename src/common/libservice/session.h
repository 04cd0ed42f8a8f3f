/* What a module has to know about its session: which ranks are lost, whether the session runs, and what its
 * broker's overlay says whenever that changes.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_SESSION_H
#define SERVICE_SESSION_H

#include <stdbool.h>

#include "libflux/handle.h"
#include "libflux/overlay_wire.h"
#include "libidset/idset.h"

typedef struct session session_t;

/* A member that is NULL is not asked for, and costs no message. */
struct session_ops {
    /* Ranks were lost, some of which may have been reported before.  session_lost() holds them already. */
    void (*lost)(void *arg, const idset_t *ranks);
    /* Something has changed in the overlay, or this is the first answer: the state of the own broker. */
    void (*status)(void *arg, const struct overlay_status *status);
    /* The session runs: all ranks came up that will.  Called once. */
    void (*runs)(void *arg);
    /* All subscriptions are confirmed, or have failed. */
    void (*subscribed)(void *arg);
};

/* Subscribe to what the operations need.  NULL with ENOMEM; no operation has been called then. */
session_t *session_create(flux_t *h, const struct session_ops *ops, void *arg);
void session_destroy(session_t *s); /* NULL-safe, keeps errno */

/* Ranks of which session_ops.lost() was told. */
const idset_t *session_lost(const session_t *s);
/* Ask rank 0 which ranks are lost: for an instance that takes the place of another one, or that has missed
 * events for another reason.  The event "event.lost" does the same. */
void session_ask_lost(session_t *s);

#endif
