/* A session as a job of another: what the launcher of that job said in the environment.
 *
 *    FLUX_JOB_ID        its number there
 *    FLUX_TASK_RANK     the number of the task that this broker is
 *    FLUX_JOB_LEVEL     how deep it is: 1 for a job of a session that is nobody's job
 *    FLUX_URI           the broker of that session on this node
 *    FLUX_JOB_TMPDIR    a directory that goes with the job
 *    FLUX_JOB_EXPIRATION  when its time is up (RFC 20's `expiration` of its R): seconds since 1970;
 *                       absent: never
 *
 * Becomes the attributes instance-level, jobid, parent-uri, and sched.expiration, beyond which the
 * scheduler plans nothing.  A broker is a job's only if it is one of its tasks (FLUX_TASK_RANK): the
 * initial program of a session sees FLUX_JOB_ID, too, but a session that it starts in turn is
 * nobody's job.
 *
 * Thread rules: any thread, as long as none changes the environment.
 */
#ifndef BROKER_NESTED_H
#define BROKER_NESTED_H

#include <stdbool.h>
#include <stdint.h>

#include "attrs.h"

#define NESTED_LEVEL_MAX 64

struct nested {
    uint32_t level;    /* 0: nobody's job, and then the rest is NULL */
    const char *jobid; /* into the environment */
    const char *parent;
    const char *tmpdir;     /* may be NULL */
    const char *expiration; /* may be NULL */
};

/* From the environment; true when level > 0.  What is half there or malformed counts as absent. */
bool nested_read(struct nested *n);
/* Set the attributes; a sched.expiration that is earlier than the job's stays.  -1 with ENOMEM. */
int nested_attrs(const struct nested *n, attrs_t *attrs);
/* `seconds` that a session of level 0 takes for a part of its end, for this one: half of what its
 * parent has, so that it is through with it before the parent loses patience. */
double nested_patience(const struct nested *n, double seconds);

#endif
