/* What km_commit.c holds of a namespace. */
#ifndef KM_COMMIT_H
#define KM_COMMIT_H

#include "km_ns.h"

struct km_commits {
    struct list_node forwards;       /* sent upstream */
    struct list_node queue;          /* master: waiting to be applied */
    struct km_commit_change *change; /* master: the one that is open */
    size_t nwaiting, waiting_bytes;  /* of both */
    struct km_load_wait *stall;      /* master: for bytes that the first of them needs */
    flux_future_t *publish;          /* master: the setroot event being numbered */
    bool announcing;                 /* master: there was one already, which did not fail */
    bool unannounced;                /* master: the last one failed */
    uint64_t published;              /* version it carries */
};

#endif
