/* The output of a job in the key-value store, from its beginning, in bounded memory.
 *
 * Not thread-safe; one reactor.
 */
#ifndef CMD_JOBOUTPUT_H
#define CMD_JOBOUTPUT_H

#include "libflux/flux.h"

typedef struct joboutput joboutput_t;

struct joboutput_cb {
    /* The next bytes of the value.  `from_start`: what came before was of another value.  May
     * destroy the joboutput. */
    void (*data)(void *arg, const char *data, size_t len, bool from_start);
    /* It cannot be read; nothing more comes. */
    void (*failed)(void *arg, const char *text);
    void *arg;
};

/* Begin to read.  NULL with ENOMEM.  Data come from the reactor only. */
joboutput_t *joboutput_create(flux_t *h, uint64_t id, const struct joboutput_cb *cb);
void joboutput_destroy(joboutput_t *o); /* NULL-safe, keeps errno */
/* Ask for no more, beyond one piece that may be under way; go on. */
void joboutput_pause(joboutput_t *o);
void joboutput_resume(joboutput_t *o);
/* The job has ended, and this is the final length.  It is a failure if the bytes are lost. */
void joboutput_ended(joboutput_t *o, uint64_t size);
/* Bytes that came. */
uint64_t joboutput_seen(const joboutput_t *o);

#endif
