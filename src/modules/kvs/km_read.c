/* km_read.c - reads of keys and directories.
 *
 * Purpose: a read walks from a root (kvswalk.c).  When objects are missing, the read waits for them
 * and begins again.  At the master only bytes that are on disk can be missing below the current
 * root.
 *
 * Slices: a listing, or a comparison, that takes longer than a slice of time goes on in later
 * passes of the reactor, one slice in each, in turn with other reads.  While all unfinished
 * listings take much memory, they are made one after the other.  The master holds the root of such
 * a read until the read ends.
 *
 * Old roots: the master drops old roots after a while.  A read whose root is gone gets the current
 * root from the master and begins again there: the result is newer than requested, never older.
 *
 * Invariants:
 *  1. The result of a read is from one root, at least as new as the newest root that this instance
 *     knew when the request arrived (or the requested root).
 *  2. done() is called exactly once per start, or never after a cancel.
 *  3. Every round either ends the read or adds objects that are held until its end, so a read ends.
 *
 * Failure: errors of the walk (such as ENOENT); errors on the way upstream; EAGAIN when the root
 * was gone REFRESH_MAX times while objects were on their way.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_delta.h"
#include "km_private.h"
#include "libkvs/kvsvalue.h"

#define REFRESH_MAX 10
#define READS_MAX 262144 /* requests in progress for one namespace at one instance */

struct km_reads {
    struct list_node all;
    size_t nrequests; /* reads in `all` that belong to requests */
};

struct km_slow {
    struct list_node reads; /* reads that take several slices of time */
};

static void step(struct km_read *r);

/* Drop the unfinished answer at this root. */
static void drop(struct km_read *r)
{
    km_answer_drop(r);
    km_delta_drop(r);
    list_remove(&r->slow_node);
    if (r->held) {
        kvsstore_release_root(r->ns->store, r->root);
        km_ns_poke(r->ns); /* there may be garbage to collect */
    }
    r->held = false;
}

static void finish(struct km_read *r, int errnum)
{
    r->errnum = errnum;
    km_load_wait_clear(&r->wait);
    list_remove(&r->node);
    list_remove(&r->refresh_node);
    drop(r);
    r->done(r, r->arg);
}

/* --- rounds --- */

static void followed(struct kvswalk_links *l, const char *path, size_t len)
{
    struct km_read *r = list_entry(l, struct km_read, links);
    r->followed(r, r->nlinks++, path, len);
}

static int read_once(struct km_read *r)
{
    struct km_ns *ns = r->ns;
    unsigned flags = r->q.flags & KVS_REQ_READLINK ? KVSWALK_NOFOLLOW : 0;
    r->links.followed = followed;
    r->nlinks = 0;
    if (kvswalk_find(ns->content, r->root, r->q.key, r->q.keylen, flags, &r->entry,
                     r->followed ? &r->links : NULL, km_load_miss(ns->k), &r->err) < 0)
        return -1;
    return r->make(r);
}

/* An object is gone: begin again at a newer root, unless the root is fixed. */
static void gone(struct km_read *r)
{
    struct km_ns *ns = r->ns;
    if (r->fixed) {
        r->gone = true;
        errmsg_set(&r->err, "that root is no longer kept (or never was): only recent ones are");
        finish(r, ENOENT);
    } else if (ns->master) {
        errmsg_set(&r->err, "an object of the store is missing at its master");
        finish(r, EIO);
    } else if (++r->refreshed > REFRESH_MAX) {
        errmsg_set(&r->err, "the store changes faster than it can be read from rank %u: try again",
                   flux_rank(ns->h));
        finish(r, EAGAIN);
    } else {
        list_remove(&r->refresh_node);
        list_append(&ns->refreshers, &r->refresh_node);
        km_ns_root_fetch(ns, true);
    }
}

/* The slice is over: do the next one in a later pass.  ENOENT: an old root is not held, and may be
 * gone by then, which is noticed when an object is missing. */
static void slice_over(struct km_read *r)
{
    struct km_ns *ns = r->ns;
    if (ns->master && !r->held) {
        r->held = kvsstore_hold_root(ns->store, r->root, &r->err) == 0;
        if (!r->held && errno != ENOENT) {
            finish(r, errno);
            return;
        }
    }
    if ((r->listing || r->changes) && km_answer_crowded(ns->k))
        list_push(&ns->k->slow->reads, &r->slow_node);
    else
        list_append(&ns->k->slow->reads, &r->slow_node);
    km_ns_poke(ns);
}

void km_read_work(struct km *k)
{
    struct list_node *n = list_first(&k->slow->reads);
    if (!n)
        return;
    list_remove(n);
    struct km_read *r = list_entry(n, struct km_read, slow_node);
    r->turn = true;
    step(r);
    if ((n = list_first(&k->slow->reads)))
        km_ns_poke(list_entry(n, struct km_read, slow_node)->ns);
}

static void step(struct km_read *r)
{
    struct km_ns *ns = r->ns;
    (void)km_load_miss_begin(ns->k);
    if (read_once(r) == 0) {
        finish(r, 0);
    } else if (errno == EINPROGRESS) {
        slice_over(r);
    } else if (errno != EAGAIN) {
        finish(r, errno);
    } else if (km_load_wait_for(&r->wait, km_load_miss(ns->k)) < 0) {
        if (errno == ENOENT) {
            gone(r);
        } else {
            errmsg_set(&r->err, "out of memory for objects");
            finish(r, ENOMEM);
        }
    }
}

static void objects_came(struct km_load_wait *w)
{
    struct km_read *r = list_entry(w, struct km_read, wait);
    if (w->errnum == 0) {
        step(r);
    } else if (w->errnum == ENOENT) {
        km_load_wait_clear(w);
        gone(r);
    } else {
        errmsg_set(&r->err, "%s", w->error);
        finish(r, w->errnum);
    }
}

void km_read_again(struct km_read *r)
{
    list_remove(&r->refresh_node);
    if (r->errnum) {
        finish(r, r->errnum);
        return;
    }
    drop(r);
    memcpy(r->root, r->ns->root, sizeof(r->root));
    r->version = r->ns->version;
    step(r);
}

void km_read_start(struct km_read *r)
{
    list_init(&r->node);
    list_append(&r->ns->read->all, &r->node);
    list_init(&r->refresh_node);
    list_init(&r->slow_node);
    r->turn = false;
    km_load_wait_init(&r->wait, r->ns, objects_came);
    r->answer = NULL;
    r->errnum = 0;
    r->gone = false;
    r->refreshed = 0;
    if (!r->fixed) {
        memcpy(r->root, r->ns->root, sizeof(r->root));
        r->version = r->ns->version;
    }
    step(r);
}

void km_read_cancel(struct km_read *r)
{
    km_load_wait_clear(&r->wait);
    list_remove(&r->node);
    list_remove(&r->refresh_node);
    drop(r);
    free(r->answer);
    r->answer = NULL;
}

/* --- requests --- */

struct reqread {
    struct km_read read;
    flux_msg_t *req;
};

static void reqread_free(struct reqread *q)
{
    q->read.ns->read->nrequests--;
    flux_msg_destroy(q->req);
    free(q);
}

void km_read_respond(struct km_read *r, const flux_msg_t *req, bool more)
{
    flux_t *h = r->ns->h;
    flux_msg_t *resp = flux_msg_response_create(req, 0);
    if (!resp || flux_msg_take_raw(resp, r->answer, r->len) < 0) {
        if (!resp)
            free(r->answer);
        flux_msg_destroy(resp);
        flux_respond_error(h, req, ENOMEM, "out of memory for an answer");
    } else {
        if (more)
            flux_msg_set_flags(resp, flux_msg_flags(resp) | FLUX_MSGF_STREAMING);
        (void)flux_send(h, resp); /* fails only if the broker is gone */
    }
    r->answer = NULL;
}

static void request_done(struct km_read *r, void *arg)
{
    struct reqread *q = arg;
    if (r->errnum == 0 && r->list && r->entry.type != TREEOBJ_DIR) {
        free(r->answer);
        r->answer = NULL;
        flux_respond_error(r->ns->h, q->req, ENOTDIR, "'%.*s' is not a directory",
                           r->q.keylen > 120 ? 120 : (int)r->q.keylen, r->q.key);
    } else if (r->errnum) {
        flux_respond_error(r->ns->h, q->req, r->errnum, "%s", r->err.text);
    } else {
        km_read_respond(r, q->req, false);
    }
    reqread_free(q);
}

static void request(struct km *k, const flux_msg_t *msg, bool list, flux_handler_f cb)
{
    const unsigned allowed =
        list ? KVS_REQ_VALUES | KVS_REQ_PAGE : KVS_REQ_READLINK | KVS_REQ_TAG | KVS_REQ_RANGE;
    struct kvs_lookup_req in;
    struct km_ns *ns;
    errmsg_t err;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    if (kvs_lookup_req_decode(data, len, &in, &err) < 0) {
        flux_respond_error(k->h, msg, errno, "%s", err.text);
        return;
    }
    if (in.flags & ~allowed) {
        flux_respond_error(k->h, msg, EPROTO, "flags %#x are not for %s", in.flags,
                           flux_msg_topic(msg));
        return;
    }
    if (!(ns = km_space_request_ready(k, msg, in.ns, in.nslen, cb)))
        return;
    if (list)
        ns->st.readdirs++;
    else
        ns->st.lookups++;
    if (ns->read->nrequests >= READS_MAX) {
        flux_respond_error(k->h, msg, EAGAIN, "%d reads wait for objects at rank %u: try again",
                           READS_MAX, flux_rank(k->h));
        return;
    }
    struct reqread *q = calloc(1, sizeof(*q));
    if (!q) {
        flux_respond_error(ns->h, msg, ENOMEM, "out of memory for a request");
        return;
    }
    struct km_read *r = &q->read;
    r->ns = ns;
    r->q = in; /* points to the payload of the message, which is kept */
    r->list = list;
    r->make = km_answer_make;
    r->done = request_done;
    r->arg = q;
    if (in.reflen) {
        r->fixed = true;
        if (blobref_parse(ns->k->blobref, in.ref, in.reflen, r->root, &err) < 0) {
            flux_respond_error(ns->h, msg, errno, "%s", err.text);
            free(q);
            return;
        }
    }
    q->req = flux_msg_incref(msg);
    ns->read->nrequests++;
    km_read_start(r);
}

void km_read_lookup_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    request(arg, msg, false, km_read_lookup_cb);
}

void km_read_readdir_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    request(arg, msg, true, km_read_readdir_cb);
}

void km_read_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->read->all)
    {
        struct km_read *r = list_entry(n, struct km_read, node);
        if (r->done == request_done) {
            struct reqread *q = r->arg;
            km_read_cancel(r);
            if (errnum)
                flux_respond_error(ns->h, q->req, errnum, "%s", why);
            reqread_free(q);
        }
    }
}

/* --- life --- */

struct km_reads *km_read_create(void)
{
    struct km_reads *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->all);
    return x;
}

void km_read_destroy(struct km_reads *x)
{
    free(x);
}

struct km_slow *km_read_slow_create(void)
{
    struct km_slow *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->reads);
    return x;
}

void km_read_slow_destroy(struct km_slow *x)
{
    free(x);
}

bool km_read_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->read->all);
}
