/* resgraph_switches.c - the leaf switches and pods of a graph, as arrays.
 *
 * Failure: ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "resgraph_private.h"
#include "resgraph_switches.h"

void resgraph_switches_clear(struct resgraph_switches *sw)
{
    free(sw->leaf);
    free(sw->pod);
    free(sw->leaf_name);
    free(sw->pod_name);
    *sw = (struct resgraph_switches){0};
}

/* The number of the place that is the pod of a leaf. */
static uint32_t pod_number(struct resgraph_switches *sw, ssize_t *pods, const resgraph_t *g,
                           ssize_t place)
{
    if (place < 0 || pods[place] == 0) {
        sw->pod_name[sw->npods++] = place < 0 ? NULL : g->places[place].name;
        if (place < 0)
            return sw->npods - 1;
        pods[place] = sw->npods;
    }
    return (uint32_t)pods[place] - 1;
}

int resgraph_switches(const resgraph_t *g, struct resgraph_switches *sw)
{
    size_t n = resgraph_nnodes(g);
    size_t most = g->nplaces + n + 1;
    ssize_t *pods = calloc(g->nplaces + 1, sizeof(*pods));
    size_t nplaced = 0;

    *sw = (struct resgraph_switches){.leaf = malloc((n + 1) * sizeof(uint32_t)),
                                     .pod = calloc(most, sizeof(uint32_t)),
                                     .leaf_name = calloc(most, sizeof(char *)),
                                     .pod_name = calloc(most, sizeof(char *))};
    if (!pods || !sw->leaf || !sw->pod || !sw->leaf_name || !sw->pod_name) {
        free(pods);
        resgraph_switches_clear(sw);
        errno = ENOMEM;
        return -1;
    }
    memset(sw->leaf, 0xff, (n + 1) * sizeof(uint32_t));
    for (size_t i = 0; i < g->nplaces; i++) {
        const struct gplace *p = &g->places[i];

        if (strcmp(p->level, "leaf") != 0 || idset_empty(p->ranks))
            continue;
        sw->leaf_name[sw->nleaves] = p->name;
        sw->pod[sw->nleaves] = pod_number(sw, pods, g, p->parent);
        for (uint32_t r = idset_first(p->ranks); r != IDSET_NONE; r = idset_next(p->ranks, r)) {
            ssize_t at = resgraph_find_rank(g, r);

            if (at >= 0)
                sw->leaf[at] = sw->nleaves;
        }
        nplaced++;
        sw->nleaves++;
    }
    for (size_t i = 0; nplaced > 0 && i < n; i++) {
        if (sw->leaf[i] == UINT32_MAX) {
            sw->leaf[i] = sw->nleaves;
            sw->pod[sw->nleaves++] = pod_number(sw, pods, g, -1);
        }
    }
    free(pods);
    return 0;
}
