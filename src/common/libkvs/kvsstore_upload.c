/* kvsstore_upload.c - chunks that are uploaded before the transaction that names them.
 *
 * A record refers to each uploaded chunk until a transaction does, or it expires.  Two clients may
 * upload the same bytes: the record counts uploads, and each reference by a transaction takes one
 * back, so that neither client loses its chunk to the other.
 *
 * The size of all uploads is bounded.  A client may take at most half of the room that the other
 * clients leave: a single client gets half of all room, each of two greedy clients a third, and so
 * on, so there is always room for another client.  A chunk counts as the size of its object and
 * KVSSTORE_UPLOAD_COST, once in the total, and once for each client that uploaded it.
 *
 * Invariants:
 *  1. A record holds one reference to its chunk, so the chunk is kept.
 *  2. upload_order is sorted by stamp, that of the last upload of each record.
 *  3. A record has a share for each connected client that uploaded it, and is removed with its last
 *     share, unless an upload without a client is in it.
 *
 * Failure: an upload that exceeds a bound is refused with ENOBUFS; no other upload is dropped for
 * it.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvsstore_private.h"

struct upload {
    struct list_node node;
    struct list_node shares;
    struct content_obj *obj;
    uint32_t count;
    uint32_t stamp;
    bool nobodys;
};

struct kvsstore_client {
    kvsstore_t *s;
    struct list_node shares;
    uint64_t bytes;
};

struct share {
    struct list_node of_upload, of_client;
    struct upload *u;
    kvsstore_client_t *c;
};

int kvsstore_upload_init(kvsstore_t *s)
{
    list_init(&s->upload_order);
    s->upload_limit = UINT64_C(2) << 30;
    s->upload = hmap_create_bin(s->make.dsize, free);
    return s->upload ? 0 : -1;
}

void kvsstore_upload_fini(kvsstore_t *s)
{
    hmap_destroy(s->upload);
}

static uint64_t cost(const struct content_obj *o)
{
    return o->len + KVSSTORE_UPLOAD_COST;
}

static void share_free(struct share *h)
{
    h->c->bytes -= cost(h->u->obj);
    list_remove(&h->of_upload);
    list_remove(&h->of_client);
    free(h);
}

static void done(kvsstore_t *s, struct upload *u)
{
    struct content_obj *o = u->obj;
    LIST_FOREACH_SAFE(n, tmp, &u->shares)
    share_free(list_entry(n, struct share, of_upload));
    list_remove(&u->node);
    s->st.upload_bytes -= cost(o);
    hmap_del(s->upload, o->digest);
    kvsstore_let_go(s, o);
}

kvsstore_client_t *kvsstore_client_create(kvsstore_t *s)
{
    kvsstore_client_t *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->s = s;
    list_init(&c->shares);
    return c;
}

bool kvsstore_client_let_go(kvsstore_client_t *c, size_t max)
{
    struct list_node *n;
    while (max-- > 0 && (n = list_first(&c->shares))) {
        struct share *h = list_entry(n, struct share, of_client);
        struct upload *u = h->u;
        share_free(h);
        if (list_empty(&u->shares) && !u->nobodys)
            done(c->s, u);
    }
    return !list_empty(&c->shares);
}

void kvsstore_client_destroy(kvsstore_client_t *c)
{
    if (!c)
        return;
    (void)kvsstore_client_let_go(c, SIZE_MAX);
    free(c);
}

/* Is there room for `len` bytes of this client?  They count even if the same bytes are already
 * here, so that a refusal does not reveal whether they are. */
static int has_room(const kvsstore_t *s, const kvsstore_client_t *c, size_t len, errmsg_t *err)
{
    uint64_t more = TREEOBJ_HEADER + len + KVSSTORE_UPLOAD_COST, all = s->st.upload_bytes + more;
    if (all > s->upload_limit)
        return errmsg_fail(
            err, ENOBUFS,
            "%llu bytes of values have been sent and not committed, which is the limit: try later",
            (unsigned long long)s->st.upload_bytes);
    if (c && c->bytes + more > s->upload_limit - all)
        return errmsg_fail(
            err, ENOBUFS,
            "%llu bytes of values have been sent by this client and not committed; the rest is "
            "reserved for other clients: commit some first, or try later",
            (unsigned long long)c->bytes);
    return 0;
}

/* Count an upload towards its client.  -1 with ENOMEM. */
static int charge(struct upload *u, kvsstore_client_t *c)
{
    if (!c) {
        u->nobodys = true;
        return 0;
    }
    LIST_FOREACH(n, &u->shares)
    {
        if (list_entry(n, struct share, of_upload)->c == c)
            return 0;
    }
    struct share *h = malloc(sizeof(*h));
    if (!h)
        return -1;
    h->u = u;
    h->c = c;
    list_init(&h->of_upload);
    list_init(&h->of_client);
    list_push(&u->shares, &h->of_upload);
    list_append(&c->shares, &h->of_client);
    c->bytes += cost(u->obj);
    return 0;
}

static struct upload *upload_new(kvsstore_t *s, struct content_obj *o)
{
    struct upload *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    if (hmap_put(s->upload, o->digest, u) < 0) {
        free(u);
        return NULL;
    }
    list_init(&u->node);
    list_init(&u->shares);
    u->obj = o;
    o->refs++;
    s->st.upload_bytes += cost(o);
    return u;
}

int kvsstore_upload(kvsstore_t *s, kvsstore_client_t *client, const void *data, size_t len,
                    uint32_t stamp, uint8_t *digest, errmsg_t *err)
{
    if (len < 1 || len > TREEOBJ_CHUNK)
        return errmsg_fail(err, EINVAL, "a chunk has 1 to %u bytes, not %zu", TREEOBJ_CHUNK, len);
    if (has_room(s, client, len, err) < 0)
        return -1;
    if (kvsmaker_fit(&s->make, TREEOBJ_HEADER + TREEOBJ_CHUNK) < 0)
        return kvsstore_no_memory(err);
    treeobj_blob_header(s->make.scratch);
    memcpy(s->make.scratch + TREEOBJ_HEADER, data, len);
    struct content_obj *o = s->make.keep(s->make.arg, s->make.scratch, TREEOBJ_HEADER + len);
    if (!o)
        return kvsstore_no_memory(err);
    struct upload *u = hmap_get(s->upload, o->digest);
    bool fresh = !u;
    if (fresh && !(u = upload_new(s, o)))
        return kvsstore_no_memory(err);
    if (charge(u, client) < 0) {
        if (fresh)
            done(s, u);
        return kvsstore_no_memory(err);
    }
    u->count++;
    u->stamp = stamp;
    list_remove(&u->node);
    list_append(&s->upload_order, &u->node);
    memcpy(digest, o->digest, s->make.dsize);
    return 0;
}

void kvsstore_upload_used(kvsstore_t *s, const uint8_t *digest)
{
    struct upload *u = hmap_get(s->upload, digest);
    if (u && --u->count == 0)
        done(s, u);
}

size_t kvsstore_upload_expire(kvsstore_t *s, uint32_t before, size_t max)
{
    struct list_node *n;
    size_t count = 0;
    for (; count < max && (n = list_first(&s->upload_order)); count++) {
        struct upload *u = list_entry(n, struct upload, node);
        if (u->stamp >= before)
            break;
        done(s, u);
    }
    return count;
}
