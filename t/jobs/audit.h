/* Proof, from what a session left on record, that its jobs were treated as they should be.
 *
 *    audit_inventory(a, text, len, &err);      once
 *    audit_job(a, &job);                       for each job there is
 *    audit_expect(a, id, result, code);        for each job whose end is known
 *    n = audit_run(a, flags, tell, arg);       a sentence for each violation
 *
 * What is proved:
 *  - each log is well-formed, and its events are legal by the table of libjob: exactly one submit,
 *    at most one finish, exactly one end, everything given back before it;
 *  - in each attempt of a job there is one alloc, at most one start, and one event that gives its
 *    resources back, requeue or free, before the next alloc; a job is queued again only when it
 *    asks for that and has lost a node in the attempt, and no requeue is left out or twice there;
 *  - no event is older than the one before it, and tasks ran between alloc and finish;
 *  - a job that is expected is there, and ended as expected;
 *  - each attempt has an R, which has what the jobspec asks for, within the inventory;
 *  - from alloc to free or requeue no core, gpu, memory or amount of a pool belongs to two
 *    attempts, of one job or of two;
 *  - no job was given resources before its dependencies and its begin time allowed it;
 *  - if asked for: between alloc and free no group of uplinks of a leaf switch, or of a pod, could
 *    be used by two jobs (audit_links.h), and the hops on record are those between the nodes of the
 *    job.
 *
 * Pure; one thread per object.
 */
#ifndef JOBS_AUDIT_H
#define JOBS_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libjob/jobstate.h"
#include "libutil/errmsg.h"

typedef struct audit audit_t;

audit_t *audit_create(void);    /* NULL with ENOMEM */
void audit_destroy(audit_t *a); /* NULL-safe, keeps errno */

/* What there is (KVS resource.inventory).  -1 with the errno of resgraph_parse() and a sentence. */
int audit_inventory(audit_t *a, const char *text, size_t len, errmsg_t *err);

/* The wall clock was set meanwhile: nothing is concluded from times, neither of order nor of who
 * had what at a time.  Before the first job. */
void audit_clock_set(audit_t *a);

/* The nodes hang on switches:  L leaves of K nodes in each pod.  Before audit_run().  -1 with
 * ENOMEM. */
int audit_tree(audit_t *a, uint32_t leaves, uint32_t nodes);

struct audit_job {
    uint64_t id;
    const char *log; /* NULL: there is none, which is a violation; so for the others */
    size_t log_len;
    const char *R;
    size_t R_len;
    const char *jobspec;
    size_t jobspec_len;
};
/* Everything is copied.  -1 with ENOMEM, or EEXIST (twice the same id). */
int audit_job(audit_t *a, const struct audit_job *job);

/* The job is to be there and to have ended like this.  JOB_RESULT_NONE, -1: in any way. */
int audit_expect(audit_t *a, uint64_t id, enum job_result result, int code);

enum { AUDIT_ACTIVE_OK = 1 /* jobs that have not ended are not a violation */ };
/* Number of violations, or -1 with ENOMEM.  Once. */
int audit_run(audit_t *a, int flags, void (*tell)(const char *sentence, void *arg), void *arg);

/* How many jobs; how many of them had resources; how often that was; the most that had some at a
 * time. */
size_t audit_njobs(const audit_t *a);
size_t audit_nallocs(const audit_t *a);
size_t audit_nattempts(const audit_t *a);
size_t audit_peak(const audit_t *a);
/* With audit_tree(): how many jobs were within a leaf (1), on several leaves of a pod (2), in
 * several pods (3). */
size_t audit_nreach(const audit_t *a, int reach);

#endif
