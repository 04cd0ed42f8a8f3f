/* A binary heap of times.  Its nodes are members of the waiting objects, so that insertion, change
 * and removal cost O(log n), and only the growth of the heap can fail.
 *
 * Thread rules: one thread at a time.
 */
#ifndef JM_HEAP_H
#define JM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct jm_heap_node {
    double at;    /* seconds; read only */
    uint32_t pos; /* in the array, from 1; 0: in no heap */
};

struct jm_heap {
    struct jm_heap_node **nodes;
    uint32_t n;
    uint32_t cap;
};

/* All zeros is an empty heap.  Frees the array, not the nodes. */
void jm_heap_clear(struct jm_heap *hp);
/* Insert a node (all zeros at first), or change the time of a node to `at`.  -1 with ENOMEM, only
 * for an insertion. */
int jm_heap_put(struct jm_heap *hp, struct jm_heap_node *n, double at);
/* Harmless for a node that is in no heap. */
void jm_heap_remove(struct jm_heap *hp, struct jm_heap_node *n);
/* The node with the earliest time; NULL when there is none. */
struct jm_heap_node *jm_heap_first(const struct jm_heap *hp);

#endif
