/* historder.c - in which order transactions took effect.
 *
 * Of a transaction that was answered the version is known; of one with an unknown outcome only that
 * it lies between two bounds, if it has any.  Reads tell more:
 *
 *    edge    a takes effect before b        two writes of one key were seen, one above the other
 *    either  y has no effect at all, or     x was seen at version v at a key that y writes, too
 *            before x, or after version v
 *
 * Bounds and edges push each other until nothing moves.  A lower bound above the upper one is a
 * contradiction, and so are edges in a circle (which can only be among transactions of one version,
 * or with unknown ones).  Whatever is drawn from them follows: a contradiction is never a false
 * alarm.  An `either` that stays open is taken as fulfilled.
 */
#include "config.h"
#include <inttypes.h>
#include <stdlib.h>

#include "histpriv.h"

static bool grow(struct check *c, void *array, size_t *cap, size_t n, size_t size)
{
    void **p = array;

    if (n < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 256;
    void *grown = realloc(*p, want * size);
    if (!grown) {
        c->oom = true;
        return false;
    }
    *p = grown;
    *cap = want;
    return true;
}

static uint64_t pair(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

static void add_edge(struct check *c, uint32_t a, uint32_t b, uint32_t key, uint32_t op)
{
    if (hmap_get_u64(c->edge_index, pair(a, b)) ||
        !grow(c, &c->edges, &c->edges_cap, c->nedges, sizeof(*c->edges)))
        return;
    c->edges[c->nedges++] = (struct edge){a, b, key, op};
    if (hmap_put_u64(c->edge_index, pair(a, b), (void *)(uintptr_t)c->nedges) < 0)
        c->oom = true;
}

void ho_before(struct check *c, uint32_t a, uint32_t b, uint32_t key, uint32_t op,
               enum hist_kind kind)
{
    const struct node *x = &c->nodes[a], *y = &c->nodes[b];

    if (a == b || (x->known && y->known && x->lo < y->lo))
        return;
    if (x->known && y->known && x->lo > y->lo) {
        hc_violation(c, kind, op, x->op,
                     "at key '%s' what was written with version %" PRIu64
                     " stands before what was written with version %" PRIu64,
                     hc_key(c, key), x->lo, y->lo);
        return;
    }
    add_edge(c, a, b, key, op);
}

static bool raise_lo(struct node *n, uint64_t v, uint32_t op)
{
    if (n->known || v <= n->lo)
        return false;
    n->lo = v;
    n->lo_op = op;
    return true;
}

static bool lower_hi(struct node *n, uint64_t v, uint32_t op)
{
    if (n->known || v >= n->hi)
        return false;
    n->hi = v;
    n->hi_op = op;
    return true;
}

void ho_seen(struct check *c, uint32_t node, uint64_t v, uint32_t op)
{
    c->nodes[node].applied = true;
    lower_hi(&c->nodes[node], v, op);
}

void ho_not_before(struct check *c, uint32_t node, uint64_t v, uint32_t op)
{
    raise_lo(&c->nodes[node], v, op);
}

void ho_absent(struct check *c, uint32_t node, uint32_t than, uint64_t v, uint32_t key, uint32_t op)
{
    uint64_t id = pair(node, than);
    uintptr_t at = (uintptr_t)hmap_get_u64(c->either_index, id);

    if (at) {
        /* What holds up to a higher version holds up to this one. */
        struct either *e = &c->eithers[at - 1];
        if (v > e->v) {
            e->v = v;
            e->key = key;
            e->op = op;
        }
        return;
    }
    if (!grow(c, &c->eithers, &c->eithers_cap, c->neithers, sizeof(*c->eithers)))
        return;
    c->eithers[c->neithers++] = (struct either){node, than, v, key, op};
    if (hmap_put_u64(c->either_index, id, (void *)(uintptr_t)c->neithers) < 0)
        c->oom = true;
}

static bool push_edges(struct check *c)
{
    bool moved = false;

    for (size_t i = 0; i < c->nedges; i++) {
        struct edge *e = &c->edges[i];
        moved |= raise_lo(&c->nodes[e->after], c->nodes[e->before].lo, e->op);
        moved |= lower_hi(&c->nodes[e->before], c->nodes[e->after].hi, e->op);
    }
    return moved;
}

static bool push_eithers(struct check *c)
{
    bool moved = false;

    for (size_t i = 0; i < c->neithers; i++) {
        struct either *e = &c->eithers[i];
        struct node *y = &c->nodes[e->node];
        if (!y->applied)
            continue;
        bool not_before = e->than == INITIAL || y->lo > c->nodes[e->than].hi ||
                          hmap_get_u64(c->edge_index, pair(e->than, e->node));
        if (not_before)
            moved |= raise_lo(y, e->v + 1, e->op);
        else if (y->hi <= e->v && !hmap_get_u64(c->edge_index, pair(e->node, e->than))) {
            add_edge(c, e->node, e->than, e->key, e->op);
            moved = true;
        }
    }
    return moved;
}

static void contradictions(struct check *c)
{
    for (uint32_t i = 0; i < c->nnodes; i++) {
        struct node *n = &c->nodes[i];
        if (!n->applied || n->reported || n->lo <= n->hi)
            continue;
        n->reported = true;
        hc_violation(c, n->nwrites > 1 ? HV_TORN : HV_STALE, n->lo_op, n->hi_op,
                     "a commit with an unknown outcome (client %" PRIu32 ", its %" PRIu32
                     ". operation) has effect at version %" PRIu64
                     " and must be later than that for who sees the other state",
                     history_op(c->h, n->op)->client, history_op(c->h, n->op)->number, n->hi);
    }
}

/* Repeatedly take away what nothing is before: what is left has circles in it. */
static void circles(struct check *c)
{
    uint32_t *before = calloc(c->nnodes + 1, sizeof(*before));
    uint32_t *start = calloc(c->nnodes + 2, sizeof(*start));
    uint32_t *out = calloc(c->nedges + 1, sizeof(*out));
    uint32_t *queue = calloc(c->nnodes + 1, sizeof(*queue));
    size_t head = 0, tail = 0;

    if (!before || !start || !out || !queue) {
        c->oom = true;
        goto done;
    }
    for (size_t i = 0; i < c->nedges; i++) {
        before[c->edges[i].after]++;
        start[c->edges[i].before + 1]++;
    }
    for (uint32_t i = 0; i < c->nnodes; i++)
        start[i + 1] += start[i];
    for (size_t i = c->nedges; i > 0; i--)
        out[--start[c->edges[i - 1].before + 1]] = (uint32_t)(i - 1);
    /* The edges of node i are now at start[i + 1] .. start[i + 2]. */
    start[c->nnodes + 1] = (uint32_t)c->nedges;
    for (uint32_t i = 0; i < c->nnodes; i++) {
        if (before[i] == 0)
            queue[tail++] = i;
    }
    while (head < tail) {
        uint32_t n = queue[head++];
        for (uint32_t k = start[n + 1]; k < start[n + 2]; k++) {
            uint32_t to = c->edges[out[k]].after;
            if (--before[to] == 0)
                queue[tail++] = to;
        }
    }
    if (tail == c->nnodes)
        goto done;
    /* Two edges that contradict each other say most. */
    const struct edge *e = NULL, *back = NULL;
    for (size_t i = 0; i < c->nedges; i++) {
        const struct edge *x = &c->edges[i];
        if (before[x->before] == 0 || before[x->after] == 0)
            continue;
        uintptr_t at = (uintptr_t)hmap_get_u64(c->edge_index, pair(x->after, x->before));
        if (!e || (!back && at)) {
            e = x;
            back = at ? &c->edges[at - 1] : NULL;
        }
    }
    if (!e) /* cannot be: a circle is made of such edges */
        goto done;
    bool one_key = back && e->key == back->key;
    hc_violation(c, one_key ? HV_CONTENTS : HV_TORN, e->op, back ? back->op : c->nodes[e->after].op,
                 "of two transactions of one root change each is seen above the other%s%s%s",
                 one_key ? ": key '" : "", one_key ? hc_key(c, e->key) : "",
                 one_key ? "' has two values" : "");
done:
    free(before);
    free(start);
    free(out);
    free(queue);
}

void ho_resolve(struct check *c)
{
    bool moved = true;

    for (unsigned round = 0; moved && round < 10000 && !c->oom; round++) {
        moved = push_edges(c);
        moved |= push_eithers(c);
        /* A contradiction would push for ever. */
        for (uint32_t i = 0; i < c->nnodes && moved; i++) {
            if (c->nodes[i].applied && c->nodes[i].lo > c->nodes[i].hi)
                moved = false;
        }
    }
    contradictions(c);
    circles(c);
}
