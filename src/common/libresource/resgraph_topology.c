/* resgraph_topology.c - switches as places of a graph.
 *
 *    place   name                                holds
 *    core    of the root ("core")                pods, and leaves right below it
 *    pod     of the switch right above leaves    leaves
 *    leaf    of the switch                       nodes
 * Switches between the pods and the root are left out: for placement, everything above a pod is
 * core.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resgraph_private.h"
#include "resgraph_topology.h"

static const char *const levels[] = {"core", "pod", "leaf"};

static int no_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for the switches");
}

static bool is_switch(const struct gplace *p)
{
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(p->level, levels[i]) == 0)
            return true;
    }
    return false;
}

/* Remove the places that are switches, and those within them.  0, or -1. */
static int drop_switches(resgraph_t *g, errmsg_t *err)
{
    ssize_t *now = calloc(g->nplaces + 1, sizeof(*now)); /* the new number of a place; -1: it is
                                                          * removed */
    size_t n = 0;

    if (!now)
        return no_memory(err);
    for (size_t i = 0; i < g->nplaces; i++) {
        struct gplace p = g->places[i];

        if (is_switch(&p) || (p.parent >= 0 && now[p.parent] < 0)) {
            now[i] = -1;
            resgraph_clear_place(&p);
            continue;
        }
        if (p.parent >= 0)
            p.parent = now[p.parent];
        now[i] = (ssize_t)n;
        g->places[n++] = p;
    }
    g->nplaces = n;
    free(now);
    return 0;
}

/* --- from a tree --- */

/* Find the leaf of each node of the graph; FATTREE_NONE: it is on no switch.  0, or -1. */
static int find_leaves(const resgraph_t *g, const fattree_t *t, const char *name, uint32_t *leaf,
                       errmsg_t *err)
{
    bool named = fattree_node_name(t, 0) != NULL;
    struct resgraph_node node;

    for (size_t i = 0; resgraph_node(g, i, &node); i++) {
        uint32_t at = named ? fattree_find(t, node.host) : node.rank;

        if (at == FATTREE_NONE)
            return errmsg_fail(err, EINVAL, "%s: node %.64s (rank %u) is not connected to a switch",
                               name, node.host, node.rank);
        if (at >= fattree_nnodes(t))
            return errmsg_fail(err, EINVAL,
                               "the tree %s has %u nodes: there is no place for rank %u", name,
                               fattree_nnodes(t), node.rank);
        leaf[i] = fattree_leaf(t, at);
    }
    return 0;
}

static const char *name_of(const char *name, const char *level, uint32_t number, char *buf,
                           size_t size)
{
    snprintf(buf, size, "%s%u", level, number);
    return name ? name : buf;
}

static int add_place(resgraph_t *g, const char *level, const char *name, ssize_t parent,
                     const idset_t *ranks, errmsg_t *err)
{
    struct resgraph_place p = {.level = level, .name = name, .parent = parent, .ranks = ranks};

    return resgraph_add_place(g, &p, err) < 0 ? -1 : (int)resgraph_nplaces(g) - 1;
}

static int add_all(resgraph_t *g, const fattree_t *t, const uint32_t *leaf, errmsg_t *err)
{
    uint32_t nleaves = fattree_nleaves(t);
    int *pod = calloc(fattree_npods(t), sizeof(*pod));
    idset_t **ranks = calloc(nleaves, sizeof(*ranks));
    int core = -1, rc = -1;
    struct fattree_switch root;
    struct resgraph_node node;
    char buf[64];

    if (!pod || !ranks)
        goto nomem;
    for (size_t i = 0; resgraph_node(g, i, &node); i++) {
        idset_t **set = &ranks[leaf[i]];

        if ((!*set && !(*set = idset_create())) || idset_set(*set, node.rank) < 0)
            goto nomem;
    }
    core = add_place(g, "core", fattree_switch(t, 0, &root) ? root.name : "core", -1, NULL, err);
    if (core < 0)
        goto out;
    for (uint32_t l = 0; l < nleaves; l++) {
        uint32_t p = fattree_pod(t, l);

        if (!ranks[l])
            continue;
        if (pod[p] == 0 &&
            (pod[p] =
                 add_place(g, "pod", name_of(fattree_pod_name(t, p), "pod", p, buf, sizeof(buf)),
                           core, NULL, err)) < 0)
            goto out;
        if (add_place(g, "leaf", name_of(fattree_leaf_name(t, l), "leaf", l, buf, sizeof(buf)),
                      pod[p], ranks[l], err) < 0)
            goto out;
    }
    rc = 0;
    goto out;
nomem:
    no_memory(err);
out:
    for (uint32_t l = 0; ranks && l < nleaves; l++)
        idset_destroy(ranks[l]);
    free(ranks);
    free(pod);
    return rc;
}

int resgraph_set_topology(resgraph_t *g, const fattree_t *t, const char *name, errmsg_t *err)
{
    uint32_t *leaf = calloc(resgraph_nnodes(g) + 1, sizeof(*leaf));
    errmsg_t ignored;
    int rc;

    if (!leaf)
        return no_memory(err);
    rc = drop_switches(g, err);
    if (rc == 0 && (rc = find_leaves(g, t, name, leaf, err)) == 0 &&
        (rc = add_all(g, t, leaf, err)) < 0)
        drop_switches(g, &ignored);
    free(leaf);
    return rc;
}
