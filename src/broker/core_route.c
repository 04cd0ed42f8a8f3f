/* core_route.c - where a message goes.
 *
 *    request for        goes to
 *    any rank           the local service of that name; else the parent; at the root ENOSYS.
 *                       With FLUX_MSGF_UPSTREAM the sender's own broker is skipped: that is how an
 *                       instance of a service reaches the next one above, and reductions are made.
 *    this rank          the local service; else ENOSYS
 *    another rank       the tree neighbour on the way; along the ring when asked to (FLUX_MSGF_RING)
 *                       or when the tree is broken there; else EHOSTUNREACH
 *    a neighbour that has not joined yet, or whose queue is full: held, in order, until it can be
 *                       sent, or the neighbour is lost
 *
 * Whoever hands over a request is pushed on its route stack; the response pops the same stack hop
 * by hop.
 *
 * Invariants:
 *  1. Every request that wants an answer gets exactly one last response, whatever is lost.
 *  2. A request never comes back to a broker on the ring: more hops than ranks end it.
 *  3. No more than HELD_MAX requests, or HELD_BYTES_MAX bytes of them, are held for one neighbour,
 *     but for what must arrive (core_must_arrive()), of which there may be HELD_NEWS more;
 * a local client is not read while more than CONGESTED of its own, or CONGESTED_BYTES, are held.
 *  4. A local client is not read while requests of more than QUEUED_MAX of its process wait in the queues of
 *     modules, those that clients left there who are gone included: who floods a module holds up itself,
 *     through however many connections.
 *  5. Requests of clients of other ranks that wait in the queues of modules are RANKS_MAX at most, and those of
 *     one rank no more than what is left of that: who floods from one rank leaves half of it to others.  What
 *     finds no room is refused.
 *  6. What is held for a neighbour is sent before anything that comes later for it.
 *
 * Failure: errors are answered to the sender; what has no sender to answer (NORESPONSE) is counted
 * as dropped.  That a sender is gone is said in such requests: they are not dropped for want of room
 * (core_must_arrive()), and with a neighbour that is lost goes all that came by it.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"

#define HELD_MAX 65536
#define HELD_NEWS (4 * HELD_MAX)
#define HELD_BYTES_MAX (64 * 1024 * 1024)
#define CONGESTED 1024
#define CONGESTED_BYTES (1024 * 1024)
/* Of one process in all modules: so many small requests, or a MiB. */
#define QUEUED_MAX (2 * CORE_QUEUED_LOW)
#define QUEUED_UNIT 4096
#define RANKS_MAX 16384

struct held {
    struct list_node node;
    flux_msg_t *msg;
    uint32_t from_ep; /* endpoint id: it may be gone by the time */
    struct peer *from_peer;
};

size_t topic_service_len(const char *topic)
{
    return strcspn(topic, ".");
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

/* Give the response to whom route id `id` stands for. */
static void response_to(core_t *c, uint32_t id, flux_msg_t *msg)
{
    uint32_t value = flux_route_value(id);

    c->stats.responses++;
    if (flux_route_kind(id) == FLUX_ROUTE_ENDPOINT) {
        endpoint_t *ep = hmap_get_u64(c->endpoints, value);
        if (ep) {
            ep->ops->send(ep->arg, msg);
            return;
        }
    } else {
        bool ring = flux_route_kind(id) == FLUX_ROUTE_RING;
        struct peer *p = ring ? &c->ring_prev : overlay_tree_peer(c, value);
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

/* Put the response on the next hop of its way back. */
static void response_hop(core_t *c, flux_msg_t *msg)
{
    uint32_t id;

    if (flux_msg_route_pop(msg, &id) == 0) {
        response_to(c, id, msg);
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

/* The request has no entry: its answer goes straight back. */
void route_error(core_t *c, const flux_msg_t *req, int errnum, const char *fmt, ...)
{
    flux_msg_t *resp;
    va_list ap;

    va_start(ap, fmt);
    resp = make_error(c, req, errnum, fmt, ap);
    va_end(ap);
    if (resp)
        response_hop(c, resp);
}

/* The same for one whose sender, `id`, is not on its route stack. */
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
        response_to(c, id, resp);
}

void route_response(core_t *c, flux_msg_t *msg)
{
    struct inflight *f = inflight_find(c, msg);

    if (!f) { /* late, or an answer too many */
        c->stats.dropped++;
        flux_msg_destroy(msg);
        return;
    }
    /* More can follow only where a stream was asked for. */
    if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING) ||
        !flux_msg_has_flag(f->req, FLUX_MSGF_STREAMING))
        inflight_remove(c, f);
    response_hop(c, msg);
}

/* Who is charged for a request while it waits: the sender's process, for clients of another rank that rank,
 * for brokers and their modules nobody.  False: there is no room. */
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
    /* The first broker on its way has pushed its sender, the next one that broker. */
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
                 "clients of rank %u ask more than modules of rank %u can do: requests are refused",
                 rank, c->cfg.rank);
    a->choked = true;
    route_error(
        c, msg, EAGAIN,
        "clients of rank %u have more requests at rank %u than it can take: try again later", rank,
        c->cfg.rank);
    return false;
}

static void enqueue(core_t *c, endpoint_t *ep, flux_msg_t *msg, struct account *a)
{
    unsigned weight = core_request_weight(msg);
    uint32_t number = a->number;

    a->refs += a->queued == 0;
    a->queued += weight;
    if (number & CORE_ACCOUNT_RANK)
        c->queued += weight;
    else if (a->queued > QUEUED_MAX)
        a->choked = true;
    if (ep->ops->queue(ep->arg, msg, number) < 0)
        core_endpoint_taken(c, number, weight);
}

static void deliver_local(core_t *c, endpoint_t *ep, flux_msg_t *msg, endpoint_t *from_ep,
                          struct peer *from_peer)
{
    struct account *a = NULL;

    if (ep->ops->queue && !charged(c, msg, from_ep, &a))
        flux_msg_destroy(msg);
    else if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE) &&
             !inflight_add(c, msg, from_ep, from_peer, ep, NULL)) {
        route_error(c, msg, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        flux_msg_destroy(msg);
    } else if (a)
        enqueue(c, ep, msg, a);
    else
        ep->ops->send(ep->arg, msg);
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
        if (from_ep) {
            from_ep->held_count++;
            from_ep->held_bytes += size;
        }
        return;
    }
    route_error(c, msg, EAGAIN, "rank %u does not keep up with what is sent to it: try again later",
                p->rank);
    flux_msg_destroy(msg);
}

/* Send to a neighbour: 0 when the message is done with, -1 when it has to wait. */
static int try_send(core_t *c, struct peer *p, flux_msg_t *msg, endpoint_t *from_ep,
                    struct peer *from_peer)
{
    struct inflight *f = NULL;
    int errnum;

    if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE) &&
        !(f = inflight_add(c, msg, from_ep, from_peer, NULL, p))) {
        route_error(c, msg, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        flux_msg_destroy(msg);
        return 0;
    }
    if (c->link->send(c->link_arg, p->plane, p->rank, msg, false) == 0) {
        if (p->plane == CORE_RING)
            c->stats.ring++;
        else if (p == c->parent)
            c->stats.tree_up++;
        else
            c->stats.tree_down++;
        return 0;
    }
    errnum = errno;
    if (f)
        inflight_remove(c, f);
    if (errnum == EAGAIN)
        return -1;
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

/* Routing proper; the sender is on the route stack already. */
static void route(core_t *c, flux_msg_t *msg, endpoint_t *from_ep, struct peer *from_peer)
{
    uint32_t nodeid = flux_msg_nodeid(msg);
    unsigned flags = flux_msg_flags(msg);
    struct peer *p;
    endpoint_t *ep;

    if (nodeid == FLUX_NODEID_ANY || nodeid == c->cfg.rank) {
        if (!(flags & FLUX_MSGF_UPSTREAM) && (ep = find_service(c, msg))) {
            deliver_local(c, ep, msg, from_ep, from_peer);
            return;
        }
        if (nodeid == c->cfg.rank || core_is_root(c)) {
            int len = (int)topic_service_len(flux_msg_topic(msg));
            route_error(c, msg, ENOSYS, "%s %u has %s service '%.*s': load module '%.*s' there",
                        nodeid != c->cfg.rank ? "no broker up to rank" : "rank", c->cfg.rank,
                        nodeid != c->cfg.rank ? "a" : "no", len, flux_msg_topic(msg), len,
                        flux_msg_topic(msg));
            flux_msg_destroy(msg);
            return;
        }
        if (flags & FLUX_MSGF_UPSTREAM)
            flux_msg_set_flags(msg, flags & ~FLUX_MSGF_UPSTREAM);
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
    p = overlay_tree_peer(c, topology_next_hop(c->topo, c->cfg.rank, nodeid));
    if (!(flags & FLUX_MSGF_RING) && p && !p->lost && !p->gone) {
        forward(c, p, msg, from_ep, from_peer);
        return;
    }
    if (c->cfg.size > 1 && !c->ring_next.lost &&
        flux_msg_route_count(msg) <= (size_t)c->cfg.size + 1) {
        flux_msg_set_flags(msg, flags | FLUX_MSGF_RING);
        forward(c, &c->ring_next, msg, from_ep, from_peer);
        return;
    }
    c->stats.unreachable++;
    route_error(c, msg, EHOSTUNREACH, "rank %u cannot be reached: rank %u has no way to it", nodeid,
                c->cfg.rank);
    flux_msg_destroy(msg);
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
                   "the request got no further than to rank %u: %d hops are the most it may make",
                   c->cfg.rank, FLUX_MSG_ROUTES_MAX);
        else
            refuse(c, id, msg, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        flux_msg_destroy(msg);
        return;
    }
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
    relief = a->choked && a->queued <= CORE_QUEUED_LOW;
    a->choked &= !relief;
    if (a->queued == 0)
        account_leave(c, a);
    if (relief && c->relief_cb)
        c->relief_cb(c->relief_arg);
}

/* One request less of this endpoint waits: true when that makes it congested no more. */
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

    /* Work on a list of its own: what is held again goes back in front of it, in order. */
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
        /* Its sender is gone, and nobody else wants an answer. */
        if (!ep && !held->from_peer && !flux_msg_has_flag(held->msg, FLUX_MSGF_NORESPONSE))
            flux_msg_destroy(held->msg);
        else if (p->lost || p->gone)
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
    /* Who was paused goes on after this pass. */
    if (relief && c->relief_cb)
        c->relief_cb(c->relief_arg);
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

int route_control(core_t *c, struct peer *p, flux_msg_t *msg)
{
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
    flux_msg_t *msg;

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
    flux_msg_set_nodeid(msg, to_ep ? FLUX_NODEID_ANY : flux_msg_nodeid(like));
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    if (to_ep)
        to_ep->ops->send(to_ep->arg, msg);
    else if (to_peer && !to_peer->lost &&
             c->link->send(c->link_arg, to_peer->plane, to_peer->rank, msg, true) == 0)
        return;
    else
        flux_msg_destroy(msg);
}
