/* Jobs, for clients: submit, list, watch, wait, signal, cancel.
 *
 *    struct jobspec_parts p;
 *    jobspec_parts_init(&p);
 *    p.argv = argv;
 *    json_t *spec = jobspec_build(&p, &err);
 *    char *text = jobspec_encode(spec, NULL);
 *    flux_future_t *f =
 *        flux_job_submit(h, text, strlen(text), NULL, JOB_URGENCY_DEFAULT, 0, &err);
 *    if (flux_future_wait(f, -1) < 0 || flux_job_submit_get(f, &id, &err) < 0) ...
 *    flux_future_destroy(f);
 *
 * Every call that returns a future may also be used with flux_future_then().  NULL with ENOMEM, or
 * EINVAL for a bad argument.  Errors of the service come from the _get functions: ENOSYS (no job
 * service), EPERM (the job of another user), ENOENT (no such job, or purged), EINVAL, EBUSY
 * (submission is disabled), EAGAIN (the service has too many requests, try again), each with an
 * error message.
 *
 * `ids` are idsets as text: "7", "1-1000,2007".
 * Thread rules: those of the handle.
 */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include "events.h"
#include "job_wire.h"
#include "jobstate.h"
#include "libflux/future.h"
#include "submit.h"

/* --- submit --- */

/* Submit one job with the environment `env`, an array that NULL terminates; `env` NULL: the
 * environment of this process. */
flux_future_t *flux_job_submit(flux_t *h, const char *jobspec, size_t len, const char *const *env,
                               int urgency, unsigned flags, errmsg_t *err);
/* Get the id of that job; -1 with the errno and the error message if it was rejected. */
int flux_job_submit_get(flux_future_t *f, uint64_t *id, errmsg_t *err);
/* Submit all jobs of a writer in one request.  `w` may be changed or destroyed after this. */
flux_future_t *flux_job_submit_batch(flux_t *h, submit_writer_t *w);
/* Get the result of each job: see struct job_submitted and job_error_at(). */
int flux_job_submit_batch_get(flux_future_t *f, struct job_submitted *out, errmsg_t *err);

/* --- list, wait, watch: streams.  Use flux_future_next() after each result.  A stream ends with
 * ENODATA; destroying its future cancels it. --- */

/* `query` NULL: active jobs of all users. */
flux_future_t *flux_job_list(flux_t *h, const struct job_list *query);
void flux_job_list_init(struct job_list *query);
/* Get the current page: *jobs is an array that is valid as long as the result; decode element i of
 * it. */
int flux_job_list_get(flux_future_t *f, const json_t **jobs, errmsg_t *err);
int flux_job_list_at(const json_t *jobs, size_t i, struct job_info *info, errmsg_t *err);
/* job_state_word() of a listed job; the state as received if this program does not know it. */
const char *flux_job_state_word(const struct job_info *info);

/* Wait for the end of jobs: one result for each job as it ends.  NULL: all jobs that are active
 * now. */
flux_future_t *flux_job_wait(flux_t *h, const char *ids);
int flux_job_wait_get(flux_future_t *f, const json_t **ended, errmsg_t *err);
int flux_job_wait_at(const json_t *ended, size_t i, struct job_ended *e, errmsg_t *err);

/* Watch state transitions, starting with the present states.  NULL: those of all jobs, without
 * end. */
flux_future_t *flux_job_watch(flux_t *h, const char *ids);
int flux_job_watch_get(flux_future_t *f, const json_t **transitions, errmsg_t *err);
int flux_job_watch_at(const json_t *transitions, size_t i, uint64_t *id, enum job_state *state,
                      double *t, errmsg_t *err);

/* --- act on jobs; results: flux_job_acted_get().  `ids` may not be NULL.  These requests are sent
 * again when a broker on their way dies, and take effect once. --- */

/* A number for a request that is made without these functions (job_wire.h). */
uint64_t flux_job_number(flux_t *h);

/* Cancel jobs: pending jobs are removed from the queue, running jobs get SIGTERM and, after their
 * grace period, SIGKILL.  `note` (may be NULL) is recorded. */
flux_future_t *flux_job_cancel(flux_t *h, const char *ids, const char *note);
/* Record an exception: `type` is a word, `note` a description or NULL.  Severity 0 ends the job; 1
 * to JOB_SEVERITY_MAX are informational. */
flux_future_t *flux_job_raise(flux_t *h, const char *ids, const char *type, int severity,
                              const char *note);
/* Send a signal to all tasks of running jobs. */
flux_future_t *flux_job_kill(flux_t *h, const char *ids, int signum);
/* Change the urgency of pending jobs: JOB_URGENCY_HOLD to JOB_URGENCY_MAX. */
flux_future_t *flux_job_urgency(flux_t *h, const char *ids, uint32_t urgency);
/* Get the number of jobs on which the operation succeeded.  out->errors (for job_error_at(); NULL:
 * none) has the reason for each job on which it failed, and is valid as long as the future.  -1
 * with errno and an error message if the request failed as a whole. */
int flux_job_acted_get(flux_future_t *f, struct job_acted *out, errmsg_t *err);

/* --- the queue, the history --- */

/* Query or change the state of the queue: `op` is an operation of struct job_queue; "drain" and
 * "idle" are answered when all jobs have ended; `reason` may be NULL. */
flux_future_t *flux_job_queue(flux_t *h, const char *op, const char *reason);
/* Get its state after the operation; out->reason lives as long as the future. */
int flux_job_queue_get(flux_future_t *f, struct job_queue_status *out, errmsg_t *err);
/* Purge ended jobs; only the owner of the session may do so.  The result is their number. */
flux_future_t *flux_job_purge(flux_t *h, const struct job_purge *what);
int flux_job_purge_get(flux_future_t *f, uint32_t *purged, errmsg_t *err);
/* The client that has submitted a job with JOB_FLAG_RETURNS is back: the job ends with it now.
 * Result: flux_rpc_get(). */
flux_future_t *flux_job_claim(flux_t *h, uint64_t id);
/* Register the URI of the session that runs in a job; result: flux_rpc_get(). */
flux_future_t *flux_job_memo(flux_t *h, uint64_t id, const char *uri);

/* KVS key of a part of a job's record: "job.ID.WHAT" in `buf`, which is returned; FLUX_JOB_KEY_MAX
 * bytes are enough for every such key. */
#define FLUX_JOB_KEY_MAX 64
const char *flux_job_key(uint64_t id, const char *what, char *buf, size_t size);

#endif
