/* km_fence.h - the structures of fences, and the functions that the files km_fence*.c call in each
 * other. */
#ifndef KM_FENCE_H
#define KM_FENCE_H

#include "km_merge.h"
#include "km_private.h"

/* A part of a fence: the call of a client of this broker, or the messages of one instance below
 * about this fence. */
struct km_fence_part {
    struct list_node node; /* in km_fence.parts, in the order of arrival */
    struct claim claim;
    struct km_fence *f;
    flux_msg_t *req; /* to be answered */
    bool instance;
    /* Of an instance: */
    uint64_t key;       /* in km_fence_table.parts, with the instance's rank in front */
    bool stale;         /* a newer part contains some of its callers */
    idset_t *callers;   /* ranks */
    flux_msg_t *base;   /* the first message that counts, and */
    flux_msg_t **later; /* the messages that continue it */
    size_t nlater, cap;
};

struct km_fence {
    struct km_ns *ns;
    struct list_node all_node;   /* in km_fence_table.all */
    struct list_node node;       /* in km_fence_table.busy when there is something to send */
    struct longlist_place place; /* in km.fences */
    char *name;
    char *key; /* in km_fence_table.by_name, unless a later fence of that name has begun */
    uint32_t number;
    uint32_t before; /* its number before it was sent again; 0: it was not */
    uint32_t after;
    uint32_t heard; /* the last generation of that name whose end was known when this fence began */
    uint32_t nprocs;
    uint32_t count;
    uint32_t here; /* calls in `count` that clients of this broker made, and that wait */
    uint32_t unsent;
    idset_t *ranks;       /* of participants, as named by callers; NULL: no caller names any */
    bool ranks_unsent;    /* some of `ranks` were not sent upstream */
    idset_t *callers;     /* ranks where the calls in `count` were made */
    idset_t *fresh;       /* the ranks in `callers` that were not sent upstream */
    idset_t *missing;     /* master: ranks whose calls have to be reported again */
    grace_wait_t *grace;  /* waits since lost ranks may have had participants; or NULL */
    grace_wait_t *absent; /* master: waits for the calls from `missing`; or NULL */
    double since;
    struct list_node parts;
    size_t kept; /* bytes of the messages of instances in `parts` */
    struct km_merge merge;
    bool applying;
    bool shared; /* instances have reported calls, and may report them again after its end */
    bool again;  /* master: some calls were reported again */
    /* Upstream: */
    flux_future_t *first;
    flux_future_t *add;
    bool anew;      /* the next message has all calls, and replaces the messages sent before */
    bool direct;    /* `first` and all later messages go to the master itself */
    unsigned tries; /* messages that failed since a rank last moved in the tree */
    uint64_t moves; /* km_route_moves() when `tries` was 0 */
    char *over;     /* why the fence was aborted here, after that was sent upstream; or NULL */
};

struct km_fence_table {
    size_t nfences, nparts;
    struct list_node all;
    hmap_t *by_name; /* `after` in hex and the name -> fence */
    hmap_t *parts;   /* rank and number -> part of an instance */
    uint32_t last;   /* number */
    struct list_node busy;
    hmap_t *ends;         /* name -> newest end of a fence of that name (km_fence_end.c) */
    struct list_node old; /* all ends in `ends`, the oldest first */
    size_t nends;
};

/* --- km_fence.c --- */

/* End the fence for all participants: at the master directly, elsewhere by a request upstream; then
 * the answer to the first message ends the fence here.  The fence may be freed by this. */
void km_fence_abort(struct km_fence *f, const char *why);
/* The set of merged calls has changed: send it, or (at the master) apply it if the fence is
 * complete.  The fence may be freed by this. */
void km_fence_proceed(struct km_fence *f);
void km_fence_free(struct km_fence *f);

/* --- km_fence_part.c --- */

/* Create the part for the first message of an instance, or for a call of a client.  `callers` is
 * taken over.  NULL with ENOMEM or EMSGSIZE. */
struct km_fence_part *km_fence_part_create(struct km_fence *f, const flux_msg_t *msg,
                                           const struct kvs_fence_req *q, idset_t *callers,
                                           errmsg_t *err);
void km_fence_part_free(struct km_fence_part *p);
/* The part to which a later message of an instance belongs, or NULL. */
struct km_fence_part *km_fence_part_find(const struct km_ns *ns, uint32_t rank, uint32_t number);
/* Keep a later message.  -1 with ENOMEM or EMSGSIZE. */
int km_fence_part_keep(struct km_fence_part *p, const flux_msg_t *msg,
                       const struct kvs_fence_req *q, const idset_t *callers, errmsg_t *err);
/* Add the ranks of callers to the fence.  -1 with ENOMEM. */
int km_fence_callers(struct km_fence *f, const idset_t *callers, errmsg_t *err);
/* Merge all parts that count once more, beginning with an empty set.  -1: the fence has to end. */
int km_fence_recount(struct km_fence *f, errmsg_t *err);

/* --- km_fence_end.c --- */

struct km_fence_end {
    uint32_t generation;
    int errnum; /* 0: it was applied; ECONNABORTED: it was aborted */
    struct kvs_root root;
    errmsg_t why;
};
#define KM_FENCE_END_HEADER 8
#define KM_FENCE_END_MAX (KM_FENCE_END_HEADER + KVS_ROOT_WIRE_MAX + sizeof(errmsg_t))
size_t km_fence_end_encode(const struct km_fence_end *e, uint8_t buf[KM_FENCE_END_MAX]);
/* -1 with EPROTO and an error message. */
int km_fence_end_decode(const void *data, size_t len, struct km_fence_end *e, errmsg_t *err);
/* Store the end of a fence with its encoding (`len` bytes). */
void km_fence_end_note(struct km_fence *f, const struct km_fence_end *end, const uint8_t *data,
                       size_t len);
/* The generation of the last fence of that name whose end is stored here; 0: no end is stored. */
uint32_t km_fence_end_heard(const struct km_ns *ns, const char *name);
/* Master: answer the first message of an instance if its fence is over.  False: the message is for
 * an open or a new fence. */
bool km_fence_end_answers(struct km_ns *ns, const flux_msg_t *msg, const char *name,
                          const struct kvs_fence_req *q, const idset_t *callers);
/* Master: these ranks are lost; remove them from the stored ends. */
void km_fence_ends_lost(struct km_ns *ns, const idset_t *ranks);
int km_fence_ends_create(struct km_fence_table *fs); /* -1 with ENOMEM */
void km_fence_ends_destroy(struct km_fence_table *fs);

/* --- km_fence_lost.c --- */

/* End the fence if a participant is at one of the lost ranks.  True: the fence was ended. */
bool km_fence_lost_end(struct km_fence *f, const idset_t *lost);
/* Calls from these ranks do not count any more until they are reported again.  -1 with ENOMEM. */
int km_fence_lost_absent(struct km_fence *f, const idset_t *ranks, errmsg_t *err);
/* These ranks are lost.  If the calls to the fence name no ranks of participants, a lost rank may
 * have had one: start the timer of the fence. */
void km_fence_lost_suspect(struct km_fence *f, const idset_t *lost);

#endif
