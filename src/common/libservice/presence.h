/* Find out whether a sender has ended whose way was lost: a service got NAME.disconnect with
 * FLUX_MSGF_IDEMPOTENT (libflux/dispatch.h).  A notice that the sender itself has ended may have
 * been lost with the same broker, so a service that keeps something for a sender asks for it.
 *
 *    static void ended(void *arg, const flux_msg_t *notice) { claims_disconnect(ss, notice); }
 *    p = presence_create(h, ended, arg);
 *    presence_ask(p, notice);                       in the handler of NAME.disconnect
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_PRESENCE_H
#define SERVICE_PRESENCE_H

#include "libflux/handle.h"
#include "libflux/handover.h"

typedef struct presence presence_t;

/* The sender of `notice` has ended, or nothing could be learned about it.  May not destroy the
 * presence_t. */
typedef void (*presence_f)(void *arg, const flux_msg_t *notice);

/* NULL with ENOMEM. */
presence_t *presence_create(flux_t *h, presence_f ended, void *arg);
/* No callback.  NULL-safe, keeps errno. */
void presence_destroy(presence_t *p);
/* Ask the broker of the sender of `notice`, unless it is being asked.  -1 with ENOMEM. */
int presence_ask(presence_t *p, const flux_msg_t *notice);

/* For the reload of a module: the next instance asks again. */
void presence_save(const presence_t *p, flux_handover_t *o);
void presence_load(presence_t *p, flux_handover_t *o); /* into an empty one */

#endif
