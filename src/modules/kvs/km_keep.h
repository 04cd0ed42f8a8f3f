/* km_keep.h - one namespace that is kept on disk: the structure that km_keep.c (journal, reading,
 * life) and km_checkpoint.c (objects: checkpoints, deletion, chunks) share. km_disk.h declares the
 * functions for other files.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_KEEP_H
#define KM_KEEP_H

#include "km_disk.h"

#define KM_KEEP_RETRY 2. /* seconds after a failed checkpoint */

enum km_checkpoint_state {
    KM_CHECKPOINT_IDLE,
    KM_CHECKPOINT_WRITING,
    KM_CHECKPOINT_RECORDING,
    KM_CHECKPOINT_DELETING
};

struct km_keep {
    struct list_node node; /* in km_disk.keeps */
    struct km_disk *d;
    struct km_ns *ns;
    uint32_t id;
    size_t dsize;
    bool ended; /* the namespace was removed; requests that the driver has still refer to it */
    size_t out; /* requests that the driver has now */
    /* journal */
    struct list_node rows;  /* oldest first */
    struct list_node again; /* kvs.sync=interval: pieces whose writes failed; rows may need them */
    unsigned nsent;
    size_t unsent_bytes;
    uint64_t bytes; /* of the rows since the last checkpoint */
    /* Held root: the last durable one; kvs.sync=interval: the newest. */
    uint8_t durable[BLOBREF_DIGEST_MAX];
    flux_watcher_t *flush;
    int stuck; /* kvs.sync=interval: errno with which rows cannot be written; 0: none */
    errmsg_t stuck_err;
    /* checkpoint */
    enum km_checkpoint_state state;
    uint8_t recorded[BLOBREF_DIGEST_MAX]; /* held */
    uint8_t snapshot[BLOBREF_DIGEST_MAX]; /* root of the checkpoint under way, held */
    uint64_t snapshot_version;
    uint64_t snapshot_bytes;
    struct km_disk_req record;
    flux_watcher_t *timer;
    /* Digests of the objects that died since the last checkpoint began, and of those that died
     * before. */
    hmap_t *dead, *dead_before;
    size_t deleted; /* objects deleted since memory was last returned to the system */
};

/* --- km_keep.c --- */

/* Submit a request for this namespace. */
void km_keep_submit(struct km_keep *kp, struct km_disk_req *r, enum kvs_storage_op op,
                    void (*done)(struct km_disk_req *r));
/* The driver has executed a request.  False: the namespace has ended, so its result does not
 * matter. */
bool km_keep_back(struct km_keep *kp);
/* Begin a checkpoint after this time, unless the timer runs already. */
void km_keep_later(struct km_keep *kp, double seconds);

/* --- km_checkpoint.c --- */

/* For kvsstore_on_dead(). */
void km_checkpoint_dead(void *kp, const uint8_t *digest);
/* kvs.sync=interval: submit the pieces whose writes failed; or free them. */
void km_checkpoint_send_retries(struct km_keep *kp);
void km_checkpoint_drop_retries(struct km_keep *kp);

#endif
