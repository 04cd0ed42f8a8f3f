/* Inside fences: what km_fence.c, km_fence_lost.c and km_fence_list.c share. */
#ifndef KM_FENCE_H
#define KM_FENCE_H

#include "km_merge.h"
#include "km_private.h"

struct km_fence_part {
    struct list_node node;
    struct claim claim;
    struct km_fence *f;
    flux_msg_t *req;
    bool instance;
    uint64_t key; /* of an instance's: in km_fence_table.parts, with the instance's rank in front */
};

struct km_fence {
    struct km_ns *ns;
    struct list_node node;       /* in km_fence_table.busy when there is something to send */
    struct longlist_place place; /* in km.fences */
    char *name;
    char *key; /* in km_fence_table.by_name */
    uint32_t number;
    uint32_t after;
    uint32_t nprocs;
    uint32_t count;
    uint32_t here; /* of these, calls at this broker that wait */
    uint32_t unsent;
    idset_t *ranks;      /* of participants, as far as callers say; NULL: none */
    bool ranks_unsent;   /* of these, some were not sent upstream */
    grace_wait_t *grace; /* lost ranks may have had participants; or NULL */
    double since;
    struct list_node parts;
    struct km_merge merge;
    bool applying;
    flux_future_t *first;
    flux_future_t *add;
};

struct km_fence_table {
    size_t nparts;
    hmap_t *by_name; /* `after` in hex and the name -> fence */
    hmap_t *parts;   /* rank and number -> part of an instance */
    uint32_t last;   /* number */
    struct list_node busy;
};

/* End the fence for all participants: here if this is the master, else by a request upstream, whose
 * answer ends it here.  The fence may be gone after this. */
void km_fence_abort(struct km_fence *f, const char *why);

/* --- km_fence_lost.c --- */

/* If a participant is at one of these ranks, which are lost: end the fence.  True: it is over. */
bool km_fence_lost_end(struct km_fence *f, const idset_t *lost);
/* These ranks are lost, and may have had participants if the calls to the fence name none. */
void km_fence_lost_suspect(struct km_fence *f, const idset_t *lost);

#endif
