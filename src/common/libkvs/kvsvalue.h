/* Values: making objects of them, appending, reading parts, comparing.
 *
 * A value of at most 256 bytes is in its entry, one of at most 32768 bytes is a blob, and a longer
 * one is chunks under index objects (treeobj.c).
 *
 * Thread rules: those of the content store.
 */
#ifndef KVS_KVSVALUE_H
#define KVS_KVSVALUE_H

#include "arena.h"
#include "kvs_txn.h"
#include "kvswalk.h"
#include "libcontent/content.h"
#include "treeobj.h"

/* --- making objects: the store only --- */

/* The environment of functions that make objects; filled in by its owner. */
struct kvsmaker {
    content_t *content;
    arena_t *arena;
    size_t dsize;
    /* Keep these bytes as an object (whose children are kept).  NULL with errno. */
    struct content_obj *(*keep)(void *arg, const void *data, size_t len);
    void *arg;
    uint8_t *scratch; /* malloc'd by makers, freed by the owner */
    size_t scratch_size;
    uint32_t epoch; /* an object that was encoded in an earlier epoch is encoded again (kvsdir.c) */
    /* May another leaf be encoded now?  NULL: always. */
    bool (*more)(void *arg);
};

/* Make room for `size` bytes in x->scratch.  0, or -1 with ENOMEM. */
int kvsmaker_fit(struct kvsmaker *x, size_t size);

/* Bytes that were appended to a value and are not yet in an object. */
struct kvspiece {
    const struct kvspiece *prev;
    const uint8_t *data;
    size_t len;
    uint64_t total; /* length of the value up to here */
};

/* Turn *e, a value of any length (as TREEOBJ_VALUE or settled), and the pieces that were appended
 * to it (NULL: none) into an entry for a leaf: sets type, data, digest and len.  However many
 * pieces there are, each of their bytes is hashed once, in addition to the last chunk and the right
 * edge of the index.  0, or -1 with ENOMEM or EIO. */
int kvsvalue_settle(struct kvsmaker *x, const struct kvspiece *tail, struct treeobj_entry *e);

/* Make an entry of `size` bytes from kept chunks: sets type, data, digest and len of *e.  0, or -1
 * with ENOMEM or EIO. */
int kvsvalue_index(struct kvsmaker *x, const uint8_t *digests, size_t n, uint64_t size,
                   struct treeobj_entry *e);

/* Are the bytes here that are needed to append to a value?  0, or -1 with EAGAIN and a digest in
 * `miss`, or EIO. */
int kvsvalue_can_append(content_t *c, const struct treeobj_entry *e, struct kvsmiss *miss,
                        errmsg_t *err);

/* --- reading --- */

/* Read the bytes [offset, offset + len) of a value into `buf` (NULL: only check that they are
 * here).  0; -1 with EAGAIN and all missing objects in `miss` (up to its bound); EINVAL beyond the
 * end; EIO. */
int kvsvalue_read(content_t *c, const struct treeobj_entry *e, uint64_t offset, size_t len,
                  void *buf, struct kvsmiss *miss, errmsg_t *err);

/* Does value `now` begin with all of value `old`?  Compares digests down the right edge of `old`,
 * and the bytes of at most one chunk of each.  1, 0, or -1 as kvsvalue_read(). */
int kvsvalue_begins_with(content_t *c, const struct treeobj_entry *now,
                         const struct treeobj_entry *old, struct kvsmiss *miss, errmsg_t *err);

/* The tag (kvs_txn.h) of an entry of any type.  0, or -1 with EIO (hash). */
int kvsvalue_tag(blobref_t *b, const struct treeobj_entry *e, uint8_t tag[KVS_TAG_SIZE]);

#endif
