/* Ask for the end of jobs (job.wait), again as long as the service has no room for the question, or
 * when a broker on the way has died: the jobs run already, and a command that gave up would leave
 * their ends unreported.
 *
 *    jobwait_t *w = jobwait_create(h, "17-20", ended, me);
 *    flux_future_t *f = jobwait_answer(w);      in ended(), or later
 *
 * Not thread-safe; one reactor.
 */
#ifndef CMD_JOBWAIT_H
#define CMD_JOBWAIT_H

#include "libflux/future.h"

typedef struct jobwait jobwait_t;

/* Ask for the ends of the jobs with these ids (an idset as text, copied).  `cb` is called with the
 * future of flux_job_wait(), as flux_future_then() does, for each page and for each error but that
 * there is no room or no way.  After the loss of a way, ends are reported again.  NULL with
 * ENOMEM. */
jobwait_t *jobwait_create(flux_t *h, const char *ids, flux_future_f cb, void *arg);
/* NULL-safe, keeps errno. */
void jobwait_destroy(jobwait_t *w);
/* The future that was passed to `cb`, NULL before that; it belongs to `w`. */
flux_future_t *jobwait_answer(jobwait_t *w);

#endif
