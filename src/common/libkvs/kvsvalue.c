/* kvsvalue.c - values as objects.
 *
 * A value in chunks is built from left to right: digests of chunks fill an index of level 1; when
 * it is full and another digest comes, it becomes an object, whose digest goes to the level above,
 * and so on.  Appending restores the builder to its state at the end of the value: each level has
 * the children of the index on the right edge except the last, which is open on the level below,
 * and the bytes of the last chunk are fed before the new ones.
 *
 * Invariants:
 *  1. The form of a value depends on its length alone, so equal values have equal digests, however
 *     they were built.
 *  2. Objects are checked: an index has the number of children, and a blob the number of bytes,
 *     that the size of the value requires.  Otherwise EIO.
 *  3. A read touches the objects of its range and their indexes only.
 *
 * Failure: ENOMEM, EIO; a missing object is EAGAIN with its digest noted, or EIO while a value is
 * built.  Objects made before a failure are kept without references, and reclaimed by the owner.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvsvalue.h"

/* Bytes below one child of an index of this level. */
static uint64_t span(unsigned level)
{
    uint64_t n = TREEOBJ_CHUNK;
    while (--level > 0)
        n *= TREEOBJ_INDEX_FAN;
    return n;
}

/* --- building --- */

struct level {
    uint32_t n;
    uint8_t obj[TREEOBJ_HEADER + TREEOBJ_INDEX_FAN * BLOBREF_DIGEST_MAX];
};

struct builder {
    struct kvsmaker *x;
    size_t fill; /* bytes of the chunk that is being filled, in x->scratch */
    struct level level[TREEOBJ_LEVEL_MAX]; /* of level 1, 2, ... */
};

static void builder_init(struct builder *b, struct kvsmaker *x)
{
    b->x = x;
    b->fill = 0;
    for (unsigned i = 0; i < TREEOBJ_LEVEL_MAX; i++)
        b->level[i].n = 0;
}

static struct content_obj *emit(struct builder *b, unsigned level)
{
    struct level *l = &b->level[level - 1];
    treeobj_index_header(l->obj, b->x->dsize, level, l->n);
    return b->x->keep(b->x->arg, l->obj, TREEOBJ_HEADER + l->n * b->x->dsize);
}

static int add(struct builder *b, unsigned level, const uint8_t *digest)
{
    struct level *l = &b->level[level - 1];
    if (l->n == TREEOBJ_INDEX_FAN) {
        struct content_obj *o = level < TREEOBJ_LEVEL_MAX ? emit(b, level) : NULL;
        if (!o || add(b, level + 1, o->digest) < 0)
            return -1;
        l->n = 0;
    }
    memcpy(l->obj + TREEOBJ_HEADER + l->n++ * b->x->dsize, digest, b->x->dsize);
    return 0;
}

int kvsmaker_fit(struct kvsmaker *x, size_t size)
{
    if (size <= x->scratch_size)
        return 0;
    uint8_t *p = realloc(x->scratch, size);
    if (!p)
        return -1;
    x->scratch = p;
    x->scratch_size = size;
    return 0;
}

static int end_chunk(struct builder *b)
{
    struct kvsmaker *x = b->x;
    treeobj_blob_header(x->scratch);
    struct content_obj *o = x->keep(x->arg, x->scratch, TREEOBJ_HEADER + b->fill);
    b->fill = 0;
    return o ? add(b, 1, o->digest) : -1;
}

static int feed(struct builder *b, const uint8_t *data, uint64_t len)
{
    while (len > 0) {
        size_t n = TREEOBJ_CHUNK - b->fill;
        n = len < n ? (size_t)len : n;
        memcpy(b->x->scratch + TREEOBJ_HEADER + b->fill, data, n);
        b->fill += n;
        data += n;
        len -= n;
        if (b->fill == TREEOBJ_CHUNK && end_chunk(b) < 0)
            return -1;
    }
    return 0;
}

/* Make the entry of the `size` bytes that were added. */
static int finish(struct builder *b, uint64_t size, struct treeobj_entry *e)
{
    struct kvsmaker *x = b->x;
    if (size <= TREEOBJ_INLINE_MAX) {
        uint8_t *data = arena_alloc(x->arena, b->fill + 1);
        if (!data)
            return -1;
        memcpy(data, x->scratch + TREEOBJ_HEADER, b->fill);
        e->type = TREEOBJ_VALUE;
        e->data = data;
        e->digest = NULL;
        e->len = size;
        return 0;
    }
    unsigned top = treeobj_level(size);
    if (b->fill > 0 && end_chunk(b) < 0)
        return -1;
    const uint8_t *digest = NULL;
    for (unsigned level = 1; level <= top; level++) {
        struct content_obj *o = emit(b, level);
        if (!o || (level < top && add(b, level + 1, o->digest) < 0))
            return -1;
        digest = o->digest;
    }
    if (top == 0) {
        uint8_t *copy = arena_alloc(x->arena, x->dsize);
        if (!copy)
            return -1;
        digest = memcpy(copy, b->level[0].obj + TREEOBJ_HEADER, x->dsize);
    }
    e->type = top ? TREEOBJ_CHUNKED : TREEOBJ_REF;
    e->data = NULL;
    e->digest = digest;
    e->len = size;
    return 0;
}

/* The children of an index that has `size` bytes below it. */
static const uint8_t *get_index(content_t *c, const uint8_t *digest, unsigned level, uint64_t size,
                                uint32_t *n, struct kvsmiss *miss, errmsg_t *err)
{
    struct content_obj *o = kvsmiss_get(c, digest, miss);
    if (!o)
        return NULL;
    const uint8_t *p = treeobj_index(o->data, n);
    if (treeobj_kind(o->data) != TREEOBJ_INDEX || treeobj_depth(o->data) != level ||
        *n != (size + span(level) - 1) / span(level)) {
        errmsg_fail(err, EIO, "an object of the store is not the expected index of a value");
        return NULL;
    }
    return p;
}

static const uint8_t *get_blob(content_t *c, const uint8_t *digest, uint64_t size,
                               struct kvsmiss *miss, errmsg_t *err)
{
    size_t len;
    struct content_obj *o = kvsmiss_get(c, digest, miss);
    if (!o)
        return NULL;
    if (treeobj_kind(o->data) != TREEOBJ_BLOB || o->len != TREEOBJ_HEADER + size) {
        errmsg_fail(err, EIO, "an object of the store is not the expected value");
        return NULL;
    }
    return treeobj_blob(o->data, o->len, &len);
}

/* Walk down the right edge of a value in chunks: fill the levels of the builder (NULL: none), and
 * return the digest and size of the last chunk. */
static int right_edge(content_t *c, const struct treeobj_entry *e, struct builder *b,
                      const uint8_t **last, uint64_t *len, struct kvsmiss *miss, errmsg_t *err)
{
    size_t dsize = blobref_size(content_blobref(c));
    const uint8_t *digest = e->digest;
    uint64_t size = e->len;
    for (unsigned level = treeobj_level(e->len); level >= 1; level--) {
        uint32_t n;
        const uint8_t *p = get_index(c, digest, level, size, &n, miss, err);
        if (!p)
            return -1;
        digest = p + (n - 1) * dsize;
        size -= (n - 1) * span(level);
        if (b) {
            /* A full chunk need not be opened again. */
            b->level[level - 1].n = level == 1 && size == TREEOBJ_CHUNK ? n : n - 1;
            memcpy(b->level[level - 1].obj + TREEOBJ_HEADER, p, n * dsize);
        }
    }
    *last = digest;
    *len = size;
    return 0;
}

/* Restore the builder to its state at the end of the value. */
static int feed_value(struct builder *b, const struct treeobj_entry *e)
{
    struct kvsmiss *miss = NULL;
    const uint8_t *digest = e->digest, *data;
    uint64_t len = e->len;
    if (e->type == TREEOBJ_VALUE)
        return feed(b, e->data, e->len);
    if (e->type == TREEOBJ_CHUNKED) {
        if (right_edge(b->x->content, e, b, &digest, &len, miss, NULL) < 0)
            return -1;
        if (len == TREEOBJ_CHUNK)
            return 0;
    } else if (len == TREEOBJ_CHUNK) {
        return add(b, 1, digest);
    }
    data = get_blob(b->x->content, digest, len, miss, NULL);
    return data ? feed(b, data, len) : -1;
}

int kvsvalue_settle(struct kvsmaker *x, const struct kvspiece *tail, struct treeobj_entry *e)
{
    if (!tail && (e->type != TREEOBJ_VALUE || e->len <= TREEOBJ_INLINE_MAX))
        return 0;
    uint64_t size = tail ? tail->total : e->len;
    size_t n = 0;
    for (const struct kvspiece *p = tail; p; p = p->prev)
        n++;
    const struct kvspiece **order = arena_alloc(x->arena, (n + 1) * sizeof(const void *));
    size_t room = size < TREEOBJ_CHUNK ? (size_t)size : TREEOBJ_CHUNK;
    struct builder b;
    builder_init(&b, x);
    if (!order || kvsmaker_fit(x, TREEOBJ_HEADER + room) < 0 || feed_value(&b, e) < 0)
        goto fail;
    for (size_t i = n; i > 0; i--, tail = tail->prev)
        order[i - 1] = tail;
    for (size_t i = 0; i < n; i++) {
        if (feed(&b, order[i]->data, order[i]->len) < 0)
            goto fail;
    }
    if (finish(&b, size, e) == 0)
        return 0;
fail:
    if (errno == EAGAIN)
        errno = EIO;
    return -1;
}

int kvsvalue_index(struct kvsmaker *x, const uint8_t *digests, size_t n, uint64_t size,
                   struct treeobj_entry *e)
{
    struct builder b;
    builder_init(&b, x);
    if (size <= TREEOBJ_INLINE_MAX) {
        const uint8_t *data = get_blob(x->content, digests, size, NULL, NULL);
        if (!data) {
            errno = EIO;
            return -1;
        }
        if (kvsmaker_fit(x, TREEOBJ_HEADER + TREEOBJ_CHUNK) < 0 || feed(&b, data, size) < 0)
            return -1;
    } else {
        for (size_t i = 0; i < n; i++) {
            if (add(&b, 1, digests + i * x->dsize) < 0)
                return -1;
        }
    }
    return finish(&b, size, e);
}

int kvsvalue_can_append(content_t *c, const struct treeobj_entry *e, struct kvsmiss *miss,
                        errmsg_t *err)
{
    const uint8_t *digest = e->digest;
    uint64_t len = e->len;
    if (e->type == TREEOBJ_VALUE)
        return 0;
    if (e->type == TREEOBJ_CHUNKED && right_edge(c, e, NULL, &digest, &len, miss, err) < 0)
        return -1;
    return len == TREEOBJ_CHUNK || get_blob(c, digest, len, miss, err) ? 0 : -1;
}

/* --- reading --- */

struct reading {
    content_t *c;
    size_t dsize;
    uint64_t begin, end; /* of the range, in the value */
    uint8_t *buf;
    struct kvsmiss *miss;
    errmsg_t *err;
    bool missing;
};

static int read_none(struct reading *r)
{
    if (errno != EAGAIN)
        return -1;
    r->missing = true;
    return 0;
}

/* Read the part of the range that lies in this object, which has `size` bytes of the value from
 * `at` on.
 */
static int read_part(struct reading *r, const uint8_t *digest, unsigned level, uint64_t at,
                     uint64_t size)
{
    if (level == 0) {
        const uint8_t *data = get_blob(r->c, digest, size, r->miss, r->err);
        if (!data)
            return read_none(r);
        uint64_t from = at > r->begin ? at : r->begin;
        uint64_t to = at + size < r->end ? at + size : r->end;
        if (r->buf)
            memcpy(r->buf + (from - r->begin), data + (from - at), to - from);
        return 0;
    }
    uint32_t n;
    const uint8_t *p = get_index(r->c, digest, level, size, &n, r->miss, r->err);
    if (!p)
        return read_none(r);
    uint64_t step = span(level);
    uint32_t i = r->begin > at ? (uint32_t)((r->begin - at) / step) : 0;
    for (; i < n && at + i * step < r->end && (!r->miss || r->miss->n < KVSMISS_MAX); i++) {
        uint64_t left = size - i * step;
        if (read_part(r, p + i * r->dsize, level - 1, at + i * step, left < step ? left : step) < 0)
            return -1;
    }
    return 0;
}

int kvsvalue_read(content_t *c, const struct treeobj_entry *e, uint64_t offset, size_t len,
                  void *buf, struct kvsmiss *miss, errmsg_t *err)
{
    struct reading r = {.c = c,
                        .dsize = blobref_size(content_blobref(c)),
                        .begin = offset,
                        .end = offset + len,
                        .buf = buf,
                        .miss = miss,
                        .err = err};
    if (!treeobj_is_value(e) || offset > e->len || len > e->len - offset)
        return errmsg_fail(err, EINVAL,
                           "a range of %zu bytes at offset %llu exceeds a value of %llu bytes", len,
                           (unsigned long long)offset, (unsigned long long)e->len);
    if (len == 0)
        return 0;
    if (e->type == TREEOBJ_VALUE) {
        if (buf)
            memcpy(buf, e->data + offset, len);
        return 0;
    }
    if (read_part(&r, e->digest, treeobj_level(e->len), 0, e->len) < 0)
        return -1;
    if (r.missing) {
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

/* --- comparing --- */

/* The first chunk of a value, or its bytes when it is shorter. */
static const uint8_t *first_bytes(content_t *c, const struct treeobj_entry *e, struct kvsmiss *miss,
                                  errmsg_t *err)
{
    const uint8_t *digest = e->digest;
    uint64_t size = e->len;
    if (e->type == TREEOBJ_VALUE)
        return e->data;
    for (unsigned level = treeobj_level(e->len); level >= 1; level--) {
        uint32_t n;
        if (!(digest = get_index(c, digest, level, size, &n, miss, err)))
            return NULL;
        size = size < span(level) ? size : span(level);
    }
    return get_blob(c, digest, size, miss, err);
}

static int first_differ(content_t *c, const struct treeobj_entry *now,
                        const struct treeobj_entry *old, struct kvsmiss *miss, errmsg_t *err)
{
    const uint8_t *a = first_bytes(c, now, miss, err), *b = first_bytes(c, old, miss, err);
    return a && b ? memcmp(a, b, old->len) == 0 : -1;
}

int kvsvalue_begins_with(content_t *c, const struct treeobj_entry *now,
                         const struct treeobj_entry *old, struct kvsmiss *miss, errmsg_t *err)
{
    size_t dsize = blobref_size(content_blobref(c));
    if (!treeobj_is_value(now) || !treeobj_is_value(old) || now->len < old->len)
        return 0;
    if (old->len == 0)
        return 1;
    if (now->len == old->len && old->type != TREEOBJ_VALUE)
        return memcmp(now->digest, old->digest, dsize) == 0;
    if (old->len < TREEOBJ_CHUNK)
        return first_differ(c, now, old, miss, err);
    const uint8_t *od = old->digest, *nd = now->digest;
    uint64_t osize = old->len, nsize = now->len;
    unsigned olevel = treeobj_level(osize), nlevel = treeobj_level(nsize);
    for (; nlevel > olevel; nlevel--) {
        uint32_t n;
        if (!(nd = get_index(c, nd, nlevel, nsize, &n, miss, err)))
            return -1;
        nsize = nsize < span(nlevel) ? nsize : span(nlevel);
    }
    /* Up to here both values are equal, and `old` ends below these children. */
    while (memcmp(od, nd, dsize) != 0) {
        if (osize == nsize)
            return 0;
        if (olevel == 0) {
            const uint8_t *a = get_blob(c, od, osize, miss, err);
            const uint8_t *b = get_blob(c, nd, nsize, miss, err);
            return a && b ? memcmp(a, b, osize) == 0 : -1;
        }
        uint32_t on, nn;
        const uint8_t *op = get_index(c, od, olevel, osize, &on, miss, err);
        const uint8_t *np = get_index(c, nd, olevel, nsize, &nn, miss, err);
        if (!op || !np)
            return -1;
        if (memcmp(op, np, (on - 1) * dsize) != 0)
            return 0;
        od = op + (on - 1) * dsize;
        nd = np + (on - 1) * dsize;
        osize -= (on - 1) * span(olevel);
        nsize -= (on - 1) * span(olevel);
        nsize = nsize < span(olevel) ? nsize : span(olevel);
        olevel--;
    }
    return 1;
}

int kvsvalue_tag(blobref_t *b, const struct treeobj_entry *e, uint8_t tag[KVS_TAG_SIZE])
{
    memset(tag, 0, KVS_TAG_SIZE);
    tag[0] = treeobj_is_value(e) ? KVS_TAG_VALUE : e->type;
    if (!e->digest)
        return blobref_hash(b, e->data, e->len, tag + 1);
    memcpy(tag + 1, e->digest, blobref_size(b));
    return 0;
}
