/* Switches (libtopology/fattree.h) as places of a graph: levels "leaf", "pod" and "core".
 *
 * A library of its own: most of those who use a graph read no topology.
 */
#ifndef RESOURCE_RESGRAPH_TOPOLOGY_H
#define RESOURCE_RESGRAPH_TOPOLOGY_H

#include "libtopology/fattree.h"
#include "resgraph.h"

/* Replace the switches that the graph has by those of `t`; other places stay.
 *
 * Nodes of a file (topology.conf) are found by their hosts: all ranks of a host hang where it does;
 * hosts that the graph does not have are passed over, and so are switches with none.  Of a regular
 * machine, node i is the i-th rank.  `name`: where the tree came from, for sentences.  0, or -1 with EINVAL
 * (a node is on no switch; the regular machine has another size) or ENOMEM and a sentence; then the
 * graph has no switches. */
int resgraph_set_topology(resgraph_t *g, const fattree_t *t, const char *name, errmsg_t *err);

/* The switches of a graph for a scheduler: of node number i the leaf is leaf[i], of leaf number l the pod is
 * pod[l]; names are owned by the graph.  Nodes on no leaf are each on one of their own (names NULL).
 * nleaves 0: the graph has no leaves. */
struct resgraph_switches {
    uint32_t nleaves, npods;
    uint32_t *leaf, *pod;
    const char **leaf_name, **pod_name;
};
/* 0, or -1 with ENOMEM; to be cleared. */
int resgraph_switches(const resgraph_t *g, struct resgraph_switches *sw);
void resgraph_switches_clear(struct resgraph_switches *sw);

#endif
