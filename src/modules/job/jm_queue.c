/* jm_queue.c - job.queue: stop and disable the queue, and wait until it is empty.
 *
 *    op       what it does
 *    status   nothing
 *    stop     no job is given resources any more      start    undoes it
 *    disable  no job is accepted any more             enable   undoes it
 *    drain    disable; the response comes when no job is left
 *    idle     the response comes when no job runs, and none waits for resources that is not held
 *    end      the session goes down: no job is accepted or started, running jobs are canceled, and
 *             the response comes when none runs; queued jobs stay (not recorded)
 *
 * Whether the queue is stopped or disabled, and why, is recorded under job-queue and survives a
 * restart.
 *
 * Invariant: a waiting request is answered once the last end is recorded.
 *
 * Failure: if a state cannot be recorded, that is reported, and the state applies nevertheless.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job_wire.h"

struct jm_queue {
    bool ending;                /* the session goes down */
    bool stopped;               /* no job is given resources */
    bool disabled;              /* no job is accepted */
    char *reason, *stop_reason; /* of disabled, of stopped; NULL: none */
    struct list_node drains;    /* struct drain */
};

struct drain {
    struct claim claim;
    struct list_node node;
    struct jm *jm;
    flux_msg_t *req;
    unsigned states; /* states in which no job may be */
    bool but_held;   /* except held jobs */
};

struct kept {
    bool accepting;
    bool scheduling;
    const char *reason, *stop_reason;
};
static const struct flux_field kept_fields[] = {
    FLUX_FIELD_BOOL(struct kept, accepting, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct kept, scheduling, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kept, reason, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct kept, stop_reason, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema kept_schema = FLUX_SCHEMA(struct kept, kept_fields);

char *jm_queue_encode(struct jm *jm)
{
    struct kept k = {!jm->queue->disabled, !jm->queue->stopped, jm->queue->reason,
                     jm->queue->stop_reason};

    return flux_schema_encode(&kept_schema, &k);
}

void jm_queue_decode(struct jm *jm, const char *json, size_t len)
{
    struct kept k = {0};
    errmsg_t err;
    json_t *owner = flux_schema_decode(&kept_schema, json, len, &k, &err);

    if (!owner) {
        flux_log(jm->h, LOG_ERR, "job-queue in the store cannot be read: %s", err.text);
        return;
    }
    jm->queue->disabled = !k.accepting;
    jm->queue->stopped = !k.scheduling;
    jm->queue->reason = k.reason ? strdup(k.reason) : NULL;
    jm->queue->stop_reason = k.stop_reason ? strdup(k.stop_reason) : NULL;
    json_decref(owner);
}

static char *status_text(struct jm *jm)
{
    struct job_queue_status st = {
        .accepting = !jm->queue->disabled && !jm->queue->ending,
        .scheduling = !jm->queue->stopped && !jm->queue->ending,
        .depend = jm_job_count_states(jm, JOB_STATE_BIT(JOB_STATE_DEPEND)),
        .priority = jm_job_count_states(jm, JOB_STATE_BIT(JOB_STATE_PRIORITY)),
        .sched = jm_job_count_states(jm, JOB_STATE_BIT(JOB_STATE_SCHED)),
        .held = jm_job_count_held(jm),
        .run = jm_job_count_states(jm, JOB_STATE_BIT(JOB_STATE_RUN)),
        .cleanup = jm_job_count_states(jm, JOB_STATE_BIT(JOB_STATE_CLEANUP)),
        .inactive = jm_ended_count(jm),
        .reason = jm->queue->disabled ? jm->queue->reason : jm->queue->stop_reason};

    return flux_schema_encode(&job_queue_status_schema, &st);
}

static void respond_status(struct jm *jm, const flux_msg_t *req)
{
    char *json = status_text(jm);

    if (json)
        flux_respond(jm->h, req, json);
    else
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
    free(json);
}

/* --- waiting requests --- */

static void drain_free(struct drain *d)
{
    claim_drop(d->jm->senders, &d->claim);
    list_remove(&d->node);
    flux_msg_destroy(d->req);
    free(d);
}

static void gone(struct claim *c, bool canceled)
{
    drain_free(list_entry(c, struct drain, claim));
}

void jm_queue_check(struct jm *jm)
{
    if (jm_store_busy(jm))
        return;
    LIST_FOREACH_SAFE(it, tmp, &jm->queue->drains)
    {
        struct drain *d = list_entry(it, struct drain, node);

        if (jm_job_count_states(jm, d->states) > (d->but_held ? jm_job_count_held(jm) : 0))
            continue;
        respond_status(jm, d->req);
        drain_free(d);
    }
}

static void wait_empty(struct jm *jm, const flux_msg_t *req, unsigned states, bool but_held)
{
    struct drain *d = calloc(1, sizeof(*d));

    if (!d) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    d->jm = jm;
    d->states = states;
    d->but_held = but_held;
    d->req = flux_msg_incref(req);
    list_init(&d->node);
    list_append(&jm->queue->drains, &d->node);
    if (claim_take(jm->senders, &d->claim, req, gone) < 0) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        drain_free(d);
        return;
    }
    jm_module_kick(jm);
}

/* --- operations --- */

static void set_reason(char **dst, const char *reason)
{
    free(*dst);
    *dst = reason && reason[0] ? strdup(reason) : NULL;
}

static void changed(struct jm *jm, const flux_msg_t *req)
{
    jm_store_queue(jm);
    jm_sched_enable(jm);
    jm_store_answer(jm, req, status_text(jm));
}

static void op_status(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    respond_status(jm, req);
}

static void op_stop(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    jm->queue->stopped = true;
    set_reason(&jm->queue->stop_reason, reason);
    changed(jm, req);
}

static void op_start(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    jm->queue->stopped = false;
    set_reason(&jm->queue->stop_reason, NULL);
    changed(jm, req);
}

static void op_disable(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    jm->queue->disabled = true;
    set_reason(&jm->queue->reason, reason);
    changed(jm, req);
}

static void op_enable(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    jm->queue->disabled = false;
    set_reason(&jm->queue->reason, NULL);
    changed(jm, req);
}

static void op_drain(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    set_reason(&jm->queue->reason, reason && reason[0] ? reason : "the queue is drained");
    jm->queue->disabled = true;
    jm_store_queue(jm);
    wait_empty(jm, req, JOB_STATES_ACTIVE, false);
}

static void op_idle(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    wait_empty(jm, req, JOB_STATES_RUNNING | JOB_STATE_BIT(JOB_STATE_SCHED), true);
}

static void op_end(struct jm *jm, const flux_msg_t *req, const char *reason)
{
    jm->queue->ending = true;
    jm_sched_enable(jm);
    for (struct jm_job *j = jm_job_first(jm), *next; j; j = next) {
        next = jm_job_next(j);
        if (j->st.state == JOB_STATE_RUN)
            jm_state_exception(j, "cancel", JOB_SEVERITY_FATAL, "the session ends",
                               flux_msg_userid(req), true);
    }
    wait_empty(jm, req, JOB_STATES_RUNNING, false);
}

static const struct {
    const char *name;
    void (*fn)(struct jm *jm, const flux_msg_t *req, const char *reason);
    bool anybody;
    const char *done; /* words of the log for the operation; NULL: none */
} ops[] = {
    {"status", op_status, true, NULL},
    {"stop", op_stop, false, "stopped"},
    {"start", op_start, false, "started"},
    {"disable", op_disable, false, "disabled submission to"},
    {"enable", op_enable, false, "enabled submission to"},
    {"drain", op_drain, false, "drained"},
    {"idle", op_idle, true, NULL},
    {"end", op_end, false, "ended all jobs of"},
};

void jm_queue_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_queue in = {0};
    json_t *owner;
    size_t i, n = sizeof(ops) / sizeof(ops[0]);

    if (jm_request_early(jm, req, jm_queue_cb) ||
        flux_request_decode(h, req, &job_queue_schema, &in, &owner) < 0)
        return;
    for (i = 0; i < n && strcmp(ops[i].name, in.op) != 0; i++)
        ;
    if (i == n)
        flux_respond_error(h, req, EINVAL,
                           "op: '%s' is none of status, stop, start, disable, enable, drain, idle",
                           in.op);
    else if (!ops[i].anybody && !jm_request_may(req, FLUX_USERID_UNKNOWN))
        flux_respond_error(h, req, EPERM, "only the owner of the session may %s the queue", in.op);
    else {
        if (ops[i].done)
            jm_journal_request(jm, req, ops[i].done, "the queue", in.reason);
        ops[i].fn(jm, req, in.reason);
    }
    json_decref(owner);
    jm_module_kick(jm);
}

int jm_queue_create(struct jm *jm)
{
    struct jm_queue *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->queue = p;
    list_init(&p->drains);
    return 0;
}

void jm_queue_destroy(struct jm *jm)
{
    struct jm_queue *p = jm->queue;
    struct list_node *n;

    if (!p)
        return;
    while ((n = list_first(&p->drains)))
        drain_free(list_entry(n, struct drain, node));
    free(p->reason);
    free(p->stop_reason);
    free(p);
    jm->queue = NULL;
}

bool jm_queue_ending(const struct jm *jm)
{
    return jm->queue->ending;
}

bool jm_queue_stopped(const struct jm *jm, const char **reason)
{
    if (reason)
        *reason = jm->queue->stop_reason;
    return jm->queue->stopped;
}

const char *jm_queue_refuses(const struct jm *jm)
{
    if (jm->queue->ending)
        return "the session goes down";
    if (!jm->queue->disabled)
        return NULL;
    return jm->queue->reason ? jm->queue->reason : "submission is disabled";
}
