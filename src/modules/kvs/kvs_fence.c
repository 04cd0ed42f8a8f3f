/* kvs_fence.c - fences: transactions of many, merged on the way up, applied in one root change.
 *
 * What comes in for a fence (calls of local clients, messages of instances below) is merged until
 * all that came in was looked at; then it goes upstream as one message with the number of calls in
 * it:
 *
 *    first message     kvs.fence, instance       answered when the fence is over: root, or error
 *    what came later   kvs.fence, instance+add   answered at once; the next one waits for that
 *
 * so there is no timer, and the busier the tree the fewer the messages.  The root of the tree
 * applies the whole when `nprocs` calls are in it.  Every instance on the way down takes the new
 * root before it answers.
 *
 * state        what happens                            left when
 * gathering    merging; sending what was merged        all calls are here (master), or the first
 *                                                      message was answered
 * applying     in the master's queue                   applied or refused
 * over         all who wait are answered, forgotten    -
 *
 * What is merged is a set, and what goes upstream is packed: equal keys once, equal values once,
 * also when they are in several messages (kvs_merge.c).  So the messages do not grow with the number
 * of calls that say the same.
 *
 * A participant that disconnects (a client that died; an instance below whose broker is lost, since
 * its first message was unanswered) ends the fence for all: kvs.fence-abort goes up, the error
 * comes down.  The master keeps the name for the calls that had not come yet, so that late ones
 * fail too, and do not wait for ever.
 *
 * Invariants:
 *  1. count is the number of calls in everything merged here; count <= nprocs.
 *  2. Calls in `unsent` were merged but not sent; first == NULL implies that nothing was sent.
 *  3. All parts are answered exactly once, unless their sender is gone.
 *
 * Failure: a call that does not fit (other nprocs, malformed transaction, too many calls) is
 * refused alone. An error on the way up ends the fence for all below.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_merge.h"
#include "kvs_private.h"

#define GRAVES_MAX 1024
#define GRAVE_SECONDS 120.

struct part {
    struct list_node node;
    struct km_claim claim;
    struct km_fence *f;
    flux_msg_t *req;
};

struct km_fence {
    struct km_ns *ns;
    struct list_node node; /* in km_fences.busy when there is something to send */
    char *name;
    uint32_t nprocs;
    uint32_t count;
    uint32_t unsent;
    struct list_node parts;
    struct km_merge merge;
    bool applying;
    flux_future_t *first;
    flux_future_t *add;
};

/* A fence that was aborted: its late calls are refused. */
struct grave {
    struct list_node node;
    uint32_t nprocs;
    uint32_t left;
    double until;
    errmsg_t why;
    char name[];
};

struct km_fences {
    hmap_t *by_name;
    hmap_t *graves;
    struct list_node old; /* graves, the oldest first */
    struct list_node busy;
};

struct abort_in {
    const char *namespace;
    const char *name;
    uint32_t nprocs;
    bool sent; /* calls went up before this: who knows no such fence has seen its end */
    const char *reason;
};
static const struct flux_field abort_fields[] = {
    FLUX_FIELD_STR(struct abort_in, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct abort_in, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct abort_in, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct abort_in, sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct abort_in, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema abort_schema = FLUX_SCHEMA(struct abort_in, abort_fields);

struct km_fences *km_fences_create(void)
{
    struct km_fences *fs = calloc(1, sizeof(*fs));
    if (!fs)
        return NULL;
    list_init(&fs->old);
    list_init(&fs->busy);
    fs->by_name = hmap_create_str(NULL);
    fs->graves = hmap_create_str(NULL);
    if (!fs->by_name || !fs->graves) {
        hmap_destroy(fs->by_name);
        hmap_destroy(fs->graves);
        free(fs);
        return NULL;
    }
    return fs;
}

size_t km_fence_count(const struct km_ns *ns)
{
    return hmap_count(ns->fences->by_name);
}

static void part_free(struct part *p)
{
    list_remove(&p->node);
    km_claim_drop(p->f->ns->k->senders, &p->claim);
    flux_msg_destroy(p->req);
    free(p);
}

static void fence_free(struct km_fence *f)
{
    (void)hmap_take(f->ns->fences->by_name, f->name);
    list_remove(&f->node);
    LIST_FOREACH_SAFE(n, tmp, &f->parts)
    part_free(list_entry(n, struct part, node));
    km_merge_clear(&f->merge);
    flux_future_destroy(f->first);
    flux_future_destroy(f->add);
    free(f->name);
    free(f);
}

static struct km_fence *fence_new(struct km_ns *ns, const char *name, uint32_t nprocs)
{
    struct km_fence *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->ns = ns;
    f->nprocs = nprocs;
    list_init(&f->parts);
    list_init(&f->node);
    f->name = strdup(name);
    if (!f->name || hmap_put(ns->fences->by_name, name, f) < 0) {
        free(f->name);
        free(f);
        return NULL;
    }
    return f;
}

void km_fence_txn(const struct km_fence *f, const void **txn, size_t *len)
{
    *txn = f->merge.pack;
    *len = f->merge.packlen;
}

/* --- the end --- */

void km_fence_done(struct km_ns *ns, struct km_fence *f, int errnum, const char *error)
{
    LIST_FOREACH(n, &f->parts)
    {
        struct part *p = list_entry(n, struct part, node);
        if (errnum)
            flux_respond_error(ns->h, p->req, errnum, "%s", error);
        else
            km_respond_root(ns, p->req);
    }
    fence_free(f);
}

static void grave_free(struct km_fences *fs, struct grave *g)
{
    (void)hmap_take(fs->graves, g->name);
    list_remove(&g->node);
    free(g);
}

static void bury(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t left,
                 const char *why)
{
    struct km_fences *fs = ns->fences;
    struct list_node *n;
    double now = flux_now(ns->h);
    while ((n = list_first(&fs->old)) &&
           (hmap_count(fs->graves) >= GRAVES_MAX || list_entry(n, struct grave, node)->until < now))
        grave_free(fs, list_entry(n, struct grave, node));
    size_t len = strlen(name);
    struct grave *g = left > 0 ? calloc(1, sizeof(*g) + len + 1) : NULL;
    if (!g)
        return;
    memcpy(g->name, name, len + 1);
    g->nprocs = nprocs;
    g->left = left;
    g->until = now + GRAVE_SECONDS;
    errmsg_set(&g->why, "%s", why);
    struct grave *old = hmap_take(fs->graves, g->name);
    if (old) {
        list_remove(&old->node);
        free(old);
    }
    list_init(&g->node);
    if (hmap_put(fs->graves, g->name, g) < 0)
        free(g);
    else
        list_append(&fs->old, &g->node);
}

static void send_abort(struct km_ns *ns, const char *name, uint32_t nprocs, bool sent,
                       const char *why)
{
    struct abort_in out = {ns->name, name, nprocs, sent, why};
    flux_future_destroy(km_upstream_struct(ns, "kvs.fence-abort", &abort_schema, &out, false,
                                           FLUX_MSGF_NORESPONSE));
}

static int flush(struct km_fence *f);

/* End it for all: here when this is the master, else by telling upstream, whose error ends it here.
 * The fence may be gone after this. */
static void fence_abort(struct km_fence *f, const char *why)
{
    struct km_ns *ns = f->ns;
    if (ns->master) {
        if (!f->applying) {
            bury(ns, f->name, f->nprocs, f->nprocs - f->count, why);
            km_fence_done(ns, f, ECONNABORTED, why);
        }
        return;
    }
    if (f->unsent > 0) {
        list_remove(&f->node);
        if (flush(f) < 0)
            return;
    }
    send_abort(ns, f->name, f->nprocs, f->first != NULL, why);
    if (!f->first)
        km_fence_done(ns, f, ECONNABORTED, why);
}

/* --- upstream --- */

static void over_cb(flux_future_t *fut, void *arg)
{
    struct km_fence *f = arg;
    struct km_ns *ns = f->ns;
    const void *data;
    size_t len;
    errmsg_t err;
    struct kvs_root root;
    if (flux_rpc_get_raw(fut, &data, &len, &err) < 0 ||
        kvs_root_decode(data, len, &root, &err) < 0 || km_root_heard(ns, &root, &err) < 0) {
        km_fence_done(ns, f, errno, err.text);
        return;
    }
    LIST_FOREACH(n, &f->parts)
    {
        flux_respond_raw(ns->h, list_entry(n, struct part, node)->req, data, len);
    }
    fence_free(f);
}

static void added_cb(flux_future_t *fut, void *arg)
{
    struct km_fence *f = arg;
    errmsg_t err;
    if (flux_rpc_get(fut, &err) < 0) {
        km_fence_done(f->ns, f, errno, err.text);
        return;
    }
    f->add = NULL;
    flux_future_destroy(fut);
    (void)flush(f);
}

/* Send what was merged, unless an earlier message waits for its answer.  -1: the fence is over. */
static int flush(struct km_fence *f)
{
    struct km_ns *ns = f->ns;
    if (f->unsent == 0 || f->add)
        return 0;
    struct kvs_fence_req q = {.nprocs = f->nprocs,
                              .count = f->unsent,
                              .rank = flux_rank(ns->h),
                              .flags = f->first ? KVS_FENCE_ADD : 0,
                              .ns = ns->name,
                              .nslen = strlen(ns->name),
                              .name = f->name,
                              .namelen = strlen(f->name)};
    size_t size;
    uint8_t *buf = km_merge_message(&f->merge, &q, &size);
    flux_future_t *fut = buf ? km_upstream(ns, "kvs.fence", buf, size, false) : NULL;
    free(buf);
    if (!fut || flux_future_then(fut, -1., f->first ? added_cb : over_cb, f) < 0) {
        flux_future_destroy(fut);
        km_fence_done(ns, f, ENOMEM, "an instance of kvs is out of memory for a fence");
        return -1;
    }
    if (f->first)
        f->add = fut;
    else
        f->first = fut;
    f->unsent = 0;
    return 0;
}

void km_fence_work(struct km_ns *ns)
{
    struct list_node *n;
    while ((n = list_first(&ns->fences->busy))) {
        list_remove(n);
        (void)flush(list_entry(n, struct km_fence, node));
    }
}

/* --- requests --- */

/* A call for a fence that is over by an abort: true when it was answered. */
static bool is_late(struct km_ns *ns, const flux_msg_t *msg, const char *name,
                    const struct kvs_fence_req *q)
{
    struct grave *g = hmap_get(ns->fences->graves, name);
    if (!g)
        return false;
    if (g->nprocs != q->nprocs || g->until < flux_now(ns->h)) {
        grave_free(ns->fences, g);
        return false;
    }
    flux_respond_error(ns->h, msg, ECONNABORTED, "%s", g->why.text);
    if (g->left <= q->count)
        grave_free(ns->fences, g);
    else
        g->left -= q->count;
    return true;
}

static void part_gone(struct km_claim *c, bool cancelled)
{
    struct part *p = list_entry(c, struct part, claim);
    struct km_fence *f = p->f;
    errmsg_t why;
    if (cancelled)
        return; /* no stream: the call was made */
    part_free(p);
    errmsg_set(&why, "fence '%.128s' was aborted: a participant at rank %u disconnected", f->name,
               flux_rank(f->ns->h));
    fence_abort(f, why.text);
}

static void join(struct km_ns *ns, const flux_msg_t *msg, struct km_fence *f,
                 const struct kvs_fence_req *q)
{
    errmsg_t err;
    bool add = q->flags & KVS_FENCE_ADD;
    struct part *p = add ? NULL : calloc(1, sizeof(*p));
    if (!add && (!p || km_claim(ns->k->senders, &p->claim, msg, part_gone) < 0)) {
        free(p);
        flux_respond_error(ns->h, msg, ENOMEM, "out of memory for a fence");
        return;
    }
    if (p) {
        p->f = f;
        p->req = flux_msg_incref(msg);
        list_init(&p->node);
        list_append(&f->parts, &p->node);
    }
    f->count += q->count;
    f->unsent += q->count;
    if (km_merge_add(&f->merge, q, &err) < 0) {
        /* Half merged: it can only end, and must not be complete without this one. */
        if (add)
            flux_respond_error(ns->h, msg, errno, "%s", err.text);
        f->count -= q->count;
        f->unsent -= q->count;
        fence_abort(f, err.text);
        return;
    }
    if (add)
        flux_respond_raw(ns->h, msg, NULL, 0);
    if (!ns->master) {
        if (list_empty(&f->node))
            list_append(&ns->fences->busy, &f->node);
        km_poke(ns);
    } else if (f->count == f->nprocs) {
        f->applying = true;
        if (km_merge_finish(&f->merge) < 0 || km_commit_fence(ns, f) < 0)
            km_fence_done(ns, f, ENOMEM, "the master is out of memory for a fence");
    }
}

void km_fence_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct kvs_fence_req q;
    errmsg_t err;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    char name[KVS_FENCE_NAME_MAX + 1];
    if (kvs_fence_req_decode(data, len, &q, &err) < 0 ||
        (!(q.flags & KVS_FENCE_INSTANCE) && km_merge_check(&q, &err) < 0)) {
        flux_respond_error(h, msg, errno, "%s", err.text);
        return;
    }
    if (!(ns = km_ns_request(arg, msg, q.ns, q.nslen, km_fence_cb)))
        return;
    memcpy(name, q.name, q.namelen);
    name[q.namelen] = '\0';
    if (q.flags && !(flux_msg_rolemask(msg) & FLUX_ROLE_BROKER)) {
        flux_respond_error(h, msg, EPERM, "only an instance of kvs may call a fence for others");
        return;
    }
    if (q.flags & KVS_FENCE_INSTANCE) {
        ns->st.fence_msgs_in++;
        ns->st.fence_bytes_in += len;
    } else {
        ns->st.fence_bytes_local += len;
    }
    struct km_fence *f = hmap_get(ns->fences->by_name, name);
    if (!f) {
        if (is_late(ns, msg, name, &q))
            return;
        if (q.flags & KVS_FENCE_ADD) {
            flux_respond_error(h, msg, ECONNABORTED, "fence '%s' is over", name);
            return;
        }
        ns->st.fences++;
        if (!(f = fence_new(ns, name, q.nprocs))) {
            flux_respond_error(h, msg, ENOMEM, "out of memory for a fence");
            return;
        }
    }
    if (f->nprocs != q.nprocs)
        flux_respond_error(h, msg, EINVAL, "fence '%s' is one of %u, not of %u", name, f->nprocs,
                           q.nprocs);
    else if (q.count > f->nprocs - f->count)
        flux_respond_error(h, msg, EINVAL, "fence '%s' of %u has been called more often than that",
                           name, f->nprocs);
    else
        join(ns, msg, f, &q);
}

void km_fence_abort_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct abort_in in;
    json_t *owner;
    if (flux_request_decode(h, msg, &abort_schema, &in, &owner) < 0)
        return;
    if (!(ns = km_ns_request(arg, msg, in.namespace, strlen(in.namespace), km_fence_abort_cb))) {
        json_decref(owner);
        return;
    }
    struct km_fence *f = hmap_get(ns->fences->by_name, in.name);
    if (f && f->nprocs == in.nprocs)
        fence_abort(f, in.reason);
    else if (!f && !ns->master)
        send_abort(ns, in.name, in.nprocs, in.sent, in.reason);
    else if (!f && !in.sent)
        bury(ns, in.name, in.nprocs, in.nprocs, in.reason);
    json_decref(owner);
}

void km_fences_shut(struct km_ns *ns, int errnum, const char *why)
{
    struct km_fences *fs = ns->fences;
    errmsg_t stopped;
    size_t pos = 0;
    void *val;
    /* The next instance could not go on: it does not know what was sent on and what was not. */
    errmsg_set(&stopped, "the fence was aborted: kvs was stopped at rank %u", flux_rank(ns->h));
    while (hmap_next(fs->by_name, &pos, NULL, NULL, &val)) {
        struct km_fence *f = val;
        if (f->first && !errnum)
            send_abort(ns, f->name, f->nprocs, true, stopped.text);
        km_fence_done(ns, f, errnum ? errnum : ECONNABORTED, errnum ? why : stopped.text);
    }
    LIST_FOREACH_SAFE(n, tmp, &fs->old)
    grave_free(fs, list_entry(n, struct grave, node));
}

void km_fences_destroy(struct km_fences *fs)
{
    if (!fs)
        return;
    hmap_destroy(fs->by_name);
    hmap_destroy(fs->graves);
    free(fs);
}
