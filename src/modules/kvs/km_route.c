/* km_route.c - the route to the master of a namespace.  It leads from instance to instance along
 * the tree, so that fences are merged and objects are cached on the way, wherever the master is.
 *
 * The tree is the topology of session.h, which requests it from the own broker when it is first
 * needed.
 *
 * Invariants:
 *  1. The next hop towards rank R is the neighbor on the way to R in the tree.  When that neighbor
 *     is lost, the next hop is R itself, which the broker may reach along the ring.
 *  2. A namespace that needs the topology is in km_route.waiting until the topology has arrived, or
 *     the request for it has failed; then the namespace gets that error.
 *  3. When ranks are lost, the claims of senders there end, and with them their requests.
 *
 * Failure: without a topology, or without a route to the master, the requests that wait get the
 * error.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_private.h"

struct km_route {
    struct km *k;
    struct list_node waiting;
    uint64_t moves;
};

bool km_route_ready(const struct km_route *rt)
{
    return session_tree(rt->k->session) != NULL;
}

int km_route_tree(void *arg, int errnum, const char *why)
{
    struct km *k = arg;
    struct list_node *n;

    while ((n = list_first(&k->route->waiting))) {
        list_remove(n);
        km_space_routed(list_entry(n, struct km_ns, route_node), errnum, why);
    }
    if (errnum == 0)
        km_space_rerouted(k);
    return 0;
}

void km_route_wait(struct km_route *rt, struct km_ns *ns)
{
    list_append(&rt->waiting, &ns->route_node);
    session_ask_tree(rt->k->session);
}

uint32_t km_route_hop(const struct km_route *rt, uint32_t rank)
{
    const topology_t *tree = session_tree(rt->k->session);
    uint32_t hop = tree ? topology_next_hop(tree, flux_rank(rt->k->h), rank) : rank;

    return hop == TOPOLOGY_NONE || idset_test(session_lost(rt->k->session), hop) ? rank : hop;
}

uint64_t km_route_moves(const struct km_route *rt)
{
    return rt->moves;
}

void km_route_moved_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct km *k = arg;

    k->route->moves++;
}

void km_route_lost(void *arg, const idset_t *ranks, bool now)
{
    struct km *k = arg;

    claims_lost(k->senders, ranks);
    claims_lost(k->uploaders, ranks);
    km_space_lost(k, ranks);
    km_directory_lost(k->dir, ranks);
    km_fence_lost(k, ranks, now);
    km_space_rerouted(k);
}

void km_route_missed_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct km *k = arg;

    km_version_began_cb(h, event, arg);
    km_version_missed(k);
    km_missed_doubt(k->missed);
}

struct km_route *km_route_create(struct km *k)
{
    struct km_route *rt = calloc(1, sizeof(*rt));

    if (!rt)
        return NULL;
    rt->k = k;
    list_init(&rt->waiting);
    return rt;
}

void km_route_destroy(struct km_route *rt)
{
    if (!rt)
        return;
    free(rt);
}
