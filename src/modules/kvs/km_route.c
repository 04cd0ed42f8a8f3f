/* km_route.c - the route to the master of a namespace: hop by hop along the tree, from instance to
 * instance, so that fences are merged and objects are cached on the way wherever the master is.
 *
 *    overlay.topology {} -> {"topology","size","file","moved"}, from the own broker, when it is
 *    first needed; events tell which ranks move later
 *
 * Invariants:
 *  1. The next hop towards rank R is the neighbor on the way to R in the tree.  When that neighbor
 *     is lost, the next hop is R itself, which the broker may reach along the ring.
 *  2. A namespace waits for the topology in km_route.waiting, or gets the error with which it
 *     failed.
 *  3. Nothing is left here of senders at lost ranks.
 *
 * Failure: without a topology, or a way to the master, requests that wait get the error.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_private.h"
#include "libflux/overlay_wire.h"
#include "libtopology/topology.h"

struct km_route {
    struct km *k;
    topology_t *topo; /* NULL: not known */
    flux_future_t *f; /* overlay.topology */
    struct list_node waiting;
};

bool km_route_ready(const struct km_route *rt)
{
    return rt->topo != NULL;
}

static void routed(struct km_route *rt, int errnum, const char *error)
{
    struct list_node *n;

    while ((n = list_first(&rt->waiting))) {
        list_remove(n);
        km_space_routed(list_entry(n, struct km_ns, route_node), errnum, error);
    }
}

static void shape_cb(flux_future_t *f, void *arg)
{
    struct km_route *rt = arg;
    struct overlay_shape s = {0};
    errmsg_t err = {""};
    int errnum = 0;

    if (flux_rpc_get_struct(f, &overlay_shape_schema, &s, &err) < 0)
        errnum = errno;
    else {
        /* A file is that of the root, and need not be here. */
        topology_t *tree = s.moved || strncmp(s.topology, "file:", 5) == 0
                               ? topology_create_text(s.file, strlen(s.file),
                                                      "the tree of the session", s.size, &err)
                               : topology_create(s.topology, s.size, &err);

        errnum = tree ? 0 : errno;
        if (tree) {
            topology_destroy(rt->topo);
            rt->topo = tree;
        }
    }
    if (errnum && rt->topo)
        flux_log(rt->k->h, LOG_ERR, "the store does not know which ranks have moved: %s", err.text);
    rt->f = NULL;
    flux_future_destroy(f);
    routed(rt, errnum, err.text);
}

static void ask(struct km_route *rt)
{
    flux_t *h = rt->k->h;

    rt->f = flux_rpc(h, "overlay.topology", NULL, flux_rank(h), FLUX_MSGF_IDEMPOTENT);
    if (!rt->f || flux_future_then(rt->f, -1., shape_cb, rt) < 0) {
        flux_future_destroy(rt->f);
        rt->f = NULL;
        routed(rt, ENOMEM, "the store is out of memory");
    }
}

void km_route_wait(struct km_route *rt, struct km_ns *ns)
{
    list_append(&rt->waiting, &ns->route_node);
    if (!rt->f)
        ask(rt);
}

uint32_t km_route_hop(const struct km_route *rt, uint32_t rank)
{
    uint32_t hop = rt->topo ? topology_next_hop(rt->topo, flux_rank(rt->k->h), rank) : rank;

    return hop == TOPOLOGY_NONE || idset_test(session_lost(rt->k->session), hop) ? rank : hop;
}

void km_route_lost(void *arg, const idset_t *ranks, bool now)
{
    struct km *k = arg;

    claims_lost(k->senders, ranks);
    km_space_lost(k, ranks);
    km_directory_lost(k->dir, ranks);
    km_fence_lost(k, ranks, now);
}

void km_route_moved(void *arg, const idset_t *ranks, uint32_t parent)
{
    struct km *k = arg;
    struct km_route *rt = k->route;
    topology_t *tree = ranks && rt->topo ? topology_create_moved(rt->topo, ranks, parent) : NULL;

    if (!rt->topo)
        return;
    if (tree) {
        topology_destroy(rt->topo);
        rt->topo = tree;
        return;
    }
    if (ranks)
        flux_log(k->h, LOG_ERR, "the store cannot note that ranks have moved: %s", strerror(errno));
    /* The tree of before serves until the answer comes: a hop that is passed over would leave
     * requests of one fence at two instances. */
    flux_future_destroy(rt->f);
    ask(rt);
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
    flux_future_destroy(rt->f);
    topology_destroy(rt->topo);
    free(rt);
}
