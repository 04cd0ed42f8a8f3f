/* Messages of the service "job" (src/modules/job): the structs in which the service and its clients
 * hold their fields.
 *
 * The table job_methods[] lists the messages with their fields; doc/protocol.rst is made from it.
 *
 * All requests go to rank 0.  Sets of job ids are idsets as text ("1-1000,2007"): ids are integers
 * from 1 to IDSET_MAX.  In lists of jobs, an id is a number.
 *
 * Pointers in structs are borrowed from the decoded message.  Optional members that are absent keep
 * the value that the caller gave them: initialize the struct with zeros, except where a comment
 * gives another value.  Every text, and every number that is 0 when unknown, is optional; the rest
 * is required.
 */
#ifndef JOB_JOB_WIRE_H
#define JOB_JOB_WIRE_H

#include "libschema/schema.h"

/* An element of "errors" in a response: [number, errno, "error message"].  For job.submit the
 * number is the place of the job in the frame, from 0; otherwise it is the job's id. */

struct job_submitted {
    uint64_t first; /* id of the first accepted job; the others have consecutive ids */
    uint32_t count; /* number of accepted jobs */
    json_t *errors; /* array of the refused jobs, ascending; optional */
};
extern const struct flux_schema job_submitted_schema;

/* `ids` is required by job.cancel and the like; NULL: all jobs (job.watch, job.wait: all active
 * jobs). */
struct job_ids {
    const char *ids; /* optional */
};
extern const struct flux_schema job_ids_schema;

struct job_list {
    const char *ids;  /* only these jobs */
    const char *name; /* only jobs of that name */
    uint32_t states;  /* mask of JOB_STATE_BIT(); 0: the active ones (with `ids`: all) */
    int64_t user;     /* only jobs of that user id; -1: all.  Set to -1 first */
    uint32_t max;     /* maximum number of jobs, the first in their order; 0: all */
    double since;     /* of ended jobs: only those that ended then or later */
    bool estimates;   /* ask for t_estimate and why */
};
extern const struct flux_schema job_list_schema;

/* A page of at most 1000 jobs: active jobs in the order of the queue, then running jobs, then ended
 * jobs, newest first. */
struct job_page {
    json_t *jobs; /* array of struct job_info */
};
extern const struct flux_schema job_page_schema;

struct job_info {
    uint64_t id;
    uint32_t uid;
    int urgency;
    int64_t priority;
    const char *state; /* job_state_name() */
    const char *name;
    uint32_t nnodes; /* number of requested nodes; of allocated nodes once there is an allocation */
    uint32_t ntasks;
    uint32_t ncores;
    double duration; /* limit in seconds; 0: none */
    double t_submit; /* seconds since 1970; this time and the following are 0 when not (yet)
                      * known */
    double t_depend;
    double t_run;
    double t_cleanup;
    double t_inactive;
    double t_estimate; /* when it is expected to start */
    double expiration; /* when its time limit is reached */
    const char *ranks; /* of its allocation: node numbers, idset */
    const char *nodelist;
    const char *switches;   /* leaf switches of its nodes, a hostlist; NULL: not known */
    double hops;            /* mean hops between two of its nodes; only with `switches` */
    const char *result;     /* job_result_name(); NULL: has not ended */
    int code;               /* exit code, once it has ended */
    const char *exception;  /* type of the exception that ended it */
    const char *note;       /* sentence of that exception */
    int64_t canceled_by;    /* user id of who canceled it; -1: nobody did */
    json_t *failed;         /* tasks that failed, see job_failed_count(); NULL: not given */
    const char *warning;    /* which part of its request is not met, though it runs */
    const char *why;        /* why it waits, or why the end of a job was not recorded */
    const char *uri;        /* of the session that runs in it */
    const char *dependency; /* unmet dependencies, separated by commas: "afterok:7" */
};
extern const struct flux_schema job_info_schema;

/* The `number` of the following requests is random (flux_random()), or 0: none.  One that arrives
 * again with its number, since a broker on its way has died, gets the answer that the first one
 * got. */
struct job_cancel {
    const char *ids; /* required */
    const char *note;
    uint64_t number;
};
extern const struct flux_schema job_cancel_schema;

struct job_raise {
    const char *ids;  /* required */
    const char *type; /* required: a word of letters, digits, '-', '_' */
    int severity;     /* 0 (fatal) to 7 */
    const char *note;
    uint64_t number;
};
extern const struct flux_schema job_raise_schema;

struct job_kill {
    const char *ids; /* required */
    int signum;
    uint64_t number;
};
extern const struct flux_schema job_kill_schema;

struct job_urgency {
    const char *ids;  /* required */
    uint32_t urgency; /* 0: hold ... 31 */
    uint64_t number;
};
extern const struct flux_schema job_urgency_schema;

/* The client of a job with JOB_FLAG_RETURNS is back: the job ends with the sender now. */
struct job_claim {
    uint64_t id;
};
extern const struct flux_schema job_claim_schema;

struct job_acted {
    uint32_t count; /* number of jobs on which the operation succeeded */
    json_t *errors; /* array of [id, errno, "error message"]; optional */
};
extern const struct flux_schema job_acted_schema;

struct job_ended_page {
    json_t *ended; /* array of struct job_ended */
};
extern const struct flux_schema job_ended_page_schema;

struct job_ended {
    uint64_t id;
    const char *result; /* job_result_name(); NULL with an error */
    int code;
    const char *text;    /* the failure that ended it, unless its tasks did; or the error message */
    const char *warning; /* which part of its request was not met, though it ran */
    int error;           /* 0; ENOENT: there is no such job (any more) */
    int64_t canceled_by; /* user id of the user who canceled it; -1: it was not canceled */
    json_t *failed;      /* tasks that failed, see job_failed_count(); NULL: not given */
};
extern const struct flux_schema job_ended_schema;

/* Tasks that failed by themselves; the event "finish" has the same list:
 *    {"count":20,"first":[[task,rank,"host",status],...]}
 * with at most JOB_FAILED_MAX elements in "first". */
#define JOB_FAILED_MAX 8
struct job_failed {
    uint32_t task;
    uint32_t rank;
    const char *host; /* "": not known */
    int status;       /* as of wait(2) */
};
/* The number of failed tasks; 0 when the list cannot be read. */
size_t job_failed_count(const json_t *failed);
/* Element i of "first".  0; -1 with ENOENT behind the last element, or EPROTO. */
int job_failed_at(const json_t *failed, size_t i, struct job_failed *f);

struct job_watch_page {
    json_t *transitions; /* array of [id, "STATE", seconds since 1970] */
};
extern const struct flux_schema job_watch_page_schema;

/* op: "status"; "stop" and "start" scheduling; "disable" and "enable" submission; "drain": disable,
 * and answer when no job is active; "idle": answer when no job runs, and no job that is not held
 * waits for resources; "end": cancel the running jobs, start no others, and answer when none
 * runs. */
struct job_queue {
    const char *op;     /* required */
    const char *reason; /* of "stop" and "disable": shown to users whose jobs wait or are refused */
};
extern const struct flux_schema job_queue_schema;

struct job_queue_status {
    bool accepting;
    bool scheduling;
    uint32_t depend;
    uint32_t priority;
    uint32_t sched;
    uint32_t held; /* of those in `sched`: their urgency is 0 */
    uint32_t run;
    uint32_t cleanup;
    uint64_t inactive; /* number of ended jobs that are kept */
    const char *reason;
};
extern const struct flux_schema job_queue_status_schema;

/* The nodes of these ranks leave the session.  Answered when no job has resources of them. */
struct job_leave {
    const char *ranks;  /* required */
    const char *reason; /* required: why they leave, and who requested it */
    double grace;       /* seconds after which jobs there are ended; < 0: never */
};
extern const struct flux_schema job_leave_schema;

struct job_purge {
    const char *ids; /* only these jobs */
    double age;      /* only jobs that ended at least this long ago, in seconds; 0: any */
    int64_t keep;    /* number of most recent jobs to keep; -1: no limit.  Set to -1 first */
    bool force;      /* all ended jobs, when neither ids nor age nor keep is given */
};
extern const struct flux_schema job_purge_schema;
struct job_purged {
    uint32_t purged;
};
extern const struct flux_schema job_purged_schema;

struct job_memo {
    uint64_t id;
    const char *uri; /* required */
};
extern const struct flux_schema job_memo_schema;

/* Response to job.stats.  Every member is required. */
struct job_stats {
    uint64_t submitted, refused, purged, active, inactive, specs, parsed, envs, commits, failed,
        launches, ended, allocs, returned, denied, feeds, held, timers;
    bool ready, durable, sched, wrexec;
    uint32_t senders, watchers, feeding;
};
extern const struct flux_schema job_stats_schema;

/* Read element i of an "errors" array.  0; -1 with ENOENT behind the last element, or EPROTO. */
int job_error_at(const json_t *errors, size_t i, uint64_t *number, int *errnum, const char **text);
/* Append an element to *errors, which is created if it is NULL.  -1 with ENOMEM. */
int job_error_add(json_t **errors, uint64_t number, int errnum, const char *text);

extern const struct flux_method job_methods[];

#endif
