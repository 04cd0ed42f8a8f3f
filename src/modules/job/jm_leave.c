/* jm_leave.c - job.leave: the jobs on nodes end before the nodes leave the session.
 *
 * The nodes are drained already, so that the scheduler does not allocate their resources any more.
 * Jobs that run there may end by themselves; after a grace period, if the request has one, they are
 * ended by an exception of type "node-left".  The request is answered when no job has resources
 * there.
 *
 * Invariants:
 *  1. `left` is the number of jobs that have resources of the nodes of a request.
 *  2. A waiting request is answered once the last end is recorded: with the transaction that has
 *     it, regardless of later changes.
 *
 * Failure: the request of a broker that is gone is dropped; but jobs that are being ended still
 * end.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job_wire.h"
#include "libutil/invariant.h"

struct jm_leave {
    struct list_node leavers;
};

struct leaver {
    struct claim claim;
    struct list_node node;
    struct jm *jm;
    flux_msg_t *req;
    idset_t *nodes;
    char *reason;
    size_t left;
    flux_watcher_t *timer; /* of the grace period; NULL: none */
};

static void leaver_free(struct leaver *l)
{
    claim_drop(l->jm->senders, &l->claim);
    list_remove(&l->node);
    flux_watcher_destroy(l->timer);
    flux_msg_destroy(l->req);
    idset_destroy(l->nodes);
    free(l->reason);
    free(l);
}

static void gone(struct claim *c, bool canceled)
{
    leaver_free(list_entry(c, struct leaver, claim));
}

/* Has the job resources on these nodes? */
static bool is_there(const struct jm_job *j, const idset_t *nodes)
{
    struct rset_node node;

    for (uint32_t r = idset_first(nodes); j->r && r != IDSET_NONE; r = idset_next(nodes, r)) {
        if (rset_find(j->r, r, &node))
            return true;
    }
    return false;
}

void jm_leave_moved(struct jm_job *j, bool there)
{
    LIST_FOREACH(it, &j->jm->leave->leavers)
    {
        struct leaver *l = list_entry(it, struct leaver, node);

        if (!is_there(j, l->nodes))
            continue;
        INVARIANT(1, there || l->left > 0);
        l->left += there ? 1 : (size_t)-1;
    }
}

void jm_leave_check(struct jm *jm)
{
    LIST_FOREACH_SAFE(it, tmp, &jm->leave->leavers)
    {
        struct leaver *l = list_entry(it, struct leaver, node);

        if (l->left > 0)
            continue;
        jm_store_answer(jm, l->req, strdup("{}"));
        leaver_free(l);
    }
}

/* The grace period is over: end the jobs that still run there. */
static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct leaver *l = arg;
    struct jm *jm = l->jm;
    char note[512];

    for (struct jm_job *j = jm_job_first(jm), *next; j; j = next) {
        char *ranks;
        idset_t *nodes;

        next = jm_job_next(j);
        if (j->st.state != JOB_STATE_RUN || !is_there(j, l->nodes))
            continue;
        nodes = rset_ranks(j->r);
        ranks = nodes && idset_keep(nodes, l->nodes) == 0 ? idset_format(nodes, 0) : NULL;
        snprintf(note, sizeof(note), "rank%s %s: %s", idset_count(nodes) == 1 ? "" : "s",
                 ranks ? ranks : "?", l->reason);
        jm_state_exception(j, "node-left", JOB_SEVERITY_FATAL, note, flux_msg_userid(l->req), true);
        free(ranks);
        idset_destroy(nodes);
    }
    jm_module_kick(jm);
}

static struct leaver *leaver_create(struct jm *jm, const flux_msg_t *req,
                                    const struct job_leave *in, errmsg_t *err)
{
    struct leaver *l = calloc(1, sizeof(*l));

    errmsg_set(err, "the job module is out of memory");
    if (!l)
        return NULL;
    l->jm = jm;
    list_init(&l->node);
    list_append(&jm->leave->leavers, &l->node);
    l->req = flux_msg_incref(req);
    l->reason = strdup(in->reason);
    if (!(l->nodes = idset_parse(in->ranks, err)) || !l->reason ||
        claim_take(jm->senders, &l->claim, req, gone) < 0 ||
        (in->grace >= 0. && !(l->timer = flux_timer_create(jm->r, timer_cb, l)))) {
        int saved = errno;

        leaver_free(l);
        errno = saved;
        return NULL;
    }
    return l;
}

void jm_leave_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_leave in = {0};
    struct leaver *l;
    errmsg_t err;
    json_t *owner;

    if (jm_request_early(jm, req, jm_leave_cb) ||
        flux_request_decode(h, req, &job_leave_schema, &in, &owner) < 0)
        return;
    if (!(l = leaver_create(jm, req, &in, &err))) {
        flux_respond_error(h, req, errno, "%s", err.text);
    } else {
        for (struct jm_job *j = jm_job_first(jm); j; j = jm_job_next(j))
            l->left += (JOB_STATE_BIT(j->st.state) & JOB_STATES_RUNNING) && is_there(j, l->nodes);
        if (l->timer)
            flux_timer_start(l->timer, in.grace, 0.);
        jm_module_kick(jm);
    }
    json_decref(owner);
}

int jm_leave_create(struct jm *jm)
{
    struct jm_leave *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->leave = p;
    list_init(&p->leavers);
    return 0;
}

void jm_leave_destroy(struct jm *jm)
{
    struct list_node *n;

    if (!jm->leave)
        return;
    while ((n = list_first(&jm->leave->leavers)))
        leaver_free(list_entry(n, struct leaver, node));
    free(jm->leave);
    jm->leave = NULL;
}
