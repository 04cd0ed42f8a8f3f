/* Times that are waited for: a binary heap whose nodes live in what waits, so that putting a node
 * in, moving it and taking it out cost O(log n) and only growing the heap can fail.
 *
 * Thread rules: one thread at a time.
 */
#ifndef JOB_HEAP_H
#define JOB_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap_node {
    double at;    /* seconds; read only */
    uint32_t pos; /* in the array, from 1; 0: in no heap */
};

struct heap {
    struct heap_node **nodes;
    uint32_t n;
    uint32_t cap;
};

/* All zeros is an empty heap.  Frees the array, not what waits. */
void heap_clear(struct heap *hp);
/* Put a node in (all zeros at first), or move one that is in, to time `at`.  -1 with ENOMEM, which
 * a move never gives. */
int heap_put(struct heap *hp, struct heap_node *n, double at);
/* Harmless for a node that is in no heap. */
void heap_remove(struct heap *hp, struct heap_node *n);
/* The node with the earliest time; NULL when there is none. */
struct heap_node *heap_first(const struct heap *hp);

#endif
