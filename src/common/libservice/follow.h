/* A stream of another service that is reopened when it ends, so that its responses are read
 * whenever that service is loaded.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_FOLLOW_H
#define SERVICE_FOLLOW_H

#include <stdbool.h>

#include "libflux/future.h"

typedef struct follow follow_t;

struct follow_ops {
    const char *topic; /* sent with the payload "{}" to any rank */
    double again;      /* seconds from the end of a stream until it is reopened */
    double again_max;  /* limit of that pause, which doubles with each stream that ends without a
                       * response */
    /* NULL, or: may the stream be opened now?  false: the function is called again after `again`
     * seconds. */
    bool (*may_open)(void *arg);
    /* Handle a response, with flux_rpc_get_struct().  0, or -1 with an error message: the stream is
     * closed, and reopened after a pause. */
    int (*take)(void *arg, flux_future_t *f, errmsg_t *err);
    /* The stream has ended, or was closed.  errnum: ENOSYS if there is no such service, else the
     * error. `tries`: number of consecutive streams without a response, including this one. */
    void (*ended)(void *arg, int errnum, const char *why, unsigned tries);
};

/* Create a closed stream, which follow_open() opens.  NULL with ENOMEM.  Of its callbacks, only
 * `ended` may destroy it. */
follow_t *follow_create(flux_t *h, const struct follow_ops *ops, void *arg);
void follow_destroy(follow_t *fo); /* NULL-safe, keeps errno */

/* Open the stream.  A stream that is open is canceled first, without a call of `ended`. */
void follow_open(follow_t *fo);
/* Treat the open stream as if it had ended with this error; no effect without one. */
void follow_end(follow_t *fo, int errnum, const char *why);

#endif
