/* The client's side of running something and staying with it: what flux wreckrun and flux exec
 * share.
 *
 * Forwards standard input and signals, writes output as it comes, and knows the exit code at the
 * end.
 */
#ifndef CMD_JOB_ATTACH_H
#define CMD_JOB_ATTACH_H

#include "../cmd.h"
#include "libexec/wrexec_wire.h"

/* To be called first: a standard stream that is closed becomes /dev/null, so that no connection
 * takes its number. */
void job_attach_standard_fds(void);

/* Is there anything to read from standard input?  What reads /dev/null needs no messages for it. */
bool job_attach_stdin_useful(void);

struct job_attach_params {
    struct wrexec_run run;
    const char *fixed[WIRE_STRINGS]; /* working directory and files, see exec_wire.h */
    char *const *argv;
    char *const *env;
    bool label;      /* "TASK: " before each line */
    bool label_rank; /* the rank a task is on, instead of its number */
};
/* flux exec: run processes beside brokers to their end.  The exit code for the command; sentences
 * were printed. */
int job_attach_exec(struct cmd *c, const struct job_attach_params *p);

/* Follow the job that was submitted with JOB_FLAG_CLIENT to its end; `reads`: pass standard input
 * on.  Its exit code, or CMD_FAIL after a sentence. */
int job_attach_job(struct cmd *c, flux_t *h, uint64_t id, bool label, bool reads);

#endif
