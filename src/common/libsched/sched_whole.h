/* The engine for jobs of whole nodes, where all nodes are alike: fcfs, easy, conservative and
 * replan, each with any node policy.
 *
 * Nodes are interchangeable, so a reservation is a number of nodes from a time on; the nodes are
 * chosen at the start (sched.h reserves particular nodes where the choice matters).  The node
 * policies interference-free and buddy may refuse although enough nodes are free; with them, easy
 * reserves a set.  sched_t uses this engine for queues of such jobs, and so does sched_replay();
 * sched_place.h and sched_profile.h are its parts.
 *
 *   fcfs          strictly in order
 *   easy          shadow: the earliest estimated end by which the first job that does not fit has
 *                 enough nodes; extra: the nodes that are then left over.  A job behind it starts
 *                 if it ends, by its estimate, at or before shadow, or takes at most extra.  With
 *                 interference-free or buddy, see sched_whole.c.
 *   conservative  every job gets a reservation when it arrives; whenever jobs have ended, each
 *                 reservation is moved, in order, to its earliest time, which is never later
 *   replan        each pass makes all reservations anew; they may get later
 *
 * [A. Mu'alem, D. Feitelson, IEEE TPDS 12(6), 2001; D. Lifka, JSSPP 1995]
 *
 * Times are of any one clock; two times are equal only if all their bits are.
 * Thread rules: one thread per object.
 */
#ifndef SCHED_WHOLE_H
#define SCHED_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtopology/fattree.h"
#include "libutil/errmsg.h"
#include "sched_plugin.h"

/* Nodes first, first + 1, ... first + count - 1. */
struct sched_range {
    uint32_t first, count;
};

/* A set of nodes that was found for a job, or is held by one. */
struct sched_set {
    struct sched_range *range; /* ascending, disjoint; none with "count" */
    uint32_t nrange, room;
    uint32_t nodes; /* total: the policy buddy holds more nodes than the job requested */
    enum sched_crossing crosses;
};
void sched_place_set_clear(struct sched_set *set); /* frees what it has */
/* Add nodes with higher numbers than those in the set.  0, or -1 with ENOMEM. */
int sched_place_set_add(struct sched_set *set, uint32_t first, uint32_t count);

/* --- options by name, as for a replay --- */

struct sched_whole_options {
    const char *queue;  /* "fcfs", "easy", "conservative", "replan"; with ":ARG" as in a session,
                        * without it with any number of reservations */
    const char *select; /* "count", "first-fit", "best-fit", "spread", "compact", "buddy",
                           "interference-free", "interference-free:wait=DURATION" (1h, 90s, ...) */
    uint32_t depth;  /* easy: only this many jobs from the blocked head on are considered; 0: all */
    uint32_t nnodes; /* size of the machine without a tree: all nodes are on one leaf */
    const fattree_t *tree; /* or NULL; has to live as long as the engine */
};

/* Are these policies known, and can they be combined?  0, or -1 with EINVAL and an error
 * message. */
int sched_whole_check(const struct sched_whole_options *options, errmsg_t *err);
/* Is it a topology policy: one that may refuse although there are enough free nodes? */
bool sched_whole_is_topology(const char *select);

/* --- the engine --- */

typedef struct sched_whole sched_whole_t;

enum sched_whole_queue {
    SCHED_WHOLE_FCFS,
    SCHED_WHOLE_EASY,
    SCHED_WHOLE_CONSERVATIVE,
    SCHED_WHOLE_REPLAN,
};

/* A job, owned by the engine; read-only for users. */
struct sched_whole_job {
    double key; /* order of the queue: by key, then by id */
    uint64_t id;
    double submit, estimate;
    uint32_t nodes;
    bool running;
    double start;            /* waiting: reserved start (INFINITY: none); running: its start */
    double end;              /* running: its estimated end */
    struct sched_set set;    /* running: the nodes that it holds */
    struct sched_set *marks; /* the nodes whose leaves count as crossed by it; NULL: those of
                              * `set` */
    void *owner;             /* as given to sched_whole_add() */
};

/* Create an engine with all nodes free and no jobs.  NULL with EINVAL or ENOMEM and an error
 * message. */
sched_whole_t *sched_whole_create(const struct sched_whole_options *options, errmsg_t *err);
void sched_whole_destroy(sched_whole_t *w); /* NULL-safe, keeps errno; destroys its jobs too */

/* Could the empty machine run such a job? */
bool sched_whole_could(const sched_whole_t *w, uint32_t nodes);
/* Add a job to the queue.  The empty machine must be able to run it; (key, id) differs from that of
 * all others, and key from -INFINITY; estimate > 0.  NULL with ENOMEM. */
struct sched_whole_job *sched_whole_add(sched_whole_t *w, double key, uint64_t id, double submit,
                                        uint32_t nodes, double estimate, void *owner);
/* Remove a job from the queue, or end it: its nodes and marks are released, and it is freed. */
void sched_whole_remove(sched_whole_t *w, struct sched_whole_job *j);
void sched_whole_end(sched_whole_t *w, struct sched_whole_job *j, double now);

struct sched_whole_ops {
    /* The job is about to start on job->set.  0; any other value ends the pass, and the job has not
     * started. */
    int (*start)(struct sched_whole_job *job, double now, void *arg);
    void *arg;
};
/* Run a pass, after all events of this time were reported to the engine.  With `budget` (not 0) it
 * may stop after about this many steps, and be called again at the same time; no job may end
 * meanwhile.  1: call it again; 0: the pass is complete; -1: `start` has failed, the policy has
 * failed (EINVAL), or ENOMEM: the pass has ended, and the remaining jobs are left for the next
 * one. */
int sched_whole_pass(sched_whole_t *w, double now, size_t budget,
                     const struct sched_whole_ops *ops);
/* The next time at which a pass is due without an event: the earliest reservation, or INFINITY. */
double sched_whole_next(const sched_whole_t *w);
/* easy: the shadow (sched_easy.c) of the first waiting job, as of the last pass or slice, and the
 * number of nodes left over then (0 with a policy that refuses: a set is reserved).  false: no job
 * waits, or the shadow is not known. */
bool sched_easy_shadow(sched_whole_t *w, const struct sched_whole_job **head, double *shadow,
                       uint32_t *extra);
size_t sched_whole_nwaiting(const sched_whole_t *w);

#endif
