/* Which task of a job runs on which of its nodes.
 *
 * Nodes may have different numbers of tasks.  In blocks, node 0 has the first tasks, node 1 the
 * next, and so on; cyclic, tasks are dealt out one to each node in turn, and nodes that have all
 * theirs are left out.  Nodes with equal numbers are kept as runs, so that size and time depend on
 * the number of runs, not of nodes or tasks.
 *
 * Not thread-safe while it is being made; afterwards constant.
 */
#ifndef EXEC_LAYOUT_H
#define EXEC_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define LAYOUT_TASKS_MAX (1u << 24)
#define LAYOUT_RUNS_MAX (1u << 20)

enum exec_layout_kind { LAYOUT_BLOCK, LAYOUT_CYCLIC };

/* `nodes` neighboring nodes with `each` tasks. */
struct layout_run {
    uint32_t nodes;
    uint32_t each;
};

typedef struct layout layout_t;

/* Runs in the order of nodes, copied; equal neighbors are joined.  NULL with EINVAL (no
 * node, a node without task, too many) or ENOMEM, and an error message. */
layout_t *exec_layout_create(enum exec_layout_kind kind, const struct layout_run *runs,
                             size_t nruns, errmsg_t *err);
void exec_layout_destroy(layout_t *l); /* NULL-safe, keeps errno */

enum exec_layout_kind exec_layout_kind(const layout_t *l);
uint32_t exec_layout_nnodes(const layout_t *l);
uint32_t exec_layout_ntasks(const layout_t *l);
size_t exec_layout_nruns(const layout_t *l);
const struct layout_run *exec_layout_runs(const layout_t *l);

/* Number of tasks on a node < nnodes. */
uint32_t exec_layout_count(const layout_t *l, uint32_t node);
/* Its task number i < count; ascending in i.  Logarithmic in runs for blocks, else linear. */
uint32_t exec_layout_task(const layout_t *l, uint32_t node, uint32_t i);
/* The node of a task < ntasks; *local (may be NULL): its number there. */
uint32_t exec_layout_node(const layout_t *l, uint32_t task, uint32_t *local);

#endif
