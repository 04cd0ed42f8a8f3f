/* leaving.c - see leaving.h.
 *
 * Three requests to rank 0, each after the response to the preceding one:
 *
 *    resrc.leave      {"ranks","reason"} -> {"ranks"}   the nodes of this broker, and of those
 *                     below that leave with it, are drained until they return
 *    sched.resources  {}                 -> {..}        the scheduler has noticed that, and
 *                     the job service has all its earlier allocations
 *    job.leave        {"ranks","reason","grace"} -> {}  no job has resources of these nodes
 *
 * Failure: a request that fails is logged, unless the service does not exist, and the next one is
 * sent.  A broker that cannot reach rank 0 leaves nevertheless; it waits for the first two answers
 * for at most ANSWER seconds.
 */
#include "config.h"
#include "leaving.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/future.h"
#include "libflux/log.h"
#include "libjob/job_wire.h"
#include "libresource/resrc_wire.h"

#define ANSWER 5.

struct leaving {
    core_t *core;
    char *why;
    char *ranks; /* brokers, and after the first answer nodes */
    double grace;
    flux_future_t *f;
    void (*step)(leaving_t *l); /* after the answer */
    void (*done)(void *arg);
    void *arg;
};

/* The answer to the first request names nodes. */
static void take_nodes(leaving_t *l, flux_future_t *f)
{
    struct resrc_ranks out = {0};
    char *nodes;

    if (flux_rpc_get_struct(f, &resrc_ranks_schema, &out, NULL) == 0 &&
        (nodes = strdup(out.ranks))) {
        free(l->ranks);
        l->ranks = nodes;
    }
}

static void answer_cb(flux_future_t *f, void *arg)
{
    leaving_t *l = arg;
    int errnum = flux_future_errnum(f);

    if (errnum && errnum != ENOSYS)
        flux_log(core_handle(l->core), LOG_WARNING, "rank %u leaves without waiting: %s",
                 core_rank(l->core), flux_future_error(f));
    l->step(l);
}

/* Continue with `step` when `f` is answered. */
static void then(leaving_t *l, flux_future_t *f, double limit, void (*step)(leaving_t *l))
{
    flux_future_destroy(l->f);
    l->f = f;
    l->step = step;
    if (f && flux_future_then(f, limit, answer_cb, l) == 0)
        return;
    flux_log(core_handle(l->core), LOG_WARNING, "rank %u leaves without waiting: %s",
             core_rank(l->core), strerror(errno));
    step(l);
}

static void over(leaving_t *l)
{
    l->done(l->arg);
}

static void wait_jobs(leaving_t *l)
{
    struct job_leave in = {.ranks = l->ranks, .reason = l->why, .grace = l->grace};

    then(l,
         flux_rpc_struct(core_handle(l->core), "job.leave", &job_leave_schema, &in,
                         FLUX_NODEID_ROOT, 0),
         -1., over);
}

static void wait_sched(leaving_t *l)
{
    if (l->f && flux_future_errnum(l->f) == 0)
        take_nodes(l, l->f);
    then(l,
         flux_rpc(core_handle(l->core), "sched.resources", NULL, FLUX_NODEID_ROOT,
                  FLUX_MSGF_IDEMPOTENT),
         ANSWER, wait_jobs);
}

static void drain(leaving_t *l)
{
    struct resrc_leave in = {.ranks = l->ranks, .reason = l->why};

    then(l,
         flux_rpc_struct(core_handle(l->core), "resrc.leave", &resrc_leave_schema, &in,
                         FLUX_NODEID_ROOT, 0),
         ANSWER, wait_sched);
}

/* Those that leave: malloc'd, or NULL with ENOMEM. */
static char *ranks_of(core_t *core)
{
    idset_t *own;
    char *text;

    if (!core_leaves_alone(core))
        return idset_format(core_ranks_up(core), 0);
    own = idset_create_range(core_rank(core), core_rank(core));
    text = own ? idset_format(own, 0) : NULL;
    idset_destroy(own);
    return text;
}

leaving_t *leaving_start(core_t *core, const char *why, double grace, void (*done)(void *arg),
                         void *arg)
{
    leaving_t *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->core = core;
    l->grace = grace;
    l->done = done;
    l->arg = arg;
    l->why = strdup(why);
    l->ranks = ranks_of(core);
    if (!l->why || !l->ranks) {
        leaving_destroy(l);
        errno = ENOMEM;
        return NULL;
    }
    drain(l);
    return l;
}

void leaving_destroy(leaving_t *l)
{
    int saved = errno;

    if (!l)
        return;
    flux_future_destroy(l->f);
    free(l->why);
    free(l->ranks);
    free(l);
    errno = saved;
}
