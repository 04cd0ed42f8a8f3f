/* Tree objects: the bytes of directories and large values (format: treeobj.c and
 * doc/kvs-objects.rst).
 *
 * Objects are read in place: check received bytes once with treeobj_check(), then use the
 * accessors. `dsize` is the size of a digest, the same for all objects of a store.
 *
 * Thread rules: any thread.
 */
#ifndef KVS_TREEOBJ_H
#define KVS_TREEOBJ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvs_txn.h"
#include "libutil/errmsg.h"

#define TREEOBJ_HEADER 8
#define TREEOBJ_INLINE_MAX 256  /* longest value kept in its entry */
#define TREEOBJ_FAN 16          /* children of a branch */
#define TREEOBJ_LEAF_MAX 32     /* entries of a leaf above the deepest level */
#define TREEOBJ_DEPTH_MAX 16    /* a leaf there has any number of entries */
#define TREEOBJ_CHUNK KVS_CHUNK /* bytes of a value in a full blob; a longer value has an index */
#define TREEOBJ_INDEX_FAN 128   /* children of an index */
#define TREEOBJ_LEVEL_MAX 4     /* of an index; its children are blobs at level 1 */

enum treeobj_kind {
    TREEOBJ_LEAF = 1,
    TREEOBJ_BRANCH = 2,
    TREEOBJ_BLOB = 3,
    TREEOBJ_INDEX = 4,
};
enum treeobj_type {
    TREEOBJ_VALUE = 1,   /* data, len */
    TREEOBJ_REF = 2,     /* digest of a blob, len is the value's size */
    TREEOBJ_CHUNKED = 3, /* digest of an index, len is the value's size */
    TREEOBJ_DIR = 4,     /* digest of a leaf or branch */
    TREEOBJ_LINK = 5,    /* data, len: a key */
};

struct treeobj_entry {
    const char *name;
    uint64_t len;
    const uint8_t *data;
    const uint8_t *digest;
    uint8_t namelen;
    uint8_t type;
};
static inline bool treeobj_is_value(const struct treeobj_entry *e)
{
    return e->type == TREEOBJ_VALUE || e->type == TREEOBJ_REF || e->type == TREEOBJ_CHUNKED;
}

/* Are these bytes an object, in its only encoding?  0, or -1 with EPROTO and an error message. */
int treeobj_check(const void *data, size_t len, size_t dsize, errmsg_t *err);

/* The functions below require checked objects. */
enum treeobj_kind treeobj_kind(const void *obj);
unsigned treeobj_depth(const void *obj);
/* Number of entries in the (sub)directory of a leaf or branch. */
uint32_t treeobj_count(const void *obj, size_t dsize);

void treeobj_leaf_entry(const void *leaf, size_t dsize, uint32_t i, struct treeobj_entry *e);
bool treeobj_leaf_find(const void *leaf, size_t dsize, const char *name, size_t namelen,
                       struct treeobj_entry *e);
/* Child number `slot` of a branch; false when the slot is empty. */
bool treeobj_branch_child(const void *branch, size_t dsize, unsigned slot, const uint8_t **digest,
                          uint32_t *count);
const uint8_t *treeobj_blob(const void *blob, size_t objlen, size_t *len);
/* An index: its number of children, and their digests, one after the other. */
const uint8_t *treeobj_index(const void *index, uint32_t *n);
/* Call back with each digest in the object, until the callback returns nonzero; returns that. */
int treeobj_refs(const void *obj, size_t dsize, int (*cb)(const uint8_t *digest, void *arg),
                 void *arg);

/* The place of a name in the trie: four bits per level, from the highest. */
uint64_t treeobj_hash(const char *name, size_t namelen);
static inline unsigned treeobj_slot(uint64_t hash, unsigned depth)
{
    return (unsigned)(hash >> (60 - 4 * depth)) & 15;
}
/* Order of entries in a leaf: by bytes, the shorter first. */
int treeobj_name_cmp(const char *a, size_t alen, const char *b, size_t blen);

/* Encoding.  Entries are sorted and distinct.  Call the size function first, then encode into a
 * buffer of that size. */
size_t treeobj_leaf_size(const struct treeobj_entry *e, uint32_t n, size_t dsize);
void treeobj_leaf_encode(void *buf, const struct treeobj_entry *e, uint32_t n, size_t dsize,
                         unsigned depth);
struct treeobj_child {
    const uint8_t *digest; /* NULL: none */
    uint32_t count;
};
size_t treeobj_branch_size(const struct treeobj_child child[TREEOBJ_FAN], size_t dsize);
void treeobj_branch_encode(void *buf, const struct treeobj_child child[TREEOBJ_FAN], size_t dsize,
                           unsigned depth);
void treeobj_blob_header(void *buf); /* TREEOBJ_HEADER bytes, before the value */
/* Header of an index of `n` children, before their digests. */
void treeobj_index_header(void *buf, size_t dsize, unsigned level, uint32_t n);
/* Level of the index over a value of `size` bytes; 0: it has none. */
unsigned treeobj_level(uint64_t size);

#endif
