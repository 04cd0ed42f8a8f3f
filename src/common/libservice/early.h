/* Requests that come before a module can serve them: they wait, and are then served in order.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_EARLY_H
#define SERVICE_EARLY_H

#include <stddef.h>

#include "libflux/dispatch.h"

typedef struct early early_t;

/* At most `max` requests wait.  NULL with ENOMEM. */
early_t *early_create(flux_t *h, size_t max);
/* Waiting requests are not answered: the host does that, or gives them to the next instance.
 * NULL-safe, keeps errno. */
void early_destroy(early_t *e);
/* Queue a request for the handler `cb`, which will be called with `arg`.  Without room the request
 * is answered with EAGAIN. */
void early_put(early_t *e, const flux_msg_t *req, flux_handler_f cb, void *arg);
/* Serve all waiting requests. */
void early_serve(early_t *e);

#endif
