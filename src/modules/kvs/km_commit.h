/* km_commit.h - the part of a namespace that belongs to km_commit.c. */
#ifndef KM_COMMIT_H
#define KM_COMMIT_H

#include "km_ns.h"

struct km_commits {
    struct list_node queue;          /* master: commits and fences that wait to be applied */
    struct km_commit_change *change; /* master: the open root change, or NULL */
    struct km_once *once;            /* master: recent commits of other instances */
    struct km_outcome *outcome;      /* master: of the newest root that was an outcome, or NULL */
    size_t nwaiting, waiting_bytes;  /* of `queue`, and of commits that were sent upstream */
    struct km_load_wait *stall;      /* master: waits for bytes that the first of the queue needs */
    flux_future_t *publish;          /* master: the event kvs.setroot, until it has its number */
    bool announcing;                 /* master: there was an event, and the last has not failed */
    bool unannounced;                /* master: the last event failed, which was logged */
    uint64_t published;              /* master: the version that the last event carries */
};

/* A commit of `size` bytes begins to wait here, to be applied or for an answer from upstream; or it
 * waits no more. */
void km_commit_waits(struct km_ns *ns, size_t size);
void km_commit_waits_no_more(struct km_ns *ns, size_t size);

#endif
