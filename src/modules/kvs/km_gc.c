/* km_gc.c - the request to collect all garbage now.
 *
 *    kvs.gc  {"namespace"}, or nothing -> {"collected","dropped","objects","bytes"}
 *
 * Purpose: the master collects garbage by itself, in small portions (km_commit.c).  A sender of
 * kvs.gc waits until no garbage is left, while the service goes on.  Then objects that are only
 * cached are dropped, among them those of old roots that no snapshot holds.  The response has the
 * number of objects collected since the request arrived, the number of objects dropped from the
 * cache, and the number and bytes of the remaining objects.  Other instances pass the request on to
 * the master.
 *
 * Invariants:
 *  1. While a request waits and no root change is open, slices of time are spent on the collection.
 *
 * Failure: ENOMEM; the error of the request to the master.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "km_private.h"
#include "libflux/slice.h"

#define PIECE 64 /* objects between two readings of the clock */
#define THINGS (FLUX_SLICE_THINGS / 4)

struct km_gcs {
    struct list_node here; /* master: requests that wait for the collection */
    struct list_node sent; /* not the master: requests that were passed on */
    size_t dropped;        /* objects dropped from the cache for the requests in `here` */
};

struct gc {
    struct list_node node; /* in km_gcs.here */
    struct claim claim;
    struct km_ns *ns;
    flux_msg_t *req;
    flux_future_t *f; /* not the master: the request to it */
    uint64_t before;  /* objects that were collected before its arrival */
};

static void gc_free(struct gc *g)
{
    list_remove(&g->node);
    claim_drop(g->ns->k->senders, &g->claim);
    flux_future_destroy(g->f);
    flux_msg_destroy(g->req);
    free(g);
}

static void gc_gone(struct claim *c, bool canceled)
{
    struct gc *g = list_entry(c, struct gc, claim);

    flux_respond_error(g->ns->h, g->req, ENODATA, "the request %s", claim_gone_why(canceled));
    gc_free(g);
}

static uint64_t collected(const struct km_ns *ns)
{
    struct kvsstore_stats st;

    kvsstore_get_stats(ns->store, &st);
    return st.collected;
}

void km_gc_work(struct km_ns *ns, bool *more)
{
    struct list_node *n;
    struct flux_slice s;
    struct km_wire_collected a = {0};
    struct content_stats cs;
    size_t n_dropped;

    if (list_empty(&ns->gc->here)) {
        ns->gc->dropped = 0;
        return;
    }
    if (km_commit_open(ns))
        return; /* an open root change: nothing can be collected before it ends */
    flux_slice_begin(&s, flux_get_reactor(ns->h), FLUX_SLICE_SECONDS, THINGS);
    while (*more && flux_slice_more(&s))
        *more = kvsstore_collect(ns->store, PIECE);
    if (*more)
        return;
    while ((n_dropped = content_drop(ns->content, PIECE)) == PIECE && flux_slice_more(&s))
        ns->gc->dropped += n_dropped;
    ns->gc->dropped += n_dropped;
    if (n_dropped == PIECE) {
        km_ns_poke(ns);
        return;
    }
    a.dropped = ns->gc->dropped;
    ns->gc->dropped = 0;
    content_get_stats(ns->content, &cs);
    a.objects = cs.objects;
    a.bytes = cs.bytes;
    while ((n = list_first(&ns->gc->here))) {
        struct gc *g = list_entry(n, struct gc, node);
        a.collected = collected(ns) - g->before;
        flux_respond_struct(ns->h, g->req, &km_wire_collected_schema, &a);
        gc_free(g);
    }
}

static void answered_cb(flux_future_t *f, void *arg)
{
    struct gc *g = arg;
    const char *json;
    errmsg_t err;

    if (flux_rpc_get_json(f, &json, &err) < 0)
        flux_respond_error(g->ns->h, g->req, errno, "%s", err.text);
    else
        flux_respond(g->ns->h, g->req, json);
    gc_free(g);
}

static int ask_master(struct gc *g)
{
    struct kvs_ns_only out = {g->ns->name};

    g->f = km_ns_upstream_struct(g->ns, "kvs.gc", &kvs_ns_only_schema, &out, true, 0);
    return g->f ? flux_future_then(g->f, -1., answered_cb, g) : -1;
}

void km_gc_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns = km_stats_request(arg, msg, km_gc_cb);
    struct gc *g;

    if (!ns)
        return;
    if (!(g = calloc(1, sizeof(*g))) || claim_take(ns->k->senders, &g->claim, msg, gc_gone) < 0) {
        free(g);
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory", flux_rank(h));
        return;
    }
    g->ns = ns;
    g->req = flux_msg_incref(msg);
    list_init(&g->node);
    list_append(ns->master ? &ns->gc->here : &ns->gc->sent, &g->node);
    if (ns->master) {
        g->before = collected(ns);
        km_ns_poke(ns);
    } else if (ask_master(g) < 0) {
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory", flux_rank(h));
        gc_free(g);
    }
}

static void shut_list(struct km_ns *ns, struct list_node *gcs, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, gcs)
    {
        struct gc *g = list_entry(n, struct gc, node);
        if (errnum)
            flux_respond_error(ns->h, g->req, errnum, "%s", why);
        gc_free(g);
    }
}

void km_gc_shut(struct km_ns *ns, int errnum, const char *why)
{
    shut_list(ns, &ns->gc->here, errnum, why);
    shut_list(ns, &ns->gc->sent, errnum, why);
}

/* --- life --- */

struct km_gcs *km_gc_create(void)
{
    struct km_gcs *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->here);
    list_init(&x->sent);
    return x;
}

void km_gc_destroy(struct km_gcs *x)
{
    free(x);
}

bool km_gc_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->gc->sent);
}
