/* Declarations that the sources of fat trees share.  Not for use outside. */
#ifndef TOPOLOGY_FATTREE_PRIVATE_H
#define TOPOLOGY_FATTREE_PRIVATE_H

#include "fattree.h"
#include "libutil/hmap.h"

struct fattree {
    uint32_t nnodes, nleaves, npods;
    uint32_t leaf_max;
    uint32_t *leaf_of; /* nnodes */
    uint32_t *pod_of;  /* nleaves */
    /* From a file only: */
    char **node_name;          /* nnodes */
    const char **leaf_name;    /* nleaves, owned by `sw` */
    const char **pod_name;     /* npods, likewise */
    struct fattree_switch *sw; /* nsw, in the order of the walk; they own their names */
    uint32_t nsw;
    hmap_t *by_name; /* node name -> number + 1 */
};

/* Fill in leaf_max.  0, or -1 with ENOMEM. */
int fattree_measure(struct fattree *t);

#endif
