/* km_answer.c - the responses to reads: a value or a part of it, a listing or a page of it, a tag.
 *
 *    response to        body
 *    a look-up          the value, at most 16 MiB; a link's target; nothing for a directory
 *    ... of a range     the bytes of the value within the range, at most 1 MiB
 *    a listing          all entries, together at most 128 MiB
 *    ... of a page      the requested number of entries after the cursor
 *
 * Format: kvs_wire.h.  `size` is the size of the whole value, or the number of entries of the whole
 * directory.
 *
 * Slices: a listing is made in slices (libflux/slice.h).  Each slice continues after the last entry
 * of the slice before.  A directory of one leaf is listed in the order of the names, and a slice
 * skips the entries that the response already contains.  A larger directory is listed in the order
 * of the pages (kvswalk.h).
 *
 * Invariants:
 *  1. A response is made from one root.  If objects are missing, the error is EAGAIN, and
 *     km_load_miss() has their digests.  The caller calls again when the objects have arrived, and
 *     a listing continues.
 *  2. While the memory of all unfinished listings exceeds BYTES_MAX, only a read whose turn it is
 *     (km_read.c) begins a listing.
 *
 * Failure: EFBIG for a value that is too long for one response, EMSGSIZE for a listing that is too
 * long; the error message says what to do instead.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_entries.h"
#include "km_private.h"
#include "libflux/slice.h"
#include "libkvs/kvsvalue.h"

#define BYTES_MAX (256u * 1024 * 1024)
#define STRIDE 16          /* entries and */
#define STRIDE_BYTES 65536 /* bytes between two readings of the clock */
#define SLICE_OVER 1
#define TOO_LARGE \
    "the directory with its values exceeds 128 MiB: list it in pages, or without values"

struct km_listing {
    struct km_read *r;
    struct km_entries entries;
    size_t lastlen; /* name of the last entry in the response */
    char last[KVS_NAME_MAX];
    /* of the slice in progress: */
    struct flux_slice slice;
    unsigned steps;
    size_t clocked; /* length at the last reading of the clock */
    uint32_t pass;  /* entries to be skipped: the response contains them */
    bool missing;   /* the rest of the slice only collects the missing objects */
};

static bool is_value(const struct treeobj_entry *e)
{
    return e->type != TREEOBJ_DIR && e->type != TREEOBJ_LINK;
}

/* Copy bytes of a value or of a link's target to p; NULL: only check that they are here. */
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
    return kvsvalue_read(r->ns->content, e, offset, len, p, km_load_miss(r->ns->k), &r->err);
}

/* --- listing --- */

bool km_answer_crowded(const struct km *k)
{
    return km_entries_sum_bytes(k->entries) > BYTES_MAX;
}

void km_answer_drop(struct km_read *r)
{
    struct km_listing *l = r->listing;
    if (!l)
        return;
    int saved = errno;
    r->listing = NULL;
    km_entries_clear(&l->entries);
    free(l);
    errno = saved;
}

static int listing_create(struct km_read *r)
{
    struct km_listing *l = calloc(1, sizeof(*l));
    if (!l || km_entries_init(&l->entries, r->ns->k->entries, TOO_LARGE) < 0) {
        free(l);
        return errmsg_fail(&r->err, ENOMEM, "out of memory for a directory listing");
    }
    l->r = r;
    r->listing = l;
    return 0;
}

static bool slice_more(struct km_listing *l)
{
    if (l->steps++ % STRIDE && l->entries.len - l->clocked < STRIDE_BYTES)
        return true;
    l->clocked = l->entries.len;
    return flux_slice_more(&l->slice);
}

static int list_entry_cb(const struct treeobj_entry *e, void *arg)
{
    struct km_listing *l = arg;
    struct km_read *r = l->r;
    if (l->pass > 0) {
        l->pass--;
        return 0;
    }
    if (!slice_more(l))
        return SLICE_OVER;
    uint64_t max = r->q.offset && r->q.offset < KVS_LOOKUP_MAX ? r->q.offset : KVS_LOOKUP_MAX;
    bool has =
        e->type == TREEOBJ_LINK || (r->q.flags & KVS_REQ_VALUES && is_value(e) && e->len <= max);
    size_t datalen = has ? e->len : 0;
    struct kvs_answer_entry w = {.type = is_value(e) ? TREEOBJ_VALUE : e->type,
                                 .namelen = e->namelen,
                                 .has_data = has,
                                 .size = e->type == TREEOBJ_DIR ? 0 : e->len};
    uint8_t *p = NULL;
    /* An object of the directory before this entry is missing. */
    l->missing |= km_load_miss(r->ns->k)->n > 0;
    if (!l->missing && !(p = km_entries_reserve(&l->entries, e->namelen, datalen, &r->err)))
        return -1;
    if (has && copy_value(r, e, 0, datalen, p) < 0) {
        if (errno != EAGAIN)
            return -1;
        l->missing = true; /* go on, to collect all missing objects */
    }
    if (l->missing)
        return 0;
    km_entries_add(&l->entries, &w, e->name);
    memcpy(l->last, e->name, e->namelen);
    l->lastlen = e->namelen;
    return 0;
}

/* The first object of the directory. */
static const void *dir_top(struct km_read *r)
{
    return kvswalk_node(r->ns->content, r->entry.digest, 0, km_load_miss(r->ns->k), &r->err);
}

/* Number of entries of the whole directory. */
static int dir_count(struct km_read *r, uint64_t *count)
{
    const void *n = dir_top(r);
    if (!n)
        return -1;
    *count = treeobj_count(n, blobref_size(r->ns->k->blobref));
    return 0;
}

static int walk(struct km_read *r, struct km_listing *l, bool *more)
{
    content_t *c = r->ns->content;
    struct kvsmiss *miss = km_load_miss(r->ns->k);
    bool page = r->q.flags & KVS_REQ_PAGE;
    const char *cursor = l->lastlen ? l->last : r->q.cursor;
    size_t cursorlen = l->lastlen ? l->lastlen : page ? r->q.cursorlen : 0;
    *more = false;
    if (page)
        return kvswalk_page(c, r->entry.digest, cursor, cursorlen, r->q.count - l->entries.count,
                            list_entry_cb, l, more, miss, &r->err);
    if (treeobj_kind(dir_top(r)) == TREEOBJ_LEAF) {
        l->pass = l->entries.count;
        return kvswalk_dir(c, r->entry.digest, list_entry_cb, l, miss, &r->err);
    }
    return kvswalk_page(c, r->entry.digest, cursor, cursorlen, UINT32_MAX, list_entry_cb, l, more,
                        miss, &r->err);
}

/* Make the next slice.  EINPROGRESS: there is more. */
static int make_listing(struct km_read *r)
{
    struct km *k = r->ns->k;
    struct kvs_answer a = {.type = TREEOBJ_DIR, .version = r->version};
    bool more;
    if (dir_count(r, &a.size) < 0)
        return -1;
    if (!r->listing && km_answer_crowded(k) && !r->turn) {
        errno = EINPROGRESS;
        return -1;
    }
    if (!r->listing && listing_create(r) < 0)
        return -1;
    struct km_listing *l = r->listing;
    flux_slice_begin(&l->slice, flux_get_reactor(k->h), KM_SLICE_SECONDS, FLUX_SLICE_THINGS);
    l->steps = 0;
    l->clocked = l->entries.len;
    l->pass = 0;
    l->missing = false;
    int rc = walk(r, l, &more);
    if (rc >= 0 && km_load_miss(k)->n > 0) {
        errno = EAGAIN;
        return -1;
    }
    if (rc == SLICE_OVER) {
        errno = EINPROGRESS;
        return -1;
    }
    if (rc < 0)
        return -1;
    a.flags = more ? KVS_ANSWER_MORE : 0;
    r->answer = km_entries_take(&l->entries, &a, &r->len);
    km_answer_drop(r);
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
