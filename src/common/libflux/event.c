/* event.c - the client's side of events.
 *
 * To publish an event, a client sends a request "event.publish" to the root, with the encoded event
 * message as raw payload.  The root stamps it with the request's credential and the next sequence
 * number, sends it down the tree, and answers {"seq":N}.  To subscribe, a client sends a request to
 * the local broker, which filters events.
 *
 * flux_event_send() requests no response, so its event may be lost if a queue on the path to the
 * root is full.  It is for events that are repeated (heartbeats), and for publishers that accept
 * the loss.
 *
 * Failure: as for any request.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "event_wire.h"

/* Make the request `method` around event `ev`, which is freed. */
static flux_msg_t *wrap(flux_t *h, const char *method, flux_msg_t *ev, unsigned flags)
{
    size_t size = flux_msg_encoded_size(ev);
    flux_msg_t *req = NULL;
    char *buf = NULL;

    flux_msg_set_nodeid(ev, flux_rank(h));
    if (!(buf = malloc(size + 1)) || !(req = flux_msg_create(FLUX_MSG_REQUEST, method)))
        goto error;
    flux_msg_encode(ev, buf);
    flux_msg_destroy(ev);
    flux_msg_set_nodeid(req, FLUX_NODEID_ROOT);
    flux_msg_set_flags(req, flags);
    if (flux_msg_take_raw(req, buf, size) < 0) {
        flux_msg_destroy(req);
        return NULL;
    }
    return req;
error:
    free(buf);
    flux_msg_destroy(ev);
    flux_msg_destroy(req);
    errno = ENOMEM;
    return NULL;
}

static flux_msg_t *make(flux_t *h, const char *method, const char *topic, const char *json,
                        const void *data, size_t len, unsigned flags)
{
    flux_msg_t *ev = flux_msg_create(FLUX_MSG_EVENT, topic);

    if (!ev)
        return NULL;
    if ((json && flux_msg_set_json(ev, json) < 0) ||
        (data && flux_msg_set_raw(ev, data, len) < 0)) {
        flux_msg_destroy(ev);
        return NULL;
    }
    return wrap(h, method, ev, flags);
}

flux_future_t *flux_event_publish(flux_t *h, const char *topic, const char *json)
{
    flux_msg_t *req = make(h, "event.publish", topic, json, NULL, 0, 0);

    return req ? flux_rpc_msg(h, req) : NULL;
}

flux_future_t *flux_event_publish_raw(flux_t *h, const char *topic, const void *data, size_t len)
{
    flux_msg_t *req = make(h, "event.publish", topic, NULL, data, len, 0);

    return req ? flux_rpc_msg(h, req) : NULL;
}

int flux_event_get_seq(flux_future_t *f, uint64_t *seq, errmsg_t *err)
{
    struct event_published p;

    if (flux_rpc_get_struct(f, &event_published_schema, &p, err) < 0)
        return -1;
    *seq = p.seq;
    return 0;
}

int flux_event_send(flux_t *h, const char *topic, const char *json)
{
    flux_msg_t *req = make(h, "event.publish", topic, json, NULL, 0, FLUX_MSGF_NORESPONSE);

    return req ? flux_send(h, req) : -1;
}

int flux_event_send_raw(flux_t *h, const char *topic, const void *data, size_t len)
{
    flux_msg_t *req = make(h, "event.publish", topic, NULL, data, len, FLUX_MSGF_NORESPONSE);

    return req ? flux_send(h, req) : -1;
}

int flux_event_offer(flux_t *h, const char *topic, const char *json)
{
    flux_msg_t *req = make(h, "event.offer", topic, json, NULL, 0, FLUX_MSGF_NORESPONSE);

    return req ? flux_send(h, req) : -1;
}

/* Each broker keeps the subscriptions of its clients, so a request names the sender's own rank. */
flux_future_t *flux_event_subscribe(flux_t *h, const char *prefix)
{
    struct event_prefix s = {prefix};

    return flux_rpc_struct(h, "event.subscribe", &event_prefix_schema, &s, flux_rank(h), 0);
}

flux_future_t *flux_event_unsubscribe(flux_t *h, const char *prefix)
{
    struct event_prefix s = {prefix};

    return flux_rpc_struct(h, "event.unsubscribe", &event_prefix_schema, &s, flux_rank(h), 0);
}
