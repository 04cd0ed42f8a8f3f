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

/* A request to the driver; embedded in what it is for. */
struct km_disk_req {
    struct kvs_storage_req req;
    struct list_node node; /* while it waits for room */
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
    bool refused; /* one of them */

    struct list_node keeps;
    struct list_node waiting;  /* requests for which there was no room */
    struct list_node removals; /* requests that failed, to be tried again */
    size_t writes;             /* that the driver has */
    size_t reads;
    bool failing;  /* a write failed, and others are still out */
    uint64_t anew; /* times that the driver had to write the file anew, which was logged */
    bool said;     /* that, in the log */
    bool stopping;
    int errnum;
    errmsg_t err;
    struct km_restore *restore;
    struct holdpoint hold;
    void (*started)(struct km *k, int errnum, const char *error);
    struct {
        uint64_t rows, row_bytes, checkpoints, failures, loads;
        uint64_t turns; /* of km_restore.c */
    } st;
};

/* Never fails: waits when there is no room.  The request is the driver's until done(). */
void km_disk_submit(struct km_disk *d, struct km_disk_req *r);
/* A write cannot even be tried. */
void km_disk_fail(struct km_disk *d, int errnum, const char *error);
/* The error message about a write that failed, for who asked for it. */
void km_disk_error(const struct km_disk_req *r, errmsg_t *err);
/* When a write failed and all are back: keeps go back, and work goes on. */
void km_disk_recover(struct km_disk *d);

/* Make a namespace that persists, before it is opened: `done` is called later.  1; 0 when nothing
 * has to be done; -1 with ENOMEM. */
int km_disk_create(struct km *k, const char *name, uint32_t owner,
                   void (*done)(void *arg, uint32_t id, int errnum, const char *error), void *arg);

/* --- km_restore.c --- */

/* The file is open: bring back all namespaces, then call d->started(). */
void km_restore_start(struct km_disk *d);
void km_restore_stop(struct km_disk *d);

/* --- km_keep.c, km_checkpoint.c: one namespace --- */

/* It is kept on disk as `id` from now on; its store is what is there.  `bytes`: what its journal
 * holds. The root `ck` is that of the last checkpoint, and held.  NULL with ENOMEM. */
struct km_keep *km_keep_create(struct km_disk *d, struct km_ns *ns, uint32_t id, const uint8_t *ck,
                               uint64_t bytes);
/* The same for a fresh namespace, whose store is empty.  -1 with ENOMEM. */
int km_keep_fresh(struct km_ns *ns, uint32_t id);
struct km_keep *km_keep_of(struct list_node *n); /* in km_disk.keeps */
/* The namespace ends.  Changes that are not durable yet end with the error (0: we are stopped). */
void km_keep_end(struct km_keep *kp, int errnum, const char *why);
/* Has the driver nothing of it?  Before that the namespace's objects must stay. */
bool km_keep_idle(const struct km_keep *kp);
void km_keep_destroy(struct km_keep *kp); /* NULL-safe, keeps errno; after these two */
/* The namespace was removed: forget it on disk.  `done`, unless NULL, is called when it is, or
 * (errnum != 0) is still to be.  -1 with ENOMEM. */
int km_keep_remove(struct km_keep *kp, km_forgotten_f done, void *arg);

/* May another root change be made now?  0; -1 with EAGAIN: not before km_commit_work() is called
 * again; or with the reason why none can be. */
int km_keep_ready(struct km_keep *kp, errmsg_t *err);
/* A change is in the store (root `version`): journal the `row` (malloc'd, taken over; NULL: no
 * memory for it, or `version` 0: nothing changed).  km_commit_change_done() is called for it, now
 * or later, in order. */
void km_keep_change(struct km_keep *kp, struct km_commit_change *ch, uint64_t version,
                    const uint8_t *root, uint8_t *row, size_t len);
/* A transaction that was applied refers to these chunks: have them on disk before its row.  -1 with
 * ENOMEM. */
int km_checkpoint_chunks(struct km_keep *kp, const uint8_t *digests, size_t n);
/* Uploaded chunks, 256 at most: have them on disk, then call `done`.  1; 0 when they are there, or
 * on their way; -1 with ENOMEM. */
int km_checkpoint_upload(struct km_keep *kp, const uint8_t *digests, size_t n,
                         void (*done)(void *arg, int errnum, const char *error), void *arg);
/* Bring an object's bytes: content_supply() or content_deny() is called later. */
void km_keep_load(struct km_keep *kp, const uint8_t *digest);
/* Begin a checkpoint when there is something to be written and none is under way. */
void km_checkpoint_start(struct km_keep *kp);
bool km_checkpoint_busy(const struct km_keep *kp);
/* All writes are back and one of them failed: go back to what is durable. */
void km_keep_recover(struct km_keep *kp);
/* Write what is not written yet (kvs.sync=interval). */
void km_keep_flush(struct km_keep *kp);
size_t km_keep_unsaved(const struct km_keep *kp);

struct km_keep_stats {
    uint64_t journal_bytes; /* of this namespace, since its checkpoint */
    /* of the file */
    uint64_t rows, syncs, checkpoints, loads, failures;
    uint64_t bytes, free_bytes;
    uint64_t turns; /* of the restore at the start */
};
/* NULL: it is not kept, all zeros. */
void km_keep_stats(const struct km_keep *kp, struct km_keep_stats *st);

/* --- km_commit.c --- */

/* The change will stay, but is not on disk yet: others see it.  true: there are commits in it whose
 * answers wait for that; km_commit_change_done() is for them. */
bool km_commit_change_early(struct km_ns *ns, struct km_commit_change *ch);
/* The change will stay (errnum 0), or never was. */
void km_commit_change_done(struct km_ns *ns, struct km_commit_change *ch, int errnum,
                           const char *error);

#endif
