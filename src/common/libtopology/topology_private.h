/* Declarations that the three sources of libtopology share.  Not for use outside. */
#ifndef TOPOLOGY_PRIVATE_H
#define TOPOLOGY_PRIVATE_H

#include "topology.h"

/* A tree read from a file, as arrays indexed by rank. */
struct tree {
    uint32_t *parent;
    uint32_t *first; /* size + 1 of them: children of r are child[first[r]..first[r + 1]) */
    uint32_t *child; /* ascending for each parent */
    uint32_t *depth;
    uint32_t *pre;   /* number in a preorder walk that visits children in ascending order */
    uint32_t *count; /* ranks in the subtree: its preorder numbers are pre..pre+count-1 */
    uint32_t *order; /* rank by preorder number */
    uint32_t max_depth;
};

struct tree *topology_tree_parse(const char *text, size_t len, const char *name, uint32_t size,
                                 errmsg_t *err);
/* From the parents of ranks 1 to size - 1, which are copied.  NULL with ENOMEM, or EINVAL if they
 * are not a tree. */
struct tree *topology_tree_create(const uint32_t *parent, uint32_t size);
void topology_tree_destroy(struct tree *tree);

#endif
