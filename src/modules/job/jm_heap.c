/* jm_heap.c - the binary heap of times for which jobs wait.
 *
 * Invariants:
 *  1. nodes[i]->at >= nodes[(i - 1) / 2]->at for each i > 0.
 *  2. nodes[i]->pos == i + 1; a node that is in no heap has pos 0.
 *
 * Failure: without memory to grow, a node is not put in and ENOMEM is returned.
 */
#include "config.h"
#include "jm_heap.h"

#include <errno.h>
#include <stdlib.h>

#define CAP_MIN 64

static void place(struct jm_heap *hp, uint32_t i, struct jm_heap_node *n)
{
    hp->nodes[i] = n;
    n->pos = i + 1;
}

static void up(struct jm_heap *hp, uint32_t i)
{
    struct jm_heap_node *n = hp->nodes[i];

    while (i > 0 && hp->nodes[(i - 1) / 2]->at > n->at) {
        place(hp, i, hp->nodes[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(hp, i, n);
}

static void down(struct jm_heap *hp, uint32_t i)
{
    struct jm_heap_node *n = hp->nodes[i];

    for (uint32_t c; (c = 2 * i + 1) < hp->n; i = c) {
        if (c + 1 < hp->n && hp->nodes[c + 1]->at < hp->nodes[c]->at)
            c++;
        if (hp->nodes[c]->at >= n->at)
            break;
        place(hp, i, hp->nodes[c]);
    }
    place(hp, i, n);
}

void jm_heap_clear(struct jm_heap *hp)
{
    for (uint32_t i = 0; i < hp->n; i++)
        hp->nodes[i]->pos = 0;
    free(hp->nodes);
    hp->nodes = NULL;
    hp->n = hp->cap = 0;
}

int jm_heap_put(struct jm_heap *hp, struct jm_heap_node *n, double at)
{
    if (n->pos) {
        double was = n->at;

        n->at = at;
        if (at < was)
            up(hp, n->pos - 1);
        else
            down(hp, n->pos - 1);
        return 0;
    }
    if (hp->n == hp->cap) {
        uint32_t cap = hp->cap ? hp->cap * 2 : CAP_MIN;
        struct jm_heap_node **nodes = realloc(hp->nodes, cap * sizeof(struct jm_heap_node *));

        if (!nodes) {
            errno = ENOMEM;
            return -1;
        }
        hp->nodes = nodes;
        hp->cap = cap;
    }
    n->at = at;
    hp->nodes[hp->n++] = n;
    up(hp, hp->n - 1);
    return 0;
}

void jm_heap_remove(struct jm_heap *hp, struct jm_heap_node *n)
{
    uint32_t i = n->pos;
    struct jm_heap_node *last;

    if (i == 0)
        return;
    i--;
    n->pos = 0;
    last = hp->nodes[--hp->n];
    if (last != n) {
        place(hp, i, last);
        up(hp, i);
        down(hp, last->pos - 1);
    }
    if (hp->cap > CAP_MIN && hp->n < hp->cap / 4) {
        struct jm_heap_node **nodes =
            realloc(hp->nodes, hp->cap / 2 * sizeof(struct jm_heap_node *));

        if (nodes) {
            hp->nodes = nodes;
            hp->cap /= 2;
        }
    }
}

struct jm_heap_node *jm_heap_first(const struct jm_heap *hp)
{
    return hp->n ? hp->nodes[0] : NULL;
}
