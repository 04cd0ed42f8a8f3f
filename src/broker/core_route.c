/* core_route.c - the way of a message.
 *
 *    request for        goes to
 *    any rank           the local service of that name; else to the parent; at the root ENOSYS.
 *                       FLUX_MSGF_UPSTREAM skips the broker of the sender: an instance of a
 *                       service thus reaches the next instance above it, as in a reduction.
 *    this rank          the local service; else ENOSYS
 *    the root           FLUX_NODEID_ROOT: the broker with this role
 *    another rank       the tree neighbor on the way, which is known by the shape and the ranks
 *                       that have moved (core_moves.c); along the ring if the request asks for it
 *                       (FLUX_MSGF_RING), or if the tree is broken there; else EHOSTUNREACH.
 *                       To the parent if the rank may be pending at a broker above (core_heal.c),
 *                       since a lost rank between was put back into its place.
 *                       Where the next rank of the ring is lost or absent, the tree closes the gap:
 *                       a request leaves the ring there, and does not return to it
 *
 * Held requests: a request to a neighbor that has not joined yet, or whose queue is full, is held
 * until it can be sent, or until the neighbor is lost, or counts as absent.  Three other kinds of
 * requests are held as well: to a rank that has lost the broker above it and may connect to this
 * broker (if it connects above, a request from there fails rather than be overtaken), to a rank
 * that is about to move here from another parent (core_restore.c), and to the parent while this
 * broker looks for another parent or moves to it.
 *
 * Routes: each hop pushes the previous one onto the route stack of the request; the response pops
 * the stack hop by hop.
 *
 * Drawing (request): a request from a client of rank 2 to a service of rank 0, and its response.
 *
 *     client 7           rank 2                       rank 0                    module
 *        |                 |                            |                          |
 *        | request, tag 5  |                            |                          |
 *        |---------------->| routes: client 7           |                          |
 *        |                 | inflight: client 7 waits   |                          |
 *        |                 |--------------------------->| routes: client 7, rank 2 |
 *        |                 |                            | inflight: rank 2 waits   |
 *        |                 |                            |------------------------->|
 *        |                 |                            |                          |
 *        |                 |                            |<-------------------------|
 *        |                 |<---------------------------| response, pops rank 2    |
 *        |<----------------| response, pops client 7    |                          |
 *
 * Accounts: requests that wait in the queues of local modules are charged to an account: one per
 * local process, and one per other rank.  A request weighs 1, and 1 more for each QUEUED_UNIT
 * bytes.
 *
 * Invariants:
 *  1. Every request that wants an answer gets exactly one final response, whatever is lost.
 *  2. A request on the ring passes no broker twice: it makes fewer hops there than the session has
 *     ranks, and none after it has left the ring.
 *  3. At most HELD_MAX requests, or HELD_BYTES_MAX bytes, are held for one neighbor, and HELD_NEWS
 *     further requests that must arrive (core_must_arrive()).  A local client is not read while
 *     more than CONGESTED of its requests, or CONGESTED_BYTES, are held.
 *  4. A local client is not read after the waiting requests of its process have exceeded the weight
 *     QUEUED_MAX (QUEUED_FEW while several clients send), until they fall to half of it.  Requests
 *     that closed connections have left count too, so a process that floods a module slows down
 *     only itself.
 *  5. The waiting requests of clients of other ranks weigh RANKS_MAX at most, and those of one rank
 *     no more than the remainder of RANKS_MAX: a rank that floods leaves half of it to the others.
 *     A request beyond that is refused.
 *  6. Held requests for a neighbor are sent before any later message for it.
 *  7. A request of a rank that has moved does not pass the broker where its ways meet after a later
 *     request of the rank has: by then that broker knows the move, and the earlier request, which
 *     has failed where its way ended, fails there, too.  Requests that may be sent again, and
 *     those without an answer, are passed on.
 *  8. A request of a broker that the session counts as lost fails at the first broker that knows.
 *
 * Failure: errors are answered to the sender.  A request without an answer (NORESPONSE) that fails
 * is counted as dropped.  Notices that a sender is gone are such requests; they are not dropped for
 * lack of room (core_must_arrive()).  The loss of a neighbor ends all its requests.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libutil/le.h"

#define HELD_MAX 65536
#define HELD_NEWS (4 * HELD_MAX)
#define HELD_BYTES_MAX (64 * 1024 * 1024)
#define CONGESTED 1024
#define CONGESTED_BYTES (1024 * 1024)
/* weight per process, in all modules: 256 small requests, or a MiB; QUEUED_FEW: several clients
 * send */
#define QUEUED_MAX 256
#define QUEUED_FEW (2 * CORE_QUEUED_LOW)
#define QUEUED_UNIT 4096
#define RANKS_MAX 16384

struct held {
    struct list_node node;
    flux_msg_t *msg;
    uint32_t from_ep; /* id of the endpoint, which may be gone when the request is sent */
    struct peer *from_peer;
};

size_t topic_service_len(const char *topic)
{
    return strcspn(topic, ".");
}

uint32_t route_sender(const flux_msg_t *msg)
{
    return flux_msg_route_count(msg) > 1 ? flux_route_value(flux_msg_route_at(msg, 1))
                                         : FLUX_NODEID_ANY;
}

static endpoint_t *find_service(core_t *c, const flux_msg_t *msg)
{
    const char *topic = flux_msg_topic(msg);
    size_t len = topic_service_len(topic);
    char name[FLUX_MSG_TOPIC_MAX + 1];

    memcpy(name, topic, len);
    name[len] = '\0';
    return hmap_get(c->services, name);
}

/* Give the response to the endpoint or neighbor of route id `id`. */
static void response_to(core_t *c, uint32_t id, flux_msg_t *msg, const struct trace_origin *from)
{
    uint32_t value = flux_route_value(id);

    c->stats.responses++;
    if (flux_route_kind(id) == FLUX_ROUTE_ENDPOINT) {
        endpoint_t *ep = hmap_get_u64(c->endpoints, value);
        if (ep) {
            if (c->trace)
                trace_response(c, msg, from, ep, NULL);
            ep->ops->send(ep->arg, msg);
            return;
        }
    } else {
        bool ring = flux_route_kind(id) == FLUX_ROUTE_RING;
        struct peer *p = ring ? &c->ring_prev : overlay_tree_peer(c, value);

        if (c->trace && p && !p->lost)
            trace_response(c, msg, from, NULL, p);
        if (p && !p->lost &&
            c->link->send(c->link_arg, ring ? CORE_RING : CORE_TREE, value, msg, true) == 0) {
            if (ring)
                c->stats.ring++;
            else if (p == c->parent)
                c->stats.tree_up++;
            else
                c->stats.tree_down++;
            return;
        }
    }
    c->stats.dropped++;
    flux_msg_destroy(msg);
}

/* Send the response to the next hop of its way back. */
static void response_hop(core_t *c, flux_msg_t *msg, const struct trace_origin *from)
{
    uint32_t id;

    if (flux_msg_route_pop(msg, &id) == 0) {
        response_to(c, id, msg, from);
        return;
    }
    c->stats.dropped++;
    flux_msg_destroy(msg);
}

static flux_msg_t *make_error(core_t *c, const flux_msg_t *req, int errnum, const char *fmt,
                              va_list ap)
{
    flux_msg_t *resp;
    char text[320];

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE)) {
        c->stats.dropped++;
        return NULL;
    }
    vsnprintf(text, sizeof(text), fmt, ap);
    if (!(resp = flux_msg_response_create(req, errnum)))
        return NULL;
    flux_msg_set_nodeid(resp, c->cfg.rank);
    if (flux_msg_set_json(resp, text) < 0) {
        flux_msg_destroy(resp);
        return NULL;
    }
    return resp;
}

/* Answer a request that does not have an entry among the pending ones. */
void route_error(core_t *c, const flux_msg_t *req, int errnum, const char *fmt, ...)
{
    flux_msg_t *resp;
    va_list ap;

    va_start(ap, fmt);
    resp = make_error(c, req, errnum, fmt, ap);
    va_end(ap);
    if (resp)
        response_hop(c, resp, NULL);
}

/* Answer a request whose sender, `id`, is not on its route stack. */
static void refuse(core_t *c, uint32_t id, const flux_msg_t *req, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static void refuse(core_t *c, uint32_t id, const flux_msg_t *req, int errnum, const char *fmt, ...)
{
    flux_msg_t *resp;
    va_list ap;

    va_start(ap, fmt);
    resp = make_error(c, req, errnum, fmt, ap);
    va_end(ap);
    if (resp)
        response_to(c, id, resp, NULL);
}

void route_response(core_t *c, flux_msg_t *msg)
{
    struct inflight *f = inflight_find(c, msg);
    struct trace_origin from;

    if (!f) { /* late, or one answer too many */
        c->stats.dropped++;
        flux_msg_destroy(msg);
        return;
    }
    from = (struct trace_origin){f->to_ep, f->to_peer, f->asked};
    /* Only a streaming request can have more responses. */
    if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING) ||
        !flux_msg_has_flag(f->req, FLUX_MSGF_STREAMING))
        inflight_remove(c, f);
    else
        f->answered = true;
    response_hop(c, msg, &from);
}

/* Find the account to charge while the request waits: that of the sender's process, or, for a
 * client of another rank, that of the rank.  Requests of brokers and their modules are not charged.
 * Returns false if there is no room, after answering the request. */
static bool charged(core_t *c, const flux_msg_t *msg, endpoint_t *from_ep, struct account **account)
{
    size_t n = flux_msg_route_count(msg);
    struct account *a;
    uint32_t rank;

    *account = NULL;
    if (from_ep) {
        *account = from_ep->account;
        return true;
    }
    if (n < 2 || (flux_msg_rolemask(msg) & FLUX_ROLE_BROKER))
        return true;
    /* The first broker has pushed its client, and the next broker has pushed the first one. */
    rank = flux_route_value(flux_msg_route_at(msg, 1));
    if (!(a = account_join(c, CORE_ACCOUNT_RANK | rank))) {
        route_error(c, msg, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        return false;
    }
    *account = a;
    if (c->queued + a->queued + core_request_weight(msg) <= RANKS_MAX)
        return true;
    if (!a->choked)
        core_log(c, LOG_ERR,
                 "clients of rank %u flood the modules of rank %u: requests are refused", rank,
                 c->cfg.rank);
    a->choked = true;
    route_error(
        c, msg, EAGAIN,
        "clients of rank %u have more requests at rank %u than it can take: try again later", rank,
        c->cfg.rank);
    return false;
}

static unsigned queued_max(const core_t *c)
{
    return c->several ? QUEUED_FEW : QUEUED_MAX;
}

void core_set_several(core_t *c, bool several)
{
    c->several = several;
}

static void enqueue(core_t *c, endpoint_t *ep, flux_msg_t *msg, struct account *a)
{
    unsigned weight = core_request_weight(msg);
    uint32_t number = a->number;

    a->refs += a->queued == 0;
    a->queued += weight;
    if (number & CORE_ACCOUNT_RANK)
        c->queued += weight;
    else if (a->queued > queued_max(c))
        a->choked = true;
    if (ep->ops->queue(ep->arg, msg, number) < 0)
        core_endpoint_taken(c, number, weight);
}

static void traced(struct inflight *f, double asked)
{
    if (f)
        f->asked = asked;
}

/* A client cancels a request, or a neighbor passes on that a client, or the way to it, is gone. */
static void note_ended(core_t *c, const flux_msg_t *msg, const endpoint_t *from_ep,
                       const struct peer *from, const endpoint_t *to_ep, const struct peer *to_peer)
{
    if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
        return;
    if (to_peer)
        inflight_canceled(c, msg, from_ep, from);
    if (from && core_must_arrive(msg))
        inflight_ended(c, msg, from, to_ep, to_peer);
}

static void deliver_local(core_t *c, endpoint_t *ep, flux_msg_t *msg, endpoint_t *from_ep,
                          struct peer *from_peer)
{
    struct account *a = NULL;
    struct inflight *f = NULL;

    note_ended(c, msg, from_ep, from_peer, ep, NULL);
    if (ep->ops->queue && !charged(c, msg, from_ep, &a))
        flux_msg_destroy(msg);
    else if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE) &&
             !(f = inflight_add(c, msg, from_ep, from_peer, ep, NULL))) {
        route_error(c, msg, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        flux_msg_destroy(msg);
    } else {
        if (c->trace)
            traced(f, trace_request(c, msg, from_ep, from_peer, ep, NULL));
        if (a)
            enqueue(c, ep, msg, a);
        else
            ep->ops->send(ep->arg, msg);
    }
    if (a && !from_ep)
        account_leave(c, a);
}

bool core_must_arrive(const flux_msg_t *msg)
{
    const char *dot = strrchr(flux_msg_topic(msg), '.');

    return (flux_msg_rolemask(msg) & FLUX_ROLE_BROKER) && dot &&
           (strcmp(dot, ".disconnect") == 0 || strcmp(dot, ".cancel") == 0);
}

static bool may_hold(const struct peer *p, const flux_msg_t *msg, size_t size)
{
    if (p->held_count < HELD_MAX && p->held_bytes + size <= HELD_BYTES_MAX)
        return true;
    return p->held_count < HELD_MAX + HELD_NEWS && core_must_arrive(msg);
}

static void hold(core_t *c, struct peer *p, flux_msg_t *msg, endpoint_t *from_ep,
                 struct peer *from_peer)
{
    size_t size = flux_msg_encoded_size(msg);
    struct held *held = NULL;

    if (may_hold(p, msg, size) && (held = malloc(sizeof(*held)))) {
        held->msg = msg;
        held->from_ep = from_ep ? from_ep->id : 0;
        held->from_peer = from_peer;
        list_append(&p->held, &held->node);
        p->held_count++;
        p->held_bytes += size;
        if (p->held_count > c->stats.held_max)
            c->stats.held_max = p->held_count;
        if (p->held_bytes > c->stats.held_bytes_max)
            c->stats.held_bytes_max = p->held_bytes;
        if (from_ep) {
            from_ep->held_count++;
            from_ep->held_bytes += size;
        }
        return;
    }
    route_error(c, msg, EAGAIN, "rank %u does not keep up with its requests: try again later",
                p->rank);
    flux_msg_destroy(msg);
}

static void set_flag(flux_msg_t *msg, unsigned flag, bool on)
{
    unsigned flags = flux_msg_flags(msg);

    flux_msg_set_flags(msg, on ? flags | flag : flags & ~flag);
}

/* Send a request to a neighbor.  Returns 0 if the request was sent or answered, or -1 if it has to
 * wait. */
static int try_send(core_t *c, struct peer *p, flux_msg_t *msg, endpoint_t *from_ep,
                    struct peer *from_peer)
{
    bool upstream = flux_msg_has_flag(msg, FLUX_MSGF_UPSTREAM);
    struct inflight *f = NULL;
    flux_msg_t *sent;
    int errnum;

    note_ended(c, msg, from_ep, from_peer, NULL, p);
    if (upstream) /* the request may be for the services of the next broker */
        set_flag(msg, FLUX_MSGF_UPSTREAM, false);
    if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE) &&
        !(f = inflight_add(c, msg, from_ep, from_peer, NULL, p))) {
        route_error(c, msg, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        flux_msg_destroy(msg);
        return 0;
    }
    sent = c->trace ? flux_msg_incref(msg) : NULL;
    if (c->link->send(c->link_arg, p->plane, p->rank, msg, false) == 0) {
        if (sent)
            traced(f, trace_request(c, sent, from_ep, from_peer, NULL, p));
        flux_msg_destroy(sent);
        if (p->plane == CORE_RING)
            c->stats.ring++;
        else if (p == c->parent)
            c->stats.tree_up++;
        else
            c->stats.tree_down++;
        return 0;
    }
    errnum = errno;
    flux_msg_destroy(sent);
    /* The link is about to report the loss; what may be sent again is sent then. */
    if (errnum == EHOSTUNREACH && f && p->up && !p->lost && heal_now(c) &&
        flux_msg_has_flag(msg, FLUX_MSGF_IDEMPOTENT)) {
        flux_msg_destroy(msg);
        return 0;
    }
    if (f)
        inflight_remove(c, f);
    if (errnum == EAGAIN) {
        if (upstream)
            set_flag(msg, FLUX_MSGF_UPSTREAM, true);
        return -1;
    }
    if (errnum != EHOSTUNREACH || !inflight_sent_again(c, msg, from_peer))
        route_error(c, msg, EHOSTUNREACH, "rank %u cannot be reached from rank %u: %s", p->rank,
                    c->cfg.rank, strerror(errnum));
    flux_msg_destroy(msg);
    return 0;
}

static void forward(core_t *c, struct peer *p, flux_msg_t *msg, endpoint_t *from_ep,
                    struct peer *from_peer)
{
    if (!p->up || !list_empty(&p->held) || try_send(c, p, msg, from_ep, from_peer) < 0)
        hold(c, p, msg, from_ep, from_peer);
}

/* Returns whether a request to `nodeid` ends at this broker. */
static bool is_here(const core_t *c, uint32_t nodeid)
{
    return nodeid == FLUX_NODEID_ROOT ? core_is_root(c) : nodeid == c->cfg.rank;
}

/* Return the neighbor in the tree on the way to another rank, or NULL if there is none. */
static struct peer *next_hop(core_t *c, uint32_t nodeid)
{
    const topology_t *tree = overlay_tree(c);
    struct peer *p = hmap_get_u64(c->child_by_rank, topology_next_hop(tree, c->cfg.rank, nodeid));

    return p || topology_is_ancestor(tree, c->cfg.rank, nodeid) ? p : c->parent;
}

/* Returns whether a rank without a way to it here may be pending at a broker above: a lost rank
 * above it was put back into its place below this broker, and it has never been here.  A request
 * that the parent has sent is not returned to it, and one that a child has sent for this reason not
 * to the child. */
static bool may_wait_above(const core_t *c, uint32_t nodeid, const struct peer *from)
{
    return !idset_test(c->up, nodeid) && heal_now(c) && !core_is_root(c) && !c->parent->lost &&
           from != c->parent && topology_is_ancestor(overlay_tree(c), c->cfg.rank, nodeid) &&
           !census_is_gone(c, nodeid);
}

/* Returns whether a rank is below a lost one that was put back into its place below this broker. */
static bool is_below_lost(const core_t *c, uint32_t nodeid)
{
    const topology_t *tree = overlay_tree(c);
    uint32_t r = topology_parent(tree, nodeid);

    while (r != c->cfg.rank && r != TOPOLOGY_NONE && !census_is_gone(c, r))
        r = topology_parent(tree, r);
    return r != c->cfg.rank && r != TOPOLOGY_NONE;
}

/* Returns whether a request that the parent has sent would have to go back to it: the rank was
 * pending here, and has connected above, where later requests go to it at once. */
static bool was_overtaken(const core_t *c, const flux_msg_t *msg, const struct peer *next,
                          const struct peer *from)
{
    return next && next == from && next == c->parent && !flux_msg_has_flag(msg, FLUX_MSGF_RING) &&
           !flux_msg_has_flag(msg, FLUX_MSGF_IDEMPOTENT) && !core_must_arrive(msg);
}

/* Return the number of hops that a request has made along the ring; it may have come through the
 * tree before. */
static uint32_t ring_hops(const flux_msg_t *msg)
{
    uint32_t n = 0;

    for (size_t i = 0; i < flux_msg_route_count(msg); i++)
        n += flux_route_kind(flux_msg_route_at(msg, i)) == FLUX_ROUTE_RING;
    return n;
}

/* Returns whether a request has come along the ring, and by the tree after that. */
static bool has_left_ring(const flux_msg_t *msg)
{
    bool ring = false;

    for (size_t i = 0; i < flux_msg_route_count(msg); i++) {
        uint32_t kind = flux_route_kind(flux_msg_route_at(msg, i));

        if (ring && kind == FLUX_ROUTE_TREE)
            return true;
        ring |= kind == FLUX_ROUTE_RING;
    }
    return false;
}

/* Returns whether the ring is open behind this broker. */
static bool ring_ends(const core_t *c)
{
    return c->ring_next.lost || c->ring_next.absent;
}

/* Returns whether a request goes from the ring to the tree: the ring ends here, and this broker has
 * not sent the request by the tree before, where it has come to a break. */
static bool leaves_ring(const core_t *c, const flux_msg_t *msg)
{
    uint32_t sent = flux_route_make(FLUX_ROUTE_TREE, c->cfg.rank);

    for (size_t i = 0; i < flux_msg_route_count(msg); i++)
        if (flux_msg_route_at(msg, i) == sent)
            return false;
    return ring_ends(c);
}

/* Returns whether this broker leaves, and has no way for a request that a neighbor on the tree has
 * sent.  The neighbor is about to learn that it has left, and then ends the request, or sends it
 * another way: the rank may be there by then.  An answer now would only be followed by the same
 * request again. */
static bool ends_with_us(const core_t *c, const flux_msg_t *msg, const struct peer *from)
{
    return c->alone && from && from->plane == CORE_TREE &&
           !(flux_msg_flags(msg) & (FLUX_MSGF_RING | FLUX_MSGF_NORESPONSE)) && !has_left_ring(msg);
}

/* Route a request whose sender is already on the route stack. */
static void route(core_t *c, flux_msg_t *msg, endpoint_t *from_ep, struct peer *from_peer)
{
    uint32_t nodeid = flux_msg_nodeid(msg);
    bool here = is_here(c, nodeid);
    unsigned flags = flux_msg_flags(msg);
    bool above;
    struct peer *p;
    endpoint_t *ep;

    if (nodeid == FLUX_NODEID_ANY || here) {
        if (!(flags & FLUX_MSGF_UPSTREAM) && (ep = find_service(c, msg))) {
            deliver_local(c, ep, msg, from_ep, from_peer);
            return;
        }
        if (here || core_is_root(c)) {
            int len = (int)topic_service_len(flux_msg_topic(msg));
            route_error(c, msg, ENOSYS, "%s %u has %s service '%.*s': load module '%.*s' there",
                        here ? "rank" : "no broker up to rank", c->cfg.rank, here ? "no" : "a", len,
                        flux_msg_topic(msg), len, flux_msg_topic(msg));
            flux_msg_destroy(msg);
            return;
        }
        if (c->parent->lost) {
            c->stats.unreachable++;
            route_error(c, msg, EHOSTUNREACH,
                        "rank %u has lost its parent, rank %u: nothing above can be reached",
                        c->cfg.rank, c->parent->rank);
            flux_msg_destroy(msg);
            return;
        }
        forward(c, c->parent, msg, from_ep, from_peer);
        return;
    }
    if (nodeid >= c->cfg.size) {
        route_error(c, msg, EHOSTUNREACH, "rank %u does not exist: the session has ranks 0-%u",
                    nodeid, c->cfg.size - 1);
        flux_msg_destroy(msg);
        return;
    }
    if ((flags & FLUX_MSGF_RING) && leaves_ring(c, msg)) {
        flags &= ~(unsigned)FLUX_MSGF_RING;
        flux_msg_set_flags(msg, flags);
    }
    if (((c->pending && idset_test(c->pending, nodeid)) ||
         (c->expected && idset_test(c->expected, nodeid))) &&
        !(flags & FLUX_MSGF_RING)) {
        hold(c, &c->unsettled, msg, from_ep, from_peer);
        return;
    }
    p = next_hop(c, nodeid);
    if (was_overtaken(c, msg, p, from_peer)) {
        c->stats.unreachable++;
        route_error(c, msg, EHOSTUNREACH,
                    "rank %u cannot be reached: it has left rank %u while the request waited there",
                    nodeid, c->cfg.rank);
        flux_msg_destroy(msg);
        return;
    }
    above = !(flags & FLUX_MSGF_RING) && p != c->parent && may_wait_above(c, nodeid, from_peer);
    if (!(flags & FLUX_MSGF_RING) && p && !p->lost && !p->gone && !p->absent &&
        !(above && (p == from_peer || is_below_lost(c, nodeid)))) {
        forward(c, p, msg, from_ep, from_peer);
        return;
    }
    if (above) {
        forward(c, c->parent, msg, from_ep, from_peer);
        return;
    }
    if (ends_with_us(c, msg, from_peer)) {
        flux_msg_destroy(msg);
        return;
    }
    if (c->cfg.size > 1 && !ring_ends(c) && ring_hops(msg) + 1 < c->cfg.size &&
        !has_left_ring(msg)) {
        flux_msg_set_flags(msg, flags | FLUX_MSGF_RING);
        forward(c, &c->ring_next, msg, from_ep, from_peer);
        return;
    }
    c->stats.unreachable++;
    if (!inflight_sent_again(c, msg, from_peer))
        route_error(c, msg, EHOSTUNREACH, "rank %u cannot be reached: rank %u has no route to it",
                    nodeid, c->cfg.rank);
    flux_msg_destroy(msg);
}

/* Returns whether this request is of a broker that lives, and that the session counts as lost; or
 * will, since a child has named it below itself, and was not believed (core_stale.c). */
static bool is_zombie(const core_t *c, const flux_msg_t *msg, const struct peer *from)
{
    uint32_t sender = route_sender(msg);

    if (!from || sender == FLUX_NODEID_ANY)
        return false;
    return (heal_can(c) && census_is_past(c, sender, flux_msg_incarnation(msg))) ||
           (from->denied && idset_test(from->denied, sender));
}

/* Returns whether a child has sent a request of a rank that is not below it any longer: the request
 * has waited on an earlier way of that rank, a broker there has answered it when that way ended,
 * and later requests of the rank may have passed already. */
static bool is_outrun(core_t *c, const flux_msg_t *msg, const struct peer *from)
{
    uint32_t sender = route_sender(msg);
    unsigned again = FLUX_MSGF_RING | FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_NORESPONSE;

    return c->tree && from && from->plane == CORE_TREE && from != c->parent &&
           sender != from->rank && !(flux_msg_flags(msg) & again) && idset_test(c->up, sender) &&
           next_hop(c, sender) != from && ring_hops(msg) == 0;
}

void route_request(core_t *c, flux_msg_t *msg, endpoint_t *from_ep, struct peer *from_peer)
{
    uint32_t id;

    if (from_ep)
        id = flux_route_make(FLUX_ROUTE_ENDPOINT, from_ep->id);
    else
        id = flux_route_make(from_peer->plane == CORE_RING ? FLUX_ROUTE_RING : FLUX_ROUTE_TREE,
                             from_peer->rank);
    c->stats.requests++;
    if (flux_msg_route_push(msg, id) < 0) {
        if (errno == EOVERFLOW)
            refuse(c, id, msg, EHOSTUNREACH,
                   "the request got no further than rank %u: it may make at most %d hops",
                   c->cfg.rank, FLUX_MSG_ROUTES_MAX);
        else
            refuse(c, id, msg, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        flux_msg_destroy(msg);
        return;
    }
    if (is_zombie(c, msg, from_peer)) {
        route_error(c, msg, EHOSTUNREACH, "the session counts rank %u as lost", route_sender(msg));
        flux_msg_destroy(msg);
        return;
    }
    if (is_outrun(c, msg, from_peer)) {
        c->stats.unreachable++;
        route_error(c, msg, EHOSTUNREACH,
                    "rank %u is not below rank %u any longer: the request has waited there",
                    route_sender(msg), from_peer->rank);
        flux_msg_destroy(msg);
        return;
    }
    route(c, msg, from_ep, from_peer);
}

void route_again(core_t *c, flux_msg_t *msg, endpoint_t *from_ep, struct peer *from_peer, bool up)
{
    /* The way is as before, past the services of this broker. */
    set_flag(msg, FLUX_MSGF_UPSTREAM, up && flux_msg_nodeid(msg) == FLUX_NODEID_ANY);
    if (up)
        forward(c, c->parent, msg, from_ep, from_peer);
    else
        route(c, msg, from_ep, from_peer);
}

struct account *account_join(core_t *c, uint32_t number)
{
    struct account *a = hmap_get_u64(c->accounts, number);

    if (!a) {
        if (!(a = calloc(1, sizeof(*a))))
            return NULL;
        a->number = number;
        if (hmap_put_u64(c->accounts, number, a) < 0) {
            free(a);
            return NULL;
        }
    }
    a->refs++;
    return a;
}

void account_leave(core_t *c, struct account *a)
{
    if (a && --a->refs == 0)
        hmap_del_u64(c->accounts, a->number);
}

bool core_endpoint_congested(const endpoint_t *ep)
{
    return (ep->account && ep->account->choked) || ep->held_count > CONGESTED ||
           ep->held_bytes > CONGESTED_BYTES;
}

unsigned core_request_weight(const flux_msg_t *msg)
{
    return 1 + (unsigned)(flux_msg_encoded_size(msg) / QUEUED_UNIT);
}

void core_endpoint_taken(core_t *c, uint32_t from, unsigned weight)
{
    struct account *a = hmap_get_u64(c->accounts, from);
    bool relief;

    if (!a || a->queued == 0)
        return;
    if (weight > a->queued)
        weight = a->queued;
    a->queued -= weight;
    if (from & CORE_ACCOUNT_RANK)
        c->queued -= weight;
    relief = a->choked && a->queued <= queued_max(c) / 2;
    a->choked &= !relief;
    if (a->queued == 0)
        account_leave(c, a);
    if (relief && c->relief_cb)
        c->relief_cb(c->relief_arg);
}

/* Remove a held request from the count of its endpoint.  Returns true when the endpoint is no
 * longer congested. */
static bool leave_held(endpoint_t *ep, size_t size)
{
    bool congested = ep && core_endpoint_congested(ep);

    if (ep) {
        ep->held_count--;
        ep->held_bytes -= size;
    }
    return congested && !core_endpoint_congested(ep);
}

void route_held(core_t *c, struct peer *p)
{
    struct list_node later;
    struct list_node *n;
    size_t count = p->held_count;
    size_t bytes = p->held_bytes;
    bool relief = false;
    bool waits = false;

    /* The list is a separate one: requests that are held again during this pass are put back in
     * order. */
    list_init(&later);
    while ((n = list_first(&p->held))) {
        list_remove(n);
        list_append(&later, n);
    }
    p->held_count = p->held_bytes = 0;
    while (!waits && (n = list_first(&later))) {
        struct held *held = list_entry(n, struct held, node);
        endpoint_t *ep = held->from_ep ? hmap_get_u64(c->endpoints, held->from_ep) : NULL;
        size_t size = flux_msg_encoded_size(held->msg);

        relief = leave_held(ep, size) || relief;
        /* The sender has disconnected, so the response is not wanted. */
        if (!ep && !held->from_peer && !flux_msg_has_flag(held->msg, FLUX_MSGF_NORESPONSE))
            flux_msg_destroy(held->msg);
        else if (p->lost || p->gone || p->absent)
            route(c, held->msg, ep, held->from_peer);
        else if (!p->up || try_send(c, p, held->msg, ep, held->from_peer) < 0) {
            if (ep) {
                ep->held_count++;
                ep->held_bytes += size;
            }
            waits = true;
            break;
        }
        list_remove(n);
        free(held);
        count--;
        bytes -= size;
    }
    if (waits) {
        while ((n = list_first(&p->held))) {
            list_remove(n);
            list_append(&later, n);
        }
        while ((n = list_first(&later))) {
            list_remove(n);
            list_append(&p->held, n);
        }
        p->held_count += count;
        p->held_bytes += bytes;
    }
    /* Paused clients continue after this pass. */
    if (relief && c->relief_cb)
        c->relief_cb(c->relief_arg);
    restore_drained(c);
}

void core_on_relief(core_t *c, void (*cb)(void *arg), void *arg)
{
    c->relief_cb = cb;
    c->relief_arg = arg;
}

void route_held_destroy(core_t *c, struct peer *p)
{
    LIST_FOREACH_SAFE(it, tmp, &p->held)
    {
        struct held *held = list_entry(it, struct held, node);
        list_remove(it);
        flux_msg_destroy(held->msg);
        free(held);
    }
}

/* Forget the requests that are held for `p`: those that came from the neighbor `from`, or those of
 * senders at these ranks, which the brokers in between still keep.  Notices are kept. */
static void forget_held(core_t *c, struct peer *p, const struct peer *from, const idset_t *ranks)
{
    LIST_FOREACH_SAFE(it, tmp, &p->held)
    {
        struct held *held = list_entry(it, struct held, node);
        flux_msg_t *msg = held->msg;

        if (ranks ? !idset_test(ranks, route_sender(msg)) : held->from_peer != from)
            continue;
        if (!ranks)
            held->from_peer = NULL; /* it may be freed */
        if (flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
            continue;
        list_remove(it);
        p->held_count--;
        p->held_bytes -= flux_msg_encoded_size(msg);
        if (held->from_peer)
            route_error(c, msg, EHOSTUNREACH, "%s: the rank of the sender is lost",
                        flux_msg_topic(msg));
        flux_msg_destroy(msg);
        free(held);
    }
}

static void forget_all_held(core_t *c, const struct peer *from, const idset_t *ranks)
{
    for (uint32_t i = 0; i < c->nchildren; i++)
        forget_held(c, c->children[i], from, ranks);
    forget_held(c, &c->unsettled, from, ranks);
    if (c->parent)
        forget_held(c, c->parent, from, ranks);
    forget_held(c, &c->ring_next, from, ranks);
}

void route_held_forget(core_t *c, const struct peer *from)
{
    forget_all_held(c, from, NULL);
}

void route_held_forget_ranks(core_t *c, const idset_t *ranks)
{
    forget_all_held(c, NULL, ranks);
}

static bool holds_from(const struct peer *p, const struct peer *from)
{
    LIST_FOREACH(it, &p->held)
    {
        if (list_entry(it, struct held, node)->from_peer == from)
            return true;
    }
    return false;
}

bool route_holds_from(const core_t *c, const struct peer *from)
{
    bool holds = holds_from(&c->unsettled, from) || holds_from(&c->ring_next, from) ||
                 (c->parent && holds_from(c->parent, from));

    for (uint32_t i = 0; !holds && i < c->nchildren; i++)
        holds = holds_from(c->children[i], from);
    return holds;
}

int route_control(core_t *c, struct peer *p, flux_msg_t *msg)
{
    flux_msg_set_term(msg, c->term);
    if (c->link->send(c->link_arg, CORE_TREE, p->rank, msg, true) < 0) {
        flux_msg_destroy(msg);
        return -1;
    }
    if (p == c->parent)
        c->stats.tree_up++;
    else
        c->stats.tree_down++;
    return 0;
}

void route_disconnect(core_t *c, const flux_msg_t *like, endpoint_t *to_ep, struct peer *to_peer)
{
    char topic[FLUX_MSG_TOPIC_MAX + 16];
    uint8_t tag[INFLIGHT_TAG];
    flux_msg_t *msg;

    le_put32(tag, flux_msg_matchtag(like));
    snprintf(topic, sizeof(topic), "%.*s.disconnect", (int)topic_service_len(flux_msg_topic(like)),
             flux_msg_topic(like));
    if (!(msg = flux_msg_create(FLUX_MSG_REQUEST, topic)))
        return;
    for (size_t i = 0; i < flux_msg_route_count(like); i++) {
        if (flux_msg_route_push(msg, flux_msg_route_at(like, i)) < 0) {
            flux_msg_destroy(msg);
            return;
        }
    }
    flux_msg_set_cred(msg, c->cfg.userid, FLUX_ROLE_BROKER);
    flux_msg_set_term(msg, c->term);
    (void)flux_msg_set_raw(msg, tag, sizeof(tag)); /* without memory: brokers keep the request */
    flux_msg_set_nodeid(msg, to_ep ? FLUX_NODEID_ANY : flux_msg_nodeid(like));
    /* The notice takes the way of the request. */
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT |
                                (flux_msg_flags(like) & FLUX_MSGF_RING));
    if (to_ep)
        to_ep->ops->send(to_ep->arg, msg);
    else if (to_peer && !to_peer->lost &&
             c->link->send(c->link_arg, to_peer->plane, to_peer->rank, msg, true) == 0)
        return;
    else
        flux_msg_destroy(msg);
}
