/* The edges of the tree at one instance: they carry frames down to children and up to the parent,
 * in batches.
 *
 * Frames to a child leave at the end of a pass of the loop (or earlier, see edge.c) in requests
 * "wrexec.down", which the child answers when it has handled them.  Each child has one streaming
 * request "wrexec.tree", opened with the first job; its responses carry the frames from the child,
 * and its failure means that the child, or its module, is gone.
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
    uint32_t rank;          /* rank of the child */
    idset_t *below;         /* ranks of its subtree; empty: it is not a child any longer */
    bool kept;              /* its place in the tree is deeper, but it has jobs */
    struct list_node parts; /* jobs that have tasks there, for the user of the edge */
    flux_future_t *f;       /* request wrexec.tree */
    size_t pos;             /* place of the next frame in the payload of its response */
    unsigned streams;       /* number of streams opened: distinguishes a stream from the next */
    flux_watcher_t *more;   /* handles the rest of a response */
    flux_watcher_t *again;  /* sends wrexec.tree again */
    courier_t *courier;     /* sends wrexec.down; this and the watchers: NULL until first opened */
    struct buf *out;
    struct window window;
    bool dirty;
    struct list_node node;
};

struct edge_callbacks {
    /* Handle a frame from a child, or (edge NULL) from the parent. */
    void (*frame)(void *arg, struct edge *e, const struct wire_frame *f);
    /* Handle the loss of a child and of all jobs below it; EHOSTUNREACH: its broker is lost. */
    void (*lost)(void *arg, struct edge *e, int errnum, const char *why);
};

/* Returns NULL with ENOMEM. */
edges_t *edges_create(flux_t *h, const struct edge_callbacks *cbs, void *arg);
void edges_destroy(edges_t *es); /* NULL-safe, keeps errno */

/* Set the tree when it is known, and when ranks have moved in it.  Returns -1 with ENOMEM. */
int edges_set_topology(edges_t *es, const topology_t *t);
/* Before a launch: move children that were kept for jobs which are over to their places in the
 * tree. */
void edges_renew(edges_t *es);
/* When jobs can be launched: handle the request of the parent that has waited for that. */
void edges_ready(edges_t *es);
/* Return the number of children; return the child whose subtree contains a rank (NULL: none). */
uint32_t edges_count(const edges_t *es);
struct edge *edges_find(edges_t *es, uint32_t rank);

/* Queue a frame for a child, or for the parent.  It is lost when there is none.  The pieces are
 * copied. */
void edge_send(struct edge *e, enum wire_type type, uint64_t job, const struct iovec *iov, int n);
void edges_send_up(edges_t *es, enum wire_type type, uint64_t job, const struct iovec *iov, int n);

/* For a reload: handle all frames that have arrived from children; send the frames that wait for
 * the end of the pass; save the state that the next instance needs to continue all streams.  The
 * next instance calls edges_load() once its topology is set, before it sends anything. */
void edges_settle(edges_t *es);
void edges_flush(edges_t *es);
void edges_save(const edges_t *es, flux_handover_t *o);
void edges_load(edges_t *es, flux_handover_t *o);

/* Handlers of "wrexec.tree" and "wrexec.down". */
void edges_tree(edges_t *es, const flux_msg_t *req);
void edges_down(edges_t *es, const flux_msg_t *msg);
/* Handle a client that has disconnected (matchtag 0) or has canceled one of its requests.  Returns
 * true if it was the parent: then no frame is sent up any longer. */
bool edges_parent_gone(edges_t *es, const char *sender, uint32_t matchtag);

#endif
