/* km_load.c - loading objects from upstream (at the master: from disk), and serving them
 * downstream.
 *
 *    kvs.load request: namespace (kvs_wire.h), digests, one after the other (at most 256)
 *    response: per digest  u32 length, bytes;   length 0xffffffff: there is no such object,
 *              0xfffffffe: the object did not fit in this response, request it again
 *
 * Purpose: missing objects are put on a list.  When all messages that have arrived are handled, the
 * list goes upstream, in requests of up to 256 objects.  Two readers of one object wait for one
 * request (content.c), and so do instances below that request it here.  Thus a thousand ranks that
 * read one value cost one transfer per edge of the tree.  The master loads the bytes of values that
 * are only on disk (km_keep.c).
 *
 * Invariants:
 *  1. A digest for which content_wait() has returned 1 is in `wanted` or in exactly one load until
 *     its object has been supplied or denied.
 *  2. An object from upstream is checked as a tree object and against its digest before any reader
 *     gets it.
 *  3. Objects on which a reader waited are held until the reader has done its work.  So a cache
 *     that is smaller than one read needs makes the read slow, but the read still ends.
 *  4. A load that is under way went to the master itself, or to the next instance by the tree as
 *     this instance knows it now.  When the tree changes, other loads are sent to the master.
 *     Otherwise two instances whose order has changed could wait for each other for ever.
 *
 * Failure: when there is no such object, its readers get that error.  When the next instance
 * towards the master is lost, the request goes to the master itself, unless the broker finds
 * another way (as it does where the master is at rank 0).  Without a way to the master, the readers
 * get the error.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_disk.h"
#include "libutil/le.h"

#define ABSENT 0xffffffffu
#define LATER 0xfffffffeu
#define SERVES_MAX 65536 /* requests kvs.load that wait for objects */
#define ANSWER_MAX (32u * 1024 * 1024)

struct km_loads {
    struct list_node sent;   /* requests upstream */
    struct list_node serves; /* requests kvs.load in progress */
    size_t nserves;
    uint8_t (*wanted)[BLOBREF_DIGEST_MAX];
    size_t nwanted, wanted_cap;
};

/* --- missing objects --- */

struct km_load_miss {
    struct kvsmiss miss;
};

struct km_load_miss *km_load_miss_create(void)
{
    return calloc(1, sizeof(struct km_load_miss));
}

void km_load_miss_destroy(struct km_load_miss *x)
{
    free(x);
}

struct kvsmiss *km_load_miss(const struct km *k)
{
    return &k->miss->miss;
}

struct kvsmiss *km_load_miss_begin(const struct km *k)
{
    k->miss->miss.n = 0;
    return &k->miss->miss;
}

/* --- waiting --- */

struct km_load_wait_item {
    struct content_waiter waiter;
    struct list_node node;      /* in km_load_wait.items */
    struct km_load_wait *owner; /* NULL after the arrival */
    struct content_obj *held;
    uint8_t digest[BLOBREF_DIGEST_MAX];
};

void km_load_wait_init(struct km_load_wait *w, struct km_ns *ns, km_load_wait_f done)
{
    memset(w, 0, sizeof(*w));
    w->ns = ns;
    w->done = done;
    list_init(&w->items);
}

static void item_came(struct content_waiter *cw, int errnum, const char *error)
{
    struct km_load_wait_item *it = list_entry(cw, struct km_load_wait_item, waiter);
    struct km_load_wait *w = it->owner;
    it->owner = NULL;
    if (errnum == 0) {
        it->held = content_get(w->ns->content, it->digest);
        if (it->held)
            content_hold(w->ns->content, it->held);
    } else if (w->errnum == 0) {
        w->errnum = errnum;
        snprintf(w->error, sizeof(w->error), "%s", error);
    }
    if (--w->waiting == 0)
        w->done(w);
}

static int want(struct km_ns *ns, const uint8_t *digest)
{
    if (ns->load->nwanted == ns->load->wanted_cap) {
        size_t cap = ns->load->wanted_cap ? ns->load->wanted_cap * 2 : 64;
        void *p = realloc(ns->load->wanted, cap * sizeof(*ns->load->wanted));
        if (!p)
            return -1;
        ns->load->wanted = p;
        ns->load->wanted_cap = cap;
    }
    memcpy(ns->load->wanted[ns->load->nwanted++], digest, BLOBREF_DIGEST_MAX);
    km_ns_poke(ns);
    return 0;
}

/* Are all missing objects on disk?  The master has all objects of the namespace, except bytes that
 * it can read from disk. */
static bool on_disk(const struct km_ns *ns, const struct kvsmiss *miss)
{
    for (unsigned i = 0; i < miss->n; i++) {
        const struct content_obj *o = content_find(ns->content, miss->digest[i]);
        if (!o || !o->kept || !ns->keep)
            return false;
    }
    return true;
}

int km_load_wait_for(struct km_load_wait *w, const struct kvsmiss *miss)
{
    struct km_ns *ns = w->ns;
    if (ns->master && !on_disk(ns, miss)) {
        errno = ENOENT;
        return -1;
    }
    w->errnum = 0;
    for (unsigned i = 0; i < miss->n; i++) {
        struct km_load_wait_item *it = calloc(1, sizeof(*it));
        if (!it)
            return -1;
        it->owner = w;
        memcpy(it->digest, miss->digest[i], BLOBREF_DIGEST_MAX);
        int rc = content_wait(ns->content, it->digest, &it->waiter, item_came);
        if (rc < 0) {
            free(it);
            return -1;
        }
        list_init(&it->node);
        list_append(&w->items, &it->node);
        w->waiting++;
        if (rc == 1 && want(ns, it->digest) < 0) {
            content_waiter_cancel(&it->waiter);
            it->owner = NULL;
            w->waiting--;
            content_deny(ns->content, it->digest, ENOMEM, "out of memory");
            errno = ENOMEM;
            return -1;
        }
    }
    return 0;
}

/* Hold an object that is here until km_load_wait_clear().  -1 with ENOMEM. */
static int km_load_wait_hold(struct km_load_wait *w, struct content_obj *o)
{
    struct km_load_wait_item *it = calloc(1, sizeof(*it));
    if (!it)
        return -1;
    content_hold(w->ns->content, o);
    it->held = o;
    list_init(&it->node);
    list_append(&w->items, &it->node);
    return 0;
}

void km_load_wait_clear(struct km_load_wait *w)
{
    LIST_FOREACH_SAFE(n, tmp, &w->items)
    {
        struct km_load_wait_item *it = list_entry(n, struct km_load_wait_item, node);
        if (it->owner)
            content_waiter_cancel(&it->waiter);
        if (it->held)
            content_release(w->ns->content, it->held);
        list_remove(n);
        free(it);
    }
    w->waiting = 0;
}

/* --- requests upstream --- */

struct load {
    struct list_node node;
    struct km_ns *ns;
    flux_future_t *f;
    bool direct;  /* it was sent to the master itself */
    uint32_t hop; /* the next instance when it was sent */
    size_t n;
    uint8_t digest[KVS_LOAD_MAX][BLOBREF_DIGEST_MAX];
};

static void load_free(struct load *l)
{
    list_remove(&l->node);
    flux_future_destroy(l->f);
    free(l);
}

static void deny(struct load *l, size_t from, int errnum, const char *error)
{
    for (size_t i = from; i < l->n; i++)
        content_deny(l->ns->content, l->digest[i], errnum, error);
}

/* Take one object of an answer.  Returns the number of bytes of its record, or -1 if the answer is
 * cut off here. */
static ssize_t take(struct load *l, size_t i, const uint8_t *p, size_t left)
{
    struct km_ns *ns = l->ns;
    if (left < 4)
        return -1;
    uint32_t len = le_get32(p);
    if (len == ABSENT) {
        content_deny(ns->content, l->digest[i], ENOENT, "the store has no such object any more");
        return 4;
    }
    if (len == LATER) {
        if (want(ns, l->digest[i]) < 0)
            content_deny(ns->content, l->digest[i], ENOMEM, "out of memory");
        return 4;
    }
    if (len > left - 4)
        return -1;
    errmsg_t err;
    if (treeobj_check(p + 4, len, blobref_size(ns->k->blobref), &err) < 0)
        content_deny(ns->content, l->digest[i], EPROTO, err.text);
    else
        (void)content_supply(ns->content, l->digest[i], p + 4, len); /* waiters have been called */
    return 4 + (ssize_t)len;
}

static int load_send(struct load *l, bool master);

static void loaded_cb(flux_future_t *f, void *arg)
{
    struct load *l = arg;
    struct km_ns *ns = l->ns;
    const void *data;
    size_t len, pos = 0, i = 0;
    errmsg_t err;
    if (flux_rpc_get_raw(f, &data, &len, &err) < 0) {
        int errnum = errno;
        if (errnum == EHOSTUNREACH && !l->direct) {
            flux_future_destroy(f);
            l->f = NULL;
            if (load_send(l, true) == 0)
                return;
        }
        deny(l, 0, errnum, err.text);
    } else {
        for (; i < l->n; i++) {
            ssize_t size = take(l, i, (const uint8_t *)data + pos, len - pos);
            if (size < 0)
                break;
            pos += (size_t)size;
        }
        deny(l, i, EPROTO, "an answer with objects was cut off");
    }
    load_free(l);
    km_ns_poke(ns); /* the cache may exceed its bound */
}

/* Send the request to the next instance towards the master, or to the master.  -1 with ENOMEM. */
static int load_send(struct load *l, bool master)
{
    struct km_ns *ns = l->ns;
    size_t dsize = blobref_size(ns->k->blobref);
    struct kvs_ns_req q = {.ns = ns->name, .nslen = strlen(ns->name)};
    size_t head = kvs_ns_req_size(&q);
    uint8_t *buf = malloc(head + l->n * dsize);

    if (!buf)
        return -1;
    kvs_ns_req_encode(&q, buf);
    for (size_t i = 0; i < l->n; i++)
        memcpy(buf + head + i * dsize, l->digest[i], dsize);
    l->direct = master;
    l->hop = km_route_hop(ns->k->route, ns->rank);
    l->f = km_ns_upstream(ns, "kvs.load", buf, head + l->n * dsize, master, FLUX_MSGF_IDEMPOTENT);
    free(buf);
    return l->f ? flux_future_then(l->f, -1., loaded_cb, l) : -1;
}

void km_load_rerouted(struct km_ns *ns)
{
    uint32_t hop = km_route_hop(ns->k->route, ns->rank);

    LIST_FOREACH_SAFE(n, tmp, &ns->load->sent)
    {
        struct load *l = list_entry(n, struct load, node);

        if (l->direct || l->hop == hop)
            continue;
        flux_future_destroy(l->f);
        l->f = NULL;
        if (load_send(l, true) < 0) {
            deny(l, 0, ENOMEM, "out of memory");
            load_free(l);
        }
    }
}

void km_load_work(struct km_ns *ns)
{
    while (ns->master && ns->load->nwanted > 0) {
        uint8_t digest[BLOBREF_DIGEST_MAX];
        memcpy(digest, ns->load->wanted[--ns->load->nwanted], sizeof(digest));
        km_keep_load(ns->keep, digest);
    }
    while (ns->load->nwanted > 0) {
        struct load *l = calloc(1, sizeof(*l));
        if (!l) {
            content_deny_all(ns->content, ENOMEM, "out of memory");
            ns->load->nwanted = 0;
            return;
        }
        l->ns = ns;
        l->n = ns->load->nwanted < KVS_LOAD_MAX ? ns->load->nwanted : KVS_LOAD_MAX;
        list_init(&l->node);
        list_append(&ns->load->sent, &l->node);
        /* Taken from the end, so that no digest moves; their order does not matter. */
        ns->load->nwanted -= l->n;
        memcpy(l->digest, ns->load->wanted + ns->load->nwanted, l->n * sizeof(l->digest[0]));
        ns->st.loads += l->n;
        if (load_send(l, false) < 0) {
            deny(l, 0, ENOMEM, "out of memory");
            load_free(l);
        }
    }
}

/* --- answering downstream --- */

struct serve {
    struct list_node node;
    struct km_ns *ns;
    struct km_load_wait wait;
    flux_msg_t *req;
    const uint8_t *digests; /* in the request */
    size_t n;
};

static void serve_free(struct serve *s)
{
    s->ns->load->nserves--;
    list_remove(&s->node);
    km_load_wait_clear(&s->wait);
    flux_msg_destroy(s->req);
    free(s);
}

static void serve_answer(struct serve *s)
{
    struct km_ns *ns = s->ns;
    size_t dsize = blobref_size(ns->k->blobref);
    const uint8_t *d = s->digests;
    size_t size = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct content_obj *o = content_get(ns->content, d + i * dsize);
        size += 4 + (o ? o->len : 0);
    }
    size_t room = size < ANSWER_MAX ? size : ANSWER_MAX + CONTENT_OBJECT_MAX;
    uint8_t *buf = malloc((room < size ? room : size) + 1), *p = buf;
    if (!buf) {
        flux_respond_error(ns->h, s->req, ENOMEM, "rank %u is out of memory for objects",
                           flux_rank(ns->h));
        return;
    }
    size_t left = s->n * 4; /* bytes for the lengths that follow */
    for (size_t i = 0; i < s->n; i++, left -= 4) {
        struct content_obj *o = content_get(ns->content, d + i * dsize);
        bool fits = !o || p == buf || (size_t)(p - buf) + o->len + left <= ANSWER_MAX;
        le_put32(p, !o ? ABSENT : fits ? o->len : LATER);
        p += 4;
        if (o && fits) {
            memcpy(p, o->data, o->len);
            p += o->len;
            ns->st.served++;
        }
    }
    flux_msg_t *resp = flux_msg_response_create(s->req, 0);
    if (!resp) {
        free(buf);
        flux_respond_error(ns->h, s->req, ENOMEM, "rank %u is out of memory for objects",
                           flux_rank(ns->h));
        return;
    }
    if (flux_msg_take_raw(resp, buf, (size_t)(p - buf)) < 0)
        flux_msg_destroy(resp);
    else
        (void)flux_send(ns->h, resp); /* the broker ends the request if this fails */
}

static void serve_done(struct km_load_wait *w)
{
    struct serve *s = list_entry(w, struct serve, wait);
    if (w->errnum && w->errnum != ENOENT)
        flux_respond_error(s->ns->h, s->req, w->errnum, "%s", w->error);
    else
        serve_answer(s);
    serve_free(s);
}

void km_load_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct kvs_ns_req q;
    if (km_space_decode(h, msg, &q) < 0 ||
        !(ns = km_space_request_ready(arg, msg, q.ns, q.nslen, km_load_cb)))
        return;
    const uint8_t *d = q.body;
    size_t dsize = blobref_size(ns->k->blobref);
    if (q.len == 0 || q.len % dsize || q.len / dsize > KVS_LOAD_MAX) {
        flux_respond_error(h, msg, EPROTO, "request of %zu bytes is not a list of objects", q.len);
        return;
    }
    if (ns->load->nserves >= SERVES_MAX) {
        flux_respond_error(h, msg, EAGAIN, "%d requests wait for objects at rank %u: try again",
                           SERVES_MAX, flux_rank(h));
        return;
    }
    struct serve *s = calloc(1, sizeof(*s));
    if (!s) {
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory for objects", flux_rank(h));
        return;
    }
    s->ns = ns;
    s->req = flux_msg_incref(msg);
    ns->load->nserves++;
    s->digests = d;
    s->n = q.len / dsize;
    list_init(&s->node);
    list_append(&ns->load->serves, &s->node);
    km_load_wait_init(&s->wait, ns, serve_done);
    struct kvsmiss *miss = km_load_miss_begin(ns->k);
    int rc = 0;
    for (size_t i = 0; i < s->n && (!ns->master || ns->keep) && rc == 0; i++) {
        /* Objects that are here must not be dropped while the others are on their way. */
        struct content_obj *o = content_get(ns->content, d + i * dsize);
        if (o)
            rc = km_load_wait_hold(&s->wait, o);
        else if (!ns->master || content_find(ns->content, d + i * dsize))
            memcpy(miss->digest[miss->n++], d + i * dsize, dsize);
    }
    if (rc < 0) {
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory for objects", flux_rank(h));
    } else if (miss->n > 0) {
        if (km_load_wait_for(&s->wait, miss) == 0)
            return;
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory for objects", flux_rank(h));
    } else {
        serve_answer(s);
    }
    serve_free(s);
}

void km_load_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->load->serves)
    {
        struct serve *s = list_entry(n, struct serve, node);
        if (errnum)
            flux_respond_error(ns->h, s->req, errnum, "%s", why);
        serve_free(s);
    }
    LIST_FOREACH_SAFE(n, tmp, &ns->load->sent)
    load_free(list_entry(n, struct load, node));
    free(ns->load->wanted);
    ns->load->wanted = NULL;
    ns->load->nwanted = ns->load->wanted_cap = 0;
}

/* --- life --- */

struct km_loads *km_load_create(void)
{
    struct km_loads *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->sent);
    list_init(&x->serves);
    return x;
}

void km_load_destroy(struct km_loads *x)
{
    free(x);
}

bool km_load_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->load->serves);
}
