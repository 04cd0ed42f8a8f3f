/* Jobs, for clients: submit, list, watch, wait, signal, cancel.
 *
 *    struct jobspec_parts p;
 *    jobspec_parts_init(&p);
 *    p.argv = argv;
 *    json_t *spec = jobspec_build(&p, &err);
 *    char *text = jobspec_encode(spec, NULL);
 *    flux_future_t *f = flux_job_submit(h, text, strlen(text), JOB_URGENCY_DEFAULT, 0, &err);
 *    if (flux_future_wait(f, -1) < 0 || flux_job_submit_get(f, &id, &err) < 0) ...
 *    flux_future_destroy(f);
 *
 * Every call that returns a future may also be used with flux_future_then().  NULL with ENOMEM, or
 * EINVAL for a bad argument.  Errors of the service come from the _get functions: ENOSYS (no job
 * service), EPERM (somebody else's job), ENOENT (no such job, or purged), EINVAL, EBUSY (submission
 * is disabled), EAGAIN (too much waits there, try again), each with a sentence.
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

/* One job with the environment of this process. */
flux_future_t *flux_job_submit(flux_t *h, const char *jobspec, size_t len, int urgency,
                               unsigned flags, errmsg_t *err);
/* Id of that one job; -1 with the errno and sentence of its refusal. */
int flux_job_submit_get(flux_future_t *f, uint64_t *id, errmsg_t *err);
/* All jobs of a writer, as one request.  `w` may be changed or destroyed after this. */
flux_future_t *flux_job_submit_batch(flux_t *h, submit_writer_t *w);
/* What became of them: see struct job_submitted and job_error_at(). */
int flux_job_submit_batch_get(flux_future_t *f, struct job_submitted *out, errmsg_t *err);

/* --- list, wait, watch: streams.  Use flux_future_next() after each result; they end with ENODATA;
 * destroying the future tells the service. --- */

/* `query` NULL: active jobs of all users. */
flux_future_t *flux_job_list(flux_t *h, const struct job_list *query);
void flux_job_list_init(struct job_list *query);
/* The page at hand: *jobs is an array that lives as long as the result; number i of it. */
int flux_job_list_get(flux_future_t *f, const json_t **jobs, errmsg_t *err);
int flux_job_list_at(const json_t *jobs, size_t i, struct job_info *info, errmsg_t *err);

/* Results as jobs end, of each one that is named once.  NULL: those that are active now. */
flux_future_t *flux_job_wait(flux_t *h, const char *ids);
int flux_job_wait_get(flux_future_t *f, const json_t **ended, errmsg_t *err);
int flux_job_wait_at(const json_t *ended, size_t i, struct job_ended *e, errmsg_t *err);

/* Transitions, starting with the present states; NULL: of all jobs, for ever. */
flux_future_t *flux_job_watch(flux_t *h, const char *ids);
int flux_job_watch_get(flux_future_t *f, const json_t **transitions, errmsg_t *err);
int flux_job_watch_at(const json_t *transitions, size_t i, uint64_t *id, enum job_state *state,
                      double *t, errmsg_t *err);

/* --- act on jobs; results: flux_job_acted_get().  `ids` may not be NULL. --- */

/* End jobs: those that wait leave the queue, those that run get SIGTERM and, after their grace
 * period, SIGKILL.  `note` (may be NULL) goes on record. */
flux_future_t *flux_job_cancel(flux_t *h, const char *ids, const char *note);
/* Put an exception on record: `type` is a word, `note` a sentence or NULL.  Of severity 0 it ends
 * the job; 1 to JOB_SEVERITY_MAX only tell. */
flux_future_t *flux_job_raise(flux_t *h, const char *ids, const char *type, int severity,
                              const char *note);
/* Send a signal to all tasks of jobs that run. */
flux_future_t *flux_job_kill(flux_t *h, const char *ids, int signum);
/* Let jobs that wait go sooner or later: JOB_URGENCY_HOLD to JOB_URGENCY_MAX. */
flux_future_t *flux_job_urgency(flux_t *h, const char *ids, uint32_t urgency);
/* To how many jobs it was done; out->errors (for job_error_at(); NULL: none) tells of each of the
 * others why not, and lives as long as the future.  -1 with errno and a sentence when the request
 * as a whole failed. */
int flux_job_acted_get(flux_future_t *f, struct job_acted *out, errmsg_t *err);

/* --- the queue, the history --- */

/* Ask for the state of the queue, or change it: `op` is one of those of struct job_queue, of which
 * "drain" and "idle" are answered when it has come so far; `reason` may be NULL. */
flux_future_t *flux_job_queue(flux_t *h, const char *op, const char *reason);
/* Its state after that; out->reason lives as long as the future. */
int flux_job_queue_get(flux_future_t *f, struct job_queue_status *out, errmsg_t *err);
/* Forget ended jobs, for the owner of the session; and how many it were. */
flux_future_t *flux_job_purge(flux_t *h, const struct job_purge *what);
int flux_job_purge_get(flux_future_t *f, uint32_t *purged, errmsg_t *err);
/* Tell the URI of the session that a job is; result: flux_rpc_get(). */
flux_future_t *flux_job_memo(flux_t *h, uint64_t id, const char *uri);

/* KVS key of something of a job: "job.ID.WHAT" in `buf`, which is returned; FLUX_JOB_KEY_MAX bytes
 * have room for all that there is. */
#define FLUX_JOB_KEY_MAX 64
const char *flux_job_key(uint64_t id, const char *what, char *buf, size_t size);

#endif
