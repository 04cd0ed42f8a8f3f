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
 * machine, node i is rank i, whether the graph has it or not.  `name`: where the tree came from,
 * for error messages.  0, or -1 with EINVAL (a node is on no switch) or ENOMEM and an error
 * message; then the graph has no switches. */
int resgraph_set_topology(resgraph_t *g, const fattree_t *t, const char *name, errmsg_t *err);

#endif
