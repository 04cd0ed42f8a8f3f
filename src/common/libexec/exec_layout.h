/* Which task of a job runs on which of its nodes.
 *
 * Nodes may have different numbers of tasks.  In a block layout, node 0 has the first tasks, node 1
 * the next, and so on.  In a cyclic layout, tasks are dealt out one to each node in turn, and nodes
 * that have all of their tasks are passed over.  Nodes with equal numbers are kept as runs, so that
 * size and time depend on the number of runs, not of nodes or tasks.
 *
 * A layout is constant once it is created; threads may share it.
 */
#ifndef EXEC_LAYOUT_H
#define EXEC_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define LAYOUT_TASKS_MAX (1u << 24)
#define LAYOUT_RUNS_MAX (1u << 20)

enum exec_layout_kind { LAYOUT_BLOCK, LAYOUT_CYCLIC };

/* `nodes` neighboring nodes with `each` tasks per node. */
struct layout_run {
    uint32_t nodes;
    uint32_t each;
};

typedef struct layout layout_t;

/* Create a layout from runs in the order of nodes.  The runs are copied; equal neighbors are
 * joined.  NULL with an error message and EINVAL (no node, a node without a task, too many tasks)
 * or ENOMEM. */
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
/* The job's number of the node's task i < count; ascending in i.  Logarithmic in the number of runs
 * for blocks, else linear. */
uint32_t exec_layout_task(const layout_t *l, uint32_t node, uint32_t i);
/* The node of a task < ntasks; *local (may be NULL): the number of the task on that node. */
uint32_t exec_layout_node(const layout_t *l, uint32_t task, uint32_t *local);

#endif
