/* kvs_storage.h - the interface between the kvs module and a driver, which keeps the store on disk.
 *
 * A driver is a shared object beside the modules (content-sqlite.so) that defines
 * `kvs_storage_driver`.  The module loads it only if the session has a statedir, so that other
 * sessions do not load its libraries.
 *
 * The driver has a thread of its own.  The module fills in a request, submits it, and goes on.
 * When the request has been executed, the driver's descriptor becomes readable, and dispatch()
 * calls the request's done() in the module's thread.  Requests take effect in the order in which
 * they were submitted, and all writes that wait are made durable together (group commit).
 *
 *    request      what the driver does                                  durable at done()
 *    OPEN         open or create the file; must be the first request    yes
 *    NAMESPACES   read all namespaces                                   -
 *    NODES        read tree objects (leaves, branches, indexes), paged  -
 *    BLOBS        read the digests and sizes of blobs, and small blobs  -
 *                 themselves, paged
 *    ROWS         read the journal of a namespace, paged                -
 *    LOAD         read one object                                       -
 *    CREATE       create a namespace                                    yes
 *    REMOVE       remove a namespace; its space is freed gradually      yes
 *    JOURNAL      add a row: the transactions that made a root          yes
 *    STORE        add objects                                           with the next durable write
 *    DELETE       delete objects                                        with the next durable write
 *    CHECKPOINT   record a root, all of whose objects are stored; the   yes
 *                 rows up to it become obsolete
 *    RESUME       accept writes again after one that failed             -
 *
 * Failure: if a write fails, all writes of its group and all later writes fail with the same error
 * until the next RESUME, since changes that build on the failed write must not be kept without it.
 * Reads go on. errno: ENOSPC (no room), EIO (the disk fails, or the file is damaged), EBUSY
 * (another session uses the file), EINVAL (not a file of this format, or another hash), EEXIST
 * (another file has taken its place), ENOENT (no such object or namespace), ENOMEM, or the errno of
 * a system call; each with an error message.  KVS_STORAGE_UNKNOWN: a write failed, and it is not
 * known whether the file contains it after a crash; the error message says what failed.  After a
 * later JOURNAL, CREATE, REMOVE or CHECKPOINT has succeeded, or the file was closed in order, the
 * file does not contain it.
 *
 * Thread rules: all functions belong to one thread, that of the module.  Memory to which a request
 * points must not change until done() is called, since the driver's thread reads it in place.
 */
#ifndef KVS_STORAGE_H
#define KVS_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "libcontent/blobref.h"
#include "libutil/errmsg.h"
#include "libutil/list.h"

#define KVS_STORAGE_ABI 3
/* The errno of a write whose outcome is not known: FLUX_KVS_UNKNOWN. */
#define KVS_STORAGE_UNKNOWN EREMOTEIO
/* The name of the file in its directory. */
#define KVS_STORAGE_FILE "content.sqlite"
/* The largest id and version of a namespace (they share 63 bits in the file). */
#define KVS_STORAGE_NS_MAX ((1u << 23) - 1)
#define KVS_STORAGE_VERSION_MAX ((1ull << 40) - 1)

typedef struct kvs_storage kvs_storage_t;

enum kvs_storage_op {
    KVS_STORAGE_OPEN = 1,
    KVS_STORAGE_NAMESPACES,
    KVS_STORAGE_NODES,
    KVS_STORAGE_BLOBS,
    KVS_STORAGE_ROWS,
    KVS_STORAGE_LOAD,
    KVS_STORAGE_CREATE,
    KVS_STORAGE_REMOVE,
    KVS_STORAGE_JOURNAL,
    KVS_STORAGE_STORE,
    KVS_STORAGE_DELETE,
    KVS_STORAGE_CHECKPOINT,
    KVS_STORAGE_RESUME,
};

static inline bool kvs_storage_is_write(enum kvs_storage_op op)
{
    return op >= KVS_STORAGE_CREATE && op <= KVS_STORAGE_CHECKPOINT;
}

/* An object to be stored, or (data NULL) deleted or loaded. */
struct kvs_storage_obj {
    const uint8_t *digest;
    const void *data;
    size_t len;
    bool blob; /* its kind is blob; ignored when it is deleted */
};

struct kvs_storage_req {
    enum kvs_storage_op op;
    uint32_t
        ns; /* id of the namespace; 0 with OPEN, NAMESPACES, RESUME.  CREATE: set by the driver */
    /* CREATE */
    const char *name;
    uint32_t owner;
    /* CREATE, JOURNAL, CHECKPOINT: a root.  CREATE: NULL is an empty directory. */
    uint64_t version;
    const uint8_t *root;
    /* STORE, DELETE; LOAD: one */
    const struct kvs_storage_obj *objs;
    size_t nobjs;
    /* JOURNAL: the row (libkvs/kvsdisk.h), in pieces */
    const struct iovec *iov;
    size_t niov;
    /* NODES, BLOBS, ROWS: a page has about `max` bytes of records (0: a MiB).  `after` and
     * `after_digest` are zeros for the first page.  The driver stores the end of the page in them.
     * To read the next page, which exists if `more`, submit the request unchanged. */
    size_t max;
    uint64_t after;
    uint8_t after_digest[BLOBREF_DIGEST_MAX];
    size_t inline_below; /* BLOBS: include the bytes of blobs that are smaller than this */

    void (*done)(struct kvs_storage_req *req);
    void *arg;

    /* Results, valid in done().  errnum 0: success; else `err` has the error message. */
    int errnum;
    errmsg_t err;
    bool more;
    /* LOAD: the object's bytes.  Other reads: records for next().  malloc'd, or NULL;
     * done() frees it. */
    uint8_t *data;
    size_t len;

    /* Private to the driver. */
    struct list_node node;
    size_t cost;
};

/* One record of NAMESPACES (all but data; `data` is the name, `root` NULL an empty directory),
 * NODES (root: the digest; data), BLOBS (root: the digest; version: the object's size; data) or
 * ROWS (version, root, data). */
struct kvs_storage_rec {
    uint32_t ns;
    uint32_t owner;
    uint64_t version;
    const uint8_t *root;
    const uint8_t *data;
    size_t len;
};

struct kvs_storage_stats {
    uint64_t commits;      /* transactions of the file that contained writes */
    uint64_t syncs;        /* of these, durable ones */
    uint64_t writes;       /* requests in them */
    uint64_t failures;     /* transactions that failed */
    uint64_t loads;        /* objects read */
    uint64_t anew;         /* number of times that the file was written anew after its removal */
    uint64_t file_bytes;   /* size of the file; with wal_bytes, all bytes on disk */
    uint64_t wal_bytes;    /* its write-ahead log */
    uint64_t free_bytes;   /* in the file, not in use */
    uint64_t queued;       /* requests that have not been executed */
    uint64_t queued_bytes; /* bytes in them */
};

struct kvs_storage_driver {
    int abi;
    const char *name;
    /* Start a driver for the file KVS_STORAGE_FILE in `dir`; OPEN creates an absent directory.
     * `hash`: name of the algorithm; `max_bytes`: bound of the queue.  NULL with errno and an error
     * message: no thread, no memory.  Errors of the file are reported by the request OPEN. */
    kvs_storage_t *(*create)(const char *dir, const char *hash, size_t max_bytes, errmsg_t *err);
    /* Execute all submitted requests, close the file, end the thread, and call done() for all
     * requests.  NULL-safe, keeps errno. */
    void (*destroy)(kvs_storage_t *s);
    /* Readable while there are requests to dispatch. */
    int (*fd)(kvs_storage_t *s);
    /* Call done() for all completed requests.  A callback may submit, but not destroy. */
    void (*dispatch)(kvs_storage_t *s);
    /* 0, or -1 with EAGAIN: the queue is full, try again after any done().  Reads, RESUME and a
     * request that finds the queue empty are refused only from a done() that destroy() calls. */
    int (*submit)(kvs_storage_t *s, struct kvs_storage_req *req);
    /* Is there a request to be executed, a write-ahead log to be written back, or space to be
     * freed?  The driver does the latter when it is idle; a caller may want to wait for it. */
    bool (*busy)(kvs_storage_t *s);
    void (*stats)(kvs_storage_t *s, struct kvs_storage_stats *st);
    /* Walk the result of a read: set *pos to 0; false at the end. */
    bool (*next)(const struct kvs_storage_req *req, size_t *pos, struct kvs_storage_rec *rec);
};

/* The symbol that a driver defines. */
extern const struct kvs_storage_driver kvs_storage_driver;
#define KVS_STORAGE_SYMBOL "kvs_storage_driver"

#endif
