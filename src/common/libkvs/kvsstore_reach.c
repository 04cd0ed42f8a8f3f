/* kvsstore_reach.c - the depth of a directory.
 *
 * copy and move place a directory of any size by its digest.  Whether a key below it would exceed
 * the limits of keys is decided without a walk, by two numbers of each kept object:
 *
 *    object          low_names                         low_bytes
 *    leaf            names of the longest key below    bytes of the longest key below
 *    branch          the largest of its children       the largest of its children
 *    blob, index     0                                 0
 *
 * They are computed when an object is made, from those of its children, which exist already.
 * Objects are loaded from disk in any order; their numbers are computed when all are loaded,
 * children first, with a stack in memory, and in slices of time
 * (kvsstore_pace()).
 *
 * Invariants:
 *  1. Except while loading, the numbers of a kept object are exact up to 254 and 65535; a tree made
 *     by an earlier version, or by hand, may be deeper.  A missing child counts as empty.
 *  2. Nothing here recurses: a tree on disk may have any depth.
 *
 * Failure: loading fails with ENOMEM when the stack cannot grow.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "kvs_key.h"
#include "kvsstore_private.h"

#define NAMES_MAX 254
#define NAMES_UNKNOWN 255
#define BYTES_MAX UINT16_MAX

struct low {
    unsigned names, bytes;
};

static void low_add(struct low *l, unsigned names, unsigned bytes)
{
    if (names > l->names)
        l->names = names < NAMES_MAX ? names : NAMES_MAX;
    if (bytes > l->bytes)
        l->bytes = bytes < BYTES_MAX ? bytes : BYTES_MAX;
}

/* Call back for each child that is a part of a directory, until the callback returns false; `e` is
 * the entry in a leaf, NULL in a branch. */
typedef bool child_f(void *arg, struct content_obj *o, const struct treeobj_entry *e);

static bool each_child(kvsstore_t *s, const void *data, struct low *low, child_f *cb, void *arg)
{
    size_t dsize = s->make.dsize;
    const uint8_t *digest;
    if (treeobj_kind(data) == TREEOBJ_LEAF) {
        uint32_t n = treeobj_count(data, dsize);
        for (uint32_t i = 0; i < n; i++) {
            struct treeobj_entry e;
            treeobj_leaf_entry(data, dsize, i, &e);
            low_add(low, 1, e.namelen);
            if (e.type == TREEOBJ_DIR && !cb(arg, content_find(s->content, e.digest), &e))
                return false;
        }
    } else if (treeobj_kind(data) == TREEOBJ_BRANCH) {
        for (unsigned slot = 0; slot < TREEOBJ_FAN; slot++) {
            if (treeobj_branch_child(data, dsize, slot, &digest, NULL) &&
                !cb(arg, content_find(s->content, digest), NULL))
                return false;
        }
    }
    return true;
}

static bool add_child(void *arg, struct content_obj *o, const struct treeobj_entry *e)
{
    struct low *l = arg;
    if (!o)
        return true; /* it is missing, or an object of a damaged store */
    unsigned names = o->low_names == NAMES_UNKNOWN ? 0 : o->low_names;
    if (!e)
        low_add(l, names, o->low_bytes);
    else if (names > 0)
        low_add(l, 1 + names, e->namelen + 1u + o->low_bytes);
    return true;
}

void kvsstore_reach_made(kvsstore_t *s, struct content_obj *o)
{
    struct low l = {0, 0};
    (void)each_child(s, o->data, &l, add_child, &l);
    o->low_names = (uint8_t)l.names;
    o->low_bytes = (uint16_t)l.bytes;
}

void kvsstore_reach_unknown(struct content_obj *o)
{
    bool part = o->data &&
                (treeobj_kind(o->data) == TREEOBJ_LEAF || treeobj_kind(o->data) == TREEOBJ_BRANCH);
    o->low_names = part ? NAMES_UNKNOWN : 0;
    o->low_bytes = 0;
}

/* The computation of the depth of all objects, in progress. */
struct kvsstore_reach {
    struct content_obj *at; /* the next on the zero list */
    struct content_obj **obj;
    size_t n, cap;
    bool grew, failed;
};

static bool push(struct kvsstore_reach *x, struct content_obj *o)
{
    if (x->n == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 64;
        struct content_obj **p = reallocarray(x->obj, cap, sizeof(*p));
        if (!p) {
            x->failed = true;
            return false;
        }
        x->obj = p;
        x->cap = cap;
    }
    x->obj[x->n++] = o;
    return true;
}

static bool push_unknown(void *arg, struct content_obj *o, const struct treeobj_entry *e)
{
    struct kvsstore_reach *x = arg;
    (void)e;
    if (!o || !o->data || o->low_names != NAMES_UNKNOWN)
        return true;
    x->grew = true;
    return push(x, o);
}

/* Continue with the object on top of the stack. */
static void reach_top(kvsstore_t *s, struct kvsstore_reach *x)
{
    struct content_obj *top = x->obj[x->n - 1];
    struct low unused = {0, 0};
    x->grew = false;
    /* An object may be on the stack twice; the second time its depth is known. */
    if (top->low_names == NAMES_UNKNOWN)
        (void)each_child(s, top->data, &unused, push_unknown, x);
    if (x->grew || x->failed)
        return;
    if (top->low_names == NAMES_UNKNOWN)
        kvsstore_reach_made(s, top);
    x->n--;
}

int kvsstore_reach_load(kvsstore_t *s)
{
    struct kvsstore_reach *x = s->load.reach;
    if (!x) {
        if (!(x = s->load.reach = calloc(1, sizeof(*x))))
            return -1;
        x->at = s->zero;
    }
    while (!x->failed && (x->n > 0 || x->at)) {
        if (!kvsstore_step(s))
            return KVSSTORE_MORE;
        if (x->n > 0) {
            reach_top(s, x);
            continue;
        }
        if (x->at->low_names == NAMES_UNKNOWN)
            (void)push(x, x->at);
        x->at = x->at->zero_next;
    }
    int rc = x->failed ? -1 : 0;
    kvsstore_reach_end(s);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}

void kvsstore_reach_end(kvsstore_t *s)
{
    if (s->load.reach)
        free(s->load.reach->obj);
    free(s->load.reach);
    s->load.reach = NULL;
}

void kvsstore_allow_long_keys(kvsstore_t *s, bool allow)
{
    s->long_keys = allow;
}

int kvsstore_reach_check(kvsstore_t *s, const struct treeobj_entry *e, size_t names, size_t bytes,
                         const char *key, size_t keylen, errmsg_t *err)
{
    const struct content_obj *o =
        e->type == TREEOBJ_DIR ? content_find(s->content, e->digest) : NULL;
    int shown = keylen > 120 ? 120 : (int)keylen;
    if (!o || o->low_names == 0 || s->long_keys)
        return 0;
    if (names + o->low_names > KVS_DEPTH_MAX)
        return errmsg_fail(err, ENAMETOOLONG,
                           "'%.*s': keys below it would have %zu names; the limit is %d", shown,
                           key, names + o->low_names, KVS_DEPTH_MAX);
    if (bytes + 1 + o->low_bytes > KVS_KEY_MAX)
        return errmsg_fail(err, ENAMETOOLONG,
                           "'%.*s': keys below it would have %zu bytes; the limit is %d", shown,
                           key, bytes + 1 + o->low_bytes, KVS_KEY_MAX);
    return 0;
}
