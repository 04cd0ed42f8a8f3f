/* hosts.c - the nodes of a job that are brokers of one host, for MPI (see doc/mpi.rst).
 *
 * Purpose: hosts are numbered in the order of their first nodes, so all nodes of a job number them
 * alike.  Nodes with the same name are one host, unless wrexec.share-hosts is "no" or the names are
 * unknown.  Where names would be misleading, rank 0 has replaced them (coord_hosts.c of wrexec).
 *
 * Failure: -1 or NULL with ENOMEM.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/exec_layout.h"
#include "libidset/hostlist.h"
#include "libpmi/pmi_mapping.h"

/* Number the names of the list.  Returns 0, or -1 with ENOMEM. */
static int number(const hostlist_t *hl, uint32_t *numbers, uint32_t nnodes, uint32_t *nhosts)
{
    hmap_t *known = hmap_create_str(NULL);
    char name[HOSTLIST_NAME_MAX + 1];
    int rc = known ? 0 : -1;

    *nhosts = 0;
    for (uint32_t i = 0; rc == 0 && i < nnodes; i++) {
        void *is = hostlist_nth(hl, i, name, sizeof(name)) ? hmap_get(known, name) : NULL;

        if (is)
            numbers[i] = (uint32_t)(uintptr_t)is - 1;
        else if ((rc = hmap_put(known, name, (void *)(uintptr_t)(*nhosts + 1))) == 0)
            numbers[i] = (*nhosts)++;
    }
    hmap_destroy(known);
    return rc;
}

int hosts_number(const struct nodejob *j, uint32_t **numbers, uint32_t *nhosts)
{
    hostlist_t *hl;
    int rc = 0;

    *numbers = NULL;
    *nhosts = j->run.nnodes;
    /* A list without a comma is one range, in which no name occurs twice. */
    if (j->l->separate_hosts || j->run.nnodes < 2 || !strchr(j->hosts, ','))
        return 0;
    if (!(hl = hostlist_parse(j->hosts, NULL)))
        return errno == ENOMEM ? -1 : 0;
    if (hostlist_count(hl) == j->run.nnodes) {
        *numbers = calloc(j->run.nnodes, sizeof(**numbers));
        rc = *numbers ? number(hl, *numbers, j->run.nnodes, nhosts) : -1;
    }
    hostlist_destroy(hl);
    if (rc == 0 && *nhosts < j->run.nnodes)
        return 0;
    free(*numbers);
    *numbers = NULL;
    *nhosts = j->run.nnodes;
    return rc;
}

int hosts_here(const struct nodejob *j, uint32_t *host)
{
    uint32_t *numbers, nhosts;

    if (hosts_number(j, &numbers, &nhosts) < 0)
        return -1;
    *host = numbers ? numbers[j->run.node] : j->run.node;
    free(numbers);
    return 0;
}

static char *node_mapping(const struct nodejob *j)
{
    uint32_t *tasks = calloc(j->run.nnodes, sizeof(*tasks));
    char *mapping;

    if (!tasks)
        return NULL;
    for (uint32_t i = 0; i < j->run.nnodes; i++)
        tasks[i] = exec_layout_count(j->layout, i);
    mapping = pmi_mapping_format(j->run.nnodes, tasks,
                                 exec_layout_kind(j->layout) == LAYOUT_CYCLIC ? PMI_LAYOUT_CYCLIC
                                                                              : PMI_LAYOUT_BLOCK);
    free(tasks);
    return mapping;
}

char *hosts_mapping(const struct nodejob *j)
{
    uint32_t *numbers, *host_of, nhosts;
    char *mapping = NULL;

    if (hosts_number(j, &numbers, &nhosts) < 0)
        return NULL;
    if (!numbers)
        return node_mapping(j);
    if ((host_of = calloc(j->run.ntasks, sizeof(*host_of)))) {
        for (uint32_t r = 0; r < j->run.ntasks; r++)
            host_of[r] = numbers[exec_layout_node(j->layout, r, NULL)];
        mapping = pmi_mapping_format_ranks(j->run.ntasks, host_of);
    }
    free(host_of);
    free(numbers);
    return mapping;
}
