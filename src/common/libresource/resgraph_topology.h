/* Switches (libtopology/fattree.h) as places of a graph: levels "leaf", "pod" and "core".
 *
 * A library of its own, because most users of a graph read no topology.
 */
#ifndef RESOURCE_RESGRAPH_TOPOLOGY_H
#define RESOURCE_RESGRAPH_TOPOLOGY_H

#include "libtopology/fattree.h"
#include "resgraph.h"

/* Replace the switches that the graph has by those of `t`; other places stay.
 *
 * Nodes of a file (topology.conf) are found by their hosts: all ranks of a host are on the leaf of
 * that host.  Hosts that are not in the graph are skipped, and so are switches without any node of
 * the graph.  In a regular machine, node i is rank i, whether the graph has it or not.  `name`: the
 * source of the tree, for error messages.  0, or -1 with EINVAL (a node is on no switch) or ENOMEM
 * and an error message; then the graph has no switches. */
int resgraph_set_topology(resgraph_t *g, const fattree_t *t, const char *name, errmsg_t *err);

#endif
