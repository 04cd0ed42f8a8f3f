/* A stream of another service that is opened again when it ends: what the service has to say is taken
 * whenever there is one.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_FOLLOW_H
#define SERVICE_FOLLOW_H

#include "libflux/future.h"

typedef struct follow follow_t;

struct follow_ops {
    const char *topic; /* sent with the payload "{}" to any rank */
    double again;      /* seconds from the end of a stream until it is opened again */
    double again_max;  /* the pause doubles up to this with each stream that brought nothing */
    /* A response: flux_rpc_get_struct() has it.  0, or -1 with a sentence: the stream is given up, and opened
     * again after a pause. */
    int (*take)(void *arg, flux_future_t *f, errmsg_t *err);
    /* The stream has ended, or was given up; errnum: ENOSYS when there is no such service, else the error.
     * `tries`: streams that have brought nothing since the last one that did, this one included. */
    void (*ended)(void *arg, int errnum, const char *why, unsigned tries);
};

/* Opens the stream.  NULL with ENOMEM; no callback has been called then.  Only `ended` may
 * destroy it. */
follow_t *follow_create(flux_t *h, const struct follow_ops *ops, void *arg);
void follow_destroy(follow_t *fo); /* NULL-safe, keeps errno */
/* End the stream, if there is one, and open another one at once.  No callback. */
void follow_restart(follow_t *fo);

#endif
