/* Messages of the service "job" (src/modules/job), for the service and for its clients: the one
 * place where their fields stand.
 *
 * Which message has which fields is in job_methods[], which doc/protocol.rst prints.
 *
 * All go to rank 0.  Sets of job ids are idsets as text ("1-1000,2007"): ids are small numbers that
 * begin at 1 and end at IDSET_MAX.  Ids of lists that jobs are sent in are numbers.
 *
 * Pointers in structs are borrowed from what was decoded.  Optional members that were absent keep
 * what the caller put there: set up with zeros (and what else the comment says).  Every text, and
 * every number that is 0 when unknown, is optional; the rest is required.
 */
#ifndef JOB_JOB_WIRE_H
#define JOB_JOB_WIRE_H

#include "libschema/schema.h"

/* One of "errors" of an answer: [number, errno, "error message"]; of job.submit the number is the
 * place in the frame, from 0; of the others it is the job's id. */

struct job_submitted {
    uint64_t first; /* id of the first accepted job; those after it have the ids after that */
    uint32_t count; /* how many were accepted */
    json_t *errors; /* array of refused ones, ascending; optional */
};
extern const struct flux_schema job_submitted_schema;

/* Required: ids.  NULL: all (job.watch, job.wait: those that are active) */
struct job_ids {
    const char *ids; /* optional */
};
extern const struct flux_schema job_ids_schema;

struct job_list {
    const char *ids;  /* only these */
    const char *name; /* only jobs of that name */
    uint32_t states;  /* mask of JOB_STATE_BIT(); 0: the active ones (with `ids`: all) */
    int64_t user;     /* only of that user id; -1: all.  Set to -1 first */
    uint32_t max;     /* maximum number, from the first in their order; 0: all */
    double since;     /* ended ones: only those that ended then or later */
    bool estimates;   /* ask for t_estimate and why */
};
extern const struct flux_schema job_list_schema;

/* A page of at most 1000 jobs: active ones by the order in which they stand in the queue, then
 * those that run, then ended ones, newest first. */
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
    uint32_t nnodes; /* asked for; of the allocation once there is one */
    uint32_t ntasks;
    uint32_t ncores;
    double duration; /* limit in seconds; 0: none */
    double t_submit; /* seconds since 1970; those that follow 0 when not (yet) */
    double t_depend;
    double t_run;
    double t_cleanup;
    double t_inactive;
    double t_estimate; /* when it is expected to start */
    double expiration; /* when its time is up */
    const char *ranks; /* of its allocation: node numbers, idset */
    const char *nodelist;
    const char *switches;   /* leaf switches that it is on, a hostlist; NULL: not known */
    double hops;            /* mean hops between two of its nodes; only with `switches` */
    const char *result;     /* job_result_name(); NULL: has not ended */
    int code;               /* exit code, once it has ended */
    const char *exception;  /* type of what ended it */
    const char *note;       /* sentence of that exception */
    int64_t canceled_by;    /* user id of who canceled it; -1: nobody did */
    json_t *failed;         /* tasks that failed, see job_failed_count(); NULL: not given */
    const char *warning;    /* what of its request is not done, though it runs */
    const char *why;        /* why it waits, or why what became of it is not on record */
    const char *uri;        /* of the session that it is */
    const char *dependency; /* dependencies not met, with commas between: "afterok:7" */
};
extern const struct flux_schema job_info_schema;

struct job_cancel {
    const char *ids; /* required */
    const char *note;
};
extern const struct flux_schema job_cancel_schema;

struct job_raise {
    const char *ids;  /* required */
    const char *type; /* required: a word of letters, digits, '-', '_' */
    int severity;     /* 0 (fatal) to 7 */
    const char *note;
};
extern const struct flux_schema job_raise_schema;

struct job_kill {
    const char *ids; /* required */
    int signum;
};
extern const struct flux_schema job_kill_schema;

struct job_urgency {
    const char *ids;  /* required */
    uint32_t urgency; /* 0: hold ... 31 */
};
extern const struct flux_schema job_urgency_schema;

struct job_acted {
    uint32_t count; /* jobs that it was done to */
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
    const char *text;    /* what ended it, when that was not the tasks; or the error message */
    const char *warning; /* what of its request was not done, though it ran */
    int error;           /* 0; ENOENT: there is no such job (any more) */
    int64_t canceled_by; /* user id of who canceled it; -1: nobody did */
    json_t *failed;      /* tasks that failed, see job_failed_count(); NULL: not given */
};
extern const struct flux_schema job_ended_schema;

/* Tasks that failed by themselves, as the event "finish" has them, too:
 *    {"count":20,"first":[[task,rank,"host",status],...]}
 * with at most JOB_FAILED_MAX in "first". */
#define JOB_FAILED_MAX 8
struct job_failed {
    uint32_t task;
    uint32_t rank;
    const char *host; /* "": not known */
    int status;       /* as of wait(2) */
};
/* How many there are; 0 when it cannot be read. */
size_t job_failed_count(const json_t *failed);
/* Number i of the first ones.  0; -1 with ENOENT behind the last, EPROTO. */
int job_failed_at(const json_t *failed, size_t i, struct job_failed *f);

struct job_watch_page {
    json_t *transitions; /* array of [id, "STATE", seconds since 1970] */
};
extern const struct flux_schema job_watch_page_schema;

/* op: "status"; "stop" and "start" scheduling; "disable" and "enable" submission; "drain": disable,
 * and answer when no job is active; "idle": answer when no job runs, and none waits for resources
 * that is not held; "end": cancel the jobs that run, start no other, and answer when none runs. */
struct job_queue {
    const char *op;     /* required */
    const char *reason; /* of "stop" and "disable": for those who are refused */
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
    uint64_t inactive; /* kept */
    const char *reason;
};
extern const struct flux_schema job_queue_status_schema;

/* The nodes of these ranks leave the session.  Answered when no job has resources of them. */
struct job_leave {
    const char *ranks;  /* required */
    const char *reason; /* required: why they leave, and who said so */
    double grace;       /* seconds after which jobs there are ended; < 0: never */
};
extern const struct flux_schema job_leave_schema;

struct job_purge {
    const char *ids; /* only these */
    double age;      /* only those that ended at least this time ago, in seconds; 0: any */
    int64_t keep;    /* number of most recent jobs to keep; -1: no limit.  Set to -1 first */
    bool force;      /* all ended ones, when neither ids nor age nor keep is given */
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

/* Response to job.stats.  Every member is always there. */
struct job_stats {
    uint64_t submitted, refused, purged, active, inactive, specs, parsed, envs, commits, failed,
        launches, ended, allocs, returned, denied, feeds, held, timers;
    bool ready, durable, sched, wrexec;
    uint32_t senders, watchers, feeding;
};
extern const struct flux_schema job_stats_schema;

/* Read number i of an "errors" array.  0; -1 with ENOENT behind the last, EPROTO. */
int job_error_at(const json_t *errors, size_t i, uint64_t *number, int *errnum, const char **text);
/* Append one to *errors, which is made when it is NULL.  -1 with ENOMEM. */
int job_error_add(json_t **errors, uint64_t number, int errnum, const char *text);

extern const struct flux_method job_methods[];

#endif
