/* The edges of the tree at one instance: frames down to children and up to the parent, in batches.
 *
 * Frames that are sent to a child during a pass of the loop leave at its end (or earlier, see
 * edge.c) in requests "wrexec.down", which the child answers when it has handled them.  Each child
 * has one streaming request "wrexec.tree", opened with the first job; its responses carry the
 * frames from the child, and its failure means that the child, or its module, is gone.
 */
#ifndef WREXEC_EDGE_H
#define WREXEC_EDGE_H

#include <sys/uio.h>

#include "libflux/courier.h"
#include "libflux/module.h"
#include "libidset/idset.h"
#include "libreduce/window.h"
#include "libtopology/topology.h"
#include "libutil/list.h"
#include "libexec/exec_wire.h"

typedef struct edges edges_t;

enum edge_state { EDGE_CLOSED, EDGE_OPENING, EDGE_OPEN };

struct edge {
    edges_t *all;
    enum edge_state state;
    uint32_t rank;          /* of the child */
    idset_t *below;         /* ranks of its subtree; none: it is not a child any more */
    bool kept;              /* its place is deeper, but it has jobs */
    struct list_node parts; /* jobs that have tasks there: for the user */
    flux_future_t *f;       /* wrexec.tree */
    size_t pos;             /* in the payload of its response: what is to be handled next */
    unsigned streams;       /* that were opened: tells one from the next */
    flux_watcher_t *more;   /* to handle the rest of a response */
    flux_watcher_t *again;  /* when it is asked for once more */
    courier_t *courier;     /* of wrexec.down; this and the watchers: NULL until first opened */
    struct buf *out;
    struct window window;
    bool dirty;
    struct list_node node;
};

struct edge_callbacks {
    /* A frame came from a child, or (edge NULL) from the parent. */
    void (*frame)(void *arg, struct edge *e, const struct wire_frame *f);
    /* A child is lost, and all jobs below it; EHOSTUNREACH: with its broker. */
    void (*lost)(void *arg, struct edge *e, int errnum, const char *why);
};

/* NULL with ENOMEM. */
edges_t *edges_create(flux_t *h, const struct edge_callbacks *cbs, void *arg);
void edges_destroy(edges_t *es); /* NULL-safe, keeps errno */

/* The tree is known now, or ranks have moved in it.  -1 with ENOMEM. */
int edges_set_topology(edges_t *es, const topology_t *t);
/* Before a launch: children that were kept for jobs that are over are at their places now. */
void edges_renew(edges_t *es);
/* Jobs can be launched now: handle the request of the parent that has waited for that. */
void edges_ready(edges_t *es);
/* Number of children, and the one whose subtree a rank is in (NULL: none). */
uint32_t edges_count(const edges_t *es);
struct edge *edges_find(edges_t *es, uint32_t rank);

/* Queue a frame for a child, or for the parent; lost when there is none.  Pieces are copied. */
void edge_send(struct edge *e, enum wire_type type, uint64_t job, const struct iovec *iov, int n);
void edges_send_up(edges_t *es, enum wire_type type, uint64_t job, const struct iovec *iov, int n);

/* For a reload: handle all that has come from children; send the frames that wait for the end of
 * the pass; save what the next instance needs to go on with all streams.  It calls edges_load()
 * once its topology is set, before it sends anything. */
void edges_settle(edges_t *es);
void edges_flush(edges_t *es);
void edges_save(const edges_t *es, flux_handover_t *o);
void edges_load(edges_t *es, flux_handover_t *o);

/* Handlers of "wrexec.tree" and "wrexec.down". */
void edges_tree(edges_t *es, const flux_msg_t *req);
void edges_down(edges_t *es, const flux_msg_t *msg);
/* A client has disconnected (matchtag 0) or has canceled one of its requests.  True if it was the
 * parent; then nothing is sent up any more. */
bool edges_parent_gone(edges_t *es, const char *sender, uint32_t matchtag);

#endif
