/* States of a job and the events that lead from one to the next: Flux RFC 21, as a table.
 *
 * Whoever has a job's events, the job module after a restart, a command, a checker, gets from here
 * what they mean; there is no second opinion.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef JOB_JOBSTATE_H
#define JOB_JOBSTATE_H

#include <stdbool.h>
#include <stdint.h>

#include "events.h"
#include "libutil/errmsg.h"

enum job_state {
    JOB_STATE_NEW = 0,
    JOB_STATE_DEPEND,   /* waits for other jobs, or for its begin time */
    JOB_STATE_PRIORITY, /* waits for a priority (urgency 0: until it is released) */
    JOB_STATE_SCHED,    /* waits for resources */
    JOB_STATE_RUN,      /* has resources */
    JOB_STATE_CLEANUP,  /* has ended, gives back what it has */
    JOB_STATE_INACTIVE, /* its log is complete */
    JOB_STATES
};
/* Masks of states: bit (1 << state). */
#define JOB_STATE_BIT(s) (1u << (s))
#define JOB_STATES_PENDING                                                 \
    (JOB_STATE_BIT(JOB_STATE_DEPEND) | JOB_STATE_BIT(JOB_STATE_PRIORITY) | \
     JOB_STATE_BIT(JOB_STATE_SCHED))
#define JOB_STATES_RUNNING (JOB_STATE_BIT(JOB_STATE_RUN) | JOB_STATE_BIT(JOB_STATE_CLEANUP))
#define JOB_STATES_ACTIVE (JOB_STATES_PENDING | JOB_STATES_RUNNING)
#define JOB_STATES_ALL (JOB_STATES_ACTIVE | JOB_STATE_BIT(JOB_STATE_INACTIVE))

const char *job_state_name(enum job_state s); /* "DEPEND"...; NULL for what is none */
/* State by its name, in any case; -1 with EINVAL. */
int job_state_parse(const char *name);

/* How a job ended: the result of its final state. */
enum job_result {
    JOB_RESULT_NONE = 0,
    JOB_RESULT_COMPLETED,
    JOB_RESULT_FAILED,
    JOB_RESULT_CANCELED,
    JOB_RESULT_TIMEOUT,
    JOB_RESULTS
};
const char *job_result_name(enum job_result r); /* "completed"...; "" for NONE; NULL for none */
int job_result_parse(const char *name);         /* -1 with EINVAL */

/* The word for a state in all output for users: "depend", "held" (PRIORITY, or SCHED with urgency
 * 0), "pending", "running", "ending", and for INACTIVE the name of the result, or "inactive" if
 * the result is JOB_RESULT_NONE.  NULL for a value that is not one of these states. */
const char *job_state_word(enum job_state s, int urgency, enum job_result r);

/* What the events so far say.  All zero before the first. */
struct jobstate {
    enum job_state state;
    uint16_t seen;         /* bits (1 << job_event_type) */
    bool fatal;            /* an exception of severity 0 came */
    enum job_result ended; /* what that exception, or the finish event, makes of the job */
    uint32_t depends;      /* dependencies that were added and not removed */
    uint32_t requeues;     /* how often it was put back into the queue after it had started */
    int status;            /* of the finish event */
    int urgency;
    uint32_t userid;
    uint32_t flags;
    int64_t priority;
    double t_submit;
    double t_depend; /* dependencies met: the event "depend"; 0: not (yet) */
    double t_run;    /* the event "alloc" */
    double t_start;
    double t_started; /* of the finish event: the last task was started, and gone; 0: not given */
    double t_exited;
    double t_cleanup;
    double t_inactive;
};

/* Take the next event of a job's log.  0; or -1 with EPROTO, an error message ("a second event
 * 'start'", "event 'alloc' in state DEPEND"), and `s` as it was. */
int jobstate_apply(struct jobstate *s, const struct job_event *ev, errmsg_t *err);

/* Of a job that is INACTIVE (or on the way there): how it ended, and the exit code that stands for
 * it: that of the tasks; 128 + signal; 124 for "timeout"; 130 for "canceled" and 1 for "failed"
 * when no task was ever started. */
enum job_result jobstate_result(const struct jobstate *s);
int jobstate_code(const struct jobstate *s);
/* Exit code of a status as wait(2) gives it. */
int job_status_code(int status);

#endif
