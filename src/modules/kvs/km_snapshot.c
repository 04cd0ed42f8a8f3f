/* km_snapshot.c - kvs.snapshot: old roots that are held for clients, and for diff-watches.
 *
 *    kvs.snapshot {"namespace","rootref"} -> one root (kvs_wire.h); a stream
 *                 rootref "": the newest root.  The root is held until the stream ends.
 *
 * An instance that is not the master passes the request on to the master, with a stream of its own
 * for each snapshot.  When a client cancels or dies, or a rank is lost, the streams end one after
 * the other up to the master, which then releases the root.
 *
 * Invariants:
 *  1. At the master each snapshot holds its root in the store exactly once, from the response on.
 *  2. A snapshot has a claim (libservice/claim.h): no snapshot outlives its client.
 *
 * Failure: ENOENT for a root that is no longer stored; EAGAIN for too many snapshots.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_private.h"

#define SNAPSHOTS_MAX 65536 /* for one namespace at one instance */

struct km_snapshots {
    struct list_node all;
    size_t n;
};

struct snapshot {
    struct list_node node; /* in km_snapshots.all */
    struct claim claim;
    struct km_ns *ns;
    flux_msg_t *req;
    flux_future_t *f; /* not the master: the stream from the master */
    bool held;
    uint8_t root[BLOBREF_DIGEST_MAX];
};

static void snapshot_free(struct snapshot *s)
{
    struct km_ns *ns = s->ns;

    list_remove(&s->node);
    ns->snapshot->n--;
    claim_drop(ns->k->senders, &s->claim);
    flux_future_destroy(s->f);
    if (s->held) {
        kvsstore_release_root(ns->store, s->root);
        km_ns_poke(ns); /* there may be garbage to collect */
    }
    flux_msg_destroy(s->req);
    free(s);
}

static void snapshot_gone(struct claim *c, bool canceled)
{
    struct snapshot *s = list_entry(c, struct snapshot, claim);

    flux_respond_error(s->ns->h, s->req, ENODATA, "the snapshot %s", claim_gone_why(canceled));
    snapshot_free(s);
}

static void snapshot_fail(struct snapshot *s, int errnum, const char *why)
{
    flux_respond_error(s->ns->h, s->req, errnum, "%s", why);
    snapshot_free(s);
}

/* At the master: hold the root, and answer. */
static void take(struct snapshot *s, const char *rootref)
{
    struct km_ns *ns = s->ns;
    struct kvs_root root;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    errmsg_t err;

    km_ns_root_fill(ns, &root);
    memcpy(s->root, ns->root, sizeof(s->root));
    if (*rootref && strcmp(rootref, root.ref) != 0) {
        root.version = 0;
        memcpy(root.ref, rootref, strlen(rootref) + 1); /* its length was checked */
        if (blobref_parse(ns->k->blobref, rootref, strlen(rootref), s->root, &err) < 0) {
            snapshot_fail(s, EINVAL, err.text);
            return;
        }
    }
    if (kvsstore_hold_root(ns->store, s->root, &err) < 0) {
        snapshot_fail(s, errno, err.text);
        return;
    }
    s->held = true;
    flux_respond_more_raw(ns->h, s->req, buf, kvs_root_encode(&root, buf));
}

static void taken_cb(flux_future_t *f, void *arg)
{
    struct snapshot *s = arg;
    struct kvs_root root;
    const void *data;
    size_t len;
    errmsg_t err = {""};

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        (root.version && km_ns_root_heard(s->ns, &root, &err) < 0)) {
        snapshot_fail(s, errno ? errno : EPROTO, err.text);
        return;
    }
    flux_respond_more_raw(s->ns->h, s->req, data, len);
    flux_future_next(f);
}

static void start(struct snapshot *s, const char *rootref)
{
    struct km_ns *ns = s->ns;
    struct kvs_ns_rootref out = {ns->name, rootref};

    if (ns->master) {
        take(s, rootref);
        return;
    }
    s->f = km_ns_upstream_struct(ns, "kvs.snapshot", &kvs_ns_rootref_schema, &out, true,
                                 FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_WHOLE);
    if (!s->f || flux_future_then(s->f, -1., taken_cb, s) < 0)
        snapshot_fail(s, ENOMEM, "out of memory for a snapshot");
}

static struct snapshot *snapshot_new(struct km_ns *ns, const flux_msg_t *msg)
{
    struct snapshot *s = calloc(1, sizeof(*s));

    if (!s || claim_take(ns->k->senders, &s->claim, msg, snapshot_gone) < 0) {
        free(s);
        return NULL;
    }
    s->ns = ns;
    s->req = flux_msg_incref(msg);
    list_init(&s->node);
    list_append(&ns->snapshot->all, &s->node);
    ns->snapshot->n++;
    return s;
}

void km_snapshot_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct kvs_ns_rootref in;
    struct snapshot *s;
    struct km_ns *ns;
    json_t *owner;

    if (flux_request_decode(h, msg, &kvs_ns_rootref_schema, &in, &owner) < 0)
        return;
    if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
        flux_respond_error(h, msg, EPROTO, "kvs.snapshot must be a streaming request");
    else if (strlen(in.rootref) >= KVS_ROOTREF_MAX)
        flux_respond_error(h, msg, EINVAL, "'%.40s...' is too long for a root's reference",
                           in.rootref);
    else if ((ns = km_space_request_ready(arg, msg, in.namespace, strlen(in.namespace),
                                          km_snapshot_cb))) {
        if (claim_sender_rank(msg) != UINT32_MAX &&
            idset_test(session_lost(ns->k->session), claim_sender_rank(msg)))
            /* The request came along the ring: no message would report the end of its sender. */
            flux_respond_error(h, msg, EHOSTUNREACH,
                               "rank %u was lost: no root is kept for a client there",
                               claim_sender_rank(msg));
        else if (ns->snapshot->n >= SNAPSHOTS_MAX)
            flux_respond_error(h, msg, EAGAIN, "there are %d snapshots here: end one first",
                               SNAPSHOTS_MAX);
        else if (!(s = snapshot_new(ns, msg)))
            flux_respond_error(h, msg, ENOMEM, "out of memory for a snapshot");
        else
            start(s, in.rootref);
    }
    json_decref(owner);
}

/* --- roots held for this instance --- */

static void hold_cb(flux_future_t *f, void *arg)
{
    struct km_snapshot_hold *h = arg;
    struct kvs_root root;
    const void *data;
    size_t len;
    errmsg_t err = {""};

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        km_ns_root_heard(h->ns, &root, &err) < 0 ||
        blobref_parse(h->ns->k->blobref, root.ref, strlen(root.ref), h->root, &err) < 0) {
        int errnum = errno ? errno : EPROTO;
        void (*cb)(struct km_snapshot_hold *, int, const char *) = h->cb;
        h->f = NULL;
        flux_future_destroy(f);
        if (!h->ready) /* else the next read at this root notices the loss */
            cb(h, errnum, err.text);
        return;
    }
    h->version = root.version;
    h->ready = true;
    flux_future_next(f);
    h->cb(h, 0, NULL);
}

void km_snapshot_hold_newest(struct km_snapshot_hold *h, struct km_ns *ns,
                             void (*cb)(struct km_snapshot_hold *h, int errnum, const char *error))
{
    struct kvs_ns_rootref out = {ns->name, ""};
    errmsg_t err;

    km_snapshot_hold_end(h);
    h->ns = ns;
    h->cb = cb;
    if (ns->master) {
        memcpy(h->root, ns->root, sizeof(h->root));
        h->version = ns->version;
        if (kvsstore_hold_root(ns->store, h->root, &err) < 0) {
            cb(h, errno, err.text);
            return;
        }
        h->held = true;
        cb(h, 0, NULL);
        return;
    }
    h->f = km_ns_upstream_struct(ns, "kvs.snapshot", &kvs_ns_rootref_schema, &out, true,
                                 FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_WHOLE);
    if (!h->f || flux_future_then(h->f, -1., hold_cb, h) < 0) {
        flux_future_destroy(h->f);
        h->f = NULL;
        cb(h, ENOMEM, "out of memory for a snapshot");
    }
}

void km_snapshot_hold_end(struct km_snapshot_hold *h)
{
    flux_future_destroy(h->f); /* the master then releases the root */
    if (h->held) {
        kvsstore_release_root(h->ns->store, h->root);
        km_ns_poke(h->ns);
    }
    memset(h, 0, sizeof(*h));
}

static void held_cb(flux_future_t *f, void *arg)
{
    struct km_snapshot_hold *h = arg;

    /* The stream has no further results; it ends when the route to the master is lost. */
    h->f = NULL;
    flux_future_destroy(f);
}

void km_snapshot_hold_move(struct km_snapshot_hold *to, struct km_snapshot_hold *from)
{
    km_snapshot_hold_end(to);
    *to = *from;
    memset(from, 0, sizeof(*from));
    if (to->f && flux_future_then(to->f, -1., held_cb, to) < 0) {
        flux_future_destroy(to->f);
        to->f = NULL;
    }
}

void km_snapshot_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->snapshot->all)
    {
        struct snapshot *s = list_entry(n, struct snapshot, node);
        if (errnum)
            snapshot_fail(s, errnum, why);
        else
            snapshot_free(s);
    }
}

/* --- life --- */

struct km_snapshots *km_snapshot_create(void)
{
    struct km_snapshots *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->all);
    return x;
}

void km_snapshot_destroy(struct km_snapshots *x)
{
    free(x);
}

size_t km_snapshot_count(const struct km_ns *ns)
{
    return ns->snapshot->n;
}
