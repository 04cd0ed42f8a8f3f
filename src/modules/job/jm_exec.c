/* jm_exec.c - the link to wrexec, which runs jobs.
 *
 * Purpose: the stream wrexec.jobs reports the ends of jobs, and failures.  The requests
 * wrexec.launch and wrexec.kill carry jobs to be started and signals to be sent, each with all
 * entries that wait, in one message.  A courier sends them: the next request is sent when wrexec
 * has answered the preceding one, and a request that finds a full mailbox is sent again, so that no
 * job and no signal is lost under load.
 *
 *    step of a job                  when
 *    "start" is logged              wrexec is attached
 *    the job is sent to wrexec      at once; in a session with a statedir, when "start" is recorded
 *
 * The first response of a stream lists the jobs that run.  A job that should run and is not in the
 * list has not survived (the session or wrexec was restarted), and is recorded as lost.  A job in
 * the list that is not known here is killed.
 *
 * Invariants:
 *  1. A job is sent to wrexec at most once in each attempt, and only after its event "start"; after
 *     a restart, no job whose log has that event in its last attempt is sent.  Reports about an
 *     earlier attempt have no effect.
 *  2. Signals for a job are sent after its launch, and not to a later attempt.
 *  3. A stream is requested only when no other request is outstanding, so that its first response
 *     is not overtaken by the launch of a job.
 *
 * Failure: without wrexec, jobs wait; the stream is requested again every AGAIN seconds.  When a
 * request fails with another error than EAGAIN, it is not known whether it was handled: the stream
 * is requested again, which shows it, and signals are sent again.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/wrexec_wire.h"
#include "libjob/job_wire.h"
#include "libservice/follow.h"
#include "libschema/jsonout.h"
#include "libutil/invariant.h"

#define AGAIN 0.25

struct jm_exec {
    follow_t *stream; /* wrexec.jobs */
    bool attached;
    struct list_node launch;        /* jobs to be launched */
    struct jm_ids kill[JM_SIGNALS]; /* to be sent, by signal */
    bool killing;
    courier_t *courier; /* for requests to wrexec */
    struct jm_ids sent; /* the last kill that was sent, and its signal */
    int sent_signal;
    uint64_t launches, ended;
};

/* --- starting --- */

void jm_exec_job_init(struct jm_job *j)
{
    list_init(&j->exec.node);
}

bool jm_exec_launching(const struct jm_job *j)
{
    return j->exec.launching;
}

bool jm_exec_launched(const struct jm_job *j)
{
    return j->exec.launched;
}

void jm_exec_launch(struct jm_job *j)
{
    j->exec.launching = true;
    list_append(&j->jm->exec->launch, &j->exec.node);
    jm_module_kick(j->jm);
}

void jm_exec_recorded(struct jm_job *j)
{
    if (!(j->st.seen & (1u << JOB_EV_START)))
        return;
    j->exec.start_recorded = true;
    if (list_empty(&j->exec.node))
        list_append(&j->jm->exec->launch, &j->exec.node);
}

void jm_exec_forget(struct jm_job *j)
{
    j->exec.launching = false;
    list_remove(&j->exec.node);
}

void jm_exec_done(struct jm_job *j)
{
    j->exec.launched = j->exec.start_recorded = false;
}

void jm_exec_restore(struct jm_job *j)
{
    j->exec.launched = true;
}

static void send_launches(struct jm *jm, launchbuf_t *buf)
{
    size_t len;
    void *data;

    if (exec_launchbuf_count(buf) == 0)
        return;
    jm->exec->launches += exec_launchbuf_count(buf);
    HOLD_POINT(&jm->hold, "jobs-launching");
    if ((data = exec_launchbuf_take(buf, &len)) &&
        courier_post(jm->exec->courier, "wrexec.launch", FLUX_NODEID_ANY, data, len) == 0) {
        HOLD_POINT(&jm->hold, "jobs-launched");
        return;
    }
    /* The jobs in it count as running until the stream's first response says otherwise. */
    follow_end(jm->exec->stream, ENOMEM, "out of memory for a launch");
}

static void launched(struct jm_job *j)
{
    INVARIANT(1, j->st.seen & (1u << JOB_EV_START));
    j->exec.launching = false;
    j->exec.launched = true;
    jm_journal_add(j->jm, JM_JOURNAL_STARTED, j->id);
    jm_spec_idle(j->jm, j->spec, true);
    if (j->spec->req.duration > 0)
        jm_time_set(j, JM_TIME_LIMIT, flux_reactor_now(j->jm->r) + j->spec->req.duration);
}

static void launch_one(struct jm_job *j, launchbuf_t *buf)
{
    struct jm *jm = j->jm;
    errmsg_t err = {"out of memory"};
    int rc = jm_launch_add(j, buf, &err);

    if (rc < 0 && errno == EMSGSIZE && exec_launchbuf_count(buf) > 0) {
        send_launches(jm, buf);
        rc = jm_launch_add(j, buf, &err);
    }
    if (rc < 0)
        jm_state_exception(j, "exec", JOB_SEVERITY_FATAL, err.text, j->st.userid, false);
    else
        launched(j);
}

static void flush_launches(struct jm *jm)
{
    struct jm_exec *x = jm->exec;
    launchbuf_t *buf = NULL;
    struct list_node *n;

    while ((n = list_first(&x->launch))) {
        struct jm_job *j = list_entry(n, struct jm_job, exec.node);

        if (!buf && !(buf = exec_launchbuf_create()))
            break;
        list_remove(n);
        if (!(j->st.seen & (1u << JOB_EV_START))) {
            jm_state_event_plain(j, JOB_EV_START);
            jm_depend_started(j);
        }
        /* With a statedir, jm_exec_recorded() calls this again. */
        if (!jm->durable || j->exec.start_recorded)
            launch_one(j, buf);
    }
    if (buf)
        send_launches(jm, buf);
    exec_launchbuf_destroy(buf);
}

/* --- signals --- */

void jm_exec_kill(struct jm *jm, uint64_t id, int signum)
{
    struct jm_exec *x = jm->exec;

    if (signum <= 0 || signum >= JM_SIGNALS || jm_ids_add(&x->kill[signum], id) < 0)
        return;
    x->killing = true;
    jm_module_kick(jm);
}

static void drop_id(struct jm_ids *v, uint64_t id)
{
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        if (v->ids[i] != id)
            v->ids[n++] = v->ids[i];
    }
    v->n = n;
}

void jm_exec_unkill(struct jm_job *j)
{
    struct jm_exec *x = j->jm->exec;

    for (int sig = 1; x->killing && sig < JM_SIGNALS; sig++)
        drop_id(&x->kill[sig], j->id);
    drop_id(&x->sent, j->id);
}

static void flush_kills(struct jm *jm)
{
    struct jm_exec *x = jm->exec;

    for (int sig = 1; x->killing && sig < JM_SIGNALS; sig++) {
        struct jm_ids *v = &x->kill[sig];
        strbuf_t *sb;
        char *json;

        if (v->n == 0)
            continue;
        sb = strbuf_create(0);
        jsonout_object(sb, NULL);
        jm_json_ids(sb, "ids", v, v->n);
        jsonout_int(sb, "signum", sig);
        jsonout_object_end(sb);
        if (!sb || !(json = strbuf_take(sb)))
            return; /* it is tried again in the next pass */
        if (courier_post_json(x->courier, "wrexec.kill", FLUX_NODEID_ANY, json) < 0)
            return;
        jm_ids_clear(&x->sent);
        x->sent = *v;
        x->sent_signal = sig;
        *v = (struct jm_ids){0};
        return; /* the next signal is sent when this one was answered */
    }
    x->killing = false;
}

void jm_exec_flush(struct jm *jm)
{
    if (!jm->exec->attached || courier_busy(jm->exec->courier))
        return;
    flush_launches(jm);
    if (jm->exec->attached)
        flush_kills(jm);
}

bool jm_exec_busy(const struct jm *jm)
{
    LIST_FOREACH(it, &jm->exec->launch)
    {
        if (jm->durable && list_entry(it, struct jm_job, exec.node)->exec.start_recorded)
            return true;
    }
    return false;
}

/* --- reports of wrexec --- */

/* A status, as of wait(2), for the whole job: that of a task with the exit code that wrexec has
 * determined, else one made from that code. */
static int worst_status(const struct wrexec_ended *e)
{
    for (size_t i = 0; i < json_array_size(e->status); i++) {
        const json_t *s = json_array_get(json_array_get(e->status, i), 0);
        int status = (int)json_integer_value(s);

        if (json_is_integer(s) && job_status_code(status) == e->code)
            return status;
    }
    if (e->code > 128 && e->code < 128 + JM_SIGNALS)
        return e->code - 128;
    return (e->code & 0xff) << 8;
}

static size_t count_failed(const json_t *status)
{
    size_t i, n = 0;
    json_t *pair;

    json_array_foreach((json_t *)status, i, pair)
    {
        idset_t *tasks = json_integer_value(json_array_get(pair, 0))
                             ? idset_parse(json_string_value(json_array_get(pair, 1)), NULL)
                             : NULL;

        n += idset_count(tasks);
        idset_destroy(tasks);
    }
    return n;
}

/* The failed tasks, for the event "finish": job_failed_count().  NULL if there are none, or memory
 * is short: clients that wait for the job then get only its exit code. */
static json_t *failed_tasks(const struct jm_job *j, const struct wrexec_ended *e)
{
    size_t i, n = json_array_size(e->failed) ? count_failed(e->status) : 0;
    json_t *first = json_array(), *one, *all;
    struct rset_node node;

    json_array_foreach(e->failed, i, one)
    {
        json_int_t rank = json_integer_value(json_array_get(one, 1));
        bool known = j->r && rset_find(j->r, (uint32_t)rank, &node);

        if (i < JOB_FAILED_MAX)
            (void)json_array_append_new(
                first,
                json_pack("[I, I, s, I]", json_integer_value(json_array_get(one, 0)), rank,
                          known ? node.host : "", json_integer_value(json_array_get(one, 2))));
    }
    if (n == 0 || json_array_size(first) == 0) {
        json_decref(first);
        return NULL;
    }
    if (!(all = json_pack("{s:I, s:o}", "count", (json_int_t)n, "first", first)))
        json_decref(first);
    return all;
}

/* A report about an earlier attempt: a stream that begins repeats the last ends. */
static bool is_past(const struct jm_job *j, uint32_t attempt)
{
    return attempt && attempt != j->st.requeues + 1;
}

static void take_ended(struct jm *jm, const json_t *entry)
{
    struct wrexec_ended e = {0};
    json_t *failed;
    struct jm_job *j;
    errmsg_t err;

    if (flux_schema_decode_json(&wrexec_ended_schema, entry, &e, &err) < 0) {
        flux_log(jm->h, LOG_ERR, "the end of a job cannot be read: %s", err.text);
        return;
    }
    if (!(j = jm_job_find(jm, e.id)) || is_past(j, e.attempt))
        return;
    jm->exec->ended++;
    j->exec.unsure = false;
    j->exec.outputlost = e.outputlost;
    if (e.outputlost) {
        char note[96];

        snprintf(note, sizeof(note), "%llu bytes of output were lost",
                 (unsigned long long)e.outputlost);
        jm_state_exception(j, "output", JOB_SEVERITY_MAX, note, j->st.userid, false);
    }
    /* The message that a node was lost may have gone to an instance that did not record it. */
    if (e.text)
        jm_state_failed(j, e.type ? e.type : "exec", e.text);
    failed = failed_tasks(j, &e);
    jm_state_finished(j, worst_status(&e), e.t_started, e.t_exited, failed);
    json_decref(failed);
}

static void take_raise(struct jm *jm, const json_t *entry)
{
    struct wrexec_raise r = {0};
    struct jm_job *j;
    errmsg_t err;

    if (flux_schema_decode_json(&wrexec_raise_schema, entry, &r, &err) == 0 &&
        (j = jm_job_find(jm, r.id)) && !is_past(j, r.attempt) && r.severity >= 0 &&
        r.severity <= JOB_SEVERITY_MAX)
        jm_state_exception(j, r.type, r.severity, r.note, j->st.userid, false);
}

/* Given the list of running jobs: a job that should run and is not in it is dead. */
static void settle(struct jm *jm, const json_t *running)
{
    for (size_t i = 0; i < json_array_size(running); i++) {
        uint64_t id = (uint64_t)json_integer_value(json_array_get(running, i));
        struct jm_job *j = jm_job_find(jm, id);

        /* An earlier instance assigned this id, but could not record it. */
        jm_job_reserve(jm, id);
        if (j && j->exec.launched)
            j->exec.unsure = false;
        else
            jm_exec_kill(jm, id, SIGKILL);
    }
    for (struct jm_job *j = jm_job_first(jm), *next; j; j = next) {
        next = jm_job_next(j);
        if (!j->exec.unsure)
            continue;
        j->exec.unsure = false;
        jm_state_exception(j, "lost", JOB_SEVERITY_FATAL,
                           jm_load_restored(j) ? "the session was restarted"
                                               : "wrexec was restarted",
                           j->st.userid, false);
        jm_state_finished(j, SIGKILL, 0., 0., NULL);
    }
}

static bool may_open_cb(void *arg)
{
    struct jm *jm = arg;

    if (courier_busy(jm->exec->courier))
        return false;
    for (struct jm_job *j = jm_job_first(jm); j; j = jm_job_next(j))
        j->exec.unsure = j->exec.launched;
    return true;
}

static int take_cb(void *arg, flux_future_t *f, errmsg_t *err)
{
    struct jm *jm = arg;
    struct wrexec_jobs m = {0};

    if (flux_rpc_get_struct(f, &wrexec_jobs_schema, &m, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(m.raise); i++)
        take_raise(jm, json_array_get(m.raise, i));
    for (size_t i = 0; i < json_array_size(m.ended); i++)
        take_ended(jm, json_array_get(m.ended, i));
    if (jm->exec->attached && m.running) {
        /* Another instance has taken the stream over, and may not have got the last launches: the
         * response to a later request counts. */
        jm->exec->attached = false;
        follow_open(jm->exec->stream);
        return 0;
    }
    if (!jm->exec->attached) {
        settle(jm, m.running);
        jm->exec->attached = true;
    }
    jm_module_kick(jm);
    return 0;
}

static void ended_cb(void *arg, int errnum, const char *why, unsigned tries)
{
    struct jm *jm = arg;

    if (jm->exec->attached)
        flux_log(jm->h, LOG_WARNING, "no wrexec: %s", why);
    jm->exec->attached = false;
}

/* --- life --- */

static void idle_cb(void *arg)
{
    jm_module_kick(arg);
}

static void failed_cb(void *arg, const char *topic, int errnum, const char *why)
{
    struct jm *jm = arg;
    struct jm_exec *x = jm->exec;

    flux_log(jm->h, LOG_WARNING, "%s: %s", topic, why);
    if (strcmp(topic, "wrexec.kill") == 0) {
        for (size_t i = 0; i < x->sent.n; i++)
            if (jm_job_find(jm, x->sent.ids[i]))
                jm_exec_kill(jm, x->sent.ids[i], x->sent_signal);
    }
    follow_end(x->stream, errnum, why);
}

int jm_exec_create(struct jm *jm)
{
    static const struct courier_callbacks cbs = {.idle = idle_cb, .failed = failed_cb};
    static const struct follow_ops ops = {"wrexec.jobs", AGAIN,   AGAIN,
                                          may_open_cb,   take_cb, ended_cb};
    struct jm_exec *x = calloc(1, sizeof(*x));

    if (!x)
        return -1;
    jm->exec = x;
    list_init(&x->launch);
    x->stream = follow_create(jm->h, &ops, jm);
    x->courier = courier_create(jm->h, 0, &cbs, jm);
    return x->stream && x->courier ? 0 : -1;
}

void jm_exec_destroy(struct jm *jm)
{
    struct jm_exec *x = jm->exec;

    if (!x)
        return;
    follow_destroy(x->stream);
    courier_destroy(x->courier);
    jm_ids_clear(&x->sent);
    for (int i = 0; i < JM_SIGNALS; i++)
        jm_ids_clear(&x->kill[i]);
    free(x);
    jm->exec = NULL;
}

void jm_exec_start(struct jm *jm)
{
    follow_open(jm->exec->stream);
}

void jm_exec_stats(const struct jm *jm, struct job_stats *st)
{
    st->launches = jm->exec->launches;
    st->ended = jm->exec->ended;
    st->wrexec = jm->exec->attached;
}
