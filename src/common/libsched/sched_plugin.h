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
 * This header needs nothing else of Flux.  The scheduler's engine does the bookkeeping and keeps
 * these promises whatever a policy answers: nothing is allocated twice, nor to a job that did not
 * ask for it, nor on nodes that are down or drained.  A policy decides the order of jobs, the fate
 * of jobs behind one that does not fit, which jobs may not start yet, and which nodes a job gets.
 *
 * Any function pointer may be NULL: then the built-in behavior applies.  All functions are called
 * from one thread, and must not block or take long: they are called once for each job of a pass (a
 * score: once for each node that would do; `select` also for later times).  Equal calls should give
 * equal answers, or the same workload would not be scheduled twice in the same way.
 *
 * A function that returns an error, or NaN as a number, is not called again: the built-in behavior
 * takes its place until a policy is set again, and an error message is logged.
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

/* A job of the queue.  Lives as long as the call. */
struct sched_plugin_job {
    uint64_t id;
    uint32_t uid;
    uint32_t urgency; /* 1 to 31; held jobs (0) are never shown to a policy */
    double t_submit;  /* by the clock of `now` */
    double duration;  /* seconds; 0: no limit */
    uint32_t nnodes;  /* 0: slots wherever they are */
    uint32_t nslots;  /* on each node when nnodes > 0, else in all; at least 1 */
    uint32_t cores;   /* of a slot */
    uint32_t gpus;    /* of a slot */
    uint64_t memory;  /* MiB, of a slot */
    uint64_t ncores;  /* in all, as asked for */
    bool exclusive;   /* whole nodes */
};

/* A node that has room for the job.  Lives as long as the call. */
struct sched_plugin_node {
    uint32_t rank;
    const char *host;
    uint32_t cores, cores_free;
    uint32_t gpus, gpus_free;
    uint64_t memory, memory_free; /* MiB */
};

/* What to do with a job that cannot start now, and with those behind it. */
enum sched_blocked {
    SCHED_BLOCKED_STOP = 1, /* start none of those behind it in this pass */
    SCHED_BLOCKED_RESERVE,  /* reserve the earliest known time at which it fits; those behind it may
                               start if they take nothing from the reservation */
    SCHED_BLOCKED_BACKFILL, /* no reservation for it nor for any behind it, which may start if they
                               take nothing from the reservations made so far; not asked again in
                               this pass */
};

/* Order of the queue. */
struct sched_queue_policy {
    /* Make a state, given to all calls below, from the text after ':' in the policy's name (NULL:
     * none).  NULL when that fails, with an error message in err[0..size).  Without `create` the
     * state is NULL. */
    void *(*create)(const char *arg, char *err, size_t size);
    void (*destroy)(void *state);

    /* Jobs of higher priority come first, those of the same in the order of ids.  Asked when a job
     * comes in, when its urgency changes, and again for all of them every `reorder` seconds (0:
     * never).  0, or -1 for an error.  Built-in: the urgency. */
    int (*priority)(void *state, const struct sched_plugin_job *job, double now, double *priority);
    double reorder;

    /* See above; `reserved`: reservations made so far in this pass.  Built-in (EASY): reserve for
     * the first one, then backfill. */
    enum sched_blocked (*blocked)(void *state, const struct sched_plugin_job *job,
                                  uint32_t reserved, double now);

    /* May this job start now, though it fits?  1: yes; 0: not now, and those behind it may (asked
     * again in the next pass; *why, if set, is the reason shown, copied); -1: an error.  Built-in:
     * yes. */
    int (*admit)(void *state, const struct sched_plugin_job *job, double now, const char **why);

    /* The job has got its resources, or given them back: for policies that keep counts.  `started`
     * also reports each job that runs when the policy is set (of which only the id and the
     * resources may be known: uid may be 0). */
    void (*started)(void *state, const struct sched_plugin_job *job, double now);
    void (*ended)(void *state, const struct sched_plugin_job *job, double now);
};

/* --- choice of nodes --- */

enum sched_node_order {
    SCHED_NODES_BY_RANK = 0, /* first-fit: lowest ranks */
    SCHED_NODES_FULLEST,     /* best-fit: those with the fewest free cores that do */
    SCHED_NODES_EMPTIEST,    /* spread: those with the most free cores */
    SCHED_NODES_BY_SCORE,    /* by `score` */
    SCHED_NODES_BY_SELECT,   /* by `select` */
};

/* Which links between switches a job may use. */
enum sched_crossing {
    SCHED_CROSS_NOTHING = 1, /* it is within one leaf: none */
    SCHED_CROSS_LEAVES,      /* any uplink of each of its leaves, which are in one pod */
    SCHED_CROSS_PODS,        /* these, and any uplink of each of its pods */
};

/* The switches.  Nodes, leaves and pods have numbers from 0; the nodes' are in the order of their
 * ranks.  Without a topology all nodes hang on one leaf of one pod.  Lives until the inventory
 * changes. */
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
 * counted in nodes, or, if the job asks for slots on any nodes, in slots.  Lives as long as the
 * call. */
struct sched_plugin_view {
    const struct sched_plugin_switches *sw;
    const uint64_t *free; /* bit n % 64 of word n / 64: node n has room */
    const uint32_t
        *slots;     /* of each node that has room: how many slots; NULL: each counts as one */
    uint32_t nfree; /* room in all */
    /* Only if the policy has `select`: */
    const uint32_t *leaf_free, *pod_free; /* room on each leaf, in each pod */
    const uint32_t *leaf_t2, *leaf_t3;    /* how many SCHED_CROSS_LEAVES, _PODS jobs are on it */
    const uint32_t *pod_t3;               /* how many SCHED_CROSS_PODS jobs are in it */
    const uint32_t *pod_uncrossed;        /* room of each pod on leaves with neither of these */
    const uint32_t *pod_open;             /* room of each pod on leaves without _LEAVES jobs */
    uint32_t leaf_most;                   /* room on the leaf that has most */
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
    uint64_t *idle; /* likewise, or left at 0: nodes that nobody gets until the job ends */
    enum sched_crossing
        crosses; /* how the job counts for those after it; 0: by the leaves it is on */
};

struct sched_node_policy {
    void *(*create)(const char *arg, char *err, size_t size); /* as above */
    void (*destroy)(void *state);
    enum sched_node_order order;
    /* Nodes with the lowest score are taken first, those of the same in the order of ranks.  0, or
     * -1 for an error.  Only for SCHED_NODES_BY_SCORE; looks at every node that would do, so it is
     * slower than the other orders, which use an index. */
    int (*score)(void *state, const struct sched_plugin_job *job,
                 const struct sched_plugin_node *node, double *score);
    /* Only for SCHED_NODES_BY_SELECT.  1: the job can start at the time `at` on this set, which is
     * checked: nodes without room, or too few nodes, count as an error.  0: the free nodes do not
     * allow it.  -1: an error.  More room, or fewer jobs on switches, must not turn 1 into 0. */
    int (*select)(void *state, const struct sched_plugin_job *job,
                  const struct sched_plugin_view *view, double at, struct sched_plugin_set *set);
    /* May be NULL.  The same question without the set: 1, 0 or -1; for speed. */
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

/* What the plugin exports. */
extern const struct sched_policy sched_policy;

#ifdef __cplusplus
}
#endif

#endif
