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
    struct km *k;
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
    struct km *k = w->k;
    const void *data;
    size_t len;
    errmsg_t err;
    struct kvs_root root;
    if (flux_rpc_get_raw(f, &data, &len, &err) < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        km_root_heard(k, &root, &err) < 0)
        flux_respond_error(k->h, w->req, errno, "%s", err.text);
    else
        flux_respond_raw(k->h, w->req, data, len);
    forward_free(w);
}

static void forward(struct km *k, const flux_msg_t *msg)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    struct forward *w = calloc(1, sizeof(*w));
    if (w) {
        w->k = k;
        w->req = flux_msg_incref(msg);
        list_init(&w->node);
        list_append(&k->forwards, &w->node);
        w->f = km_upstream(k, "kvs.commit", data, len, false);
        if (w->f && flux_future_then(w->f, -1., forwarded_cb, w) == 0)
            return;
        forward_free(w);
    }
    flux_respond_error(k->h, msg, ENOMEM, "rank %u is out of memory for a commit", flux_rank(k->h));
}

/* --- the queue of the master --- */

struct commit {
    struct list_node node;
    flux_msg_t *req;        /* a commit, or */
    struct km_fence *fence; /* a complete fence */
    int errnum;
    errmsg_t err;
};

static int enqueue(struct km *k, const flux_msg_t *msg, struct km_fence *fence)
{
    struct commit *c = calloc(1, sizeof(*c));
    if (!c)
        return -1;
    c->req = msg ? flux_msg_incref(msg) : NULL;
    c->fence = fence;
    list_init(&c->node);
    list_append(&k->commits, &c->node);
    km_poke(k);
    return 0;
}

int km_commit_fence(struct km *k, struct km_fence *f)
{
    return enqueue(k, NULL, f);
}

void km_commit_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    size_t len;
    if (!km_ready(k, msg, km_commit_cb))
        return;
    k->st.commits++;
    if (!flux_msg_payload(msg, &len) || !flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        flux_respond_error(h, msg, EPROTO, "a commit needs a transaction as its payload");
    else if (!k->master)
        forward(k, msg);
    else if (enqueue(k, msg, NULL) < 0)
        flux_respond_error(h, msg, ENOMEM, "the master is out of memory for a commit");
}

static void commit_end(struct km *k, struct commit *c)
{
    list_remove(&c->node);
    if (c->fence)
        km_fence_done(k, c->fence, c->errnum, c->err.text);
    else if (c->errnum)
        flux_respond_error(k->h, c->req, c->errnum, "%s", c->err.text);
    else
        km_respond_root(k, c->req, k->version, k->rootref);
    flux_msg_destroy(c->req);
    free(c);
}

/* One root change. */
static void change(struct km *k)
{
    struct list_node batch;
    errmsg_t err;
    size_t bytes = 0;
    unsigned ops = 0;
    int rc = kvsstore_begin(k->store);
    int errnum = rc < 0 ? errno : 0;
    if (rc < 0)
        errmsg_set(&err, "the master is out of memory for a root change");
    list_init(&batch);
    struct list_node *n;
    while (bytes < BATCH_BYTES && ops < BATCH_OPS && (n = list_first(&k->commits))) {
        struct commit *c = list_entry(n, struct commit, node);
        const void *txn;
        size_t len;
        list_remove(n);
        list_append(&batch, n);
        if (c->fence)
            km_fence_txn(c->fence, &txn, &len);
        else
            txn = flux_msg_payload(c->req, &len);
        bytes += len;
        ops++;
        if (rc == 0 && kvsstore_apply(k->store, txn, len, &c->err) < 0)
            c->errnum = errno;
    }
    if (rc == 0) {
        rc = kvsstore_end(k->store, &err);
        errnum = rc < 0 ? errno : 0;
    }
    if (rc == 1) {
        k->st.root_changes++;
        km_root_set(k, kvsstore_version(k->store), kvsstore_root(k->store));
    }
    while ((n = list_first(&batch))) {
        struct commit *c = list_entry(n, struct commit, node);
        if (rc < 0 && c->errnum == 0) {
            c->errnum = errnum;
            c->err = err;
        }
        commit_end(k, c);
    }
    km_commit_publish(k);
}

void km_commit_work(struct km *k)
{
    if (!k->store)
        return;
    bool more = false;
    if (!list_empty(&k->commits)) {
        change(k);
        more = kvsstore_collect(k->store, COLLECT) || !list_empty(&k->commits);
    } else {
        more = kvsstore_collect(k->store, COLLECT);
    }
    if (more)
        km_poke(k);
}

static void published_cb(flux_future_t *f, void *arg)
{
    struct km *k = arg;
    bool failed = flux_future_errnum(f) != 0;
    if (failed)
        flux_log(k->h, LOG_ERR, "root version %llu could not be announced: %s",
                 (unsigned long long)k->published, flux_future_error(f));
    k->publish = NULL;
    flux_future_destroy(f);
    if (!failed)
        km_commit_publish(k);
}

void km_commit_publish(struct km *k)
{
    if (k->publish || (k->announcing && k->published >= k->version))
        return;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    struct kvs_root root = {.version = k->version};
    memcpy(root.ref, k->rootref, strlen(k->rootref) + 1);
    k->publish = flux_event_publish_raw(k->h, "kvs.setroot", buf, kvs_root_encode(&root, buf));
    if (!k->publish || flux_future_then(k->publish, -1., published_cb, k) < 0) {
        flux_log(k->h, LOG_ERR, "out of memory: a root is announced late");
        flux_future_destroy(k->publish);
        k->publish = NULL;
        return;
    }
    k->announcing = true;
    k->published = k->version;
}

void km_commit_fini(struct km *k)
{
    LIST_FOREACH_SAFE(n, tmp, &k->forwards)
    {
        struct forward *w = list_entry(n, struct forward, node);
        flux_respond_error(k->h, w->req, ECONNABORTED,
                           "kvs was stopped at rank %u while a commit was on its way: look whether "
                           "it took effect",
                           flux_rank(k->h));
        forward_free(w);
    }
    LIST_FOREACH_SAFE(n, tmp, &k->commits)
    {
        struct commit *c = list_entry(n, struct commit, node);
        list_remove(n);
        flux_msg_destroy(c->req);
        free(c);
    }
    flux_future_destroy(k->publish);
}
