/* The scheduler decides which job gets which resources, and when.
 *
 * It is a pure library without a thread, a clock, input or output.  The caller reports the
 * resources (sched_inventory), the jobs (sched_add) and the returned resources (sched_free);
 * sched_pass() makes the decisions, given the current time.  The same calls give the same
 * decisions.  All times are in seconds of the caller's clock, which must not leap: see
 * flux_reactor_now().
 *
 * Order: higher priority first (that is the urgency unless a policy says otherwise), then lower
 * ids.  Queue policies:
 *   fcfs          strictly in that order: no job starts before the first that does not fit
 *   easy          the first job that does not fit has a reservation; other jobs may start if they
 *                 do not delay it.  [D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995]
 *   conservative  each of the first N waiting jobs has a reservation (conservative:N; 128), which
 *                 may only become earlier [A. Mu'alem, D. Feitelson, "Utilization, predictability,
 *                 workloads, and user runtime estimates...", IEEE TPDS 12(6), 2001]
 *   replan        likewise, but each pass makes all reservations anew
 * Node policies: first-fit, best-fit, spread; for switches compact, buddy, interference-free.  Both
 * kinds may also be plugins: sched_plugin.h.
 *
 * A job without a time limit counts as one of SCHED_HORIZON.  A job that needs more nodes than are
 * up is skipped, and delays no other.  So is a job that would run beyond the expiration of the
 * resources (sched_set_expiration).  A job that, by current estimates, could not start early enough
 * before it has no reservation.
 *
 * Thread rules: one thread per object.
 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libresource/resgraph.h"
#include "libresource/rreq.h"
#include "libresource/rset.h"
#include "libutil/errmsg.h"
#include "sched_plugin.h"

#define SCHED_HORIZON 3.2e8 /* seconds: the duration of a job without a limit, about ten years */
#define SCHED_URGENCY_DEFAULT 16
#define SCHED_DEPTH_DEFAULT 128 /* reservations of conservative backfill */
#define SCHED_REASON_MAX 256

typedef struct sched sched_t;

/* A new scheduler has the policies easy and first-fit and no inventory, and is enabled.  NULL with
 * ENOMEM. */
sched_t *sched_create(void);
void sched_destroy(sched_t *s); /* NULL-safe, keeps errno */

/* `log` is called with an error message when a policy has failed and the built-in behavior replaces
 * it. */
void sched_set_log(sched_t *s, void (*log)(const char *text, void *arg), void *arg);

/* --- policies --- */

/* The built-in tables: "fcfs", "easy", "conservative"; "first-fit", "best-fit", "spread".  NULL for
 * any other name. */
const struct sched_policy *sched_builtin(const char *name);
/* The i-th of them; NULL beyond the last. */
const struct sched_policy *sched_builtin_at(size_t i);

/* Use this policy for the queue (nodes) from now on; the table has to outlive its use.  `arg`: the
 * text after ':' in its name, or NULL.  0, or -1 with an error message and EINVAL (not such a
 * policy, or it refused `arg`) or ENOMEM; then the old policy stays. */
int sched_policy_set_queue(sched_t *s, const struct sched_policy *p, const char *arg,
                           errmsg_t *err);
int sched_policy_set_nodes(sched_t *s, const struct sched_policy *p, const char *arg,
                           errmsg_t *err);
const char *sched_policy_queue_name(const sched_t *s);
const char *sched_policy_nodes_name(const sched_t *s);

/* --- resources --- */

/* Set the inventory, and the ranks that are up, and drained (NULL: none).  All arguments are
 * copied. Running jobs keep their resources, also on nodes that are no longer in the inventory.  0,
 * or -1 with ENOMEM; then either inventory is in use, and all jobs are kept. */
int sched_inventory(sched_t *s, const resgraph_t *g, const idset_t *up, const idset_t *drained,
                    errmsg_t *err);
/* Set only the ranks that are up, and drained. */
int sched_nodes(sched_t *s, const idset_t *up, const idset_t *drained, errmsg_t *err);
/* Report that the states of nodes are not known any more: no job starts until sched_nodes() or
 * sched_inventory() is called. */
void sched_unheard(sched_t *s);

/* --- jobs --- */

struct sched_job {
    uint64_t id;
    uint32_t urgency; /* 0 to 31; 0: held */
    uint32_t uid;
    double t_submit;
    const struct rreq *req; /* copied */
};

/* Put a job into the queue.  -1 with an error message and EEXIST (the id is in use), ENOMEM or
 * EINVAL. */
int sched_add(sched_t *s, const struct sched_job *job, double now, errmsg_t *err);
/* Remove a job from the queue, or change its urgency.  -1 with ENOENT: it is not in the queue. */
int sched_remove(sched_t *s, uint64_t id);
int sched_urgency(sched_t *s, uint64_t id, uint32_t urgency, double now);
/* Add a running job, after a restart of the scheduler.  `end`: end of its time limit, 0: none.
 * Cores that are not in the inventory are kept apart and returned with it.  -1 with an error
 * message and EEXIST (the id, or one of its cores, belongs to another job) or ENOMEM. */
int sched_running(sched_t *s, uint64_t id, const rset_t *R, double end, double now, errmsg_t *err);
/* Return the resources of a job that has ended.  -1 with ENOENT: no such job runs. */
int sched_free(sched_t *s, uint64_t id, double now);
/* Remove all jobs; the inventory and the policies stay. */
void sched_clear(sched_t *s);
/* May jobs be started? */
void sched_enable(sched_t *s, bool on);
/* Set the time at which the resources expire (0: never): a job whose time limit ends later does not
 * start.  Jobs without a limit do start, and end when the resources expire.  -1 with EINVAL for an
 * invalid time, which changes nothing. */
int sched_set_expiration(sched_t *s, double t);
double sched_expiration(const sched_t *s);

/* --- decisions --- */

struct sched_ops {
    /* The job has got R (which the callee has to destroy) from `now` to `end` (0: no limit; then
     * R's expiration is that of the resources). */
    void (*alloc)(uint64_t id, rset_t *R, double now, double end, void *arg);
    /* The job can never run with this inventory, and was removed. */
    void (*deny)(uint64_t id, const char *note, void *arg);
    void *arg;
};

/* Consider the jobs of the queue, for about `budget` units of work (a unit is the check of a job or
 * a node, some tens of nanoseconds).  A pass that is not complete continues with the next call.
 * The functions of `ops` may call only sched_free() and sched_where() of this library.  true: the
 * pass is not complete. */
bool sched_pass(sched_t *s, double now, size_t budget, const struct sched_ops *ops);
/* Is there work for sched_pass()?  (Has there been a change since the last complete pass?) */
bool sched_pass_wanted(const sched_t *s);
/* The next time at which a pass is due without a call (a reservation begins, priorities age), or
 * a negative number. */
double sched_pass_next_time(const sched_t *s);

/* --- queries --- */

/* The expected start of a job, and the reason why it waits.  *t: expected start, or -1 when that is
 * not known; `why` gets one clause, "waits for 4 nodes: 2 are free; job 17 holds the rest until
 * 14:03:20" (times of the day are UTC; `shift`: seconds from times of this library to the wall
 * clock's).  -1 with ENOENT: not in the queue (it may be running). */
int sched_why_estimate(sched_t *s, uint64_t id, double now, double shift, double *t,
                       char why[SCHED_REASON_MAX]);
/* Id of the job at this place of the queue (from 0, held jobs are not counted); 0: none. */
uint64_t sched_queue_at(const sched_t *s, size_t i);
/* The switches of a running job: the names of its leaf switches, folded as a hostlist
 * ("leaf[0-3]"), freed by the caller; *hops: the mean over pairs of its nodes of 0 (same leaf), 2
 * (same pod) or 4, 0 for one node.  If the inventory has no leaf switches, *leaves is NULL and
 * *hops 0.  0, or -1 with ENOENT (it does not run) or ENOMEM. */
int sched_where(const sched_t *s, uint64_t id, char **leaves, double *hops);

struct sched_stats {
    uint64_t queued, held, running, nodes, nodes_up, passes, slices, decisions, started, denied;
    uint64_t reserved, fallbacks, planned; /* planned: number of searches for a start in the
                                            * future */
    uint64_t shapes; /* different requests in the queue, regardless of their durations */
};
void sched_get_stats(const sched_t *s, struct sched_stats *st);

/* All allocated resources; all free resources of usable nodes.  NULL with ENOMEM. */
rset_t *sched_allocated(const sched_t *s);
rset_t *sched_available(const sched_t *s);

#endif
