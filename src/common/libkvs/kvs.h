/* The key-value store, for clients.
 *
 * Keys are names with dots between them ("job.1.state"); values are bytes.  Changes are made by
 * transactions, which take effect as a whole or not at all; together with others that
 * arrive at the same time, each makes a new root of the store, with the next version.
 *
 * Guarantees for one client, or for two clients of the same broker: after seeing version v, they
 * never see an older one (monotonic reads); a client sees its commit once it has the response (read
 * your writes).  A client at another broker sees a commit once it has waited for its version, or
 * took part in a fence with it.  This is the causal consistency of the FLUX paper (ICPP 2014).
 *
 *    flux_kvs_txn_t *txn = flux_kvs_txn_create();
 *    flux_kvs_txn_put(txn, "a.b", "hello", &err);
 *    flux_future_t *f = flux_kvs_commit(h, NULL, txn);
 *    if (flux_future_wait(f, -1) < 0 || flux_kvs_commit_get(f, &version, NULL, &err) < 0) ...
 *    flux_future_destroy(f);
 *    flux_kvs_txn_destroy(txn);
 *
 * A session has any number of namespaces.  Each is a separate store, with its own keys, roots and
 * versions, and a master at a rank that is chosen when it is created.  `ns` names one (1 to 64
 * letters, digits, '.', '_', '-'); NULL is "primary", which always exists, with its master at
 * rank 0.
 *
 * Every call that returns a future may also be used with flux_future_then().  NULL with ENOMEM, or
 * EINVAL or ENAMETOOLONG for a bad key or argument.  Errors of the service come from the _get
 * functions: ENOENT (no such key or namespace), ENOTDIR, EISDIR, ELOOP, EINVAL, EPERM (a namespace
 * of another user), EHOSTUNREACH (the path to the master is broken), each with an error message.
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
/* A string, without its NUL.  Missing directories are created. */
int flux_kvs_txn_put(flux_kvs_txn_t *txn, const char *key, const char *value, errmsg_t *err);
int flux_kvs_txn_put_raw(flux_kvs_txn_t *txn, const char *key, const void *data, size_t len,
                         errmsg_t *err);
/* Append bytes to a value, which is created if it does not exist.  The cost does not depend on
 * the length of the value. */
int flux_kvs_txn_append(flux_kvs_txn_t *txn, const char *key, const void *data, size_t len,
                        errmsg_t *err);
enum {
    FLUX_KVS_RECURSIVE = 1,  /* also a directory that is not empty, with its contents */
    FLUX_KVS_MUST_EXIST = 2, /* fail if the key does not exist */
};
int flux_kvs_txn_unlink(flux_kvs_txn_t *txn, const char *key, int flags, errmsg_t *err);
int flux_kvs_txn_mkdir(flux_kvs_txn_t *txn, const char *key, errmsg_t *err);
/* Make a symbolic link to `target`, a key from the root, which need not exist. */
int flux_kvs_txn_symlink(flux_kvs_txn_t *txn, const char *key, const char *target, errmsg_t *err);
/* Copy or move `from` (a value, a link, or a directory with all its contents) to `to`, by
 * reference: the cost does not depend on the size.  ENOENT at the commit if `from` does not exist,
 * EINVAL when `to` is inside of a moved directory, EISDIR when `to` is a directory. */
int flux_kvs_txn_copy(flux_kvs_txn_t *txn, const char *from, const char *to, errmsg_t *err);
int flux_kvs_txn_move(flux_kvs_txn_t *txn, const char *from, const char *to, errmsg_t *err);
/* The whole commit fails with EAGAIN unless, at this place in the transaction, the key has the
 * version that `tag` names (from a look-up with FLUX_KVS_TAG).  `tag` NULL: unless the key does not
 * exist. */
int flux_kvs_txn_guard(flux_kvs_txn_t *txn, const char *key, const char *tag, errmsg_t *err);
/* Put a value of `size` bytes whose chunks were stored with flux_kvs_store(): `digests` are those
 * of all its chunks, `n` times `dsize` bytes.  The commit fails with ENOENT if the store does not
 * have a chunk, or no longer has it.  flux_kvs_writer (kvs_stream.h) does all of this. */
int flux_kvs_txn_put_chunks(flux_kvs_txn_t *txn, const char *key, uint64_t size,
                            const void *digests, size_t n, size_t dsize, errmsg_t *err);

/* The errno of a commit or fence whose outcome is not known: the disk failed while it was being
 * made durable.  It is not in effect now, but can be after a crash, unless a later commit succeeds
 * before. */
#define FLUX_KVS_UNKNOWN EREMOTEIO

/* Commit a transaction.  `txn` (NULL: empty) may be changed or destroyed after the call. */
flux_future_t *flux_kvs_commit(flux_t *h, const char *ns, const flux_kvs_txn_t *txn);
/* The same, but if the session has a statedir, the response is sent only when the change is on
 * disk, also with kvs.sync=interval.  Use it before actions outside of the store that must not be
 * repeated.  With kvs.sync=interval, other clients see the change earlier, and a failed write is
 * retried before the response is sent. */
flux_future_t *flux_kvs_commit_durable(flux_t *h, const char *ns, const flux_kvs_txn_t *txn);
/* Commit together with other participants: the transactions take effect in a single root change
 * when `nprocs` calls with this name were made in the session; all get the same version.  The order
 * among them is undefined, and so is the order of puts of one call that reach the same key by
 * different names, through symbolic links.  When a participant disconnects or its broker is lost
 * before that, the fence fails for all (ECONNABORTED); a call with another nprocs fails alone
 * (EINVAL).  The name can be reused when the fence is over: a process that has its result and calls
 * again enters the next fence.  After a failed fence, as many calls as it lacked also fail if they
 * come from processes that have not been notified of its end (for two minutes, or until the next
 * fence is complete), because they may belong to the failed one.  Such a process only has to call
 * again.  A name has 1 to 255 printable characters. */
flux_future_t *flux_kvs_fence(flux_t *h, const char *ns, const char *name, uint32_t nprocs,
                              const flux_kvs_txn_t *txn);
/* The same, with the `ranks` of the participants: an idset like "0-3,7", or NULL if unknown.
 * When one of the ranks that any call has named is lost, or was lost before, the fence fails for
 * all with an error message that names it.  When no call names ranks, a rank is lost, and the fence
 * is still incomplete after kvs.fence-grace (a setting; 1 minute), it fails for all, because the
 * rank may have had a participant whose call was lost with it.  NULL with EINVAL also when `ranks`
 * is longer than 1 MiB. */
flux_future_t *flux_kvs_fence_ranks(flux_t *h, const char *ns, const char *name, uint32_t nprocs,
                                    const char *ranks, const flux_kvs_txn_t *txn);
/* Result of a commit or fence, and of version, wait_version and snapshot.  `version` and `rootref`
 * may be NULL; the reference is valid as long as the result. */
int flux_kvs_commit_get(flux_future_t *f, uint64_t *version, const char **rootref, errmsg_t *err);

/* --- versions --- */

flux_future_t *flux_kvs_version(flux_t *h, const char *ns);
/* Ready when the local broker has reached `version`.  Destroying the future cancels the request. */
flux_future_t *flux_kvs_wait_version(flux_t *h, const char *ns, uint64_t version);
/* Keep a root: look-ups at it work until the future is destroyed (or the client or a broker on the
 * path is lost).  `rootref` NULL: the newest; ENOENT when it is no longer kept. */
flux_future_t *flux_kvs_snapshot(flux_t *h, const char *ns, const char *rootref);

/* --- reading --- */

enum flux_kvs_type { FLUX_KVS_VALUE = 1, FLUX_KVS_DIR = 4, FLUX_KVS_LINK = 5 };
enum {
    /* lookup: return a symbolic link itself, not its target */
    FLUX_KVS_READLINK = 1,
    FLUX_KVS_VALUES = 2,        /* readdir, watch: entries with their values */
    FLUX_KVS_TAG = 4,           /* lookup: with the key's tag */
    FLUX_KVS_INFO = 8,          /* lookup: for flux_kvs_lookup_get_info() only, without the bytes */
    FLUX_KVS_WATCH_APPEND = 32, /* watch: only the new bytes of a growing value */
    FLUX_KVS_WATCH_DIFF = 64,   /* watch: the changes of a directory, at any depth */
};

/* Look up a value (or, with FLUX_KVS_READLINK, a link).  `rootref`: at that root (ENOENT when it is
 * no longer kept), NULL: now.  EFBIG for a value of more than 16 MiB: look it up in ranges. */
flux_future_t *flux_kvs_lookup(flux_t *h, const char *ns, const char *key, int flags,
                               const char *rootref);
/* Bytes `offset` to `offset + len` of a value, or those that exist; len is at most 1 MiB.
 * Several look-ups are consistent only at one root: see flux_kvs_snapshot(). */
flux_future_t *flux_kvs_lookup_range(flux_t *h, const char *ns, const char *key,
                                     const char *rootref, uint64_t offset, uint32_t len);
/* The value.  The bytes are followed by a NUL that does not count, and are valid as long as the
 * result. EISDIR for a directory. */
int flux_kvs_lookup_get(flux_future_t *f, const char **data, size_t *len, errmsg_t *err);
#define FLUX_KVS_TAG_MAX 72
struct flux_kvs_info {
    enum flux_kvs_type type;
    uint64_t version; /* the version in which the key had this value; 0: look-up at a given root */
    uint64_t size;    /* bytes of the whole value or link, entries of the directory */
    char tag[FLUX_KVS_TAG_MAX]; /* "" unless FLUX_KVS_TAG was given */
};
int flux_kvs_lookup_get_info(flux_future_t *f, struct flux_kvs_info *info, errmsg_t *err);

/* All entries of a directory ("." is the root) in one response.  EMSGSIZE when they do not fit in
 * 128 MiB: use pages. */
flux_future_t *flux_kvs_readdir(flux_t *h, const char *ns, const char *key, int flags,
                                const char *rootref);
/* All entries; a value of at most `max` bytes (1 or more) is included, of other values only the
 * size. */
flux_future_t *flux_kvs_readdir_small(flux_t *h, const char *ns, const char *key, uint32_t max,
                                      const char *rootref);
/* At most `count` entries, those after the name `after` (NULL: from the beginning), in an order
 * that is always the same.  Pages are consistent only at one root: see flux_kvs_snapshot(). */
flux_future_t *flux_kvs_readdir_page(flux_t *h, const char *ns, const char *key, int flags,
                                     const char *rootref, const char *after, uint32_t count);
struct flux_kvs_dirent {
    char name[256];
    enum flux_kvs_type type;
    uint64_t size; /* value: bytes; link: bytes of its target */
    /* The value, if it was requested; the target of a link; else NULL.  Not NUL-terminated. */
    const char *data;
};
/* Iterate over the entries, in no particular order: set *pos to 0 and call until it returns 0.  1
 * with *e; -1 with an error. e->data is valid as long as the result. */
int flux_kvs_readdir_next(flux_future_t *f, size_t *pos, struct flux_kvs_dirent *e, errmsg_t *err);
/* Number of entries in this result; -1 with an error. */
ssize_t flux_kvs_readdir_count(flux_future_t *f, errmsg_t *err);
/* Are there entries after this page? */
bool flux_kvs_readdir_more(flux_future_t *f);

/* Watch a key: a stream with its contents now and after every change (changes in quick succession
 * may be merged into one result).  Results are read with flux_kvs_lookup_get() for a value and with
 * flux_kvs_readdir_next() for a directory (its entries, not those of directories below it); a key
 * that does not exist is a result with ENOENT that does not end the stream: see
 * flux_kvs_watch_absent(). flux_future_next() goes to the next result; destroying the future
 * cancels the stream.
 *
 * flags: FLUX_KVS_VALUES for directories.  FLUX_KVS_WATCH_APPEND: results after the first have only
 * the bytes that were added, unless flux_kvs_watch_whole() says that the value was replaced.
 * FLUX_KVS_WATCH_DIFF: results have the entries below a directory that were added, changed or
 * removed, read with flux_kvs_change_next(); the first result has all entries, as added. */
flux_future_t *flux_kvs_watch(flux_t *h, const char *ns, const char *key, int flags);
/* Does the current result say that the key does not exist? */
bool flux_kvs_watch_absent(flux_future_t *f);
/* Is the current result the value from its beginning? */
bool flux_kvs_watch_whole(flux_future_t *f);
enum flux_kvs_change_type { FLUX_KVS_ADDED = 1, FLUX_KVS_CHANGED, FLUX_KVS_REMOVED };
struct flux_kvs_change {
    char key[1025]; /* from the watched directory on */
    enum flux_kvs_change_type change;
    enum flux_kvs_type type; /* type of the entry; of a removed entry, its former type */
    uint64_t size;
    const char *data; /* as in flux_kvs_dirent */
};
int flux_kvs_change_next(flux_future_t *f, size_t *pos, struct flux_kvs_change *c, errmsg_t *err);

/* --- large values --- */

#define FLUX_KVS_CHUNK 32768
#define FLUX_KVS_STORE_MAX (1024 * 1024)
/* Send a piece of a value to the master: 1 to FLUX_KVS_STORE_MAX bytes, of which each
 * FLUX_KVS_CHUNK are one chunk; only the last chunk of a value may be shorter.  Chunks are kept for
 * ten minutes, or as long as a value has them.  EAGAIN: the master has no room, try again. */
flux_future_t *flux_kvs_store(flux_t *h, const char *ns, const void *data, size_t len);
/* Digests of the chunks, `*n` times `*dsize` bytes, which are valid as long as the result. */
int flux_kvs_store_get(flux_future_t *f, const uint8_t **digests, size_t *n, size_t *dsize,
                       errmsg_t *err);

/* --- namespaces --- */

#define FLUX_KVS_OWNER_SELF 0xffffffffu
/* Create an empty namespace with its master at `rank`.  Only its owner (a user id) and the owner of
 * the session can read, change or remove it.  EEXIST, EPERM, EHOSTUNREACH. */
flux_future_t *flux_kvs_namespace_create(flux_t *h, const char *ns, uint32_t owner, uint32_t rank);
/* Remove a namespace with its contents; its watchers and waiting requests get ENOENT.  EPERM also
 * for "primary".  Results of both: flux_rpc_get(). */
flux_future_t *flux_kvs_namespace_remove(flux_t *h, const char *ns);
flux_future_t *flux_kvs_namespace_list(flux_t *h);
struct flux_kvs_namespace {
    char name[65];
    uint32_t owner;
    uint32_t rank;
    bool lost; /* the broker of its master is lost, and so are its contents */
};
/* Iterate over the namespaces: set *pos to 0 and call until it returns 0.  1 with *n; -1 with an
 * error. */
int flux_kvs_namespace_next(flux_future_t *f, size_t *pos, struct flux_kvs_namespace *n,
                            errmsg_t *err);

#endif
