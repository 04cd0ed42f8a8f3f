/* A stream of another service that is reopened when it ends, so that its responses are read
 * whenever there is such a service.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_FOLLOW_H
#define SERVICE_FOLLOW_H

#include "libflux/future.h"

typedef struct follow follow_t;

struct follow_ops {
    const char *topic; /* sent with the payload "{}" to any rank */
    double again;      /* seconds from the end of a stream until it is reopened */
    double again_max;  /* limit of that pause, which doubles with each stream that had no
                          response */
    /* Handle a response, with flux_rpc_get_struct().  0, or -1 with an error message: the stream is
     * closed, and reopened after a pause. */
    int (*take)(void *arg, flux_future_t *f, errmsg_t *err);
    /* The stream has ended, or was closed.  errnum: ENOSYS if there is no such service, else the
     * error. `tries`: streams without any response since the last one that had some, including this
     * one. */
    void (*ended)(void *arg, int errnum, const char *why, unsigned tries);
};

/* Opens the stream.  NULL with ENOMEM; then no callback was called.  Only `ended` may destroy
 * it. */
follow_t *follow_create(flux_t *h, const struct follow_ops *ops, void *arg);
void follow_destroy(follow_t *fo); /* NULL-safe, keeps errno */

#endif
