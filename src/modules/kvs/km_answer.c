/* km_answer.c - what a read answers: a value or a part of it, a listing or a page of it, a tag.
 *
 *    answer of          body
 *    a look-up          the value, at most 16 MiB; the target of a link; nothing of a directory
 *    ... of a range     those bytes of the value that there are, at most 1 MiB
 *    a listing          all entries, together at most 128 MiB
 *    ... of a page      so many entries after the cursor
 *
 * Layout: kvs_wire.h.  `size` is that of the whole value, or the number of entries of the whole
 * directory.
 *
 * Invariants:
 *  1. An answer is made whole from one root, or not at all: EAGAIN with what is missing, and the
 *     caller begins anew.
 *
 * Failure: EFBIG for a value too long for one answer, EMSGSIZE for such a listing, each with what
 * to do instead.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_private.h"
#include "libkvs/kvsvalue.h"

#define LISTING_MAX (128u * 1024 * 1024)

struct listing {
    struct km_read *r;
    uint8_t *buf;
    size_t len, cap;
    uint32_t count;
    bool missing;
};

static bool is_value(const struct treeobj_entry *e)
{
    return e->type != TREEOBJ_DIR && e->type != TREEOBJ_LINK;
}

/* Bytes of a value or target are put at p; NULL: look whether they are here. */
static int copy_value(struct km_read *r, const struct treeobj_entry *e, uint64_t offset, size_t len,
                      uint8_t *p)
{
    if (!is_value(e) || e->type == TREEOBJ_VALUE) {
        if (p && len)
            memcpy(p, e->data + offset, len);
        return 0;
    }
    if (len == 0)
        return 0;
    return kvsvalue_read(r->ns->content, e, offset, len, p, &r->ns->k->miss, &r->err);
}

/* --- listing --- */

static int reserve(struct listing *l, size_t need)
{
    if (need > LISTING_MAX)
        return errmsg_fail(&l->r->err, EMSGSIZE,
                           "the directory with its values exceeds %u MiB: list it in pages, or "
                           "without values",
                           LISTING_MAX >> 20);
    if (need + 1 <= l->cap)
        return 0;
    size_t cap = l->cap * 2 > need + 1 ? l->cap * 2 : need + 1;
    uint8_t *p = realloc(l->buf, cap);
    if (!p)
        return errmsg_fail(&l->r->err, ENOMEM, "out of memory for a directory listing");
    l->buf = p;
    l->cap = cap;
    return 0;
}

static int list_entry_cb(const struct treeobj_entry *e, void *arg)
{
    struct listing *l = arg;
    struct km_read *r = l->r;
    uint64_t max = r->q.offset && r->q.offset < KVS_LOOKUP_MAX ? r->q.offset : KVS_LOOKUP_MAX;
    bool has =
        e->type == TREEOBJ_LINK || (r->q.flags & KVS_REQ_VALUES && is_value(e) && e->len <= max);
    size_t datalen = has ? e->len : 0;
    struct kvs_answer_entry w = {.type = is_value(e) ? TREEOBJ_VALUE : e->type,
                                 .namelen = e->namelen,
                                 .has_data = has,
                                 .size = e->type == TREEOBJ_DIR ? 0 : e->len};
    size_t head = KVS_ANSWER_ENTRY_HEADER + e->namelen;
    if (!l->missing && reserve(l, l->len + head + datalen) < 0)
        return -1;
    uint8_t *p = l->missing ? NULL : l->buf + l->len + head;
    if (has && copy_value(r, e, 0, datalen, p) < 0) {
        if (errno != EAGAIN)
            return -1;
        l->missing = true; /* go on, to know all that is */
    }
    if (l->missing)
        return 0;
    kvs_answer_entry_encode_header(&w, l->buf + l->len);
    memcpy(l->buf + l->len + KVS_ANSWER_ENTRY_HEADER, e->name, e->namelen);
    l->len += head + datalen;
    l->count++;
    return 0;
}

/* Entries of the whole directory. */
static int dir_count(struct km_read *r, uint64_t *count)
{
    const void *n = kvswalk_node(r->ns->content, r->entry.digest, 0, &r->ns->k->miss, &r->err);
    if (!n)
        return -1;
    *count = treeobj_count(n, blobref_size(r->ns->k->blobref));
    return 0;
}

static int walk(struct km_read *r, struct listing *l, bool *more)
{
    content_t *c = r->ns->content;
    struct kvsmiss *miss = &r->ns->k->miss;
    *more = false;
    if (r->q.flags & KVS_REQ_PAGE)
        return kvswalk_page(c, r->entry.digest, r->q.cursor, r->q.cursorlen, r->q.count,
                            list_entry_cb, l, more, miss, &r->err);
    return kvswalk_dir(c, r->entry.digest, list_entry_cb, l, miss, &r->err);
}

static int make_listing(struct km_read *r)
{
    struct listing l = {.r = r, .len = KVS_ANSWER_HEADER, .cap = 1024};
    struct kvs_answer a = {.type = TREEOBJ_DIR, .version = r->version};
    bool more;
    if (dir_count(r, &a.size) < 0)
        return -1;
    if (!(l.buf = malloc(l.cap)))
        return errmsg_fail(&r->err, ENOMEM, "out of memory for a directory listing");
    int rc = walk(r, &l, &more);
    if (rc == 0 && l.missing) {
        errno = EAGAIN;
        rc = -1;
    }
    if (rc < 0) {
        int saved = errno;
        free(l.buf);
        errno = saved;
        return -1;
    }
    a.count = l.count;
    a.flags = more ? KVS_ANSWER_MORE : 0;
    kvs_answer_encode_header(&a, l.buf);
    r->answer = l.buf;
    r->len = l.len;
    return 0;
}

/* --- values --- */

static int make_value(struct km_read *r)
{
    const struct treeobj_entry *e = &r->entry;
    struct kvs_answer a = {.type = is_value(e) ? TREEOBJ_VALUE : e->type, .version = r->version};
    uint8_t tag[KVS_TAG_SIZE];
    uint64_t offset = 0;
    size_t head = KVS_ANSWER_HEADER, len = 0;
    if (e->type == TREEOBJ_DIR) {
        if (dir_count(r, &a.size) < 0)
            return -1;
    } else {
        a.size = e->len;
        len = e->len;
    }
    if (r->q.flags & KVS_REQ_RANGE && is_value(e)) {
        offset = r->q.offset < e->len ? r->q.offset : e->len;
        len = e->len - offset < r->q.count ? e->len - offset : r->q.count;
    } else if (len > KVS_LOOKUP_MAX) {
        return errmsg_fail(&r->err, EFBIG,
                           "'%.*s' has %llu bytes, more than the %u MiB that come in one answer: "
                           "read it in ranges",
                           r->q.keylen > 80 ? 80 : (int)r->q.keylen, r->q.key,
                           (unsigned long long)e->len, KVS_LOOKUP_MAX >> 20);
    }
    if (r->q.flags & KVS_REQ_TAG) {
        if (kvsvalue_tag(r->ns->k->blobref, e, tag) < 0)
            return errmsg_fail(&r->err, EIO, "the tag of a key cannot be computed");
        a.flags = KVS_ANSWER_TAG;
        head += KVS_TAG_SIZE;
    }
    r->len = head + len;
    if (!(r->answer = malloc(r->len + 1)))
        return errmsg_fail(&r->err, ENOMEM, "out of memory for a value");
    kvs_answer_encode_header(&a, r->answer);
    if (a.flags & KVS_ANSWER_TAG)
        memcpy(r->answer + KVS_ANSWER_HEADER, tag, KVS_TAG_SIZE);
    if (copy_value(r, e, offset, len, r->answer + head) < 0) {
        int saved = errno;
        free(r->answer);
        r->answer = NULL;
        errno = saved;
        return -1;
    }
    return 0;
}

int km_answer_make(struct km_read *r)
{
    return r->list && r->entry.type == TREEOBJ_DIR ? make_listing(r) : make_value(r);
}
