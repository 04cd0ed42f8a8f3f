/* km_delta.c - responses to watchers that contain only the changes.
 *
 * Append: when a value begins with the whole value that the watcher has, the response is the rest
 * of the value.  Any other value is sent from its beginning, and marked as whole.  A piece has at
 * most 1 MiB, and the next piece follows at once.  For the comparison of two values, the objects at
 * the right edge of the old value are held; all other objects are compared by their digests.
 *
 * Diff: two directories are compared (kvsdiff.h) at a cost that depends on the differences.  The
 * master holds the root that was sent last (km_snapshot.c) until the next one is sent.  So no
 * object is missing for the comparison, however long the directory has not changed.  The comparison
 * is done in slices (libflux/slice.h), as listings are (km_answer.c).
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
#include "km_entries.h"
#include "km_private.h"
#include "libflux/slice.h"
#include "libkvs/kvsdiff.h"
#include "libkvs/kvsvalue.h"

#define PIECE_MAX (1024u * 1024)
#define TOO_LARGE "the changes exceed 128 MiB: watch a part, or without values"
#define STRIDE 32       /* steps between two readings of the clock, */
#define STRIDE_VALUES 4 /* and if values are copied */

/* --- the state of a watcher --- */

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
    struct kvsmiss *miss = km_load_miss(r->ns->k);
    struct kvs_answer a = {.type = TREEOBJ_VALUE, .version = r->version, .size = e->len};
    int rc = 0;

    if (!treeobj_is_value(e))
        return errmsg_fail(&r->err, EISDIR, "'%.*s' is a directory: nothing is appended to it",
                           r->q.keylen > 120 ? 120 : (int)r->q.keylen, r->q.key);
    if (d->sent && (rc = kvsvalue_begins_with(c, e, &d->was, miss, &r->err)) < 0)
        return -1;
    uint64_t from = rc == 1 ? d->offset : 0;
    size_t len = e->len - from < PIECE_MAX ? e->len - from : PIECE_MAX;
    /* The objects at the right edge are needed for the next comparison. */
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

struct km_changes {
    struct km_read *r;
    kvsdiff_t *diff;
    struct kvsmiss miss; /* missing objects found in earlier slices */
    struct km_entries entries;
    bool missing;
};

void km_delta_drop(struct km_read *r)
{
    struct km_changes *l = r->changes;
    int saved = errno;

    if (!l)
        return;
    r->changes = NULL;
    kvsdiff_destroy(l->diff);
    km_entries_clear(&l->entries);
    free(l);
    errno = saved;
}

static int changes_create(struct km_read *r)
{
    const struct km_delta *d = r->delta;
    struct km_changes *l = calloc(1, sizeof(*l));

    if (!l || km_entries_init(&l->entries, r->ns->k->entries, TOO_LARGE) < 0) {
        free(l);
        return errmsg_fail(&r->err, ENOMEM, "out of memory for the changes of a directory");
    }
    l->r = r;
    r->changes = l;
    if (!(l->diff = kvsdiff_create(r->ns->content, d->sent ? d->was.digest : NULL, r->entry.digest,
                                   KVSDIFF_RECURSIVE)))
        return errmsg_fail(&r->err, ENOMEM, "out of memory for the changes of a directory");
    return 0;
}

static int put_data(struct km_changes *l, const struct treeobj_entry *e, uint8_t *p)
{
    struct km_read *r = l->r;

    if (!e->digest) {
        if (p && e->len)
            memcpy(p, e->data, e->len);
        return 0;
    }
    if (kvsvalue_read(r->ns->content, e, 0, e->len, p, km_load_miss(r->ns->k), &r->err) == 0)
        return 0;
    if (errno != EAGAIN)
        return -1;
    l->missing = true; /* go on, to collect all missing objects */
    return 0;
}

static int change_cb(const struct kvsdiff_item *it, void *arg)
{
    static const uint8_t kinds[] = {[KVSDIFF_ADDED] = KVS_CHANGE_ADDED,
                                    [KVSDIFF_CHANGED] = KVS_CHANGE_CHANGED,
                                    [KVSDIFF_REMOVED] = KVS_CHANGE_REMOVED};
    struct km_changes *l = arg;
    const struct treeobj_entry *e = it->now ? it->now : it->old;
    bool is_value = treeobj_is_value(e);
    bool has = it->now && (e->type == TREEOBJ_LINK || (l->r->q.flags & KVS_REQ_VALUES && is_value &&
                                                       e->len <= KVS_LOOKUP_MAX));
    struct kvs_answer_entry w = {.type = is_value ? TREEOBJ_VALUE : e->type,
                                 .change = kinds[it->change],
                                 .namelen = (uint16_t)it->keylen,
                                 .has_data = has,
                                 .size = e->type == TREEOBJ_DIR ? 0 : e->len};
    uint8_t *p = NULL;

    if (!l->missing &&
        !(p = km_entries_reserve(&l->entries, it->keylen, has ? e->len : 0, &l->r->err)))
        return -1;
    if (has && put_data(l, e, p) < 0)
        return -1;
    if (l->missing)
        return 0;
    km_entries_add(&l->entries, &w, it->key);
    return 0;
}

/* Compare for a slice of time.  Returns KVSDIFF_MORE, or as kvsdiff_run(). */
static int compare(struct km_changes *l)
{
    struct km_read *r = l->r;
    struct kvsmiss *miss = km_load_miss(r->ns->k);
    unsigned steps = r->q.flags & KVS_REQ_VALUES ? STRIDE_VALUES : STRIDE;
    struct flux_slice s;
    int rc = KVSDIFF_MORE;

    if (l->miss.n > 0)
        *miss = l->miss;
    flux_slice_begin(&s, flux_get_reactor(r->ns->h), KM_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (rc == KVSDIFF_MORE && flux_slice_more(&s))
        rc = kvsdiff_run(l->diff, steps, change_cb, l, miss, &r->err);
    if (rc == KVSDIFF_MORE && miss->n > 0)
        l->miss = *miss;
    return rc;
}

int km_delta_make_diff(struct km_read *r)
{
    struct kvs_answer a = {.type = TREEOBJ_DIR, .flags = KVS_ANSWER_DIFF, .version = r->version};
    struct km_changes *l;
    int rc;

    if (r->entry.type != TREEOBJ_DIR)
        return errmsg_fail(&r->err, EINVAL, "'%.*s' is not a directory: nothing changes below it",
                           r->q.keylen > 120 ? 120 : (int)r->q.keylen, r->q.key);
    if (!r->changes && km_answer_crowded(r->ns->k) && !r->turn) {
        errno = EINPROGRESS;
        return -1;
    }
    if (!r->changes && changes_create(r) < 0) {
        km_delta_drop(r);
        return -1;
    }
    l = r->changes;
    if (!r->delta->sent)
        a.flags |= KVS_ANSWER_WHOLE;
    rc = compare(l);
    if (rc == KVSDIFF_MORE) {
        errno = EINPROGRESS;
        return -1;
    }
    if (rc < 0) {
        km_delta_drop(r);
        return -1;
    }
    a.size = l->entries.count;
    r->answer = km_entries_take(&l->entries, &a, &r->len);
    km_delta_drop(r);
    return 0;
}
