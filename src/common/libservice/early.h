/* Requests that come before a module can serve them: they wait, and are then served in order.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_EARLY_H
#define SERVICE_EARLY_H

#include <stdbool.h>
#include <stddef.h>

#include "claim.h"

typedef struct early early_t;

/* At most `max` requests wait.  `claims`: those of the module, by which a request ends with its
 * client (claim.h); NULL: it does not.  NULL with ENOMEM. */
early_t *early_create(flux_t *h, struct claims *claims, size_t max);
/* Waiting requests are not answered: the host does that, or gives them to the next instance.
 * NULL-safe, keeps errno. */
void early_destroy(early_t *e);
/* Queue a request for the handler `cb`, which will be called with `arg`.  Without room the request
 * is answered with EAGAIN: false. */
bool early_put(early_t *e, const flux_msg_t *req, flux_handler_f cb, void *arg);
/* Serve the requests that wait now.  A handler may queue its request again. */
void early_serve(early_t *e);
/* Answer all waiting requests with this error. */
void early_fail(early_t *e, int errnum, const char *error);
size_t early_count(const early_t *e);

#endif
