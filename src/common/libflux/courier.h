/* A courier carries requests that may neither vanish nor overtake each other: credit, signals, jobs
 * to be launched.  Each is answered; the next leaves when the one before was, and one whose receiver
 * had no room for it (EAGAIN) is sent again after a pause.
 *
 * Whoever can merge what waits looks at courier_busy() first, and posts when `idle` is called.
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_COURIER_H
#define FLUX_COURIER_H

#include <stdbool.h>

#include "future.h"
#include "handover.h"

typedef struct courier courier_t;

struct courier_callbacks {
    /* All that was posted has been answered; may be NULL. */
    void (*idle)(void *arg);
    /* A request was refused for another reason than want of room, or its answer is lost: whether it
     * arrived is not known.  Those posted after it go on.  May be NULL; may destroy the courier. */
    void (*failed)(void *arg, const char *topic, int errnum, const char *why);
};

/* NULL with ENOMEM.  Requests go out with `flags` (FLUX_MSGF_UPSTREAM, FLUX_MSGF_RING, or 0). */
courier_t *courier_create(flux_t *h, unsigned flags, const struct courier_callbacks *cbs,
                          void *arg);
/* What is still to be sent is dropped; no callback.  NULL-safe, keeps errno. */
void courier_destroy(courier_t *c);
/* Send, or queue, a request with a raw payload of `len` bytes, malloc'd and taken over, also on
 * failure.  -1 with ENOMEM. */
int courier_post(courier_t *c, const char *topic, uint32_t nodeid, void *data, size_t len);
/* The same with JSON text. */
int courier_post_json(courier_t *c, const char *topic, uint32_t nodeid, char *json);
bool courier_busy(const courier_t *c);
/* For a module that is reloaded (flux_rpc_resume() in future.h): all that is queued, and by the next
 * instance, of a courier of its own that has nothing yet; false when *o is not what was saved. */
void courier_save(const courier_t *c, flux_handover_t *o);
bool courier_load(courier_t *c, flux_handover_t *o);
/* Drop what waits and forget what is under way: the receiver is known to be gone. */
void courier_clear(courier_t *c);

#endif
