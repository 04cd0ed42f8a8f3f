/* km_relay.c - requests that an instance passes on, and whose answers it passes back: requests
 * about namespaces, to rank 0, and messages of fences that it does not know, upstream.
 *
 * Invariants:
 *  1. A relay is in km_relays.all from the request to its response.
 *  2. There are at most RELAYS_MAX relays.
 *
 * Failure: the sender gets the error of the request that was passed on, or EAGAIN if there are too
 * many relays.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "km_private.h"
#include "libutil/invariant.h"

#define RELAYS_MAX 4096

struct km_relays {
    flux_t *h;
    struct list_node all;
    unsigned n;
};

struct relay {
    struct list_node node; /* in km_relays.all */
    struct km_relays *rs;
    flux_msg_t *req;
    flux_future_t *f;
};

static void relay_free(struct relay *r)
{
    list_remove(&r->node);
    r->rs->n--;
    flux_future_destroy(r->f);
    flux_msg_destroy(r->req);
    free(r);
}

static void relayed_cb(flux_future_t *f, void *arg)
{
    struct relay *r = arg;
    const char *json;
    errmsg_t err;

    if (flux_rpc_get_json(f, &json, &err) < 0)
        flux_respond_error(r->rs->h, r->req, errno, "%s", err.text);
    else
        flux_respond(r->rs->h, r->req, json);
    relay_free(r);
}

static void relayed_raw_cb(flux_future_t *f, void *arg)
{
    struct relay *r = arg;
    const void *data;
    size_t len;
    errmsg_t err;

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0)
        flux_respond_error(r->rs->h, r->req, errno, "%s", err.text);
    else
        flux_respond_raw(r->rs->h, r->req, data, len);
    relay_free(r);
}

static bool full(const struct km_relays *rs, const flux_msg_t *msg)
{
    if (rs->n < RELAYS_MAX)
        return false;
    flux_respond_error(rs->h, msg, EAGAIN,
                       "%d requests that were passed on wait at rank %u: try again later",
                       RELAYS_MAX, flux_rank(rs->h));
    return true;
}

/* The request was passed on with the future `f` (NULL: no memory). */
static void passed_on(struct km_relays *rs, const flux_msg_t *msg, flux_future_t *f,
                      flux_future_f cb)
{
    struct relay *r = calloc(1, sizeof(*r));

    if (r) {
        r->rs = rs;
        rs->n++;
        r->req = flux_msg_incref(msg);
        list_init(&r->node);
        list_append(&rs->all, &r->node);
        if ((r->f = f) && flux_future_then(f, -1., cb, r) == 0)
            return;
        relay_free(r);
    } else
        flux_future_destroy(f);
    flux_respond_error(rs->h, msg, ENOMEM, "rank %u is out of memory", flux_rank(rs->h));
}

void km_relay_request(struct km_relays *rs, const flux_msg_t *msg, const char *topic,
                      const struct flux_schema *desc, const void *in)
{
    unsigned flags = FLUX_MSGF_IDEMPOTENT;

    if (!full(rs, msg))
        passed_on(rs, msg,
                  desc ? flux_rpc_struct(rs->h, topic, desc, in, FLUX_NODEID_ROOT, flags)
                       : flux_rpc(rs->h, topic, NULL, FLUX_NODEID_ROOT, flags),
                  relayed_cb);
}

void km_relay_up(struct km_ns *ns, const flux_msg_t *msg)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);

    if (!full(ns->k->relays, msg))
        passed_on(ns->k->relays, msg, km_ns_upstream(ns, flux_msg_topic(msg), data, len, false, 0),
                  relayed_raw_cb);
}

struct km_relays *km_relay_create(flux_t *h)
{
    struct km_relays *rs = calloc(1, sizeof(*rs));

    if (!rs)
        return NULL;
    rs->h = h;
    list_init(&rs->all);
    return rs;
}

void km_relay_destroy(struct km_relays *rs)
{
    if (!rs)
        return;
    LIST_FOREACH_SAFE(n, tmp, &rs->all)
    relay_free(list_entry(n, struct relay, node));
    INVARIANT(1, rs->n == 0);
    free(rs);
}
