/* The key-value store, for clients.
 *
 * Keys are names with dots between them ("job.1.state"); values are bytes, at most 16 MiB.  Changes
 * are made by transactions, which take effect as a whole or not at all; each makes, together with
 * others that came at the same time, a new root of the store, with the next version.
 *
 * What one client, or two that use the same broker, can rely on: who has seen version v never sees
 * an older one (monotonic reads); a client that got the answer to its commit sees it (read your
 * writes).  A client at another broker sees a commit once it has waited for its version, or took
 * part in a fence with it.  This is the causal consistency of the FLUX paper (ICPP 2014).
 *
 *    flux_kvs_txn_t *txn = flux_kvs_txn_create();
 *    flux_kvs_txn_put(txn, "a.b", "hello", &err);
 *    flux_future_t *f = flux_kvs_commit(h, txn);
 *    if (flux_future_wait(f, -1) < 0 || flux_kvs_commit_get(f, &version, NULL, &err) < 0) ...
 *    flux_future_destroy(f);
 *    flux_kvs_txn_destroy(txn);
 *
 * Every call that returns a future may also be used with flux_future_then().  NULL with ENOMEM, or
 * EINVAL or ENAMETOOLONG for a bad key or argument.  Errors of the service come from the _get
 * functions: ENOENT (no such key), ENOTDIR, EISDIR, ELOOP, EINVAL, EHOSTUNREACH (the way to the
 * master is broken), each with a sentence.
 *
 * Thread rules: those of the handle; transactions belong to one thread.
 */
#ifndef FLUX_KVS_H
#define FLUX_KVS_H

#include "libflux/future.h"

/* --- transactions --- */

typedef struct flux_kvs_txn flux_kvs_txn_t;

flux_kvs_txn_t *flux_kvs_txn_create(void);            /* NULL with ENOMEM */
void flux_kvs_txn_destroy(flux_kvs_txn_t *txn);       /* NULL-safe, keeps errno */
void flux_kvs_txn_clear(flux_kvs_txn_t *txn);         /* empty it */
size_t flux_kvs_txn_count(const flux_kvs_txn_t *txn); /* operations in it */

/* Add an operation; they take effect in this order.  Everything is copied.  -1 with EINVAL or
 * ENAMETOOLONG (key), EMSGSIZE (value of more than 16 MiB, transaction of more than 64 MiB),
 * ENOMEM; then nothing was added.  `err` may be NULL. */
/* A text, without its NUL.  Directories on the way are made. */
int flux_kvs_txn_put(flux_kvs_txn_t *txn, const char *key, const char *value, errmsg_t *err);
int flux_kvs_txn_put_raw(flux_kvs_txn_t *txn, const char *key, const void *data, size_t len,
                         errmsg_t *err);
enum {
    FLUX_KVS_RECURSIVE = 1,  /* a directory with everything in it; else it must be empty */
    FLUX_KVS_MUST_EXIST = 2, /* else a key that is not there is no error */
};
int flux_kvs_txn_unlink(flux_kvs_txn_t *txn, const char *key, int flags, errmsg_t *err);
int flux_kvs_txn_mkdir(flux_kvs_txn_t *txn, const char *key, errmsg_t *err);
/* `target` is a key from the root; it need not exist. */
int flux_kvs_txn_symlink(flux_kvs_txn_t *txn, const char *key, const char *target, errmsg_t *err);

/* Send it to the master.  `txn` (NULL: empty) may be changed or destroyed after this. */
flux_future_t *flux_kvs_commit(flux_t *h, const flux_kvs_txn_t *txn);
/* The same together with others: takes effect, in one root change with theirs, when `nprocs` calls
 * with this name were made in the session; all get the same version.  Order among them is not
 * defined.  When a participant disconnects or its broker is lost before that, the fence fails for
 * all (ECONNABORTED); a call with another nprocs fails alone (EINVAL).  The name may be used again
 * once the fence is over; after one that failed, calls that would make up its number fail too for
 * two minutes, since they may be late ones, so better use another.  A name has 1 to 255 printable characters. */
flux_future_t *flux_kvs_fence(flux_t *h, const char *name, uint32_t nprocs,
                              const flux_kvs_txn_t *txn);
/* Result of both, and of version and wait_version.  `version` and `rootref` may be NULL; the
 * reference lives as long as the result. */
int flux_kvs_commit_get(flux_future_t *f, uint64_t *version, const char **rootref, errmsg_t *err);

/* --- versions --- */

flux_future_t *flux_kvs_version(flux_t *h);
/* Ready when the local broker has reached `version`.  Destroying the future cancels. */
flux_future_t *flux_kvs_wait_version(flux_t *h, uint64_t version);

/* --- reading --- */

enum flux_kvs_type { FLUX_KVS_VALUE = 1, FLUX_KVS_DIR = 4, FLUX_KVS_LINK = 5 };
enum {
    FLUX_KVS_READLINK =
        1, /* lookup: a symbolic link at the end is the answer, not what it leads to */
    FLUX_KVS_VALUES = 2, /* readdir: with values */
};

/* Look up a value (or, with FLUX_KVS_READLINK, a link).  `rootref`: at that root (ENOENT when it is
 * no longer kept), NULL: now. */
flux_future_t *flux_kvs_lookup(flux_t *h, const char *key, int flags, const char *rootref);
/* The value.  The bytes are followed by a NUL that does not count, and live as long as the result.
 * EISDIR for a directory. */
int flux_kvs_lookup_get(flux_future_t *f, const char **data, size_t *len, errmsg_t *err);
/* What it is, and at which version that was so (0: at a given root).  Either may be NULL. */
int flux_kvs_lookup_get_type(flux_future_t *f, enum flux_kvs_type *type, uint64_t *version,
                             errmsg_t *err);

/* All entries of a directory ("." is the root) in one answer. */
flux_future_t *flux_kvs_readdir(flux_t *h, const char *key, int flags, const char *rootref);
struct flux_kvs_dirent {
    char name[256];
    enum flux_kvs_type type;
    size_t size; /* value: bytes; link: bytes of its target */
    const char
        *data; /* the value, when asked for; a link's target; else NULL.  Not NUL-terminated. */
};
/* Go through them, in no order: set *pos to 0 and call until it returns 0.  1 with *e; -1 with an
 * error. e->data lives as long as the result. */
int flux_kvs_readdir_next(flux_future_t *f, size_t *pos, struct flux_kvs_dirent *e, errmsg_t *err);
/* How many there are; -1 with an error. */
ssize_t flux_kvs_readdir_count(flux_future_t *f, errmsg_t *err);

/* Watch a key: a stream with what it is now, and again whenever that has changed (changes that come
 * close together may come as one).  Results are read with flux_kvs_lookup_get() for a value and
 * with flux_kvs_readdir_next() for a directory (its entries, not what is below); a key that is not
 * there is a result with ENOENT that does not end the stream: see flux_kvs_watch_absent().
 * flux_future_next() goes to the next one; destroying the future cancels.  flags: FLUX_KVS_VALUES
 * for directories. */
flux_future_t *flux_kvs_watch(flux_t *h, const char *key, int flags);
/* Is the result at hand "not there (any more)"? */
bool flux_kvs_watch_absent(flux_future_t *f);

#endif
