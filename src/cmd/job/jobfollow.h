/* Jobs that are followed to their end: their output from the key-value store, from its beginning,
 * and how they ended.
 *
 *    struct jobfollow_cb cb = {.ended = ended, .arg = &me};
 *    jobfollow_t *jf = jobfollow_create(c, h, JOBFOLLOW_OUTPUT, &cb);
 *    jobfollow_add(jf, 7);
 *    jobfollow_run(jf);
 *
 * Not thread-safe; one reactor.
 */
#ifndef CMD_JOBFOLLOW_H
#define CMD_JOBFOLLOW_H

#include "../cmd.h"
#include "libjob/job_wire.h"

typedef struct jobfollow jobfollow_t;

enum {
    JOBFOLLOW_OUTPUT = 1,   /* show it */
    JOBFOLLOW_LABEL = 2,    /* "TASK: " before each line */
    JOBFOLLOW_LABEL_ID = 4, /* "ID.TASK: " */
    JOBFOLLOW_SILENT = 8, /* else it is told on a terminal, after two seconds, what is waited for */
};

struct jobfollow_cb {
    /* A job has ended, and all of its output was written. */
    void (*ended)(void *arg, const struct job_ended *e);
    /* Something has come of the output, and will be written after this.  May be NULL. */
    void (*output)(void *arg, uint64_t id);
    void *arg;
};

/* NULL after a sentence. */
jobfollow_t *jobfollow_create(struct cmd *c, flux_t *h, int flags, const struct jobfollow_cb *cb);
void jobfollow_destroy(jobfollow_t *jf); /* NULL-safe, keeps errno */
/* Before run().  -1 after a sentence. */
int jobfollow_add(jobfollow_t *jf, uint64_t id);
/* Run the handle's reactor until all have ended, or until jobfollow_stop().  0; -1 after a
 * sentence, or, silently, with EPIPE when the reader of our output is gone. */
int jobfollow_run(jobfollow_t *jf);
void jobfollow_stop(jobfollow_t *jf);

#endif
