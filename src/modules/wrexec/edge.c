/* edge.c - the connections of an instance to its children (interface: edge.h).
 *
 *     state of an edge   meaning                                        left when (by)
 *     closed             nothing has been sent, or the edge was lost    a launch is to be sent
 *                                                                       (edge_open)
 *     opening            "wrexec.tree" has been sent, or will be sent   the child's first, empty
 *                        again because the child's mailbox was full     response arrives (take); it
 *                                                                       is lost (edge_close)
 *     open               the child has the stream; frames go to it      it is lost (edge_close)
 *
 * Invariants:
 *  1. Frames go down as "wrexec.down" requests of a courier.  One request is under way at a time,
 *     each request is answered, and a request that finds a full mailbox is sent again.  So no frame
 *     is lost or overtakes another one, even if other messages flood the child.
 *  2. Frames leave at the end of the pass, or once BATCH bytes wait.  A request holds up to BATCH
 *     bytes, or one larger frame.  The bytes that wait for an earlier answer are bounded by the
 *     credit of the jobs and by the number of jobs that fit on the ranks below.
 *  3. A reload leaves streams and requests under way as they are: the next instance awaits their
 *     answers.
 *  4. The frames of a child's response are handled in slices (libflux/slice.h); then the next
 *     response is taken.
 *  5. The state of an edge changes by the transitions of `moves` only.
 *  6. The way to a child is that of any message to its rank, so an edge need not follow the tree: a
 *     job keeps its edges when ranks below it move in the tree, and only jobs that are launched
 *     later take the new way.
 *  7. Frames that nobody waits for (edge_send_later) travel with the next frames to the child,
 *     before them, or LATER seconds later; a job thus costs no message of its own for them.
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
#define LATER 0.5  /* seconds */
#define LATER_MAX (64u << 10)

struct edges {
    flux_t *h;
    const struct edge_callbacks *cbs;
    void *arg;
    const topology_t *topo; /* tree of the session */
    struct edge **v;        /* edges by rank */
    uint32_t n;
    flux_watcher_t *flusher;
    flux_watcher_t *later;
    struct list_node dirty;
};

static const struct transition moves[] = {
    {EDGE_CLOSED, EDGE_OPENING, "edge_open"},
    {EDGE_OPENING, EDGE_OPEN, "take"},
    {EDGE_CLOSED, EDGE_CLOSED, "edge_close"}, /* without memory to open it */
    {EDGE_OPENING, EDGE_CLOSED, "edge_close"},
    {EDGE_OPEN, EDGE_CLOSED, "edge_close"},
    TRANSITION_END,
};

static void set_state(struct edge *e, enum edge_state state)
{
    TRANSITION(5, moves, e->state, state);
    e->state = state;
}

/* --- frames to children --- */

void edge_close(struct edge *e)
{
    flux_future_destroy(e->f);
    e->f = NULL;
    set_state(e, EDGE_CLOSED);
    e->pos = 0;
    e->retry = false;
    flux_watcher_stop(e->again);
    flux_watcher_stop(e->more);
    if (e->courier)
        courier_clear(e->courier);
    buf_consume(e->out, buf_len(e->out));
    if (e->later)
        buf_consume(e->later, buf_len(e->later));
    window_reset(&e->window);
}

static void edge_lost(struct edge *e, int errnum, const char *why)
{
    char text[400];

    snprintf(text, sizeof(text), "%s", why);
    edge_close(e);
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
    size_t later = e->later ? buf_len(e->later) : 0, len;
    uint8_t *data;

    list_remove(&e->node);
    e->dirty = false;
    if (e->state != EDGE_OPEN || courier_busy(e->courier) || later + buf_len(e->out) == 0)
        return;
    len = whole_frames(e->out);
    if (!(data = malloc(later + len))) {
        edge_lost(e, ENOMEM, "out of memory for messages to it");
        return;
    }
    if (later)
        memcpy(data, buf_data(e->later), later);
    if (len)
        memcpy(data + later, buf_data(e->out), len);
    if (courier_post(e->courier, "wrexec.down", e->rank, data, later + len) < 0) {
        edge_lost(e, ENOMEM, "out of memory for messages to it");
        return;
    }
    if (later)
        buf_consume(e->later, later);
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

    if (e->retry) {
        e->retry = false;
        e->all->cbs->again(e->all->arg, e);
    }
    if (e->state == EDGE_OPENING && !e->f && ask_stream(e) < 0)
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

void edge_retry(struct edge *e)
{
    e->retry = edge_prepare(e) == 0;
    if (e->retry)
        flux_timer_start(e->again, AGAIN, 0.);
    else
        e->all->cbs->lost(e->all->arg, e, ENOMEM, "out of memory");
}

static void mark_dirty(struct edge *e)
{
    if (e->dirty)
        return;
    e->dirty = true;
    list_append(&e->all->dirty, &e->node);
    flux_watcher_start(e->all->flusher);
}

void edge_send_later(struct edge *e, enum wire_type type, uint64_t job)
{
    /* Without memory the child keeps what it does not need any longer, until its stream ends. */
    if (e->state == EDGE_CLOSED || (!e->later && !(e->later = buf_create(0))) ||
        exec_wire_put(e->later, type, job, NULL, 0) < 0)
        return;
    if (buf_len(e->later) >= LATER_MAX)
        mark_dirty(e);
    else if (!flux_watcher_active(e->all->later))
        flux_timer_start(e->all->later, LATER, 0.);
}

static void later_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    edges_t *es = arg;

    for (uint32_t i = 0; i < es->n; i++)
        if (es->v[i]->later && buf_len(es->v[i]->later) > 0)
            mark_dirty(es->v[i]);
}

void edge_send(struct edge *e, enum wire_type type, uint64_t job, const struct iovec *iov, int n)
{
    size_t before;

    /* Only a launch opens an edge: all other frames follow one. */
    if (e->state == EDGE_CLOSED && type != WIRE_LAUNCH)
        return;
    before = buf_len(e->out);
    if (edge_open(e) < 0 || exec_wire_put(e->out, type, job, iov, n) < 0) {
        edge_lost(e, errno, strerror(errno));
        return;
    }
    if (window_add(&e->window, buf_len(e->out) - before))
        edge_flush(e);
    else
        mark_dirty(e);
}

void edges_flush(edges_t *es)
{
    struct list_node *n;

    while ((n = list_first(&es->dirty)))
        edge_flush(list_entry(n, struct edge, node));
}

static void flusher_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    edges_flush(arg);
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
    buf_destroy(e->later);
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
    es->flusher = flux_defer_create(flux_get_reactor(h), flusher_cb, es);
    es->later = flux_timer_create(flux_get_reactor(h), later_cb, es);
    if (!es->flusher || !es->later) {
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
    for (uint32_t i = 0; i < es->n; i++)
        edge_free(es->v[i]);
    free(es->v);
    flux_watcher_destroy(es->flusher);
    flux_watcher_destroy(es->later);
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

void edges_set_topology(edges_t *es, const topology_t *t)
{
    es->topo = t;
    for (uint32_t i = 0; i < es->n; i++) {
        idset_destroy(es->v[i]->below);
        es->v[i]->below = NULL;
    }
}

uint32_t edges_count(const edges_t *es)
{
    return es->topo ? topology_nchildren(es->topo, flux_rank(es->h)) : 0;
}

struct edge *edges_find(edges_t *es, uint32_t rank, const idset_t *lost)
{
    uint32_t own = flux_rank(es->h), hop = rank;
    struct edge *e;

    if (!es->topo || rank == own || rank >= topology_size(es->topo))
        return NULL;
    if (topology_is_ancestor(es->topo, own, rank)) {
        hop = topology_next_hop(es->topo, own, rank);
        while (hop != rank && idset_test(lost, hop))
            hop = topology_next_hop(es->topo, hop, rank);
    }
    if (!(e = edge_to(es, hop)) && !(e = edge_add(es, hop)))
        return NULL;
    return e->below || (e->below = topology_subtree(es->topo, hop)) ? e : NULL;
}

/* --- reload --- */

void edges_save(const edges_t *es, flux_handover_t *o)
{
    flux_handover_put_mark(o, "edges");
    flux_handover_put(o, es->n);
    for (uint32_t i = 0; i < es->n; i++) {
        const struct edge *e = es->v[i];

        flux_handover_put(o, e->rank);
        flux_handover_put(o, e->state);
        if (e->state == EDGE_CLOSED)
            continue;
        flux_handover_put(o, e->f != NULL);
        flux_handover_put(o, e->f ? flux_rpc_tag(e->f) : 0);
        courier_save(e->courier, o);
        flux_handover_put_data(o, buf_data(e->out), buf_len(e->out));
        flux_handover_put_data(o, e->later ? buf_data(e->later) : NULL,
                               e->later ? buf_len(e->later) : 0);
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
    data = flux_handover_get_data(o, &len);
    if (len > 0 && (!(e->later = buf_create(0)) || buf_append(e->later, data, len) < 0))
        flux_handover_fail(o, ENOMEM);
    if (len > 0)
        flux_timer_start(e->all->later, LATER, 0.);
    if (!asked) {
        flux_timer_start(e->again, AGAIN, 0.);
        return;
    }
    e->f = flux_rpc_resume(e->all->h, "wrexec.tree", e->rank, FLUX_MSGF_STREAMING, tag);
    if (!e->f || flux_future_then(e->f, -1., tree_cb, e) < 0)
        flux_handover_fail(o, ENOMEM);
}

struct edge *edges_to(edges_t *es, uint32_t rank)
{
    struct edge *e = edge_to(es, rank);

    return e || rank >= flux_size(es->h) ? e : edge_add(es, rank);
}

struct edge *edges_known(const edges_t *es, uint32_t rank)
{
    return edge_to(es, rank);
}

void edges_load(edges_t *es, flux_handover_t *o)
{
    flux_handover_get_mark(o, "edges");
    for (uint64_t n = flux_handover_get(o, UINT32_MAX); n > 0 && flux_handover_ok(o); n--) {
        uint32_t rank = (uint32_t)flux_handover_get(o, UINT32_MAX);
        enum edge_state state = (enum edge_state)flux_handover_get(o, EDGE_OPEN);
        struct edge *e;

        if (state == EDGE_CLOSED)
            continue;
        if (!(e = edges_to(es, rank))) {
            flux_handover_fail(o, EPROTO);
            break;
        }
        e->state = state;
        edge_load(e, o);
    }
}
