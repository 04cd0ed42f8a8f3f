/* kvs_commit.c - commits: up to the master, and into a root.
 *
 * An instance that is not the master sends a commit on to the next one upstream at once.  The
 * answer carries the new root, which every instance on the way takes before it passes the answer
 * down: whoever saw the answer finds at least that version wherever it came through.
 *
 * The master puts commits (and complete fences) in a queue and works it off when it has looked at
 * all that came in: one by one while it is idle, all that waits in one root change when it is busy.
 * It answers, and after that has the event kvs.setroot published; while one event is on its way to
 * its number no other is sent, so that the events never fall behind the changes: the next one
 * carries the newest root.
 *
 * Invariants:
 *  1. Each transaction is applied once and as a whole, or refused with an error to the one who sent
 * it.
 *  2. Answers go out in the order of the queue, after the root they name is in place.
 *  3. Events carry rising versions, and after the last change the last event carries the last
 * version.
 *
 * Failure: a refused transaction does not touch others of the same root change.  When memory is out
 * in a root change all in it are refused.  An event that cannot be published is logged, and tried
 * again with the next root.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_private.h"

/* A root change takes at most so much, so that answers do not wait for ever in a flood. */
#define BATCH_OPS 4096
#define BATCH_BYTES (16u * 1024 * 1024)
/* Objects given back after each root change (a commit leaves about five behind); the rest when
 * idle. */
#define COLLECT 256

/* --- towards the master --- */

struct forward {
    struct list_node node;
    struct km_ns *ns;
    flux_msg_t *req;
    flux_future_t *f;
};

static void forward_free(struct forward *w)
{
    list_remove(&w->node);
    flux_future_destroy(w->f);
    flux_msg_destroy(w->req);
    free(w);
}

static void forwarded_cb(flux_future_t *f, void *arg)
{
    struct forward *w = arg;
    struct km_ns *ns = w->ns;
    const void *data;
    size_t len;
    errmsg_t err;
    struct kvs_root root;
    if (flux_rpc_get_raw(f, &data, &len, &err) < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        km_root_heard(ns, &root, &err) < 0)
        flux_respond_error(ns->h, w->req, errno, "%s", err.text);
    else
        flux_respond_raw(ns->h, w->req, data, len);
    forward_free(w);
}

static void forward(struct km_ns *ns, const flux_msg_t *msg)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    struct forward *w = calloc(1, sizeof(*w));
    if (w) {
        w->ns = ns;
        w->req = flux_msg_incref(msg);
        list_init(&w->node);
        list_append(&ns->forwards, &w->node);
        w->f = km_upstream(ns, "kvs.commit", data, len, false);
        if (w->f && flux_future_then(w->f, -1., forwarded_cb, w) == 0)
            return;
        forward_free(w);
    }
    flux_respond_error(ns->h, msg, ENOMEM, "rank %u is out of memory for a commit",
                       flux_rank(ns->h));
}

/* --- the queue of the master --- */

struct commit {
    struct list_node node;  /* in km_ns.commits, then in km_change.commits */
    flux_msg_t *req;        /* a commit, or */
    struct km_fence *fence; /* a complete fence */
    const void *txn;        /* in the request */
    size_t len;
    int errnum;
    errmsg_t err;
};

/* A root change: what was applied together. */
struct km_change {
    struct list_node commits;
    uint64_t version; /* the root it made */
    uint8_t root[BLOBREF_DIGEST_MAX];
    bool changed; /* false: all were refused, the root is the old one */
};

static int enqueue(struct km_ns *ns, const flux_msg_t *msg, const void *txn, size_t len,
                   struct km_fence *fence)
{
    struct commit *c = calloc(1, sizeof(*c));
    if (!c)
        return -1;
    c->txn = txn;
    c->len = len;
    c->req = msg ? flux_msg_incref(msg) : NULL;
    c->fence = fence;
    list_init(&c->node);
    list_append(&ns->commits, &c->node);
    km_poke(ns);
    return 0;
}

int km_commit_fence(struct km_ns *ns, struct km_fence *f)
{
    return enqueue(ns, NULL, NULL, 0, f);
}

void km_commit_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct kvs_ns_req q;
    if (km_decode(h, msg, &q) < 0 || !(ns = km_ns_request(arg, msg, q.ns, q.nslen, km_commit_cb)))
        return;
    ns->st.commits++;
    if (!ns->master)
        forward(ns, msg);
    else if (enqueue(ns, msg, q.body, q.len, NULL) < 0)
        flux_respond_error(h, msg, ENOMEM, "the master is out of memory for a commit");
}

static void commit_txn(const struct commit *c, const void **txn, size_t *len)
{
    *txn = c->txn;
    *len = c->len;
    if (c->fence)
        km_fence_txn(c->fence, txn, len);
}

static void commit_end(struct km_ns *ns, struct commit *c)
{
    list_remove(&c->node);
    if (c->fence)
        km_fence_done(ns, c->fence, c->errnum, c->err.text);
    else if (c->errnum)
        flux_respond_error(ns->h, c->req, c->errnum, "%s", c->err.text);
    else
        km_respond_root(ns, c->req);
    flux_msg_destroy(c->req);
    free(c);
}

/* --- root changes --- */

/* The change will stay (errnum 0), or never was: its root becomes visible, who waits is answered,
 * and it is announced.  Changes end in the order in which they were applied. */
static void change_durable(struct km_ns *ns, struct km_change *ch, int errnum, const char *error)
{
    struct list_node *n;
    if (ch->changed && errnum == 0)
        km_root_set(ns, ch->version, ch->root);
    while ((n = list_first(&ch->commits))) {
        struct commit *c = list_entry(n, struct commit, node);
        if (errnum && c->errnum == 0) {
            c->errnum = errnum;
            errmsg_set(&c->err, "%s", error);
        }
        commit_end(ns, c);
    }
    free(ch);
    km_commit_publish(ns);
}

/* The change is in the store.  The one place between "applied" and "will stay". */
static void change_applied(struct km_ns *ns, struct km_change *ch)
{
    change_durable(ns, ch, 0, NULL);
}

/* One root change. */
static void change(struct km_ns *ns)
{
    struct km_change *ch = calloc(1, sizeof(*ch));
    errmsg_t err;
    size_t bytes = 0;
    unsigned ops = 0;
    if (!ch)
        return; /* they wait; more memory may be there later */
    list_init(&ch->commits);
    int rc = kvsstore_begin(ns->store);
    int errnum = rc < 0 ? errno : 0;
    if (rc < 0)
        errmsg_set(&err, "the master is out of memory for a root change");
    struct list_node *n;
    while (bytes < BATCH_BYTES && ops < BATCH_OPS && (n = list_first(&ns->commits))) {
        struct commit *c = list_entry(n, struct commit, node);
        const void *txn;
        size_t len;
        list_remove(n);
        list_append(&ch->commits, n);
        commit_txn(c, &txn, &len);
        bytes += len;
        ops++;
        if (rc == 0 && kvsstore_apply(ns->store, txn, len, &c->err) < 0)
            c->errnum = errno;
    }
    if (rc == 0) {
        rc = kvsstore_end(ns->store, &err);
        errnum = rc < 0 ? errno : 0;
    }
    if (rc < 0) {
        change_durable(ns, ch, errnum, err.text);
        return;
    }
    if (rc == 1) {
        ns->st.root_changes++;
        ch->changed = true;
        ch->version = kvsstore_version(ns->store);
        memcpy(ch->root, kvsstore_root(ns->store), blobref_size(ns->k->blobref));
    }
    change_applied(ns, ch);
}

void km_commit_work(struct km_ns *ns)
{
    if (!ns->store)
        return;
    bool more = false;
    if (!list_empty(&ns->commits)) {
        change(ns);
        more = kvsstore_collect(ns->store, COLLECT) || !list_empty(&ns->commits);
    } else {
        more = kvsstore_collect(ns->store, COLLECT);
    }
    if (more)
        km_poke(ns);
}

static void published_cb(flux_future_t *f, void *arg)
{
    struct km_ns *ns = arg;
    bool failed = flux_future_errnum(f) != 0;
    if (failed)
        flux_log(ns->h, LOG_ERR, "root version %llu could not be announced: %s",
                 (unsigned long long)ns->published, flux_future_error(f));
    ns->publish = NULL;
    flux_future_destroy(f);
    if (!failed)
        km_commit_publish(ns);
}

void km_commit_publish(struct km_ns *ns)
{
    if (ns != ns->k->primary) {
        km_poke(ns); /* followers are told */
        return;
    }
    if (ns->publish || (ns->announcing && ns->published >= ns->version))
        return;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    struct kvs_root root;
    km_root_fill(ns, &root);
    ns->publish = flux_event_publish_raw(ns->h, "kvs.setroot", buf, kvs_root_encode(&root, buf));
    if (!ns->publish || flux_future_then(ns->publish, -1., published_cb, ns) < 0) {
        flux_log(ns->h, LOG_ERR, "out of memory: a root is announced late");
        flux_future_destroy(ns->publish);
        ns->publish = NULL;
        return;
    }
    ns->announcing = true;
    ns->published = ns->version;
}

void km_commit_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->forwards)
    {
        struct forward *w = list_entry(n, struct forward, node);
        if (errnum)
            flux_respond_error(ns->h, w->req, errnum, "%s", why);
        else
            flux_respond_error(ns->h, w->req, ECONNABORTED,
                               "kvs was stopped at rank %u while a commit was on its way: look "
                               "whether it took effect",
                               flux_rank(ns->h));
        forward_free(w);
    }
    LIST_FOREACH_SAFE(n, tmp, &ns->commits)
    {
        struct commit *c = list_entry(n, struct commit, node);
        list_remove(n);
        if (errnum && c->req)
            flux_respond_error(ns->h, c->req, errnum, "%s", why);
        flux_msg_destroy(c->req); /* its fence ends by itself */
        free(c);
    }
    flux_future_destroy(ns->publish);
    ns->publish = NULL;
}
