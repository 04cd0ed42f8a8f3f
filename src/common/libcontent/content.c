/* content.c - objects by their hash: held, or least recently used out; and waiting for what is
 * missing.
 *
 * state of an object   in `lru`   left when
 * held (holds > 0)     no         the last holder lets go: end of `lru`
 * free (holds == 0)    yes        held again; or dropped by content_trim(), front first
 *
 * Invariants:
 *  1. An object is in the index under the hash of its bytes; there is one object for a hash.
 *  2. free_bytes is the sum of cost() over `lru`.  Only content_trim() and content_drop() free
 * objects, so a caller may use pointers to free objects until it calls one of these.
 *  3. A digest is in `awaited` from the first content_wait() until content_supply() or
 * content_deny(), also when all who waited gave up: then nobody fetches it twice.
 *  4. Wakers take an entry out of `awaited` before they call anybody, so a callback may wait again,
 *     for the same object too.
 *
 * Failure: bytes that do not have the hash they were asked by are not kept; who waited gets EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "content.h"
#include "libutil/hmap.h"

/* What an object costs beyond its bytes: header, index entry, allocator. */
#define OVERHEAD 160

struct content {
    blobref_t *blobref;
    hmap_t *index;
    hmap_t *awaited;
    struct list_node lru;
    size_t limit;
    struct content_stats st;
};

struct await {
    struct list_node waiters;
};

static size_t cost(const struct content_obj *o)
{
    return o->len + OVERHEAD;
}

content_t *content_create(blobref_t *b, size_t limit)
{
    content_t *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->blobref = b;
    c->limit = limit;
    list_init(&c->lru);
    c->index = hmap_create_bin(blobref_size(b), free);
    c->awaited = hmap_create_bin(blobref_size(b), free);
    if (!c->index || !c->awaited) {
        content_destroy(c);
        errno = ENOMEM;
        return NULL;
    }
    return c;
}

void content_destroy(content_t *c)
{
    if (!c)
        return;
    int saved = errno;
    hmap_destroy(c->awaited);
    hmap_destroy(c->index);
    free(c);
    errno = saved;
}

void content_set_limit(content_t *c, size_t limit)
{
    c->limit = limit;
}

blobref_t *content_blobref(content_t *c)
{
    return c->blobref;
}

struct content_obj *content_get(content_t *c, const uint8_t *digest)
{
    struct content_obj *o = hmap_get(c->index, digest);
    if (!o) {
        c->st.misses++;
        return NULL;
    }
    c->st.hits++;
    if (o->holds == 0 && c->lru.prev != &o->link) {
        list_remove(&o->link);
        list_append(&c->lru, &o->link);
    }
    return o;
}

/* Keyed by a digest that is known to fit. */
static struct content_obj *add_new(content_t *c, const uint8_t *digest, const void *data,
                                   size_t len)
{
    struct content_obj *o = malloc(sizeof(*o) + len);
    if (!o)
        return NULL;
    list_init(&o->link);
    o->holds = 0;
    o->mark = 0;
    o->len = (uint32_t)len;
    memset(o->digest, 0, sizeof(o->digest));
    memcpy(o->digest, digest, blobref_size(c->blobref));
    memcpy(o->data, data, len);
    if (hmap_put(c->index, digest, o) < 0) {
        free(o);
        errno = ENOMEM;
        return NULL;
    }
    list_append(&c->lru, &o->link);
    c->st.objects++;
    c->st.bytes += cost(o);
    c->st.free_objects++;
    c->st.free_bytes += cost(o);
    return o;
}

struct content_obj *content_add(content_t *c, const void *data, size_t len)
{
    uint8_t digest[BLOBREF_DIGEST_MAX];
    if (len > CONTENT_OBJECT_MAX) {
        errno = EMSGSIZE;
        return NULL;
    }
    if (blobref_hash(c->blobref, data, len, digest) < 0)
        return NULL;
    struct content_obj *o = hmap_get(c->index, digest);
    return o ? o : add_new(c, digest, data, len);
}

void content_hold(content_t *c, struct content_obj *o)
{
    if (o->holds++ == 0) {
        list_remove(&o->link);
        c->st.free_objects--;
        c->st.free_bytes -= cost(o);
    }
}

void content_release(content_t *c, struct content_obj *o)
{
    if (--o->holds == 0) {
        list_remove(&o->link);
        list_append(&c->lru, &o->link);
        c->st.free_objects++;
        c->st.free_bytes += cost(o);
    }
}

static void drop_oldest(content_t *c)
{
    struct content_obj *o = list_entry(list_first(&c->lru), struct content_obj, link);
    list_remove(&o->link);
    c->st.objects--;
    c->st.bytes -= cost(o);
    c->st.free_objects--;
    c->st.free_bytes -= cost(o);
    c->st.dropped++;
    hmap_del(c->index, o->digest);
}

void content_trim(content_t *c)
{
    while (c->st.free_bytes > c->limit)
        drop_oldest(c);
}

size_t content_drop(content_t *c)
{
    size_t n = c->st.free_objects;
    while (!list_empty(&c->lru))
        drop_oldest(c);
    return n;
}

int content_wait(content_t *c, const uint8_t *digest, struct content_waiter *w, content_wait_f cb)
{
    int first = 0;
    struct await *a = hmap_get(c->awaited, digest);
    if (!a) {
        a = malloc(sizeof(*a));
        if (!a)
            return -1;
        list_init(&a->waiters);
        if (hmap_put(c->awaited, digest, a) < 0) {
            free(a);
            errno = ENOMEM;
            return -1;
        }
        first = 1;
    }
    w->cb = cb;
    list_init(&w->link);
    list_append(&a->waiters, &w->link);
    return first;
}

void content_waiter_cancel(struct content_waiter *w)
{
    list_remove(&w->link);
}

static void wake(content_t *c, const uint8_t *digest, int errnum, const char *error)
{
    struct await *a = hmap_take(c->awaited, digest);
    if (!a)
        return;
    struct list_node *n;
    while ((n = list_first(&a->waiters))) {
        struct content_waiter *w = list_entry(n, struct content_waiter, link);
        list_remove(n);
        w->cb(w, errnum, error);
    }
    free(a);
}

int content_supply(content_t *c, const uint8_t *digest, const void *data, size_t len)
{
    uint8_t is[BLOBREF_DIGEST_MAX];
    int errnum = 0;
    const char *error = "";
    if (len > CONTENT_OBJECT_MAX || blobref_hash(c->blobref, data, len, is) < 0 ||
        memcmp(is, digest, blobref_size(c->blobref)) != 0) {
        errnum = EPROTO;
        error = "an object arrived whose bytes do not have its hash: it was damaged on the way";
    } else if (!hmap_get(c->index, digest) && !add_new(c, digest, data, len)) {
        errnum = ENOMEM;
        error = "out of memory for an object";
    }
    /* The digest may live in an object that a callback lets go of. */
    memcpy(is, digest, blobref_size(c->blobref));
    wake(c, is, errnum, error);
    errno = errnum;
    return errnum ? -1 : 0;
}

void content_deny(content_t *c, const uint8_t *digest, int errnum, const char *error)
{
    uint8_t copy[BLOBREF_DIGEST_MAX];
    memcpy(copy, digest, blobref_size(c->blobref));
    wake(c, copy, errnum, error);
}

void content_deny_all(content_t *c, int errnum, const char *error)
{
    /* Who is woken may wait again: those are not for this call. */
    size_t n = hmap_count(c->awaited);
    while (n-- > 0 && hmap_count(c->awaited) > 0) {
        const void *key;
        void *val;
        size_t pos = 0;
        if (!hmap_next(c->awaited, &pos, &key, NULL, &val))
            return;
        content_deny(c, key, errnum, error);
    }
}

void content_get_stats(const content_t *c, struct content_stats *st)
{
    *st = c->st;
    st->awaited = hmap_count(c->awaited);
}
