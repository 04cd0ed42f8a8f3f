/* kvs_upload.c - pieces of large values, on their way to the master before the commit that names
 * them.
 *
 *    kvs.store  namespace, bytes (kvs_wire.h) -> digests of the chunks
 *
 * Pieces go to the master itself: nobody on the way has a use for them.  There they are objects that
 * are kept for ten minutes, or until a transaction refers to them (kvsstore.h).  When the namespace is
 * kept on disk the answer waits until they are there.
 *
 * Invariants:
 *  1. A piece is stored whole, or the answer is an error; chunks of it that were stored then expire.
 *  2. What waits at the master for a commit is bounded (kvsstore_upload_limit()), and so is what
 *     passes here.
 *
 * Failure: EAGAIN when there is too much of either; kvs_stream.c tries again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_disk.h"

#define UPLOAD_SECONDS 600
#define PASSING_BYTES (256u * 1024 * 1024) /* on their way to a master, of a namespace */
#define ANSWER_MAX (KVS_STORE_HEADER + KVS_STORE_MAX / KVS_CHUNK * KVS_DIGEST_MAX)

/* A piece on its way; its bytes are the message's. */
struct upload {
    struct list_node node; /* in km_ns.uploads */
    struct km_ns *ns;
    flux_msg_t *req;
    flux_future_t *f;
    size_t len;
};

static void upload_free(struct upload *u)
{
    list_remove(&u->node);
    u->ns->upload_bytes -= u->len;
    flux_future_destroy(u->f);
    flux_msg_destroy(u->req);
    free(u);
}

static void stored_cb(flux_future_t *f, void *arg)
{
    struct upload *u = arg;
    const void *data;
    size_t len;
    errmsg_t err;

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0)
        flux_respond_error(u->ns->h, u->req, errno, "%s", err.text);
    else
        flux_respond_raw(u->ns->h, u->req, data, len);
    upload_free(u);
}

static void pass_on(struct km_ns *ns, const flux_msg_t *msg)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    struct upload *u;

    if (ns->upload_bytes + len > PASSING_BYTES) {
        flux_respond_error(ns->h, msg, EAGAIN,
                           "%zu bytes of values pass through rank %u: too many, try again later",
                           ns->upload_bytes, flux_rank(ns->h));
        return;
    }
    if ((u = calloc(1, sizeof(*u)))) {
        u->ns = ns;
        u->len = len;
        ns->upload_bytes += len;
        u->req = flux_msg_incref(msg);
        list_init(&u->node);
        list_append(&ns->uploads, &u->node);
        u->f = km_upstream(ns, "kvs.store", data, len, true);
        if (u->f && flux_future_then(u->f, -1., stored_cb, u) == 0)
            return;
        upload_free(u);
    }
    flux_respond_error(ns->h, msg, ENOMEM, "rank %u is out of memory for a piece of a value",
                       flux_rank(ns->h));
}

/* At the master. */
static int keep(struct km_ns *ns, const struct kvs_ns_req *q, uint8_t *out, errmsg_t *err)
{
    size_t dsize = blobref_size(ns->k->blobref);
    uint32_t stamp = km_clock(ns->k);

    for (size_t pos = 0; pos < q->len; pos += KVS_CHUNK, out += dsize) {
        size_t len = q->len - pos < KVS_CHUNK ? q->len - pos : KVS_CHUNK;
        if (kvsstore_upload(ns->store, q->body + pos, len, stamp, out, err) < 0) {
            if (errno == ENOBUFS)
                errno = EAGAIN;
            return -1;
        }
    }
    return 0;
}

/* An answer that waits until the piece is on disk, so that who sends goes no faster than that. */
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
    errmsg_t err;
    int rc = 0;

    if (!s || keep(ns, q, s->answer + KVS_STORE_HEADER, &err) < 0) {
        flux_respond_error(ns->h, msg, s ? errno : ENOMEM, "%s",
                           s ? err.text : "the master is out of memory for a piece of a value");
        free(s);
        return;
    }
    s->h = ns->h;
    s->req = flux_msg_incref(msg);
    s->answer[0] = (uint8_t)dsize;
    s->len = KVS_STORE_HEADER + n * dsize;
    if (ns->keep)
        rc = km_keep_upload(ns->keep, s->answer + KVS_STORE_HEADER, n, saved_cb, s);
    if (rc <= 0)
        saved_cb(s, rc < 0 ? ENOMEM : 0, "the master is out of memory for a piece of a value");
}

void km_store_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct kvs_ns_req q;
    struct km_ns *ns;

    if (km_decode(h, msg, &q) < 0)
        return;
    if (q.len == 0 || q.len > KVS_STORE_MAX) {
        flux_respond_error(h, msg, EINVAL, "a piece of a value has 1 to %u bytes, not %zu",
                           KVS_STORE_MAX, q.len);
        return;
    }
    if (!(ns = km_ns_request(arg, msg, q.ns, q.nslen, km_store_cb)))
        return;
    if (ns->master)
        store(ns, msg, &q);
    else
        pass_on(ns, msg);
}

void km_uploads_expire(struct km_ns *ns)
{
    uint32_t now = km_clock(ns->k);

    if (ns->store && now > UPLOAD_SECONDS &&
        kvsstore_upload_expire(ns->store, now - UPLOAD_SECONDS) > 0)
        km_poke(ns);
}

void km_uploads_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->uploads)
    {
        struct upload *u = list_entry(n, struct upload, node);
        if (errnum)
            flux_respond_error(ns->h, u->req, errnum, "%s", why);
        upload_free(u);
    }
}
