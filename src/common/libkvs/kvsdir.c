/* kvsdir.c - directories under change.
 *
 * A node is a copy, in the arena, of a leaf or branch of the trie (treeobj.c) that is to be
 * changed.  A slot of a branch is clean (the digest of an object) or a node.  A read passes through
 * nodes, then through objects in place, and copies nothing; a write turns the objects on its path
 * into nodes.
 *
 * Invariants:
 *  1. Counts are exact at all times: a node's count is the number of entries below it, a slot's
 *     that of its child.
 *  2. A leaf above TREEOBJ_DEPTH_MAX splits as soon as it would exceed TREEOBJ_LEAF_MAX entries.  A
 *     branch that shrank to that number becomes a leaf in the flush, so that the encoded form
 *     depends on contents only.
 *  3. Entries in a leaf node are sorted by name.
 *  4. A node whose `digest` was set in the current epoch has the contents of that object, and so
 *     have all nodes below it.  A change, and opening a directory for a change, clears the digests
 *     on the path from the top.
 *  5. Entries point into objects of the tree under change (which the owner holds), into
 *     transactions (which the owner keeps) or into the arena; nothing is freed before the flush is
 *     over.
 *
 * Failure: a function that fails leaves the contents unchanged; some objects may have become nodes.
 * A flush that fails may have kept objects without references, which the owner reclaims.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvsdir.h"

struct slot {
    const uint8_t *digest; /* clean */
    struct node *node;     /* changed */
    uint32_t count;        /* 0: no child */
};

struct node {
    bool leaf;
    uint8_t depth;
    uint32_t count;
    uint32_t cap; /* leaf: room in ent */
    uint32_t epoch;
    const uint8_t *digest; /* of its object; NULL: it has changed since */
    union {
        struct kvsent *ent;
        struct slot *slot;
    };
};

struct kvsdir {
    struct node *top;
};

static struct node *new_leaf(struct kvsmaker *x, unsigned depth, uint32_t cap)
{
    struct node *n = arena_alloc(x->arena, sizeof(*n));
    if (!n || !(n->ent = arena_alloc(x->arena, cap * sizeof(*n->ent))))
        return NULL;
    n->leaf = true;
    n->depth = (uint8_t)depth;
    n->count = 0;
    n->cap = cap;
    n->digest = NULL;
    return n;
}

static struct node *new_branch(struct kvsmaker *x, unsigned depth)
{
    struct node *n = arena_alloc(x->arena, sizeof(*n));
    if (!n || !(n->slot = arena_alloc(x->arena, TREEOBJ_FAN * sizeof(*n->slot))))
        return NULL;
    memset(n->slot, 0, TREEOBJ_FAN * sizeof(*n->slot));
    n->leaf = false;
    n->depth = (uint8_t)depth;
    n->count = 0;
    n->digest = NULL;
    return n;
}

/* The object of a leaf or branch at this depth. */
static const void *fetch(struct kvsmaker *x, const uint8_t *digest, unsigned depth)
{
    struct content_obj *o = content_get(x->content, digest);
    if (!o || (treeobj_kind(o->data) != TREEOBJ_LEAF && treeobj_kind(o->data) != TREEOBJ_BRANCH) ||
        treeobj_depth(o->data) != depth) {
        errno = EIO;
        return NULL;
    }
    return o->data;
}

static struct node *load(struct kvsmaker *x, const uint8_t *digest, unsigned depth)
{
    const void *obj = fetch(x, digest, depth);
    if (!obj)
        return NULL;
    struct node *n;
    if (treeobj_kind(obj) == TREEOBJ_LEAF) {
        uint32_t count = treeobj_count(obj, x->dsize);
        if (!(n = new_leaf(x, depth, count + 4)))
            return NULL;
        for (uint32_t i = 0; i < count; i++) {
            treeobj_leaf_entry(obj, x->dsize, i, &n->ent[i].e);
            n->ent[i].dir = NULL;
        }
        n->count = count;
    } else {
        if (!(n = new_branch(x, depth)))
            return NULL;
        for (unsigned i = 0; i < TREEOBJ_FAN; i++) {
            struct slot *s = &n->slot[i];
            if (treeobj_branch_child(obj, x->dsize, i, &s->digest, &s->count))
                n->count += s->count;
        }
    }
    n->digest = digest;
    n->epoch = x->epoch;
    return n;
}

/* Turn the child in a used slot into a node, and return it. */
static struct node *child_node(struct kvsmaker *x, const struct node *n, struct slot *s)
{
    if (!s->node)
        s->node = load(x, s->digest, n->depth + 1u);
    return s->node;
}

struct kvsdir *kvsdir_open(struct kvsmaker *x, const uint8_t *digest)
{
    struct kvsdir *d = arena_alloc(x->arena, sizeof(*d));
    if (!d || !(d->top = digest ? load(x, digest, 0) : new_leaf(x, 0, 8)))
        return NULL;
    return d;
}

uint32_t kvsdir_count(const struct kvsdir *d)
{
    return d->top->count;
}

/* Position of a name in a leaf; true when it is there. */
static bool leaf_pos(const struct node *n, const char *name, size_t len, uint32_t *pos)
{
    uint32_t lo = 0, hi = n->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int r = treeobj_name_cmp(name, len, n->ent[mid].e.name, n->ent[mid].e.namelen);
        if (r == 0) {
            *pos = mid;
            return true;
        }
        if (r < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    *pos = lo;
    return false;
}

int kvsdir_get(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *out)
{
    uint64_t hash = treeobj_hash(name, len);
    const struct node *n = d->top;
    const uint8_t *digest = NULL;
    unsigned depth = 0;
    while (!n->leaf) {
        const struct slot *s = &n->slot[treeobj_slot(hash, n->depth)];
        if (s->count == 0)
            return 0;
        depth = n->depth + 1u;
        if (!s->node) {
            digest = s->digest;
            break;
        }
        n = s->node;
    }
    if (!digest) {
        uint32_t pos;
        if (!leaf_pos(n, name, len, &pos))
            return 0;
        *out = n->ent[pos];
        return 1;
    }
    for (;; depth++) {
        const void *obj = fetch(x, digest, depth);
        if (!obj)
            return -1;
        if (treeobj_kind(obj) == TREEOBJ_LEAF) {
            out->dir = NULL;
            return treeobj_leaf_find(obj, x->dsize, name, len, &out->e);
        }
        if (!treeobj_branch_child(obj, x->dsize, treeobj_slot(hash, depth), &digest, NULL))
            return 0;
    }
}

/* Turn a leaf that is full into a branch of leaves, in place. */
static int split(struct kvsmaker *x, struct node *n)
{
    struct node *b = new_branch(x, n->depth);
    if (!b)
        return -1;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct kvsent *ent = &n->ent[i];
        uint64_t hash = treeobj_hash(ent->e.name, ent->e.namelen);
        struct slot *s = &b->slot[treeobj_slot(hash, n->depth)];
        if (!s->node && !(s->node = new_leaf(x, n->depth + 1u, TREEOBJ_LEAF_MAX + 1)))
            return -1;
        s->node->ent[s->node->count++] = *ent;
        s->count++;
    }
    b->count = n->count;
    *n = *b; /* the digest of the new branch is not known */
    return 0;
}

static int leaf_insert(struct kvsmaker *x, struct node *n, uint32_t pos, const struct kvsent *ent)
{
    if (n->count == n->cap) {
        uint32_t cap = n->cap * 2;
        struct kvsent *fresh = arena_alloc(x->arena, cap * sizeof(*fresh));
        if (!fresh)
            return -1;
        memcpy(fresh, n->ent, n->count * sizeof(*fresh));
        n->ent = fresh;
        n->cap = cap;
    }
    memmove(&n->ent[pos + 1], &n->ent[pos], (n->count - pos) * sizeof(*n->ent));
    n->ent[pos] = *ent;
    n->count++;
    return 0;
}

static int node_set(struct kvsmaker *x, struct node *n, uint64_t hash, const struct kvsent *ent,
                    struct kvsent *old)
{
    n->digest = NULL;
    while (n->leaf) {
        uint32_t pos;
        if (leaf_pos(n, ent->e.name, ent->e.namelen, &pos)) {
            *old = n->ent[pos];
            n->ent[pos] = *ent;
            return 1;
        }
        if (n->count < TREEOBJ_LEAF_MAX || n->depth == TREEOBJ_DEPTH_MAX)
            return leaf_insert(x, n, pos, ent);
        if (split(x, n) < 0)
            return -1;
    }
    struct slot *s = &n->slot[treeobj_slot(hash, n->depth)];
    if (s->count == 0)
        s->node = new_leaf(x, n->depth + 1u, 4);
    struct node *child = child_node(x, n, s);
    if (!child)
        return -1;
    int rc = node_set(x, child, hash, ent, old);
    if (rc == 0) {
        s->count++;
        n->count++;
    }
    return rc;
}

int kvsdir_set(struct kvsmaker *x, struct kvsdir *d, const struct kvsent *ent, struct kvsent *old)
{
    return node_set(x, d->top, treeobj_hash(ent->e.name, ent->e.namelen), ent, old);
}

static int node_del(struct kvsmaker *x, struct node *n, uint64_t hash, const char *name, size_t len,
                    struct kvsent *old)
{
    n->digest = NULL;
    if (n->leaf) {
        uint32_t pos;
        if (!leaf_pos(n, name, len, &pos))
            return 0;
        *old = n->ent[pos];
        n->count--;
        memmove(&n->ent[pos], &n->ent[pos + 1], (n->count - pos) * sizeof(*n->ent));
        return 1;
    }
    struct slot *s = &n->slot[treeobj_slot(hash, n->depth)];
    if (s->count == 0)
        return 0;
    struct node *child = child_node(x, n, s);
    if (!child)
        return -1;
    int rc = node_del(x, child, hash, name, len, old);
    if (rc == 1) {
        s->count--;
        n->count--;
    }
    return rc;
}

int kvsdir_del(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *old)
{
    return node_del(x, d->top, treeobj_hash(name, len), name, len, old);
}

/* Find an entry that is about to be changed: turn the objects on the path into nodes and clear
 * their digests.  1 with *ent, 0, -1. */
static int open_entry(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
                      struct kvsent **ent)
{
    uint64_t hash = treeobj_hash(name, len);
    struct node *n = d->top;
    uint32_t pos;
    for (n->digest = NULL; !n->leaf; n->digest = NULL) {
        struct slot *s = &n->slot[treeobj_slot(hash, n->depth)];
        if (s->count == 0)
            return 0;
        if (!(n = child_node(x, n, s)))
            return -1;
    }
    if (!leaf_pos(n, name, len, &pos))
        return 0;
    *ent = &n->ent[pos];
    return 1;
}

int kvsdir_look(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
                struct kvsent *out)
{
    struct kvsent *ent;
    int rc = open_entry(x, d, name, len, &ent);
    if (rc == 1)
        *out = *ent;
    return rc;
}

struct kvsdir *kvsdir_sub(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len)
{
    struct kvsent *ent;
    int rc = open_entry(x, d, name, len, &ent);
    if (rc < 0)
        return NULL;
    if (rc == 0 || ent->e.type != TREEOBJ_DIR) {
        errno = ENOTDIR;
        return NULL;
    }
    if (!ent->dir)
        ent->dir = kvsdir_open(x, ent->e.digest);
    return ent->dir;
}

/* Give an entry the form that it has in its object; a directory stays under change. */
static int settle(struct kvsmaker *x, struct kvsent *ent)
{
    if (ent->e.type == TREEOBJ_DIR) {
        if (ent->dir && !(ent->e.digest = kvsdir_flush(x, ent->dir)))
            return -1;
        ent->e.data = NULL;
    } else if (treeobj_is_value(&ent->e)) {
        if (kvsvalue_settle(x, ent->tail, &ent->e) < 0)
            return -1;
        ent->tail = NULL;
    }
    return 0;
}

int kvsdir_settle(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
                  struct kvsent *out)
{
    struct kvsent *ent;
    int rc = kvsdir_get(x, d, name, len, out);
    if (rc <= 0)
        return rc;
    bool pending = treeobj_is_value(&out->e) &&
                   (out->tail || (out->e.type == TREEOBJ_VALUE && out->e.len > TREEOBJ_INLINE_MAX));
    if (!pending && !(out->e.type == TREEOBJ_DIR && out->dir))
        return 1;
    if ((rc = open_entry(x, d, name, len, &ent)) <= 0 || settle(x, ent) < 0)
        return -1;
    *out = *ent;
    return 1;
}

/* --- flush --- */

static struct content_obj *flush_leaf(struct kvsmaker *x, struct node *n)
{
    struct treeobj_entry *e = arena_alloc(x->arena, (n->count + 1) * sizeof(*e));
    if (!e)
        return NULL;
    for (uint32_t i = 0; i < n->count; i++) {
        if (settle(x, &n->ent[i]) < 0)
            return NULL;
        e[i] = n->ent[i].e;
    }
    /* Pause only after the nodes below it: so each call makes at least one object that stays. */
    if (x->more && !x->more(x->arg)) {
        errno = EAGAIN;
        return NULL;
    }
    size_t size = treeobj_leaf_size(e, n->count, x->dsize);
    if (kvsmaker_fit(x, size) < 0)
        return NULL;
    treeobj_leaf_encode(x->scratch, e, n->count, x->dsize, n->depth);
    return x->keep(x->arg, x->scratch, size);
}

/* Append all entries below `n` to leaf `to`, which has room. */
static int gather(struct kvsmaker *x, struct node *n, struct node *to)
{
    if (n->leaf) {
        for (uint32_t i = 0; i < n->count; i++) {
            uint32_t pos;
            leaf_pos(to, n->ent[i].e.name, n->ent[i].e.namelen, &pos);
            if (leaf_insert(x, to, pos, &n->ent[i]) < 0)
                return -1;
        }
        return 0;
    }
    for (unsigned i = 0; i < TREEOBJ_FAN; i++) {
        struct slot *s = &n->slot[i];
        if (s->count && (!child_node(x, n, s) || gather(x, s->node, to) < 0))
            return -1;
    }
    return 0;
}

static const uint8_t *flush_node(struct kvsmaker *x, struct node *n);

static struct content_obj *flush_branch(struct kvsmaker *x, struct node *n)
{
    struct treeobj_child child[TREEOBJ_FAN];
    for (unsigned i = 0; i < TREEOBJ_FAN; i++) {
        struct slot *s = &n->slot[i];
        if (s->count && s->node && !(s->digest = flush_node(x, s->node)))
            return NULL;
        child[i].count = s->count;
        child[i].digest = s->count ? s->digest : NULL;
    }
    size_t size = treeobj_branch_size(child, x->dsize);
    if (kvsmaker_fit(x, size) < 0)
        return NULL;
    treeobj_branch_encode(x->scratch, child, x->dsize, n->depth);
    return x->keep(x->arg, x->scratch, size);
}

static const uint8_t *flush_node(struct kvsmaker *x, struct node *n)
{
    if (n->digest && n->epoch == x->epoch)
        return n->digest;
    struct content_obj *o;
    if (n->leaf) {
        o = flush_leaf(x, n);
    } else if (n->count <= TREEOBJ_LEAF_MAX) {
        struct node *leaf = new_leaf(x, n->depth, TREEOBJ_LEAF_MAX);
        if (!leaf || gather(x, n, leaf) < 0)
            return NULL;
        *n = *leaf;
        o = flush_leaf(x, n);
    } else {
        o = flush_branch(x, n);
    }
    if (!o)
        return NULL;
    n->digest = o->digest;
    n->epoch = x->epoch;
    return n->digest;
}

const uint8_t *kvsdir_flush(struct kvsmaker *x, struct kvsdir *d)
{
    return flush_node(x, d->top);
}

void kvsdir_forget(struct kvsmaker *x)
{
    x->epoch++;
}
