/* PMI_process_mapping: which rank runs on which node, as a short string.
 *
 * The string is "(vector,(FIRST,COUNT,PPN),...)": COUNT nodes from node FIRST on get PPN
 * consecutive ranks each; when the blocks do not cover all ranks, the list of blocks is repeated.
 * Thread-safe for objects that no thread destroys.
 */
#ifndef PMI_MAPPING_H
#define PMI_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMI_MAPPING_RANKS_MAX (1u << 22)
#define PMI_MAPPING_NODES_MAX (1u << 22)

enum pmi_layout {
    PMI_LAYOUT_BLOCK,  /* ranks 0..t0-1 on node 0, the next t1 on node 1, ... */
    PMI_LAYOUT_CYCLIC, /* one rank to each node in turn; full nodes are passed over */
};

/* The string for `nnodes` nodes with tasks[i] ranks each (zeros allowed), malloc()ed, to be freed
 * by the caller.  NULL with EINVAL (no ranks, or too many) or ENOMEM. */
char *pmi_mapping_format(size_t nnodes, const uint32_t *tasks, enum pmi_layout layout);

/* The same for any placement: node_of[r] is the node of rank r. */
char *pmi_mapping_format_ranks(size_t nranks, const uint32_t *node_of);

struct pmi_mapping;

/* Read a string for a job of `nranks` ranks.  NULL with EINVAL (not of this form, numbers out of
 * range) or ENOMEM. */
struct pmi_mapping *pmi_mapping_parse(const char *str, size_t nranks);
void pmi_mapping_destroy(struct pmi_mapping *m); /* NULL-safe, keeps errno */

/* One more than the largest node number that has ranks. */
size_t pmi_mapping_nnodes(const struct pmi_mapping *m);

/* Node of a rank, or -1 with EINVAL. */
int pmi_mapping_node(const struct pmi_mapping *m, uint32_t rank);

/* Ranks of a node in ascending order, owned by `m`; *n their number (0: none, then the result may
 * be NULL). */
const uint32_t *pmi_mapping_ranks(const struct pmi_mapping *m, uint32_t node, size_t *n);

#endif
