/* The leaf switches and pods of a graph (resgraph_place) as arrays, for placing jobs.
 *
 * Thread rules: constant functions of the graph.
 */
#ifndef RESOURCE_RESGRAPH_SWITCHES_H
#define RESOURCE_RESGRAPH_SWITCHES_H

#include "resgraph.h"

/* The switches of a graph for a scheduler: leaf[i] is the leaf of node number i, pod[l] is the pod
 * of leaf number l; names are owned by the graph.  A node without a leaf switch gets a leaf of its
 * own (names NULL). nleaves 0: the graph has no leaves. */
struct resgraph_switches {
    uint32_t nleaves, npods;
    uint32_t *leaf, *pod;
    const char **leaf_name, **pod_name;
};
/* 0, or -1 with ENOMEM.  The caller has to clear *sw. */
int resgraph_switches(const resgraph_t *g, struct resgraph_switches *sw);
void resgraph_switches_clear(struct resgraph_switches *sw);

#endif
