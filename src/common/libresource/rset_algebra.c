/* rset_algebra.c - union, difference and selection by rank of resource sets (header).
 *
 * Union and difference walk the two sorted lists of nodes side by side and combine the nodes that
 * are in both.  When a few nodes are added to many, each of the few is looked up instead.
 *
 *             node in a only   in both                                in b only
 *    union    a                cores|cores, gpus|gpus, sum of memory  b
 *    diff     a                cores-cores, gpus-gpus, memory-memory  -
 *
 * A difference leaves out the nodes of which nothing remains.
 */
#include <errno.h>
#include <stdlib.h>

#include "rset_private.h"

enum op { UNION, DIFF };

static uint64_t combine_quantity(enum op op, uint64_t a, uint64_t b)
{
    if (op == UNION)
        return b > RSET_QUANTITY_MAX - a ? RSET_QUANTITY_MAX : a + b;
    return a > b ? a - b : 0;
}

static bool parts_nothing(const struct rset_parts *k)
{
    return k->memory == 0 && idset_empty(k->cores) && idset_empty(k->gpus);
}

/* Combine the parts of two nodes.  NULL with ENOMEM. */
static struct rset_parts *parts_combine(enum op op, const struct rset_parts *a,
                                        const struct rset_parts *b)
{
    static int (*const in_place[])(idset_t *, const idset_t *) = {idset_add, idset_subtract};
    struct rset_parts *k =
        rset_parts_create(a->cores, a->gpus, combine_quantity(op, a->memory, b->memory));

    if (!k || in_place[op](k->cores, b->cores) < 0 || in_place[op](k->gpus, b->gpus) < 0) {
        rset_parts_decref(k);
        errno = ENOMEM;
        return NULL;
    }
    return k;
}

static int append_same(rset_t *out, const struct rnode *n)
{
    return rset_append(out, n->rank, rset_parts_incref(n->parts), rset_host_incref(n->host));
}

static int append_both(rset_t *out, enum op op, const struct rnode *a, const struct rnode *b)
{
    struct rset_parts *k = parts_combine(op, a->parts, b->parts);

    if (k && parts_nothing(k) && op != UNION) {
        rset_parts_decref(k);
        return 0;
    }
    /* Neighbors that were equal still are: share them again. */
    if (k && out->n > 0 && rset_parts_equal(k, out->nodes[out->n - 1].parts)) {
        rset_parts_decref(k);
        k = rset_parts_incref(out->nodes[out->n - 1].parts);
    }
    return rset_append(out, a->rank, k, rset_host_incref(a->host ? a->host : b->host));
}

static int merge_nodes(rset_t *out, enum op op, const rset_t *a, const rset_t *b)
{
    size_t i = 0, j = 0;

    while (i < a->n || j < b->n) {
        const struct rnode *x = i < a->n ? &a->nodes[i] : NULL;
        const struct rnode *y = j < b->n ? &b->nodes[j] : NULL;
        int rc = 0;

        if (x && y && x->rank == y->rank) {
            rc = append_both(out, op, x, y);
            i++, j++;
        } else if (x && (!y || x->rank < y->rank)) {
            rc = append_same(out, x);
            i++;
        } else {
            if (op == UNION)
                rc = append_same(out, y);
            j++;
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Combine the pools of `b` with those of `out`, which has the pools of `a`. */
static int merge_pools(rset_t *out, enum op op, const rset_t *b)
{
    for (size_t i = 0; i < b->npools; i++) {
        uint64_t have = rset_pool_count(out, b->pools[i].name);

        if (rset_set_pool(out, b->pools[i].name, combine_quantity(op, have, b->pools[i].count)) < 0)
            return -1;
    }
    return 0;
}

static int copy_pools(rset_t *out, const rset_t *a)
{
    for (size_t i = 0; i < a->npools; i++) {
        if (rset_set_pool(out, a->pools[i].name, a->pools[i].count) < 0)
            return -1;
    }
    return 0;
}

rset_t *rset_diff(const rset_t *a, const rset_t *b)
{
    rset_t *out = rset_create();

    if (!out || merge_nodes(out, DIFF, a, b) < 0 || copy_pools(out, a) < 0 ||
        merge_pools(out, DIFF, b) < 0) {
        rset_destroy(out);
        errno = ENOMEM;
        return NULL;
    }
    out->starttime = a->starttime;
    out->expiration = a->expiration;
    return out;
}

/* --- in place --- */

/* Is it cheaper to look up each node of `b` than to walk both sets? */
static bool few(const rset_t *a, const rset_t *b)
{
    return b->n < 4 || b->n < a->n / 16;
}

static int add_nodes(rset_t *a, const rset_t *b)
{
    rset_t out = {0};

    if (merge_nodes(&out, UNION, a, b) < 0) {
        rset_drop_nodes(&out);
        errno = ENOMEM;
        return -1;
    }
    rset_drop_nodes(a);
    a->nodes = out.nodes;
    a->n = out.n;
    a->cap = out.cap;
    return 0;
}

int rset_add(rset_t *a, const rset_t *b)
{
    if (!few(a, b)) {
        if (add_nodes(a, b) < 0)
            return -1;
    } else {
        for (size_t i = 0, n = b->n; i < n; i++) {
            const struct rnode *y = &b->nodes[i];
            uint64_t memory = y->parts->memory;
            struct rset_node have;

            if (rset_find(a, y->rank, &have)) /* the amount is cut at the bound */
                memory = combine_quantity(UNION, have.memory, memory) - have.memory;
            if (rset_add_node(a, y->rank, y->host ? y->host->name : NULL, y->parts->cores,
                              y->parts->gpus, memory) < 0)
                return -1;
        }
    }
    return merge_pools(a, UNION, b);
}

rset_t *rset_of_ranks(const rset_t *a, const idset_t *ranks)
{
    rset_t *out = rset_create();
    uint32_t lo, hi;
    size_t pos = 0;

    if (!out)
        return NULL;
    out->starttime = a->starttime;
    out->expiration = a->expiration;
    while (idset_next_range(ranks, &pos, &lo, &hi)) {
        for (size_t i = rset_place(a, lo); i < a->n && a->nodes[i].rank <= hi; i++) {
            if (append_same(out, &a->nodes[i]) < 0) {
                rset_destroy(out);
                errno = ENOMEM;
                return NULL;
            }
        }
    }
    return out;
}
