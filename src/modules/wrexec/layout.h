/* Which task runs where: blocks of consecutive tasks, the first nodes having one more when it does
 * not come out even.  Pure functions, for 1 <= nnodes, node < nnodes. */
#ifndef WREXEC_LAYOUT_H
#define WREXEC_LAYOUT_H

#include <stdint.h>

/* Number of tasks on a node. */
static inline uint32_t layout_count(uint32_t ntasks, uint32_t nnodes, uint32_t node)
{
    return ntasks / nnodes + (node < ntasks % nnodes);
}

/* The first task of a node. */
static inline uint32_t layout_first(uint32_t ntasks, uint32_t nnodes, uint32_t node)
{
    uint32_t rest = ntasks % nnodes;

    return node * (ntasks / nnodes) + (node < rest ? node : rest);
}

/* The node of a task < ntasks. */
static inline uint32_t layout_node(uint32_t ntasks, uint32_t nnodes, uint32_t task)
{
    uint32_t each = ntasks / nnodes, rest = ntasks % nnodes;

    if (task < rest * (each + 1))
        return task / (each + 1);
    return rest + (task - rest * (each + 1)) / each;
}

#endif
