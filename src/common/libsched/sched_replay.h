/* Replay a log of jobs of whole nodes that are all alike: when does each job start, and on which
 * nodes?
 *
 * The decisions are those of sched_whole.h, which production uses for such jobs, too.  At an
 * instant all ends come first, then all arrivals, then one pass; an instant is a time at which a
 * job ends or arrives, or a reservation begins.  A job holds its nodes in [start, start + runtime).
 *
 * Thread rules: calls share nothing; any number of threads may replay.
 */
#ifndef SCHED_REPLAY_H
#define SCHED_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "libtopology/fattree.h"
#include "libutil/errmsg.h"
#include "sched_whole.h"

struct sched_replay_job {
    uint64_t id;      /* orders jobs of the same submit time */
    int64_t submit;   /* seconds */
    int64_t runtime;  /* at least 1, at most `estimate` */
    int64_t estimate; /* at least 1 */
    uint32_t nodes;   /* at least 1 */
    int64_t start; /* set by sched_replay(); SCHED_REPLAY_NEVER: the policy cannot place it on the
                    * empty machine (or it has more nodes than that); it delays no other job */
};
#define SCHED_REPLAY_NEVER INT64_MIN

struct sched_replay_ops {
    /* May be NULL.  Job number i of the array (as sorted) starts, on these nodes: ascending,
     * disjoint ranges (nrange 0 with "count"), valid during the call.  Non-zero ends the replay
     * with -1 and the errno that the function has set. */
    int (*started)(size_t i, const struct sched_range *range, size_t nrange, void *arg);
    /* May be NULL: called about every 1000 instants with the number of jobs started so far. */
    void (*progress)(size_t done, size_t njobs, void *arg);
    void *arg;
};

/* Sort `jobs` by (submit, id) and replay them.  0, or -1 with an error message and EINVAL (a field
 * out of range; an unknown policy or argument, or two policies that cannot be combined) or ENOMEM;
 * or -1 with the errno of `started` and no message. */
int sched_replay(const struct sched_whole_options *options, struct sched_replay_job *jobs,
                 size_t njobs, const struct sched_replay_ops *ops, errmsg_t *err);

#endif
