/* Declarations that the three sources of libtopology share.  Not for use outside. */
#ifndef TOPOLOGY_PRIVATE_H
#define TOPOLOGY_PRIVATE_H

#include "topology.h"

struct moves; /* topology_moved.c */

struct topology {
    char *spec;
    uint32_t size;
    uint32_t k;
    uint32_t max_depth;
    struct tree *tree;      /* NULL for a regular shape */
    const topology_t *base; /* NULL: no ranks can be moved */
    struct moves *moves;    /* relative to the base */
};

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

struct moves *topology_moves_create(void); /* NULL with ENOMEM */
void topology_moves_destroy(struct moves *m);
/* The queries, of a topology with moves; ranks exist, and `rank` of the first one is not the root.
 */
uint32_t topology_moved_parent(const topology_t *t, uint32_t rank);
uint32_t topology_moved_nchildren(const topology_t *t, uint32_t rank);
uint32_t topology_moved_child_at(const topology_t *t, uint32_t rank, uint32_t i);
uint32_t topology_moved_depth(const topology_t *t, uint32_t rank);
idset_t *topology_moved_children(const topology_t *t, uint32_t rank);
idset_t *topology_moved_subtree(const topology_t *t, uint32_t rank);
/* The child of `from` on the way to `to`, or TOPOLOGY_NONE. */
uint32_t topology_moved_towards(const topology_t *t, uint32_t from, uint32_t to);
/* A copy without moves, for those who ask much.  NULL with ENOMEM. */
topology_t *topology_solid(const topology_t *t);

#endif
