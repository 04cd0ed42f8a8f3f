/* fattree.c - the switch of each node: regular machines, and look-ups.
 *
 * Frequent look-ups are array accesses: leaf_of[node], pod_of[leaf].
 *
 * Invariants:
 *  1. Each leaf has a node, and each pod a leaf.  The nodes of a leaf have consecutive numbers, and
 *     leaves are in the order of their nodes.
 *  2. leaf_max is the number of nodes of the largest leaf.
 *
 * Failure: NULL with EINVAL or ENOMEM and an error message.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fattree_private.h"

int fattree_measure(struct fattree *t)
{
    uint32_t *leaf = calloc(t->nleaves, sizeof(*leaf));

    if (!leaf)
        return -1;
    for (uint32_t n = 0; n < t->nnodes; n++) {
        uint32_t l = t->leaf_of[n];

        if (++leaf[l] > t->leaf_max)
            t->leaf_max = leaf[l];
    }
    free(leaf);
    return 0;
}

fattree_t *fattree_create(uint32_t pods, uint32_t leaves, uint32_t nodes, errmsg_t *err)
{
    uint64_t total = (uint64_t)pods * leaves;
    fattree_t *t;

    /* Multiply two factors at a time: the product of three may exceed 64 bits. */
    if (total == 0 || nodes == 0 || total > FATTREE_NODES_MAX ||
        total * nodes > FATTREE_NODES_MAX) {
        errmsg_fail(err, EINVAL,
                    "a tree of %" PRIu32 " pods of %" PRIu32 " leaves of %" PRIu32
                    " nodes cannot be: each number is at least 1, and there are at most %u nodes",
                    pods, leaves, nodes, FATTREE_NODES_MAX);
        return NULL;
    }
    if (!(t = calloc(1, sizeof(*t)))) {
        errmsg_fail(err, ENOMEM, "out of memory for the tree of switches");
        return NULL;
    }
    t->npods = pods;
    t->nleaves = (uint32_t)total;
    t->nnodes = (uint32_t)total * nodes;
    t->leaf_of = malloc(t->nnodes * sizeof(*t->leaf_of));
    t->pod_of = malloc(t->nleaves * sizeof(*t->pod_of));
    if (!t->leaf_of || !t->pod_of) {
        fattree_destroy(t);
        errmsg_fail(err, ENOMEM, "out of memory for the tree of switches");
        return NULL;
    }
    for (uint32_t n = 0; n < t->nnodes; n++)
        t->leaf_of[n] = n / nodes;
    for (uint32_t l = 0; l < t->nleaves; l++)
        t->pod_of[l] = l / leaves;
    t->leaf_max = nodes;
    return t;
}

fattree_t *fattree_parse(const char *spec, errmsg_t *err)
{
    uint32_t v[3];
    const char *at = spec;
    int i;

    for (i = 0; i < 3; i++) {
        unsigned long long x;
        char *end;

        if (*at < '0' || *at > '9')
            break;
        errno = 0;
        x = strtoull(at, &end, 10);
        if (errno != 0 || x > UINT32_MAX || *end != (i < 2 ? ',' : '\0'))
            break;
        v[i] = (uint32_t)x;
        at = end + 1;
    }
    if (i < 3) {
        errmsg_fail(err, EINVAL,
                    "'%.80s' is not a tree: it takes P,L,K for P pods of L leaves of K nodes",
                    spec);
        return NULL;
    }
    return fattree_create(v[0], v[1], v[2], err);
}

void fattree_destroy(fattree_t *t)
{
    int saved = errno;

    if (!t)
        return;
    for (uint32_t i = 0; t->node_name && i < t->nnodes; i++)
        free(t->node_name[i]);
    for (uint32_t i = 0; t->sw && i < t->nsw; i++)
        free((char *)(uintptr_t)t->sw[i].name);
    hmap_destroy(t->by_name);
    free(t->node_name);
    free(t->leaf_name);
    free(t->pod_name);
    free(t->sw);
    free(t->leaf_of);
    free(t->pod_of);
    free(t);
    errno = saved;
}

/* --- queries --- */

uint32_t fattree_nnodes(const fattree_t *t)
{
    return t->nnodes;
}

uint32_t fattree_nleaves(const fattree_t *t)
{
    return t->nleaves;
}

uint32_t fattree_npods(const fattree_t *t)
{
    return t->npods;
}

uint32_t fattree_leaf_max(const fattree_t *t)
{
    return t->leaf_max;
}

uint32_t fattree_leaf(const fattree_t *t, uint32_t node)
{
    return node < t->nnodes ? t->leaf_of[node] : FATTREE_NONE;
}

uint32_t fattree_pod(const fattree_t *t, uint32_t leaf)
{
    return leaf < t->nleaves ? t->pod_of[leaf] : FATTREE_NONE;
}

const uint32_t *fattree_leaves(const fattree_t *t)
{
    return t->leaf_of;
}

const uint32_t *fattree_pods(const fattree_t *t)
{
    return t->pod_of;
}

const char *fattree_node_name(const fattree_t *t, uint32_t node)
{
    return t->node_name && node < t->nnodes ? t->node_name[node] : NULL;
}

const char *fattree_leaf_name(const fattree_t *t, uint32_t leaf)
{
    return t->leaf_name && leaf < t->nleaves ? t->leaf_name[leaf] : NULL;
}

const char *fattree_pod_name(const fattree_t *t, uint32_t pod)
{
    return t->pod_name && pod < t->npods ? t->pod_name[pod] : NULL;
}

uint32_t fattree_find(const fattree_t *t, const char *node)
{
    const void *found = t->by_name ? hmap_get(t->by_name, node) : NULL;

    return found ? (uint32_t)((uintptr_t)found - 1) : FATTREE_NONE;
}

bool fattree_switch(const fattree_t *t, uint32_t i, struct fattree_switch *sw)
{
    if (i >= t->nsw)
        return false;
    *sw = t->sw[i];
    return true;
}
