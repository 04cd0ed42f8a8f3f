/* States of a job and the events that lead from one to the next: Flux RFC 21, as a table.
 *
 * Every program that reads a job's events, such as the job module after a restart, a command or a
 * checker, interprets them with these functions.
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
    JOB_STATE_PRIORITY, /* waits for a priority (urgency 0: until that changes) */
    JOB_STATE_SCHED,    /* waits for resources */
    JOB_STATE_RUN,      /* has resources */
    JOB_STATE_CLEANUP,  /* has ended, returns its resources */
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

const char *job_state_name(enum job_state s); /* "DEPEND"...; NULL for a value outside the enum */
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
const char *job_result_name(enum job_result r); /* "completed"...; "" for JOB_RESULT_NONE; NULL
                                                 * outside the enum */
int job_result_parse(const char *name);         /* -1 with EINVAL */

/* The word for a state in all output for users: "depend", "held" (PRIORITY, or SCHED with urgency
 * 0), "pending", "running", "ending", and for INACTIVE the name of the result, or "inactive" if
 * the result is JOB_RESULT_NONE.  NULL for a value that is not one of these states. */
const char *job_state_word(enum job_state s, int urgency, enum job_result r);

/* The state that the events so far lead to.  All zero before the first event. */
struct jobstate {
    enum job_state state;
    uint16_t seen;         /* bits (1 << job_event_type) */
    bool fatal;            /* an exception of severity 0 occurred */
    enum job_result ended; /* the result of the job by that exception, or by the event "finish" */
    uint32_t depends;      /* dependencies that were added and not removed */
    uint32_t requeues;     /* number of times that it was put back into the queue after it had
                        * started */
    int status;            /* of the finish event */
    int urgency;
    uint32_t userid;
    uint32_t flags;
    int64_t priority;
    double t_submit;
    double t_depend; /* the event "depend": dependencies were met; 0: not (yet) */
    double t_run;    /* the event "alloc" */
    double t_start;
    double t_started; /* of the event "finish": when the last task was started and reaped; 0: not
                       * given */
    double t_exited;
    double t_cleanup;
    double t_inactive;
};

/* Apply the next event of a job's log.  0; or -1 with EPROTO and an error message ("a second event
 * 'start'", "event 'alloc' in state DEPEND"), and `s` unchanged. */
int jobstate_apply(struct jobstate *s, const struct job_event *ev, errmsg_t *err);

/* For a job in INACTIVE or CLEANUP: how it ended, and the exit code for that: the exit code of the
 * tasks; 128 + signal; 124 for "timeout"; 130 for "canceled" and 1 for "failed" if no task was ever
 * started. */
enum job_result jobstate_result(const struct jobstate *s);
int jobstate_code(const struct jobstate *s);
/* Exit code of a status as wait(2) gives it. */
int job_status_code(int status);

#endif
