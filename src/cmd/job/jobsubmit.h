/* Submission of many jobs: gathered into frames of job.submit, several under way at a time.
 *
 *    jobsubmit_t *js = jobsubmit_create(c, h, env, result, arg);
 *    for (...)
 *        if (jobsubmit_add(js, urgency, 0, spec, strlen(spec)) < 0) ...
 *    jobsubmit_finish(js);
 *
 * Results come in the order in which jobs were added.  Not thread-safe; waits.
 */
#ifndef CMD_JOBSUBMIT_H
#define CMD_JOBSUBMIT_H

#include "../cmd.h"

typedef struct jobsubmit jobsubmit_t;

/* Job number `index` (from 0) was accepted as `id`; or refused: id 0, with errno and a sentence. */
typedef void (*jobsubmit_f)(void *arg, size_t index, uint64_t id, int errnum, const char *text);

/* All jobs have the environment `env` (NAME=value, NULL at the end; copied).  NULL after a
 * sentence. */
jobsubmit_t *jobsubmit_create(struct cmd *c, flux_t *h, char *const *env, jobsubmit_f result,
                              void *arg);
void jobsubmit_destroy(jobsubmit_t *js); /* NULL-safe, keeps errno */
/* Add one; sends what is full, and waits when too much is under way.  -1 after a sentence, when the
 * service cannot be reached or refuses whole frames. */
int jobsubmit_add(jobsubmit_t *js, uint32_t urgency, uint32_t flags, const char *spec, size_t len);
/* Send what is left and wait for all results.  -1 after a sentence. */
int jobsubmit_finish(jobsubmit_t *js);

#endif
