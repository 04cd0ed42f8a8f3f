/* What commands that act on jobs share: ids, choosing jobs by what they are, results. */
#ifndef CMD_JOB_ARGS_H
#define CMD_JOB_ARGS_H

#include "../cmd.h"
#include "libjob/job.h"
#include "libutil/strvec.h"

/* Operands "7", "1-10,12": the ids as one set.  NULL after a sentence, also without any. */
idset_t *job_args_ids(struct cmd *c, int argc, char *const *argv);
/* One operand, one id.  -1 after a sentence. */
int job_args_id(struct cmd *c, int argc, char *const *argv, uint64_t *id);
/* Format ids; -1 after a sentence. */
char *job_args_format(struct cmd *c, const idset_t *ids);

/* Wait for the result of flux_job_cancel() and the like (`f` is taken over), print a sentence for
 * each id it was not done to.  An exit code; `count` (may be NULL) is how many it was done to. */
int job_args_finish(struct cmd *c, flux_future_t *f, const char *what, uint32_t *count);

/* Parse a list of states: names of states, groups ("queued", "active", "all"...), and words of
 * the column STATE ("held", "pending", "running", "failed"...).  *mask is what to request from
 * job.list; job_args_shown() then selects among the received jobs, because a word can stand for a
 * part of a state.  -1 after an error message. */
struct job_args_shown {
    uint32_t whole;      /* all jobs in these states */
    const char *only[8]; /* and those that are shown with one of these words */
};
int job_args_states(struct cmd *c, const char *what, const char *val, uint32_t *mask,
                    struct job_args_shown *shown);
bool job_args_shown(const struct job_args_shown *shown, const struct job_info *info);
/* Are the first N jobs of job.list in these states the first N of those that are selected? */
bool job_args_exact(const struct job_args_shown *shown);
/* Parse a user: a name, a number, or "all".  -1 after an error message. */
int job_args_user(struct cmd *c, const char *what, const char *val, int64_t *user);
/* A signal: "TERM", "SIGTERM", "15". */
int job_args_signal(struct cmd *c, const char *what, const char *val, int *signum);

/* All jobs that a query finds: `each` gets them one by one, with the JSON they came as; a return
 * value < 0 stops it.  -1 after a sentence, or when `each` said so. */
int job_args_list(struct cmd *c, flux_t *h, const struct job_list *query,
                  int (*each)(void *arg, const struct job_info *info, json_t *json), void *arg);

#endif
