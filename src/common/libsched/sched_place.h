/* The free nodes, the jobs on each switch, and the set of nodes that a policy takes for a job: for
 * jobs of whole nodes that are all alike.
 *
 * The state is small, and can be copied to examine a later time, with more nodes free and fewer
 * marks.
 *
 * Marks: a job within one leaf uses no link between switches.  One on several leaves of a pod
 * (SCHED_CROSS_LEAVES, "T2") may use any uplink of each of its leaves; one in several pods
 * (SCHED_CROSS_PODS, "T3") any of these and any uplink of each of its pods.
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

/* --- switches: what does not change --- */

typedef struct sched_switches sched_switches_t;

/* leaf_of[node] < nleaves, pod_of[leaf] < npods; every node on some leaf.  Without (NULL, nleaves
 * and npods 0) all nodes hang on one leaf of one pod.  NULL with ENOMEM. */
sched_switches_t *sched_place_switches_create(uint32_t nnodes, const uint32_t *leaf_of,
                                              uint32_t nleaves, const uint32_t *pod_of,
                                              uint32_t npods);
void sched_place_switches_destroy(sched_switches_t *sw); /* NULL-safe, keeps errno */
const struct sched_plugin_switches *sched_place_switches_view(const sched_switches_t *sw);

/* --- the state --- */

typedef struct sched_place sched_place_t;

/* All nodes free.  `count`: only numbers of nodes are kept, and sets have no ranges.  `switches`:
 * numbers by switch are kept, too, for policies that need them.  `sw` has to outlive it. */
sched_place_t *sched_place_create(const sched_switches_t *sw, bool count, bool switches);
void sched_place_destroy(sched_place_t *p); /* NULL-safe, keeps errno */
/* Of the same switches and kind. */
void sched_place_copy(sched_place_t *to, const sched_place_t *from);

uint32_t sched_place_nfree(const sched_place_t *p);
const struct sched_plugin_view *sched_place_view(const sched_place_t *p);
/* Take the nodes of a set, which are free, and set its marks; give both back; the marks alone. */
void sched_place_take(sched_place_t *p, const struct sched_set *set);
void sched_place_give(sched_place_t *p, const struct sched_set *set);
void sched_place_mark(sched_place_t *p, const struct sched_set *set, int by);
/* Take those of its nodes that are free, and set its marks: a reservation beside what runs now. */
void sched_place_block(sched_place_t *p, const struct sched_set *set);
/* Set the sizes of the largest leaf and pod, not counting nodes that are down. */
void sched_place_limit(sched_place_t *p, uint32_t leaf_max, uint32_t pod_max);
/* One node becomes free, or is taken. */
void sched_place_set_free(sched_place_t *p, uint32_t node, bool free);

/* The set that a policy takes for a job (of job->nnodes) that would start at the time `at`: 1; 0:
 * there is none; -1 with ENOMEM, or EINVAL: the policy has failed. */
int sched_place_select(const sched_place_t *p, const struct sched_node_policy *policy, void *state,
                       const struct sched_plugin_job *job, double at, struct sched_set *set);
/* Is there one?  As quickly as the policy allows. */
int sched_place_fits(const sched_place_t *p, const struct sched_node_policy *policy, void *state,
                     const struct sched_plugin_job *job, double at);
/* The links that a job on these nodes may use. */
enum sched_crossing sched_place_crossing(const sched_place_t *p, const struct sched_set *set);

#endif
