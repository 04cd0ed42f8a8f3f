/* Events: published at any rank, numbered at the root, and delivered once and in that order to
 * every subscriber.
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_EVENT_H
#define FLUX_EVENT_H

#include "future.h"

/* Publish an event.  `json` may be NULL.  The future is ready when the event has its sequence
 * number, which flux_event_get_seq() returns (-1 on error, with errno and an error message).  NULL
 * with ENOMEM, or EINVAL for a bad topic. */
flux_future_t *flux_event_publish(flux_t *h, const char *topic, const char *json);
flux_future_t *flux_event_publish_raw(flux_t *h, const char *topic, const void *data, size_t len);
int flux_event_get_seq(flux_future_t *f, uint64_t *seq, errmsg_t *err);

/* Publish without waiting for the number.  There is no response, so the event may be lost if a
 * queue on the path to rank 0 is full.  -1 with the errno of flux_send(). */
int flux_event_send(flux_t *h, const char *topic, const char *json);
int flux_event_send_raw(flux_t *h, const char *topic, const void *data, size_t len);

/* The same for an event that nobody has to get: without a subscriber in the session it is not
 * published.  For services of the broker; the topic is that of the heartbeat. */
int flux_event_offer(flux_t *h, const char *topic, const char *json);

/* Subscribe this handle to topics that begin with `prefix` ("" for all).  The future is ready
 * when the subscription is confirmed: handlers of this handle get every event numbered after
 * that. Subscriptions are counted; unsubscribe cancels one.  Results: flux_rpc_get().  NULL with
 * ENOMEM. */
flux_future_t *flux_event_subscribe(flux_t *h, const char *prefix);
flux_future_t *flux_event_unsubscribe(flux_t *h, const char *prefix);

#endif
