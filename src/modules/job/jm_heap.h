/* Times that are waited for: a binary heap whose nodes live in what waits, so that putting a node
 * in, moving it and taking it out cost O(log n) and only growing the heap can fail.
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

/* All zeros is an empty heap.  Frees the array, not what waits. */
void jm_heap_clear(struct jm_heap *hp);
/* Put a node in (all zeros at first), or move one that is in, to time `at`.  -1 with ENOMEM, which
 * a move never gives. */
int jm_heap_put(struct jm_heap *hp, struct jm_heap_node *n, double at);
/* Harmless for a node that is in no heap. */
void jm_heap_remove(struct jm_heap *hp, struct jm_heap_node *n);
/* The node with the earliest time; NULL when there is none. */
struct jm_heap_node *jm_heap_first(const struct jm_heap *hp);

#endif
