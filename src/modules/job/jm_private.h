/* What the files of the job module share: see jm_module.c for the whole. */
#ifndef JM_PRIVATE_H
#define JM_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jm_heap.h"
#include "libclaim/claim.h"
#include "libflux/courier.h"
#include "libflux/module.h"
#include "libflux/slice.h"
#include "libjob/jobspec.h"
#include "libjob/jobstate.h"
#include "libjob/submit.h"
#include "libkvs/kvs.h"
#include "libresource/resgraph.h"
#include "libresource/rset.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "libutil/strbuf.h"

#define JM_EVENTLOG_MAX 65536 /* bytes; after that only what ends a job is added */
#define JM_SIGNALS 65
#define JM_RESRC_TRIES 20  /* a quarter of a second apart */
#define JM_IDS_MAX 1000000 /* ids that one request may name */

/* A jobspec, shared by all jobs in memory that have the same text. */
struct jm_spec {
    uint64_t hash;
    uint32_t refs;
    bool shared;   /* is in jm.specs */
    jobspec_t *js; /* parsed; NULL when it was given up to save memory: jm_spec_parse() */
    struct rreq req;
    char *req_json;   /* for the scheduler */
    uint64_t checked; /* inventory it was found satisfiable by; 0: none */
    char *impossible; /* why no job of it that was read back can start any more, or NULL */
    char *name;
    uint32_t ntasks, nnodes, ncores;
    uint32_t ndeps;
    double begin;
    double grace; /* < 0: of the session */
    size_t len;
    char text[];
};

/* An environment, shared like a jobspec: NAME=value strings, each with its NUL. */
struct jm_env {
    uint64_t hash;
    uint32_t refs;
    bool shared;
    uint64_t source; /* job under which it is in the KVS, in jm.env_sources; 0: nowhere */
    size_t len;
    char data[];
};

enum jm_time_event { JM_TIME_NONE, JM_TIME_BEGIN, JM_TIME_LIMIT, JM_TIME_GRACE, JM_TIME_AGAIN };

/* A job that is not over, or whose end is not on record yet. */
struct jm_job {
    uint64_t id;
    struct jm *jm;
    struct list_node node;      /* in jm.jobs, ascending id */
    struct list_node dirty;     /* in jm.store.dirty or .sent, or jm_submission.jobs */
    struct list_node feed;      /* in jm.sched.add, jm.sched.running or jm.doomed */
    struct list_node launch;    /* in jm.exec.launch */
    struct list_node deps;      /* struct jm_dep: it waits for others */
    struct list_node wanted_by; /* struct jm_dep: others wait for it */
    struct list_node waits;     /* struct jm_wait_ref */
    struct km_claim claim;      /* of the client it ends with (JOB_FLAG_CLIENT) */
    struct jm_heap_node timer;
    struct jm_submission *sub; /* until it is on record */
    struct jm_spec *spec;
    struct jm_env *env;
    struct jobstate st;
    strbuf_t *log; /* its events */
    size_t log_max;
    rset_t *r;    /* its resources */
    char *r_json; /* the same as text */
    char *uri;
    char *except_type, *except_note; /* of what ended it */
    int64_t canceled_by;             /* user who did; -1: none */
    char *failed;                    /* tasks, as JSON; NULL: none */
    char *why;                       /* why it waits, as the scheduler said last */
    double estimate;                 /* its start, as the scheduler said last; 0: none */
    double expiration;               /* by the wall clock: for display */
    double deadline;                 /* the same by the clock of the reactor; 0: none */
    double t_queued;                 /* submitted, by the clock of the reactor */
    double t_last;                   /* of its last event: they never go back */
    uint64_t outputlost;
    uint32_t ndeps;    /* unresolved; the begin time counts as one */
    uint8_t timer_for; /* enum jm_time_event */
    bool recorded;     /* is in the store */
    bool put_spec : 1; /* the next transaction has jobspec and environment */
    bool put_r : 1;
    bool namespace : 1; /* was left by the session before: goes with the job */
    bool put_uri : 1;
    bool sent : 1;      /* is in the transaction under way */
    bool changed : 1;   /* ... and has changed since */
    bool fed : 1;       /* the scheduler has it in its queue */
    bool feeding : 1;   /* `feed` is in the list of those it is to be told about */
    bool allocated : 1; /* the scheduler has to get resources back */
    bool launching : 1; /* is to be launched when that is allowed */
    bool start_recorded : 1;
    bool launched : 1;   /* wrexec has it */
    bool unsure : 1;     /* ... or had: it is being asked */
    bool begins : 1;     /* its begin time is one of ndeps */
    bool from_store : 1; /* was read back */
};

/* A job that is over and on record.  Texts one after the other, each with its NUL: name, ranks,
 * hosts, type and note of the exception, uri, failed tasks (JSON). */
enum {
    JM_TEXT_NAME,
    JM_TEXT_RANKS,
    JM_TEXT_HOSTS,
    JM_TEXT_TYPE,
    JM_TEXT_NOTE,
    JM_TEXT_URI,
    JM_TEXT_FAILED
};
struct jm_ended {
    struct list_node node; /* in jm.ended_list, by end */
    uint64_t id;
    double t_submit, t_depend, t_run, t_cleanup, t_inactive;
    double duration;
    int64_t canceled_by; /* user; -1: none */
    uint32_t uid;
    uint32_t nnodes, ntasks, ncores;
    int code;
    uint8_t urgency;
    uint8_t result;
    char text[];
};

/* One job waits for another. */
struct jm_dep {
    struct list_node by_job;    /* in jm_job.deps */
    struct list_node by_target; /* in jm_job.wanted_by */
    struct jm_job *job;
    enum job_dep_scheme scheme;
    uint64_t target;
};

/* A job.submit that is being read or put on record. */
struct jm_submission {
    struct list_node node; /* in jm.submissions until all of it was read */
    struct list_node jobs; /* jm_job.dirty, until all of it was read */
    flux_msg_t *req;
    struct submit_frame it;
    struct jm_env **envs;
    uint32_t nenvs;
    uint32_t index; /* of the next job in the frame */
    uint64_t first;
    uint32_t count;
    size_t bytes, counted; /* counted: of these, in jm.submit_bytes */
    size_t left;           /* jobs that are not on record */
    json_t *errors;
    bool gone;    /* its client is, before all of it was read */
    bool unknown; /* the module ends, and the store may have taken it */
    int errnum;   /* the store refused */
    errmsg_t err;
};

struct jm_ids {
    uint64_t *ids;
    size_t n, cap;
};

/* A request about many jobs: see jm_many.c. */
struct jm_many {
    struct list_node node; /* in jm.many while there is more to do */
    struct jm *jm;
    /* Do some; when all is done answer, free, and return true. */
    bool (*step)(struct jm_many *m, struct flux_slice *slice);
    void (*drop)(struct jm_many *m); /* the module ends */
};

/* A request that is answered when the next transaction is on record. */
struct jm_answer {
    struct list_node node;
    flux_msg_t *req;
    char *json;
};

struct jm_store {
    struct list_node dirty; /* jobs with something to be put on record */
    struct list_node sent;  /* those in the transaction under way */
    flux_future_t *f;
    flux_watcher_t *retry;
    flux_watcher_t *lazy;
    double tokens, tokens_at; /* see now_or_later() */
    bool urgent, wanted, due;
    bool waiting;    /* for the retry */
    bool complained; /* in the log, since the last success */
    char *failure;   /* then: why jobs cannot be put on record; NULL for lack of memory */
    struct jm_ids unlink, unlink_sent;
    bool put_queue;
    struct list_node answers, answers_sent;
    uint64_t next_id, next_id_sent; /* on record */
    uint64_t commits, failed, ops;
};

struct jm_sched {
    flux_future_t *f; /* sched.attach */
    uint64_t generation;
    flux_watcher_t *again;
    struct list_node add;     /* jobs to be told */
    struct list_node running; /* jobs that have resources, after it was attached */
    struct jm_ids free, remove, urgency;
    bool enabled; /* what it is to know */
    bool told;    /* it knows */
    unsigned inflight;
    uint64_t feeds, allocs, denied, returned;
};

struct jm_exec {
    flux_future_t *f; /* wrexec.jobs */
    bool attached;
    flux_watcher_t *again;
    struct list_node launch;        /* jobs to be launched */
    struct jm_ids kill[JM_SIGNALS]; /* to be sent, by signal */
    bool killing;
    courier_t *courier; /* of what goes to wrexec */
    struct jm_ids sent; /* the last kill that left, and its signal */
    int sent_signal;
    uint64_t launches, ended;
};

enum jm_journal_kind {
    JM_JOURNAL_STARTED,
    JM_JOURNAL_COMPLETED,
    JM_JOURNAL_FAILED,
    JM_JOURNAL_KINDS
};
struct jm_journal {
    idset_t *ids[JM_JOURNAL_KINDS]; /* to be told of; NULL: none */
    flux_watcher_t *timer;
};

struct jm_queue {
    bool ending;                /* the session goes down */
    bool stopped;               /* nothing new is given resources */
    bool disabled;              /* nothing new is accepted */
    char *reason, *stop_reason; /* of disabled, of stopped; NULL: none */
};

struct jm {
    flux_t *h;
    flux_reactor_t *r;
    flux_handlers_t *handlers;
    struct km_senders *senders;
    flux_watcher_t *pass;        /* does once what all that came in asks for */
    double now;                  /* of this pass; monotonic */
    bool durable;                /* the session has a statedir */
    int64_t owner;               /* user that jobs run as; -1: not known */
    bool ready;                  /* jobs were read back */
    flux_future_t *namespaces_f; /* which namespaces are left of jobs that ended? */
    struct list_node held;       /* requests that came before */
    size_t nheld, held_bytes;
    /* jm_table.c */
    hmap_t *active; /* id -> struct jm_job */
    struct list_node jobs;
    hmap_t *ended; /* id -> struct jm_ended */
    struct list_node ended_list;
    uint32_t nstate[JOB_STATES];
    uint64_t next_id;
    hmap_t *specs, *envs, *env_sources;
    size_t nparsed;
    struct list_node doomed, fanouts; /* jm_job.feed, struct jm_fanout: see jm_depend.c */
    /* jm_time.c */
    struct jm_heap timers;
    flux_watcher_t *clock;
    double clock_at; /* for when it is set; 0: not */
    /* jm_submit.c */
    struct list_node submissions;
    size_t nsubmissions, submit_bytes;
    /* rooms */
    struct jm_store store;
    struct jm_sched sched;
    struct jm_exec exec;
    struct jm_queue queue;
    struct jm_journal journal;
    /* jm_resources.c */
    flux_future_t *resrc_f;
    flux_watcher_t *resrc_again;
    resgraph_t *inventory;
    uint64_t inventory_version;
    idset_t *shared; /* ranks of nodes that share cores with others; NULL: none */
    bool resrc_absent;
    unsigned resrc_tries;
    /* jm_wait.c */
    struct list_node watchers;
    struct list_node replays; /* of these, who are told present states */
    size_t nwatchers;
    size_t nchoosy;                           /* of these, who are not told what all others are */
    strbuf_t *transitions, *transitions_sent; /* not yet told: [id,"STATE",t],... */
    struct list_node waiters;                 /* struct jm_wait with something to tell */
    size_t nwaits, nwaitrefs;
    struct list_node drains; /* requests that wait for an empty or idle queue */
    /* jm_many.c */
    struct list_node many;
    size_t nmany;
    /* jm_list.c */
    struct list_node listings;
    size_t nlistings;
    /* jm_load.c */
    struct jm_load *load;
    bool load_begun;
    bool purging; /* more is to be forgotten than one pass did */
    flux_future_t *attrs_f;
    flux_future_t *subscribed;
    /* settings */
    double grace;
    double purge_age; /* 0: never */
    uint64_t purge_count;
    uint64_t max_queued;
    uint64_t nsubmitted, npurged, nrefused;
    uint64_t nfreed; /* since memory was given back */
};

/* --- jm_module.c --- */

/* Have the pass run before the reactor sleeps. */
void jm_module_kick(struct jm *jm);
/* Until jobs were read back requests are kept; true when this one was kept (or refused). */
bool jm_hold(struct jm *jm, const flux_msg_t *req, flux_handler_f cb);
void jm_hold_over(struct jm *jm);
/* Its sender wants no more of the stream with this match tag: forget it when it is kept. */
void jm_hold_cancel(struct jm *jm, const flux_msg_t *msg, uint32_t matchtag);
/* This sender, or (NULL) all at these ranks, are gone: who waits for an answer is not told. */
void jm_hold_gone(struct jm *jm, const char *sender, const idset_t *ranks);
void jm_hold_fini(struct jm *jm);
/* Did this sender, or (NULL) one at these ranks, send the request? */
bool jm_request_is_from(const flux_msg_t *req, const char *sender, const idset_t *ranks);
/* May the sender see and change jobs of this user? */
bool jm_request_may(const flux_msg_t *req, uint32_t uid);
/* Append a string; it is empty when it is not UTF-8. */
void jm_json_text(strbuf_t *sb, const char *key, const char *text);
/* The first `n` ids, as an array. */
void jm_json_ids(strbuf_t *sb, const char *key, const struct jm_ids *v, size_t n);
/* Ids that a request names.  NULL when the request was answered with an error. */
idset_t *jm_request_ids(struct jm *jm, const flux_msg_t *req, const char *text);
int jm_ids_add(struct jm_ids *v, uint64_t id);
void jm_ids_drop_first(struct jm_ids *v, size_t n);
void jm_ids_clear(struct jm_ids *v);

/* --- jm_spec.c, jm_env.c, jm_job.c, jm_ended.c --- */

/* A hash that only spreads: equality is decided by the bytes. */
uint64_t jm_spec_hash(const char *data, size_t len);

struct jm_spec *jm_spec_get(struct jm *jm, const char *text, size_t len, errmsg_t *err);
/* Have spec->js.  -1 with errno and a sentence. */
int jm_spec_parse(struct jm *jm, struct jm_spec *spec, errmsg_t *err);
/* It was used for now: give up what it was parsed to, when there is too much of that or it is not
 * going to be needed again. */
void jm_spec_idle(struct jm *jm, struct jm_spec *spec, bool launched);
void jm_spec_put(struct jm *jm, struct jm_spec *spec);
struct jm_env *jm_env_get(struct jm *jm, const char *data, size_t len);
void jm_env_put(struct jm *jm, struct jm_env *env);
/* Takes the references to spec and env over when it succeeds. */
struct jm_job *jm_job_create(struct jm *jm, uint64_t id, struct jm_spec *spec, struct jm_env *env);
/* Takes it out of everything it is in. */
void jm_job_destroy(struct jm_job *j);
struct jm_job *jm_job_find(struct jm *jm, uint64_t id);
struct jm_ended *jm_ended_find(struct jm *jm, uint64_t id);
/* Replace a job that is over by its small record; its waiters are told. */
void jm_job_retire(struct jm_job *j);
struct jm_ended *jm_ended_create(const struct jm_job *j);
/* By end; takes it over. */
int jm_ended_add(struct jm *jm, struct jm_ended *e);
/* Those that were read back. */
void jm_ended_sort(struct jm *jm);
void jm_ended_drop(struct jm *jm, struct jm_ended *e);
const char *jm_ended_text(const struct jm_ended *e, int which);
/* A moment in which nothing is to be done. */
void jm_job_trim(struct jm *jm);
void jm_job_fini(struct jm *jm);

/* --- jm_state.c: events, and what they lead to --- */

/* Add an event to the log and change the state by the table; the job becomes dirty. */
void jm_state_event(struct jm_job *j, struct job_event *ev);
void jm_state_event_plain(struct jm_job *j, enum job_event_type type);
/* A new job, or one whose dependency or urgency has changed: go on as far as it does not have to
 * wait. */
void jm_state_advance(struct jm_job *j);
/* Resources were given to it; takes both over. */
void jm_state_allocated(struct jm_job *j, rset_t *r, char *r_json);
/* An exception.  Severity 0 ends the job; with `kill` also its tasks. */
void jm_state_exception(struct jm_job *j, const char *type, int severity, const char *note,
                        uint32_t uid, bool kill);
/* wrexec is done with it.  `status` as of wait(2); `text`: what ended it, or NULL.  When the last task
 * was started, and was gone, by the clocks of their nodes; 0: not known. */
/* `failed`: its tasks that did, NULL: none, or not told. */
void jm_state_finished(struct jm_job *j, int status, const char *text, double started,
                       double exited, json_t *failed);
/* The first exception that is fatal, and the event "finish", leave this in the job. */
void jm_state_keep_end(struct jm_job *j, const struct job_event *ev);
/* From CLEANUP to INACTIVE: give back what it has. */
void jm_state_cleanup(struct jm_job *j);
bool jm_state_active(const struct jm_job *j); /* neither CLEANUP nor INACTIVE */

/* --- jm_store.c --- */

int jm_store_init(struct jm *jm);
void jm_store_fini(struct jm *jm);
void jm_store_dirty(struct jm_job *j);
/* All jobs of a submission go on record together. */
void jm_store_submission(struct jm *jm, struct jm_submission *sub);
void jm_store_flush(struct jm *jm);
/* The module ends: send what is left. */
void jm_store_last(struct jm *jm);
/* Forget a job in the store. */
void jm_store_unlink(struct jm *jm, uint64_t id);
/* Answer a request with `json` (taken over) when what has changed is on record. */
void jm_store_answer(struct jm *jm, const flux_msg_t *req, char *json);

/* --- jm_submit.c --- */

void jm_submit_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_submit_pass(struct jm *jm);
/* The store has taken all of its jobs, or refused them (sub->errnum). */
void jm_submit_done(struct jm *jm, struct jm_submission *sub);
/* Forget it without an answer. */
void jm_submit_drop(struct jm *jm, struct jm_submission *sub);
/* This sender, or (NULL) all at these ranks, are gone: what they submitted and was not read yet. */
void jm_submit_gone(struct jm *jm, const char *sender, const idset_t *ranks);
void jm_submit_fini(struct jm *jm);

/* --- jm_resources.c --- */

int jm_resources_start(struct jm *jm);
void jm_resources_fini(struct jm *jm);
/* Is it known what there is (or that nobody knows)? */
bool jm_resources_known(const struct jm *jm);
int jm_resources_satisfiable(struct jm *jm, struct jm_spec *spec, errmsg_t *err);

/* --- jm_sched.c --- */

int jm_sched_init(struct jm *jm);
void jm_sched_fini(struct jm *jm);
void jm_sched_start(struct jm *jm);
void jm_sched_add(struct jm_job *j);
void jm_sched_remove(struct jm_job *j);
void jm_sched_urgency(struct jm_job *j);
void jm_sched_free(struct jm_job *j);
void jm_sched_enable(struct jm *jm);
void jm_sched_flush(struct jm *jm);

/* --- jm_exec.c, jm_launch.c --- */

int jm_exec_init(struct jm *jm);
void jm_exec_fini(struct jm *jm);
void jm_exec_start(struct jm *jm);
/* Launch it as soon as that is allowed. */
void jm_exec_launch(struct jm_job *j);
/* Its start is on record. */
void jm_exec_recorded(struct jm_job *j);
void jm_exec_forget(struct jm_job *j);
void jm_exec_flush(struct jm *jm);
void jm_exec_kill(struct jm *jm, uint64_t id, int signum);
struct launchbuf;
/* Add the job to what is sent to wrexec.  -1 with errno (EMSGSIZE: send first) and a sentence. */
int jm_launch_add(struct jm_job *j, struct launchbuf *buf, errmsg_t *err);

/* --- jm_depend.c --- */

/* Are the jobs that one depends on known?  -1 with a sentence. */
int jm_depend_check(struct jm *jm, struct jm_spec *spec, errmsg_t *err);
/* Wait for what is left of them. */
int jm_depend_add(struct jm_job *j);
/* A job has started, or ended: those that wait for it. */
void jm_depend_started(struct jm_job *j);
void jm_depend_ended(struct jm_job *j);
/* More of those; and the ones whose dependencies turned out never to be met. */
void jm_depend_flush(struct jm *jm);
/* After all jobs are gone. */
void jm_depend_fini(struct jm *jm);
/* It waits for nothing any more. */
void jm_depend_drop(struct jm_job *j);
void jm_depend_begin(struct jm_job *j);
/* A job that was read back in DEPEND: what is left by its log. */
void jm_depend_restore(struct jm_job *j);
/* "afterok:7,begin-time:..." of what is not met, malloc'd; NULL: nothing. */
char *jm_depend_text(const struct jm_job *j);

/* --- jm_time.c --- */

int jm_time_init(struct jm *jm);
void jm_time_fini(struct jm *jm);
int jm_time_set(struct jm_job *j, enum jm_time_event what, double at);
void jm_time_clear(struct jm_job *j);
void jm_time_flush(struct jm *jm);

/* --- jm_wait.c, jm_watch.c --- */

void jm_wait_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_wait_ended(struct jm_job *j, const struct jm_ended *e);
void jm_wait_flush(struct jm *jm);
void jm_wait_fini(struct jm *jm);
void jm_watch_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_watch_transition(struct jm_job *j);
/* The transitions so far are in the transaction that is sent now; it is on record; it is not. */
void jm_watch_sent(struct jm *jm);
void jm_watch_recorded(struct jm *jm);
/* Tell more of the present to those who have just begun to watch. */
void jm_watch_pass(struct jm *jm);
/* The job is about to leave jm.jobs. */
void jm_watch_forget(struct jm_job *j);
void jm_watch_fini(struct jm *jm);

/* --- jm_queue.c --- */

void jm_queue_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_queue_check(struct jm *jm);
/* What is kept of it in the store, malloc'd; and back. */
char *jm_queue_encode(struct jm *jm);
void jm_queue_decode(struct jm *jm, const char *json, size_t len);
void jm_queue_fini(struct jm *jm);

/* --- jm_control.c --- */

void jm_control_cancel_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_raise_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_kill_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_urgency_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_control_memo_cb(flux_t *h, const flux_msg_t *req, void *arg);

/* --- jm_journal.c --- */

int jm_journal_init(struct jm *jm);
/* While jobs are still there. */
void jm_journal_fini(struct jm *jm);
/* The log of the session is to say this of a job, soon. */
void jm_journal_add(struct jm *jm, enum jm_journal_kind kind, uint64_t id);
void jm_journal_ended(struct jm *jm, const struct jm_ended *e);
/* Who asks for something says so at once: "user 0 WHAT ON: NOTE" (NULL: none). */
void jm_journal_request(struct jm *jm, const flux_msg_t *req, const char *what, const char *on,
                        const char *note);

/* --- jm_many.c --- */

/* Too many requests are being worked at: this one is refused. */
bool jm_many_full(struct jm *jm, const flux_msg_t *req);
/* Begin; m->step and m->drop are set. */
void jm_many_start(struct jm *jm, struct jm_many *m);
/* It is not wanted any more. */
void jm_many_stop(struct jm_many *m);
void jm_many_pass(struct jm *jm);
void jm_many_fini(struct jm *jm);

/* --- jm_list.c, jm_purge.c, jm_load.c --- */

void jm_list_cb(flux_t *h, const flux_msg_t *req, void *arg);
void jm_list_pass(struct jm *jm);
void jm_list_fini(struct jm *jm);
void jm_purge_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* Drop what the settings say is too old or too much. */
void jm_purge_check(struct jm *jm);
int jm_load_start(struct jm *jm);
void jm_load_fini(struct jm *jm);
/* Remove the namespace that a job has left in the store, if it is there; nobody waits for that. */
void jm_load_remove_namespace(struct jm *jm, uint64_t id);

#endif
