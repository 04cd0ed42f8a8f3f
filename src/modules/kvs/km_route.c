/* km_route.c - the route to the master of a namespace: hop by hop along the tree, from instance to
 * instance, so that fences are merged and objects are cached on the way wherever the master is.
 *
 *    overlay.topology {} -> {"topology","size","file"}, from the own broker, when it is first
 *    needed
 *
 * Invariants:
 *  1. The next hop towards rank R is the neighbor on the way to R in the tree.  When that neighbor
 *     is lost, the next hop is R itself, which the broker may reach along the ring.
 *  2. A namespace waits for the topology in `unrouted`, or gets the error with which it failed.
 *  3. Nothing is left here of senders at lost ranks.
 *
 * Failure: without a topology, or a way to the master, requests that wait get the error.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "km_private.h"
#include "libflux/overlay_wire.h"

bool km_route_ready(const struct km *k)
{
    return k->topo != NULL;
}

static void routed(struct km *k, int errnum, const char *error)
{
    struct list_node *n;

    while ((n = list_first(&k->unrouted))) {
        struct km_ns *ns = list_entry(n, struct km_ns, route_node);
        list_remove(n);
        ns->unrouted = false;
        km_space_routed(ns, errnum, error);
    }
}

static void shape_cb(flux_future_t *f, void *arg)
{
    struct km *k = arg;
    struct overlay_shape s;
    errmsg_t err = {""};
    int errnum = 0;

    if (flux_rpc_get_struct(f, &overlay_shape_schema, &s, &err) < 0)
        errnum = errno;
    else {
        /* A file is that of the root, and need not be here. */
        k->topo = strncmp(s.topology, "file:", 5) == 0
                      ? topology_create_text(s.file, strlen(s.file), "the tree of the session",
                                             s.size, &err)
                      : topology_create(s.topology, s.size, &err);
        errnum = k->topo ? 0 : errno;
    }
    k->asking_shape = NULL;
    flux_future_destroy(f);
    routed(k, errnum, err.text);
}

void km_route_wait(struct km_ns *ns)
{
    struct km *k = ns->k;

    ns->unrouted = true;
    list_append(&k->unrouted, &ns->route_node);
    if (k->asking_shape)
        return;
    k->asking_shape = flux_rpc(k->h, "overlay.topology", NULL, flux_rank(k->h), 0);
    if (!k->asking_shape || flux_future_then(k->asking_shape, -1., shape_cb, k) < 0) {
        flux_future_destroy(k->asking_shape);
        k->asking_shape = NULL;
        routed(k, ENOMEM, "the store is out of memory");
    }
}

uint32_t km_route_hop(const struct km *k, uint32_t rank)
{
    uint32_t hop = k->topo ? topology_next_hop(k->topo, flux_rank(k->h), rank) : rank;

    return hop == TOPOLOGY_NONE || idset_test(session_lost(k->session), hop) ? rank : hop;
}

void km_route_lost(void *arg, const idset_t *ranks, bool now)
{
    struct km *k = arg;

    claims_lost(k->senders, ranks);
    km_space_lost(k, ranks);
    km_directory_lost(k, ranks);
    km_fence_lost(k, ranks, now);
}

void km_route_missed_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct km *k = arg;

    km_version_began_cb(h, event, arg);
    km_version_missed(k);
    km_missed_doubt(k);
}
