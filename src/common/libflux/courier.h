/* A courier carries requests that may neither be lost nor overtake each other: credit, signals,
 * jobs to launch.  Each must be answered before the next is sent.  A request for which the receiver
 * had no room (EAGAIN) is sent again after a pause.  So is one whose way was lost, if the receiver
 * recognizes what it has (FLUX_MSGF_IDEMPOTENT).
 *
 * A caller that can merge waiting requests checks courier_busy() first, and posts from `idle`.
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
    /* All posted requests were answered.  May be NULL. */
    void (*idle)(void *arg);
    /* A request failed for a reason other than lack of room, or its answer was lost, so it is not
     * known whether it arrived.  Later requests continue.  May be NULL; may destroy the courier. */
    void (*failed)(void *arg, const char *topic, int errnum, const char *why);
};

/* NULL with ENOMEM.  Requests go out with `flags`: FLUX_MSGF_UPSTREAM, FLUX_MSGF_RING,
 * FLUX_MSGF_IDEMPOTENT, or 0. */
courier_t *courier_create(flux_t *h, unsigned flags, const struct courier_callbacks *cbs,
                          void *arg);
/* Drops the requests that were not sent; no callback.  NULL-safe, keeps errno. */
void courier_destroy(courier_t *c);
/* Send or queue a request with a raw payload of `len` bytes, which is malloc'd and taken over, even
 * on failure.  -1 with ENOMEM. */
int courier_post(courier_t *c, const char *topic, uint32_t nodeid, void *data, size_t len);
/* The same with JSON text. */
int courier_post_json(courier_t *c, const char *topic, uint32_t nodeid, char *json);
bool courier_busy(const courier_t *c);
/* For the reload of a module (flux_rpc_resume() in future.h): the old instance saves the queue, and
 * the new one loads it into an empty courier.  False if *o is not what was saved. */
void courier_save(const courier_t *c, flux_handover_t *o);
bool courier_load(courier_t *c, flux_handover_t *o);
/* Drop the waiting requests, and ignore the responses to outstanding ones, because the receiver is
 * known to be gone. */
void courier_clear(courier_t *c);

#endif
