/* content.c - objects by their hash: a cache with an LRU order, and waiting for missing objects.
 *
 * state of an object              in `lru`   left by
 * held (holds > 0)                no         content_release(), of the last holder
 * kept, not backed                no         content_back(), content_forget()
 * kept and backed, bytes here     yes        content_hold(); its bytes are dropped: absent
 *                                            (content_trim(), content_drop(), content_expire());
 *                                            content_forget()
 * absent: kept, bytes elsewhere   no         content_supply(); content_forget(): freed
 * free: none of these             yes        content_hold(), content_keep(); content_trim(),
 *                                            content_drop(), content_expire(): freed
 *
 * The index is a table with open addressing.  Each slot has 32 bits of the object's hash beside the
 * pointer, so a probe rarely touches another object: 12 bytes per slot, of which at most 3/4 are
 * used.
 *
 * Memory: records (which include the bytes of small objects) and the bytes of larger objects come
 * from a slab allocator (libutil/slab.h).  A store has many long-lived objects, and in the heap of
 * malloc() the gaps between them would scatter all other allocations of the broker.  Only the bytes
 * of the few objects that are too large for the slabs come from malloc(); content_tidy() returns
 * that memory to the system.
 *
 * Invariants:
 *  1. An object is in the index under the hash of its bytes, and there is one object per hash.
 *  2. `lru` is in the order of the last use, which is that of the `used` stamps.
 *  3. free_bytes is the sum of idle_cost() over `lru`.  Only content_trim(), content_drop(),
 *     content_expire() and content_forget() free objects or bytes, so a caller may use pointers to
 *     free objects until it calls one of these.
 *  4. A digest is in `awaited` from the first content_wait() until content_supply() or
 *     content_deny(), even if all waiters have given up, so it is not fetched twice.
 *  5. An entry is removed from `awaited` before its waiters are called, so a callback may wait
 *     again, even for the same object.
 *
 * Failure: bytes whose hash is not the requested one are discarded, and the waiters get EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "content.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/slab.h"

/* Cost of an object beyond its bytes: header, index entry, allocator. */
#define OVERHEAD 120
#define MIN_SLOTS 64u
#define TIDY_BYTES (1u << 20)

struct slot {
    uint32_t tag; /* 0: free */
    struct content_obj *obj;
} __attribute__((packed));

struct content {
    blobref_t *blobref;
    slab_t *records;
    size_t dsize;
    struct slot *slot;
    size_t nslots; /* power of two */
    size_t live;
    uint64_t seed;
    hmap_t *awaited;
    struct list_node lru;
    size_t limit;
    uint32_t now;
    bool frozen;
    size_t huge, most; /* bytes of objects from malloc(); their maximum since content_tidy()
                        * acted */
    struct content_stats st;
};

struct await {
    struct list_node waiters;
};

static size_t cost(const struct content_obj *o)
{
    return o->len + OVERHEAD;
}

/* Bytes gained by dropping an idle object: the record of a kept object stays. */
static size_t idle_cost(const struct content_obj *o)
{
    return o->kept ? o->len : cost(o);
}

/* --- index --- */

static uint32_t tag_of(const content_t *c, const uint8_t *digest)
{
    uint64_t v;
    memcpy(&v, digest, sizeof(v));
    /* Digests are random, but a writer of values might search for digests that share a slot. */
    unsigned __int128 r = (unsigned __int128)(v ^ c->seed) * 0x9e3779b97f4a7c15u;
    uint32_t tag = (uint32_t)(r >> 64) ^ (uint32_t)(r >> 32);
    return tag ? tag : 1;
}

static struct content_obj *index_find_tag(const content_t *c, const uint8_t *digest, uint32_t tag)
{
    size_t mask = c->nslots - 1;
    for (size_t i = tag & mask; c->slot[i].tag; i = (i + 1) & mask) {
        if (c->slot[i].tag == tag && memcmp(c->slot[i].obj->digest, digest, c->dsize) == 0)
            return c->slot[i].obj;
    }
    return NULL;
}

static struct content_obj *index_find(const content_t *c, const uint8_t *digest)
{
    return index_find_tag(c, digest, tag_of(c, digest));
}

static void index_put(content_t *c, struct content_obj *o, uint32_t tag)
{
    size_t mask = c->nslots - 1, i = tag & mask;
    while (c->slot[i].tag)
        i = (i + 1) & mask;
    c->slot[i] = (struct slot){tag, o};
}

static int index_resize(content_t *c, size_t nslots)
{
    struct slot *slot = calloc(nslots, sizeof(*slot)), *old_slot = c->slot;
    size_t old = c->nslots;
    if (!slot)
        return -1;
    c->slot = slot;
    c->nslots = nslots;
    for (size_t i = 0; i < old; i++) {
        if (old_slot[i].tag)
            index_put(c, old_slot[i].obj, old_slot[i].tag);
    }
    free(old_slot);
    return 0;
}

static void index_del(content_t *c, const struct content_obj *o)
{
    size_t mask = c->nslots - 1, i = tag_of(c, o->digest) & mask;
    while (!c->slot[i].tag || c->slot[i].obj != o)
        i = (i + 1) & mask;
    for (size_t next = i;;) {
        next = (next + 1) & mask;
        if (!c->slot[next].tag)
            break;
        /* Move it into the gap, unless its home lies cyclically after the gap. */
        if (((next - c->slot[next].tag) & mask) >= ((next - i) & mask)) {
            c->slot[i] = c->slot[next];
            i = next;
        }
    }
    c->slot[i].tag = 0;
    c->live--;
    if (c->nslots > MIN_SLOTS && c->live < c->nslots / 8)
        (void)index_resize(c, c->nslots / 4); /* on failure it stays large */
}

/* --- life --- */

content_t *content_create(blobref_t *b, size_t limit)
{
    content_t *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->blobref = b;
    c->dsize = blobref_size(b);
    c->limit = limit;
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM); /* 16 bytes */
    if (random)
        memcpy(&c->seed, random, sizeof(c->seed));
    list_init(&c->lru);
    c->awaited = hmap_create_bin(c->dsize, free);
    if (!c->awaited || !(c->records = slab_create()) || index_resize(c, MIN_SLOTS) < 0) {
        content_destroy(c);
        errno = ENOMEM;
        return NULL;
    }
    return c;
}

static bool is_separate(const struct content_obj *o)
{
    return o->len >= CONTENT_SEPARATE;
}

/* Bytes of a record, with those of the object that are part of it. */
static size_t record_size(size_t len)
{
    return sizeof(struct content_obj) + (len < CONTENT_SEPARATE ? len : 0);
}

static bool is_huge(const struct content_obj *o)
{
    return o->len > SLAB_LARGEST;
}

/* Free the bytes of an object that are not part of its record. */
static void free_bytes(content_t *c, struct content_obj *o)
{
    if (o->data && is_huge(o))
        c->huge -= o->len;
    slab_free(c->records, (void *)(uintptr_t)o->data, o->len);
    o->data = NULL;
}

static void obj_free(content_t *c, struct content_obj *o)
{
    if (is_separate(o))
        free_bytes(c, o);
    slab_free(c->records, o, record_size(o->len));
}

void content_destroy(content_t *c)
{
    if (!c)
        return;
    int saved = errno;
    hmap_destroy(c->awaited);
    for (size_t i = 0; i < c->nslots; i++) {
        if (c->slot[i].tag)
            obj_free(c, c->slot[i].obj);
    }
    slab_destroy(c->records);
    free(c->slot);
    free(c);
    errno = saved;
}

void content_set_limit(content_t *c, size_t limit)
{
    c->limit = limit;
}

void content_set_clock(content_t *c, uint32_t now)
{
    c->now = now;
}

blobref_t *content_blobref(content_t *c)
{
    return c->blobref;
}

/* --- objects --- */

static bool idle(const struct content_obj *o)
{
    return o->data && o->holds == 0 && (!o->kept || o->backed);
}

static struct content_obj *newest(const content_t *c) __attribute__((unused));
static struct content_obj *newest(const content_t *c)
{
    return list_entry(c->lru.prev, struct content_obj, link);
}

static void idle_enter(content_t *c, struct content_obj *o)
{
    o->used = c->now;
    INVARIANT(2, list_empty(&c->lru) || newest(c)->used <= o->used);
    list_append(&c->lru, &o->link);
    c->st.free_objects++;
    c->st.free_bytes += idle_cost(o);
}

static void idle_leave(content_t *c, struct content_obj *o)
{
    INVARIANT(3, c->st.free_objects > 0 && c->st.free_bytes >= idle_cost(o));
    list_remove(&o->link);
    c->st.free_objects--;
    INVARIANT(3, (c->st.free_objects == 0) == list_empty(&c->lru));
    c->st.free_bytes -= idle_cost(o);
}

struct content_obj *content_find(content_t *c, const uint8_t *digest)
{
    return index_find(c, digest);
}

void content_find_many(content_t *c, const uint8_t *const *digest, unsigned n,
                       struct content_obj **obj)
{
    uint32_t tag[CONTENT_FIND_MANY];
    size_t mask = c->nslots - 1;
    for (unsigned i = 0; i < n; i++) {
        tag[i] = tag_of(c, digest[i]);
        __builtin_prefetch(&c->slot[tag[i] & mask]);
    }
    for (unsigned i = 0; i < n; i++) {
        const struct slot *s = &c->slot[tag[i] & mask];
        if (s->tag) {
            const char *o = (const char *)s->obj;
            __builtin_prefetch(o);
            __builtin_prefetch(o + sizeof(struct content_obj) - 1);
        }
    }
    for (unsigned i = 0; i < n; i++)
        obj[i] = index_find_tag(c, digest[i], tag[i]);
}

struct content_obj *content_get(content_t *c, const uint8_t *digest)
{
    struct content_obj *o = index_find(c, digest);
    if (!o || !o->data) {
        c->st.misses++;
        return NULL;
    }
    c->st.hits++;
    if (idle(o)) {
        o->used = c->now;
        if (c->lru.prev != &o->link) {
            list_remove(&o->link);
            list_append(&c->lru, &o->link);
        }
    }
    return o;
}

/* Add a record to the index, without accounting. */
static struct content_obj *add_record(content_t *c, const uint8_t *digest, size_t len)
{
    if ((c->live + 1) * 4 > c->nslots * 3 && index_resize(c, c->nslots * 2) < 0)
        return NULL;
    struct content_obj *o = slab_alloc(c->records, record_size(len));
    if (!o)
        return NULL;
    memset(o, 0, sizeof(*o));
    list_init(&o->link);
    o->len = (uint32_t)len & (2 * CONTENT_OBJECT_MAX - 1);
    memcpy(o->digest, digest, c->dsize);
    index_put(c, o, tag_of(c, digest));
    c->live++;
    return o;
}

/* Store the bytes of an object that has none. */
static int set_bytes(content_t *c, struct content_obj *o, const void *data)
{
    uint8_t *to = (uint8_t *)(o + 1);
    if (is_separate(o) && !(to = slab_alloc(c->records, o->len)))
        return -1;
    memcpy(to, data, o->len);
    o->data = to;
    c->st.objects++;
    c->st.bytes += cost(o);
    if (is_huge(o) && (c->huge += o->len) > c->most)
        c->most = c->huge;
    return 0;
}

static struct content_obj *add_new(content_t *c, const uint8_t *digest, const void *data,
                                   size_t len)
{
    struct content_obj *o = add_record(c, digest, len);
    if (!o)
        return NULL;
    if (set_bytes(c, o, data) < 0) {
        index_del(c, o);
        slab_free(c->records, o, record_size(len));
        errno = ENOMEM;
        return NULL;
    }
    idle_enter(c, o);
    return o;
}

/* Store the bytes of an absent object, which have arrived. */
static int fill(content_t *c, struct content_obj *o, const void *data)
{
    if (set_bytes(c, o, data) < 0)
        return -1;
    c->st.absent_objects--;
    if (idle(o))
        idle_enter(c, o);
    return 0;
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
    struct content_obj *o = index_find(c, digest);
    if (!o)
        return add_new(c, digest, data, len);
    return !o->data && fill(c, o, data) < 0 ? NULL : o;
}

struct content_obj *content_add_record(content_t *c, const uint8_t *digest, size_t len)
{
    struct content_obj *o = index_find(c, digest);
    if (o)
        return o;
    if (len > CONTENT_OBJECT_MAX || len < CONTENT_SEPARATE) {
        errno = EMSGSIZE;
        return NULL;
    }
    if (!(o = add_record(c, digest, len)))
        return NULL;
    o->kept = o->backed = 1;
    c->st.absent_objects++;
    return o;
}

void content_hold(content_t *c, struct content_obj *o)
{
    if (idle(o))
        idle_leave(c, o);
    o->holds++;
}

/* Free the record of an object that has no bytes and is not needed. */
static void free_record(content_t *c, struct content_obj *o)
{
    c->st.absent_objects--;
    index_del(c, o);
    obj_free(c, o);
}

void content_release(content_t *c, struct content_obj *o)
{
    if (--o->holds > 0)
        return;
    if (idle(o))
        idle_enter(c, o);
    else if (!o->kept)
        free_record(c, o);
}

void content_keep(content_t *c, struct content_obj *o)
{
    if (idle(o))
        idle_leave(c, o);
    o->kept = 1;
    o->backed = 0;
}

void content_back(content_t *c, struct content_obj *o)
{
    if (o->backed || !is_separate(o))
        return;
    o->backed = 1;
    if (idle(o))
        idle_enter(c, o);
}

void content_forget(content_t *c, struct content_obj *o)
{
    if (idle(o))
        idle_leave(c, o);
    o->kept = o->backed = 0;
    if (idle(o))
        idle_enter(c, o);
    else if (o->holds == 0)
        free_record(c, o);
}

/* Drop an idle object, or the bytes of a kept object. */
static void drop(content_t *c, struct content_obj *o)
{
    idle_leave(c, o);
    c->st.objects--;
    c->st.bytes -= cost(o);
    if (o->kept) {
        free_bytes(c, o);
        c->st.absent_objects++;
    } else {
        index_del(c, o);
        obj_free(c, o);
    }
}

static struct content_obj *oldest(content_t *c)
{
    return list_entry(list_first(&c->lru), struct content_obj, link);
}

void content_freeze(content_t *c, bool frozen)
{
    c->frozen = frozen;
}

void content_trim(content_t *c)
{
    while (!c->frozen && c->st.free_bytes > c->limit) {
        INVARIANT(3, !list_empty(&c->lru));
        drop(c, oldest(c));
        c->st.dropped++;
    }
}

size_t content_drop(content_t *c, size_t max)
{
    size_t n = 0;
    for (; !c->frozen && n < max && !list_empty(&c->lru); n++)
        drop(c, oldest(c));
    c->st.dropped += n;
    return n;
}

bool content_tidy(content_t *c)
{
    if (c->most - c->huge < TIDY_BYTES + c->huge / 8)
        return false;
    c->most = c->huge;
    (void)malloc_trim(0);
    return true;
}

size_t content_expire(content_t *c, uint32_t before, size_t max)
{
    size_t n = 0;
    for (; !c->frozen && n < max && !list_empty(&c->lru) && oldest(c)->used < before; n++)
        drop(c, oldest(c));
    c->st.expired += n;
    if (n > 0 && n < max)
        (void)content_tidy(c);
    return n;
}

/* --- waiting --- */

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
        error = "the bytes of an object do not match its hash: it was damaged in transit";
    } else {
        struct content_obj *o = index_find(c, digest);
        if (o ? !o->data && fill(c, o, data) < 0 : !add_new(c, digest, data, len)) {
            errnum = ENOMEM;
            error = "out of memory for an object";
        }
    }
    /* The digest may be part of an object that a callback releases. */
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
    /* Callbacks may wait again: such waits are not for this call. */
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
