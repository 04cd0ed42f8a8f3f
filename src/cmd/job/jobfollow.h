/* Follow jobs to their end: print their output from the key-value store, from its beginning, and
 * report how they ended.
 *
 *    struct jobfollow_cb cb = {.ended = ended, .arg = &me};
 *    int code = jobfollow_run(c, h, ids, JOBFOLLOW_OUTPUT, &cb);
 *
 * Not thread-safe; one reactor.
 */
#ifndef CMD_JOBFOLLOW_H
#define CMD_JOBFOLLOW_H

#include "../cmd.h"
#include "libjob/job_wire.h"

enum {
    JOBFOLLOW_OUTPUT = 1,   /* show it */
    JOBFOLLOW_LABEL = 2,    /* "TASK: " before each line */
    JOBFOLLOW_LABEL_ID = 4, /* "ID.TASK: " */
    JOBFOLLOW_SILENT = 8,   /* do not print on a terminal what is waited for */
};

struct jobfollow_cb {
    /* A job has ended, and all of its output was written. */
    void (*ended)(void *arg, const struct job_ended *e);
    /* Something has come of the output, and will be written after this.  May be NULL. */
    void (*output)(void *arg, uint64_t id);
    void *arg;
};

/* Run the handle's reactor until all jobs in `ids` have ended, or until the caller stops the
 * reactor.  Returns an exit code for the command: CMD_OK; CMD_FAIL after an error message; 128 +
 * SIGPIPE, without a message, when the reader of the output is gone. */
int jobfollow_run(struct cmd *c, flux_t *h, const idset_t *ids, int flags,
                  const struct jobfollow_cb *cb);

#endif
