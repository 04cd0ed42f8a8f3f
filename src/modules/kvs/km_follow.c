/* km_follow.c - roots of namespaces other than the primary, passed from instance to instance.
 *
 *    kvs.follow  {"namespace"} -> roots (kvs_wire.h), a stream: the current root and newer ones
 *
 * Purpose: the roots of the primary namespace are events, which reach all instances.  Events of
 * other namespaces would burden all instances for the benefit of a few.  So an instance that uses a
 * namespace follows it at the next instance towards its master (km_route.c), which follows it in
 * turn.  A change of a job's namespace reaches the instances between the master and the users of
 * the namespace, and no other instance.
 *
 * Invariants:
 *  1. An instance follows a namespace at most once, however many clients use it there.
 *  2. Followers get the newest root after all messages that have arrived are handled, so that
 *     changes that are close together are sent as one.  Versions increase along each stream.
 *  3. A follower is dropped when its stream ends: when its instance drops the namespace, or its
 *     rank is lost.
 *  4. The stream comes from the master itself, or from the next instance by the tree as this
 *     instance knows it now.  Otherwise two instances whose order has changed could follow each
 *     other.
 *
 * Failure: a stream that ends with an error (the namespace was removed; its master is lost) ends
 * the namespace here.  The requests that wait get that error, and the next request opens the
 * namespace again.  If the next instance is lost, the instance follows the namespace at the master
 * itself; if the way to the master is lost after its first answer, once more.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "km_private.h"

struct km_follow {
    flux_future_t *upstream; /* not the primary: the stream from the next instance */
    struct list_node followers;
    bool heard;        /* `upstream` has answered */
    bool master;       /* it goes to the master */
    uint32_t hop;      /* the next instance when it began */
    uint64_t notified; /* the version that was sent to followers */
};

struct follower {
    struct list_node node; /* in km_follow.followers */
    struct claim claim;
    struct km_ns *ns;
    flux_msg_t *req;
};

static void follower_free(struct follower *w)
{
    list_remove(&w->node);
    claim_drop(w->ns->k->senders, &w->claim);
    flux_msg_destroy(w->req);
    free(w);
}

static void follower_gone(struct claim *c, bool canceled)
{
    struct follower *w = list_entry(c, struct follower, claim);

    flux_respond_error(w->ns->h, w->req, ENODATA, "the following of a namespace %s",
                       claim_gone_why(canceled));
    follower_free(w);
}

static void tell(struct km_ns *ns, struct follower *w, const uint8_t *buf, size_t len)
{
    flux_respond_more_raw(ns->h, w->req, buf, len);
}

void km_follow_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns = km_space_request_plain(arg, msg, km_follow_cb);
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    struct kvs_root root;
    struct follower *w;

    if (!ns)
        return;
    if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
        flux_respond_error(h, msg, EPROTO, "kvs.follow must be a streaming request");
        return;
    }
    if (!(w = calloc(1, sizeof(*w))) ||
        claim_take(ns->k->senders, &w->claim, msg, follower_gone) < 0) {
        free(w);
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory", flux_rank(h));
        return;
    }
    w->ns = ns;
    w->req = flux_msg_incref(msg);
    list_init(&w->node);
    list_append(&ns->follow->followers, &w->node);
    km_ns_root_fill(ns, &root);
    tell(ns, w, buf, kvs_root_encode(&root, buf));
}

void km_follow_work(struct km_ns *ns)
{
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    struct kvs_root root;
    size_t len;

    if (!ns->ready || ns->follow->notified >= ns->version)
        return;
    ns->follow->notified = ns->version;
    if (list_empty(&ns->follow->followers))
        return;
    km_ns_root_fill(ns, &root);
    len = kvs_root_encode(&root, buf);
    LIST_FOREACH(n, &ns->follow->followers)
    tell(ns, list_entry(n, struct follower, node), buf, len);
}

static int follow(struct km_ns *ns, bool master);

static void followed_cb(flux_future_t *f, void *arg)
{
    struct km_ns *ns = arg;
    struct km_follow *x = ns->follow;
    struct kvs_root root;
    const void *data;
    size_t len;
    errmsg_t err = {""};

    if ((x->heard || !x->master) && flux_future_errnum(f) == EHOSTUNREACH) {
        flux_future_destroy(f);
        x->upstream = NULL;
        if (follow(ns, true) < 0)
            km_space_end(ns, ENOMEM, "rank %u is out of memory", flux_rank(ns->h));
        return;
    }
    if (flux_rpc_get_raw(f, &data, &len, &err) < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        km_ns_root_heard(ns, &root, &err) < 0) {
        km_space_end(ns, errno ? errno : EPROTO, "%s", err.text); /* destroys the future */
        return;
    }
    x->heard = true;
    if (x->upstream == f)
        flux_future_next(f);
}

/* Follow the namespace at the next instance, or at the master.  -1 with ENOMEM. */
static int follow(struct km_ns *ns, bool master)
{
    struct kvs_ns_only out = {ns->name};
    struct km_follow *x = ns->follow;

    x->heard = false;
    x->master = master;
    x->hop = km_route_hop(ns->k->route, ns->rank);
    x->upstream = km_ns_upstream_struct(ns, "kvs.follow", &kvs_ns_only_schema, &out, master,
                                        FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    return x->upstream ? flux_future_then(x->upstream, -1., followed_cb, ns) : -1;
}

void km_follow_rerouted(struct km_ns *ns)
{
    struct km_follow *x = ns->follow;

    if (!x->upstream || x->master || x->hop == km_route_hop(ns->k->route, ns->rank))
        return;
    flux_future_destroy(x->upstream); /* ends the stream there */
    x->upstream = NULL;
    km_follow(ns);
}

void km_follow(struct km_ns *ns)
{
    if (!ns->follow->upstream && follow(ns, false) < 0)
        km_space_end(ns, ENOMEM, "rank %u is out of memory", flux_rank(ns->h));
}

void km_follow_shut(struct km_ns *ns, int errnum, const char *why)
{
    flux_future_destroy(ns->follow->upstream); /* ends the stream there */
    ns->follow->upstream = NULL;
    LIST_FOREACH_SAFE(n, tmp, &ns->follow->followers)
    {
        struct follower *w = list_entry(n, struct follower, node);
        if (errnum)
            flux_respond_error(ns->h, w->req, errnum, "%s", why);
        follower_free(w);
    }
}

/* --- life --- */

struct km_follow *km_follow_create(void)
{
    struct km_follow *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->followers);
    return x;
}

void km_follow_destroy(struct km_follow *x)
{
    free(x);
}

bool km_follow_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->follow->followers);
}
