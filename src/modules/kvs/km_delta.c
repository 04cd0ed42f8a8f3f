/* km_delta.c - answers that contain only what is new.
 *
 * Append: when a value begins with all of the value that the watcher has, the answer is the rest of
 * it; any other value is sent from its beginning, and marked as whole.  A piece has at most 1 MiB,
 * and the next one follows at once.  To compare the two values, the objects at the right edge of
 * the old one are held; all others are compared by their digests.
 *
 * Diff: two directories are compared (kvsdiff.h) at a cost that depends on the differences.  The
 * master holds the root that was sent last (km_snapshot.c) until the next one is sent, so no object
 * is missing for the comparison, however long nothing has changed for the watcher.
 *
 * Invariants:
 *  1. The results of an append-watch, joined from the last whole one on, are a value that the key
 *     had at some version, or the beginning of such a value.
 *  2. The changes of a diff-watch, applied one after the other, give the contents of the directory
 *     at the version of the last one.
 *
 * Failure: when objects of the old value cannot be loaded, the new value is sent as a whole.
 * Changes of more than 128 MiB fail with EMSGSIZE.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_delta.h"
#include "km_private.h"
#include "libkvs/kvsdiff.h"
#include "libkvs/kvsvalue.h"

#define PIECE_MAX (1024u * 1024)
#define CHANGES_MAX (128u * 1024 * 1024)

/* --- what is known --- */

static void release_edge(struct km_ns *ns, struct km_delta *d)
{
    while (d->nedge > 0)
        content_release(ns->content, d->edge[--d->nedge]);
}

static void hold_edge(struct km_ns *ns, struct km_delta *d)
{
    size_t dsize = blobref_size(ns->k->blobref);
    const uint8_t *digest =
        d->was.type == TREEOBJ_REF || d->was.type == TREEOBJ_CHUNKED ? d->was.digest : NULL;

    while (digest && d->nedge < KM_DELTA_EDGE_MAX) {
        struct content_obj *o = content_get(ns->content, digest);
        uint32_t n;
        if (!o)
            return;
        content_hold(ns->content, o);
        d->edge[d->nedge++] = o;
        digest = NULL;
        if (treeobj_kind(o->data) == TREEOBJ_INDEX) {
            const uint8_t *children = treeobj_index(o->data, &n);
            digest = children + (n - 1) * dsize;
        }
    }
}

void km_delta_sent(struct km_read *r)
{
    struct km_ns *ns = r->ns;
    struct km_delta *d = r->delta;
    const struct treeobj_entry *e = &r->entry;

    release_edge(ns, d);
    d->was = *e;
    if (e->type == TREEOBJ_VALUE) {
        if (e->len)
            memcpy(d->bytes, e->data, e->len);
        d->was.data = d->bytes;
    } else {
        memcpy(d->bytes, e->digest, blobref_size(ns->k->blobref));
        d->was.digest = d->bytes;
    }
    d->offset = d->end;
    d->sent = true;
    if (e->type == TREEOBJ_DIR)
        km_snapshot_hold_move(&d->was_hold, &d->now_hold);
    else
        hold_edge(ns, d);
}

bool km_delta_pending(const struct km_delta *d)
{
    return d->sent && d->was.type != TREEOBJ_DIR && d->offset < d->was.len;
}

void km_delta_forget(struct km_ns *ns, struct km_delta *d)
{
    d->sent = false;
    release_edge(ns, d);
    km_snapshot_hold_end(&d->was_hold);
}

void km_delta_clear(struct km_ns *ns, struct km_delta *d)
{
    km_delta_forget(ns, d);
    km_snapshot_hold_end(&d->now_hold);
}

/* --- append --- */

int km_delta_make_append(struct km_read *r)
{
    struct km_delta *d = r->delta;
    content_t *c = r->ns->content;
    const struct treeobj_entry *e = &r->entry;
    struct kvsmiss *miss = &r->ns->k->miss;
    struct kvs_answer a = {.type = TREEOBJ_VALUE, .version = r->version, .size = e->len};
    int rc = 0;

    if (!treeobj_is_value(e))
        return errmsg_fail(&r->err, EISDIR, "'%.*s' is a directory: nothing is appended to it",
                           r->q.keylen > 120 ? 120 : (int)r->q.keylen, r->q.key);
    if (d->sent && (rc = kvsvalue_begins_with(c, e, &d->was, miss, &r->err)) < 0)
        return -1;
    uint64_t from = rc == 1 ? d->offset : 0;
    size_t len = e->len - from < PIECE_MAX ? e->len - from : PIECE_MAX;
    /* The right edge is needed the next time. */
    if (e->type != TREEOBJ_VALUE && e->len > 0 &&
        kvsvalue_read(c, e, e->len - 1, 1, NULL, miss, &r->err) < 0)
        return -1;
    a.flags = rc == 1 ? 0 : KVS_ANSWER_WHOLE;
    if (!(r->answer = malloc(KVS_ANSWER_HEADER + len + 1)))
        return errmsg_fail(&r->err, ENOMEM, "out of memory for a value");
    r->len = KVS_ANSWER_HEADER + len;
    kvs_answer_encode_header(&a, r->answer);
    if (e->type == TREEOBJ_VALUE) {
        if (len > 0)
            memcpy(r->answer + KVS_ANSWER_HEADER, e->data + from, len);
    } else if (len > 0 &&
               kvsvalue_read(c, e, from, len, r->answer + KVS_ANSWER_HEADER, miss, &r->err) < 0) {
        int saved = errno;
        free(r->answer);
        r->answer = NULL;
        errno = saved;
        return -1;
    }
    d->end = from + len;
    return 0;
}

/* --- changes below a directory --- */

struct changes {
    struct km_read *r;
    uint8_t *buf;
    size_t len, cap;
    uint32_t count;
    bool missing;
};

static int reserve(struct changes *l, size_t need)
{
    uint8_t *p;
    size_t cap;

    if (need > CHANGES_MAX)
        return errmsg_fail(&l->r->err, EMSGSIZE,
                           "the changes exceed %u MiB: watch a part, or without values",
                           CHANGES_MAX >> 20);
    if (need + 1 <= l->cap)
        return 0;
    cap = l->cap * 2 > need + 1 ? l->cap * 2 : need + 1;
    if (!(p = realloc(l->buf, cap)))
        return errmsg_fail(&l->r->err, ENOMEM, "out of memory for the changes of a directory");
    l->buf = p;
    l->cap = cap;
    return 0;
}

static int put_data(struct changes *l, const struct treeobj_entry *e, uint8_t *p)
{
    struct km_read *r = l->r;

    if (!e->digest) {
        if (p && e->len)
            memcpy(p, e->data, e->len);
        return 0;
    }
    if (kvsvalue_read(r->ns->content, e, 0, e->len, p, &r->ns->k->miss, &r->err) == 0)
        return 0;
    if (errno != EAGAIN)
        return -1;
    l->missing = true; /* go on, to know all that is */
    return 0;
}

static int change_cb(const struct kvsdiff_item *it, void *arg)
{
    static const uint8_t kinds[] = {[KVSDIFF_ADDED] = KVS_CHANGE_ADDED,
                                    [KVSDIFF_CHANGED] = KVS_CHANGE_CHANGED,
                                    [KVSDIFF_REMOVED] = KVS_CHANGE_REMOVED};
    struct changes *l = arg;
    const struct treeobj_entry *e = it->now ? it->now : it->old;
    bool is_value = treeobj_is_value(e);
    bool has = it->now && (e->type == TREEOBJ_LINK || (l->r->q.flags & KVS_REQ_VALUES && is_value &&
                                                       e->len <= KVS_LOOKUP_MAX));
    struct kvs_answer_entry w = {.type = is_value ? TREEOBJ_VALUE : e->type,
                                 .change = kinds[it->change],
                                 .namelen = (uint16_t)it->keylen,
                                 .has_data = has,
                                 .size = e->type == TREEOBJ_DIR ? 0 : e->len};
    size_t head = KVS_ANSWER_ENTRY_HEADER + it->keylen;
    size_t datalen = has ? e->len : 0;

    if (!l->missing && reserve(l, l->len + head + datalen) < 0)
        return -1;
    if (has && put_data(l, e, l->missing ? NULL : l->buf + l->len + head) < 0)
        return -1;
    if (l->missing)
        return 0;
    kvs_answer_entry_encode_header(&w, l->buf + l->len);
    memcpy(l->buf + l->len + KVS_ANSWER_ENTRY_HEADER, it->key, it->keylen);
    l->len += head + datalen;
    l->count++;
    return 0;
}

int km_delta_make_diff(struct km_read *r)
{
    struct km_delta *d = r->delta;
    struct changes l = {.r = r, .len = KVS_ANSWER_HEADER, .cap = 256};
    struct kvs_answer a = {.type = TREEOBJ_DIR, .flags = KVS_ANSWER_DIFF, .version = r->version};
    int rc;

    if (r->entry.type != TREEOBJ_DIR)
        return errmsg_fail(&r->err, EINVAL, "'%.*s' is not a directory: nothing changes below it",
                           r->q.keylen > 120 ? 120 : (int)r->q.keylen, r->q.key);
    if (!(l.buf = malloc(l.cap)))
        return errmsg_fail(&r->err, ENOMEM, "out of memory for the changes of a directory");
    if (!d->sent)
        a.flags |= KVS_ANSWER_WHOLE;
    rc = kvsdiff(r->ns->content, d->sent ? d->was.digest : NULL, r->entry.digest, KVSDIFF_RECURSIVE,
                 change_cb, &l, &r->ns->k->miss, &r->err);
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
    a.size = l.count;
    kvs_answer_encode_header(&a, l.buf);
    r->answer = l.buf;
    r->len = l.len;
    return 0;
}
