/* ending.c - see ending.h.
 *
 *    job.queue {"op":"end"}   ->   the state of the queue, when no job runs and none will start
 *
 * Jobs that wait in the queue stay there: a session with a statedir finds them again.
 *
 * Failure: any error means that there is nothing to wait for.  A session without a job service has
 * no jobs, and one whose job service is broken must still be able to end.
 */
#include "ending.h"

#include <errno.h>
#include <stdlib.h>

#include "libflux/future.h"
#include "libjob/job_wire.h"

struct ending {
    flux_future_t *f;
    void (*done)(void *arg);
    void *arg;
};

static void answer_cb(flux_future_t *f, void *arg)
{
    ending_t *e = arg;

    e->f = NULL;
    flux_future_destroy(f);
    e->done(e->arg);
}

ending_t *ending_start(core_t *core, double limit, void (*done)(void *arg), void *arg)
{
    struct job_queue req = {.op = "end"};
    ending_t *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->done = done;
    e->arg = arg;
    e->f = flux_rpc_struct(core_handle(core), "job.queue", &job_queue_schema, &req, FLUX_NODEID_ANY,
                           0);
    if (!e->f || flux_future_then(e->f, limit, answer_cb, e) < 0) {
        ending_destroy(e);
        errno = ENOMEM;
        return NULL;
    }
    return e;
}

void ending_destroy(ending_t *e)
{
    if (e) {
        int saved = errno;
        flux_future_destroy(e->f);
        free(e);
        errno = saved;
    }
}
