/* km_watchkey.c - the tree of watched keys.
 *
 * Purpose: each node (a watch key) is one name of a watched key.  The children of a watch key are
 * sorted by the hash of their names, which is the order of the store's tries, so that the two can
 * be walked together (km_watch.c).
 *
 * Invariants:
 *  1. A watch key without watchers and children is freed, except for the top.
 *
 * Failure: without memory no watch key is created, and no part of one is left behind.
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "km_watchkey.h"

/* --- marks --- */

void km_watchkey_mark_clear(struct km_watchkey_mark *m)
{
    free(m->data);
    m->data = NULL;
    m->len = 0;
}

size_t km_watchkey_mark_bytes(const struct treeobj_entry *e, size_t dsize, uint8_t *buf)
{
    buf[0] = e ? e->type : 0;
    size_t len = !e ? 0 : e->digest ? dsize : e->len;
    if (len > 0)
        memcpy(buf + 1, e->digest ? e->digest : e->data, len);
    return 1 + len;
}

bool km_watchkey_mark_is(const struct km_watchkey_mark *m, const uint8_t *bytes, size_t len)
{
    return m->data && m->len == len && memcmp(m->data, bytes, len) == 0;
}

void km_watchkey_mark_set(struct km_watchkey_mark *m, const uint8_t *bytes, size_t len)
{
    uint8_t *p = malloc(len);
    km_watchkey_mark_clear(m);
    if (p) { /* else unknown: the entry counts as changed in the next walk */
        memcpy(p, bytes, len);
        m->data = p;
        m->len = len;
    }
}

/* --- watch keys --- */

struct km_watchkey *km_watchkey_create(struct km_watchkey *parent, const char *name, size_t len)
{
    struct km_watchkey *s = calloc(1, sizeof(*s) + len);
    if (!s)
        return NULL;
    s->parent = parent;
    s->namelen = (uint8_t)len;
    memcpy(s->name, name, len);
    s->hash = treeobj_hash(name, len);
    list_init(&s->watchers);
    return s;
}

/* Number of children with a hash below `hash`. */
static uint32_t child_pos(const struct km_watchkey *s, uint32_t lo, uint32_t hi, uint64_t hash)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->child[mid]->hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct km_watchkey *child_get(struct km_watchkey *s, const char *name, size_t len)
{
    uint64_t hash = treeobj_hash(name, len);
    uint32_t pos = child_pos(s, 0, s->n, hash);
    for (uint32_t i = pos; i < s->n && s->child[i]->hash == hash; i++) {
        if (s->child[i]->namelen == len && memcmp(s->child[i]->name, name, len) == 0)
            return s->child[i];
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 2;
        void *p = realloc(s->child, cap * sizeof(*s->child));
        if (!p)
            return NULL;
        s->child = p;
        s->cap = cap;
    }
    struct km_watchkey *c = km_watchkey_create(s, name, len);
    if (!c)
        return NULL;
    memmove(&s->child[pos + 1], &s->child[pos], (s->n - pos) * sizeof(*s->child));
    s->child[pos] = c;
    s->n++;
    return c;
}

void km_watchkey_prune(struct km_watchkey *s)
{
    while (s->parent && s->n == 0 && list_empty(&s->watchers)) {
        struct km_watchkey *parent = s->parent;
        uint32_t pos = child_pos(parent, 0, parent->n, s->hash);
        while (parent->child[pos] != s)
            pos++;
        parent->n--;
        memmove(&parent->child[pos], &parent->child[pos + 1],
                (parent->n - pos) * sizeof(*parent->child));
        km_watchkey_mark_clear(&s->mark);
        free(s->child);
        free(s);
        s = parent;
    }
}

void km_watchkey_forget(struct km_watchkey *s)
{
    km_watchkey_mark_clear(&s->mark);
    for (uint32_t i = 0; i < s->n; i++)
        km_watchkey_forget(s->child[i]);
}

struct km_watchkey *km_watchkey_get(struct km_watchkey *top, const char *key, size_t len)
{
    struct km_watchkey *s = top;
    if (kvs_key_is_root(key, len))
        return s;
    for (const char *p = key; p;) {
        const char *rest;
        size_t restlen;
        size_t n = kvs_key_name(p, len, &rest, &restlen);
        struct km_watchkey *c = child_get(s, p, n);
        if (!c) {
            km_watchkey_prune(s);
            return NULL;
        }
        s = c;
        p = rest;
        len = restlen;
    }
    return s;
}
