/* Node policies that use the switches, as tables of sched_plugin.h; see sched_topology.c.
 *
 * Thread rules: constant tables; their states belong to their creators.
 */
#ifndef SCHED_TOPOLOGY_H
#define SCHED_TOPOLOGY_H

#include "sched_limits.h"
#include "sched_plugin.h"

extern const struct sched_node_policy sched_compact, sched_buddy, sched_interference_free;

/* The sizes of jobs that the policy can place. False: not available for this policy (of whole
 * nodes); the policy has to be called for each job. */
bool sched_topology_limits_of(const struct sched_node_policy *policy, void *state,
                              const struct sched_plugin_view *view, struct sched_limits *limits);

/* Describe in `buf` what a refusing policy waits for, as a clause; false: it does not refuse, or is
 * unknown.  leaf_name, pod_name: names of switches, or NULL. */
bool sched_topology_why(const struct sched_node_policy *policy, void *state,
                        const struct sched_plugin_job *job, const struct sched_plugin_view *view,
                        double at, const char *const *leaf_name, const char *const *pod_name,
                        char *buf, size_t size);

#endif
