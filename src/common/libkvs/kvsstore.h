/* The store: a sequence of roots, each made from the one before by transactions.
 *
 * Pure: no messages, no clock, no input or output.  The master of the key-value store owns one;
 * all its objects are in memory.
 *
 *    kvsstore_begin(s);
 *    for each transaction that waits: kvsstore_apply(s, txn, len, &err);
 *    kvsstore_end(s, &err);             one new root for all that could be applied
 *    while (kvsstore_collect(s, 100)) ... whenever there is time
 *
 * Thread rules: a store belongs to one thread.
 */
#ifndef KVS_KVSSTORE_H
#define KVS_KVSSTORE_H

#include "libcontent/content.h"

typedef struct kvsstore kvsstore_t;

/* A store with an empty root directory, version 0, in `c` (used, not taken over; nobody else may
 * set marks in it).  NULL with ENOMEM or EIO. */
kvsstore_t *kvsstore_create(content_t *c);
void kvsstore_destroy(kvsstore_t *s); /* NULL-safe, keeps errno; before the content store */

const uint8_t *kvsstore_root(const kvsstore_t *s);
uint64_t kvsstore_version(const kvsstore_t *s);

/* Begin a root change.  0, or -1 with ENOMEM or EIO. */
int kvsstore_begin(kvsstore_t *s);
/* Apply a transaction, or a pack of many (kvs_pack.h), as a whole or, with -1 and a sentence, not at
 * all.  `txn` must stay until
 * end(). errno: those of kvs_txn_next(); ENOTDIR, EISDIR, EEXIST, ENOTEMPTY, ENOENT, ELOOP by its
 * operations; ENOMEM, EIO. */
int kvsstore_apply(kvsstore_t *s, const void *txn, size_t len, errmsg_t *err);
/* End it.  1: there is a new root, with the next version; 0: nothing was applied; -1 with ENOMEM or
 * EIO: the root is the old one and all transactions since begin() failed. */
int kvsstore_end(kvsstore_t *s, errmsg_t *err);

/* Give back up to `budget` objects that no root needs any more, and a few for each that was made
 * since the last call, so that who calls this once per root change keeps up with any load.  Some of
 * their bytes may stay as long as the content store's bound allows.  true: there is more to do. */
bool kvsstore_collect(kvsstore_t *s, unsigned budget);

#endif
