/* km_delta.h - the state of a watcher that gets only changes: bytes appended to a value, or changes
 * below a directory.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_DELTA_H
#define KM_DELTA_H

#include "km_ns.h"

#define KM_DELTA_EDGE_MAX (TREEOBJ_LEVEL_MAX + 1)

/* The state that was sent to a watcher (km_read.delta).  All zeros: none. */
struct km_delta {
    void *watcher;
    bool sent;
    struct treeobj_entry was; /* the entry that was sent; its data or digest is in `bytes` */
    uint8_t bytes[TREEOBJ_INLINE_MAX];
    /* append */
    uint64_t offset;                             /* bytes of `was` that were sent */
    uint64_t end;                                /* `offset` after the answer that was made last */
    struct content_obj *edge[KM_DELTA_EDGE_MAX]; /* held objects at the right edge of `was` */
    unsigned nedge;
    /* diff: the held roots of `was` and of the next read */
    struct km_snapshot_hold was_hold, now_hold;
};

/* km_read.make for append and for diff.  A diff reads at the root of now_hold. */
int km_delta_make_append(struct km_read *r);
int km_delta_make_diff(struct km_read *r);
/* The answer was sent: store the entry that was read as the state of the watcher. */
void km_delta_sent(struct km_read *r);
/* Are there more pieces of the value to be sent? */
bool km_delta_pending(const struct km_delta *d);
/* Clear the state, so that the next answer is a whole one. now_hold stays. */
void km_delta_forget(struct km_ns *ns, struct km_delta *d);
void km_delta_clear(struct km_ns *ns, struct km_delta *d);
/* Destroy the unfinished comparison, if there is one; keeps errno. */
void km_delta_drop(struct km_read *r);

#endif
