/* edge.c - the connections of an instance to its parent and children (interface: edge.h).
 *
 *     state of an edge   meaning                                        left when (by)
 *     closed             nothing has been sent, or the edge was lost    a launch is to be sent
 *                                                                       (edge_open)
 *     opening            "wrexec.tree" has been sent, or will be sent   the child's first, empty
 *                        again because the child's mailbox was full     response arrives (take); it
 *                                                                       is lost (edge_lost)
 *     open               the child has the stream; frames go to it      it is lost (edge_lost)
 *
 * Invariants:
 *  1. Frames go down as "wrexec.down" requests of a courier.  One request is under way at a time,
 *     each request is answered, and a request that finds a full mailbox is sent again.  So no frame
 *     is lost or overtakes another one, even if other messages flood the child.
 *  2. Frames leave at the end of the pass, or once BATCH bytes wait.  A request holds up to BATCH
 *     bytes, or one larger frame.  The bytes that wait for an earlier answer are bounded by the
 *     credit of the jobs and by the number of jobs that fit on the ranks below.
 *  3. A reload leaves streams and requests under way as they are, at both ends: the next instance
 *     awaits their answers, and answers the requests of the parent.
 *  4. The frames of the parent's request, and of a child's response, are handled in slices
 *     (libflux/slice.h); then the request is answered, and the next response is taken.  A request
 *     that arrives before this instance is ready waits.  By invariant 1 there is at most one.
 *  5. The state of an edge changes by the transitions of `moves` only.
 *  6. A child that moves to a deeper place in this subtree, because a broker in between has come
 *     back, keeps its edge, and launches for its jobs go through this edge, until no job has tasks
 *     there: a child can send to one parent only.
 *
 * Failure: an edge closes when its stream ends or its child refuses a request.  The frames that
 * wait for the child are dropped, and the callback `lost` gets the reason once.
 */
#include "config.h"
#include "edge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/slice.h"
#include "libutil/buf.h"
#include "libutil/invariant.h"

#define BATCH (1u << 20)
#define AGAIN 0.05 /* seconds */

struct edges {
    flux_t *h;
    const struct edge_callbacks *cbs;
    void *arg;
    const topology_t *tree; /* tree of the session */
    topology_t *own;        /* the same tree with the children that are kept; NULL: none are kept */
    const topology_t *topo; /* `tree` or `own` */
    struct edge **v;        /* edges by rank */
    uint32_t n;
    flux_watcher_t *flusher;
    struct list_node dirty;
    flux_msg_t *up_req; /* request wrexec.tree of the parent; NULL: none */
    char up_sender[FLUX_SENDER_MAX];
    buf_t *up;
    struct window up_window;
    bool ready;       /* requests of the parent can be handled */
    flux_msg_t *rest; /* request of the parent that is not handled completely */
    size_t pos;       /* place of the next frame in its payload */
    flux_watcher_t *more;
};

static const struct transition moves[] = {
    {EDGE_CLOSED, EDGE_OPENING, "edge_open"},
    {EDGE_OPENING, EDGE_OPEN, "take"},
    {EDGE_CLOSED, EDGE_CLOSED, "edge_lost"}, /* without memory to open it */
    {EDGE_OPENING, EDGE_CLOSED, "edge_lost"},
    {EDGE_OPEN, EDGE_CLOSED, "edge_lost"},
    TRANSITION_END,
};

static void set_state(struct edge *e, enum edge_state state)
{
    TRANSITION(5, moves, e->state, state);
    e->state = state;
}

/* --- frames to children --- */

static void edge_lost(struct edge *e, int errnum, const char *why)
{
    char text[400];

    snprintf(text, sizeof(text), "%s", why);
    flux_future_destroy(e->f);
    e->f = NULL;
    set_state(e, EDGE_CLOSED);
    e->pos = 0;
    flux_watcher_stop(e->again);
    flux_watcher_stop(e->more);
    if (e->courier)
        courier_clear(e->courier);
    buf_consume(e->out, buf_len(e->out));
    window_reset(&e->window);
    e->all->cbs->lost(e->all->arg, e, errnum, text);
}

/* Return the length of the frames at the start of the queue that fit into BATCH bytes, at least one
 * frame. */
static size_t whole_frames(const buf_t *b)
{
    const uint8_t *p = buf_data(b);
    size_t len = buf_len(b), n = 0;

    while (n < len) {
        size_t next = WIRE_HEADER + exec_wire_u32(p + n);

        if (n > 0 && n + next > BATCH)
            break;
        n += next;
    }
    return n;
}

static void edge_flush(struct edge *e)
{
    size_t len;
    void *data;

    list_remove(&e->node);
    e->dirty = false;
    if (e->state != EDGE_OPEN || courier_busy(e->courier) || buf_len(e->out) == 0)
        return;
    len = whole_frames(e->out);
    if (!(data = malloc(len))) {
        edge_lost(e, ENOMEM, "out of memory for messages to it");
        return;
    }
    memcpy(data, buf_data(e->out), len);
    if (courier_post(e->courier, "wrexec.down", e->rank, data, len) < 0) {
        edge_lost(e, ENOMEM, "out of memory for messages to it");
        return;
    }
    buf_consume(e->out, len);
    window_reset(&e->window);
}

static void sent_cb(void *arg)
{
    edge_flush(arg);
}

static void refused_cb(void *arg, const char *topic, int errnum, const char *why)
{
    edge_lost(arg, errnum, why);
}

/* Handle the frames of the response that the future holds, all of them or as many as fit into a
 * slice.  A handler may close the edge, and open it again. */
static void from_child(struct edge *e, bool all)
{
    flux_msg_t *msg = flux_msg_incref(flux_rpc_get_msg(e->f));
    unsigned stream = e->streams;
    struct flux_slice slice;
    struct wire_frame f;
    ptrdiff_t used = 1;
    const uint8_t *p;
    errmsg_t err;
    size_t len;

    p = flux_msg_payload(msg, &len);
    flux_slice_begin(&slice, flux_get_reactor(e->all->h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (used > 0 && e->f && e->streams == stream && e->pos < len &&
           (all || flux_slice_more(&slice))) {
        if ((used = exec_wire_parse(p + e->pos, len - e->pos, &f, &err)) <= 0)
            break;
        e->pos += (size_t)used;
        e->all->cbs->frame(e->all->arg, e, &f);
    }
    if (used <= 0) {
        edge_lost(e, EPROTO, used < 0 ? err.text : "a frame that is cut off");
    } else if (e->f && e->streams == stream && e->pos < len) {
        flux_watcher_start(e->more);
    } else if (e->f && e->streams == stream) {
        e->pos = 0;
        flux_watcher_stop(e->more);
        flux_future_next(e->f);
    }
    flux_msg_destroy(msg);
}

/* Take a response of the stream, or its end. */
static void take(struct edge *e, bool all)
{
    const flux_msg_t *msg = flux_rpc_get_msg(e->f);

    if (flux_future_errnum(e->f) == EAGAIN && e->state == EDGE_OPENING) {
        flux_future_destroy(e->f);
        e->f = NULL;
        flux_timer_start(e->again, AGAIN, 0.);
        return;
    }
    if (flux_future_errnum(e->f) || !msg) {
        edge_lost(e, flux_future_errnum(e->f), flux_future_error(e->f));
        return;
    }
    if (e->state == EDGE_OPENING) {
        set_state(e, EDGE_OPEN);
        edge_flush(e);
        if (!e->f)
            return;
    }
    if (flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        from_child(e, all);
    else
        flux_future_next(e->f);
}

static void tree_cb(flux_future_t *f, void *arg)
{
    struct edge *e = arg;

    if (!flux_watcher_active(e->more)) /* else the next response is not wanted yet */
        take(e, false);
}

static void child_more_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct edge *e = arg;

    from_child(e, false);
}

void edges_settle(edges_t *es)
{
    for (uint32_t i = 0; i < es->n; i++) {
        struct edge *e = es->v[i];

        while (e->f && flux_future_ready(e->f))
            take(e, true);
        flux_watcher_stop(e->more);
    }
}

static int ask_stream(struct edge *e)
{
    e->streams++;
    e->f = flux_rpc(e->all->h, "wrexec.tree", NULL, e->rank, FLUX_MSGF_STREAMING);
    if (e->f && flux_future_then(e->f, -1., tree_cb, e) == 0)
        return 0;
    flux_future_destroy(e->f);
    e->f = NULL;
    return -1;
}

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct edge *e = arg;

    if (ask_stream(e) < 0)
        edge_lost(e, errno, strerror(errno));
}

/* Create the parts of an edge that are needed once it has been opened. */
static int edge_prepare(struct edge *e)
{
    static const struct courier_callbacks cbs = {.idle = sent_cb, .failed = refused_cb};
    edges_t *es = e->all;

    if ((!e->courier && !(e->courier = courier_create(es->h, 0, &cbs, e))) ||
        (!e->again && !(e->again = flux_timer_create(flux_get_reactor(es->h), again_cb, e))) ||
        (!e->more && !(e->more = flux_defer_create(flux_get_reactor(es->h), child_more_cb, e))))
        return -1;
    return 0;
}

static int edge_open(struct edge *e)
{
    if (e->state != EDGE_CLOSED)
        return 0;
    if (edge_prepare(e) < 0 || ask_stream(e) < 0)
        return -1;
    set_state(e, EDGE_OPENING);
    return 0;
}

void edge_send(struct edge *e, enum wire_type type, uint64_t job, const struct iovec *iov, int n)
{
    edges_t *es = e->all;
    size_t before;

    /* Only a launch opens an edge: other frames concern jobs that were lost with the edge. */
    if (e->state == EDGE_CLOSED && type != WIRE_LAUNCH)
        return;
    before = buf_len(e->out);
    if (edge_open(e) < 0 || exec_wire_put(e->out, type, job, iov, n) < 0) {
        edge_lost(e, errno, strerror(errno));
        return;
    }
    if (window_add(&e->window, buf_len(e->out) - before)) {
        edge_flush(e);
    } else if (!e->dirty) {
        e->dirty = true;
        list_append(&es->dirty, &e->node);
        flux_watcher_start(es->flusher);
    }
}

/* --- frames to the parent --- */

static void up_flush(edges_t *es)
{
    size_t len = buf_len(es->up);

    if (len == 0)
        return;
    if (es->up_req)
        flux_respond_more_raw(es->h, es->up_req, buf_data(es->up), len);
    buf_consume(es->up, len);
    window_reset(&es->up_window);
}

void edges_send_up(edges_t *es, enum wire_type type, uint64_t job, const struct iovec *iov, int n)
{
    size_t before = buf_len(es->up);

    if (!es->up_req)
        return;
    if (exec_wire_put(es->up, type, job, iov, n) < 0) {
        /* The parent would wait forever, so the stream ends. */
        flux_respond_error(es->h, es->up_req, ENOMEM, "rank %u has no memory for its answers",
                           flux_rank(es->h));
        flux_msg_destroy(es->up_req);
        es->up_req = NULL;
        buf_consume(es->up, buf_len(es->up));
        return;
    }
    if (window_add(&es->up_window, buf_len(es->up) - before))
        up_flush(es);
    else
        flux_watcher_start(es->flusher);
}

static void flusher_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    edges_t *es = arg;
    struct list_node *n;

    while ((n = list_first(&es->dirty)))
        edge_flush(list_entry(n, struct edge, node));
    up_flush(es);
}

/* --- frames from the parent --- */

static void forget_rest(edges_t *es)
{
    flux_msg_t *msg = es->rest;

    es->rest = NULL;
    es->pos = 0;
    flux_watcher_stop(es->more);
    flux_msg_destroy(msg);
}

/* Refuse the rest of the request while its sender lives: the broker of the sender would keep an
 * unanswered request forever. */
static void cancel_rest(edges_t *es)
{
    if (es->rest)
        flux_respond_error(es->h, es->rest, ECANCELED, "the stream to rank %u has ended",
                           flux_rank(es->h));
    forget_rest(es);
}

void edges_tree(edges_t *es, const flux_msg_t *req)
{
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        flux_respond_error(es->h, req, EPROTO, "wrexec.tree has to be a streaming request");
        return;
    }
    if (es->up_req) {
        flux_respond_error(es->h, es->up_req, ENODATA, "another has taken over");
        flux_msg_destroy(es->up_req);
    }
    es->up_req = flux_msg_incref(req);
    cancel_rest(es);
    buf_consume(es->up, buf_len(es->up));
    flux_msg_sender(req, es->up_sender, sizeof(es->up_sender));
    /* An empty response tells the parent that the stream is open. */
    flux_respond_more_raw(es->h, req, "", 0);
}

static void refuse_rest(edges_t *es, const char *why)
{
    flux_log(es->h, LOG_ERR, "the instance above sent %s", why);
    flux_respond_error(es->h, es->rest, EPROTO, "rank %u was sent %s", flux_rank(es->h), why);
    forget_rest(es);
    if (es->up_req) {
        flux_respond_error(es->h, es->up_req, EPROTO, "rank %u was sent %s", flux_rank(es->h), why);
        flux_msg_destroy(es->up_req);
        es->up_req = NULL;
    }
}

/* Handle frames of the request of the parent for a slice of time. */
static void down(edges_t *es)
{
    struct flux_slice slice;
    struct wire_frame f;
    const uint8_t *data;
    ptrdiff_t used;
    errmsg_t err;
    size_t len;

    data = flux_msg_payload(es->rest, &len);
    flux_slice_begin(&slice, flux_get_reactor(es->h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (es->pos < len && flux_slice_more(&slice)) {
        used = exec_wire_parse(data + es->pos, len - es->pos, &f, &err);
        if (used <= 0) {
            refuse_rest(es, used < 0 ? err.text : "a frame that is cut off");
            return;
        }
        es->cbs->frame(es->arg, NULL, &f);
        es->pos += (size_t)used;
    }
    if (es->pos < len) {
        flux_watcher_start(es->more);
        return;
    }
    flux_respond(es->h, es->rest, NULL);
    forget_rest(es);
}

static void more_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    down(arg);
}

void edges_down(edges_t *es, const flux_msg_t *msg)
{
    char sender[FLUX_SENDER_MAX];

    /* The sender does not have a stream: the stream was lost or ended. */
    if (!es->up_req || strcmp(flux_msg_sender(msg, sender, sizeof(sender)), es->up_sender) != 0) {
        flux_respond_error(es->h, msg, ENOTCONN, "rank %u has no stream to this instance",
                           flux_rank(es->h));
    } else if (es->rest) {
        flux_respond_error(es->h, msg, EAGAIN, "rank %u is not done with the last request",
                           flux_rank(es->h));
    } else {
        es->rest = flux_msg_incref(msg);
        if (es->ready)
            down(es);
    }
}

bool edges_parent_gone(edges_t *es, const char *sender, uint32_t matchtag)
{
    if (!es->up_sender[0] || strcmp(es->up_sender, sender) != 0)
        return false;
    if (matchtag && (!es->up_req || flux_msg_matchtag(es->up_req) != matchtag))
        return false;
    if (matchtag) {
        flux_respond_error(es->h, es->up_req, ENODATA, "canceled");
        cancel_rest(es);
    }
    flux_msg_destroy(es->up_req);
    es->up_req = NULL;
    es->up_sender[0] = '\0';
    buf_consume(es->up, buf_len(es->up));
    forget_rest(es);
    return true;
}

/* --- start, end, topology --- */

static void edge_free(struct edge *e)
{
    flux_future_destroy(e->f);
    courier_destroy(e->courier);
    flux_watcher_destroy(e->again);
    flux_watcher_destroy(e->more);
    idset_destroy(e->below);
    buf_destroy(e->out);
    free(e);
}

edges_t *edges_create(flux_t *h, const struct edge_callbacks *cbs, void *arg)
{
    edges_t *es = calloc(1, sizeof(*es));

    if (!es)
        return NULL;
    es->h = h;
    es->cbs = cbs;
    es->arg = arg;
    list_init(&es->dirty);
    es->up = buf_create(0);
    window_init(&es->up_window, (struct window_limits){.bytes = BATCH});
    es->flusher = flux_defer_create(flux_get_reactor(h), flusher_cb, es);
    es->more = flux_defer_create(flux_get_reactor(h), more_cb, es);
    if (!es->up || !es->flusher || !es->more) {
        edges_destroy(es);
        errno = ENOMEM;
        return NULL;
    }
    return es;
}

void edges_destroy(edges_t *es)
{
    int errnum = errno;

    if (!es)
        return;
    if (es->up_req)
        flux_respond_error(es->h, es->up_req, ECONNABORTED,
                           "the wrexec module of rank %u was unloaded", flux_rank(es->h));
    flux_msg_destroy(es->up_req);
    forget_rest(es);
    for (uint32_t i = 0; i < es->n; i++)
        edge_free(es->v[i]);
    free(es->v);
    topology_destroy(es->own);
    buf_destroy(es->up);
    flux_watcher_destroy(es->flusher);
    flux_watcher_destroy(es->more);
    free(es);
    errno = errnum;
}

/* Return the number of edges to children of lower ranks. */
static uint32_t place_of(const edges_t *es, uint32_t rank)
{
    uint32_t lo = 0, hi = es->n;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;

        if (es->v[mid]->rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct edge *edge_to(const edges_t *es, uint32_t rank)
{
    uint32_t i = place_of(es, rank);

    return i < es->n && es->v[i]->rank == rank ? es->v[i] : NULL;
}

static struct edge *edge_add(edges_t *es, uint32_t rank)
{
    uint32_t i = place_of(es, rank);
    struct edge *e = calloc(1, sizeof(*e));
    struct edge **v = realloc(es->v, (es->n + 1) * sizeof(struct edge *));

    if (v)
        es->v = v;
    if (!e || !v || !(e->out = buf_create(0))) {
        free(e);
        errno = ENOMEM;
        return NULL;
    }
    e->all = es;
    e->rank = rank;
    list_init(&e->parts);
    list_init(&e->node);
    window_init(&e->window, (struct window_limits){.bytes = BATCH});
    memmove(es->v + i + 1, es->v + i, (es->n - i) * sizeof(struct edge *));
    es->v[i] = e;
    es->n++;
    return e;
}

/* Use this tree for launches, except that these ranks in the subtree are kept as children. */
static int use(edges_t *es, const topology_t *tree, const idset_t *kept)
{
    uint32_t own = flux_rank(es->h);
    topology_t *mine = idset_empty(kept) ? NULL : topology_create_moved(tree, kept, own);
    const topology_t *t = mine ? mine : tree;

    if (!mine && !idset_empty(kept))
        return -1;
    for (uint32_t i = 0; i < topology_nchildren(t, own); i++) {
        uint32_t rank = topology_child_at(t, own, i);

        if (!edge_to(es, rank) && !edge_add(es, rank))
            goto fail;
    }
    for (uint32_t i = 0; i < es->n; i++) {
        struct edge *e = es->v[i];
        idset_t *below =
            topology_parent(t, e->rank) == own ? topology_subtree(t, e->rank) : idset_create();

        if (!below)
            goto fail;
        idset_destroy(e->below);
        e->below = below;
        e->kept = idset_test(kept, e->rank);
    }
    topology_destroy(es->own);
    es->own = mine;
    es->tree = tree;
    es->topo = t;
    return 0;
fail:
    topology_destroy(mine);
    return -1;
}

int edges_set_topology(edges_t *es, const topology_t *t)
{
    uint32_t own = flux_rank(es->h);
    idset_t *kept = idset_create();
    int rc = kept ? 0 : -1;

    for (uint32_t i = 0; rc == 0 && i < es->n; i++) {
        const struct edge *e = es->v[i];

        if (!list_empty(&e->parts) && topology_parent(t, e->rank) != own &&
            topology_is_ancestor(t, own, e->rank))
            rc = idset_set(kept, e->rank);
    }
    if (rc == 0)
        rc = use(es, t, kept);
    idset_destroy(kept);
    return rc;
}

void edges_renew(edges_t *es)
{
    bool over = false;

    for (uint32_t i = 0; es->own && i < es->n; i++)
        over |= es->v[i]->kept && list_empty(&es->v[i]->parts);
    if (over)
        (void)edges_set_topology(es, es->tree); /* without memory the children are kept */
}

void edges_ready(edges_t *es)
{
    es->ready = true;
    if (es->rest)
        down(es);
}

uint32_t edges_count(const edges_t *es)
{
    return es->n;
}

struct edge *edges_find(edges_t *es, uint32_t rank)
{
    uint32_t own = flux_rank(es->h);

    if (!es->topo || !topology_is_ancestor(es->topo, own, rank) || rank == own)
        return NULL;
    return edge_to(es, topology_next_hop(es->topo, own, rank));
}

/* --- reload --- */

void edges_flush(edges_t *es)
{
    flusher_cb(NULL, NULL, 0, es);
}

void edges_save(const edges_t *es, flux_handover_t *o)
{
    flux_handover_put_mark(o, "edges");
    flux_handover_put_msg(o, es->up_req);
    flux_handover_put_str(o, es->up_sender);
    flux_handover_put_msg(o, es->rest);
    flux_handover_put(o, es->pos);
    flux_handover_put(o, es->n);
    for (uint32_t i = 0; i < es->n; i++) {
        const struct edge *e = es->v[i];

        flux_handover_put(o, e->rank);
        flux_handover_put(o, e->kept);
        flux_handover_put(o, e->state);
        if (e->state == EDGE_CLOSED)
            continue;
        flux_handover_put(o, e->f != NULL);
        flux_handover_put(o, e->f ? flux_rpc_tag(e->f) : 0);
        courier_save(e->courier, o);
        flux_handover_put_data(o, buf_data(e->out), buf_len(e->out));
    }
}

static void edge_load(struct edge *e, flux_handover_t *o)
{
    bool asked = flux_handover_get(o, 1);
    uint32_t tag = (uint32_t)flux_handover_get(o, UINT32_MAX);
    const void *data;
    size_t len;

    if (edge_prepare(e) < 0) {
        flux_handover_fail(o, ENOMEM);
        return;
    }
    courier_load(e->courier, o);
    data = flux_handover_get_data(o, &len);
    if (buf_append(e->out, data, len) < 0)
        flux_handover_fail(o, ENOMEM);
    if (!asked) {
        flux_timer_start(e->again, AGAIN, 0.);
        return;
    }
    e->f = flux_rpc_resume(e->all->h, "wrexec.tree", e->rank, FLUX_MSGF_STREAMING, tag);
    if (!e->f || flux_future_then(e->f, -1., tree_cb, e) < 0)
        flux_handover_fail(o, ENOMEM);
}

/* Find or create the edge of a rank.  An edge to a rank that is not a child in the tree of the
 * session is needed while its stream is open. */
static struct edge *edge_had(edges_t *es, uint32_t rank)
{
    struct edge *e = edge_to(es, rank);

    return e || rank >= flux_size(es->h) ? e : edge_add(es, rank);
}

void edges_load(edges_t *es, flux_handover_t *o)
{
    idset_t *kept = idset_create();
    const char *sender;

    flux_handover_get_mark(o, "edges");
    es->up_req = flux_handover_get_msg(o);
    sender = flux_handover_get_str(o);
    if (!sender || strlen(sender) >= sizeof(es->up_sender))
        flux_handover_fail(o, EPROTO);
    else
        memcpy(es->up_sender, sender, strlen(sender) + 1);
    es->rest = flux_handover_get_msg(o);
    es->pos = flux_handover_get(o, SIZE_MAX);
    for (uint64_t n = flux_handover_get(o, UINT32_MAX); n > 0 && flux_handover_ok(o); n--) {
        uint32_t rank = (uint32_t)flux_handover_get(o, UINT32_MAX);
        bool keep = flux_handover_get(o, 1);
        enum edge_state state = (enum edge_state)flux_handover_get(o, EDGE_OPEN);
        struct edge *e;

        if (keep && kept && idset_set(kept, rank) < 0)
            flux_handover_fail(o, ENOMEM);
        if (state == EDGE_CLOSED)
            continue;
        if (!(e = edge_had(es, rank))) {
            flux_handover_fail(o, EPROTO);
            break;
        }
        e->state = state;
        edge_load(e, o);
    }
    if (flux_handover_ok(o) && es->tree && (!kept || use(es, es->tree, kept) < 0))
        flux_handover_fail(o, ENOMEM);
    idset_destroy(kept);
}
