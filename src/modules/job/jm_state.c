/* jm_state.c - the events of a job, and their consequences.
 *
 * An event is appended to the job's log and applied to the table of libjob (jobstate.h), which
 * alone determines the new state.  The module then acts:
 *
 *    state     entered by             what is done
 *    DEPEND    submit                 jm_depend.c, jm_time.c: wait for other jobs, the begin time
 *    PRIORITY  depend; urgency 0      nothing while the urgency is 0: the job is held
 *    SCHED     priority               jm_sched.c: the scheduler gets the job
 *    RUN       alloc                  start is logged at once, and jm_exec.c launches the job
 *    CLEANUP   finish, or exception   tasks are ended if there are any; then resources are given
 *              of severity 0          back (release, free), then clean
 *    INACTIVE  clean                  jm_store.c: once that is recorded, jm_job.c retires the job
 *
 * A job with the option requeue that loses a node, or is on one that leaves, stays in RUN until its
 * tasks are gone, and goes back to SCHED by the event requeue.
 *
 * Invariants:
 *  1. Every event goes through jm_state_event(), so the log in memory, the log in the store (one
 *     transaction later), and the state agree.
 *  2. start is logged before a job is launched: a job whose log has alloc and no start never was.
 *  3. A job whose tasks may be alive is not cleaned up before wrexec reports their end.
 *  4. Resources are returned to the scheduler exactly once for each alloc.
 *  5. A job that was first ended for another reason is not queued again.
 *
 * Failure: an event that the table refuses is a fault of this module: it is logged, and the job
 * continues unchanged.  If memory is short, the log may lack an event; state and resources are
 * still correct.
 */
#include "config.h"
#include "jm_private.h"
#include "libutil/invariant.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of requeues: a job that crashes its nodes must not crash all nodes. */
#define REQUEUES_MAX 16

int jm_state_job_init(struct jm_job *j)
{
    j->end.canceled_by = -1;
    return (j->log = strbuf_create(0)) ? 0 : -1;
}

void jm_state_job_clear(struct jm_job *j)
{
    strbuf_destroy(j->log);
    rset_destroy(j->r);
    free(j->r_json);
    free(j->switches);
    free(j->end.type);
    free(j->end.note);
    free(j->end.failed);
    free(j->warning);
}

bool jm_state_active(const struct jm_job *j)
{
    return j->st.state < JOB_STATE_CLEANUP;
}

bool jm_state_log_full(const struct jm_job *j)
{
    return strbuf_len(j->log) > JM_EVENTLOG_MAX;
}

static void add_event(struct jm_job *j, struct job_event *ev)
{
    struct jm *jm = j->jm;
    enum job_state was = j->st.state;
    bool held = jm_job_held(j);
    errmsg_t err;

    /* The wall clock may have been set back meanwhile. */
    ev->timestamp = flux_reactor_wall(jm->r);
    if (ev->timestamp < j->t_last)
        ev->timestamp = j->t_last;
    j->t_last = ev->timestamp;
    if (jobstate_apply(&j->st, ev, &err) < 0) {
        flux_log(jm->h, LOG_ERR, "job %llu: %s", (unsigned long long)j->id, err.text);
        return;
    }
    if (job_event_write(j->log, ev) < 0)
        flux_log(jm->h, LOG_ERR, "job %llu: an event is missing in its log: %s",
                 (unsigned long long)j->id, strerror(errno));
    if (was != j->st.state || held != jm_job_held(j))
        jm_job_moved(j, was, held);
    if (was != j->st.state)
        jm_watch_transition(j);
    jm_store_dirty(j);
}

void jm_state_event(struct jm_job *j, struct job_event *ev)
{
    add_event(j, ev);
}

void jm_state_event_plain(struct jm_job *j, enum job_event_type type)
{
    struct job_event ev = {.event = type};

    add_event(j, &ev);
}

void jm_state_advance(struct jm_job *j)
{
    if (j->st.state == JOB_STATE_DEPEND && jm_depend_met(j))
        jm_state_event_plain(j, JOB_EV_DEPEND);
    if (j->st.state == JOB_STATE_PRIORITY && j->st.urgency > JOB_URGENCY_HOLD) {
        struct job_event ev = {.event = JOB_EV_PRIORITY, .priority = j->st.urgency};

        jm_state_event(j, &ev);
        jm_sched_add(j);
    } else if (j->st.state == JOB_STATE_PRIORITY) {
        jm_sched_urgency(j);
    }
}

/* --- resources and start --- */

/* Store the location of its nodes, from the event "alloc". */
static void keep_where(struct jm_job *j, const struct job_event *ev)
{
    free(j->switches);
    j->switches = ev->switches ? strdup(ev->switches) : NULL;
    j->hops = ev->hops;
}

void jm_state_allocated(struct jm_job *j, rset_t *r, char *r_json, const char *switches,
                        double hops)
{
    struct job_event ev = {.event = JOB_EV_ALLOC, .switches = switches, .hops = hops};
    double limit = j->spec->req.duration;

    jm_store_put(j, JM_STORE_R);
    rset_destroy(j->r);
    free(j->r_json);
    j->r = r;
    j->r_json = r_json;
    keep_where(j, &ev);
    jm_state_event(j, &ev);
    if (j->st.state != JOB_STATE_RUN)
        return;
    jm_leave_moved(j, true);
    j->expiration = rset_expiration(r);
    if (limit > 0 && isfinite(limit))
        j->expiration = j->st.t_run + limit;
    j->deadline = 0;
    if (j->expiration > 0 && isfinite(j->expiration))
        j->deadline = flux_reactor_now(j->jm->r) + j->expiration - j->st.t_run;
    jm_exec_launch(j);
}

/* --- the end --- */

/* Store the end of the job, from its first fatal exception and the event "finish". */
static void keep_end(struct jm_job *j, const struct job_event *ev)
{
    if (ev->event == JOB_EV_FINISH) {
        free(j->end.failed);
        j->end.failed = ev->failed ? json_dumps(ev->failed, JSON_COMPACT) : NULL;
        return;
    }
    free(j->end.type);
    free(j->end.note);
    j->end.type = strdup(ev->type);
    j->end.note = ev->note && ev->note[0] ? strdup(ev->note) : NULL;
    j->end.canceled_by = strcmp(ev->type, "cancel") == 0 ? (int64_t)ev->userid : -1;
}

/* Store the first warning, from an exception that does not end the job.  True if it was the
 * first. */
static bool keep_warning(struct jm_job *j, const struct job_event *ev)
{
    if (j->warning || strcmp(ev->type, "warning") != 0 || ev->severity == JOB_SEVERITY_FATAL ||
        !ev->note || !ev->note[0])
        return false;
    return (j->warning = strdup(ev->note));
}

/* Send the tasks SIGTERM, and SIGKILL after the grace period. */
static void end_tasks(struct jm_job *j)
{
    struct jm *jm = j->jm;
    double grace = j->spec->grace >= 0 ? j->spec->grace : jm->grace;

    jm_time_clear(j);
    jm_exec_kill(jm, j->id, SIGTERM);
    jm_exec_kill(jm, j->id, SIGCONT);
    if (jm_time_set(j, JM_TIME_GRACE, flux_reactor_now(jm->r) + grace) < 0)
        jm_exec_kill(jm, j->id, SIGKILL);
}

static bool is_node_loss(const char *type)
{
    return strcmp(type, "node-lost") == 0 || strcmp(type, "node-left") == 0;
}

/* Does this exception only end an attempt of the job? */
static bool may_run_again(const struct jm_job *j, const char *type)
{
    return j->spec->requeue && j->st.state == JOB_STATE_RUN && !jm_queue_ending(j->jm) &&
           j->st.requeues < REQUEUES_MAX && !jm_state_log_full(j) && is_node_loss(type);
}

/* Its tasks are gone: put it back into the queue. */
static void requeue(struct jm_job *j)
{
    /* R of the next attempt replaces that of this one in the store: the log keeps it. */
    json_t *R = j->r_json ? json_loads(j->r_json, 0, NULL) : NULL;
    struct job_event ev = {.event = JOB_EV_REQUEUE, .count = j->st.requeues + 1, .R = R};

    j->again = false;
    jm_time_clear(j);
    jm_exec_forget(j);
    jm_exec_unkill(j);
    jm_control_uri_forget(j);
    jm_exec_done(j);
    jm_leave_moved(j, false);
    jm_sched_free(j);
    jm_state_event(j, &ev);
    json_decref(R);
    rset_destroy(j->r);
    jm_store_past_r(j, j->r_json);
    free(j->switches);
    j->r = NULL;
    j->r_json = j->switches = NULL;
    j->expiration = j->deadline = 0.;
    jm_sched_add(j);
}

void jm_state_exception(struct jm_job *j, const char *type, int severity, const char *note,
                        uint32_t uid, bool kill)
{
    struct jm *jm = j->jm;
    struct job_event ev = {.event = JOB_EV_EXCEPTION,
                           .type = type,
                           .severity = severity,
                           .note = note ? note : "",
                           .userid = uid};
    bool fatal = severity == JOB_SEVERITY_FATAL && jm_state_active(j);

    if (j->st.state == JOB_STATE_INACTIVE)
        return;
    if (fatal && may_run_again(j, type)) {
        ev.severity = 1;
        jm_state_event(j, &ev);
        j->again = true;
        if (!jm_exec_launched(j))
            requeue(j);
        else if (kill)
            end_tasks(j);
        return;
    }
    if (!fatal && jm_state_log_full(j))
        return;
    if (severity == 1 && j->spec->requeue && is_node_loss(type))
        ev.severity = 2; /* 1 means that the job is queued again: read_log() */
    if (fatal)
        keep_end(j, &ev);
    else if (keep_warning(j, &ev))
        jm_journal_add(jm, JM_JOURNAL_WARNED, j->id);
    jm_state_event(j, &ev);
    if (!fatal)
        return;
    jm_depend_drop(j);
    jm_time_clear(j);
    jm_sched_remove(j);
    if (jm_exec_launched(j)) {
        if (kill)
            end_tasks(j);
        return;
    }
    jm_state_cleanup(j);
}

void jm_state_cleanup(struct jm_job *j)
{
    struct jm *jm = j->jm;

    if (j->st.state != JOB_STATE_CLEANUP)
        return;
    jm_time_clear(j);
    jm_exec_forget(j);
    if (!jm_exec_launched(j) && (j->st.flags & JOB_FLAG_CLIENT))
        jm_exec_kill(jm, j->id, SIGKILL); /* so that listening clients are notified */
    if (j->st.seen & (1u << JOB_EV_START)) {
        if (!(j->st.seen & (1u << JOB_EV_FINISH))) {
            struct job_event ev = {.event = JOB_EV_FINISH, .status = SIGKILL};

            jm_state_event(j, &ev);
        }
        if (!(j->st.seen & (1u << JOB_EV_RELEASE)))
            jm_state_event_plain(j, JOB_EV_RELEASE);
    }
    jm_sched_free(j);
    if ((j->st.seen & (1u << JOB_EV_ALLOC)) && !(j->st.seen & (1u << JOB_EV_FREE)))
        jm_state_event_plain(j, JOB_EV_FREE);
    jm_state_event_plain(j, JOB_EV_CLEAN);
    INVARIANT(1, j->st.state == JOB_STATE_INACTIVE);
    jm_exec_done(j);
    jm_leave_moved(j, false);
    jm_depend_ended(j);
}

/* Limit to [lo, hi], and round to microseconds, as in the timestamps of events. */
static double within(double t, double lo, double hi)
{
    t = t > hi ? hi : t;
    return round((t < lo ? lo : t) * 1e6) / 1e6;
}

void jm_state_failed(struct jm_job *j, const char *type, const char *text)
{
    /* Its tasks are gone: they need not be killed. */
    if (jm_exec_launched(j) && j->st.state == JOB_STATE_RUN && !j->again)
        jm_state_exception(j, type, JOB_SEVERITY_FATAL, text, j->st.userid, false);
}

void jm_state_finished(struct jm_job *j, int status, double started, double exited, json_t *failed)
{
    struct job_event ev = {.event = JOB_EV_FINISH, .status = status};

    if (!jm_exec_launched(j) || j->st.state < JOB_STATE_RUN || j->st.state > JOB_STATE_CLEANUP)
        return;
    if (j->again && j->st.state == JOB_STATE_RUN) {
        requeue(j);
        return;
    }
    if (started > 0. && exited > 0.) {
        /* Clocks of nodes differ: limit the times to possible ones. */
        ev.started = within(started, j->st.t_run, flux_reactor_wall(j->jm->r));
        ev.exited = within(exited, ev.started, flux_reactor_wall(j->jm->r));
        /* If something else ended the job, its tasks have not failed by themselves. */
        if (!j->st.fatal)
            ev.failed = failed;
    }
    keep_end(j, &ev);
    jm_state_event(j, &ev);
    jm_state_cleanup(j);
}

/* --- jobs that were read back --- */

/* *alloc: offset of the line "alloc" of the log. */
static int read_log(struct jm_job *j, const char *text, size_t len, size_t *alloc, errmsg_t *err)
{
    struct job_event ev;
    struct job_log log;
    int rc;

    *alloc = len;
    job_log_init(&log, text, len);
    for (size_t at = 0; (rc = job_log_next(&log, &ev, err)) == 1; at = log.pos) {
        bool first =
            ev.event == JOB_EV_EXCEPTION && ev.severity == JOB_SEVERITY_FATAL && !j->end.type;

        j->t_last = ev.timestamp;
        if (jobstate_apply(&j->st, &ev, err) < 0) {
            rc = -1;
            break;
        }
        if (ev.event == JOB_EV_ALLOC) {
            *alloc = at;
            keep_where(j, &ev);
        }
        if (ev.event == JOB_EV_EXCEPTION && ev.severity == 1 && is_node_loss(ev.type))
            j->again = j->spec->requeue;
        else if (ev.event == JOB_EV_REQUEUE)
            j->again = false;
        if (first || ev.event == JOB_EV_FINISH)
            keep_end(j, &ev);
        else if (ev.event == JOB_EV_EXCEPTION)
            (void)keep_warning(j, &ev);
    }
    job_log_done(&log);
    return rc;
}

static void replay(struct jm_job *j, const char *text, size_t len)
{
    size_t alloc;
    errmsg_t err;

    memset(&j->st, 0, sizeof(j->st));
    free(j->switches);
    j->switches = NULL;
    read_log(j, text, len, &alloc, &err);
}

int jm_state_restore(struct jm_job *j, const char *text, size_t len, errmsg_t *err)
{
    size_t alloc;

    if (read_log(j, text, len, &alloc, err) < 0)
        return -1;
    if (j->st.state == JOB_STATE_RUN && !(j->st.seen & (1u << JOB_EV_START))) {
        len = alloc;
        replay(j, text, len);
        jm_store_dirty(j);
    }
    strbuf_addn(j->log, text, len);
    return 0;
}

int jm_state_restore_resources(struct jm_job *j, const char *text, size_t len, errmsg_t *err)
{
    return (j->r = rset_parse(text, len, err)) && (j->r_json = strndup(text, len)) ? 0 : -1;
}

double jm_state_restore_limit(struct jm_job *j)
{
    j->expiration = j->st.t_start + j->spec->req.duration;
    j->deadline = flux_reactor_from_wall(j->jm->r, j->expiration);
    return j->deadline;
}
