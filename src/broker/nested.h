/* A nested session, which runs as a job of another session: the variables that the launcher of that
 * job put into the environment.
 *
 *    FLUX_JOB_ID          number of the job
 *    FLUX_TASK_RANK       number of the task that this broker is
 *    FLUX_JOB_LEVEL       depth: 1 for a job of a session that is not itself a job
 *    FLUX_URI             address of that session's broker on this node
 *    FLUX_JOB_TMPDIR      a directory that is removed with the job
 *    FLUX_JOB_EXPIRATION  end of the job (`expiration` of its R, RFC 20): seconds since 1970;
 *                         absent: none
 *
 * These become the attributes instance-level, jobid, parent-uri, and sched.expiration, which limits
 * the scheduler's plans.  A broker belongs to a job only if it is one of its tasks
 * (FLUX_TASK_RANK): the initial program of a session has FLUX_JOB_ID in its environment, too, but a
 * session that it starts is not a job.
 *
 * Thread rules: any thread, while no thread changes the environment.
 */
#ifndef BROKER_NESTED_H
#define BROKER_NESTED_H

#include <stdbool.h>
#include <stdint.h>

#include "attrs.h"

#define NESTED_LEVEL_MAX 64

struct nested {
    uint32_t level;    /* 0: not a job, and the rest is NULL */
    const char *jobid; /* points into the environment */
    const char *parent;
    const char *tmpdir;     /* may be NULL */
    const char *expiration; /* may be NULL */
};

/* Read the environment.  True if level > 0.  An incomplete or malformed set counts as absent. */
bool nested_read(struct nested *n);
/* Set the attributes.  An existing sched.expiration that is earlier than the job's is kept.  -1
 * with ENOMEM. */
int nested_attrs(const struct nested *n, attrs_t *attrs);
/* The timeout for one step of the shutdown, for which a session of level 0 takes `seconds`: half of
 * the parent's at each level, so that this session finishes before its parent's timeout. */
double nested_patience(const struct nested *n, double seconds);

#endif
