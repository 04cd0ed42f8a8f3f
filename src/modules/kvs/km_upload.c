/* km_upload.c - pieces of large values, on their way to the master before the commit that refers to
 * them.
 *
 *    kvs.store       namespace, bytes (kvs_wire.h) -> digests of the chunks
 *    kvs.store-gone  {"namespace","client"} -> {}, by courier: from an instance to the master: this
 *                    client of the instance has gone
 *
 * Purpose: pieces go to the master itself, since no instance on the way has a use for them.  The
 * master keeps the chunks of a piece for ten minutes, or until a transaction refers to them
 * (kvsstore.h), or until their sender has gone: a client that leaves before the answer to its
 * commit has no promise.  When the namespace is kept on disk, the answer waits until the chunks are
 * there.
 *
 * Clients: each client has a share of the room at the master (kvsstore_upload.c).  The master knows
 * its own clients by the sender that the broker stamps on a request.  It knows a client of another
 * instance by this instance, which passes the pieces on, and by the number that the instance gives
 * to the client.
 *
 * Invariants:
 *  1. A piece is stored whole, or the answer is an error, and the chunks of the piece that were
 *     stored expire.
 *  2. The chunks that wait at the master for a commit are bounded (kvsstore_upload.c), and so are
 *     the bytes that pass through an instance.  Of either, a client gets no more than it leaves to
 *     other clients.
 *  3. There is an uploader for each client that has sent a piece and is connected.  At the master
 *     `leaving` also has uploaders for clients that have gone, until their pieces have been
 *     dropped, slice by slice.
 *
 * When a broker between dies, a piece is sent again; a piece that the master has twice is let go of
 * with its client, or expires.  The loss of the way to an instance ends none of its uploaders.
 *
 * Failure: EAGAIN when either bound is reached; kvs_stream.c tries again.  Pieces of a client whose
 * end was not reported (no memory, or its instance has ended, too) remain until they expire.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_upload.h"
#include "km_disk.h"
#include "libflux/slice.h"

#define UPLOAD_SECONDS 600
#define TRIES 16
#define PIECE 64                           /* chunks released between two readings of the clock */
#define PASSING_BYTES (256u * 1024 * 1024) /* on their way to the master of one namespace */
#define ANSWER_MAX (KVS_STORE_HEADER + KVS_STORE_MAX / KVS_CHUNK * KVS_DIGEST_MAX)

/* A client that has sent pieces of values. */
struct uploader {
    struct claim claim;
    struct list_node node; /* in km_uploads.leaving */
    struct km_ns *ns;
    kvsstore_client_t *client; /* at the master: its share */
    uint32_t number;           /* elsewhere: its number in messages to the master */
    size_t passing;            /* bytes on their way to the master */
    size_t npassing;           /* requests on their way to the master */
    bool gone;
    char key[]; /* in km_uploads.uploaders */
};

#define KEY_MAX (FLUX_SENDER_MAX + 12)

/* --- clients --- */

static void make_key(char key[KEY_MAX], const flux_msg_t *msg, uint32_t client)
{
    char sender[FLUX_SENDER_MAX];

    snprintf(key, KEY_MAX, "%s/%u", flux_msg_sender(msg, sender, sizeof(sender)), client);
}

static void uploader_free(struct uploader *c)
{
    struct km_ns *ns = c->ns;

    claim_drop(ns->k->uploaders, &c->claim);
    if (hmap_get(ns->upload->uploaders, c->key) == c)
        (void)hmap_take(ns->upload->uploaders, c->key);
    list_remove(&c->node);
    kvsstore_client_destroy(c->client);
    free(c);
}

/* At the master: the client has disconnected; km_upload_work() releases its pieces. */
static void leave(struct uploader *c)
{
    claim_drop(c->ns->k->uploaders, &c->claim);
    (void)hmap_take(c->ns->upload->uploaders, c->key);
    list_append(&c->ns->upload->leaving, &c->node);
    km_ns_poke(c->ns);
}

static void uploader_gone(struct claim *claim, bool canceled)
{
    struct uploader *c = list_entry(claim, struct uploader, claim);
    struct km_ns *ns = c->ns;
    struct km_wire_gone out = {ns->name, c->number};

    if (ns->master)
        leave(c);
    else if (km_ns_upstream_post(ns, "kvs.store-gone", &km_wire_gone_schema, &out, true) < 0)
        flux_log(ns->h, LOG_ERR,
                 "out of memory: the master of namespace '%s' does not learn that a client has "
                 "disconnected",
                 ns->name);
    /* Pieces that are on their way reach the master before this message. */
    c->gone = true;
    if (!ns->master && c->npassing == 0)
        uploader_free(c);
}

/* The uploader of the client that sent this request; a new one if there is none.  NULL with
 * ENOMEM. */
static struct uploader *uploader_of(struct km_ns *ns, const flux_msg_t *msg, uint32_t client)
{
    char key[KEY_MAX];
    struct uploader *c;

    make_key(key, msg, client);
    if ((c = hmap_get(ns->upload->uploaders, key)))
        return c;
    if (!(c = calloc(1, sizeof(*c) + strlen(key) + 1)))
        return NULL;
    list_init(&c->node);
    c->ns = ns;
    c->number = ++ns->upload->last;
    strcpy(c->key, key);
    if ((ns->master && !(c->client = kvsstore_client_create(ns->store))) ||
        hmap_put(ns->upload->uploaders, key, c) < 0 ||
        claim_take_sender(ns->k->uploaders, &c->claim, msg, uploader_gone) < 0) {
        uploader_free(c);
        return NULL;
    }
    return c;
}

void km_upload_gone_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct km_wire_gone in;
    struct uploader *c;
    char key[KEY_MAX];
    json_t *owner;

    if (flux_request_decode(h, msg, &km_wire_gone_schema, &in, &owner) < 0)
        return;
    ns = km_space_request_ready(arg, msg, in.namespace, strlen(in.namespace), km_upload_gone_cb);
    json_decref(owner);
    if (!ns)
        return;
    make_key(key, msg, in.client);
    if ((c = hmap_get(ns->upload->uploaders, key)) && ns->master)
        leave(c);
    flux_respond(h, msg, NULL);
}

/* --- on the way --- */

/* A piece on its way to the master; `req` has its bytes. */
struct upload {
    struct list_node node; /* in km_uploads.sent */
    struct km_ns *ns;
    struct uploader *c;
    flux_msg_t *req;
    flux_future_t *f;
    size_t len;
    unsigned tries; /* that were lost with their way */
};

static void upload_free(struct upload *u)
{
    list_remove(&u->node);
    u->ns->upload->bytes -= u->len;
    u->c->passing -= u->len;
    if (--u->c->npassing == 0 && u->c->gone)
        uploader_free(u->c);
    flux_future_destroy(u->f);
    flux_msg_destroy(u->req);
    free(u);
}

static void stored_cb(flux_future_t *f, void *arg);

/* Send the piece to the master, with the number of the client.  Brokers on the way send it again if
 * they have kept it. */
static int send_on(struct upload *u)
{
    struct kvs_ns_req out;
    size_t len;
    const void *data = flux_msg_payload(u->req, &len);
    uint8_t *buf;

    if (kvs_ns_req_decode(data, len, &out, NULL) < 0)
        return -1;
    out.flags = KVS_NS_CLIENT;
    out.client = u->c->number;
    if (!(buf = malloc(kvs_ns_req_size(&out))))
        return -1;
    kvs_ns_req_encode(&out, buf);
    flux_future_destroy(u->f);
    u->f =
        km_ns_upstream(u->ns, "kvs.store", buf, kvs_ns_req_size(&out), true, FLUX_MSGF_IDEMPOTENT);
    free(buf);
    return u->f ? flux_future_then(u->f, -1., stored_cb, u) : -1;
}

static void stored_cb(flux_future_t *f, void *arg)
{
    struct upload *u = arg;
    const void *data;
    size_t len;
    errmsg_t err;

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0) {
        int errnum = errno;
        if (errnum == EHOSTUNREACH && u->tries++ < TRIES && send_on(u) == 0)
            return;
        flux_respond_error(u->ns->h, u->req, errnum, "%s", err.text);
    } else {
        flux_respond_raw(u->ns->h, u->req, data, len);
    }
    upload_free(u);
}

static bool passes(struct km_ns *ns, const flux_msg_t *msg, const struct uploader *c, size_t len)
{
    size_t all = ns->upload->bytes + len;

    if (all > PASSING_BYTES)
        flux_respond_error(ns->h, msg, EAGAIN,
                           "%zu bytes of values pass through rank %u: too many, try again later",
                           ns->upload->bytes, flux_rank(ns->h));
    else if (c->passing + len > PASSING_BYTES - all)
        flux_respond_error(
            ns->h, msg, EAGAIN,
            "%zu bytes of values of this client pass through rank %u: the rest is for "
            "others, try again later",
            c->passing, flux_rank(ns->h));
    else
        return true;
    return false;
}

static void pass_on(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_ns_req *q)
{
    struct uploader *c = uploader_of(ns, msg, q->client);
    struct upload *u;
    size_t len;

    (void)flux_msg_payload(msg, &len);
    if (c && !passes(ns, msg, c, len))
        return;
    if (c && (u = calloc(1, sizeof(*u)))) {
        u->ns = ns;
        u->c = c;
        u->len = len;
        ns->upload->bytes += len;
        c->passing += len;
        c->npassing++;
        u->req = flux_msg_incref(msg);
        list_init(&u->node);
        list_append(&ns->upload->sent, &u->node);
        if (send_on(u) == 0)
            return;
        upload_free(u);
    }
    flux_respond_error(ns->h, msg, ENOMEM, "rank %u is out of memory for a piece of a value",
                       flux_rank(ns->h));
}

/* At the master: store the chunks of a piece, and write their digests to `out`. */
static int keep(struct km_ns *ns, struct uploader *c, const struct kvs_ns_req *q, uint8_t *out,
                errmsg_t *err)
{
    size_t dsize = blobref_size(ns->k->blobref);
    uint32_t stamp = km_module_clock(ns->k);

    for (size_t pos = 0; pos < q->len; pos += KVS_CHUNK, out += dsize) {
        size_t len = q->len - pos < KVS_CHUNK ? q->len - pos : KVS_CHUNK;
        if (kvsstore_upload(ns->store, c->client, q->body + pos, len, stamp, out, err) < 0) {
            if (errno == ENOBUFS)
                errno = EAGAIN;
            return -1;
        }
    }
    return 0;
}

/* An answer that waits until the piece is on disk, so that a sender cannot outrun the disk. */
struct saving {
    flux_t *h;
    flux_msg_t *req;
    size_t len;
    uint8_t answer[ANSWER_MAX];
};

static void saved_cb(void *arg, int errnum, const char *error)
{
    struct saving *s = arg;

    if (errnum)
        flux_respond_error(s->h, s->req, errnum, "%s", error);
    else
        flux_respond_raw(s->h, s->req, s->answer, s->len);
    flux_msg_destroy(s->req);
    free(s);
}

static void store(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_ns_req *q)
{
    size_t dsize = blobref_size(ns->k->blobref);
    size_t n = (q->len + KVS_CHUNK - 1) / KVS_CHUNK;
    struct saving *s = calloc(1, sizeof(*s));
    struct uploader *c = uploader_of(ns, msg, q->client);
    errmsg_t err;
    int rc = 0;

    if (!s || !c || keep(ns, c, q, s->answer + KVS_STORE_HEADER, &err) < 0) {
        flux_respond_error(ns->h, msg, s && c ? errno : ENOMEM, "%s",
                           s && c ? err.text
                                  : "the master is out of memory for a piece of a value");
        free(s);
        return;
    }
    s->h = ns->h;
    s->req = flux_msg_incref(msg);
    s->answer[0] = (uint8_t)dsize;
    s->len = KVS_STORE_HEADER + n * dsize;
    if (ns->keep)
        rc = km_checkpoint_upload(ns->keep, s->answer + KVS_STORE_HEADER, n, saved_cb, s);
    if (rc <= 0)
        saved_cb(s, rc < 0 ? ENOMEM : 0, "the master is out of memory for a piece of a value");
}

void km_upload_store_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct kvs_ns_req q;
    struct km_ns *ns;

    if (km_space_decode(h, msg, &q) < 0)
        return;
    if (q.len == 0 || q.len > KVS_STORE_MAX) {
        flux_respond_error(h, msg, EINVAL, "a piece of a value has 1 to %u bytes, not %zu",
                           KVS_STORE_MAX, q.len);
        return;
    }
    if (!(ns = km_space_request_ready(arg, msg, q.ns, q.nslen, km_upload_store_cb)))
        return;
    if (ns->master)
        store(ns, msg, &q);
    else
        pass_on(ns, msg, &q);
}

/* Release chunks in slices: a client may have sent millions of them. */
void km_upload_work(struct km_ns *ns)
{
    struct flux_slice s;
    struct list_node *n;

    if (!ns->store || (list_empty(&ns->upload->leaving) && !ns->upload->expiring))
        return;
    flux_slice_begin(&s, flux_get_reactor(ns->h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(&ns->upload->leaving)) && flux_slice_more(&s)) {
        struct uploader *c = list_entry(n, struct uploader, node);
        if (!kvsstore_client_let_go(c->client, PIECE))
            uploader_free(c);
    }
    while (ns->upload->expiring && flux_slice_more(&s))
        ns->upload->expiring =
            kvsstore_upload_expire(ns->store, ns->upload->expire_before, PIECE) > 0;
    km_ns_poke(ns); /* there are more chunks to be released, or there is garbage */
}

void km_upload_expire(struct km_ns *ns)
{
    uint32_t now = km_module_clock(ns->k);

    if (!ns->store || now <= UPLOAD_SECONDS)
        return;
    ns->upload->expire_before = now - UPLOAD_SECONDS;
    ns->upload->expiring = kvsstore_upload_expire(ns->store, ns->upload->expire_before, PIECE) > 0;
    if (ns->upload->expiring)
        km_ns_poke(ns);
}

void km_upload_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->upload->sent)
    {
        struct upload *u = list_entry(n, struct upload, node);
        if (errnum)
            flux_respond_error(ns->h, u->req, errnum, "%s", why);
        upload_free(u);
    }
    size_t pos = 0;
    void *val;
    while (hmap_next(ns->upload->uploaders, &pos, NULL, NULL, &val))
        uploader_free(val);
    while (!list_empty(&ns->upload->leaving))
        uploader_free(list_entry(list_first(&ns->upload->leaving), struct uploader, node));
}

/* --- life --- */

struct km_uploads *km_upload_create(uint32_t first)
{
    struct km_uploads *x = calloc(1, sizeof(*x));

    if (!x || !(x->uploaders = hmap_create_str(NULL))) {
        free(x);
        return NULL;
    }
    x->last = first;
    list_init(&x->sent);
    list_init(&x->leaving);
    return x;
}

void km_upload_destroy(struct km_uploads *x)
{
    int saved = errno;

    if (!x)
        return;
    hmap_destroy(x->uploaders);
    free(x);
    errno = saved;
}

bool km_upload_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->upload->sent) || hmap_count(ns->upload->uploaders) > 0;
}
