/* core_inflight.c - pending requests: all requests that passed through this broker and still expect
 * an answer.
 *
 * Format: an entry is found by a keyed hash of the route stack of the request, as it leaves this
 * broker, and its match tag.  Its responses carry the same pair.  An entry is in two lists: one of
 * the peer or endpoint from which the request came, and one of the peer or endpoint to which it
 * went.  So the end of either is handled without a search:
 *
 *    end of          requests from it                          requests to it
 *    a client        forgotten; its services get notices       -
 *    a module        forgotten; its services get notices       fail, or go to its successor
 *    a neighbor      forgotten; the services get notices       fail with EHOSTUNREACH, or are
 *                                                              sent again another way
 *
 * Notices: NAME.disconnect takes the way of the requests, and its payload has the match tags of
 * those that are pending there, each a u32 in little-endian order.  Every broker that passes it on
 * forgets them: the service has nobody to answer.  A request that took another way than the notice
 * would, as the tree or the ring has changed since, gets a notice of its own.
 *
 * Repetition: a request is sent again if it has FLUX_MSGF_IDEMPOTENT, no response of it has passed,
 * nor its cancel (NAME.cancel), which the copy would follow, and the tree heals (core_heal.c): the
 * broker that has lost the connection on the way there knows another way, or will know one.  A
 * response to the first copy does not find an entry on its way back, since the other end of the
 * connection has forgotten the request.  A broker that leaves the session while the ranks below it
 * stay does not answer such requests of its neighbors, which send them again when it has left.
 *
 * Invariants:
 *  1. A request has an entry at every broker on its way from the time when it is passed on until
 *     its last response has passed.  A response without an entry is dropped, so no request is
 *     answered twice.
 *  2. An entry does not keep a large payload: above KEEP_PAYLOAD bytes it keeps only routes, topic
 *     and tag, unless the request went to a local module (a reload may have to deliver it again),
 *     or has FLUX_MSGF_IDEMPOTENT.  Of the latter, those above KEEP_AGAIN bytes have at most
 *     KEEP_LARGE bytes together (core.kept_large).
 *  3. stats.inflight counts all entries; `inflight` of an endpoint counts the requests that it has
 *     sent.
 *
 * Failure: a request is refused with ENOMEM if there is no memory for its entry.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libflux/cancel_wire.h"
#include "libutil/invariant.h"
#include "libutil/le.h"

#define KEEP_PAYLOAD 512
#define KEEP_AGAIN 16384
#define KEEP_LARGE (64u * 1024 * 1024)
#define POOL_MAX 4096

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t key_of_tag(const core_t *c, const flux_msg_t *msg, uint32_t matchtag)
{
    size_t n = flux_msg_route_count(msg);
    uint64_t k = mix(c->hash_seed ^ ((uint64_t)n << 32 | matchtag));

    for (size_t i = 0; i < n; i++)
        k = mix(k + 0x9e3779b97f4a7c15u + flux_msg_route_at(msg, i));
    return k;
}

static uint64_t key_of(const core_t *c, const flux_msg_t *msg)
{
    return key_of_tag(c, msg, flux_msg_matchtag(msg));
}

/* Is the payload of a request to a neighbor kept? */
static bool keeps(const core_t *c, const flux_msg_t *req, size_t len)
{
    if (!flux_msg_has_flag(req, FLUX_MSGF_IDEMPOTENT))
        return len <= KEEP_PAYLOAD;
    return len <= KEEP_AGAIN || len <= KEEP_LARGE - c->kept_large;
}

struct inflight *inflight_add(core_t *c, flux_msg_t *req, endpoint_t *from_ep,
                              struct peer *from_peer, endpoint_t *to_ep, struct peer *to_peer)
{
    struct inflight *f = c->pool;
    struct inflight *old;
    size_t len;

    if (f) {
        c->pool = (struct inflight *)(void *)f->req;
        c->pool_count--;
    } else if (!(f = malloc(sizeof(*f))))
        return NULL;
    flux_msg_payload(req, &len);
    f->key = key_of(c, req);
    f->large = !to_ep && len > KEEP_AGAIN && keeps(c, req, len) ? len : 0;
    if (!to_ep && !keeps(c, req, len)) {
        if ((f->req = flux_msg_response_create(req, 0)))
            flux_msg_set_flags(f->req,
                               flux_msg_flags(req) & (FLUX_MSGF_STREAMING | FLUX_MSGF_RING));
    } else
        f->req = flux_msg_incref(req);
    /* A sender that uses a tag twice gets only the later answer. */
    if ((old = hmap_get_u64(c->inflight, f->key)))
        inflight_remove(c, old);
    if (!f->req || hmap_put_u64(c->inflight, f->key, f) < 0) {
        flux_msg_destroy(f->req);
        free(f);
        errno = ENOMEM;
        return NULL;
    }
    f->from_ep = from_ep;
    f->from_peer = from_peer;
    f->to_ep = to_ep;
    f->to_peer = to_peer;
    f->asked = 0.;
    f->answered = f->canceled = false;
    list_init(&f->from_node);
    list_init(&f->to_node);
    list_append(from_ep ? &from_ep->from : &from_peer->from, &f->from_node);
    c->kept_large += f->large;
    list_append(to_ep ? &to_ep->to : &to_peer->to, &f->to_node);
    if (from_ep)
        from_ep->inflight++;
    c->stats.inflight++;
    INVARIANT(1, hmap_get_u64(c->inflight, f->key) == f);
    INVARIANT(2, c->kept_large <= KEEP_LARGE);
    INVARIANT(3, c->stats.inflight == hmap_count(c->inflight));
    return f;
}

struct inflight *inflight_find(core_t *c, const flux_msg_t *msg)
{
    return hmap_get_u64(c->inflight, key_of(c, msg));
}

void core_each_pending(const core_t *c, void (*cb)(const flux_msg_t *req, void *arg), void *arg)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(c->inflight, &pos, NULL, NULL, &val))
        cb(((const struct inflight *)val)->req, arg);
}

void inflight_remove(core_t *c, struct inflight *f)
{
    INVARIANT(1, hmap_get_u64(c->inflight, f->key) == f);
    INVARIANT(3, !f->from_ep || f->from_ep->inflight > 0);
    hmap_del_u64(c->inflight, f->key);
    list_remove(&f->from_node);
    list_remove(&f->to_node);
    if (f->from_ep)
        f->from_ep->inflight--;
    flux_msg_destroy(f->req);
    c->kept_large -= f->large;
    c->stats.inflight--;
    if (!list_empty(&c->formers))
        former_answered(c);
    INVARIANT(3, c->stats.inflight == hmap_count(c->inflight));
    if (c->pool_count < POOL_MAX) {
        f->req = (flux_msg_t *)(void *)c->pool;
        c->pool = f;
        c->pool_count++;
    } else
        free(f);
}

void inflight_pool_destroy(core_t *c)
{
    while (c->pool) {
        struct inflight *f = c->pool;
        c->pool = (struct inflight *)(void *)f->req;
        free(f);
    }
    c->pool_count = 0;
}

void inflight_fail(core_t *c, struct list_node *to, int errnum, const char *text)
{
    struct list_node *n;

    /* The receivers of the errors may send new requests, even to the same place: fail only the
     * present ones. */
    struct list_node now;
    list_init(&now);
    while ((n = list_first(to))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        struct inflight *f = list_entry(n, struct inflight, to_node);
        flux_msg_t *resp = flux_msg_type(f->req) == FLUX_MSG_REQUEST
                               ? flux_msg_response_create(f->req, errnum)
                               : flux_msg_copy(f->req);
        if (resp && flux_msg_set_json(resp, text) == 0) {
            flux_msg_set_errnum(resp, errnum);
            flux_msg_set_flags(resp, 0);
            flux_msg_set_nodeid(resp, c->cfg.rank);
            route_response(c, resp); /* removes the entry */
        } else {
            flux_msg_destroy(resp);
            inflight_remove(c, f);
        }
        c->stats.unreachable += errnum == EHOSTUNREACH;
    }
}

void inflight_set_aside(struct list_node *to, struct list_node *again)
{
    LIST_FOREACH_SAFE(n, tmp, to)
    {
        const struct inflight *f = list_entry(n, struct inflight, to_node);

        if (flux_msg_type(f->req) == FLUX_MSG_REQUEST && !f->answered && !f->canceled &&
            flux_msg_has_flag(f->req, FLUX_MSGF_IDEMPOTENT)) {
            list_remove(n);
            list_append(again, n);
        }
    }
}

bool inflight_sent_again(const core_t *c, const flux_msg_t *req, const struct peer *from)
{
    return c->alone && from && from->plane == CORE_TREE && flux_msg_type(req) == FLUX_MSG_REQUEST &&
           flux_msg_has_flag(req, FLUX_MSGF_IDEMPOTENT);
}

void inflight_leave(core_t *c, struct list_node *to)
{
    LIST_FOREACH_SAFE(n, tmp, to)
    {
        struct inflight *f = list_entry(n, struct inflight, to_node);

        if (!f->answered && inflight_sent_again(c, f->req, f->from_peer))
            inflight_remove(c, f);
    }
}

/* The sender may live: the way from it is lost. */
static void forget(core_t *c, struct inflight *f)
{
    endpoint_t *ep = f->to_ep;
    struct peer *p = f->to_peer;
    flux_msg_t *like = flux_msg_incref(f->req);

    inflight_remove(c, f);
    route_disconnect(c, like, ep, p);
    flux_msg_destroy(like);
}

void inflight_ended(core_t *c, const flux_msg_t *notice, const struct peer *from,
                    const endpoint_t *to_ep, const struct peer *to_peer)
{
    const char *dot = strrchr(flux_msg_topic(notice), '.');
    size_t len;
    const uint8_t *tags = flux_msg_payload(notice, &len);

    if (!dot || strcmp(dot, ".disconnect") != 0)
        return;
    for (; len >= INFLIGHT_TAG; tags += INFLIGHT_TAG, len -= INFLIGHT_TAG) {
        struct inflight *f = hmap_get_u64(c->inflight, key_of_tag(c, notice, le_get32(tags)));

        if (!f || f->from_peer != from)
            continue;
        if (f->to_ep == to_ep && f->to_peer == to_peer)
            inflight_remove(c, f);
        else
            forget(c, f);
    }
}

void inflight_canceled(core_t *c, const flux_msg_t *msg, const endpoint_t *from_ep,
                       const struct peer *from_peer)
{
    const char *dot = strrchr(flux_msg_topic(msg), '.');
    const char *json = flux_msg_json(msg);
    struct cancel in;
    struct inflight *f;
    errmsg_t err;
    json_t *owner;

    if (!dot || strcmp(dot, ".cancel") != 0 || !json ||
        !(owner = flux_schema_decode(&cancel_schema, json, strlen(json), &in, &err)))
        return;
    f = hmap_get_u64(c->inflight, key_of_tag(c, msg, in.matchtag));
    if (f && f->from_ep == from_ep && f->from_peer == from_peer)
        f->canceled = true;
    json_decref(owner);
}

void inflight_again(core_t *c, struct list_node *again)
{
    struct list_node *n;

    while ((n = list_first(again))) {
        struct inflight *f = list_entry(n, struct inflight, to_node);
        flux_msg_t *req = flux_msg_copy(f->req); /* the link may still have the other copy */
        endpoint_t *ep = f->from_ep;
        struct peer *p = f->from_peer;
        bool up = f->to_peer->plane == CORE_TREE && !f->to_peer->is_child;

        if (!req)
            route_error(c, f->req, ENOMEM, "rank %u is out of memory for a request", c->cfg.rank);
        inflight_remove(c, f);
        if (req)
            route_again(c, req, ep, p, up);
    }
}

void inflight_forget(core_t *c, struct list_node *from, bool notify)
{
    struct list_node *n;

    while ((n = list_first(from))) {
        struct inflight *f = list_entry(n, struct inflight, from_node);
        if (notify)
            forget(c, f);
        else
            inflight_remove(c, f);
    }
}

void inflight_forget_ranks(core_t *c, struct list_node *from, const idset_t *ranks)
{
    LIST_FOREACH_SAFE(n, tmp, from)
    {
        struct inflight *f = list_entry(n, struct inflight, from_node);

        if (idset_test(ranks, route_sender(f->req)))
            forget(c, f);
    }
}
