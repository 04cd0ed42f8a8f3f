/* The store: a sequence of roots, each made from the preceding one by transactions.
 *
 * It sends no messages, reads no clock, and does no I/O.  The master of a namespace owns one, with
 * a content store of its own; a process may have several.
 *
 *    kvsstore_begin(s);
 *    for each waiting transaction: kvsstore_apply(s, txn, len, &err);
 *    kvsstore_end(s, &err);             one new root for all transactions that could be applied
 *    while (kvsstore_collect(s, 100)) ... whenever there is time
 *
 * With kvsstore_pace() the caller has apply(), end() and load_root() return KVSSTORE_MORE when a
 * slice of time is over, and calls them again.  Meanwhile the old root can be read, and chunks can
 * be uploaded.
 *
 * Thread rules: a store belongs to one thread.
 */
#ifndef KVS_KVSSTORE_H
#define KVS_KVSSTORE_H

#include "kvswalk.h"
#include "libcontent/content.h"

typedef struct kvsstore kvsstore_t;
typedef struct kvsstore_client kvsstore_client_t;

/* Create a store with an empty root directory, version 0, in `c` (used, not taken over; no other
 * code may keep objects in it).  NULL with ENOMEM or EIO. */
kvsstore_t *kvsstore_create(content_t *c);
void kvsstore_destroy(kvsstore_t *s); /* NULL-safe, keeps errno; before the content store */

const uint8_t *kvsstore_root(const kvsstore_t *s);
uint64_t kvsstore_version(const kvsstore_t *s);

/* --- root changes --- */

#define KVSSTORE_MORE 2

/* Begin a root change.  0, or -1 with ENOMEM or EIO.  Until its end nothing is collected, and the
 * content store is frozen (content_freeze()). */
int kvsstore_begin(kvsstore_t *s);
/* Call `more` before every few steps (a step takes about a microsecond, or makes one object), and
 * pause when it returns false.  It must return true at its first call in each slice.  NULL: never
 * pause. */
void kvsstore_pace(kvsstore_t *s, bool (*more)(void *arg), void *arg);
/* Abandon the root change: the root stays as it is. */
void kvsstore_cancel(kvsstore_t *s);
/* Allow transactions (or forbid them, as at first) to copy and move directories so that keys exceed
 * the limits.  Earlier versions permitted that, and the replay of their journals must lead to the
 * same roots. */
void kvsstore_allow_long_keys(kvsstore_t *s, bool allow);
/* Apply a transaction, or a pack of many (kvs_pack.h), as a whole or, with -1 and an error message,
 * not at all.  KVSSTORE_MORE: it is applied in part; call again with the same arguments, before any
 * other function but cancel().  `txn` must stay until end().  errno: those of kvs_txn_next() and
 * kvs_pack_next(); ENOTDIR, EISDIR, EEXIST, ENOTEMPTY, ENOENT, ELOOP, EFBIG, EINVAL by its
 * operations; EAGAIN for a guard that does not match; ENOMEM, EIO; ENODATA when bytes of a value
 * are needed that are only on disk: supply the objects of kvsstore_missing() and apply the
 * transaction again. */
int kvsstore_apply(kvsstore_t *s, const void *txn, size_t len, errmsg_t *err);
/* The objects that the last apply() needs, if it failed with ENODATA.  Hold them until it has
 * succeeded. */
const struct kvsmiss *kvsstore_missing(const kvsstore_t *s);
/* End the root change.  1: there is a new root, with the next version; 0: no transaction was
 * applied; KVSSTORE_MORE: call again; -1 with ENOMEM or EIO: the root is the old one and all
 * transactions since begin() failed. */
int kvsstore_end(kvsstore_t *s, errmsg_t *err);

/* Between begin() and end(): false.  Otherwise release up to `budget` objects that no root needs
 * any more, plus three for each object created since the last call, so that a caller that does this
 * once per root change keeps up with any load.  Their bytes may stay in the content store within
 * its limit.  true: there are more.  When the last one is released after many others, memory is
 * returned to the system. */
bool kvsstore_collect(kvsstore_t *s, unsigned budget);
/* Is collection, which kvsstore_pace() slows down, so far behind that it has to come first? */
bool kvsstore_collect_first(const kvsstore_t *s);

/* --- snapshots --- */

/* Keep all objects that a root reaches, until it is released as often as it was held.  -1 with
 * ENOENT and an error message if it is no longer kept: past roots are kept until they are
 * collected. */
int kvsstore_hold_root(kvsstore_t *s, const uint8_t *digest, errmsg_t *err);
void kvsstore_release_root(kvsstore_t *s, const uint8_t *digest);
/* Go back (or on) to a root that is held.  Not between begin() and end().  -1 with ENOENT. */
int kvsstore_reset(kvsstore_t *s, const uint8_t *root, uint64_t version, errmsg_t *err);

/* --- chunks that come before the transaction that names them --- */

/* Keep 1 to KVS_CHUNK bytes of a value.  They stay until a transaction with KVS_OP_PUTCHUNKS refers
 * to them (each such reference takes back one upload), or until they expire, or until all clients
 * that uploaded them are gone; `stamp` is the caller's clock, which never goes back.  `client`
 * NULL: the upload belongs to no client. 0 with the digest; -1 with an error message and EINVAL,
 * ENOMEM, EIO, ENOBUFS (the bound of all uploads, or of this client's uploads, is reached). */
int kvsstore_upload(kvsstore_t *s, kvsstore_client_t *client, const void *data, size_t len,
                    uint32_t stamp, uint8_t *digest, errmsg_t *err);
/* A client that uploads.  NULL with ENOMEM. */
kvsstore_client_t *kvsstore_client_create(kvsstore_t *s);
/* Destroy it, and release the uploads that no other client shares.  NULL-safe; before the store. */
void kvsstore_client_destroy(kvsstore_client_t *c);
/* Release up to `max` of its uploads before that.  True: there are more. */
bool kvsstore_client_let_go(kvsstore_client_t *c, size_t max);
/* Release up to `max` uploads with a stamp less than `before`.  Returns their number. */
size_t kvsstore_upload_expire(kvsstore_t *s, uint32_t before, size_t max);

/* --- persistence ---
 *
 * Each kept object is on disk, or being written, or dirty.  The caller stores objects as follows:
 *
 *    kvsstore_hold_root(s, root)            the root of the checkpoint
 *    kvsstore_checkpoint(s)
 *    while ((o = kvsstore_checkpoint_next(s)))     a few at a time
 *        write o->data; once it is written: kvsstore_written(s, o, true)
 *    record the root; release the root of the preceding checkpoint
 *
 * Then all objects that the root reaches are on disk.  `dead` is called for an object on disk that
 * is collected, so that the caller deletes it there.  Writes and deletions must be done in the
 * order of the calls, because the same object may be collected, kept again and written again.  An
 * object that the last recorded root reaches is not collected as long as that root is held.
 */

/* `dead` is called from kvsstore_collect() and must not call the store.  NULL: no function. */
void kvsstore_on_dead(kvsstore_t *s, void (*dead)(void *arg, const uint8_t *digest), void *arg);
/* Begin a checkpoint: kvsstore_checkpoint_next() will return the objects that are dirty now. */
void kvsstore_checkpoint(kvsstore_t *s);
/* The next object to be written.  It and its bytes stay until kvsstore_written().  NULL: there are
 * no more. */
struct content_obj *kvsstore_checkpoint_next(kvsstore_t *s);
/* Return an object to be written now (an uploaded chunk).  NULL with ENOENT when it is not kept,
 * EALREADY when it is on disk or being written. */
struct content_obj *kvsstore_write_now(kvsstore_t *s, const uint8_t *digest);
/* The object was written; or with `ok` false, the write failed and the object is dirty again.  The
 * bytes of a blob on disk (of CONTENT_SEPARATE bytes or more) may leave memory when the content
 * store is trimmed; content_supply() brings them back. */
void kvsstore_written(kvsstore_t *s, struct content_obj *o, bool ok);

/* Load a store from disk: into a fresh store, each object in any order, and then the root.
 *
 * `data` NULL: the object is a blob whose bytes stay on disk (of CONTENT_SEPARATE bytes or more
 * with its header).  -1 with EIO and an error message when it is damaged (it has another hash, or
 * is not an object); EINVAL, ENOMEM. */
int kvsstore_load(kvsstore_t *s, const uint8_t *digest, const void *data, size_t len,
                  errmsg_t *err);
/* All objects are loaded: count references, and take the root.  0; KVSSTORE_MORE: call again with
 * the same arguments; -1 with EIO and an error message with the key that needs a missing object, or
 * ENOMEM: destroy the store.  Objects that no root needs are collected after this, and so reported
 * to `dead`. */
int kvsstore_load_root(kvsstore_t *s, const uint8_t *root, uint64_t version, errmsg_t *err);

struct kvsstore_stats {
    size_t kept; /* objects that roots (and uploads) reach, and those that are to be collected */
    size_t dirty, dirty_bytes; /* those of them that are neither on disk nor being written */
    size_t writing;
    size_t held; /* calls of kvsstore_hold_root() that were not released */
    size_t uploads;
    uint64_t upload_bytes;
    uint64_t collected; /* objects released so far */
};
void kvsstore_get_stats(const kvsstore_t *s, struct kvsstore_stats *st);

#endif
