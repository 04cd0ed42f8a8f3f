/* jm_control.c - control of jobs: job.cancel, job.raise, job.kill, job.urgency, job.memo.
 *
 * The first four requests have a set of ids, act on each job (jm_many.c), and are answered once the
 * changes are recorded: {"count":n,"errors":[[id,errno,"sentence"]...]}.  job.cancel with the flag
 * "no response" and a match tag is libflux's message for a dropped stream (job.wait, job.list,
 * job.watch): every service NAME gets it as NAME.cancel.  A request that arrives again, since a
 * broker on its way has died, takes effect once (jm_repeat.c): no signal is sent twice.
 *
 * Invariant: a job is controlled only by its user and by the owner of the session.
 *
 * Failure: an error for one job does not affect the others; at most ERRORS_MAX are reported.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/cancel_wire.h"
#include "libjob/job_wire.h"

#define ERRORS_MAX 10000
#define NOTE_MAX 4096 /* bytes: notes and types are kept as long as the job is */
#define TYPE_MAX 64

struct action {
    uint32_t uid;
    uint64_t number;  /* of the request, see jm_repeat.c; 0: none */
    const char *done; /* words of the log for the action */
    const char *type, *note;
    int severity;
    int signum;
    int urgency;
};

typedef int (*action_f)(struct jm_job *j, const struct action *a, errmsg_t *err);

static int no_job(struct jm *jm, uint32_t id, errmsg_t *err)
{
    if (jm_ended_find(jm, id))
        return errmsg_fail(err, EINVAL, "job %u has ended already", id);
    return errmsg_fail(err, ENOENT, "there is no job %u (any more)", id);
}

static int act_on(struct jm *jm, const flux_msg_t *req, uint32_t id, action_f fn,
                  const struct action *a, errmsg_t *err)
{
    struct jm_job *j = jm_job_find(jm, id);

    if (!j)
        return no_job(jm, id, err);
    if (!jm_request_may(req, j->st.userid))
        return errmsg_fail(err, EPERM, "job %u is somebody else's", id);
    if (j->st.state == JOB_STATE_INACTIVE)
        return errmsg_fail(err, EINVAL, "job %u has ended already", id);
    return fn(j, a, err);
}

/* A request in progress. */
struct acting {
    struct jm_many many;
    struct jm_repeated repeated;
    flux_msg_t *req; /* the texts of `a` are in `owner` */
    json_t *owner;
    struct action a;
    action_f fn;
    idset_t *ids;
    uint32_t next;
    struct job_acted acted;
    size_t nerrors;
};

static void acting_free(struct jm_many *m)
{
    struct acting *x = list_entry(m, struct acting, many);

    jm_repeat_drop(m->jm, &x->repeated);
    json_decref(x->acted.errors);
    json_decref(x->owner);
    idset_destroy(x->ids);
    flux_msg_destroy(x->req);
    free(x);
}

static void acted(struct acting *x)
{
    struct jm *jm = x->many.jm;
    char *ids = x->acted.count > 0 ? idset_format(x->ids, 0) : NULL;
    char on[256], *text;

    if (ids) {
        snprintf(on, sizeof(on), "%u job%s of %s", x->acted.count, x->acted.count == 1 ? "" : "s",
                 ids);
        jm_journal_request(jm, x->req, x->a.done, on, x->a.note);
    }
    free(ids);
    text = flux_schema_encode(&job_acted_schema, &x->acted);
    x->repeated.recorded = x->acted.count > 0;
    jm_repeat_end(jm, &x->repeated, text ? 0 : ENOMEM,
                  text ? text : "the job module is out of memory");
    free(text);
    acting_free(&x->many);
}

static bool act_some(struct jm_many *m, struct flux_slice *slice)
{
    struct acting *x = list_entry(m, struct acting, many);
    errmsg_t err;

    for (; x->next != IDSET_NONE && flux_slice_more(slice); x->next = idset_next(x->ids, x->next)) {
        if (act_on(m->jm, x->req, x->next, x->fn, &x->a, &err) == 0)
            x->acted.count++;
        else if (x->nerrors++ < ERRORS_MAX)
            job_error_add(&x->acted.errors, x->next, errno, err.text);
    }
    if (x->next != IDSET_NONE)
        return false;
    acted(x);
    return true;
}

/* Act on all jobs of the request, and answer. */
static void act(struct jm *jm, const flux_msg_t *req, json_t *owner, const char *text, action_f fn,
                const struct action *a)
{
    struct acting *x;
    idset_t *ids;

    if (jm_repeat_seen(jm, req, a->number) || jm_many_full(jm, req) ||
        !(ids = jm_request_ids(jm, req, text)))
        return;
    x = calloc(1, sizeof(*x));
    if (!x || jm_repeat_begin(jm, &x->repeated, req, a->number) < 0) {
        free(x);
        idset_destroy(ids);
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    x->many = (struct jm_many){.step = act_some, .drop = acting_free};
    x->req = flux_msg_incref(req);
    x->owner = json_incref(owner);
    x->a = *a;
    x->a.uid = flux_msg_userid(req);
    x->fn = fn;
    x->ids = ids;
    x->next = idset_first(ids);
    jm_many_start(jm, &x->many);
}

/* --- cancel, raise --- */

static int do_raise(struct jm_job *j, const struct action *a, errmsg_t *err)
{
    if (a->note && strlen(a->note) > NOTE_MAX)
        return errmsg_fail(err, EINVAL, "note: longer than %d bytes", NOTE_MAX);
    if (a->severity > JOB_SEVERITY_FATAL && jm_state_log_full(j))
        return errmsg_fail(err, EFBIG, "the log of job %" PRIu64 " is full", j->id);
    jm_state_exception(j, a->type, a->severity, a->note, a->uid, true);
    return 0;
}

void jm_control_cancel_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_cancel in = {0};
    struct action a = {.done = "canceled", .type = "cancel", .severity = JOB_SEVERITY_FATAL};
    json_t *owner;

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE)) {
        const char *json = flux_msg_json(req);
        struct cancel c;

        owner = json ? flux_schema_decode(&cancel_schema, json, strlen(json), &c, NULL) : NULL;
        if (owner) {
            json_decref(owner);
            claims_cancel(jm->senders, req, c.matchtag);
            return;
        }
    }
    if (jm_request_early(jm, req, jm_control_cancel_cb) ||
        flux_request_decode(h, req, &job_cancel_schema, &in, &owner) < 0)
        return;
    a.note = in.note;
    a.number = in.number;
    act(jm, req, owner, in.ids, do_raise, &a);
    json_decref(owner);
}

static bool is_word(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

    return n > 0 && n <= TYPE_MAX && !s[n];
}

void jm_control_raise_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_raise in = {0};
    struct action a = {.done = "raised an exception for"};
    json_t *owner;

    if (jm_request_early(jm, req, jm_control_raise_cb) ||
        flux_request_decode(h, req, &job_raise_schema, &in, &owner) < 0)
        return;
    a.type = in.type;
    a.note = in.note;
    a.severity = in.severity;
    a.number = in.number;
    if (!is_word(in.type))
        flux_respond_error(h, req, EINVAL,
                           "type: '%.64s' is not a word of at most %d letters, digits, '-' and '_'",
                           in.type, TYPE_MAX);
    else if (in.severity < 0 || in.severity > JOB_SEVERITY_MAX)
        flux_respond_error(h, req, EINVAL, "severity: %d is not between 0 and %d", in.severity,
                           JOB_SEVERITY_MAX);
    else
        act(jm, req, owner, in.ids, do_raise, &a);
    json_decref(owner);
}

/* --- kill --- */

static int do_kill(struct jm_job *j, const struct action *a, errmsg_t *err)
{
    if (!jm_exec_launched(j))
        return errmsg_fail(err, EINVAL, "job %" PRIu64 " is not running", j->id);
    jm_exec_kill(j->jm, j->id, a->signum);
    return 0;
}

void jm_control_kill_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_kill in = {0};
    struct action a = {.done = "sent a signal to"};
    json_t *owner;

    if (jm_request_early(jm, req, jm_control_kill_cb) ||
        flux_request_decode(h, req, &job_kill_schema, &in, &owner) < 0)
        return;
    a.signum = in.signum;
    a.number = in.number;
    if (in.signum <= 0 || in.signum >= JM_SIGNALS)
        flux_respond_error(h, req, EINVAL, "%d is not a signal", in.signum);
    else
        act(jm, req, owner, in.ids, do_kill, &a);
    json_decref(owner);
}

/* --- urgency --- */

static int do_urgency(struct jm_job *j, const struct action *a, errmsg_t *err)
{
    struct job_event ev = {.event = JOB_EV_URGENCY, .urgency = a->urgency, .userid = a->uid};

    if (j->st.state > JOB_STATE_SCHED)
        return errmsg_fail(err, EINVAL, "job %" PRIu64 " has resources already", j->id);
    if (j->st.urgency == a->urgency)
        return 0;
    if (jm_state_log_full(j))
        return errmsg_fail(err, EFBIG, "the log of job %" PRIu64 " is full", j->id);
    jm_state_event(j, &ev);
    if (j->st.state == JOB_STATE_SCHED) {
        struct job_event pr = {.event = JOB_EV_PRIORITY, .priority = a->urgency};

        jm_state_event(j, &pr);
        jm_sched_urgency(j);
    }
    jm_state_advance(j);
    return 0;
}

void jm_control_urgency_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_urgency in = {0};
    struct action a = {.done = "changed the urgency of"};
    json_t *owner;

    if (jm_request_early(jm, req, jm_control_urgency_cb) ||
        flux_request_decode(h, req, &job_urgency_schema, &in, &owner) < 0)
        return;
    a.urgency = (int)in.urgency;
    a.number = in.number;
    if (in.urgency > JOB_URGENCY_MAX)
        flux_respond_error(h, req, EINVAL, "urgency: %u is above %d", in.urgency, JOB_URGENCY_MAX);
    else
        act(jm, req, owner, in.ids, do_urgency, &a);
    json_decref(owner);
}

/* --- memo --- */

const char *jm_control_uri(const struct jm_job *j)
{
    return j->uri;
}

void jm_control_uri_forget(struct jm_job *j)
{
    free(j->uri);
    j->uri = NULL;
    jm_store_put(j, JM_STORE_URI);
}

void jm_control_job_clear(struct jm_job *j)
{
    free(j->uri);
}

void jm_control_memo_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_memo in = {0};
    struct jm_job *j;
    json_t *owner;
    char *uri;

    if (jm_request_early(jm, req, jm_control_memo_cb) ||
        flux_request_decode(h, req, &job_memo_schema, &in, &owner) < 0)
        return;
    j = jm_job_find(jm, in.id);
    if (!j || !jm_state_active(j))
        flux_respond_error(h, req, ENOENT, "no job %" PRIu64 " is running", in.id);
    else if (!jm_request_may(req, j->st.userid))
        flux_respond_error(h, req, EPERM, "job %" PRIu64 " is somebody else's", in.id);
    else if (strlen(in.uri) > 4096)
        flux_respond_error(h, req, EINVAL, "uri: longer than 4096 bytes");
    else if (!(uri = strdup(in.uri)))
        flux_respond_error(h, req, ENOMEM, "the job module is out of memory");
    else {
        free(j->uri);
        j->uri = uri;
        jm_store_put(j, JM_STORE_URI);
        jm_store_dirty(j);
        jm_store_answer(jm, req, strdup("{}"));
    }
    json_decref(owner);
}
