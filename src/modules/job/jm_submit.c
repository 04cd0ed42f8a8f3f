/* jm_submit.c - job.submit: many jobs in one request (libjob/submit.h).
 *
 * A request is checked when it arrives, and then decoded slice by slice (libflux/slice.h), one in
 * each pass, so that a frame of ten thousand jobs delays no other request for longer than a slice.
 * Requests are decoded one after the other, and the ids of one are consecutive.  A refused job has
 * no id, and does not affect the others.
 *
 * Once a request is decoded, its jobs are recorded in one transaction, and then the ids are sent.
 * The jobs proceed meanwhile: a job may run before its client learns its id, except in sessions
 * with a statedir, where a job starts only once it is recorded.
 *
 * Invariants:
 *  1. Every request is answered once: with ids and refusals, or with the error of the store.  One
 *     that was sent again gets the answer of the first (jm_repeat.c).
 *  2. At most WAITING_MAX requests wait to be decoded.  Requests that wait to be decoded or
 *     recorded have at most WAITING_BYTES together, unless there is only one; further ones are
 *     refused with EAGAIN.
 *
 * Failure: a malformed frame is refused as a whole with EPROTO.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job_wire.h"

#define WAITING_MAX 4096
#define WAITING_BYTES (256u << 20)
#define BYTES_MAX (48u << 20) /* maximum for one transaction */
#define ENV_MAX (8u << 20)

struct jm_submit {
    struct list_node waiting; /* struct jm_submission, until it is completely decoded */
    size_t n;
    size_t bytes;               /* of requests that wait to be decoded or recorded */
    uint64_t accepted, refused; /* jobs */
};

static void submission_free(struct jm *jm, struct jm_submission *sub)
{
    jm_store_submission_clear(sub);
    jm_repeat_drop(jm, &sub->repeated);
    list_remove(&sub->node);
    jm->submit->bytes -= sub->counted;
    for (uint32_t i = 0; sub->envs && i < sub->nenvs; i++)
        jm_env_put(jm, sub->envs[i]);
    free(sub->envs);
    json_decref(sub->errors);
    flux_msg_destroy(sub->req);
    free(sub);
}

static void answer(struct jm *jm, struct jm_submission *sub)
{
    struct job_submitted s = {.first = sub->first, .count = sub->count, .errors = sub->errors};

    char *text = sub->errnum ? NULL : flux_schema_encode(&job_submitted_schema, &s);

    if (text)
        jm_repeat_end(jm, &sub->repeated, 0, text);
    else
        jm_repeat_end(jm, &sub->repeated, sub->errnum ? sub->errnum : ENOMEM,
                      sub->errnum ? sub->err.text : "the job module is out of memory");
    free(text);
}

size_t jm_submit_bytes(const struct jm_submission *sub)
{
    return sub->bytes;
}

void jm_submit_fail(struct jm_submission *sub, int errnum, const char *fmt, ...)
{
    va_list ap;

    sub->errnum = errnum;
    va_start(ap, fmt);
    vsnprintf(sub->err.text, sizeof(sub->err.text), fmt, ap);
    va_end(ap);
}

bool jm_submit_failed(const struct jm_submission *sub)
{
    return sub->errnum != 0;
}

void jm_submit_done(struct jm *jm, struct jm_submission *sub)
{
    answer(jm, sub);
    submission_free(jm, sub);
}

void jm_submit_drop(struct jm *jm, struct jm_submission *sub)
{
    submission_free(jm, sub);
}

static void refuse(struct jm *jm, struct jm_submission *sub, int errnum, const char *text)
{
    jm->submit->refused++;
    if (job_error_add(&sub->errors, sub->index, errnum, text) < 0 && !sub->errnum)
        jm_submit_fail(sub, ENOMEM, "the job module is out of memory");
}

/* --- one job --- */

static int check(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    if (jm_job_count_states(jm, JOB_STATES_PENDING) >= jm->max_queued)
        return errmsg_fail(err, EAGAIN,
                           "%llu jobs are queued already: try again later, or raise job.max-queued",
                           (unsigned long long)jm->max_queued);
    if (jm_job_next_id(jm) > IDSET_MAX)
        return errmsg_fail(err, EOVERFLOW, "there are no job ids left in this session");
    if (spec->impossible)
        return errmsg_fail(err, ENOENT, "%s", spec->impossible);
    if (jm_resources_satisfiable(jm, spec, err) < 0)
        return -1;
    return jm_depend_check(jm, spec, err);
}

/* Check for options that are incompatible with requeue. */
static int check_requeue(const struct jm_spec *spec, uint32_t flags, errmsg_t *err)
{
    if (spec->requeue && spec->survive)
        return errmsg_fail(err, EINVAL,
                           "a job cannot both survive the loss of a node and run again "
                           "(--survive-node-loss, --requeue)");
    if (spec->requeue && (flags & JOB_FLAG_CLIENT))
        return errmsg_fail(err, EINVAL,
                           "a job whose output goes to its client cannot run again: submit it "
                           "(flux submit --requeue)");
    return 0;
}

static void accept_job(struct jm *jm, struct jm_submission *sub, struct jm_job *j,
                       const struct submit_job *sj)
{
    struct job_event ev = {.event = JOB_EV_SUBMIT,
                           .urgency = (int)sj->urgency,
                           .userid = flux_msg_userid(sub->req),
                           .flags = sj->flags};

    if (sub->count++ == 0)
        sub->first = j->id;
    jm_job_reserve(jm, j->id);
    jm->submit->accepted++;
    jm_store_job_submitted(j, sub);
    jm_state_event(j, &ev);
    if (((sj->flags & JOB_FLAG_CLIENT) && sub->gone) || !jm_client_begin(j, sub->req, sub->lost)) {
        jm_state_exception(j, "cancel", JOB_SEVERITY_FATAL, JM_CLIENT_GONE, ev.userid, false);
        return;
    }
    if (jm_depend_add(j) < 0) {
        jm_state_exception(j, "dependency", JOB_SEVERITY_FATAL, "out of memory", ev.userid, false);
        return;
    }
    jm_state_advance(j);
    jm_spec_idle(jm, j->spec, false);
}

static void take(struct jm *jm, struct jm_submission *sub, const struct submit_job *sj)
{
    struct jm_env *env = sub->envs[sj->env];
    struct jm_spec *spec;
    struct jm_job *j;
    errmsg_t err;

    if (!(spec = jm_spec_get(jm, sj->jobspec, sj->len, &err))) {
        refuse(jm, sub, errno, err.text);
        return;
    }
    if (check_requeue(spec, sj->flags, &err) < 0 || check(jm, spec, &err) < 0) {
        refuse(jm, sub, errno, err.text);
        jm_spec_put(jm, spec);
        return;
    }
    if (!(j = jm_job_create(jm, jm_job_next_id(jm), spec, env))) {
        refuse(jm, sub, ENOMEM, "the job module is out of memory");
        jm_spec_put(jm, spec);
        return;
    }
    (void)jm_env_share(env);
    accept_job(jm, sub, j, sj);
}

/* --- the requests --- */

/* Decode some jobs of the first request, and when it is complete, pass it on. */
static void read_slice(struct jm *jm, struct jm_submission *sub)
{
    struct submit_job sj;
    struct flux_slice slice;

    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (flux_slice_more(&slice)) {
        if (submit_job_next(&sub->it, &sj)) {
            take(jm, sub, &sj);
            sub->index++;
            continue;
        }
        list_remove(&sub->node);
        jm->submit->n--;
        if (jm_store_submission_open(sub))
            jm_store_submission(jm, sub);
        else
            jm_submit_done(jm, sub);
        return;
    }
}

void jm_submit_pass(struct jm *jm)
{
    struct list_node *n;

    if (!jm_resources_known(jm) || !(n = list_first(&jm->submit->waiting)))
        return;
    read_slice(jm, list_entry(n, struct jm_submission, node));
    if (!list_empty(&jm->submit->waiting))
        jm_module_kick(jm);
}

static int take_envs(struct jm *jm, struct jm_submission *sub, errmsg_t *err)
{
    struct submit_frame it = sub->it;
    struct submit_env e;

    /* Allocate one element also for a frame without environments. */
    if (!(sub->envs = calloc(sub->it.nenvs + 1, sizeof(struct jm_env *))))
        return errmsg_fail(err, ENOMEM, "the job module is out of memory");
    while (submit_env_next(&it, &e)) {
        if (e.len > ENV_MAX)
            return errmsg_fail(err, E2BIG, "an environment of %zu bytes is too large: at most %u",
                               e.len, ENV_MAX);
        if (!(sub->envs[sub->nenvs] = jm_env_get(jm, e.data, e.len)))
            return errmsg_fail(err, ENOMEM, "the job module is out of memory");
        sub->nenvs++;
    }
    return 0;
}

/* 1: the submission is to be read.  0: it has arrived before.  -1 with errno and an error
 * message. */
static int begin(struct jm *jm, struct jm_submission *sub, errmsg_t *err)
{
    const void *data = flux_msg_payload(sub->req, &sub->bytes);
    const char *why;

    if (submit_decode(data, sub->bytes, &sub->it, err) < 0)
        return -1;
    if (jm_repeat_seen(jm, sub->req, sub->it.number))
        return 0;
    if (sub->bytes > BYTES_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "%zu bytes of jobs are too much for one request: at most %u", sub->bytes,
                           BYTES_MAX);
    if ((why = jm_queue_refuses(jm)))
        return errmsg_fail(err, EBUSY, "no jobs are accepted: %s", why);
    if (jm->submit->n >= WAITING_MAX ||
        (jm->submit->bytes > 0 && jm->submit->bytes + sub->bytes > WAITING_BYTES))
        return errmsg_fail(err, EAGAIN, "too many requests wait to be accepted: try again");
    if (jm_repeat_begin(jm, &sub->repeated, sub->req, sub->it.number) < 0)
        return errmsg_fail(err, ENOMEM, "the job module is out of memory");
    sub->counted = sub->bytes;
    jm->submit->bytes += sub->counted;
    return take_envs(jm, sub, err) < 0 ? -1 : 1;
}

void jm_submit_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct jm_submission *sub;
    errmsg_t err;
    int rc;

    if (jm_request_early(jm, req, jm_submit_cb))
        return;
    if (!(sub = calloc(1, sizeof(*sub)))) {
        flux_respond_error(h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    list_init(&sub->node);
    jm_store_submission_init(sub);
    sub->req = flux_msg_incref(req);
    if ((rc = begin(jm, sub, &err)) <= 0) {
        if (rc < 0)
            flux_respond_error(h, req, errno, "%s", err.text);
        submission_free(jm, sub);
        return;
    }
    list_append(&jm->submit->waiting, &sub->node);
    jm->submit->n++;
    jm_module_kick(jm);
}

bool jm_submit_reads_from(const struct jm *jm, const flux_msg_t *notice)
{
    char sender[FLUX_SENDER_MAX];

    flux_msg_sender(notice, sender, sizeof(sender));
    LIST_FOREACH(it, &jm->submit->waiting)
    {
        if (jm_request_is_from(list_entry(it, struct jm_submission, node)->req, sender, NULL))
            return true;
    }
    return false;
}

void jm_submit_gone(struct jm *jm, const char *sender, const idset_t *ranks)
{
    LIST_FOREACH(it, &jm->submit->waiting)
    {
        struct jm_submission *sub = list_entry(it, struct jm_submission, node);

        if (jm_request_is_from(sub->req, sender, ranks))
            *(ranks ? &sub->lost : &sub->gone) = true;
    }
}

int jm_submit_create(struct jm *jm)
{
    struct jm_submit *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->submit = p;
    list_init(&p->waiting);
    return 0;
}

void jm_submit_destroy(struct jm *jm)
{
    struct jm_submit *p = jm->submit;
    struct list_node *n;

    if (!p)
        return;
    /* With a statedir, none of their jobs can have been started, and the next instance of this
     * module may read the request again. */
    while ((n = list_first(&p->waiting))) {
        struct jm_submission *sub = list_entry(n, struct jm_submission, node);

        if (sub->count > 0 && !jm->durable)
            jm_repeat_end(jm, &sub->repeated, ECONNABORTED,
                          "the job module was unloaded while it read the submission: its jobs were "
                          "not accepted, and those that ran already are ended");
        submission_free(jm, sub);
    }
    free(p);
    jm->submit = NULL;
}

void jm_submit_stats(const struct jm *jm, struct job_stats *st)
{
    st->submitted = jm->submit->accepted;
    st->refused = jm->submit->refused;
}

bool jm_submit_busy(const struct jm *jm)
{
    return !list_empty(&jm->submit->waiting);
}

void jm_submit_withdrawn(struct jm *jm)
{
    jm->submit->accepted--;
}
