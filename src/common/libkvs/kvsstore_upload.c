/* kvsstore_upload.c - chunks that come before the transaction that names them.
 *
 * A chunk that was uploaded is referred to by its record, in the order of the last upload.  Two
 * clients may upload the same bytes: the record counts how often they came, and each reference by a
 * transaction takes one back, so that neither loses its chunk by what the other does.
 *
 * Invariants:
 *  1. A record has one reference to its chunk, so the chunk is kept.
 *  2. upload_order is in the order of the stamps.
 *
 * Failure: what exceeds the bound is refused with ENOBUFS; nothing that waits is dropped for it.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvsstore_private.h"

struct upload {
    struct list_node node;
    struct content_obj *obj;
    uint32_t count;
    uint32_t stamp;
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

void kvsstore_upload_limit(kvsstore_t *s, uint64_t bytes)
{
    s->upload_limit = bytes;
}

static void done(kvsstore_t *s, struct upload *u)
{
    struct content_obj *o = u->obj;
    list_remove(&u->node);
    s->st.upload_bytes -= o->len;
    hmap_del(s->upload, o->digest);
    kvsstore_let_go(s, o);
}

int kvsstore_upload(kvsstore_t *s, const void *data, size_t len, uint32_t stamp, uint8_t *digest,
                    errmsg_t *err)
{
    if (len < 1 || len > TREEOBJ_CHUNK)
        return errmsg_fail(err, EINVAL, "a chunk has 1 to %u bytes, not %zu", TREEOBJ_CHUNK, len);
    if (s->st.upload_bytes + TREEOBJ_HEADER + len > s->upload_limit)
        return errmsg_fail(err, ENOBUFS,
                           "%llu bytes of values wait to be used, which is the limit: try later",
                           (unsigned long long)s->st.upload_bytes);
    if (kvsmaker_fit(&s->make, TREEOBJ_HEADER + TREEOBJ_CHUNK) < 0)
        return kvsstore_no_memory(err);
    treeobj_blob_header(s->make.scratch);
    memcpy(s->make.scratch + TREEOBJ_HEADER, data, len);
    struct content_obj *o = s->make.keep(s->make.arg, s->make.scratch, TREEOBJ_HEADER + len);
    if (!o)
        return kvsstore_no_memory(err);
    struct upload *u = hmap_get(s->upload, o->digest);
    if (!u) {
        if (!(u = calloc(1, sizeof(*u))))
            return kvsstore_no_memory(err);
        if (hmap_put(s->upload, o->digest, u) < 0) {
            free(u);
            return kvsstore_no_memory(err);
        }
        list_init(&u->node);
        u->obj = o;
        o->refs++;
        s->st.upload_bytes += o->len;
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

size_t kvsstore_upload_expire(kvsstore_t *s, uint32_t before)
{
    struct list_node *n;
    size_t count = 0;
    for (; (n = list_first(&s->upload_order)); count++) {
        struct upload *u = list_entry(n, struct upload, node);
        if (u->stamp >= before)
            break;
        done(s, u);
    }
    return count;
}
