/* kvsdiff.c - two directories walked together.
 *
 * Two parts of a trie at the same place are compared: equal digests end it.  Two leaves are merged
 * by name.  A branch and a leaf (the directory grew or shrank past the size of a leaf) go on child
 * by child of the branch, each with those entries of the leaf that belong there; which ones is a
 * mask of 32 bits, since a leaf above the deepest level has no more.
 *
 * Invariants:
 *  1. Objects are only looked at where the digests differ; a branch met by a leaf has more entries
 *     than a leaf may have, so its entries are differences but for 32.
 *  2. Recursion ends: a trie has 17 levels, a key 64 names.
 *  3. The walk ends: after STEPS_MAX entries and nodes it fails.  A directory that was copied into
 *     itself sixty times has 2^60 keys below it, in sixty objects.
 *  4. Once an object is missing, here or for the callback, what is told does not count, and what is
 *     looked for are other missing objects: each pair of digests is visited once then.
 *
 * Failure: a missing object is noted, and the walk goes on as said; it then ends with EAGAIN.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "kvs_key.h"
#include "kvsdiff.h"
#include "libutil/hmap.h"

#define STEPS_MAX (8u * 1024 * 1024)

struct diff {
    content_t *c;
    size_t dsize;
    unsigned flags;
    kvsdiff_f cb;
    void *arg;
    struct kvsmiss *miss;
    errmsg_t *err;
    unsigned noted; /* in `miss` at the beginning */
    hmap_t *seen;   /* pairs of digests that were visited since something is missing */
    unsigned steps; /* nodes and entries that were looked at */
    unsigned names; /* in `path` */
    size_t len;     /* of `path`, with the dot at its end */
    char path[KVS_KEY_MAX + 1];
};

/* A part of a trie: an object, or entries of a leaf that stands higher up; or nothing. */
struct part {
    const uint8_t *digest;
    const void *obj;
    uint32_t n;
    uint32_t mask; /* of entries, unless n > 32: then all */
};

static struct part part_of(const uint8_t *digest)
{
    return (struct part){.digest = digest};
}

static int diff_parts(struct diff *d, struct part *a, struct part *b, int depth);

/* Have the object here.  0; 1: it is missing, and noted; -1. */
static int part_load(struct diff *d, struct part *p, int depth)
{
    if (!p->digest)
        return 0;
    p->obj = kvswalk_node(d->c, p->digest, depth, d->miss, d->err);
    if (!p->obj)
        return errno == EAGAIN ? 1 : -1;
    p->n = treeobj_count(p->obj, d->dsize);
    p->mask = UINT32_MAX;
    return 0;
}

static bool part_is_branch(const struct part *p)
{
    return p->obj && treeobj_kind(p->obj) == TREEOBJ_BRANCH;
}

/* What of it belongs to a child of the branch that stands in the same place, or should. */
static struct part part_child(struct diff *d, const struct part *p, unsigned slot, int depth)
{
    struct part c = {NULL, NULL, 0, 0};
    if (!p->obj)
        return c;
    if (part_is_branch(p)) {
        if (!treeobj_branch_child(p->obj, d->dsize, slot, &c.digest, NULL))
            c.digest = NULL;
        return c;
    }
    for (uint32_t i = 0; i < p->n && i < 32; i++) {
        struct treeobj_entry e;
        if (!(p->mask & 1u << i))
            continue;
        treeobj_leaf_entry(p->obj, d->dsize, i, &e);
        if (treeobj_slot(treeobj_hash(e.name, e.namelen), (unsigned)depth) == slot)
            c.mask |= 1u << i;
    }
    if (c.mask) {
        c.obj = p->obj;
        c.n = p->n;
    }
    return c;
}

/* The entry at or after *i: false when there is none. */
static bool part_entry(struct diff *d, const struct part *p, uint32_t *i, struct treeobj_entry *e)
{
    if (!p->obj)
        return false;
    while (*i < p->n && p->n <= 32 && !(p->mask & 1u << *i))
        ++*i;
    if (*i >= p->n)
        return false;
    treeobj_leaf_entry(p->obj, d->dsize, *i, e);
    return true;
}

static bool same_entry(const struct diff *d, const struct treeobj_entry *a,
                       const struct treeobj_entry *b)
{
    if (a->type != b->type || a->len != b->len)
        return false;
    return a->digest ? memcmp(a->digest, b->digest, d->dsize) == 0
                     : memcmp(a->data, b->data, a->len) == 0;
}

static const uint8_t *dir_of(const struct treeobj_entry *e)
{
    return e && e->type == TREEOBJ_DIR ? e->digest : NULL;
}

static int tell(struct diff *d, const struct treeobj_entry *old, const struct treeobj_entry *now)
{
    const struct treeobj_entry *e = now ? now : old;
    const uint8_t *od = dir_of(old), *nd = dir_of(now);
    bool deep = d->flags & KVSDIFF_RECURSIVE;
    if (d->names == KVS_DEPTH_MAX || d->len + e->namelen > KVS_KEY_MAX)
        return 0;
    if (++d->steps > STEPS_MAX)
        return errmsg_fail(d->err, EMSGSIZE,
                           "the directory has too many changes below it: watch a part of it");
    memcpy(d->path + d->len, e->name, e->namelen);
    if (!(deep && od && nd)) {
        struct kvsdiff_item item = {.change = !old   ? KVSDIFF_ADDED
                                              : !now ? KVSDIFF_REMOVED
                                                     : KVSDIFF_CHANGED,
                                    .key = d->path,
                                    .keylen = d->len + e->namelen,
                                    .old = old,
                                    .now = now};
        int rc = d->cb(&item, d->arg);
        if (rc)
            return rc;
    }
    if (!deep || (!od && !nd))
        return 0;
    size_t len = d->len;
    d->len += e->namelen;
    d->path[d->len++] = '.';
    d->names++;
    struct part a = part_of(od), b = part_of(nd);
    int rc = diff_parts(d, &a, &b, 0);
    d->names--;
    d->len = len;
    return rc;
}

static int diff_leaves(struct diff *d, const struct part *a, const struct part *b)
{
    uint32_t i = 0, k = 0;
    int rc = 0;
    while (rc == 0) {
        struct treeobj_entry x, y;
        bool hx = part_entry(d, a, &i, &x), hy = part_entry(d, b, &k, &y);
        if (!hx && !hy)
            break;
        int cmp = !hx ? 1 : !hy ? -1 : treeobj_name_cmp(x.name, x.namelen, y.name, y.namelen);
        i += cmp <= 0;
        k += cmp >= 0;
        if (cmp != 0 || !same_entry(d, &x, &y))
            rc = tell(d, cmp <= 0 ? &x : NULL, cmp >= 0 ? &y : NULL);
    }
    return rc;
}

/* Something is missing: was this pair visited since?  Parts of leaves have no digest, and are as
 * few as the entries of the leaf. */
static int visited(struct diff *d, const struct part *a, const struct part *b)
{
    uint8_t pair[2 * BLOBREF_DIGEST_MAX] = {0};
    if ((!a->digest && a->obj) || (!b->digest && b->obj))
        return 0;
    if (a->digest)
        memcpy(pair, a->digest, d->dsize);
    if (b->digest)
        memcpy(pair + BLOBREF_DIGEST_MAX, b->digest, d->dsize);
    if (!d->seen && !(d->seen = hmap_create_bin(sizeof(pair), NULL)))
        return errmsg_fail(d->err, ENOMEM, "out of memory for the changes of a directory");
    if (hmap_get(d->seen, pair))
        return 1;
    if (hmap_put(d->seen, pair, d) < 0)
        return errmsg_fail(d->err, ENOMEM, "out of memory for the changes of a directory");
    return 0;
}

static int diff_parts(struct diff *d, struct part *a, struct part *b, int depth)
{
    if (a->digest && b->digest && memcmp(a->digest, b->digest, d->dsize) == 0)
        return 0;
    if (++d->steps > STEPS_MAX)
        return errmsg_fail(d->err, EMSGSIZE,
                           "the directory has too many changes below it: watch a part of it");
    if (d->miss->n == KVSMISS_MAX)
        return 0;
    if (d->miss->n > d->noted) {
        int rc = visited(d, a, b);
        if (rc)
            return rc < 0 ? -1 : 0;
    }
    int la = part_load(d, a, depth), lb = la < 0 ? -1 : part_load(d, b, depth);
    if (la < 0 || lb < 0)
        return -1;
    if (la || lb)
        return 0;
    if (!part_is_branch(a) && !part_is_branch(b))
        return diff_leaves(d, a, b);
    for (unsigned slot = 0; slot < TREEOBJ_FAN && d->miss->n < KVSMISS_MAX; slot++) {
        struct part x = part_child(d, a, slot, depth), y = part_child(d, b, slot, depth);
        int rc = x.digest || x.obj || y.digest || y.obj ? diff_parts(d, &x, &y, depth + 1) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

int kvsdiff(content_t *c, const uint8_t *old, const uint8_t *now, unsigned flags, kvsdiff_f cb,
            void *arg, struct kvsmiss *miss, errmsg_t *err)
{
    struct diff d;
    d.c = c;
    d.dsize = blobref_size(content_blobref(c));
    d.flags = flags;
    d.cb = cb;
    d.arg = arg;
    d.miss = miss;
    d.err = err;
    d.noted = miss->n;
    d.seen = NULL;
    d.steps = 0;
    d.names = 0;
    d.len = 0;
    struct part a = part_of(old), b = part_of(now);
    int rc = diff_parts(&d, &a, &b, 0);
    hmap_destroy(d.seen);
    if (rc == 0 && miss->n > d.noted) {
        errno = EAGAIN;
        return -1;
    }
    return rc;
}
