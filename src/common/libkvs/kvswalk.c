/* kvswalk.c - reading the tree.
 *
 * Invariants:
 *  1. Nothing is copied or changed: the returned entries point into objects.
 *  2. No unbounded work: a key has a bounded number of names, a trie a bounded depth, and links are
 *     followed 16 times.
 *  3. An object must be of the kind that is expected at its place; otherwise the walk fails with
 *     EIO, so that a damaged or forged tree cannot mislead a reader or make it loop.
 *
 * Failure: a missing object is EAGAIN with its digest noted, every other error has an error
 * message.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "kvs_key.h"
#include "kvswalk.h"

#define LINKS_MAX 16

struct content_obj *kvsmiss_get(content_t *c, const uint8_t *digest, struct kvsmiss *miss)
{
    struct content_obj *o = content_get(c, digest);
    if (!o) {
        if (miss && miss->n < KVSMISS_MAX)
            memcpy(miss->digest[miss->n++], digest, blobref_size(content_blobref(c)));
        errno = EAGAIN;
    }
    return o;
}

const void *kvswalk_node(content_t *c, const uint8_t *digest, int depth, struct kvsmiss *miss,
                         errmsg_t *err)
{
    struct content_obj *o = kvsmiss_get(c, digest, miss);
    if (!o)
        return NULL;
    if ((treeobj_kind(o->data) != TREEOBJ_LEAF && treeobj_kind(o->data) != TREEOBJ_BRANCH) ||
        (depth >= 0 && treeobj_depth(o->data) != (unsigned)depth)) {
        errmsg_fail(err, EIO, "an object of the store is not the expected directory");
        return NULL;
    }
    return o->data;
}

int kvswalk_entry(content_t *c, const uint8_t *dir, const char *name, size_t len,
                  struct treeobj_entry *e, struct kvsmiss *miss, errmsg_t *err)
{
    size_t dsize = blobref_size(content_blobref(c));
    uint64_t hash = 0;
    for (int depth = 0;; depth++) {
        const void *obj = kvswalk_node(c, dir, depth, miss, err);
        if (!obj)
            return -1;
        if (treeobj_kind(obj) == TREEOBJ_LEAF)
            return treeobj_leaf_find(obj, dsize, name, len, e);
        if (depth == 0)
            hash = treeobj_hash(name, len);
        if (!treeobj_branch_child(obj, dsize, treeobj_slot(hash, (unsigned)depth), &dir, NULL))
            return 0;
    }
}

static int fail_key(errmsg_t *err, int errnum, const char *key, size_t keylen, const char *what)
{
    return errmsg_fail(err, errnum, "'%.*s': %s", keylen > 120 ? 120 : (int)keylen, key, what);
}

int kvswalk_find(content_t *c, const uint8_t *root, const char *key, size_t keylen, unsigned flags,
                 struct treeobj_entry *e, struct kvswalk_links *links, struct kvsmiss *miss,
                 errmsg_t *err)
{
    char path[2][KVS_KEY_MAX]; /* the key to which a link leads; built in turn in either */
    const char *k = key;
    size_t left = keylen;
    unsigned followed = 0;
    const uint8_t *dir = root;
    if (kvs_key_is_root(key, keylen)) {
        *e = (struct treeobj_entry){.name = "", .type = TREEOBJ_DIR, .digest = root};
        return 0;
    }
    for (;;) {
        const char *rest;
        size_t restlen;
        size_t n = kvs_key_name(k, left, &rest, &restlen);
        int rc = kvswalk_entry(c, dir, k, n, e, miss, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            return fail_key(err, ENOENT, key, keylen, "no such key");
        if (e->type == TREEOBJ_LINK && (rest || !(flags & KVSWALK_NOFOLLOW))) {
            size_t len = e->len + (rest ? 1 + restlen : 0);
            if (++followed > LINKS_MAX)
                return fail_key(err, ELOOP, key, keylen, "too many symbolic links on the path");
            if (len > KVS_KEY_MAX)
                return fail_key(err, ENAMETOOLONG, key, keylen,
                                "symbolic links lead to a key that is too long");
            char *to = path[followed & 1];
            memcpy(to, e->data, e->len);
            if (rest) {
                to[e->len] = '.';
                memcpy(to + e->len + 1, rest, restlen);
            }
            k = to;
            left = len;
            dir = root;
            if (links)
                links->followed(links, to, len);
            continue;
        }
        if (!rest)
            return 0;
        if (e->type != TREEOBJ_DIR)
            return fail_key(err, ENOTDIR, key, keylen,
                            "a name on the path is a value, not a directory");
        dir = e->digest;
        k = rest;
        left = restlen;
    }
}

struct dirwalk {
    content_t *c;
    size_t dsize;
    kvswalk_f cb;
    void *arg;
    struct kvsmiss *miss;
    errmsg_t *err;
    bool missing;
};

static int walk(struct dirwalk *w, const uint8_t *digest, int depth)
{
    const void *obj = kvswalk_node(w->c, digest, depth, w->miss, w->err);
    if (!obj) {
        if (errno != EAGAIN)
            return -1;
        w->missing = true;
        return 0;
    }
    if (treeobj_kind(obj) == TREEOBJ_LEAF) {
        uint32_t n = treeobj_count(obj, w->dsize);
        for (uint32_t i = 0; i < n; i++) {
            struct treeobj_entry e;
            treeobj_leaf_entry(obj, w->dsize, i, &e);
            int rc = w->cb(&e, w->arg);
            if (rc)
                return rc;
        }
        return 0;
    }
    for (unsigned i = 0; i < TREEOBJ_FAN && w->miss->n < KVSMISS_MAX; i++) {
        const uint8_t *child;
        if (!treeobj_branch_child(obj, w->dsize, i, &child, NULL))
            continue;
        int rc = walk(w, child, depth + 1);
        if (rc)
            return rc;
    }
    return 0;
}

int kvswalk_dir(content_t *c, const uint8_t *dir, kvswalk_f cb, void *arg, struct kvsmiss *miss,
                errmsg_t *err)
{
    struct dirwalk w = {c, blobref_size(content_blobref(c)), cb, arg, miss, err, false};
    int rc = walk(&w, dir, 0);
    if (rc == 0 && w.missing) {
        errno = EAGAIN;
        return -1;
    }
    return rc;
}

/* --- pages --- */

struct pagewalk {
    content_t *c;
    size_t dsize;
    const char *cursor; /* NULL: none */
    size_t cursorlen;
    uint64_t hash; /* of the cursor */
    uint32_t left; /* entries that are still to be reported, or to be searched */
    bool more;
    bool missing;
    kvswalk_f cb;
    void *arg;
    struct kvsmiss *miss;
    errmsg_t *err;
};

/* Entries of a leaf in the order of (hash, name).  In the leaf they have the order of names; a leaf
 * of more than TREEOBJ_LEAF_MAX entries is at the deepest level, where all names have the same
 * hash. */
struct pageorder {
    uint64_t hash[TREEOBJ_LEAF_MAX];
    uint8_t at[TREEOBJ_LEAF_MAX];
    bool sorted;
};

static void page_order(struct pageorder *o, const void *leaf, size_t dsize, uint32_t n)
{
    o->sorted = n > TREEOBJ_LEAF_MAX;
    for (uint32_t i = 0; i < n && !o->sorted; i++) {
        struct treeobj_entry e;
        treeobj_leaf_entry(leaf, dsize, i, &e);
        uint64_t hash = treeobj_hash(e.name, e.namelen);
        uint32_t k = i;
        for (; k > 0 && o->hash[k - 1] > hash; k--) {
            o->hash[k] = o->hash[k - 1];
            o->at[k] = o->at[k - 1];
        }
        o->hash[k] = hash;
        o->at[k] = (uint8_t)i;
    }
}

static int page_leaf(struct pagewalk *w, const void *leaf, bool bounded)
{
    struct pageorder order;
    uint32_t n = treeobj_count(leaf, w->dsize);
    page_order(&order, leaf, w->dsize, n);
    for (uint32_t i = 0; i < n; i++) {
        struct treeobj_entry e;
        treeobj_leaf_entry(leaf, w->dsize, order.sorted ? i : order.at[i], &e);
        uint64_t hash = order.sorted ? w->hash : order.hash[i];
        if (bounded &&
            (hash < w->hash || (hash == w->hash &&
                                treeobj_name_cmp(e.name, e.namelen, w->cursor, w->cursorlen) <= 0)))
            continue;
        if (w->left == 0) {
            w->more = true;
            return 0;
        }
        w->left--;
        int rc = w->cb(&e, w->arg);
        if (rc)
            return rc;
    }
    return 0;
}

/* `count`: number of entries below; `bounded`: the place of the cursor is in this part of the
 * trie. */
static int page_node(struct pagewalk *w, const uint8_t *digest, int depth, uint32_t count,
                     bool bounded)
{
    if (w->left == 0 && !bounded) {
        w->more = true;
        return 0;
    }
    const void *obj = kvswalk_node(w->c, digest, depth, w->miss, w->err);
    if (!obj) {
        if (errno != EAGAIN)
            return -1;
        w->missing = true;
        /* The number of these entries that come after the cursor is not known: the rest is left for
         * the next attempt. */
        w->left = bounded || count > w->left ? 0 : w->left - count;
        return 0;
    }
    if (treeobj_kind(obj) == TREEOBJ_LEAF)
        return page_leaf(w, obj, bounded);
    unsigned first = bounded ? treeobj_slot(w->hash, (unsigned)depth) : 0;
    for (unsigned i = first; i < TREEOBJ_FAN && !w->more && w->miss->n < KVSMISS_MAX; i++) {
        const uint8_t *child;
        if (!treeobj_branch_child(obj, w->dsize, i, &child, &count))
            continue;
        int rc = page_node(w, child, depth + 1, count, bounded && i == first);
        if (rc)
            return rc;
    }
    return 0;
}

int kvswalk_page(content_t *c, const uint8_t *dir, const char *cursor, size_t cursorlen,
                 uint32_t count, kvswalk_f cb, void *arg, bool *more, struct kvsmiss *miss,
                 errmsg_t *err)
{
    struct pagewalk w = {.c = c,
                         .dsize = blobref_size(content_blobref(c)),
                         .cursor = cursor,
                         .cursorlen = cursorlen,
                         .hash = cursorlen ? treeobj_hash(cursor, cursorlen) : 0,
                         .left = count,
                         .cb = cb,
                         .arg = arg,
                         .miss = miss,
                         .err = err};
    int rc = page_node(&w, dir, 0, UINT32_MAX, cursorlen > 0);
    *more = w.more;
    if (rc == 0 && w.missing) {
        errno = EAGAIN;
        return -1;
    }
    return rc;
}
