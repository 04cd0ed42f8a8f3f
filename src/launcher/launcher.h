/* The interfaces between the sources of the launcher; overview: launcher.c. */
#ifndef LAUNCHER_LAUNCHER_H
#define LAUNCHER_LAUNCHER_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "libidset/idset.h"
#include "libpmi/pmi_server.h"
#include "libsubprocess/spawn.h"
#include "libutil/buf.h"
#include "libutil/errmsg.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "libexec/exec_wire.h"

/* A descriptor in the loop. */
struct source {
    int fd; /* -1: closed */
    uint32_t events;
    bool armed; /* known to epoll */
    void (*ready)(struct source *s, uint32_t events);
};

struct nodejob;
struct work;
struct request;

struct stream {
    struct source src; /* our end of the pipe */
    struct task *task;
    int num;              /* 1 or 2 */
    struct outfile *file; /* labeled lines go there, NULL: to the module */
    buf_t *line;          /* the beginning of one */
};

/* The command of the tasks from rank `first` on. */
struct command {
    uint32_t first;
    const char *dir;    /* "": the job's */
    const char *search; /* "": the job's */
    char **argv;        /* NULL-terminated */
    char **changes;     /* to the environment, likewise */
};

struct task {
    struct nodejob *job;
    uint32_t rank;
    pid_t pid;    /* 0: not started, or reaped */
    pid_t leader; /* of its process group: what its id was */
    int status;
    struct stream out[2];
    struct source in; /* our end of standard input */
    buf_t *inbuf;     /* what it did not take yet */
    bool in_eof;
    struct source pmi;
    buf_t *pmiout;
};

/* state     of a job                                        left when
 * NEW       its directory is made                           its prolog, server or tasks start
 * PROLOG    its prolog runs (hook.c)                        the prolog has ended
 * STARTING  plugins are called (lua.c), and its PMIx        that is ready, or the job is killed
 *           server starts (pmix.c)
 * SPAWNING  starters start tasks (starter.c)                all have been started, or one cannot
 *                                                           be; or the job is killed and nothing of
 *                                                           it hangs, or what hangs is given up
 * RUNNING   tasks run                                       the last task was reaped
 * ENDING    its processes are killed, pipes are drained,    nothing remains
 *           its epilog runs
 * OVER      DONE was sent, or the launcher ends; the job is freed at once, or, as a ghost, when its
 *           works have come back
 */
enum job_state {
    JOB_NEW,
    JOB_PROLOG,
    JOB_STARTING,
    JOB_SPAWNING,
    JOB_RUNNING,
    JOB_ENDING,
    JOB_OVER
};

/* Changes to an environment: NAME=value, or NAME: removed. */
struct changes {
    char **v;
    size_t n;
};

/* Messages of plugins for the job's event log, until the loop sends them. */
struct notes {
    char **v;
    size_t n;
};

/* Works for starters, in order.  Belongs to them, under their lock. */
struct batch {
    struct list_node todo; /* works */
    unsigned ntodo;
    struct list_node node; /* waiting for a starter */
    bool busy;             /* a starter serves it */
    bool stop;             /* no more of its works are performed */
    bool begins;           /* its works are refused, not kept, when too many threads hang */
};
#define BATCH_MAX 32u /* tasks that a job has with the starters */

struct nodejob {
    struct launcher *l;
    uint64_t id;
    enum job_state state;
    struct wire_run run; /* strings point into `body` */
    void *body;
    size_t len; /* of that */
    layout_t *layout;
    /* The strings of the request. */
    const char *name, *node, *hosts;
    idset_t *cores, *gpus; /* of the job on this node; may be empty */
    const char *fixed[WIRE_STRINGS];
    char **files;             /* name, text, ... */
    char **argv;              /* NULL-terminated */
    struct command *commands; /* run.ncommands of them; argv is that of the first */
    char **env;
    struct changes changes;  /* to it, by plugins */
    struct plugins *plugins; /* NULL: none are to be called */
    bool unbound;            /* tasks cannot be bound, which was reported */
    hmap_t *opened;          /* names of output files */
    hmap_t *outfiles;        /* name -> struct outfile */
    cpu_set_t cpus;
    uint32_t ntasks; /* on this node */
    uint32_t nspawned;
    uint32_t running;
    struct wire_times times;
    int64_t credit;        /* bytes of output that may be sent */
    bool paused;           /* some stream waits for credit */
    bool killed_early;     /* killed before its tasks were started */
    bool failed;           /* FAIL was sent */
    bool tell;             /* SIGTERM is to go to all its processes */
    uint64_t tag;          /* in a limit of all its processes, 0: none */
    struct timespec began; /* none of its processes is older (CLOCK_BOOTTIME) */
    uint64_t mercy; /* after SIGTERM: until then what tasks leave behind may live (CLOCK_MONOTONIC,
                          microseconds) */
    unsigned notes; /* NOTE was sent */
    uint64_t early; /* signals that came before the tasks were there: bit of signal - 1 */
    unsigned tries; /* to find the job of a process without environment */
    struct hook *hook; /* prolog, later epilog; may be NULL */
    char *record;      /* file for the next launcher (record.c); may be NULL */
    struct nodejob
        *host; /* of spawned tasks: the job they belong to, while it is here; its directory,
                        * cgroup, prolog and epilog are theirs, too */
    struct list_node guest, guests; /* in host->guests; such of its own */
    bool shared_dir;                /* `dir` is that of the host */
    bool closing;                   /* it accepts no more guests */
    bool heir;                      /* of a launcher that was lost: only its epilog is run */
    struct pmi_server *pmi;
    struct pmix *pmix;   /* with WIRE_F_MPI_PMIX or _BOTH: NULL until it was begun */
    struct share *share; /* with the same: who shares a server; NULL: no nodes do */
    uint32_t barriers;   /* handed over */
    char **shm;          /* files in /dev/shm that MPICH said to have made */
    size_t nshm;
    char *dir;                 /* its directory here, or that of its host */
    char mark[96];             /* NAME=value in the environment of all its processes */
    struct list_node ending;   /* in launcher.ending */
    struct start *start;       /* while it is SPAWNING, or a ghost */
    struct batch first;        /* all that is to be done until its tasks run */
    struct batch last;         /* ... when these have ended */
    struct jobcgroup *cgroup;  /* its memory is limited by it; may be NULL */
    unsigned asked;            /* works that did not come back yet */
    unsigned asked_first;      /* ... of these in `first` */
    struct list_node spawning; /* in launcher.spawning: more can be asked for */
    struct list_node cutting;  /* in launcher.cutting: killed, but something hangs */
    uint64_t give_up;          /* then: when it is left behind (CLOCK_MONOTONIC, microseconds) */
    bool killed;
    bool cut;
    bool epilogged; /* its epilog was begun */
    bool given_up;  /* its hanging works are not waited for any more */
    bool removing;  /* its directory is being removed */
    bool ghost;     /* it is over, but some of its works hang */
    buf_t *held;    /* standard input that arrived before the tasks had started */
    struct task *tasks;
};

/* Each process of a job has LAUNCHER_MARK TOKEN=ID in its environment, and the marks of the
 * sessions around it, so a launcher recognizes its processes at any depth. */
#define LAUNCHER_MARK "FLUX_LAUNCHED_"

struct launcher {
    int epfd;
    int nullfd;
    struct source control;
    struct source signals;
    buf_t *in;
    buf_t *out;
    hmap_t *jobs;    /* id -> struct nodejob */
    hmap_t *pids;    /* pid -> struct task */
    hmap_t *servers; /* pid -> struct pmix */
    hmap_t *hooks;   /* pid -> struct hook */
    struct list_node ending;
    struct list_node spawning;
    struct list_node cutting;
    struct starters *starters;
    struct batch chores; /* of no job */
    bool stop;           /* the launcher is to end */
    bool over;           /* the loop is to return */
    unsigned leaving;    /* the step of the end that is under way */
    uint64_t leave_by;
    unsigned hung_max; /* maximum number of threads that hang */
    bool removing;     /* the base of directories is being removed */
    bool again;        /* look again in a moment */
    bool tell;         /* SIGTERM is to go to all processes of some job */
    uint64_t wake;     /* look again after this many microseconds */
    hmap_t *tags;      /* slot -> struct nodejob */
    uint64_t tag_base; /* what all tags begin with, 0: there are none */
    int tag_shift;     /* down to that bit */
    uint32_t tag_slots;
    uint32_t tag_next;
    struct rlimit files; /* limit of open files for tasks */
    char *config;        /* what `uri` and those below point into */
    const char *uri;     /* of the local broker; may be NULL */
    const char *libpmi;  /* may be NULL */
    const char *prolog;  /* programs; may be NULL */
    const char *epilog;
    double hook_timeout;     /* seconds they may take */
    const char *luapath;     /* may be NULL */
    const char *tmpdir;      /* where to make job directories; NULL: choose */
    const char *cgroup;      /* where to make cgroups; NULL: choose */
    struct cgroups *cgroups; /* NULL: not looked for yet */
    bool separate_hosts;     /* brokers of one host are different hosts for MPI */
    char hostname[256];
    struct orphans *orphans;
    struct bind *bind;
    struct offers *offers; /* NULL: nothing was offered yet */
    bool childless;        /* no child of any kind was there when last reaped */
    const char *rank;      /* of the local broker, as text */
    const char *lost;      /* token of the launcher before, when that was lost */
    uint32_t remain;       /* processes of it that the last sweep found */
    bool configured;       /* WIRE_CONFIG has come */
    int pmixd;             /* is there a PMIx server? 1; -1: no; 0: not looked for yet */
    int sweeps;            /* this many times yet what it left is looked for */
    int unsure;            /* ... when none was found, but not all could be examined */
    char token[17];        /* of this launcher, random */
    char **outer;          /* marks of the launchers of the sessions around this one */
    size_t nouter;
    char *dirname; /* base of backing directories */
    int dirlock;   /* holds it, -1: not made */
    bool dirheld;  /* it is made and locked, by dirlock or by a work; under dirmutex */
    pthread_mutex_t dirmutex;
};

/* launcher.c: the loop and the connection */
int launcher_source_start(struct launcher *l, struct source *s, int fd, uint32_t events,
                          void (*ready)(struct source *, uint32_t));
void launcher_source_pause(struct launcher *l, struct source *s);
void launcher_source_resume(struct launcher *l, struct source *s);
void launcher_source_close(struct launcher *l, struct source *s);
/* Queue a frame: `fixed` then `data`. */
void launcher_send_frame(struct launcher *l, enum wire_type type, uint64_t job, const void *fixed,
                         size_t fixedlen, const void *data, size_t len);
/* Send a note about a job, which continues. */
void launcher_send_note(struct nodejob *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The job runs, but not as requested: send its user a warning. */
void launcher_send_warning(struct nodejob *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Fail a job, with its exit code, the tasks concerned (-1: none) and the reason.  Only the first
 * failure counts. */
void launcher_send_fail(struct nodejob *j, int code, int32_t first, uint32_t count, const char *fmt,
                        ...) __attribute__((format(printf, 5, 6)));

/* nodejob.c */
void nodejob_run(struct launcher *l, uint64_t id, const void *payload, size_t len);
/* Take over a job of a lost launcher, to run its epilog only.  NULL if its request is invalid, or
 * there is such a job. */
struct nodejob *nodejob_inherit(struct launcher *l, uint64_t id, const void *payload, size_t len);
void nodejob_signal(struct nodejob *j, int signum);
void nodejob_kill(struct nodejob *j);
void nodejob_destroy(void *arg);
/* Start the tasks: at once, or when the job's PMIx server is ready. */
void nodejob_start(struct nodejob *j);
const char *nodejob_node_name(const struct nodejob *j);
void nodejobs_reap(struct launcher *l);
/* Let a starter do this for a job. */
void nodejob_work(struct nodejob *j, struct batch *b, struct work *w);
/* Drop the works of a batch that have not begun, and begin none any more. */
void nodejob_drop(struct nodejob *j, struct batch *b);
/* A work of a job has come back. */
void nodejob_worked(struct work *w);
/* ... that was to start a task. */
void nodejob_started(struct work *w);
/* The directory has been made (why: NULL), or could not be. */
void nodejob_dir_made(struct nodejob *j, const char *why);
/* Go on with jobs whose tasks are being started. */
void nodejobs_spawn(struct launcher *l);
/* What is due once per round: ends of jobs. */
void nodejobs_step(struct launcher *l);
/* Kill all processes of all jobs, and wait for their end, but not forever if one hangs. */
void nodejobs_kill_all(struct launcher *l);
void nodejobs_kill_children(struct launcher *l);

/* The plugins have agreed to the job, or the reason why not. */
void nodejob_plugins_done(struct nodejob *j, const char *why);
/* The prolog runs; it has ended: why it failed, or NULL. */
void nodejob_prolog_runs(struct nodejob *j);
void nodejob_prolog_done(struct nodejob *j, const char *why);
/* A file for labeled output cannot be opened. */
void nodejob_file_failed(struct nodejob *j, const char *why);
/* The PMIx server cannot be started. */
void nodejob_server_failed(struct nodejob *j, const char *why);

/* hook.c */
/* Run the prolog: 1 when nodejob_prolog_done() will be called, 0 when there is none, -1 with an
 * error message. */
int hook_prolog(struct nodejob *j, errmsg_t *err);
/* Run the epilog, once: true until it has ended. */
bool hook_epilog(struct nodejob *j);
void hook_kill(struct nodejob *j);
/* The launcher is about to end: stop what runs; then, when all tasks are gone, run the epilogs that
 * are still to be run: true until they have ended. */
void hook_interrupt(struct nodejob *j);
bool hooks_epilogs(struct launcher *l);
/* Is a child a hook, and (it was reaped) was it? */
bool hook_is(const struct launcher *l, pid_t pid);
bool hook_reaped(struct launcher *l, pid_t pid, int status);
void hook_destroy(struct nodejob *j);

/* task.c */
#define PMI_TASK_FD 3
/* What a task of a job with commands runs. */
const struct command *task_command(const struct nodejob *j, uint32_t rank);
/* The job that a task's environment and names tell: that it belongs to. */
uint64_t task_job_number(const struct nodejob *j);
/* The number of a task in it. */
uint32_t task_number(const struct task *t);
/* Does a socket for PMI-1 wait for each task? */
bool task_has_pmi(const struct nodejob *j);
/* Get ready to start tasks; the exit code that stands for all (0), with an error message. */
int tasks_prepare(struct nodejob *j, errmsg_t *err);
/* Ask for some more, for a slice of time; true when more can be asked for at once. */
bool tasks_more(struct nodejob *j);
/* A request has come back with its task.  Returns 0, or the exit code for this task and all after
 * it, with an error message; then no task after this one is started. */
int tasks_started(struct request *r, errmsg_t *err);
/* Have all tasks been started that can be?  *code: 0, or the exit code for the others, *why. */
bool tasks_all(const struct nodejob *j, int *code, errmsg_t *why);
void tasks_forget(struct nodejob *j);
/* A file of a task, to be opened: names to be freed.  -1 with ENOMEM. */
int task_file(struct nodejob *j, const char *path, uint32_t task, int flags, struct spawn_file *f);

/* env.c */
enum env_slot { SLOT_CORES, SLOT_GPUS, SLOT_CUDA, SLOT_ROCR, ENV_SLOTS };
struct env {
    char **vars; /* NULL-terminated */
    size_t n;
    char *owned[40];
    size_t nowned;
    char rank[40], local[40], pmirank[40]; /* change from task to task */
    size_t share_at[ENV_SLOTS];            /* 0: none */
    char *shares[ENV_SLOTS];
    char **pmix; /* places that pmix_task_env() fills */
};
int env_build(struct env *e, struct nodejob *j); /* -1 with ENOMEM */
void env_task(struct env *e, struct nodejob *j, const struct task *t);
void env_compact(struct env *e); /* for what is not a task: without the places of tasks */
void env_free(struct env *e);
const char *env_get(char *const *env, const char *name);
/* Set or remove a variable: the last word counts.  -1 with ENOMEM. */
int env_changes_set(struct changes *c, const char *var);
/* ... for tasks of a command, but for what belongs to the launcher alone. */
int env_changes_of_command(struct changes *c, const struct command *cmd);
/* Is a variable among them?  *val: its value, NULL: removed. */
bool env_changes_find(const struct changes *c, const char *name, const char **val);
/* An environment with the changes, to be freed (its strings are those of both).  NULL with
 * ENOMEM. */
char **env_changes_apply(const struct changes *c, char *const *env);
/* ... for one task, to be kept when env_task() goes on to the next: *texts, to be freed too, has
 * the strings that change. */
char **env_copy(const struct env *e, const struct changes *c, char **texts);
void env_changes_clear(struct changes *c);
/* Do its tasks here share cores? */
bool env_shares_cores(const struct nodejob *j);
/* The share of cores of a task; NULL with ENOMEM. */
idset_t *env_task_cores(const struct nodejob *j, const struct task *t);
void env_strv_free(char **v);

/* lua.c: hooks of plugins */
struct request;
/* Read the plugins and call their init: 1 when nodejob_plugins_done() will be called, 0 when there
 * are none, -1 with an error message. */
int lua_init(struct nodejob *j, errmsg_t *err);
/* By a starter: a task is about to start; its environment may change.  -1: it is refused, and
 * r->w.err says why. */
int lua_task_start(struct request *r);
void lua_task_exit(struct nodejob *j, const struct task *t);
/* Call finish, once: true when it has returned. */
bool lua_finish(struct nodejob *j);
/* Send notes, and free them. */
void lua_notes_send(struct nodejob *j, struct notes *n);
/* The job has no more works. */
void lua_destroy(struct nodejob *j);

/* bind.c: the processors a task may use, NULL: all.  Valid until the next call. */
const cpu_set_t *bind_task(struct nodejob *j, const struct task *t);
void bind_destroy(struct bind *b);

/* object.c: map a shared object of ours, for dlclose().  NULL with an error message. */
void *object_open(const char *name, errmsg_t *err);

/* file.c: labeled output in files */
int file_attach(struct stream *s, const char *path, errmsg_t *err);
/* Bytes of a task; len 0: the end. */
void file_output(struct stream *s, const void *data, size_t len);
/* Do too many bytes wait to be written for anything to be read? */
bool file_full(const struct stream *s);
/* Has all been written, and closed? */
bool files_done(struct nodejob *j);
/* Begin nothing more; then, when nothing of it hangs, free them. */
void files_drop(struct nodejob *j);
void files_close(struct nodejob *j);

/* orphan.c */
/* Call fn(l) in a thread of its own, while this one watches for orphans; until orphans_over() and
 * all threads that do not hang have ended.  The exit code of the launcher. */
int orphans_watch(struct launcher *l, void (*fn)(struct launcher *l));
void orphans_over(struct launcher *l);
/* Is there a child that is nobody's: left behind by a task? */
bool orphans_there(struct launcher *l);

/* starter.c */
/* An operation that may hang, performed outside the loop; the first member of a larger struct. */
struct work {
    struct list_node node;
    struct batch *batch;
    struct nodejob *job; /* NULL: of none */
    /* By any thread: uses only data of its own, or that stay; spawns with params.pid = pid. */
    void (*run)(struct work *w, pid_t *pid);
    void (*done)(struct work *w); /* by the loop, afterwards: it frees it */
    void (*drop)(struct work *w); /* ... when it is not begun */
    /* What came of it. */
    bool failed; /* nothing after it in its batch is to be done */
    int errnum;
    errmsg_t err;
    pid_t pid;   /* of a child */
    bool reaped; /* that, already, with this status */
    int status;
};
/* Start the program of a work, in run(). */
void starter_spawn(struct work *w, struct spawn_params *sp, pid_t *pid);

/* One task to be started. */
struct request {
    struct work w;
    struct task *task;
    struct spawn_params sp;
    struct spawn_fd fds[4];
    struct spawn_file files[SPAWN_FILES_MAX];
    size_t nfds, nfiles;
    bool own[4]; /* of fds: to be closed */
    int cgroup;  /* what its child writes to, to enter; -1: none */
    char **argv; /* NULL: that of the job */
    char **envp;
    char *texts; /* strings of it that are the task's own */
    struct changes changes;
    struct changes plugged; /* by plugins, in run() */
    struct notes notes;     /* ... likewise */
    cpu_set_t cpus;
    /* What came of it. */
    bool lost;   /* there is no such program */
    char *found; /* the program; may be NULL */
};
void task_request_free(struct request *r);

int starters_init(struct launcher *l);
/* Run the loop, in this thread or another: before(), works and after(), until l->over; then
 * orphans_over() is called. */
int starters_run(struct launcher *l, void (*before)(struct launcher *),
                 void (*after)(struct launcher *));
/* All threads that do not hang have ended; then, when the jobs are gone, free what there is. */
void starters_stop(struct launcher *l);
void starters_fini(struct launcher *l);
/* Handle what is done. */
void starters_collect(struct launcher *l);
/* Does a thread hang?  Then what it has must stay until the process ends. */
bool starters_stuck(const struct launcher *l);
/* Is there something to be done in this round? */
bool starters_wait(const struct launcher *l);
/* A child was reaped, or looked at: is it a starter's? */
bool starters_reaped(struct launcher *l, pid_t pid, int status);
bool starters_have(struct launcher *l, pid_t pid);
void starter_batch_init(struct batch *b, bool begins);
void starter_batch_add(struct launcher *l, struct batch *b, struct work *w);
/* Drop the works that have not begun, and begin none any more.  Returns their number. */
unsigned starter_batch_drop(struct launcher *l, struct batch *b);
/* Kill the child that is being made; its number, 0: none. */
pid_t starter_batch_kill(struct launcher *l, struct batch *b);

/* tag.c */
void tag_init(struct launcher *l);
/* Give a job its tag, and take it back. */
void tag_take(struct nodejob *j);
void tag_release(struct nodejob *j);
/* The limit RLIMIT_LOCKS for what the job starts; false: leave it. */
bool tag_limit(const struct nodejob *j, struct rlimit *rl);
/* Does a process have a tag of this launcher?  *j: its job, NULL if that has ended. */
bool tag_job(struct launcher *l, pid_t pid, struct nodejob **j);
/* ... or of the launcher with this token? */
bool tag_of_launcher(pid_t pid, const char *token);
/* Has a process lowered the limit, so that it has no tag, and less than this launcher? */
bool tag_dropped(pid_t pid);

/* hunt.c */
/* End what the job left behind: true when there is something, whose end is to be waited for. */
bool hunt_leftovers(struct nodejob *j);
/* SIGTERM for all processes of the job, at the end of this round. */
void hunt_terminate(struct nodejob *j);
void hunt_tell(struct launcher *l);

/* stream.c */
void stream_ready(struct source *s, uint32_t events);
void stream_credit(struct nodejob *j, uint32_t bytes);
/* Read what is left: true when every pipe was closed, false when credit ran out. */
bool stream_drain(struct nodejob *j);
void stream_stdin(struct nodejob *j, uint32_t task, const void *data, size_t len);
/* All tasks are there: give them what came while they were started. */
void stream_stdin_release(struct nodejob *j);
void stream_stdin_close(struct task *t);

/* pmi.c */
void pmi_ready(struct source *s, uint32_t events);
void pmi_done(struct nodejob *j, const void *payload, size_t len);
/* A spawned task ended before it began with MPI, while others wait for it: the job fails. */
void pmi_spawned_in_vain(struct task *t);
/* A task of the job ended: is that the end of its MPI? */
void pmi_task_ended(struct task *t);
void pmi_named(struct nodejob *j, const void *payload, size_t len);
void pmi_spawned(struct nodejob *j, const void *payload, size_t len);
/* Ask for further tasks: `request` is as in pmi_spawn.h, `tag` comes back in SPAWNED.  -1 with
 * ENOMEM. */
int pmi_ask_spawn(struct nodejob *j, uint32_t tag, const void *request, size_t len);
/* Its name for PMI: that of no other job of this host, now or later. */
void pmi_job_name(const struct nodejob *j, char *buf, size_t size);

/* hosts.c: brokers that share a host */
/* Numbers of the hosts of all nodes, malloc'd, and how many hosts there are; NULL when each node is
 * one.  -1 with ENOMEM. */
int hosts_number(const struct nodejob *j, uint32_t **numbers, uint32_t *nhosts);
/* The number of this node's host.  -1 with ENOMEM. */
int hosts_here(const struct nodejob *j, uint32_t *host);
/* Which tasks are on which host, as PMI_process_mapping, malloc'd; NULL with ENOMEM. */
char *hosts_mapping(const struct nodejob *j);

/* shm.c */
struct pmi_pair;
/* A task has put this; the job is about to get a signal; the end of it, before its PMI server
 * goes. */
void shm_put(struct nodejob *j, const struct pmi_pair *pair);
void shm_look(struct nodejob *j);
void shm_remove(struct nodejob *j);

/* pmix.c; every function may be called for a job without PMIx. */
/* The namespace of its tasks: that of no other job of this host, now or later. */
#define PMIX_JOB_NAME_MAX (WIRE_JOB_NAME_MAX + 5)
void pmix_job_name(const struct nodejob *j, char buf[PMIX_JOB_NAME_MAX]);
/* Start the server of a job: 1 when its tasks have to wait for nodejob_start(), 0 when it needs
 * none, -1 with an error message. */
int pmix_begin(struct nodejob *j, errmsg_t *err);
/* Environment that all tasks of the job get, and that of one task: copied as pointers to `vars`,
 * which has room for pmix_env_max(); how many. */
size_t pmix_env_max(const struct nodejob *j);
size_t pmix_env(struct nodejob *j, char **vars);
size_t pmix_task_env(struct nodejob *j, const struct task *t, char **vars);
void pmix_task_ended(struct task *t);
/* Has task `i` of this node connected, and not finalized? */
bool pmix_within(const struct nodejob *j, uint32_t i);
/* SPAWNED, of what the server asked for. */
void pmix_spawned(struct nodejob *j, const void *payload, size_t len);
/* The last task was reaped: end the server; is it gone? */
void pmix_end(struct nodejob *j);
bool pmix_gone(const struct nodejob *j);
/* Is a child a server, and (it was reaped) was it? */
bool pmix_is(const struct launcher *l, pid_t pid);
bool pmix_reaped(struct launcher *l, pid_t pid, int status);
void pmix_destroy(struct nodejob *j);
/* Start the offered server of a job; connections come through `door`.  A follower asks for that of
 * its leader, and pmix_answered() is called.  -1 with an error message. */
int pmix_wanted(struct nodejob *j, int door, errmsg_t *err);
/* The leader's gate is there; takes `fd`. */
void pmix_answered(struct nodejob *j, int fd);
/* Have the server serve another node of this host as well, and speak to its launcher through `fd`,
 * which is duplicated.  *gate: the way for connections of tasks, -1: they need none.  -1 with an
 * error message. */
int pmix_join(struct nodejob *j, uint32_t node, int fd, int *gate, errmsg_t *err);

/* share.c: one server for the brokers of a host; a job may have no struct share */
struct share;
/* Set j->share when nodes of the job share hosts.  -1 with an error message. */
int share_create(struct nodejob *j, errmsg_t *err);
void share_destroy(struct nodejob *j);
/* Has this node a server of its own, and for how many others? */
bool share_leads(const struct share *sh);
uint32_t share_followers(const struct share *sh);
/* The number of this node's host, and how many there are. */
uint32_t share_host(const struct nodejob *j);
uint32_t share_hosts(const struct nodejob *j);
/* Have the leader's server speak through `fd`, which is taken; `gate`: pmix_answered() is to be
 * called.  -1 with an error message. */
int share_ask(struct share *sh, int fd, bool gate, errmsg_t *err);

/* offer.c: PMIx for a job that may not ask for it */
struct offer;
struct offers;
/* NULL with errno. */
struct offer *offer_create(struct nodejob *j);
/* Stop accepting connections. */
void offer_close(struct offer *o);
void offer_destroy(struct offer *o);
/* As pmix_env_max() and so on. */
size_t offer_env_max(void);
size_t offer_env(const struct offer *o, char **vars);
char *offer_task_env(const struct offer *o, const struct task *t);
/* The descriptor through which connections go to the server, which is started if necessary.  -1: it
 * could not be started, and the job fails. */
int offer_gate(struct offer *o);
/* The gate has come from another node; takes `fd`. */
void offer_answered(struct offer *o, int fd);
/* ADDRESS:PORT */
void offer_address(const struct offer *o, char *buf, size_t size);
void offers_destroy(struct launcher *l);

/* record.c: jobs whose epilog is still to be run */
/* Record a job, what plugins changed, and that its epilog has ended. */
void record_write(struct nodejob *j);
void record_changes(struct nodejob *j);
void record_remove(struct nodejob *j);
/* All processes of the lost launcher are gone: run the epilogs of its jobs. */
void records_run(struct launcher *l);

/* backing.c: directories of jobs */
/* Make it, with the job's files in it; nodejob_dir_made() is called, and j->dir is NULL when it
 * cannot be made.  -1 with an error message: there is no memory for that. */
int backing_make(struct nodejob *j, errmsg_t *err);
/* Remove it, once: true until that is done. */
bool backing_remove(struct nodejob *j);
/* Remove what the launcher of this token left behind; it is dead. */
void backing_sweep(struct launcher *l, const char *token);
/* Does a launcher with this token live, as far as can be seen in the directories? */
bool backing_held(const struct launcher *l, const char *token);
/* Remove all, once: true until that is done. */
bool backing_leave(struct launcher *l);
void backing_fini(struct launcher *l);

/* cgroup.c: the limit of a job's memory */
/* Before its tasks: it has one when it asked for memory; else its log says why it has not. */
void cgroup_make(struct nodejob *j);
/* What a task writes to when it enters; NULL: it stays where it is. */
const int *cgroup_procs(const struct nodejob *j);
/* A task was reaped: was it for that limit? */
void cgroup_task_ended(struct task *t);
/* Nothing of the job is left. */
void cgroup_remove(struct nodejob *j);
void cgroups_destroy(struct launcher *l);

#endif
