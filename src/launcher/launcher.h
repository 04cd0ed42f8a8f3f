/* The interfaces between the source files of the launcher.  launcher.c has an overview. */
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
    bool armed; /* registered with epoll */
    void (*ready)(struct source *s, uint32_t events);
};

struct nodejob;
struct work;
struct request;

struct stream {
    struct source src; /* the launcher's end of the pipe */
    struct task *task;
    int num;              /* 1 or 2 */
    struct outfile *file; /* file for labeled lines; NULL: output goes to the module */
    buf_t *line;          /* the beginning of an incomplete line */
};

/* The command of the tasks from rank `first` on. */
struct command {
    uint32_t first;
    const char *dir;    /* "": the directory of the job */
    const char *search; /* "": the search path of the job */
    char **argv;        /* NULL-terminated */
    char **changes;     /* changes to the environment, NULL-terminated */
};

struct task {
    struct nodejob *job;
    uint32_t rank;
    pid_t pid;    /* 0: not started, or reaped */
    pid_t leader; /* id of the process group that it leads; 0: it was not started */
    int status;
    bool asked; /* the module waits for its END */
    struct stream out[2];
    struct source in; /* the launcher's end of standard input */
    buf_t *inbuf;     /* input that the task has not taken yet */
    bool in_eof;
    struct source pmi;
    buf_t *pmiout;
};

/* state     of a job                                        left when
 * NEW       its directory is made                           its prolog, server or tasks start
 * PROLOG    its prolog runs (hook.c)                        the prolog has ended
 * STARTING  plugins are called (lua.c), and its PMIx        the server is ready, or the job is
 *           server starts (pmix.c)                          killed
 * SPAWNING  starters start tasks (starter.c)                all have been started, or one cannot
 *                                                           be; or the job is killed, and no work
 *                                                           of it hangs, or its hanging works are
 *                                                           given up
 * RUNNING   tasks run                                       the last task was reaped
 * ENDING    its processes are killed, pipes are drained,    no process, pipe or epilog remains
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

/* Changes to an environment: NAME=value sets a variable, NAME removes it. */
struct changes {
    char **v;
    size_t n;
};

/* Messages of plugins for the event log of the job, until the loop sends them. */
struct notes {
    char **v;
    size_t n;
};

/* Works for starters, in order.  The batch belongs to the starters, under their lock. */
struct batch {
    struct list_node todo; /* works */
    unsigned ntodo;
    struct list_node node; /* in the queue of batches */
    bool busy;             /* a starter serves it */
    bool stop;             /* no further work is performed */
    bool begins;           /* works are refused instead of kept when too many threads hang */
};
#define BATCH_MAX 32u /* maximum number of tasks of a job that starters have */

struct nodejob {
    struct launcher *l;
    uint64_t id;
    enum job_state state;
    struct wire_run run; /* strings point into `body` */
    void *body;
    size_t len; /* bytes of `body` */
    layout_t *layout;
    /* Strings of the request. */
    const char *name, *node, *hosts;
    idset_t *cores, *gpus; /* of the job on this node; may be empty */
    const char *fixed[WIRE_STRINGS];
    char **files;             /* names and texts, in turn */
    char **argv;              /* NULL-terminated */
    struct command *commands; /* run.ncommands commands; argv is that of the first */
    char **env;
    struct changes changes;  /* changes to `env` by plugins */
    struct plugins *plugins; /* NULL: the job has no plugins */
    bool unbound;            /* tasks cannot be bound, which was reported */
    hmap_t *opened;          /* names of output files */
    hmap_t *outfiles;        /* name -> struct outfile */
    cpu_set_t cpus;
    uint32_t ntasks; /* number of tasks on this node */
    uint32_t nspawned;
    uint32_t running;
    struct wire_times times;
    int64_t credit;        /* bytes of output that may be sent */
    bool paused;           /* a stream waits for credit */
    bool killed_early;     /* killed before its tasks were started */
    bool failed;           /* FAIL was sent */
    bool tell;             /* SIGTERM is to go to all its processes */
    uint64_t tag;          /* limit that all its processes have; 0: none */
    struct timespec began; /* no process of the job is older (CLOCK_BOOTTIME) */
    uint64_t mercy;        /* end of the grace period after SIGTERM (CLOCK_MONOTONIC, us) */
    unsigned notes;        /* number of NOTE frames sent */
    uint64_t early;        /* signals that came before the tasks: bit of signal - 1 */
    unsigned tries;        /* number of attempts to find the job of a process without environment */
    struct hook *hook;     /* prolog, later epilog; may be NULL */
    char *record;          /* file for the next launcher (record.c); may be NULL */
    struct nodejob *host;  /* job that spawned these tasks, while it is on this node */
    struct list_node guest, guests; /* in host->guests; guests of this job */
    bool shared_dir;                /* `dir` is the directory of the host */
    bool closing;                   /* it accepts no further guests */
    bool heir;                      /* job of a lost launcher: only its epilog is run */
    struct pmi_server *pmi;
    struct pmix *pmix;   /* with WIRE_F_MPI_PMIX or _BOTH; NULL: not begun */
    struct share *share; /* likewise, if nodes of the job share a host; else NULL */
    uint32_t barriers;   /* number of barriers handed over */
    char **shm;          /* files in /dev/shm that MPICH has announced */
    size_t nshm;
    char *dir;                 /* directory of the job on this node, or of its host */
    char mark[96];             /* NAME=value in the environment of all its processes */
    struct list_node ending;   /* in launcher.ending */
    struct start *start;       /* while tasks are started, or for a ghost */
    struct batch first;        /* works until the tasks run */
    struct batch last;         /* works after the tasks have ended */
    struct jobcgroup *cgroup;  /* limits its memory; may be NULL */
    unsigned asked;            /* number of works that have not come back */
    unsigned asked_first;      /* number of these works in `first` */
    struct list_node spawning; /* in launcher.spawning: further tasks can be prepared */
    struct list_node cutting;  /* in launcher.cutting: killed, but a work hangs */
    uint64_t give_up;          /* when a hanging work is left behind (CLOCK_MONOTONIC, us) */
    bool killed;
    bool cut;
    bool epilogged; /* the epilog was begun */
    bool given_up;  /* the job does not wait for its hanging works any longer */
    bool removing;  /* its directory is being removed */
    bool ghost;     /* the job is over, but some of its works hang */
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
    struct batch chores; /* works that belong to no job */
    bool stop;           /* the launcher is to end */
    bool over;           /* the loop is to return */
    unsigned leaving;    /* the present step of the end */
    uint64_t leave_by;
    unsigned hung_max; /* maximum number of threads that hang */
    bool removing;     /* the base of directories is being removed */
    bool again;        /* do the next round in a moment */
    bool tell;         /* SIGTERM is to go to all processes of a job */
    uint64_t wake;     /* do the next round after this number of microseconds */
    hmap_t *tags;      /* slot -> struct nodejob */
    uint64_t tag_base; /* prefix of all tags; 0: there are no tags */
    int tag_shift;     /* lowest bit of the prefix */
    uint32_t tag_slots;
    uint32_t tag_next;
    struct rlimit files; /* limit of open files for tasks */
    char *config;        /* text that holds `uri` and the strings below */
    const char *uri;     /* URI of the local broker; may be NULL */
    const char *libpmi;  /* may be NULL */
    const char *prolog;  /* programs; may be NULL */
    const char *epilog;
    double hook_timeout;     /* time limit in seconds */
    const char *luapath;     /* may be NULL */
    const char *tmpdir;      /* base of job directories; NULL: choose one */
    const char *cgroup;      /* base of cgroups; NULL: choose one */
    struct cgroups *cgroups; /* NULL: not determined yet */
    bool separate_hosts;     /* brokers of one host are different hosts for MPI */
    char hostname[256];
    struct orphans *orphans;
    struct bind *bind;
    struct offers *offers; /* NULL: no offer was made yet */
    bool childless;        /* there was no child of any kind at the last reaping */
    const char *rank;      /* rank of the local broker, as text */
    const char *lost;      /* token of the lost launcher before this one, or NULL */
    uint32_t remain;       /* processes of the lost launcher that the last sweep found */
    bool configured;       /* WIRE_CONFIG has arrived */
    int pmixd;             /* PMIx server: 1: installed; -1: not installed; 0: unknown */
    int sweeps;            /* number of sweeps that remain */
    int unsure;            /* number of these that may find nothing, but be unable to examine all */
    char token[17];        /* random token of this launcher */
    char **outer;          /* marks of the launchers of the sessions around this one */
    size_t nouter;
    char *dirname; /* base of backing directories */
    int dirlock;   /* its lock; -1: the base was not made */
    bool dirheld;  /* the base is made and locked, by dirlock or by a work; under dirmutex */
    pthread_mutex_t dirmutex;
};

/* launcher.c: the loop and the connection */
int launcher_source_start(struct launcher *l, struct source *s, int fd, uint32_t events,
                          void (*ready)(struct source *, uint32_t));
void launcher_source_pause(struct launcher *l, struct source *s);
void launcher_source_resume(struct launcher *l, struct source *s);
void launcher_source_close(struct launcher *l, struct source *s);
/* Queue a frame: `fixed` and then `data`. */
void launcher_send_frame(struct launcher *l, enum wire_type type, uint64_t job, const void *fixed,
                         size_t fixedlen, const void *data, size_t len);
/* Send a note about a job.  The job continues. */
void launcher_send_note(struct nodejob *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Send the user a warning: the job runs, but not as requested. */
void launcher_send_warning(struct nodejob *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Fail a job, with its exit code, the tasks concerned (-1: none) and the reason.  Only the first
 * failure counts. */
void launcher_send_fail(struct nodejob *j, int code, int32_t first, uint32_t count, const char *fmt,
                        ...) __attribute__((format(printf, 5, 6)));

/* nodejob.c */
void nodejob_run(struct launcher *l, uint64_t id, const void *payload, size_t len);
/* Take over a job of a lost launcher, to run its epilog only.  Returns NULL if the request is
 * invalid, or the launcher already has this job. */
struct nodejob *nodejob_inherit(struct launcher *l, uint64_t id, const void *payload, size_t len);
void nodejob_signal(struct nodejob *j, int signum);
void nodejob_kill(struct nodejob *j);
/* Send the END of this task, at once or when it has ended. */
void nodejob_ask_end(struct nodejob *j, uint32_t i);
void nodejob_destroy(void *arg);
/* Start the tasks: at once, or when the PMIx server of the job is ready. */
void nodejob_start(struct nodejob *j);
const char *nodejob_node_name(const struct nodejob *j);
void nodejobs_reap(struct launcher *l);
/* Give a work of a job to the starters. */
void nodejob_work(struct nodejob *j, struct batch *b, struct work *w);
/* Drop the works of a batch that have not begun, and begin none any more. */
void nodejob_drop(struct nodejob *j, struct batch *b);
/* Handle a work of a job that has come back. */
void nodejob_worked(struct work *w);
/* Handle a work that was to start a task, and has come back. */
void nodejob_started(struct work *w);
/* Handle the result of making the directory; `why`: the reason of a failure, or NULL. */
void nodejob_dir_made(struct nodejob *j, const char *why);
/* Prepare further tasks of the jobs whose tasks are being started. */
void nodejobs_spawn(struct launcher *l);
/* Do the work that is due once per round: the ends of jobs. */
void nodejobs_step(struct launcher *l);
/* Kill all processes of all jobs, and wait for their end, but only for a limited time if one
 * hangs. */
void nodejobs_kill_all(struct launcher *l);
void nodejobs_kill_children(struct launcher *l);

/* Continue after the plugins; `why`: the reason why they have refused the job, or NULL. */
void nodejob_plugins_done(struct nodejob *j, const char *why);
/* Note that the prolog runs; continue after its end.  `why`: the reason of a failure, or NULL. */
void nodejob_prolog_runs(struct nodejob *j);
void nodejob_prolog_done(struct nodejob *j, const char *why);
/* Fail a job whose file for labeled output cannot be opened. */
void nodejob_file_failed(struct nodejob *j, const char *why);
/* Fail a job whose PMIx server cannot be started. */
void nodejob_server_failed(struct nodejob *j, const char *why);

/* hook.c */
/* Run the prolog.  Returns 1 when nodejob_prolog_done() will be called, 0 when there is no prolog,
 * -1 with an error message. */
int hook_prolog(struct nodejob *j, errmsg_t *err);
/* Run the epilog, once.  Returns true until it has ended. */
bool hook_epilog(struct nodejob *j);
void hook_kill(struct nodejob *j);
/* Before the end of the launcher: stop the hooks that run.  After the last task: run the epilogs
 * that are due; true until they have ended. */
void hook_interrupt(struct nodejob *j);
bool hooks_epilogs(struct launcher *l);
/* Returns whether a child is a hook; handles the status of a child, and returns whether it was a
 * hook. */
bool hook_is(const struct launcher *l, pid_t pid);
bool hook_reaped(struct launcher *l, pid_t pid, int status);
void hook_destroy(struct nodejob *j);

/* task.c */
#define PMI_TASK_FD 3
/* Return the command that a task of a job with commands runs. */
const struct command *task_command(const struct nodejob *j, uint32_t rank);
/* Return the number of the job that the environment and names of a task show: for a spawned task,
 * the job that spawned it. */
uint64_t task_job_number(const struct nodejob *j);
/* Return the number of a task in that job. */
uint32_t task_number(const struct task *t);
bool task_has_ended(const struct task *t);
/* Returns whether each task gets a socket for PMI-1. */
bool task_has_pmi(const struct nodejob *j);
/* Prepare the start of tasks.  Returns 0, or the exit code that stands for all tasks, with an error
 * message. */
int tasks_prepare(struct nodejob *j, errmsg_t *err);
/* Prepare further tasks, for a slice of time.  Returns true when still more can be prepared at
 * once. */
bool tasks_more(struct nodejob *j);
/* Handle a request that has come back with its task.  Returns 0, or the exit code for this task and
 * all later tasks, with an error message; then no later task is started. */
int tasks_started(struct request *r, errmsg_t *err);
/* Returns whether all tasks that can be started have been.  *code: 0, or the exit code for the
 * other tasks, with the reason *why. */
bool tasks_all(const struct nodejob *j, int *code, errmsg_t *why);
void tasks_forget(struct nodejob *j);
/* Describe a file of a task that is to be opened; the caller frees the names.  Returns -1 with
 * ENOMEM. */
int task_file(struct nodejob *j, const char *path, uint32_t task, int flags, struct spawn_file *f);

/* env.c */
enum env_slot { SLOT_CORES, SLOT_GPUS, SLOT_CUDA, SLOT_ROCR, ENV_SLOTS };
struct env {
    char **vars; /* NULL-terminated */
    size_t n;
    char *owned[40];
    size_t nowned;
    char rank[40], local[40], pmirank[40]; /* strings that differ from task to task */
    size_t share_at[ENV_SLOTS];            /* indexes in vars; 0: none */
    char *shares[ENV_SLOTS];
    char **pmix; /* entries that pmix_task_env() fills */
};
int env_build(struct env *e, struct nodejob *j); /* -1 with ENOMEM */
void env_task(struct env *e, struct nodejob *j, const struct task *t);
void env_compact(struct env *e); /* for a program that is not a task */
void env_free(struct env *e);
const char *env_get(char *const *env, const char *name);
/* Set or remove a variable.  A later change replaces an earlier one.  Returns -1 with ENOMEM. */
int env_changes_set(struct changes *c, const char *var);
/* Add the changes of a command, except for variables that belong to the launcher. */
int env_changes_of_command(struct changes *c, const struct command *cmd);
/* Returns whether a variable was changed.  *val: its value; NULL: it was removed. */
bool env_changes_find(const struct changes *c, const char *name, const char **val);
/* Return an environment with the changes, which the caller frees; its strings are those of both.
 * NULL with ENOMEM. */
char **env_changes_apply(const struct changes *c, char *const *env);
/* Return a copy for one task, which stays valid when env_task() goes on to the next task.  The
 * caller also frees *texts, which holds the strings of this task. */
char **env_copy(const struct env *e, const struct changes *c, char **texts);
void env_changes_clear(struct changes *c);
/* Returns whether the tasks of the job on this node share cores. */
bool env_shares_cores(const struct nodejob *j);
/* Return the share of cores of a task, or NULL with ENOMEM. */
idset_t *env_task_cores(const struct nodejob *j, const struct task *t);
void env_strv_free(char **v);

/* lua.c: hooks of plugins */
struct request;
/* Read the plugins and call their init.  Returns 1 when nodejob_plugins_done() will be called, 0
 * when there are no plugins, -1 with an error message. */
int lua_init(struct nodejob *j, errmsg_t *err);
/* Called by a starter: call task_start of the plugins, which may change the environment of the
 * task.  Returns -1 if the task is refused, with the reason in r->w.err. */
int lua_task_start(struct request *r);
void lua_task_exit(struct nodejob *j, const struct task *t);
/* Call finish, once.  Returns true when it has returned. */
bool lua_finish(struct nodejob *j);
/* Send notes, and free them. */
void lua_notes_send(struct nodejob *j, struct notes *n);
/* Destroy the plugins of a job that has no works any longer. */
void lua_destroy(struct nodejob *j);

/* bind.c: return the processors that a task may use; NULL: all.  The set is valid until the next
 * call. */
const cpu_set_t *bind_task(struct nodejob *j, const struct task *t);
void bind_destroy(struct bind *b);

/* object.c: map a shared object of the launcher; the caller calls dlclose().  Returns NULL with an
 * error message. */
void *object_open(const char *name, errmsg_t *err);

/* file.c: labeled output in files */
int file_attach(struct stream *s, const char *path, errmsg_t *err);
/* Take bytes of output of a task; len 0: the end of its output. */
void file_output(struct stream *s, const void *data, size_t len);
/* Returns whether so much output waits for the file that no more of it is to be read. */
bool file_full(const struct stream *s);
/* Returns whether all output has been written and all files are closed. */
bool files_done(struct nodejob *j);
/* Drop the works of files that have not begun.  Close and free the files when no work of them
 * hangs. */
void files_drop(struct nodejob *j);
void files_close(struct nodejob *j);

/* orphan.c */
/* Call fn(l) in a thread of its own, while this thread watches for orphans until orphans_over(),
 * and until all threads that do not hang have ended.  Returns the exit code of the launcher. */
int orphans_watch(struct launcher *l, void (*fn)(struct launcher *l));
void orphans_over(struct launcher *l);
/* Returns whether there is a child that a task has left behind. */
bool orphans_there(struct launcher *l);

/* starter.c */
/* An operation that may hang, performed outside the loop; the first member of a larger
 * structure. */
struct work {
    struct list_node node;
    struct batch *batch;
    struct nodejob *job; /* NULL: it belongs to no job */
    /* Performed by any thread.  Uses only data of the work, or data that stay; a child is started
     * with params.pid = pid. */
    void (*run)(struct work *w, pid_t *pid);
    void (*done)(struct work *w); /* called by the loop afterwards; frees the work */
    void (*drop)(struct work *w); /* called instead if the work is not begun */
    /* The result. */
    bool failed; /* no later work of the batch is to be performed */
    int errnum;
    errmsg_t err;
    pid_t pid;   /* pid of a child */
    bool reaped; /* the child was reaped already, with this status */
    int status;
};
/* Start the program of a work, in run(). */
void starter_spawn(struct work *w, struct spawn_params *sp, pid_t *pid);

/* A task that is to be started. */
struct request {
    struct work w;
    struct task *task;
    struct spawn_params sp;
    struct spawn_fd fds[4];
    struct spawn_file files[SPAWN_FILES_MAX];
    size_t nfds, nfiles;
    bool own[4]; /* descriptors of fds that are to be closed */
    int cgroup;  /* file to which the child writes to enter its cgroup; -1: none */
    char **argv; /* NULL: the arguments of the job */
    char **envp;
    char *texts; /* strings of envp that belong to the task */
    struct changes changes;
    struct changes plugged; /* changes by plugins, in run() */
    struct notes notes;     /* notes by plugins, likewise */
    cpu_set_t cpus;
    /* The result. */
    bool lost;   /* the program does not exist */
    char *found; /* path of the program; may be NULL */
};
void task_request_free(struct request *r);

int starters_init(struct launcher *l);
/* Run the loop, in this thread or another: before(), works and after(), until l->over.  Then
 * orphans_over() is called. */
int starters_run(struct launcher *l, void (*before)(struct launcher *),
                 void (*after)(struct launcher *));
/* Wait until all threads that do not hang have ended.  After the jobs are gone, free the
 * starters. */
void starters_stop(struct launcher *l);
void starters_fini(struct launcher *l);
/* Handle the works that are done. */
void starters_collect(struct launcher *l);
/* Returns whether a thread hangs.  Its data must then stay until the process ends. */
bool starters_stuck(const struct launcher *l);
/* Returns whether works wait to be performed, or refused, in this round. */
bool starters_wait(const struct launcher *l);
/* Returns whether a child that was reaped, or is being examined, belongs to a starter. */
bool starters_reaped(struct launcher *l, pid_t pid, int status);
bool starters_have(struct launcher *l, pid_t pid);
void starter_batch_init(struct batch *b, bool begins);
void starter_batch_add(struct launcher *l, struct batch *b, struct work *w);
/* Drop the works that have not begun, and begin none any more.  Returns their number. */
unsigned starter_batch_drop(struct launcher *l, struct batch *b);
/* Kill the child that a work is starting.  Returns its pid, or 0 if there is none. */
pid_t starter_batch_kill(struct launcher *l, struct batch *b);

/* tag.c */
void tag_init(struct launcher *l);
/* Give a job its tag; take the tag back. */
void tag_take(struct nodejob *j);
void tag_release(struct nodejob *j);
/* Get the limit RLIMIT_LOCKS for the processes of the job.  Returns false if the limit is to be
 * left as it is. */
bool tag_limit(const struct nodejob *j, struct rlimit *rl);
/* Returns whether a process has a tag of this launcher.  *j: its job; NULL if the job has ended. */
bool tag_job(struct launcher *l, pid_t pid, struct nodejob **j);
/* Returns whether a process has a tag of the launcher with this token. */
bool tag_of_launcher(pid_t pid, const char *token);
/* Returns whether a process has lowered the limit: it has no tag, and a lower limit than this
 * launcher. */
bool tag_dropped(pid_t pid);

/* hunt.c */
/* End the processes that the job has left behind.  Returns true while there are such processes. */
bool hunt_leftovers(struct nodejob *j);
/* Send SIGTERM to all processes of the job, at the end of this round. */
void hunt_terminate(struct nodejob *j);
void hunt_tell(struct launcher *l);

/* stream.c */
void stream_ready(struct source *s, uint32_t events);
void stream_credit(struct nodejob *j, uint32_t bytes);
/* Read the remaining output.  Returns true when every pipe was closed, false when the credit is
 * used up. */
bool stream_drain(struct nodejob *j);
void stream_stdin(struct nodejob *j, uint32_t task, const void *data, size_t len);
/* After the start of all tasks: give them the input that arrived before. */
void stream_stdin_release(struct nodejob *j);
void stream_stdin_close(struct task *t);

/* pmi.c */
void pmi_ready(struct source *s, uint32_t events);
void pmi_done(struct nodejob *j, const void *payload, size_t len);
/* Fail the job of a spawned task that ended before it began with MPI, while the tasks that spawned
 * it wait for it. */
void pmi_spawned_in_vain(struct task *t);
/* Handle the end of a task, which may also be the end of its MPI. */
void pmi_task_ended(struct task *t);
void pmi_named(struct nodejob *j, const void *payload, size_t len);
void pmi_spawned(struct nodejob *j, const void *payload, size_t len);
/* Ask the module for further tasks.  `request` is described in pmi_spawn.h; `tag` comes back in
 * SPAWNED.  Returns -1 with ENOMEM. */
int pmi_ask_spawn(struct nodejob *j, uint32_t tag, const void *request, size_t len);
/* Get the name of the job for PMI, which no other job of this host has, now or later. */
void pmi_job_name(const struct nodejob *j, char *buf, size_t size);

/* hosts.c: brokers that share a host */
/* Get the numbers of the hosts of all nodes, malloc'd, and the number of hosts; NULL when each node
 * is a host of its own.  Returns -1 with ENOMEM. */
int hosts_number(const struct nodejob *j, uint32_t **numbers, uint32_t *nhosts);
/* Get the number of the host of this node.  Returns -1 with ENOMEM. */
int hosts_here(const struct nodejob *j, uint32_t *host);
/* Return the tasks of each host as PMI_process_mapping, malloc'd; NULL with ENOMEM. */
char *hosts_mapping(const struct nodejob *j);

/* shm.c */
struct pmi_pair;
/* Note a pair that a task has put; note the mappings before the job gets a signal; remove the files
 * at the end of the job, before its PMI server is destroyed. */
void shm_put(struct nodejob *j, const struct pmi_pair *pair);
void shm_look(struct nodejob *j);
void shm_remove(struct nodejob *j);

/* pmix.c; every function may be called for a job without PMIx. */
/* Get the namespace of the tasks, which no other job of this host has, now or later. */
#define PMIX_JOB_NAME_MAX (WIRE_JOB_NAME_MAX + 5)
void pmix_job_name(const struct nodejob *j, char buf[PMIX_JOB_NAME_MAX]);
/* Start the server of a job.  Returns 1 when the tasks have to wait for nodejob_start(), 0 when the
 * job does not need a server, -1 with an error message. */
int pmix_begin(struct nodejob *j, errmsg_t *err);
/* Get the environment that all tasks of the job share, and that of one task, as pointers in `vars`,
 * which has room for pmix_env_max() of them.  Return the number of pointers. */
size_t pmix_env_max(const struct nodejob *j);
size_t pmix_env(struct nodejob *j, char **vars);
size_t pmix_task_env(struct nodejob *j, const struct task *t, char **vars);
void pmix_task_ended(struct task *t);
/* Returns whether task `i` of this node has connected, and not finalized. */
bool pmix_within(const struct nodejob *j, uint32_t i);
/* Handle SPAWNED, the answer to a request of the server. */
void pmix_spawned(struct nodejob *j, const void *payload, size_t len);
/* End the server after the last task was reaped; returns whether it is gone. */
void pmix_end(struct nodejob *j);
bool pmix_gone(const struct nodejob *j);
/* Returns whether a child is a server; handles the status of a child, and returns whether it was a
 * server. */
bool pmix_is(const struct launcher *l, pid_t pid);
bool pmix_reaped(struct launcher *l, pid_t pid, int status);
void pmix_destroy(struct nodejob *j);
/* Start the offered server of a job; connections come through `door`.  A follower asks its leader
 * for the server, and pmix_answered() is called.  Returns -1 with an error message. */
int pmix_wanted(struct nodejob *j, int door, errmsg_t *err);
/* Take the gate of the leader, with its descriptor `fd`. */
void pmix_answered(struct nodejob *j, int fd);
/* Have the server serve another node of this host as well, and exchange frames with the launcher of
 * that node through `fd`, which is duplicated.  *gate: the way for connections of tasks; -1: they
 * do not need one.  Returns -1 with an error message. */
int pmix_join(struct nodejob *j, uint32_t node, int fd, int *gate, errmsg_t *err);

/* share.c: one server for the brokers of a host; a job may have no struct share */
struct share;
/* Set j->share when nodes of the job share hosts.  Returns -1 with an error message. */
int share_create(struct nodejob *j, errmsg_t *err);
void share_destroy(struct nodejob *j);
/* Returns whether this node runs a server itself; returns the number of other nodes that use it. */
bool share_leads(const struct share *sh);
uint32_t share_followers(const struct share *sh);
/* Return the number of the host of this node, and the number of hosts. */
uint32_t share_host(const struct nodejob *j);
uint32_t share_hosts(const struct nodejob *j);
/* Have the server of the leader exchange frames through `fd`, which is taken.  `gate`:
 * pmix_answered() is to be called.  Returns -1 with an error message. */
int share_ask(struct share *sh, int fd, bool gate, errmsg_t *err);

/* offer.c: PMIx for a job that may not ask for it */
struct offer;
struct offers;
/* Returns NULL with errno. */
struct offer *offer_create(struct nodejob *j);
/* Stop accepting connections. */
void offer_close(struct offer *o);
void offer_destroy(struct offer *o);
/* Like pmix_env_max(), pmix_env() and pmix_task_env(). */
size_t offer_env_max(void);
size_t offer_env(const struct offer *o, char **vars);
char *offer_task_env(const struct offer *o, const struct task *t);
/* Return the descriptor through which connections go to the server, which is started if necessary.
 * Returns -1 if the server could not be started; the job then fails. */
int offer_gate(struct offer *o);
/* Take the gate from another node, with its descriptor `fd`. */
void offer_answered(struct offer *o, int fd);
/* Get the address as ADDRESS:PORT. */
void offer_address(const struct offer *o, char *buf, size_t size);
void offers_destroy(struct launcher *l);

/* record.c: jobs whose epilog is due */
/* Record a job; record the changes by plugins; remove the record after the epilog. */
void record_write(struct nodejob *j);
void record_changes(struct nodejob *j);
void record_remove(struct nodejob *j);
/* Run the epilogs of the jobs of the lost launcher, after all its processes are gone. */
void records_run(struct launcher *l);

/* backing.c: directories of jobs */
/* Make the directory, with the files of the job in it.  nodejob_dir_made() is called; j->dir is
 * then NULL if the directory cannot be made.  Returns -1 with an error message if there is no
 * memory for the work. */
int backing_make(struct nodejob *j, errmsg_t *err);
/* Remove the directory, once.  Returns true until that is done. */
bool backing_remove(struct nodejob *j);
/* Remove the directories of the launcher with this token, which is dead. */
void backing_sweep(struct launcher *l, const char *token);
/* Returns whether a launcher with this token runs, as far as the directories show. */
bool backing_held(const struct launcher *l, const char *token);
/* Remove the directories of this launcher, once.  Returns true until that is done. */
bool backing_leave(struct launcher *l);
void backing_fini(struct launcher *l);

/* cgroup.c: the limit of a job's memory */
/* Before the tasks: make a cgroup for a job that asked for memory.  If it cannot be made, the job
 * gets a warning with the reason. */
void cgroup_make(struct nodejob *j);
/* Return the descriptor to which a task writes when it enters the cgroup; NULL: it stays where it
 * is. */
const int *cgroup_procs(const struct nodejob *j);
/* Handle the end of a task, which may have been killed for the limit. */
void cgroup_task_ended(struct task *t);
/* Remove the cgroup after the last process of the job. */
void cgroup_remove(struct nodejob *j);
void cgroups_destroy(struct launcher *l);

#endif
