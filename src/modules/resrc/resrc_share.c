/* resrc_share.c - divides the share of a task among the brokers that it has started.
 *
 * Purpose: a session inside a job has the shares of its tasks (resrc_find.c).  Usually each broker
 * is one task, but `flux start --size=N` in one task starts N brokers which all find the same
 * share, and the session must not schedule it N times.  So each broker marks its report with a
 * property of its task's rank, "task.R": nodes that are equal, including this mark, share one task.
 * The result has no marks.
 *
 *    cores, gpus    number i of C goes to broker i * N / C of the N, in the order of ranks
 *    memory         the Nth part
 *
 * If there are fewer cores than brokers, broker i has core i % C, so that each can run something.
 *
 * Failure: ENOMEM, and the graph is unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hmap.h"
#include "resrc_root.h"

/* Nodes of one name and kind. */
struct group {
    idset_t *ranks;
    uint32_t next; /* index of the next one to get its part */
};

static void group_free(void *arg)
{
    struct group *gr = arg;

    if (gr) {
        idset_destroy(gr->ranks);
        free(gr);
    }
}

static struct group *group_of(hmap_t *groups, const struct resgraph_node *node)
{
    char key[300];
    struct group *gr;

    snprintf(key, sizeof(key), "%zu %s", node->kind, node->host);
    if ((gr = hmap_get(groups, key)))
        return gr;
    if (!(gr = calloc(1, sizeof(*gr))) || !(gr->ranks = idset_create()) ||
        hmap_put(groups, key, gr) < 0) {
        group_free(gr);
        return NULL;
    }
    return gr;
}

/* Part i of n.  With `some`, no part is empty (unless `ids` is). */
static idset_t *part(const idset_t *ids, size_t i, size_t n, bool some)
{
    size_t count = idset_count(ids), first = (i * count + n - 1) / n;
    idset_t *out = idset_create();

    if (!out || count == 0)
        return out;
    if (count < n && some) {
        first = i % count;
        if (idset_set(out, idset_nth(ids, first)) == 0)
            return out;
    }
    for (size_t k = first; k < count && k * n / count == i; k++) {
        if (idset_set(out, idset_nth(ids, k)) < 0) {
            idset_destroy(out);
            return NULL;
        }
    }
    return out;
}

static int add_part(resgraph_t *out, const struct resgraph_node *node, size_t i, size_t n)
{
    idset_t *ranks = idset_create_range(node->rank, node->rank);
    idset_t *cores = part(node->cores, i, n, true), *gpus = part(node->gpus, i, n, false);
    struct resgraph_node desc = {.cores = cores, .gpus = gpus, .memory = node->memory / n};
    int rc = -1;

    if (ranks && cores && gpus)
        rc = resgraph_add(out, ranks, node->host, &desc, NULL);
    idset_destroy(ranks);
    idset_destroy(cores);
    idset_destroy(gpus);
    return rc;
}

static int divide(resgraph_t *out, const resgraph_t *g, hmap_t *groups)
{
    struct resgraph_node node;
    struct resgraph_pool p;
    struct group *gr;

    for (size_t i = 0; resgraph_node(g, i, &node); i++) {
        if (!(gr = group_of(groups, &node)) || idset_set(gr->ranks, node.rank) < 0)
            return -1;
    }
    for (size_t i = 0; resgraph_node(g, i, &node); i++) {
        if (!(gr = group_of(groups, &node)) ||
            add_part(out, &node, gr->next++, idset_count(gr->ranks)) < 0)
            return -1;
    }
    for (size_t i = 0; resgraph_pool(g, i, &p); i++) {
        if (resgraph_add_pool(out, p.name, p.count, p.unit, NULL) < 0)
            return -1;
    }
    return 0;
}

int resrc_share_divide(resgraph_t **g)
{
    hmap_t *groups = hmap_create_str(group_free);
    resgraph_t *out = resgraph_create();
    int rc = groups && out ? divide(out, *g, groups) : -1;

    hmap_destroy(groups);
    if (rc == 0) {
        resgraph_destroy(*g);
        *g = out;
    } else {
        resgraph_destroy(out);
    }
    return rc;
}
