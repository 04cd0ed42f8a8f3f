/* core_spread.c - a broker that has too many children gives some of them to others.
 *
 * Purpose: the children of a dead broker connect to the next ancestor that lives (core_heal.c).
 * Where many brokers have died, or one with many children, that ancestor would have to serve all of
 * them.  So a broker with more than fanout_max children gives those that are not in their places to
 * its other children, until the brokers between are back.
 *
 * Terms: a host is a child that takes such ranks; a guest is a child whose place is not below this
 * broker.
 *
 * Drawing (spread): with fanout_max=2, rank 1 of a session kary:2 dies.
 *
 *        0                 0                   0
 *       / \               /|\                 / \
 *      1   2             3 4 2               4   2
 *     / \   \               |                   / \
 *    3   4   5              5                  5   3
 *
 * The steps are those by which a subtree returns to its place (core_restore.c): make before break,
 * one child at a time, and a failure leaves the child where it is.  So no request and no event is
 * lost, and a broker has too many children for a moment only.
 *
 * The way back: when the broker is back in which the way to the place of a guest begins, the host
 * gives the guest to its own parent, and that one gives it to the broker that is back.
 *
 * Invariants:
 *  1. In the shape, each broker is deeper than its parent.  So the tree stays a tree, whatever the
 *     order in which moves become known.  A host is the child of the one that gives by the shape,
 *     too, and that one is an ancestor of the rank that it gives: the rank is deeper than the host.
 *  2. A child that can be given to a broker nearer to its place is not given to a host.  A host
 *     gives a guest up only to be given on to such a broker, and not before it has had the guest
 *     for overlay.settle.  So no rank goes back and forth quickly, even if the two do not agree for
 *     a while whether that broker is up.
 *  3. A host has room: it has fewer than fanout_max children, counting those of its place that are
 *     dead.  Of several, that with the fewest children is taken.
 *
 * Failure: without a host that has room, children stay, and the limit is exceeded.  A child that
 * could not be given to a host stays for SPREAD_AGAIN seconds, after further failures for longer
 * (core_restore.c), and that host gets no other one for SPREAD_AGAIN seconds.
 */
#include "config.h"
#include <math.h>

#include "core_private.h"

bool spread_is_there(const struct peer *p)
{
    return p && p->up && !p->lost && !p->gone && !p->former && !p->leaving;
}

bool spread_is_guest(const core_t *c, uint32_t rank)
{
    return !topology_is_ancestor(c->topo, c->cfg.rank, rank);
}

bool spread_is_deeper(const core_t *c, uint32_t rank, uint32_t parent)
{
    return topology_depth(c->topo, rank) > topology_depth(c->topo, parent);
}

uint32_t spread_way_back(const core_t *c, uint32_t guest)
{
    const topology_t *tree = overlay_tree(c);
    uint32_t at = c->cfg.rank, hop;

    do
        at = topology_parent(tree, at);
    while (at != TOPOLOGY_NONE && !topology_is_ancestor(c->topo, at, guest));
    hop = at == TOPOLOGY_NONE ? at : topology_next_hop(c->topo, at, guest);
    if (hop == guest)
        return at;
    return hop != TOPOLOGY_NONE && !census_is_gone(c, hop) && topology_parent(tree, hop) == at
               ? hop
               : TOPOLOGY_NONE;
}

/* Return the host for the next child; NULL: no child has room.  `due`: when it may take one. */
static struct peer *find_host(core_t *c, double *due)
{
    double now = flux_reactor_now(c->r);
    struct peer *host = NULL;
    uint32_t fewest = c->cfg.fanout_max;

    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        uint32_t n;

        if (!spread_is_there(p) || !idset_test(c->up, p->rank) ||
            topology_parent(c->topo, p->rank) != c->cfg.rank ||
            (n = topology_nchildren(overlay_tree(c), p->rank)) >= c->cfg.fanout_max)
            continue;
        if (p->stays > now)
            *due = p->stays < *due ? p->stays : *due;
        else if (n < fewest) {
            host = p;
            fewest = n;
        }
    }
    return host;
}

struct peer *spread_host(core_t *c, double *due)
{
    uint32_t n = 0;

    *due = INFINITY;
    if (c->cfg.fanout_max == 0)
        return NULL;
    for (uint32_t i = 0; i < c->nchildren; i++)
        n += spread_is_there(c->children[i]);
    return n > c->cfg.fanout_max ? find_host(c, due) : NULL;
}

bool spread_may_go(const core_t *c, const struct peer *p)
{
    return spread_is_there(p) && idset_test(c->up, p->rank) && !spread_is_guest(c, p->rank) &&
           topology_parent(c->topo, p->rank) != c->cfg.rank;
}
