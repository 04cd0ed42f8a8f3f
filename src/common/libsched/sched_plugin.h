/* Policies of the scheduler as shared objects.
 *
 * A plugin is a shared object that exports one table under the name `sched_policy`:
 *
 *    #include <flux/sched_plugin.h>
 *    static int by_size(void *state, const struct sched_plugin_job *job, double now, double *prio)
 *    {
 *        *prio = job->nnodes;                          // larger jobs first
 *        return 0;
 *    }
 *    static const struct sched_queue_policy queue = {.priority = by_size};
 *    const struct sched_policy sched_policy = {SCHED_PLUGIN_ABI, "by-size", &queue, NULL};
 *
 *    cc -shared -fPIC -o policy-by-size.so by-size.c
 *    flux start --set=sched.queue-policy=/path/policy-by-size.so ...
 *
 * This header requires no other part of Flux.  The scheduler's engine does the bookkeeping and
 * guarantees, whatever a policy answers, that no resource is allocated twice, nor to a job that did
 * not request it, nor on nodes that are down or drained.  A policy decides the order of jobs, the
 * fate of jobs behind one that does not fit, which jobs may not start yet, and which nodes a job
 * gets.
 *
 * Any function pointer may be NULL: then the built-in behavior applies.  All functions are called
 * from one thread, and must not block or take long: they are called once for each job of a pass (a
 * score: once for each node with enough room; `select` also for later times).  Equal calls should
 * give equal answers, or the same workload would not be scheduled twice in the same way.
 *
 * A function that returns an error, or NaN as a number, is not called again: the built-in behavior
 * replaces it until a policy is set again, and an error message is logged.
 */
#ifndef FLUX_SCHED_PLUGIN_H
#define FLUX_SCHED_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCHED_PLUGIN_ABI 2

/* A job of the queue.  Valid during the call. */
struct sched_plugin_job {
    uint64_t id;
    uint32_t uid;
    uint32_t urgency; /* 1 to 31; held jobs (0) are never shown to a policy */
    double t_submit;  /* by the clock of `now` */
    double duration;  /* seconds; 0: no limit */
    uint32_t nnodes;  /* 0: slots on any nodes */
    uint32_t nslots;  /* on each node when nnodes > 0, else in total; at least 1 */
    uint32_t cores;   /* of a slot */
    uint32_t gpus;    /* of a slot */
    uint64_t memory;  /* MiB, of a slot */
    uint64_t ncores;  /* total number of requested cores */
    bool exclusive;   /* whole nodes */
};

/* A node that has room for the job.  Valid during the call. */
struct sched_plugin_node {
    uint32_t rank;
    const char *host;
    uint32_t cores, cores_free;
    uint32_t gpus, gpus_free;
    uint64_t memory, memory_free; /* MiB */
};

/* The decision about a job that cannot start now, and about the jobs behind it. */
enum sched_blocked {
    SCHED_BLOCKED_STOP = 1, /* start none of the jobs behind it in this pass */
    SCHED_BLOCKED_RESERVE,  /* reserve the earliest known time at which it fits; jobs behind it may
                            * start if they take nothing from the reservation */
    SCHED_BLOCKED_BACKFILL, /* make no reservation for it or for any job behind it; these may start
                             * if they take nothing from the reservations made so far; the function
                             * is not called again in this pass */
};

/* A policy for the queue. */
struct sched_queue_policy {
    /* Create a state, which is passed to all functions below, from the text after ':' in the
     * policy's name (NULL: none).  NULL on failure, with an error message in err[0..size).  Without
     * `create` the state is NULL. */
    void *(*create)(const char *arg, char *err, size_t size);
    void (*destroy)(void *state);

    /* Jobs of higher priority come first, jobs of equal priority in the order of ids.  Called when
     * a job arrives, when its urgency changes, and for all jobs every `reorder` seconds (0: never).
     * 0, or -1 for an error.  Built-in: the urgency. */
    int (*priority)(void *state, const struct sched_plugin_job *job, double now, double *priority);
    double reorder;

    /* See enum sched_blocked; `reserved`: number of reservations made so far in this pass.
     * Built-in (EASY): reserve for the first job, then backfill. */
    enum sched_blocked (*blocked)(void *state, const struct sched_plugin_job *job,
                                  uint32_t reserved, double now);

    /* May this job, which fits, start now?  1: yes; 0: not now, but jobs behind it may (called
     * again in the next pass; *why, if set, is the reason shown, and is copied); -1: an error.
     * Built-in: yes. */
    int (*admit)(void *state, const struct sched_plugin_job *job, double now, const char **why);

    /* The job has got its resources, or returned them: for policies that count.  `started` is also
     * called for each running job when the policy is set (possibly with only the id and the
     * resources known: uid may be 0). */
    void (*started)(void *state, const struct sched_plugin_job *job, double now);
    void (*ended)(void *state, const struct sched_plugin_job *job, double now);
};

/* --- selection of nodes --- */

enum sched_node_order {
    SCHED_NODES_BY_RANK = 0, /* first-fit: lowest ranks */
    SCHED_NODES_FULLEST,     /* best-fit: nodes with the fewest free cores that are sufficient */
    SCHED_NODES_EMPTIEST,    /* spread: nodes with the most free cores */
    SCHED_NODES_BY_SCORE,    /* by `score` */
    SCHED_NODES_BY_SELECT,   /* by `select` */
};

/* The links between switches that a job may use. */
enum sched_crossing {
    SCHED_CROSS_NOTHING = 1, /* none: it is within one leaf */
    SCHED_CROSS_LEAVES,      /* any uplink of each of its leaves, which are in one pod */
    SCHED_CROSS_PODS,        /* these, and any uplink of each of its pods */
};

/* The switches.  Nodes, leaves and pods have numbers from 0; nodes are in the order of their ranks.
 * Without a topology, all nodes are on one leaf of one pod.  Valid until the inventory changes. */
struct sched_plugin_switches {
    uint32_t nnodes, nleaves, npods;
    const uint32_t *leaf_of;    /* of each node */
    const uint32_t *pod_of;     /* of each leaf */
    const uint32_t *leaf_begin; /* nodes of leaf l: leaf_nodes[leaf_begin[l]] up to, but without,
                                   leaf_nodes[leaf_begin[l + 1]], ascending */
    const uint32_t *leaf_nodes;
    const uint32_t *pod_begin; /* leaves of pod p in pod_leaves, likewise */
    const uint32_t *pod_leaves;
};

/* The nodes that have room for a job, now or at a later time, and the jobs on each switch.  Room is
 * counted in nodes, or, if the job requests slots on any nodes, in slots.  Valid during the
 * call. */
struct sched_plugin_view {
    const struct sched_plugin_switches *sw;
    const uint64_t *free; /* bit n % 64 of word n / 64: node n has room */
    const uint32_t
        *slots;     /* of each node that has room: how many slots; NULL: each counts as one */
    uint32_t nfree; /* total room */
    /* Only if the policy has `select`: */
    const uint32_t *leaf_free, *pod_free; /* room on each leaf, in each pod */
    const uint32_t *leaf_t2, *leaf_t3;    /* number of SCHED_CROSS_LEAVES and _PODS jobs on it */
    const uint32_t *pod_t3;               /* number of SCHED_CROSS_PODS jobs in it */
    const uint32_t *pod_uncrossed;        /* room of each pod on leaves with neither kind of job */
    const uint32_t *pod_open;             /* room of each pod on leaves without _LEAVES jobs */
    uint32_t leaf_most;                   /* room on the leaf that has the most */
    uint32_t leaf_max,
        pod_max;       /* what the largest leaf, pod would have if nothing ran; nodes that are
                                   down or drained do not count */
    uint64_t *scratch; /* room for nleaves + npods numbers, for the policy's own use */
};

/* A set of nodes for a job. */
struct sched_plugin_set {
    uint64_t
        *nodes; /* a bit for each node, all 0: to be set for those that are taken.  As many as the
                        job asks for, or nodes with as many slots (of the last ones, in the order of
                        their numbers, some may be left over) */
    uint64_t *idle; /* likewise, or left at 0: nodes that stay idle until the job ends */
    enum sched_crossing
        crosses; /* how the job counts for those after it; 0: by the leaves it is on */
};

struct sched_node_policy {
    void *(*create)(const char *arg, char *err, size_t size); /* as above */
    void (*destroy)(void *state);
    enum sched_node_order order;
    /* Nodes with the lowest score are taken first, nodes of equal score in the order of ranks.  0,
     * or -1 for an error.  Only for SCHED_NODES_BY_SCORE, which evaluates every node with enough
     * room, so it is slower than the other orders, which use an index. */
    int (*score)(void *state, const struct sched_plugin_job *job,
                 const struct sched_plugin_node *node, double *score);
    /* Only for SCHED_NODES_BY_SELECT.  1: the job can start at the time `at` on this set, which is
     * checked: nodes without room, or too few nodes, count as an error.  0: the free nodes do not
     * allow it.  -1: an error.  More room, or fewer jobs on switches, must not turn 1 into 0. */
    int (*select)(void *state, const struct sched_plugin_job *job,
                  const struct sched_plugin_view *view, double at, struct sched_plugin_set *set);
    /* May be NULL.  Is there such a set?  1, 0 or -1; for speed. */
    int (*fits)(void *state, const struct sched_plugin_job *job,
                const struct sched_plugin_view *view, double at);
    /* May the policy refuse although there is enough room?  Then a reservation is a set of nodes,
     * and not a number. */
    bool refuses;
};

struct sched_policy {
    int abi; /* SCHED_PLUGIN_ABI */
    const char *name;
    const struct sched_queue_policy *queue; /* NULL: not a queue policy */
    const struct sched_node_policy *node;   /* NULL: not a node policy */
};

/* The table that the plugin exports. */
extern const struct sched_policy sched_policy;

#ifdef __cplusplus
}
#endif

#endif
