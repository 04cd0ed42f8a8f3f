/* Switches of a machine: the leaf switch of each node, and the pod of each leaf.
 *
 *    leaf   level 1: nodes are connected to it
 *    pod    the leaves below one group of level-2 switches
 *    core   everything above
 *
 * Nodes, leaves and pods are numbered from 0.  A regular machine P,L,K has P pods of L leaves of K
 * nodes, and node = (pod * L + leaf) * K + slot.  A machine from a file of Slurm (topology.conf)
 * may have leaves and pods of any size: leaves, and their nodes, are numbered in the order of a
 * walk from the root, which visits children in the order of the file; pods likewise.  The switch
 * right above a leaf is its pod; if there is none above (one switch for all), there is one pod of
 * one leaf.
 *
 * The file, as described in topology.conf(5) for TopologyPlugin=topology/tree:
 *    SwitchName=NAME Nodes=HOSTLIST|Switches=HOSTLIST [LinkSpeed=N]
 * '#' starts a comment, '\' at the end of a line continues it, keywords come in any case.  Errors
 * are: a line of another form, two switches of one name, a switch that is not described, a switch
 * or a node below two switches, a cycle, several roots, no switch at all.
 *
 * [C. Leiserson, "Fat-trees: universal networks for hardware-efficient supercomputing", IEEE
 * Trans.  Computers 34(10), 1985]
 *
 * A fattree_t does not change once created: any number of threads may use it.
 */
#ifndef TOPOLOGY_FATTREE_H
#define TOPOLOGY_FATTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define FATTREE_NODES_MAX (1U << 20)
#define FATTREE_NONE 0xffffffffU

typedef struct fattree fattree_t;

/* P pods of L leaves of K nodes, each at least 1.  NULL with EINVAL (0, or more than
 * FATTREE_NODES_MAX nodes) or ENOMEM and an error message. */
fattree_t *fattree_create(uint32_t pods, uint32_t leaves, uint32_t nodes, errmsg_t *err);
/* The same from text: "4,18,18". */
fattree_t *fattree_parse(const char *spec, errmsg_t *err);
/* From the text of a topology.conf; `name` is its source, for error messages.  NULL with EINVAL or
 * ENOMEM and an error message that names the line. */
fattree_t *fattree_parse_conf(const char *text, size_t len, const char *name, errmsg_t *err);
/* From a file.  NULL with an error of open(2) or read(2), EFBIG (above 64 MiB), or as above. */
fattree_t *fattree_read_conf(const char *path, errmsg_t *err);
void fattree_destroy(fattree_t *t); /* NULL-safe, keeps errno */

uint32_t fattree_nnodes(const fattree_t *t);
uint32_t fattree_nleaves(const fattree_t *t);
uint32_t fattree_npods(const fattree_t *t);
/* Most nodes of a leaf (K). */
uint32_t fattree_leaf_max(const fattree_t *t);

/* The leaf of a node, the pod of a leaf, in constant time.  FATTREE_NONE: no such node or leaf. */
uint32_t fattree_leaf(const fattree_t *t, uint32_t node);
uint32_t fattree_pod(const fattree_t *t, uint32_t leaf);
/* The same as arrays, of fattree_nnodes() and fattree_nleaves() elements, owned by `t`. */
const uint32_t *fattree_leaves(const fattree_t *t);
const uint32_t *fattree_pods(const fattree_t *t);

/* Names, owned by `t`: as in the file; NULL for a regular machine.  The number of a named node, or
 * FATTREE_NONE. */
const char *fattree_node_name(const fattree_t *t, uint32_t node);
const char *fattree_leaf_name(const fattree_t *t, uint32_t leaf);
const char *fattree_pod_name(const fattree_t *t, uint32_t pod);
uint32_t fattree_find(const fattree_t *t, const char *node);

/* Switches of a file, in the order of a walk from the root (number 0), parents before children.
 * level: 0 for a leaf, otherwise one more than the highest level of its children.  parent:
 * FATTREE_NONE for the root.  leaf: its number, FATTREE_NONE for other switches.  nnodes: number of
 * nodes below it.  false beyond the end, and for regular machines. */
struct fattree_switch {
    const char *name;
    uint32_t level, parent, leaf, nnodes;
    uint64_t speed; /* LinkSpeed; 0: not given */
};
bool fattree_switch(const fattree_t *t, uint32_t i, struct fattree_switch *sw);

#endif
