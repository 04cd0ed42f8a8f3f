/* hmap.c - hash map: a dense array of entries, and an open-addressed index.
 *
 * Entries are in the array in the order of their insertion.  The index is a power-of-two table of
 * (hash, entry number) pairs with linear probing.  A look-up compares 32 bits of hash within one or
 * two cache lines before it touches an entry.  A removal closes the gap in the index at once
 * (backward shift, without tombstones) and leaves a dead entry (val == NULL) in the array until the
 * next rebuild.
 *
 * Invariants:
 *  1. live <= used <= cap, and cap is 5/8 of the index size, so every probe ends.
 *  2. Entry sequence numbers increase strictly through the array.  An iteration position is the
 *     sequence number to visit next, not an array index: a removal may compact the array during an
 *     iteration, and the position stays valid.  Only an insertion renumbers.
 *  3. Every entry before `first` is dead, and the last entry in the array is live.  "Take the
 *     oldest" and "drop the newest" thus cost constant time, even in a map that is never rebuilt.
 *  4. Iteration order is the order of insertion, whatever the hash seed.  Runs with the same input
 *     thus behave alike, although the seed differs in every process.
 *
 * Strings and binary keys are hashed with SipHash-2-4 and a random key of the map, so that keys
 * from outside cannot be chosen to collide.  (A hash that is only mixed with a seed does not
 * prevent that: a word that equals a constant of the hash cancels everything before it.)  Integers
 * are multiplied and folded with that key.
 *
 * Failure: an insertion without memory leaves the map unchanged (ENOMEM).  A removal without memory
 * for the smaller index keeps the larger one.
 */
#include "config.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hmap.h"
#include "siphash.h"
#include "libutil/invariant.h"

#define MIN_SLOTS 8u
#define MAX_SLOTS (1u << 31)
#define MAX_BINKEY 64

enum key_type { KEY_STR, KEY_U64, KEY_BIN };

struct slot {
    uint32_t hash;
    uint32_t num; /* entry number + 1; 0 when free */
};

struct entry {
    uint32_t hash;
    uint32_t seq;
    void *val;           /* NULL when dead */
    unsigned char key[]; /* char * for KEY_STR, else the key itself */
};

struct hmap {
    enum key_type type;
    size_t keylen; /* bytes of key[] */
    size_t stride; /* bytes from entry to entry */
    struct siphash_key key;
    hmap_free_f free_fn;
    struct slot *slots;
    unsigned char *entries;
    uint32_t nslots; /* power of two, or 0 */
    uint32_t cap;    /* entries that fit */
    uint32_t used;   /* entries live or dead */
    uint32_t live;
    uint32_t first; /* no live entry before this one */
};

static inline struct entry *entry_at(const hmap_t *m, uint32_t i)
{
    return (struct entry *)(void *)(m->entries + (size_t)i * m->stride);
}

static inline char *entry_str(const struct entry *e)
{
    char *s;

    memcpy(&s, e->key, sizeof(s));
    return s;
}

static inline uint32_t slots_to_cap(uint32_t nslots)
{
    return nslots / 2 + nslots / 8;
}

/* 64x64 -> 128 bit product, folded: every input bit affects every output bit. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 r = (unsigned __int128)a * b;

    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static inline uint64_t load64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Odd constants with balanced bits (digits of e, pi and the square root of 2). */
#define K0 0xb7e151628aed2a6bULL
#define K1 0x243f6a8885a308d3ULL
#define K2 0x6a09e667f3bcc909ULL

static uint32_t hash_key(const hmap_t *m, const void *key)
{
    uint64_t h;

    if (m->type == KEY_STR) {
        h = siphash(&m->key, key, strlen(key));
    } else if (m->type == KEY_U64) {
        h = fold(load64(key) ^ m->key.k[0], K1);
        h = fold(h ^ K2, m->key.k[1] ^ K0);
    } else {
        h = siphash(&m->key, key, m->keylen);
    }
    return (uint32_t)(h ^ (h >> 32));
}

static bool key_equal(const hmap_t *m, const struct entry *e, const void *key)
{
    if (m->type == KEY_STR)
        return strcmp(entry_str(e), key) == 0;
    return memcmp(e->key, key, m->keylen) == 0;
}

static hmap_t *create(enum key_type type, size_t keylen, hmap_free_f free_fn)
{
    hmap_t *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    m->type = type;
    m->keylen = keylen;
    m->stride = (sizeof(struct entry) + keylen + 7) & ~(size_t)7;
    m->free_fn = free_fn;
    siphash_key_random(&m->key, (uintptr_t)m);
    return m;
}

hmap_t *hmap_create_str(hmap_free_f free_fn)
{
    return create(KEY_STR, sizeof(char *), free_fn);
}

hmap_t *hmap_create_u64(hmap_free_f free_fn)
{
    return create(KEY_U64, sizeof(uint64_t), free_fn);
}

hmap_t *hmap_create_bin(size_t keylen, hmap_free_f free_fn)
{
    if (keylen < 1 || keylen > MAX_BINKEY) {
        errno = EINVAL;
        return NULL;
    }
    return create(KEY_BIN, keylen, free_fn);
}

void hmap_destroy(hmap_t *m)
{
    int saved = errno;

    if (!m)
        return;
    for (uint32_t i = m->first; i < m->used; i++) {
        struct entry *e = entry_at(m, i);

        if (!e->val)
            continue;
        if (m->type == KEY_STR)
            free(entry_str(e));
        if (m->free_fn)
            m->free_fn(e->val);
    }
    free(m->slots);
    free(m->entries);
    free(m);
    errno = saved;
}

size_t hmap_count(const hmap_t *m)
{
    return m ? m->live : 0;
}

/* Add entry number `i` to an index that has room and does not contain it. */
static void index_add(struct slot *slots, uint32_t nslots, uint32_t hash, uint32_t i)
{
    uint32_t pos = hash & (nslots - 1);

    while (slots[pos].num)
        pos = (pos + 1) & (nslots - 1);
    slots[pos] = (struct slot){.hash = hash, .num = i + 1};
}

static void index_del(hmap_t *m, uint32_t pos)
{
    uint32_t mask = m->nslots - 1;
    uint32_t next = pos;

    for (;;) {
        next = (next + 1) & mask;
        if (!m->slots[next].num)
            break;
        /* Move it into the gap unless its home lies cyclically in (gap, next]. */
        if (((next - m->slots[next].hash) & mask) >= ((next - pos) & mask)) {
            m->slots[pos] = m->slots[next];
            pos = next;
        }
    }
    m->slots[pos].num = 0;
}

/* Remove dead entries, and change to `nslots` index slots.  -1 with ENOMEM: unchanged. */
static int rebuild(hmap_t *m, uint32_t nslots, bool renumber)
{
    uint32_t cap = slots_to_cap(nslots);
    struct slot *slots = calloc(nslots, sizeof(*slots));
    uint32_t n = 0;

    assert(cap >= m->live);
    if (!slots)
        return -1;
    if (cap > m->cap) {
        unsigned char *p = reallocarray(m->entries, cap, m->stride);

        if (!p) {
            free(slots);
            return -1;
        }
        m->entries = p;
    }
    for (uint32_t i = m->first; i < m->used; i++) {
        struct entry *e = entry_at(m, i);

        if (!e->val)
            continue;
        if (i != n)
            memcpy(entry_at(m, n), e, m->stride);
        e = entry_at(m, n);
        if (renumber)
            e->seq = n;
        index_add(slots, nslots, e->hash, n);
        n++;
    }
    if (cap < m->cap) {
        unsigned char *p = reallocarray(m->entries, cap, m->stride);

        if (p)
            m->entries = p;
    }
    free(m->slots);
    m->slots = slots;
    m->nslots = nslots;
    m->cap = cap;
    m->used = n;
    m->first = 0;
    INVARIANT(1, m->live == m->used && m->used <= m->cap);
    return 0;
}

/* Index position of `key`, or -1. */
static int64_t find(const hmap_t *m, const void *key, uint32_t hash)
{
    uint32_t mask = m->nslots - 1;

    if (!m->live)
        return -1;
    for (uint32_t pos = hash & mask; m->slots[pos].num; pos = (pos + 1) & mask) {
        if (m->slots[pos].hash == hash && key_equal(m, entry_at(m, m->slots[pos].num - 1), key))
            return pos;
    }
    return -1;
}

/* Smallest index that holds `n` entries and leaves room for many insertions. */
static uint32_t pick_slots(uint32_t n)
{
    uint32_t nslots = MIN_SLOTS;

    while (nslots < MAX_SLOTS && slots_to_cap(nslots) - slots_to_cap(nslots) / 4 <= n)
        nslots *= 2;
    return nslots;
}

int hmap_put(hmap_t *m, const void *key, void *val)
{
    uint32_t hash;
    int64_t pos;
    struct entry *e;

    if (!m || !key || !val) {
        errno = EINVAL;
        return -1;
    }
    hash = hash_key(m, key);
    pos = find(m, key, hash);
    if (pos >= 0) {
        void *old;

        e = entry_at(m, m->slots[pos].num - 1);
        old = e->val;
        e->val = val;
        if (m->free_fn && old != val)
            m->free_fn(old);
        return 0;
    }
    if (m->used == m->cap) {
        uint32_t nslots = pick_slots(m->live);

        if (slots_to_cap(nslots) <= m->live) {
            errno = ENOMEM;
            return -1;
        }
        if (rebuild(m, nslots, true) < 0)
            return -1;
    }
    e = entry_at(m, m->used);
    if (m->type == KEY_STR) {
        char *s = strdup(key);

        if (!s)
            return -1;
        memcpy(e->key, &s, sizeof(s));
    } else {
        memcpy(e->key, key, m->keylen);
    }
    e->hash = hash;
    e->val = val;
    e->seq = m->used > m->first ? entry_at(m, m->used - 1)->seq + 1 : 0;
    index_add(m->slots, m->nslots, hash, m->used);
    m->used++;
    m->live++;
    INVARIANT(1, m->live <= m->used && m->used <= m->cap);
    return 0;
}

int hmap_put_u64(hmap_t *m, uint64_t key, void *val)
{
    if (!m || m->type != KEY_U64) {
        errno = EINVAL;
        return -1;
    }
    return hmap_put(m, &key, val);
}

void *hmap_get(const hmap_t *m, const void *key)
{
    int64_t pos;

    if (!m || !m->live || !key)
        return NULL;
    pos = find(m, key, hash_key(m, key));
    return pos < 0 ? NULL : entry_at(m, m->slots[pos].num - 1)->val;
}

void *hmap_get_u64(const hmap_t *m, uint64_t key)
{
    return m && m->type == KEY_U64 ? hmap_get(m, &key) : NULL;
}

/* Release memory after a removal.  Never renumbers, because an iteration may be under way. */
static void shrink(hmap_t *m)
{
    if (m->live == 0) {
        m->used = m->first = 0;
        if (m->nslots > MIN_SLOTS) {
            free(m->slots);
            free(m->entries);
            m->slots = NULL;
            m->entries = NULL;
            m->nslots = m->cap = 0;
        }
    } else if (m->nslots > MIN_SLOTS && m->live < m->cap / 8) {
        int saved = errno;

        (void)rebuild(m, pick_slots(m->live), false);
        errno = saved;
    }
}

void *hmap_take(hmap_t *m, const void *key)
{
    int64_t pos;
    uint32_t i;
    struct entry *e;
    void *val;

    if (!m || !m->live || !key)
        return NULL;
    pos = find(m, key, hash_key(m, key));
    if (pos < 0)
        return NULL;
    i = m->slots[pos].num - 1;
    e = entry_at(m, i);
    val = e->val;
    index_del(m, (uint32_t)pos);
    if (m->type == KEY_STR)
        free(entry_str(e)); /* `key` may be this very string: not used any more */
    e->val = NULL;
    m->live--;
    while (m->used > m->first && !entry_at(m, m->used - 1)->val)
        m->used--;
    while (m->first < m->used && !entry_at(m, m->first)->val)
        m->first++;
    INVARIANT(1, m->live <= m->used - m->first);
    INVARIANT(3, (m->live == 0) == (m->used == m->first));
    shrink(m);
    return val;
}

void *hmap_take_u64(hmap_t *m, uint64_t key)
{
    return m && m->type == KEY_U64 ? hmap_take(m, &key) : NULL;
}

bool hmap_del(hmap_t *m, const void *key)
{
    void *val = hmap_take(m, key);

    if (val && m->free_fn)
        m->free_fn(val);
    return val != NULL;
}

bool hmap_del_u64(hmap_t *m, uint64_t key)
{
    return m && m->type == KEY_U64 ? hmap_del(m, &key) : false;
}

/* Number of the first entry whose sequence is at least `seq`; m->used if there is none. */
static uint32_t seek(const hmap_t *m, size_t seq)
{
    uint32_t lo = m->first;
    uint32_t hi = m->used;

    if (lo == hi || seq <= entry_at(m, lo)->seq)
        return lo;
    /* As long as the array was not compacted, the sequence is the entry number. */
    if (seq < hi && entry_at(m, (uint32_t)seq)->seq == seq)
        return (uint32_t)seq;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (entry_at(m, mid)->seq < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool hmap_next(const hmap_t *m, size_t *pos, const void **key, uint64_t *ikey, void **val)
{
    if (!m)
        return false;
    for (uint32_t i = seek(m, *pos); i < m->used; i++) {
        const struct entry *e = entry_at(m, i);

        if (!e->val)
            continue;
        *pos = (size_t)e->seq + 1;
        if (key)
            *key = m->type == KEY_STR ? (const void *)entry_str(e) : e->key;
        if (ikey)
            *ikey = m->type == KEY_U64 ? load64(e->key) : 0;
        if (val)
            *val = e->val;
        return true;
    }
    return false;
}
