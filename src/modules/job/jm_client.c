/* jm_client.c - jobs that end with their client (JOB_FLAG_CLIENT: flux wreckrun, flux alloc).
 *
 *     state      meaning                          left when (by)
 *     with       its client has a claim           the client ends: the job is canceled (gone); its
 *                (libservice/claim.h)             broker is lost: without, if the client returns
 *                                                 (JOB_FLAG_RETURNS), otherwise canceled (gone)
 *     without    the client may come back when    it has come: with (job.claim); after
 *                a broker of its rank is          job.client-grace: canceled (timer_cb)
 *                started
 *
 * Invariants:
 *  1. A job is in the list `without` exactly while it waits for its client; it has no claim then.
 *  2. The list is in the order of the times at which the wait ends, and the timer runs while there
 *     is a job in it.
 *
 * Failure: without memory for a claim, the job does not end with its client, which is logged.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "libjob/job_wire.h"

struct jm_client {
    struct list_node without; /* jm_job.client.node */
    flux_watcher_t *timer;
    bool losing; /* claims end because ranks are lost */
};

void jm_client_job_init(struct jm_job *j)
{
    list_init(&j->client.node);
}

void jm_client_job_clear(struct jm_job *j)
{
    list_remove(&j->client.node);
    claim_drop(j->jm->clients, &j->client.claim);
}

static void cancel(struct jm_job *j, const char *why)
{
    jm_state_exception(j, "cancel", JOB_SEVERITY_FATAL, why, j->st.userid, true);
    jm_module_kick(j->jm);
}

/* --- jobs without a client --- */

static void set_timer(struct jm *jm)
{
    struct list_node *n = list_first(&jm->client->without);
    double left;

    if (!n)
        return;
    left = list_entry(n, struct jm_job, client.node)->client.until - flux_reactor_now(jm->r);
    flux_timer_start(jm->client->timer, left > 0. ? left : 0., 0.);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct jm *jm = arg;
    struct list_node *n;

    while ((n = list_first(&jm->client->without))) {
        struct jm_job *j = list_entry(n, struct jm_job, client.node);

        if (j->client.until > flux_reactor_now(r))
            break;
        list_remove(n);
        if (jm_state_active(j))
            cancel(j, "its client has not come back after the loss of its broker");
    }
    set_timer(jm);
}

static void wait_for_client(struct jm_job *j)
{
    struct jm_client *p = j->jm->client;
    bool first = list_empty(&p->without);

    j->client.until = flux_reactor_now(j->jm->r) + j->jm->client_grace;
    list_append(&p->without, &j->client.node);
    if (first)
        set_timer(j->jm);
}

static bool returns(const struct jm_job *j)
{
    return (j->st.flags & JOB_FLAG_RETURNS) && j->jm->client_grace > 0.;
}

/* --- claims --- */

static void gone(struct claim *c, bool canceled)
{
    struct jm_job *j = list_entry(c, struct jm_job, client.claim);

    if (j->jm->client->losing && returns(j))
        wait_for_client(j);
    else
        cancel(j, JM_CLIENT_GONE);
}

static void take(struct jm_job *j, const flux_msg_t *req)
{
    list_remove(&j->client.node);
    if (claim_take_sender(j->jm->clients, &j->client.claim, req, gone) < 0)
        flux_log(j->jm->h, LOG_WARNING,
                 "out of memory: job %" PRIu64 " does not end with its client", j->id);
}

bool jm_client_begin(struct jm_job *j, const flux_msg_t *req, bool lost)
{
    if (!(j->st.flags & JOB_FLAG_CLIENT))
        return true;
    if (lost && !returns(j))
        return false;
    if (lost)
        wait_for_client(j);
    else
        take(j, req);
    return true;
}

void jm_client_lost(struct jm *jm, const idset_t *ranks)
{
    jm->client->losing = true;
    claims_lost(jm->clients, ranks);
    jm->client->losing = false;
}

void jm_client_claim_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_claim in = {0};
    struct jm_job *j;
    json_t *owner;

    if (jm_request_early(jm, req, jm_client_claim_cb) ||
        flux_request_decode(h, req, &job_claim_schema, &in, &owner) < 0)
        return;
    j = jm_job_find(jm, in.id);
    if (!j || !jm_state_active(j)) {
        flux_respond_error(h, req, ENOENT, "no job %" PRIu64 " is active", in.id);
    } else if (!jm_request_may(req, j->st.userid)) {
        flux_respond_error(h, req, EPERM, "job %" PRIu64 " is somebody else's", in.id);
    } else if (!(j->st.flags & JOB_FLAG_RETURNS)) {
        flux_respond_error(h, req, EINVAL, "job %" PRIu64 " does not wait for its client", in.id);
    } else {
        claim_drop(jm->clients, &j->client.claim);
        take(j, req);
        flux_respond(h, req, "{}");
    }
    json_decref(owner);
}

/* --- the part --- */

int jm_client_create(struct jm *jm)
{
    struct jm_client *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->client = p;
    list_init(&p->without);
    return (p->timer = flux_timer_create(jm->r, timer_cb, jm)) ? 0 : -1;
}

void jm_client_destroy(struct jm *jm)
{
    struct jm_client *p = jm->client;

    if (!p)
        return;
    flux_watcher_destroy(p->timer);
    free(p);
    jm->client = NULL;
}
