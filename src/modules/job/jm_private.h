/* Declarations that the files of the job module share; jm_module.c describes the whole. */
#ifndef JM_PRIVATE_H
#define JM_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jm_heap.h"
#include "libservice/claim.h"
#include "libservice/early.h"
#include "libservice/presence.h"
#include "libservice/session.h"
#include "libservice/setup.h"
#include "libflux/courier.h"
#include "libflux/module.h"
#include "libflux/slice.h"
#include "libjob/job_wire.h"
#include "libjob/jobspec.h"
#include "libjob/jobstate.h"
#include "libjob/submit.h"
#include "libkvs/kvs.h"
#include "libresource/resgraph.h"
#include "libresource/rset.h"
#include "libutil/hmap.h"
#include "libutil/holdpoint.h"
#include "libutil/list.h"
#include "libutil/strbuf.h"

#define JM_EVENTLOG_MAX 65536 /* bytes; beyond that, only events that end a job are added */
#define JM_SIGNALS 65
#define JM_EARLY_MAX 65536 /* requests */
#define JM_RESRC_TRIES 20  /* attempts, a quarter of a second apart */
#define JM_IDS_MAX 1000000 /* ids that one request may name */

/* A jobspec, shared by all jobs in memory that have the same text. */
struct jm_spec {
    uint64_t hash;
    uint32_t refs;
    bool shared;   /* is in jm.specs */
    jobspec_t *js; /* parsed; NULL after it was dropped to save memory: jm_spec_parse() */
    struct rreq req;
    char *req_json;   /* for the scheduler */
    uint64_t checked; /* jm_resources.c: number of the inventory that satisfies it; 0: none */
    char *impossible; /* why no job of it that was read back can start any more, or NULL */
    char *name;
    uint32_t ntasks, nnodes, ncores;
    uint32_t min_slots, max_slots; /* of a range, from which req.nslots is chosen; else 0 */
    uint32_t ndeps;
    double begin;
    double grace; /* < 0: the session's */
    bool requeue; /* runs again when it was ended by the loss of a node */
    bool survive; /* goes on when it loses a node */
    size_t len;
    char text[];
};

/* An environment, shared like a jobspec: NAME=value strings, each with its NUL. */
struct jm_env {
    uint64_t hash;
    uint32_t refs;
    bool shared;
    uint64_t source; /* job under which it is in the KVS, in jm_env_table.sources; 0: none */
    size_t len;
    char data[];
};

enum jm_time_event { JM_TIME_NONE, JM_TIME_BEGIN, JM_TIME_LIMIT, JM_TIME_GRACE, JM_TIME_AGAIN };

/* An active job: one that has not ended, or whose end is not recorded yet.  Each group of fields
 * belongs to one file (`sched`: jm_sched.c); other files read those of jm_job.c and jm_state.c, and
 * call functions for all others. */
struct jm_job {
    /* jm_job.c; read by all */
    uint64_t id;
    struct jm *jm;
    struct list_node node; /* all jobs, in ascending order of ids */
    struct jm_spec *spec;
    struct jm_env *env;
    struct list_node waits; /* jm_wait.c: struct jm_wait_ref */
    char *uri;              /* jm_control.c: of the session that runs in the job */
    bool namespace : 1; /* jm_namespace.c: remove the namespace that the last session left, when the
                         * job ends */
    bool from_store : 1; /* jm_load.c: the job was read back */
    bool again : 1;      /* jm_state.c: it is queued again when its tasks are gone */
    /* jm_state.c; read by all */
    struct jobstate st;
    strbuf_t *log;     /* its events */
    rset_t *r;         /* its resources */
    char *r_json;      /* the same as text */
    char *switches;    /* leaf switches that these are on; NULL: not known */
    double hops;       /* mean hops between two of its nodes, with `switches` */
    double t_last;     /* time of its last event: these times never go back */
    double expiration; /* by the wall clock, for display */
    double deadline;   /* the same by the clock of the reactor; 0: none */
    struct {
        struct claim claim;    /* of the client with which it ends (JOB_FLAG_CLIENT) */
        struct list_node node; /* while it waits for that client */
        double until;          /* by the clock of the reactor */
    } client;
    struct {
        char *type, *note;   /* of the exception that ended it */
        int64_t canceled_by; /* user; -1: none */
        char *failed;        /* tasks, as JSON; NULL: none */
    } end;
    char *warning; /* note of its first exception of type "warning" */
    struct {
        struct list_node dirty; /* with changes to be recorded, or in the outstanding transaction,
                                 * or in jm_submission.jobs */
        struct jm_submission *sub; /* until the job is recorded */
        bool put_spec : 1;         /* the next transaction includes jobspec and environment, */
        bool put_r : 1;            /* the resources, */
        bool put_uri : 1;          /* the URI */
        bool sent : 1;             /* it is in the outstanding transaction, */
        bool changed : 1;          /* and has changed since */
        char *past_r; /* resources of an attempt that was over before they were recorded */
    } store;
    struct {
        struct list_node feed; /* while it is to be sent to the scheduler */
        bool feeding : 1;      /* `feed` is in a list */
        bool fed : 1;          /* the scheduler has it in its queue */
        bool allocated : 1;    /* it has resources of the scheduler */
        char *why;             /* why the job waits, according to the scheduler */
        double estimate;       /* of its start, according to the scheduler; 0: none */
        double t_queued;       /* its submission, by the clock of the reactor */
    } sched;
    struct {
        struct list_node node; /* while it is to be launched */
        bool launching : 1;    /* it is to be launched when that is permitted */
        bool start_recorded : 1;
        bool launched : 1; /* wrexec has it, */
        bool unsure : 1;   /* or had it: the stream's first response will show that */
        uint64_t outputlost;
    } exec;
    struct {
        struct list_node deps;      /* struct jm_dep: the job waits for others */
        struct list_node wanted_by; /* struct jm_dep: other jobs wait for the job */
        struct list_node failed;    /* while it is to be ended, because a dependency can never be
                                  * met, */
        char *note;                 /* which this names */
        uint32_t n;                 /* unresolved dependencies; the begin time counts as one */
        bool begins;                /* the begin time is one of these */
    } depend;
    struct {
        struct jm_heap_node node;
        uint8_t what; /* enum jm_time_event */
    } time;
};

/* A job whose end is recorded.  Texts, each with its NUL, in this order: name, ranks, hosts, type
 * and note of the exception, uri, failed tasks (JSON), leaf switches, warning. */
enum {
    JM_TEXT_NAME,
    JM_TEXT_RANKS,
    JM_TEXT_HOSTS,
    JM_TEXT_TYPE,
    JM_TEXT_NOTE,
    JM_TEXT_URI,
    JM_TEXT_FAILED,
    JM_TEXT_SWITCHES,
    JM_TEXT_WARNING
};
struct jm_ended {
    struct list_node node; /* in jm.ended_list, by end */
    uint64_t id;
    double t_submit, t_depend, t_run, t_cleanup, t_inactive;
    double duration;
    int64_t canceled_by; /* user; -1: none */
    uint32_t uid;
    uint32_t nnodes, ntasks, ncores;
    float hops;
    int code;
    uint8_t urgency;
    uint8_t result;
    char text[];
};

/* A request that takes effect once, and those that have arrived again for it (jm_repeat.c). */
struct jm_repeated {
    const flux_msg_t *req;
    struct jm_repeat_entry *entry; /* NULL: it has no number */
    flux_msg_t **again;
    size_t nagain;
    bool recorded; /* it is answered when the present changes are recorded */
};

/* A job.submit that is being decoded or recorded.  Only jm_submit.c uses it, except for `store`. */
struct jm_submission {
    struct list_node node; /* in jm_submit.waiting until it is completely decoded */
    flux_msg_t *req;
    struct submit_frame it;
    struct jm_env **envs;
    uint32_t nenvs;
    uint32_t index; /* of the next job in the frame */
    uint64_t first;
    uint32_t count;
    size_t bytes, counted; /* counted: those of them that are in jm_submit.bytes */
    json_t *errors;
    struct jm_repeated repeated;
    bool gone;  /* its client disconnected before it was completely decoded */
    bool lost;  /* the broker of its client was lost before that */
    int errnum; /* of a refusal of all its jobs */
    errmsg_t err;
    struct {
        struct list_node jobs; /* jm_job.store.dirty, until it is completely decoded */
        size_t left;           /* number of jobs that are not recorded */
        bool unknown;          /* the module ends, and the store may have accepted it */
    } store;                   /* jm_store.c */
};

struct jm_ids {
    uint64_t *ids;
    size_t n, cap;
};

/* A request about many jobs: see jm_many.c. */
struct jm_many {
    struct list_node node; /* in jm.many while there is more to do */
    struct jm *jm;
    /* Do a slice of the work; at the end answer, free, and return true. */
    bool (*step)(struct jm_many *m, struct flux_slice *slice);
    void (*drop)(struct jm_many *m); /* the module ends */
};

enum jm_journal_kind {
    JM_JOURNAL_STARTED,
    JM_JOURNAL_COMPLETED,
    JM_JOURNAL_FAILED,
    JM_JOURNAL_WARNED,
    JM_JOURNAL_KINDS
};
/* The instance.  Each part is defined in the file of its name, and its fields are private to that
 * file. */
struct jm {
    flux_t *h;
    flux_reactor_t *r;
    struct claims *senders; /* requests: they end with the way of their sender */
    struct claims *clients; /* jobs: they end with their client, and not with its way */
    presence_t *presence;   /* clients whose way was lost */
    early_t *early;         /* requests that came before jobs were read back */
    bool ready;             /* jobs were read back */
    /* settings: */
    bool durable;  /* the session has a statedir */
    int64_t owner; /* user that jobs run as; -1: not known */
    double grace;
    double client_grace;
    double purge_age; /* 0: never */
    uint64_t purge_count;
    uint64_t max_queued;
    struct holdpoint hold;
    /* parts: */
    struct jm_client *client;
    struct jm_depend *depend;
    struct jm_ended_table *ended;
    struct jm_env_table *envs;
    struct jm_exec *exec;
    struct jm_job_table *jobs;
    struct jm_journal *journal;
    struct jm_leave *leave;
    struct jm_list *list;
    struct jm_load *load; /* NULL except while jobs are read back */
    struct jm_many_table *many;
    struct jm_namespace *namespace;
    struct jm_purge *purge;
    struct jm_queue *queue;
    struct jm_repeat *repeat;
    struct jm_resources *resources;
    struct jm_sched *sched;
    struct jm_spec_table *specs;
    struct jm_store *store;
    struct jm_submit *submit;
    struct jm_time *time;
    struct jm_wait_table *waits;
    struct jm_watch *watch;
};

/* The functions of a part.  X_create() sets jm->X; after -1 with ENOMEM, X_destroy(), which is
 * NULL-safe, is called, too.  X_stats() adds the counters of the part to the response to job.stats,
 * and may be missing. */
#define JM_PART(name)                 \
    int name##_create(struct jm *jm); \
    void name##_destroy(struct jm *jm);
#define JM_STATS(name) void name##_stats(const struct jm *jm, struct job_stats *st);
JM_PART(jm_client)
JM_PART(jm_depend)
JM_PART(jm_ended_table)
JM_STATS(jm_ended)
JM_PART(jm_env_table)
JM_STATS(jm_env)
JM_PART(jm_exec)
JM_STATS(jm_exec)
JM_PART(jm_job_table)
JM_STATS(jm_job)
JM_PART(jm_journal)
JM_PART(jm_leave)
JM_PART(jm_list)
JM_PART(jm_many)
JM_PART(jm_namespace)
JM_PART(jm_purge)
JM_STATS(jm_purge)
JM_PART(jm_queue)
JM_PART(jm_repeat)
JM_PART(jm_resources)
JM_PART(jm_sched)
JM_STATS(jm_sched)
JM_PART(jm_spec_table)
JM_STATS(jm_spec)
JM_PART(jm_store)
JM_STATS(jm_store)
JM_PART(jm_submit)
JM_STATS(jm_submit)
JM_PART(jm_time)
JM_STATS(jm_time)
JM_PART(jm_wait)
JM_PART(jm_watch)
JM_STATS(jm_watch)

/* --- jm_module.c --- */

/* Schedule the pass before the reactor sleeps. */
void jm_module_kick(struct jm *jm);
/* Keep a request until jobs were read back; true if it was kept (or refused). */
bool jm_request_early(struct jm *jm, const flux_msg_t *req, flux_handler_f cb);
/* Did this sender, or (NULL) a sender at these ranks, send the request? */
bool jm_request_is_from(const flux_msg_t *req, const char *sender, const idset_t *ranks);
/* May the sender see and change jobs of this user? */
bool jm_request_may(const flux_msg_t *req, uint32_t uid);
/* Append a string; an empty one instead of a string that is not UTF-8. */
void jm_json_text(strbuf_t *sb, const char *key, const char *text);
/* The first `n` ids, as an array. */
void jm_json_ids(strbuf_t *sb, const char *key, const struct jm_ids *v, size_t n);
/* The ids of a request.  NULL when the request was answered with an error. */
idset_t *jm_request_ids(struct jm *jm, const flux_msg_t *req, const char *text);
/* The start of the handler `cb` of streaming requests for jobs, of which `n` are open and at most
 * `max` may be.  True with the ids (NULL: all jobs); false when the request was kept for later, or
 * answered with an error. */
bool jm_request_stream(struct jm *jm, const flux_msg_t *req, flux_handler_f cb, size_t n,
                       size_t max, idset_t **ids);
int jm_ids_add(struct jm_ids *v, uint64_t id);
void jm_ids_drop_first(struct jm_ids *v, size_t n);
void jm_ids_clear(struct jm_ids *v);

/* --- jm_spec.c, jm_env.c, jm_job.c, jm_ended.c --- */

/* A hash only for distribution: equality is decided by the bytes. */
uint64_t jm_spec_hash(const char *data, size_t len);

struct jm_spec *jm_spec_get(struct jm *jm, const char *text, size_t len, errmsg_t *err);
/* Parse spec->js if it was dropped.  -1 with errno and a sentence. */
int jm_spec_parse(struct jm *jm, struct jm_spec *spec, errmsg_t *err);
/* Request as many of a range of slots as the inventory can ever hold.  -1 with ENOMEM, or with a
 * sentence when it cannot hold the minimum, which is then requested. */
int jm_spec_fit(struct jm *jm, struct jm_spec *spec, errmsg_t *err);
/* Note that the spec is not in use at present: drop its parsed form if there are too many of them,
 * or it will not be needed again. */
void jm_spec_idle(struct jm *jm, struct jm_spec *spec, bool launched);
void jm_spec_put(struct jm *jm, struct jm_spec *spec);
struct jm_env *jm_env_get(struct jm *jm, const char *data, size_t len);
struct jm_env *jm_env_share(struct jm_env *env); /* one more reference */
/* The job under which the environment is in the store (0: none); record that it is under this job
 * now, which matters if other jobs have it, too; record that the one under this job does not exist
 * any more. */
uint64_t jm_env_source(const struct jm_env *env);
void jm_env_set_source(struct jm *jm, struct jm_env *env, uint64_t id);
void jm_env_drop_source(struct jm *jm, uint64_t id);
void jm_env_put(struct jm *jm, struct jm_env *env);
/* Takes over the references to spec and env on success. */
struct jm_job *jm_job_create(struct jm *jm, uint64_t id, struct jm_spec *spec, struct jm_env *env);
/* Also removes it from all lists. */
void jm_job_destroy(struct jm_job *j);
/* The fields of a file in each job: X_job_init() for a new job, X_job_clear() for one that is
 * destroyed. */
void jm_control_job_clear(struct jm_job *j);
void jm_depend_job_init(struct jm_job *j);
void jm_exec_job_init(struct jm_job *j);
void jm_sched_job_init(struct jm_job *j);
void jm_sched_job_clear(struct jm_job *j);
int jm_state_job_init(struct jm_job *j); /* -1 with ENOMEM */
void jm_state_job_clear(struct jm_job *j);
void jm_store_job_init(struct jm_job *j);
void jm_store_job_clear(struct jm_job *j);
void jm_wait_job_init(struct jm_job *j);
/* In the order of ids; NULL: none (before, after). */
struct jm_job *jm_job_first(const struct jm *jm);
struct jm_job *jm_job_next(const struct jm_job *j);
struct jm_job *jm_job_prev(const struct jm_job *j);
size_t jm_job_count(const struct jm *jm);
/* The number of jobs in these states (JOB_STATE_BIT()). */
uint32_t jm_job_count_states(const struct jm *jm, unsigned states);
/* Is it in SCHED with urgency 0; the number of such jobs. */
bool jm_job_held(const struct jm_job *j);
uint32_t jm_job_count_held(const struct jm *jm);
/* The job's state or urgency has changed: its former state, and whether it was held. */
void jm_job_moved(struct jm_job *j, enum job_state was, bool held);
/* Sort the jobs that were read back, which are in the order of the directory. */
void jm_job_sort(struct jm *jm);
/* Assign the next id; jm_job_reserve(): this id and all below are in use. */
uint64_t jm_job_next_id(const struct jm *jm);
void jm_job_reserve(struct jm *jm, uint64_t id);
/* Note that the memory of a job, or of the record of one, was freed. */
void jm_job_freed(struct jm *jm);
struct jm_job *jm_job_find(const struct jm *jm, uint64_t id);
struct jm_ended *jm_ended_find(const struct jm *jm, uint64_t id);
/* Replace a job whose end is recorded by its small record, and notify its waiters. */
void jm_job_retire(struct jm_job *j);
struct jm_ended *jm_ended_create(const struct jm_job *j);
/* Add by end; takes it over. */
int jm_ended_add(struct jm *jm, struct jm_ended *e);
/* Sort the records that were read back. */
void jm_ended_sort(struct jm *jm);
size_t jm_ended_count(const struct jm *jm);
/* In the order of ends; NULL: none (before, after). */
struct jm_ended *jm_ended_first(const struct jm *jm);
struct jm_ended *jm_ended_last(const struct jm *jm);
struct jm_ended *jm_ended_next(const struct jm *jm, const struct jm_ended *e);
struct jm_ended *jm_ended_prev(const struct jm *jm, const struct jm_ended *e);
void jm_ended_drop(struct jm *jm, struct jm_ended *e);
const char *jm_ended_text(const struct jm_ended *e, int which);
/* Called when the module is idle. */
void jm_job_trim(struct jm *jm);

/* --- jm_state.c: events and their consequences --- */

/* Add an event to the log and change the state by the table; the job becomes dirty. */
void jm_state_event(struct jm_job *j, struct job_event *ev);
void jm_state_event_plain(struct jm_job *j, enum job_event_type type);
/* Continue a new job, or one whose dependency or urgency has changed, as far as it does not have to
 * wait. */
void jm_state_advance(struct jm_job *j);
/* Resources were allocated to it; takes both over.  `switches` (NULL: not known) and hops: their
 * location. */
void jm_state_allocated(struct jm_job *j, rset_t *r, char *r_json, const char *switches,
                        double hops);
/* Is its log too long for events that do not end the job? */
bool jm_state_log_full(const struct jm_job *j);
/* Restore a job that was read back from its log.  A job with resources that was never launched
 * loses them: its log ends before that.  -1 with a sentence. */
int jm_state_restore(struct jm_job *j, const char *text, size_t len, errmsg_t *err);
int jm_state_restore_resources(struct jm_job *j, const char *text, size_t len, errmsg_t *err);
/* The deadline, by the clock of the reactor, of a running job with a time limit. */
double jm_state_restore_limit(struct jm_job *j);
/* Record an exception.  Severity 0 ends the job, or this attempt to run it; with `kill` also its
 * tasks. */
void jm_state_exception(struct jm_job *j, const char *type, int severity, const char *note,
                        uint32_t uid, bool kill);
/* wrexec reports its end.  Before jm_state_finished(): the failure that ended its tasks, an
 * exception of this type, which has no effect if its end, or that of the attempt, is known. */
void jm_state_failed(struct jm_job *j, const char *type, const char *text);
/* `status` as of wait(2).  The times at which the last task was started and reaped, by the clocks
 * of their nodes; 0: not known.  `failed`: its failed tasks, NULL: none, or not given. */
void jm_state_finished(struct jm_job *j, int status, double started, double exited, json_t *failed);
/* From CLEANUP to INACTIVE: return its resources. */
void jm_state_cleanup(struct jm_job *j);
bool jm_state_active(const struct jm_job *j); /* neither CLEANUP nor INACTIVE */

/* --- jm_store.c --- */

void jm_store_dirty(struct jm_job *j);
/* Include this part of the job in the next transaction. */
enum jm_store_part { JM_STORE_SPEC, JM_STORE_R, JM_STORE_URI };
void jm_store_put(struct jm_job *j, enum jm_store_part what);
/* The attempt that had these resources (taken over) is over: record them if that was not done. */
void jm_store_past_r(struct jm_job *j, char *r_json);
/* Initialize a submission; add a job to it; destroy it.  Has it jobs that are not recorded? */
void jm_store_submission_init(struct jm_submission *sub);
void jm_store_job_submitted(struct jm_job *j, struct jm_submission *sub);
void jm_store_submission_clear(struct jm_submission *sub);
bool jm_store_submission_open(const struct jm_submission *sub);
/* Record all jobs of a submission together. */
void jm_store_submission(struct jm *jm, struct jm_submission *sub);
/* Record the state of the queue. */
void jm_store_queue(struct jm *jm);
/* Are there changes of jobs that are not recorded yet? */
bool jm_store_busy(const struct jm *jm);
/* Why the store refuses the changes of the job; NULL: it does not. */
const char *jm_store_failure(const struct jm_job *j);
/* Jobs were read back: record the next id. */
void jm_store_loaded(struct jm *jm);
void jm_store_flush(struct jm *jm);
/* The module ends: send the remaining changes. */
void jm_store_last(struct jm *jm);
/* Remove a job from the store. */
void jm_store_unlink(struct jm *jm, uint64_t id);
/* Answer a request with `json` (taken over) when the present changes are recorded. */
void jm_store_answer(struct jm *jm, const flux_msg_t *req, char *json);

/* --- jm_repeat.c --- */

/* Has a request with this number arrived before?  Then this one was answered, or will be. */
bool jm_repeat_seen(struct jm *jm, const flux_msg_t *req, uint64_t number);
/* Note a request that is being handled; `req` lives as long as `r`.  -1 with ENOMEM. */
int jm_repeat_begin(struct jm *jm, struct jm_repeated *r, const flux_msg_t *req, uint64_t number);
/* Send the answer, JSON or (errnum != 0) an error message, to the request and to those that have
 * arrived again for it, and keep it. */
void jm_repeat_end(struct jm *jm, struct jm_repeated *r, int errnum, const char *text);
/* The request is over: forget it if it was not answered. */
void jm_repeat_drop(struct jm *jm, struct jm_repeated *r);

/* --- jm_client.c --- */

#define JM_CLIENT_GONE "its client went away"
void jm_client_job_init(struct jm_job *j);
void jm_client_job_clear(struct jm_job *j);
/* The job ends with the sender of this request, if it is such a job; `lost`: the sender's broker is
 * lost.  Returns false if it has to end now. */
bool jm_client_begin(struct jm_job *j, const flux_msg_t *req, bool lost);
/* The brokers of these ranks are lost, and their clients with them, unless they return. */
void jm_client_lost(struct jm *jm, const idset_t *ranks);
void jm_client_claim_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* --- jm_submit.c --- */

void jm_submit_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* Is a submission being decoded? */
bool jm_submit_busy(const struct jm *jm);
/* Count a job as refused after all. */
void jm_submit_withdrawn(struct jm *jm);
void jm_submit_pass(struct jm *jm);
size_t jm_submit_bytes(const struct jm_submission *sub);
/* Refuse all jobs of a submission: this is the response. */
void jm_submit_fail(struct jm_submission *sub, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool jm_submit_failed(const struct jm_submission *sub);
/* The store has accepted all of its jobs, or refused them (jm_submit_fail()). */
void jm_submit_done(struct jm *jm, struct jm_submission *sub);
/* Destroy it without a response. */
void jm_submit_drop(struct jm *jm, struct jm_submission *sub);
/* This sender, or (NULL) all at these ranks, are gone: drop their submissions that are not
 * completely decoded. */
void jm_submit_gone(struct jm *jm, const char *sender, const idset_t *ranks);
/* Is a submission of the sender of this notice being read? */
bool jm_submit_reads_from(const struct jm *jm, const flux_msg_t *notice);

/* --- jm_resources.c --- */

void jm_resources_start(struct jm *jm);
/* The inventory; NULL: not known. */
resgraph_t *jm_resources_inventory(const struct jm *jm);
/* Ranks of nodes that share cores with others; NULL: none. */
const idset_t *jm_resources_shared(const struct jm *jm);
/* Is the inventory known (or known to be absent)? */
bool jm_resources_known(const struct jm *jm);
int jm_resources_satisfiable(struct jm *jm, struct jm_spec *spec, errmsg_t *err);

/* --- jm_sched.c --- */

void jm_sched_start(struct jm *jm);
/* Have the scheduler queue it, or send it the new urgency if it has the job already. */
void jm_sched_add(struct jm_job *j);
/* These have no effect on a job that the scheduler does not have. */
void jm_sched_remove(struct jm_job *j);
void jm_sched_urgency(struct jm_job *j);
/* Return its resources, if it has any. */
void jm_sched_free(struct jm_job *j);
bool jm_sched_fed(const struct jm_job *j); /* is it in the scheduler's queue? */
bool jm_sched_attached(const struct jm *jm);
/* Store why the job waits, and when it will start (0: not known), according to the scheduler. */
void jm_sched_set_why(struct jm_job *j, const char *reason, double estimate);
const char *jm_sched_why(const struct jm_job *j);
double jm_sched_estimate(const struct jm_job *j);
/* For a job that was read back: the time since which it is queued; it has resources; it is to be
 * scheduled. */
void jm_sched_restore(struct jm_job *j);
void jm_sched_restore_allocated(struct jm_job *j);
void jm_sched_restore_queued(struct jm_job *j);
void jm_sched_enable(struct jm *jm);
void jm_sched_flush(struct jm *jm);

/* --- jm_exec.c, jm_launch.c --- */

void jm_exec_start(struct jm *jm);
/* Launch it as soon as that is permitted. */
void jm_exec_launch(struct jm_job *j);
/* Its start is recorded. */
void jm_exec_recorded(struct jm_job *j);
void jm_exec_forget(struct jm_job *j);
bool jm_exec_launching(const struct jm_job *j); /* it is to be launched */
bool jm_exec_launched(const struct jm_job *j);  /* wrexec has it */
/* Its tasks have ended. */
void jm_exec_done(struct jm_job *j);
/* It was launched before this module was loaded. */
void jm_exec_restore(struct jm_job *j);
void jm_exec_flush(struct jm *jm);
/* Is there a job whose start is recorded, but that was not yet sent to wrexec?  The next instance
 * would count it as lost. */
bool jm_exec_busy(const struct jm *jm);
void jm_exec_kill(struct jm *jm, uint64_t id, int signum);
/* An attempt of the job has ended: do not send its signals any more. */
void jm_exec_unkill(struct jm_job *j);
struct launchbuf;
/* Add the job to the launch request.  -1 with errno (EMSGSIZE: send it first) and a sentence. */
int jm_launch_add(struct jm_job *j, struct launchbuf *buf, errmsg_t *err);

/* --- jm_depend.c --- */

/* Are the targets of its dependencies known?  -1 with a sentence. */
int jm_depend_check(struct jm *jm, struct jm_spec *spec, errmsg_t *err);
/* Wait for the unmet dependencies. */
int jm_depend_add(struct jm_job *j);
/* A job has started, or ended: notify its dependents. */
void jm_depend_started(struct jm_job *j);
void jm_depend_ended(struct jm_job *j);
/* Notify more dependents, and end jobs whose dependencies can never be met. */
void jm_depend_flush(struct jm *jm);
/* Are there dependents that were not yet notified? */
bool jm_depend_pending(const struct jm *jm);
/* Remove all its dependencies. */
void jm_depend_drop(struct jm_job *j);
bool jm_depend_met(const struct jm_job *j); /* are all its dependencies met? */
void jm_depend_begin(struct jm_job *j);
/* Restore the unmet dependencies of a job that was read back in DEPEND, from its log. */
void jm_depend_restore(struct jm_job *j);
/* "afterok:7,begin-time:..." of its unmet dependencies, malloc'd; NULL: none. */
char *jm_depend_text(const struct jm_job *j);

/* --- jm_time.c --- */

int jm_time_set(struct jm_job *j, enum jm_time_event what, double at);
void jm_time_clear(struct jm_job *j);
void jm_time_flush(struct jm *jm);

/* --- jm_wait.c, jm_watch.c --- */

void jm_wait_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_wait_ended(struct jm_job *j, const struct jm_ended *e);
void jm_wait_flush(struct jm *jm);
void jm_watch_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_watch_transition(struct jm_job *j);
/* The transitions so far are in the transaction that is sent now; it is recorded; it has failed. */
void jm_watch_sent(struct jm *jm);
void jm_watch_recorded(struct jm *jm);
/* Send new transitions, and more of the present states to new watchers. */
void jm_watch_pass(struct jm *jm);
/* The job is about to be removed from jm.jobs. */
void jm_watch_forget(struct jm_job *j);

/* --- jm_queue.c --- */

void jm_queue_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_queue_check(struct jm *jm);
bool jm_queue_ending(const struct jm *jm);
/* *reason (which may be NULL): the reason of the request, or NULL. */
bool jm_queue_stopped(const struct jm *jm, const char **reason);
/* Why no job is accepted; NULL: jobs are accepted. */
const char *jm_queue_refuses(const struct jm *jm);
/* The state for the store, malloc'd; and its restoration. */
char *jm_queue_encode(struct jm *jm);
void jm_queue_decode(struct jm *jm, const char *json, size_t len);

/* --- jm_leave.c --- */

void jm_leave_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* A job has got resources, or has returned them (`there` is false). */
void jm_leave_moved(struct jm_job *j, bool there);
void jm_leave_check(struct jm *jm);

/* --- jm_control.c --- */

void jm_control_cancel_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_raise_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_kill_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_urgency_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_memo_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* The address of the session in the job; NULL: there is none, or it is not known. */
const char *jm_control_uri(const struct jm_job *j);
/* The session has ended; a later attempt of the job is another session. */
void jm_control_uri_forget(struct jm_job *j);

/* --- jm_journal.c --- */

/* Log a message of this kind about the job soon. */
void jm_journal_add(struct jm *jm, enum jm_journal_kind kind, uint64_t id);
void jm_journal_ended(struct jm *jm, const struct jm_ended *e);
/* job.journal: log all gathered messages now. */
void jm_journal_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* Log the user of a request at once: "user 0 WHAT ON: NOTE" (NULL: none). */
void jm_journal_request(struct jm *jm, const flux_msg_t *req, const char *what, const char *on,
                        const char *note);

/* --- jm_many.c --- */

/* If too many requests are in progress, refuse this one. */
bool jm_many_full(struct jm *jm, const flux_msg_t *req);
/* Begin a request; m->step and m->drop are set. */
void jm_many_start(struct jm *jm, struct jm_many *m);
/* Abandon a request. */
void jm_many_stop(struct jm_many *m);
void jm_many_pass(struct jm *jm);

/* --- jm_list.c, jm_purge.c, jm_load.c --- */

void jm_list_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_list_pass(struct jm *jm);
/* The job is about to be dropped; to be called while it still has its place among the others. */
void jm_list_job_gone(const struct jm_job *j);
void jm_list_ended_gone(struct jm *jm, const struct jm_ended *e);
void jm_purge_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* Purge jobs that are too old, or too many, according to the settings. */
void jm_purge_check(struct jm *jm);
/* The time when the next job is to be purged; INFINITY: never. */
double jm_purge_next(const struct jm *jm);
/* Continue a purge that one check did not finish. */
void jm_purge_pass(struct jm *jm);
int jm_load_start(struct jm *jm);
bool jm_load_restored(const struct jm_job *j); /* the job was read back */
/* NULL-safe. */
void jm_load_destroy(struct jm *jm);

/* --- jm_namespace.c --- */

/* A job has ended: remove the namespace that it has in the store from the last session, without
 * waiting. */
void jm_namespace_retire(const struct jm_job *j);
/* Find the namespaces that earlier instances have left, and remove them, now or when their jobs
 * end. */
void jm_namespace_sweep(struct jm *jm);

#endif
