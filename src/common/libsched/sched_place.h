/* The state of a machine of equal nodes, for jobs of whole nodes: the free nodes, the jobs on each
 * switch, and the selection of nodes by a policy.
 *
 * The state is small, and can be copied to examine a later time, at which more nodes are free and
 * there are fewer marks.
 *
 * Marks: a job within one leaf uses no link between switches.  One on several leaves of a pod
 * (SCHED_CROSS_LEAVES, "T2") may use any uplink of each of its leaves; a job in several pods
 * (SCHED_CROSS_PODS, "T3") may also use any uplink of each of its pods.
 *
 * sched_plugin.h describes the tables of policies, sched_topology.c the policies that know the
 * switches.
 *
 * Thread rules: one thread per object.
 */
#ifndef SCHED_PLACE_H
#define SCHED_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "libtopology/fattree.h"
#include "sched_plugin.h"
#include "sched_whole.h"

/* --- switches, which are constant --- */

typedef struct sched_switches sched_switches_t;

/* leaf_of[node] < nleaves, pod_of[leaf] < npods; every node is on some leaf.  Without switches
 * (NULL, nleaves and npods 0), all nodes are on one leaf of one pod.  NULL with ENOMEM. */
sched_switches_t *sched_place_switches_create(uint32_t nnodes, const uint32_t *leaf_of,
                                              uint32_t nleaves, const uint32_t *pod_of,
                                              uint32_t npods);
void sched_place_switches_destroy(sched_switches_t *sw); /* NULL-safe, keeps errno */
const struct sched_plugin_switches *sched_place_switches_view(const sched_switches_t *sw);

/* --- the state --- */

typedef struct sched_place sched_place_t;

/* Create a state in which all nodes are free.  `count`: only numbers of nodes are kept, and sets
 * have no ranges.  `switches`: numbers by switch are kept, too, for policies that need them.  `sw`
 * has to outlive it. */
sched_place_t *sched_place_create(const sched_switches_t *sw, bool count, bool switches);
void sched_place_destroy(sched_place_t *p); /* NULL-safe, keeps errno */
/* Copy a state of the same switches and kind. */
void sched_place_copy(sched_place_t *to, const sched_place_t *from);

uint32_t sched_place_nfree(const sched_place_t *p);
const struct sched_plugin_view *sched_place_view(const sched_place_t *p);
/* Take the nodes of a set, which are free, and set its marks; release both; set or remove the marks
 * alone. */
void sched_place_take(sched_place_t *p, const struct sched_set *set);
void sched_place_give(sched_place_t *p, const struct sched_set *set);
void sched_place_mark(sched_place_t *p, const struct sched_set *set, int by);
/* Take the free nodes of a set, and set its marks: a reservation beside the running jobs. */
void sched_place_block(sched_place_t *p, const struct sched_set *set);
/* Set the sizes of the largest leaf and pod, not counting nodes that are down. */
void sched_place_limit(sched_place_t *p, uint32_t leaf_max, uint32_t pod_max);
/* Mark one node as free, or as taken. */
void sched_place_set_free(sched_place_t *p, uint32_t node, bool free);

/* Select a set by the policy, for a job (of job->nnodes) that would start at the time `at`: 1; 0:
 * there is none; -1 with ENOMEM, or EINVAL: the policy has failed. */
int sched_place_select(const sched_place_t *p, const struct sched_node_policy *policy, void *state,
                       const struct sched_plugin_job *job, double at, struct sched_set *set);
/* Is there such a set?  Answered as quickly as the policy permits. */
int sched_place_fits(const sched_place_t *p, const struct sched_node_policy *policy, void *state,
                     const struct sched_plugin_job *job, double at);
/* The links that a job on these nodes may use. */
enum sched_crossing sched_place_crossing(const sched_place_t *p, const struct sched_set *set);

#endif
