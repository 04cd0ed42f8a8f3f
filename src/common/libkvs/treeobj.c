/* treeobj.c - the format of tree objects.
 *
 * A directory is a trie over the hash of its names (SipHash-2-4 of the name with an all-zero key,
 * four bits per level from the highest): a part of the trie that holds at most 32 entries is one
 * leaf (at the deepest level, a leaf of any size), a larger one is a branch.  Equal contents
 * therefore have equal objects and one root, whatever the order of changes.  Compared with 32
 * children and 16 entries, 16 children and 32 entries need no more levels, since leaves are fuller;
 * a change hashes half the bytes of a branch; and after a split a leaf holds two entries on
 * average, so small leaves do not dominate memory.
 *
 * Every object (integers little-endian):
 *
 *   u8 kind   u8 1 (format)   u8 digest size   u8 depth   u32 n
 *
 *   kind 1, leaf    n entries: n x u32 offset of the entry in the object, then the entries, without
 *                   gaps, sorted by name
 *   kind 2, branch  n: bitmap of the children present (at most 16 bits); per child u32 number of
 *                   entries below, digest
 *   kind 3, blob    digest size, depth, n zero; at most 32768 bytes of a value
 *   kind 4, index   depth is the level: 1 above blobs, at most 4; n: children, at most 128, which
 *                   are of the level below; their digests
 *
 *   entry: u8 type   u8 name length   u16 length   name   then
 *     type 1 value    `length` bytes, at most 256
 *     type 2 ref      (length 0) u64 size of the value, digest of its blob
 *     type 3 chunked  (length 0) u64 size of the value, more than 32768; digest of its index
 *     type 4 dir      (length 0) digest of leaf or branch at depth 0
 *     type 5 link     `length` bytes: a key
 *
 * Drawing (trie): a directory with more than 32 entries; an arrow is a digest.
 *
 *     +------+--------+--------+-------+--------+-----------+---------+-----------+---------+
 *     | kind | format | digest | depth | bitmap | entries   | digest  | entries   | digest  |
 *     |  2   |   1    | size   |   0   | 0 1 00 | below: 20 | child 2 | below: 14 | child 6 |
 *     +------+--------+--------+-------+--------+-----------+----+----+-----------+---------+
 *                                                                |
 *        +-------------------------------------------------------+
 *        |
 *        v
 *     +------+--------+--------+-------+----+-----------------+---------+---------+
 *     | kind | format | digest | depth | n  | offsets of the  | entry   | entry   |
 *     |  1   |   1    | size   |   1   | 20 | entries, sorted | "alpha" | "beta"  |
 *     +------+--------+--------+-------+----+-----------------+----+----+---------+
 *                                                                  |
 *                                                                  v
 *                                                         value, reference,
 *                                                         directory, or link
 *
 * A value in chunks: each blob but the last has 32768 bytes, each index has 128 children except on
 * the right edge.  The form depends on the size alone, and a value that begins with another has the
 * other's chunks and indexes except on the right edge, where values are compared and appended to.
 *
 * Invariants:
 *  1. The kind is part of the object, so that a user's value never has the hash of a directory.
 *  2. One content has one encoding: entries follow each other without gaps, in strict order of
 *     their names; values that fit are inline; a branch has more than 32 entries below it and no
 *     empty child; an index is not higher than the size of its value requires.
 *  3. After treeobj_check() the accessors read inside the object only.  The depth of a child is
 *     checked where it is followed.
 *
 * Failure: treeobj_check() refuses anything else with EPROTO and an error message.
 */
#include "config.h"
#include <errno.h>
#include <sodium/crypto_shorthash.h>
#include <string.h>
#include <sys/types.h>

#include "kvs_key.h"
#include "kvs_txn.h"
#include "treeobj.h"
#include "libutil/le.h"

#define ENTRY_HEADER 4

uint64_t treeobj_hash(const char *name, size_t namelen)
{
    static const uint8_t key[crypto_shorthash_KEYBYTES];
    uint8_t out[crypto_shorthash_BYTES];
    crypto_shorthash(out, (const uint8_t *)name, namelen, key);
    return le_get64(out);
}

int treeobj_name_cmp(const char *a, size_t alen, const char *b, size_t blen)
{
    int r = memcmp(a, b, alen < blen ? alen : blen);
    return r ? r : (alen > blen) - (alen < blen);
}

enum treeobj_kind treeobj_kind(const void *obj)
{
    return *(const uint8_t *)obj;
}

unsigned treeobj_depth(const void *obj)
{
    return ((const uint8_t *)obj)[3];
}

static uint32_t number(const void *obj)
{
    return le_get32((const uint8_t *)obj + 4);
}

/* Bytes after the name of an entry of this type; -1 for an unknown type. */
static ssize_t tail_size(uint8_t type, size_t len, size_t dsize)
{
    switch (type) {
    case TREEOBJ_VALUE:
    case TREEOBJ_LINK:
        return (ssize_t)len;
    case TREEOBJ_REF:
    case TREEOBJ_CHUNKED:
        return (ssize_t)(8 + dsize);
    case TREEOBJ_DIR:
        return (ssize_t)dsize;
    }
    return -1;
}

static void read_entry(const uint8_t *p, struct treeobj_entry *e)
{
    e->type = p[0];
    e->namelen = p[1];
    e->len = le_get16(p + 2);
    e->name = (const char *)p + ENTRY_HEADER;
    const uint8_t *tail = p + ENTRY_HEADER + e->namelen;
    e->data = NULL;
    e->digest = NULL;
    if (e->type == TREEOBJ_REF || e->type == TREEOBJ_CHUNKED) {
        e->len = le_get64(tail);
        e->digest = tail + 8;
    } else if (e->type == TREEOBJ_DIR) {
        e->digest = tail;
    } else {
        e->data = tail;
    }
}

static int bad(errmsg_t *err, const char *what)
{
    return errmsg_fail(err, EPROTO, "tree object is malformed: %s", what);
}

/* Check one entry of at most `left` bytes.  Returns its size, or -1. */
static ssize_t check_entry(const uint8_t *p, size_t left, size_t dsize, errmsg_t *err)
{
    if (left < ENTRY_HEADER)
        return bad(err, "an entry is cut off");
    uint8_t type = p[0], namelen = p[1];
    uint16_t len = le_get16(p + 2);
    ssize_t tail = tail_size(type, len, dsize);
    if (tail < 0)
        return bad(err, "the type of an entry is unknown");
    if (left < ENTRY_HEADER + namelen + (size_t)tail)
        return bad(err, "an entry reaches beyond the object");
    const char *name = (const char *)p + ENTRY_HEADER;
    if (memchr(name, '.', namelen) || kvs_key_check(name, namelen, NULL) < 0)
        return bad(err, "the name of an entry is invalid");
    const uint8_t *t = p + ENTRY_HEADER + namelen;
    switch (type) {
    case TREEOBJ_VALUE:
        if (len > TREEOBJ_INLINE_MAX)
            return bad(err, "an entry contains a value that is too large for it");
        break;
    case TREEOBJ_REF:
        if (len != 0 || le_get64(t) <= TREEOBJ_INLINE_MAX || le_get64(t) > TREEOBJ_CHUNK)
            return bad(err, "a reference has an invalid size");
        break;
    case TREEOBJ_CHUNKED:
        if (len != 0 || le_get64(t) <= TREEOBJ_CHUNK || le_get64(t) > KVS_SIZE_MAX)
            return bad(err, "a value in chunks has an invalid size");
        break;
    case TREEOBJ_DIR:
        if (len != 0)
            return bad(err, "a directory entry has a length");
        break;
    case TREEOBJ_LINK:
        if (kvs_key_check((const char *)t, len, NULL) < 0)
            return bad(err, "a link's target is not a key");
        break;
    }
    return (ssize_t)(ENTRY_HEADER + namelen + (size_t)tail);
}

static int check_leaf(const uint8_t *p, size_t len, size_t dsize, errmsg_t *err)
{
    uint32_t n = le_get32(p + 4);
    if (n > (len - TREEOBJ_HEADER) / (4 + ENTRY_HEADER))
        return bad(err, "a leaf has too many entries");
    if (n > TREEOBJ_LEAF_MAX && p[3] < TREEOBJ_DEPTH_MAX)
        return bad(err, "a leaf is too large");
    if (n == 0 && p[3] != 0)
        return bad(err, "a leaf below the top is empty");
    size_t off = TREEOBJ_HEADER + 4 * (size_t)n;
    for (uint32_t i = 0; i < n; i++) {
        if (le_get32(p + TREEOBJ_HEADER + 4 * (size_t)i) != off)
            return bad(err, "an entry is in the wrong branch");
        ssize_t size = check_entry(p + off, len - off, dsize, err);
        if (size < 0)
            return -1;
        if (i > 0) {
            struct treeobj_entry a, b;
            treeobj_leaf_entry(p, dsize, i - 1, &a);
            read_entry(p + off, &b);
            if (treeobj_name_cmp(a.name, a.namelen, b.name, b.namelen) >= 0)
                return bad(err, "entries are not in order");
        }
        off += (size_t)size;
    }
    if (off != len)
        return bad(err, "bytes follow the last entry");
    return 0;
}

static int check_branch(const uint8_t *p, size_t len, size_t dsize, errmsg_t *err)
{
    uint32_t bitmap = le_get32(p + 4);
    if (p[3] >= TREEOBJ_DEPTH_MAX)
        return bad(err, "a branch is too deep");
    if (bitmap >> TREEOBJ_FAN)
        return bad(err, "a branch has too many children");
    size_t n = (size_t)__builtin_popcount(bitmap);
    if (len != TREEOBJ_HEADER + n * (4 + dsize))
        return bad(err, "a branch's size and number of children do not agree");
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t count = le_get32(p + TREEOBJ_HEADER + i * (4 + dsize));
        if (count == 0)
            return bad(err, "a child of a branch is empty");
        total += count;
    }
    if (total <= TREEOBJ_LEAF_MAX || total > UINT32_MAX)
        return bad(err, "a branch has an invalid number of entries");
    return 0;
}

static int check_index(const uint8_t *p, size_t len, size_t dsize, errmsg_t *err)
{
    uint32_t n = le_get32(p + 4);
    if (p[3] < 1 || p[3] > TREEOBJ_LEVEL_MAX)
        return bad(err, "an index has an invalid level");
    if (n < 1 || n > TREEOBJ_INDEX_FAN)
        return bad(err, "an index has an invalid number of children");
    if (len != TREEOBJ_HEADER + n * dsize)
        return bad(err, "an index's size and number of children do not agree");
    return 0;
}

int treeobj_check(const void *data, size_t len, size_t dsize, errmsg_t *err)
{
    const uint8_t *p = data;
    if (len < TREEOBJ_HEADER)
        return bad(err, "it is shorter than its header");
    if (p[1] != 1)
        return bad(err, "its format is unknown");
    if (p[0] == TREEOBJ_BLOB) {
        if (p[2] != 0 || p[3] != 0 || le_get32(p + 4) != 0)
            return bad(err, "a value's header is not zero");
        if (len == TREEOBJ_HEADER || len - TREEOBJ_HEADER > TREEOBJ_CHUNK)
            return bad(err, "the size of a value is invalid");
        return 0;
    }
    if (p[2] != dsize)
        return bad(err, "its references have the wrong size");
    if (p[3] > TREEOBJ_DEPTH_MAX)
        return bad(err, "it is nested too deeply");
    if (p[0] == TREEOBJ_LEAF)
        return check_leaf(p, len, dsize, err);
    if (p[0] == TREEOBJ_BRANCH)
        return check_branch(p, len, dsize, err);
    if (p[0] == TREEOBJ_INDEX)
        return check_index(p, len, dsize, err);
    return bad(err, "its kind is unknown");
}

uint32_t treeobj_count(const void *obj, size_t dsize)
{
    if (treeobj_kind(obj) == TREEOBJ_LEAF)
        return number(obj);
    const uint8_t *p = (const uint8_t *)obj + TREEOBJ_HEADER;
    uint32_t sum = 0;
    for (int n = __builtin_popcount(number(obj)); n > 0; n--, p += 4 + dsize)
        sum += le_get32(p);
    return sum;
}

void treeobj_leaf_entry(const void *leaf, size_t dsize, uint32_t i, struct treeobj_entry *e)
{
    const uint8_t *p = leaf;
    (void)dsize;
    read_entry(p + le_get32(p + TREEOBJ_HEADER + 4 * (size_t)i), e);
}

bool treeobj_leaf_find(const void *leaf, size_t dsize, const char *name, size_t namelen,
                       struct treeobj_entry *e)
{
    uint32_t lo = 0, hi = number(leaf);
    const uint8_t *p = leaf;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const uint8_t *q = p + le_get32(p + TREEOBJ_HEADER + 4 * (size_t)mid);
        int r = treeobj_name_cmp(name, namelen, (const char *)q + ENTRY_HEADER, q[1]);
        if (r == 0) {
            read_entry(q, e);
            return true;
        }
        if (r < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return false;
}

bool treeobj_branch_child(const void *branch, size_t dsize, unsigned slot, const uint8_t **digest,
                          uint32_t *count)
{
    uint32_t bitmap = number(branch);
    if (!(bitmap & 1u << slot))
        return false;
    size_t i = (size_t)__builtin_popcount(bitmap & ((1u << slot) - 1));
    const uint8_t *p = (const uint8_t *)branch + TREEOBJ_HEADER + i * (4 + dsize);
    *digest = p + 4;
    if (count)
        *count = le_get32(p);
    return true;
}

const uint8_t *treeobj_blob(const void *blob, size_t objlen, size_t *len)
{
    *len = objlen - TREEOBJ_HEADER;
    return (const uint8_t *)blob + TREEOBJ_HEADER;
}

const uint8_t *treeobj_index(const void *index, uint32_t *n)
{
    *n = number(index);
    return (const uint8_t *)index + TREEOBJ_HEADER;
}

int treeobj_refs(const void *obj, size_t dsize, int (*cb)(const uint8_t *digest, void *arg),
                 void *arg)
{
    int rc = 0;
    if (treeobj_kind(obj) == TREEOBJ_LEAF) {
        uint32_t n = number(obj);
        for (uint32_t i = 0; i < n && rc == 0; i++) {
            struct treeobj_entry e;
            treeobj_leaf_entry(obj, dsize, i, &e);
            if (e.digest)
                rc = cb(e.digest, arg);
        }
    } else if (treeobj_kind(obj) == TREEOBJ_BRANCH) {
        const uint8_t *p = (const uint8_t *)obj + TREEOBJ_HEADER;
        for (int n = __builtin_popcount(number(obj)); n > 0 && rc == 0; n--, p += 4 + dsize)
            rc = cb(p + 4, arg);
    } else if (treeobj_kind(obj) == TREEOBJ_INDEX) {
        uint32_t n;
        const uint8_t *p = treeobj_index(obj, &n);
        for (uint32_t i = 0; i < n && rc == 0; i++, p += dsize)
            rc = cb(p, arg);
    }
    return rc;
}

size_t treeobj_leaf_size(const struct treeobj_entry *e, uint32_t n, size_t dsize)
{
    size_t size = TREEOBJ_HEADER;
    for (uint32_t i = 0; i < n; i++)
        size +=
            4 + ENTRY_HEADER + e[i].namelen + (size_t)tail_size(e[i].type, (size_t)e[i].len, dsize);
    return size;
}

static void header(uint8_t *p, enum treeobj_kind kind, size_t dsize, unsigned depth, uint32_t n)
{
    p[0] = (uint8_t)kind;
    p[1] = 1;
    p[2] = (uint8_t)dsize;
    p[3] = (uint8_t)depth;
    le_put32(p + 4, n);
}

void treeobj_leaf_encode(void *buf, const struct treeobj_entry *e, uint32_t n, size_t dsize,
                         unsigned depth)
{
    uint8_t *base = buf, *p = base + TREEOBJ_HEADER + 4 * (size_t)n;
    header(base, TREEOBJ_LEAF, dsize, depth, n);
    for (uint32_t i = 0; i < n; i++, e++) {
        le_put32(base + TREEOBJ_HEADER + 4 * (size_t)i, (uint32_t)(p - base));
        p[0] = e->type;
        p[1] = e->namelen;
        le_put16(p + 2, e->digest ? 0 : (uint16_t)e->len);
        memcpy(p + ENTRY_HEADER, e->name, e->namelen);
        p += ENTRY_HEADER + e->namelen;
        if (e->type == TREEOBJ_REF || e->type == TREEOBJ_CHUNKED) {
            le_put64(p, e->len);
            p += 8;
        }
        if (e->digest) {
            memcpy(p, e->digest, dsize);
            p += dsize;
        } else if (e->len) {
            memcpy(p, e->data, e->len);
            p += e->len;
        }
    }
}

size_t treeobj_branch_size(const struct treeobj_child child[TREEOBJ_FAN], size_t dsize)
{
    size_t size = TREEOBJ_HEADER;
    for (int i = 0; i < TREEOBJ_FAN; i++)
        size += child[i].digest ? 4 + dsize : 0;
    return size;
}

void treeobj_branch_encode(void *buf, const struct treeobj_child child[TREEOBJ_FAN], size_t dsize,
                           unsigned depth)
{
    uint8_t *p = (uint8_t *)buf + TREEOBJ_HEADER;
    uint32_t bitmap = 0;
    for (unsigned i = 0; i < TREEOBJ_FAN; i++) {
        if (!child[i].digest)
            continue;
        bitmap |= 1u << i;
        le_put32(p, child[i].count);
        memcpy(p + 4, child[i].digest, dsize);
        p += 4 + dsize;
    }
    header(buf, TREEOBJ_BRANCH, dsize, depth, bitmap);
}

void treeobj_blob_header(void *buf)
{
    header(buf, TREEOBJ_BLOB, 0, 0, 0);
}

void treeobj_index_header(void *buf, size_t dsize, unsigned level, uint32_t n)
{
    header(buf, TREEOBJ_INDEX, dsize, level, n);
}

unsigned treeobj_level(uint64_t size)
{
    unsigned level = 0;
    for (uint64_t n = (size + TREEOBJ_CHUNK - 1) / TREEOBJ_CHUNK; n > 1; level++)
        n = (n + TREEOBJ_INDEX_FAN - 1) / TREEOBJ_INDEX_FAN;
    return level;
}
