/* Ordered tree (treap) of elements that embed their node: keyed by (a, b) ascending, with the
 * number of elements and the smallest `weight` of every subtree, so that the n-th element, the
 * place of an element, and the first one behind a key whose weight is small enough are all found in
 * logarithmic time.  Balanced by a hash of b: the shape depends only on the keys. Insertion and
 * removal do not allocate memory.  Not thread-safe.
 */
#ifndef SCHED_TREE_H
#define SCHED_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched_tree_node {
    struct sched_tree_node *left, *right;
    double a; /* key */
    uint64_t b;
    double weight;
    double least; /* weight of this subtree */
    uint32_t size;
    uint32_t level; /* heap order; 0: not in a tree */
};

struct sched_tree {
    struct sched_tree_node *root;
};

struct sched_tree_key {
    double a;
    uint64_t b;
};

static inline struct sched_tree_key sched_tree_key(const struct sched_tree_node *n)
{
    return (struct sched_tree_key){n->a, n->b};
}

static inline bool sched_tree_before(struct sched_tree_key x, struct sched_tree_key y)
{
    return x.a < y.a || (x.a == y.a && x.b < y.b);
}

static inline size_t sched_tree_size(const struct sched_tree *t)
{
    return t->root ? t->root->size : 0;
}

static inline bool sched_tree_has(const struct sched_tree_node *n)
{
    return n->level != 0;
}

/* Insert n, which is not in a tree.  The key (n->a, n->b) must not be in the tree yet. */
void sched_tree_insert(struct sched_tree *t, struct sched_tree_node *n);
/* Remove n, which is in this tree and whose key has not changed. */
void sched_tree_remove(struct sched_tree *t, struct sched_tree_node *n);

/* The first element; the first element behind a key; element number i (from 0); NULL when there is
 * none. */
struct sched_tree_node *sched_tree_first(const struct sched_tree *t);
struct sched_tree_node *sched_tree_after(const struct sched_tree *t, struct sched_tree_key key);
struct sched_tree_node *sched_tree_nth(const struct sched_tree *t, size_t i);
/* The first element behind a key with weight <= max. */
struct sched_tree_node *sched_tree_after_light(const struct sched_tree *t,
                                               struct sched_tree_key key, double max);
/* The first element with weight <= max. */
struct sched_tree_node *sched_tree_first_light(const struct sched_tree *t, double max);
/* The number of elements with a smaller key. */
size_t sched_tree_place(const struct sched_tree *t, struct sched_tree_key key);

#endif
