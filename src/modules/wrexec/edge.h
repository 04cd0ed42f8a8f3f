/* The edges from an instance to its children, which carry frames in batches (to its parents:
 * uplink.h).
 *
 * Frames to a child leave at the end of a pass of the loop (or earlier, see edge.c) in requests
 * "wrexec.down", which the child answers when it has handled them.  Each child has one streaming
 * request "wrexec.tree", opened with the first job; its responses carry the frames from the child,
 * and its failure means that the child, its module, or the way to it is gone.
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
    idset_t *below;         /* ranks of its subtree; NULL: to be found out again */
    struct list_node parts; /* jobs that have tasks there, for the user of the edge */
    flux_future_t *f;       /* request wrexec.tree */
    size_t pos;             /* place of the next frame in the payload of its response */
    unsigned streams;       /* number of streams opened: distinguishes a stream from the next */
    flux_watcher_t *more;   /* handles the rest of a response */
    flux_watcher_t *again;  /* sends wrexec.tree again, or calls back */
    bool retry;             /* ... it calls back */
    courier_t *courier;     /* sends wrexec.down; this and the watchers: NULL until first opened */
    struct buf *out;
    struct buf *later; /* frames that nobody waits for; NULL: none so far */
    struct window window;
    bool dirty;
    struct list_node node;
};

struct edge_callbacks {
    /* Handle a frame from a child. */
    void (*frame)(void *arg, struct edge *e, const struct wire_frame *f);
    /* Handle the loss of a child.  EHOSTUNREACH or ENOTCONN: its broker or one on the way to it is
     * lost; otherwise its module has ended, with all jobs there and below. */
    void (*lost)(void *arg, struct edge *e, int errnum, const char *why);
    /* The time of edge_retry() has come. */
    void (*again)(void *arg, struct edge *e);
};

/* Returns NULL with ENOMEM. */
edges_t *edges_create(flux_t *h, const struct edge_callbacks *cbs, void *arg);
void edges_destroy(edges_t *es); /* NULL-safe, keeps errno */

/* Set the tree when it is known, and when ranks have moved in it. */
void edges_set_topology(edges_t *es, const topology_t *t);
/* Return the number of children in the tree. */
uint32_t edges_count(const edges_t *es);
/* Return the edge by which to launch on a rank: that of the child whose subtree contains it, or of
 * the first broker on the way that is not among the lost ones; for a rank elsewhere in the tree its
 * own.  NULL with ENOMEM or if there is no such rank, or no tree yet. */
struct edge *edges_find(edges_t *es, uint32_t rank, const idset_t *lost);
/* Return the edge to exactly this rank, which is created (NULL: ENOMEM, or no such rank), or must
 * exist (NULL: it does not). */
struct edge *edges_to(edges_t *es, uint32_t rank);
struct edge *edges_known(const edges_t *es, uint32_t rank);

/* Queue a frame for a child.  The pieces are copied.  A closed edge is opened by a LAUNCH; it drops
 * other frames. */
void edge_send(struct edge *e, enum wire_type type, uint64_t job, const struct iovec *iov, int n);
/* The same for an empty frame that nobody waits for. */
void edge_send_later(struct edge *e, enum wire_type type, uint64_t job);
/* Close an edge without a callback; call back in a moment, for an edge that has been lost. */
void edge_close(struct edge *e);
void edge_retry(struct edge *e);

/* For a reload: handle all frames that have arrived from children; send the frames that wait for
 * the end of the pass; save the state that the next instance needs to continue all streams.  The
 * next instance calls edges_load() before it sends anything. */
void edges_settle(edges_t *es);
void edges_flush(edges_t *es);
void edges_save(const edges_t *es, flux_handover_t *o);
void edges_load(edges_t *es, flux_handover_t *o);

#endif
