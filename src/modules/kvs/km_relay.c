/* km_relay.c - requests about namespaces that another instance passes on to rank 0.
 *
 * Invariants:
 *  1. A relay is in km.relays from the request to its response.
 *  2. There are at most RELAYS_MAX.
 *
 * Failure: the sender gets the error of the request to rank 0, or EAGAIN when there are too many.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "km_private.h"

#define RELAYS_MAX 4096

struct relay {
    struct list_node node; /* in km.relays */
    struct km *k;
    flux_msg_t *req;
    flux_future_t *f;
};

static void relay_free(struct relay *r)
{
    list_remove(&r->node);
    r->k->nrelays--;
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
        flux_respond_error(r->k->h, r->req, errno, "%s", err.text);
    else
        flux_respond(r->k->h, r->req, json);
    relay_free(r);
}

void km_relay_request(struct km *k, const flux_msg_t *msg, const char *topic,
                      const struct flux_schema *desc, const void *in)
{
    struct relay *r;

    if (k->nrelays >= RELAYS_MAX) {
        flux_respond_error(k->h, msg, EAGAIN,
                           "%d requests about namespaces wait at rank %u: try again later",
                           RELAYS_MAX, flux_rank(k->h));
        return;
    }
    if ((r = calloc(1, sizeof(*r)))) {
        r->k = k;
        k->nrelays++;
        r->req = flux_msg_incref(msg);
        list_init(&r->node);
        list_append(&k->relays, &r->node);
        r->f =
            desc ? flux_rpc_struct(k->h, topic, desc, in, 0, 0) : flux_rpc(k->h, topic, NULL, 0, 0);
        if (r->f && flux_future_then(r->f, -1., relayed_cb, r) == 0)
            return;
        relay_free(r);
    }
    flux_respond_error(k->h, msg, ENOMEM, "rank %u is out of memory", flux_rank(k->h));
}

void km_relay_fini(struct km *k)
{
    LIST_FOREACH_SAFE(n, tmp, &k->relays)
    relay_free(list_entry(n, struct relay, node));
}
