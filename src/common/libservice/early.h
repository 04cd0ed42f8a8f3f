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

/* Create an empty queue of at most `max` requests.  `claims`: those of the module, so that a
 * request ends with its client (claim.h); NULL: requests do not end with their clients.  NULL with
 * ENOMEM. */
early_t *early_create(flux_t *h, struct claims *claims, size_t max);
/* Waiting requests are not answered: the host of the module answers them, or passes them to the
 * next instance of the module. NULL-safe, keeps errno. */
void early_destroy(early_t *e);
/* Queue a request for the handler `cb`, which will be called with `arg`.  When the queue is full,
 * the request is answered with EAGAIN, and the result is false. */
bool early_put(early_t *e, const flux_msg_t *req, flux_handler_f cb, void *arg);
/* Serve the requests that are waiting now.  A handler may queue its request again. */
void early_serve(early_t *e);
/* Answer all waiting requests with this error. */
void early_fail(early_t *e, int errnum, const char *error);
size_t early_count(const early_t *e);

#endif
