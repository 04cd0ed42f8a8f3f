/* kvsdiff.c - the differences between two versions of a directory.
 *
 * Both tries are walked together.  Parts at the same place with equal digests are equal.  Two
 * leaves are merged by name.  If one part is a branch and the other a leaf (the directory grew or
 * shrank past the size of a leaf), each child of the branch is compared with the entries of the
 * leaf that belong there, a mask of 32 bits, since a leaf above the deepest level has at most 32
 * entries.
 *
 * The walk can be interrupted after each step, so its state is a stack of pairs of parts instead of
 * the stack of the program.  The objects of these pairs are held.
 *
 * Invariants:
 *  1. Objects are loaded only where digests differ.  A branch that is compared with a leaf has more
 *     entries than a leaf may have, so all of its entries but 32 are differences.
 *  2. The stack is bounded: a trie has 17 levels, a key 64 names.
 *  3. The walk ends: after STEPS_MAX entries and nodes it fails.  A directory that was copied into
 *     itself sixty times has 2^60 keys below it, in sixty objects.  A pair of digests that is met
 *     again is visited again, since the keys below it are others than before, and are reported.
 *  4. Once an object is missing, here or for the callback, the differences found so far are
 *     discarded: the walk continues only to find other missing objects, and visits each pair of
 *     digests once.
 *
 * Failure: a missing object is noted; the walk continues until KVSMISS_MAX objects are noted, and
 * ends with EAGAIN.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_key.h"
#include "kvsdiff.h"
#include "libutil/hmap.h"

#define STEPS_MAX (8u * 1024 * 1024)

/* A part of a trie: an object, some entries of a leaf at a higher level, or nothing. */
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

/* Two parts that are being compared. */
struct pair {
    struct part a, b;
    struct content_obj *held[2]; /* NULL: a part of a leaf that is held, or nothing */
    int depth;
    bool leaves;   /* both are leaves; else one of them is a branch */
    uint32_t i, k; /* the next entries of both leaves; or i: the next slot of a branch */
    unsigned names;
    size_t len; /* length of the path when this pair is complete */
};

struct kvsdiff {
    content_t *c;
    size_t dsize;
    unsigned flags;
    bool started;
    uint8_t old[BLOBREF_DIGEST_MAX], now[BLOBREF_DIGEST_MAX];
    bool has_old, has_now;
    unsigned noted; /* number of missing objects in `miss` at the beginning */
    hmap_t *seen;   /* pairs of digests that were visited since an object was found missing */
    unsigned steps; /* nodes and entries that were examined */
    struct pair *stack;
    unsigned n, cap;
    unsigned names; /* in `path` */
    size_t len;     /* of `path`, with the dot at its end */
    char path[KVS_KEY_MAX + 1];
    /* of the current run: */
    kvsdiff_f cb;
    void *arg;
    struct kvsmiss *miss;
    errmsg_t *err;
};

/* Load the object, and hold it.  0; 1: it is missing, and was added to `miss`; -1. */
static int part_load(struct kvsdiff *d, struct part *p, int depth, struct content_obj **held)
{
    if (!p->digest)
        return 0;
    p->obj = kvswalk_node(d->c, p->digest, depth, d->miss, d->err);
    if (!p->obj)
        return errno == EAGAIN ? 1 : -1;
    if ((*held = content_get(d->c, p->digest)))
        content_hold(d->c, *held);
    p->n = treeobj_count(p->obj, d->dsize);
    p->mask = UINT32_MAX;
    return 0;
}

static bool part_is_branch(const struct part *p)
{
    return p->obj && treeobj_kind(p->obj) == TREEOBJ_BRANCH;
}

/* The part of `p` that belongs into child `slot` of a branch at its place. */
static struct part part_child(struct kvsdiff *d, const struct part *p, unsigned slot, int depth)
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
static bool part_entry(struct kvsdiff *d, const struct part *p, uint32_t *i,
                       struct treeobj_entry *e)
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

static bool same_entry(const struct kvsdiff *d, const struct treeobj_entry *a,
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

static int push(struct kvsdiff *d, struct part a, struct part b, int depth, unsigned names,
                size_t len);

static int tell(struct kvsdiff *d, const struct treeobj_entry *old, const struct treeobj_entry *now)
{
    const struct treeobj_entry *e = now ? now : old;
    const uint8_t *od = dir_of(old), *nd = dir_of(now);
    bool deep = d->flags & KVSDIFF_RECURSIVE;
    if (d->names == KVS_DEPTH_MAX || d->len + e->namelen > KVS_KEY_MAX)
        return 0;
    if (++d->steps > STEPS_MAX)
        return errmsg_fail(d->err, EMSGSIZE,
                           "there are too many changes below the directory: watch a part of it");
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
    return push(d, part_of(od), part_of(nd), 0, d->names - 1, len);
}

/* Has this pair been visited since an object was found missing?  Parts of leaves have no digest,
 * and their number is at most that of the entries of the leaf. */
static int visited(struct kvsdiff *d, const struct part *a, const struct part *b)
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

static void let_go(struct kvsdiff *d, struct pair *p)
{
    for (int i = 0; i < 2; i++)
        if (p->held[i])
            content_release(d->c, p->held[i]);
}

static void pop(struct kvsdiff *d)
{
    struct pair *p = &d->stack[--d->n];
    let_go(d, p);
    d->names = p->names;
    d->len = p->len;
}

static int make_room(struct kvsdiff *d)
{
    if (d->n < d->cap)
        return 0;
    unsigned cap = d->cap ? 2 * d->cap : 16;
    struct pair *p = realloc(d->stack, cap * sizeof(*p));
    if (!p)
        return errmsg_fail(d->err, ENOMEM, "out of memory for the changes of a directory");
    d->stack = p;
    d->cap = cap;
    return 0;
}

/* Load both parts.  1: compare the pair; 0: it is equal, or cannot be compared; -1. */
static int load(struct kvsdiff *d, struct pair *p)
{
    struct part *a = &p->a, *b = &p->b;
    if (a->digest && b->digest && memcmp(a->digest, b->digest, d->dsize) == 0)
        return 0;
    if (++d->steps > STEPS_MAX)
        return errmsg_fail(d->err, EMSGSIZE,
                           "there are too many changes below the directory: watch a part of it");
    if (d->miss->n == KVSMISS_MAX)
        return 0;
    if (d->miss->n > d->noted) {
        int rc = visited(d, a, b);
        if (rc)
            return rc < 0 ? -1 : 0;
    }
    int la = part_load(d, a, p->depth, &p->held[0]);
    int lb = la < 0 ? -1 : part_load(d, b, p->depth, &p->held[1]);
    if (la < 0 || lb < 0)
        return -1;
    p->leaves = !part_is_branch(a) && !part_is_branch(b);
    return !la && !lb;
}

/* Push two parts, which are compared next; then the path is cut to its former length. */
static int push(struct kvsdiff *d, struct part a, struct part b, int depth, unsigned names,
                size_t len)
{
    struct pair p = {.a = a, .b = b, .depth = depth, .names = names, .len = len};
    int rc = make_room(d) < 0 ? -1 : load(d, &p);
    if (rc == 1) {
        d->stack[d->n++] = p;
        return 0;
    }
    let_go(d, &p);
    d->names = names;
    d->len = len;
    return rc;
}

/* The next entry of two leaves. */
static int step_leaves(struct kvsdiff *d, struct pair *p)
{
    struct treeobj_entry x, y;
    bool hx = part_entry(d, &p->a, &p->i, &x), hy = part_entry(d, &p->b, &p->k, &y);
    if (!hx && !hy) {
        pop(d);
        return 0;
    }
    int cmp = !hx ? 1 : !hy ? -1 : treeobj_name_cmp(x.name, x.namelen, y.name, y.namelen);
    p->i += cmp <= 0;
    p->k += cmp >= 0;
    if (cmp == 0 && same_entry(d, &x, &y))
        return 0;
    return tell(d, cmp <= 0 ? &x : NULL, cmp >= 0 ? &y : NULL);
}

/* The next child of a branch. */
static int step_branch(struct kvsdiff *d, struct pair *p)
{
    if (p->i == TREEOBJ_FAN || d->miss->n == KVSMISS_MAX) {
        pop(d);
        return 0;
    }
    unsigned slot = p->i++;
    struct part x = part_child(d, &p->a, slot, p->depth), y = part_child(d, &p->b, slot, p->depth);
    if (!x.digest && !x.obj && !y.digest && !y.obj)
        return 0;
    return push(d, x, y, p->depth + 1, d->names, d->len);
}

int kvsdiff_run(kvsdiff_t *d, unsigned steps, kvsdiff_f cb, void *arg, struct kvsmiss *miss,
                errmsg_t *err)
{
    int rc = 0;
    d->cb = cb;
    d->arg = arg;
    d->miss = miss;
    d->err = err;
    if (!d->started) {
        d->started = true;
        d->noted = miss->n;
        rc = push(d, part_of(d->has_old ? d->old : NULL), part_of(d->has_now ? d->now : NULL), 0, 0,
                  0);
    }
    for (; rc == 0 && d->n > 0 && steps > 0; steps--) {
        struct pair *p = &d->stack[d->n - 1];
        rc = p->leaves ? step_leaves(d, p) : step_branch(d, p);
    }
    if (rc)
        return rc;
    if (d->n > 0)
        return KVSDIFF_MORE;
    if (miss->n > d->noted) {
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

kvsdiff_t *kvsdiff_create(content_t *c, const uint8_t *old, const uint8_t *now, unsigned flags)
{
    kvsdiff_t *d = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    d->c = c;
    d->dsize = blobref_size(content_blobref(c));
    d->flags = flags;
    if ((d->has_old = old != NULL))
        memcpy(d->old, old, d->dsize);
    if ((d->has_now = now != NULL))
        memcpy(d->now, now, d->dsize);
    return d;
}

void kvsdiff_destroy(kvsdiff_t *d)
{
    if (!d)
        return;
    int saved = errno;
    while (d->n > 0)
        pop(d);
    hmap_destroy(d->seen);
    free(d->stack);
    free(d);
    errno = saved;
}
