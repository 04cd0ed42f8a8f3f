/* km_delta.h - the state of a watcher that gets only changes: bytes appended to a value, or changes
 * below a directory.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_DELTA_H
#define KM_DELTA_H

#include "km_ns.h"

#define KM_DELTA_EDGE_MAX (TREEOBJ_LEVEL_MAX + 1)

/* What a watcher knows.  All zeros: nothing.  km_read.delta. */
struct km_delta {
    void *watcher;
    bool sent;
    struct treeobj_entry was; /* its data or digest is in `bytes` */
    uint8_t bytes[TREEOBJ_INLINE_MAX];
    /* append */
    uint64_t offset;                             /* bytes sent */
    uint64_t end;                                /* the same, with the answer that was made */
    struct content_obj *edge[KM_DELTA_EDGE_MAX]; /* held: objects at the right edge of `was` */
    unsigned nedge;
    /* diff: roots that are held */
    struct km_snapshot_hold was_hold, now_hold;
};

/* km_read.make of both.  For diff the read is at the root of now_hold. */
int km_delta_make_append(struct km_read *r);
int km_delta_make_diff(struct km_read *r);
/* The answer was sent: the entry that was read is what the watcher knows now. */
void km_delta_sent(struct km_read *r);
/* Is there more to be sent about the entry it knows? */
bool km_delta_pending(const struct km_delta *d);
/* It knows nothing.  now_hold stays. */
void km_delta_forget(struct km_ns *ns, struct km_delta *d);
void km_delta_clear(struct km_ns *ns, struct km_delta *d);
/* An unfinished comparison, if there is one; keeps errno. */
void km_delta_drop(struct km_read *r);

#endif
