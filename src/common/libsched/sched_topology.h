/* Node policies that look at switches, as tables of sched_plugin.h; see sched_topology.c.
 *
 * Thread rules: constant tables; their states belong to whoever made them.
 */
#ifndef SCHED_TOPOLOGY_H
#define SCHED_TOPOLOGY_H

#include "sched_plugin.h"

extern const struct sched_node_policy sched_compact, sched_buddy, sched_interference_free;

/* How large a job may be that the policy can place: one of up to `small` nodes fits exactly if it has no
 * more than most[0], a larger one of up to `medium` if no more than most[1], any other if no more than
 * most[2]. */
struct sched_limits {
    uint32_t small, medium;
    uint32_t most[3];
};
/* false: there is no such answer for this policy (of whole nodes); each job has to be asked about. */
bool sched_limits_of(const struct sched_node_policy *policy, void *state,
                     const struct sched_plugin_view *view, struct sched_limits *limits);

/* What a policy that refuses looks for in vain: a sentence's part into `buf`; false: it does not refuse, or it is
 * not known.  leaf_name, pod_name: names of switches, or NULL. */
bool sched_topology_why(const struct sched_node_policy *policy, void *state,
                        const struct sched_plugin_job *job, const struct sched_plugin_view *view,
                        double at, const char *const *leaf_name, const char *const *pod_name,
                        char *buf, size_t size);

static inline bool sched_limits_fit(const struct sched_limits *l, uint32_t n)
{
    return n <= l->most[n <= l->small ? 0 : n <= l->medium ? 1 : 2];
}

#endif
