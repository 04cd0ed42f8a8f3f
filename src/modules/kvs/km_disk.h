/* km_disk.h - persistence of the namespaces whose master is rank 0: journal, checkpoints,
 * restoration at the start, reads from disk.  See km_disk.c, km_keep.c and km_checkpoint.c.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_DISK_H
#define KM_DISK_H

#include "km_private.h"
#include "km_driver.h"
#include "kvs_storage.h"
#include "libutil/holdpoint.h"

struct km_commit_change;

/* --- km_disk.c: the instance --- */

/* A request to the driver, embedded in a structure with its context. */
struct km_disk_req {
    struct kvs_storage_req req;
    struct list_node node; /* in km_disk.waiting or removals */
    struct km_disk *d;
    bool write;
    void (*done)(struct km_disk_req *r);
};

struct km_disk {
    struct km *k;
    char *dir;
    km_driver_t *driver;
    const struct kvs_storage_driver *drv;
    kvs_storage_t *s;
    flux_watcher_t *w;
    /* attributes */
    bool interval; /* kvs.sync=interval */
    double sync_interval;
    uint64_t ck_bytes;
    double ck_interval;
    setup_t *setup;
    bool refused; /* an attribute was refused */

    struct list_node keeps;
    struct list_node waiting;  /* requests that were not sent: no room, or a failed write */
    struct list_node removals; /* removals that failed, to be tried again */
    size_t writes;             /* requests that the driver has */
    size_t reads;
    bool failing;  /* a write failed, and the driver has not resumed */
    uint64_t anew; /* number of times that the driver wrote the file anew, as logged */
    bool said;     /* the failure was logged */
    bool stopping;
    int errnum;
    errmsg_t err;
    struct km_restore *restore;
    struct holdpoint hold;
    void (*started)(struct km *k, int errnum, const char *error);
    struct {
        uint64_t rows, row_bytes, checkpoints, failures, loads;
        uint64_t turns; /* of the reactor, in km_restore.c */
    } st;
};

/* Never fails: the request waits when there is no room.  The caller must not change the request
 * before done(). */
void km_disk_submit(struct km_disk *d, struct km_disk_req *r);
/* A write failed before it was submitted. */
void km_disk_fail(struct km_disk *d, int errnum, const char *error);
/* The error message about a failed write for the sender of the request. */
void km_disk_error(const struct km_disk_req *r, errmsg_t *err);
/* If a write failed and the driver has no write any more: the keeps return to their durable roots,
 * and the driver resumes. */
void km_disk_recover(struct km_disk *d);

/* Create a namespace on disk, before it is opened.  1: `done` is called later; 0: nothing is kept
 * on disk; -1 with ENOMEM. */
int km_disk_create(struct km *k, const char *name, uint32_t owner,
                   void (*done)(void *arg, uint32_t id, int errnum, const char *error), void *arg);

/* --- km_restore.c --- */

/* The file is open: restore all namespaces, then call d->started(). */
void km_restore_start(struct km_disk *d);
void km_restore_stop(struct km_disk *d);

/* --- km_keep.c, km_checkpoint.c: one namespace --- */

/* Keep the namespace on disk as `id` from now on; the contents of its store are on disk.  `bytes`:
 * the length of its journal.  `ck`: the root of the last checkpoint, which the store holds.  NULL
 * with ENOMEM. */
struct km_keep *km_keep_create(struct km_disk *d, struct km_ns *ns, uint32_t id, const uint8_t *ck,
                               uint64_t bytes);
/* As km_keep_create(), for a new namespace, whose store is empty.  -1 with ENOMEM. */
int km_keep_fresh(struct km_ns *ns, uint32_t id);
struct km_keep *km_keep_of(struct list_node *n); /* in km_disk.keeps */
/* The namespace ends.  Changes that are not durable yet end with the error (errnum 0: the module is
 * stopped). */
void km_keep_end(struct km_keep *kp, int errnum, const char *why);
/* Has the driver no request of this namespace?  Before that the objects of the namespace must
 * stay. */
bool km_keep_idle(const struct km_keep *kp);
/* NULL-safe, keeps errno; after km_keep_end(), when idle. */
void km_keep_destroy(struct km_keep *kp);
/* The namespace was removed: remove it from the disk.  `done`, unless NULL, is called when it is
 * removed there, or with errnum != 0 if the removal failed and will be tried again.  -1 with
 * ENOMEM. */
int km_keep_remove(struct km_keep *kp, km_forgotten_f done, void *arg);

/* May another root change be made now? 0: yes.  -1 with EAGAIN: not before the next call of
 * km_commit_work(); -1 with another errno: changes fail with this error. */
int km_keep_ready(struct km_keep *kp, errmsg_t *err);
/* A change is in the store (root `version`; 0: the root is the old one): write the `row` to the
 * journal (malloc'd, taken over; NULL: no memory for the row, or `version` is 0).
 * km_commit_change_done() is called for the change, now or later; with kvs.sync=commit in the order
 * of the changes. */
void km_keep_change(struct km_keep *kp, struct km_commit_change *ch, uint64_t version,
                    const uint8_t *root, uint8_t *row, size_t len);
/* A transaction that was applied refers to these chunks: write them to disk before its row.  -1
 * with ENOMEM. */
int km_checkpoint_chunks(struct km_keep *kp, const uint8_t *digests, size_t n);
/* Write uploaded chunks to disk, at most 256.  1: `done` is called, now or later; 0: all chunks are
 * on disk or on their way; -1 with ENOMEM. */
int km_checkpoint_upload(struct km_keep *kp, const uint8_t *digests, size_t n,
                         void (*done)(void *arg, int errnum, const char *error), void *arg);
/* Load the bytes of an object: content_supply() or content_deny() is called later. */
void km_keep_load(struct km_keep *kp, const uint8_t *digest);
/* Begin a checkpoint if there are changes to be written and no checkpoint is under way. */
void km_checkpoint_start(struct km_keep *kp);
bool km_checkpoint_busy(const struct km_keep *kp);
/* The driver has no write any more, and one has failed: return to the last durable root. */
void km_keep_recover(struct km_keep *kp);
/* kvs.sync=interval: send the rows that wait. */
void km_keep_flush(struct km_keep *kp);
size_t km_keep_unsaved(const struct km_keep *kp);

struct km_keep_stats {
    uint64_t journal_bytes; /* of this namespace, since its checkpoint */
    /* of the file */
    uint64_t rows, syncs, checkpoints, loads, failures;
    uint64_t bytes, free_bytes;
    uint64_t turns; /* of the restore at the start */
};
/* NULL (the namespace is not kept on disk): all zeros. */
void km_keep_stats(const struct km_keep *kp, struct km_keep_stats *st);

/* --- km_commit.c --- */

/* kvs.sync=interval: make the root of the change visible before its row is durable, and answer its
 * commits, except the durable ones.  True: there are durable commits; km_commit_change_done()
 * answers them, with this root. */
bool km_commit_change_early(struct km_ns *ns, struct km_commit_change *ch);
/* The change is done (errnum 0), or was undone. */
void km_commit_change_done(struct km_ns *ns, struct km_commit_change *ch, int errnum,
                           const char *error);

#endif
