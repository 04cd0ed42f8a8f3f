/* rset_algebra.c - union, difference, intersection and comparisons of resource sets (header).
 *
 * All walk two sorted lists of nodes side by side; what both have is combined.  In place, few nodes
 * against many are looked up one by one instead.
 *
 *             node in a only   in both                              in b only
 *    union    a                cores|cores, gpus|gpus, sum of memory  b
 *    diff     a                cores-cores, gpus-gpus, memory-memory  -
 *    inters.  -                cores&cores, gpus&gpus, least memory   -
 *
 * What is combined into nothing is left out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rset_private.h"

enum op { UNION, DIFF, INTERSECT };

static uint64_t combine_quantity(enum op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case UNION:
        return b > RSET_QUANTITY_MAX - a ? RSET_QUANTITY_MAX : a + b;
    case DIFF:
        return a > b ? a - b : 0;
    default:
        return a < b ? a : b;
    }
}

static bool kids_nothing(const struct kids *k)
{
    return k->memory == 0 && idset_empty(k->cores) && idset_empty(k->gpus);
}

/* NULL with ENOMEM. */
static struct kids *kids_combine(enum op op, const struct kids *a, const struct kids *b)
{
    static int (*const in_place[])(idset_t *, const idset_t *) = {idset_add, idset_subtract,
                                                                  idset_keep};
    struct kids *k = kids_create(a->cores, a->gpus, combine_quantity(op, a->memory, b->memory));

    if (!k || in_place[op](k->cores, b->cores) < 0 || in_place[op](k->gpus, b->gpus) < 0) {
        kids_decref(k);
        errno = ENOMEM;
        return NULL;
    }
    return k;
}

static int append_same(rset_t *out, const struct rnode *n)
{
    return rset_append(out, n->rank, kids_incref(n->kids), host_incref(n->host));
}

static int append_both(rset_t *out, enum op op, const struct rnode *a, const struct rnode *b)
{
    struct kids *k = kids_combine(op, a->kids, b->kids);

    if (k && kids_nothing(k) && op != UNION) {
        kids_decref(k);
        return 0;
    }
    /* Neighbours that were alike are still: let them share again. */
    if (k && out->n > 0 && kids_equal(k, out->nodes[out->n - 1].kids)) {
        kids_decref(k);
        k = kids_incref(out->nodes[out->n - 1].kids);
    }
    return rset_append(out, a->rank, k, host_incref(a->host ? a->host : b->host));
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
            if (op != INTERSECT)
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

/* The pools of `b`, into `out`, which has those of `a`. */
static int merge_pools(rset_t *out, enum op op, const rset_t *b)
{
    for (size_t i = 0; i < b->npools; i++) {
        uint64_t have = rset_pool_count(out, b->pools[i].name);

        if (rset_set_pool(out, b->pools[i].name, combine_quantity(op, have, b->pools[i].count)) < 0)
            return -1;
    }
    return 0;
}

static int own_pools(rset_t *out, enum op op, const rset_t *a, const rset_t *b)
{
    for (size_t i = 0; i < a->npools; i++) {
        if (op == INTERSECT && rset_pool_count(b, a->pools[i].name) == 0)
            continue;
        if (rset_set_pool(out, a->pools[i].name, a->pools[i].count) < 0)
            return -1;
    }
    return 0;
}

static rset_t *combine(enum op op, const rset_t *a, const rset_t *b)
{
    rset_t *out = rset_create();

    if (!out || merge_nodes(out, op, a, b) < 0 || own_pools(out, op, a, b) < 0 ||
        merge_pools(out, op, b) < 0) {
        rset_destroy(out);
        errno = ENOMEM;
        return NULL;
    }
    out->starttime = a->starttime;
    out->expiration = a->expiration;
    return out;
}

rset_t *rset_union(const rset_t *a, const rset_t *b)
{
    return combine(UNION, a, b);
}

rset_t *rset_diff(const rset_t *a, const rset_t *b)
{
    return combine(DIFF, a, b);
}

rset_t *rset_intersect(const rset_t *a, const rset_t *b)
{
    return combine(INTERSECT, a, b);
}

/* --- in place --- */

/* Is it cheaper to look up each node of `b` than to walk both? */
static bool few(const rset_t *a, const rset_t *b)
{
    return b->n < 4 || b->n < a->n / 16;
}

static int replace_nodes(rset_t *a, enum op op, const rset_t *b)
{
    rset_t out = {0};

    if (merge_nodes(&out, op, a, b) < 0) {
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
        if (replace_nodes(a, UNION, b) < 0)
            return -1;
    } else {
        for (size_t i = 0, n = b->n; i < n; i++) {
            const struct rnode *y = &b->nodes[i];
            uint64_t memory = y->kids->memory;
            struct rset_node have;

            if (rset_find(a, y->rank, &have)) /* as much as the bound allows */
                memory = combine_quantity(UNION, have.memory, memory) - have.memory;
            if (rset_add_node(a, y->rank, y->host ? y->host->name : NULL, y->kids->cores,
                              y->kids->gpus, memory) < 0)
                return -1;
        }
    }
    return merge_pools(a, UNION, b);
}

int rset_subtract(rset_t *a, const rset_t *b)
{
    if (a == b) {
        rset_drop_nodes(a);
    } else if (!few(a, b)) {
        if (replace_nodes(a, DIFF, b) < 0)
            return -1;
    } else {
        for (size_t i = 0; i < b->n; i++) {
            const struct rnode *y = &b->nodes[i];
            size_t at = rset_place(a, y->rank);
            struct kids *k;

            if (at >= a->n || a->nodes[at].rank != y->rank)
                continue;
            if (!(k = kids_combine(DIFF, a->nodes[at].kids, y->kids)))
                return -1;
            if (kids_nothing(k)) {
                kids_decref(k);
                rset_drop_node(a, at);
            } else {
                kids_decref(a->nodes[at].kids);
                a->nodes[at].kids = k;
            }
        }
    }
    if (a == b) {
        while (a->npools > 0)
            rset_set_pool(a, a->pools[a->npools - 1].name, 0);
        return 0;
    }
    return merge_pools(a, DIFF, b);
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

/* --- questions --- */

bool rset_intersects(const rset_t *a, const rset_t *b)
{
    if (a->n > b->n) {
        const rset_t *t = a;

        a = b;
        b = t;
    }
    for (size_t i = 0; i < a->n; i++) {
        const struct kids *k = a->nodes[i].kids;
        size_t at = rset_place(b, a->nodes[i].rank);

        if (at < b->n && b->nodes[at].rank == a->nodes[i].rank &&
            (idset_intersects(k->cores, b->nodes[at].kids->cores) ||
             idset_intersects(k->gpus, b->nodes[at].kids->gpus)))
            return true;
    }
    return false;
}

bool rset_subset(const rset_t *a, const rset_t *b)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct kids *k = a->nodes[i].kids;
        size_t at = rset_place(b, a->nodes[i].rank);

        if (at >= b->n || b->nodes[at].rank != a->nodes[i].rank)
            return false;
        if (b->nodes[at].kids != k && (k->memory > b->nodes[at].kids->memory ||
                                       !idset_subset(k->cores, b->nodes[at].kids->cores) ||
                                       !idset_subset(k->gpus, b->nodes[at].kids->gpus)))
            return false;
    }
    for (size_t i = 0; i < a->npools; i++) {
        if (a->pools[i].count > rset_pool_count(b, a->pools[i].name))
            return false;
    }
    return true;
}

bool rset_equal(const rset_t *a, const rset_t *b)
{
    if (a->n != b->n || a->npools != b->npools)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (a->nodes[i].rank != b->nodes[i].rank || !kids_equal(a->nodes[i].kids, b->nodes[i].kids))
            return false;
    }
    for (size_t i = 0; i < a->npools; i++) {
        if (a->pools[i].count != b->pools[i].count ||
            strcmp(a->pools[i].name, b->pools[i].name) != 0)
            return false;
    }
    return true;
}
