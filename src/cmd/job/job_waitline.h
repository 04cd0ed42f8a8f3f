/* A line on the terminal while nothing is to be seen of a job: in which state it is, and why.
 * Elsewhere a sentence, once, when it has not started after ten seconds; and one when what became
 * of it cannot be put on record: then nothing goes on. */
#ifndef CMD_JOB_WAITLINE_H
#define CMD_JOB_WAITLINE_H

#include "../cmd.h"
#include "libjob/job_wire.h"

typedef struct job_waitline job_waitline_t;

/* From two seconds on, when standard error is a terminal: "flux NAME: job 7 (TAIL): waits for ...".
 * `tail` is borrowed.  NULL with ENOMEM: then nothing is printed. */
job_waitline_t *job_waitline_start(struct cmd *c, flux_t *h, uint64_t id, const char *tail);
/* The same for several jobs: the number of `ids` left, and what the first of them waits for.  The
 * set is borrowed; its owner removes the jobs that have ended.  NULL: all jobs of the session. */
job_waitline_t *job_waitline_start_set(struct cmd *c, flux_t *h, const idset_t *ids,
                                       const char *tail);
/* Stop: there is output, or the wait is over.  NULL-safe, keeps errno. */
void job_waitline_stop(job_waitline_t *t);

/* What of its request was not done; and how a job ended, unless it was well: why and by whom, or
 * which of its tasks failed, the first `max` of them.  `said` (may be NULL) was printed before as
 * its reason, and is not again. */
#define JOBTELL_TASKS JOB_FAILED_MAX
#define JOBTELL_TASKS_OF_MANY 2 /* when there may be many such jobs */
void job_waitline_ended(struct cmd *c, const struct job_ended *e, const char *said, unsigned max);

#endif
