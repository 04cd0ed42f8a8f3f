/* The state of the session, for a module: which ranks are lost or back, the tree that joins them,
 * whether the session runs, and the state of its broker's overlay whenever that changes.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_SESSION_H
#define SERVICE_SESSION_H

#include <stdbool.h>

#include "libflux/handle.h"
#include "libflux/overlay_wire.h"
#include "libidset/idset.h"
#include "libtopology/topology.h"

typedef struct session session_t;

/* An operation that is NULL costs no message. */
struct session_ops {
    /* These ranks were lost, have left, or are absent; some may have been reported before.
     * session_lost() includes them already. `now`: they were lost just now; otherwise at any time
     * in the past. Not called for a list that includes the own rank: then this broker is the one
     * that is cut off. */
    void (*lost)(void *arg, const idset_t *ranks, bool now);
    /* These ranks were lost and are up again, with new brokers, which have nothing of the state of
     * the earlier ones.  session_lost() does not include them any more. */
    void (*back)(void *arg, const idset_t *ranks);
    /* session_tree() is known, or ranks have moved in it: return 0, or -1 with errno to keep the
     * former tree.  errnum: the tree cannot be learned, for a reason that was logged; the result
     * has no meaning. */
    int (*tree)(void *arg, int errnum, const char *why);
    /* The first answer of the own broker, or the overlay has changed: the state of the own broker.
     * NULL: it cannot be learned, for a reason that was logged. */
    void (*status)(void *arg, const struct overlay_status *status);
    /* Only session_current() asks the own broker for its state, not each change. */
    bool on_demand;
    /* The session runs: all ranks are up or lost.  Called once; not at brokers that join a running
     * session. */
    void (*runs)(void *arg);
};

/* Subscribe to the events that the operations need.  NULL with ENOMEM; then no operation was
 * called. */
session_t *session_create(flux_t *h, const struct session_ops *ops, void *arg);
void session_destroy(session_t *s); /* NULL-safe, keeps errno */

/* Is the state that was last reported to session_ops.status() still current, according to the
 * events that have arrived?  Otherwise the own broker is asked, unless a request is pending. */
bool session_current(session_t *s);
/* The ranks that were reported to session_ops.lost(), and not to session_ops.back() since. */
const idset_t *session_lost(const session_t *s);
/* Ask rank 0 which ranks are lost: for an instance that replaces another, or that has missed events
 * for another reason.  The event "event.lost" does the same. */
void session_ask_lost(session_t *s);

/* The tree; NULL: it is not known.  Valid until the next call of session_ops.tree() has
 * returned. */
const topology_t *session_tree(const session_t *s);
/* Ask the own broker for the tree, unless it is known or a request is pending. */
void session_ask_tree(session_t *s);
/* Set the tree, which is taken over.  -1 with the errno of session_ops.tree(). */
int session_set_tree(session_t *s, topology_t *tree);

#endif
