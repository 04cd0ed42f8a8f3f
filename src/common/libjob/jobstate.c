/* jobstate.c - states of a job, and the table of events.
 *
 *    event              in state                      needs   once  leads to
 *    submit             NEW                           -       yes   DEPEND
 *    dependency-add     DEPEND                        -             (stays)
 *    dependency-remove  DEPEND                        one added     (stays)
 *    depend             DEPEND                        none left yes PRIORITY
 *    priority           PRIORITY SCHED                -             SCHED
 *    urgency            DEPEND PRIORITY SCHED         -             (stays)
 *    alloc              SCHED                         -       yes   RUN
 *    start              RUN CLEANUP                   alloc   yes   (stays)
 *    finish             RUN CLEANUP                   start   yes   CLEANUP
 *    requeue            RUN                           alloc         SCHED
 *    release            CLEANUP                       finish  yes   (stays)
 *    free               CLEANUP                       alloc   yes   (stays); after start: finish
 *    clean              CLEANUP                       -       yes   INACTIVE; after alloc: free
 *    exception          all but NEW INACTIVE          -             severity 0: CLEANUP
 *    any other          all but NEW                   -             (stays)
 *
 * A fatal exception moves a job to CLEANUP at once, while its launch may still be in progress: that
 * is why start and finish are legal in CLEANUP.
 *
 * The event requeue ends an attempt: its resources are returned, and alloc and start may follow
 * once more.
 *
 * Invariants:
 *  1. A log whose events are all accepted and that ends in INACTIVE has exactly one submit and one
 *     clean, at most one finish and free, in each attempt at most one alloc and start, and every
 *     alloc was followed by a free or a requeue.
 *  2. A refused event leaves the state as it was.
 */
#include "config.h"
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "jobstate.h"
#include "libutil/invariant.h"
#include "submit.h"

#define S(x) JOB_STATE_BIT(JOB_STATE_##x)
#define EV(x) (1u << JOB_EV_##x)
#define STAYS JOB_STATES

struct rule {
    unsigned from;  /* mask of states */
    unsigned needs; /* mask of events */
    bool once;
    enum job_state next; /* STAYS */
};

static const struct rule rules[JOB_EV_TYPES] = {
    [JOB_EV_OTHER] = {JOB_STATES_ALL, 0, false, STAYS},
    [JOB_EV_SUBMIT] = {S(NEW), 0, true, JOB_STATE_DEPEND},
    [JOB_EV_DEP_ADD] = {S(DEPEND), 0, false, STAYS},
    [JOB_EV_DEP_REMOVE] = {S(DEPEND), EV(DEP_ADD), false, STAYS},
    [JOB_EV_DEPEND] = {S(DEPEND), 0, true, JOB_STATE_PRIORITY},
    [JOB_EV_PRIORITY] = {S(PRIORITY) | S(SCHED), 0, false, JOB_STATE_SCHED},
    [JOB_EV_URGENCY] = {JOB_STATES_PENDING, 0, false, STAYS},
    [JOB_EV_ALLOC] = {S(SCHED), 0, true, JOB_STATE_RUN},
    [JOB_EV_START] = {S(RUN) | S(CLEANUP), EV(ALLOC), true, STAYS},
    [JOB_EV_FINISH] = {S(RUN) | S(CLEANUP), EV(START), true, JOB_STATE_CLEANUP},
    [JOB_EV_RELEASE] = {S(CLEANUP), EV(FINISH), true, STAYS},
    [JOB_EV_FREE] = {S(CLEANUP), EV(ALLOC), true, STAYS},
    [JOB_EV_CLEAN] = {S(CLEANUP), 0, true, JOB_STATE_INACTIVE},
    [JOB_EV_EXCEPTION] = {JOB_STATES_ACTIVE, 0, false, STAYS},
    [JOB_EV_REQUEUE] = {S(RUN), EV(ALLOC), false, JOB_STATE_SCHED},
};

static const char *const state_names[JOB_STATES] = {
    [JOB_STATE_NEW] = "NEW",           [JOB_STATE_DEPEND] = "DEPEND",
    [JOB_STATE_PRIORITY] = "PRIORITY", [JOB_STATE_SCHED] = "SCHED",
    [JOB_STATE_RUN] = "RUN",           [JOB_STATE_CLEANUP] = "CLEANUP",
    [JOB_STATE_INACTIVE] = "INACTIVE",
};

static const char *const result_names[JOB_RESULTS] = {
    [JOB_RESULT_NONE] = "",           [JOB_RESULT_COMPLETED] = "completed",
    [JOB_RESULT_FAILED] = "failed",   [JOB_RESULT_CANCELED] = "canceled",
    [JOB_RESULT_TIMEOUT] = "timeout",
};

const char *job_state_name(enum job_state s)
{
    return (unsigned)s < JOB_STATES ? state_names[s] : NULL;
}

int job_state_parse(const char *name)
{
    for (int i = 0; name && i < JOB_STATES; i++)
        if (!strcasecmp(state_names[i], name))
            return i;
    errno = EINVAL;
    return -1;
}

const char *job_result_name(enum job_result r)
{
    return (unsigned)r < JOB_RESULTS ? result_names[r] : NULL;
}

int job_result_parse(const char *name)
{
    for (int i = 1; name && i < JOB_RESULTS; i++)
        if (!strcasecmp(result_names[i], name))
            return i;
    errno = EINVAL;
    return -1;
}

const char *job_state_word(enum job_state s, int urgency, enum job_result r)
{
    switch (s) {
    case JOB_STATE_DEPEND:
        return "depend";
    case JOB_STATE_PRIORITY:
        return "held";
    case JOB_STATE_SCHED:
        return urgency == JOB_URGENCY_HOLD ? "held" : "pending";
    case JOB_STATE_RUN:
        return "running";
    case JOB_STATE_CLEANUP:
        return "ending";
    case JOB_STATE_INACTIVE:
        return r == JOB_RESULT_NONE ? "inactive" : job_result_name(r);
    default:
        return NULL;
    }
}

/* The first of a mask of events that `seen` does not have. */
static const char *lacking(unsigned needs, unsigned seen)
{
    for (int i = 1; i < JOB_EV_TYPES; i++)
        if (needs & ~seen & 1u << i)
            return job_event_name((enum job_event_type)i);
    return NULL;
}

static int check(const struct jobstate *s, const struct job_event *ev, errmsg_t *err)
{
    const struct rule *r = &rules[ev->event];
    const char *name = ev->event == JOB_EV_OTHER ? ev->name : job_event_name(ev->event);
    unsigned needs = r->needs;

    if (r->once && s->seen & 1u << ev->event)
        return errmsg_fail(err, EPROTO, "a second event '%s'", name);
    if (!(r->from & JOB_STATE_BIT(s->state)))
        return errmsg_fail(err, EPROTO, "event '%s' in state %s", name, job_state_name(s->state));
    if (ev->event == JOB_EV_FREE && s->seen & EV(START))
        needs |= EV(FINISH);
    if (ev->event == JOB_EV_CLEAN && s->seen & EV(ALLOC))
        needs |= EV(FREE);
    if (needs & ~s->seen)
        return errmsg_fail(err, EPROTO, "event '%s' without a preceding '%s'", name,
                           lacking(needs, s->seen));
    if (ev->event == JOB_EV_DEP_REMOVE && !s->depends)
        return errmsg_fail(err, EPROTO, "event '%s' when no dependency is left", name);
    if (ev->event == JOB_EV_REQUEUE && ev->count != s->requeues + 1)
        return errmsg_fail(err, EPROTO, "event '%s' number %u after %u", name, ev->count,
                           s->requeues);
    if (ev->event == JOB_EV_DEPEND && s->depends)
        return errmsg_fail(err, EPROTO, "event '%s' when %u dependencies are left", name,
                           s->depends);
    return 0;
}

static const struct transition moves[] = {
    {JOB_STATE_NEW, JOB_STATE_DEPEND, "submit"},
    {JOB_STATE_DEPEND, JOB_STATE_PRIORITY, "depend"},
    {JOB_STATE_PRIORITY, JOB_STATE_SCHED, "priority"},
    {JOB_STATE_SCHED, JOB_STATE_RUN, "alloc"},
    {JOB_STATE_DEPEND, JOB_STATE_CLEANUP, "exception"},
    {JOB_STATE_PRIORITY, JOB_STATE_CLEANUP, "exception"},
    {JOB_STATE_SCHED, JOB_STATE_CLEANUP, "exception"},
    {JOB_STATE_RUN, JOB_STATE_CLEANUP, "finish, exception"},
    {JOB_STATE_RUN, JOB_STATE_SCHED, "requeue"},
    {JOB_STATE_CLEANUP, JOB_STATE_INACTIVE, "clean"},
    TRANSITION_END,
};

static void enter(struct jobstate *s, enum job_state next, double t)
{
    if (next == STAYS || next == s->state)
        return;
    TRANSITION(1, moves, s->state, next);
    s->state = next;
    switch (next) {
    case JOB_STATE_DEPEND:
        s->t_submit = t;
        break;
    case JOB_STATE_PRIORITY:
        s->t_depend = t;
        break;
    case JOB_STATE_RUN:
        s->t_run = t;
        break;
    case JOB_STATE_CLEANUP:
        s->t_cleanup = t;
        break;
    case JOB_STATE_INACTIVE:
        s->t_inactive = t;
        break;
    default:
        break;
    }
}

static enum job_result result_of(const struct job_event *ev)
{
    if (ev->event == JOB_EV_FINISH)
        return ev->status == 0 ? JOB_RESULT_COMPLETED : JOB_RESULT_FAILED;
    if (!strcmp(ev->type, "cancel"))
        return JOB_RESULT_CANCELED;
    return !strcmp(ev->type, "timeout") ? JOB_RESULT_TIMEOUT : JOB_RESULT_FAILED;
}

int jobstate_apply(struct jobstate *s, const struct job_event *ev, errmsg_t *err)
{
    enum job_state next = rules[ev->event].next;

    if (check(s, ev, err) < 0)
        return -1;
    switch (ev->event) {
    case JOB_EV_SUBMIT:
        s->userid = ev->userid;
        s->flags = ev->flags;
        s->urgency = ev->urgency;
        break;
    case JOB_EV_URGENCY:
        s->urgency = ev->urgency;
        break;
    case JOB_EV_DEP_ADD:
        s->depends++;
        break;
    case JOB_EV_DEP_REMOVE:
        s->depends--;
        break;
    case JOB_EV_PRIORITY:
        s->priority = ev->priority;
        break;
    case JOB_EV_START:
        s->t_start = ev->timestamp;
        break;
    case JOB_EV_FINISH:
        s->status = ev->status;
        s->t_started = ev->started;
        s->t_exited = ev->exited;
        break;
    case JOB_EV_EXCEPTION:
        if (ev->severity != JOB_SEVERITY_FATAL)
            break;
        s->fatal = true;
        next = JOB_STATE_CLEANUP;
        break;
    default:
        break;
    }
    /* The first event that ends the job determines the result. */
    if (!s->ended && (ev->event == JOB_EV_FINISH || next == JOB_STATE_CLEANUP))
        s->ended = result_of(ev);
    s->seen |= (uint16_t)(1u << ev->event);
    if (ev->event == JOB_EV_REQUEUE) {
        s->requeues = ev->count;
        s->seen &= (uint16_t) ~(EV(ALLOC) | EV(START));
        s->t_run = s->t_start = 0.;
    }
    enter(s, next, ev->timestamp);
    INVARIANT(1, s->state != JOB_STATE_INACTIVE || (s->seen & EV(SUBMIT) && s->seen & EV(CLEAN)));
    INVARIANT(1, s->state != JOB_STATE_INACTIVE || !(s->seen & EV(ALLOC)) || s->seen & EV(FREE));
    return 0;
}

enum job_result jobstate_result(const struct jobstate *s)
{
    return s->ended;
}

int job_status_code(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1;
}

int jobstate_code(const struct jobstate *s)
{
    int code = s->seen & EV(FINISH) ? job_status_code(s->status) : 0;

    switch (s->ended) {
    case JOB_RESULT_TIMEOUT:
        return 124;
    case JOB_RESULT_CANCELED:
        return code ? code : 130;
    case JOB_RESULT_FAILED:
        return code ? code : 1;
    default:
        return code;
    }
}
