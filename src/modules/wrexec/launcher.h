/* The launcher's own interfaces: see launcher.c for the whole. */
#ifndef WREXEC_LAUNCHER_H
#define WREXEC_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "libpmi/pmi_server.h"
#include "libutil/buf.h"
#include "libutil/errmsg.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "wire.h"

/* A descriptor in the loop. */
struct source {
    int fd; /* -1: closed */
    uint32_t events;
    bool armed; /* known to epoll */
    void (*ready)(struct source *s, uint32_t events);
};

struct job;

struct stream {
    struct source src; /* our end of the pipe */
    struct task *task;
    int num; /* 1 or 2 */
};

struct task {
    struct job *job;
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

/* state     of a job                                                      left when
 * STARTING  its PMIx server starts (launcher_pmix.c)                      that is ready, or the job is killed
 * RUNNING   tasks run                                                     the last task was reaped
 * ENDING    what is left of it is being killed, pipes are being drained   neither remains
 * OVER      DONE was sent; freed at the end of the round
 */
enum job_state { JOB_STARTING, JOB_RUNNING, JOB_ENDING, JOB_OVER };

struct job {
    struct launcher *l;
    uint64_t id;
    enum job_state state;
    struct wire_run run; /* strings point into `body` */
    void *body;
    uint32_t first;
    uint32_t ntasks; /* on this node */
    uint32_t running;
    int64_t credit; /* bytes of output that may be sent */
    bool paused;    /* some stream waits for credit */
    bool failed;    /* FAIL was sent */
    unsigned tries; /* to tell who a process without environment belongs to */
    struct pmi_server *pmi;
    struct pmix *pmix;       /* with WIRE_F_MPI_PMIX: NULL until it was begun */
    uint32_t barriers;       /* handed over */
    char *dir;               /* backing directory of its MPI, when made */
    char mark[96];           /* NAME=value in the environment of all its processes */
    struct list_node ending; /* in launcher.ending */
    struct task *tasks;
};

struct launcher {
    int epfd;
    int nullfd;
    struct source control;
    struct source signals;
    buf_t *in;
    buf_t *out;
    hmap_t *jobs;    /* id -> struct job */
    hmap_t *pids;    /* pid -> struct task */
    hmap_t *servers; /* pid -> struct pmix */
    struct list_node ending;
    bool stop;
    bool again;          /* look again in a moment */
    struct rlimit files; /* limit of open files for tasks */
    const char *uri;     /* of the local broker; may be NULL */
    const char *libpmi;  /* may be NULL */
    const char *rank;    /* of the local broker, as text */
    char token[17];      /* of this launcher, random */
    char *dirname;       /* base of backing directories */
    int dirlock;         /* holds it, -1: not made */
};

/* launcher.c: the loop and the connection */
int source_start(struct launcher *l, struct source *s, int fd, uint32_t events,
                 void (*ready)(struct source *, uint32_t));
void source_pause(struct launcher *l, struct source *s);
void source_resume(struct launcher *l, struct source *s);
void source_close(struct launcher *l, struct source *s);
/* Queue a frame: `fixed` then `data`. */
void send_frame(struct launcher *l, enum wire_type type, uint64_t job, const void *fixed,
                size_t fixedlen, const void *data, size_t len);
/* Give a job up: its exit code, the tasks it is about (-1: none) and why.  The first time only. */
void send_fail(struct job *j, int code, int32_t first, uint32_t count, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* launcher_job.c */
void job_run(struct launcher *l, uint64_t id, const void *payload, size_t len);
void job_signal(struct job *j, int signum);
void job_kill(struct job *j);
void job_destroy(void *arg);
/* Start the tasks: at once, or when the job's PMIx server is ready. */
void job_start(struct job *j);
void jobs_reap(struct launcher *l);
/* What is due once per round: ends of jobs. */
void jobs_step(struct launcher *l);
/* Kill everything there is, and wait until it is gone. */
void jobs_kill_all(struct launcher *l);

/* launcher_io.c */
void stream_ready(struct source *s, uint32_t events);
void job_credit(struct job *j, uint32_t bytes);
/* Read what is left: true when every pipe was closed, false when credit ran out. */
bool job_drain(struct job *j);
void job_stdin(struct job *j, uint32_t task, const void *data, size_t len);
void stdin_close(struct task *t);

/* launcher_pmi.c */
void pmi_ready(struct source *s, uint32_t events);
void job_pmi_done(struct job *j, const void *payload, size_t len);
/* A task of the job ended: is that the end of its MPI? */
void pmi_task_ended(struct task *t);
void job_pmi_named(struct job *j, const void *payload, size_t len);
/* PMI_process_mapping of the job, malloc'd; NULL with ENOMEM. */
char *pmi_job_mapping(const struct job *j);

/* launcher_pmix.c; every function may be called for a job without PMIx. */
/* Start the server of a job: 1 when its tasks have to wait for job_start(), 0 when it needs none,
 * -1 with a sentence. */
int pmix_begin(struct job *j, errmsg_t *err);
/* Environment that all tasks of the job get, and that of one task: copied as pointers to `vars`,
 * which has room for pmix_env_max(); how many. */
size_t pmix_env_max(const struct job *j);
size_t pmix_env(struct job *j, char **vars);
size_t pmix_task_env(struct job *j, const struct task *t, char **vars);
void pmix_task_ended(struct task *t);
/* The last task was reaped: end the server; is it gone? */
void pmix_end(struct job *j);
bool pmix_gone(const struct job *j);
/* Is a child a server, and (it was reaped) was it? */
bool pmix_is(const struct launcher *l, pid_t pid);
bool pmix_reaped(struct launcher *l, pid_t pid, int status);
void pmix_destroy(struct job *j);

/* launcher_dir.c */
/* Where the backing directory of a job will be (malloc'd); and make it. */
char *backing_path(struct launcher *l, uint64_t job);
void backing_make(struct job *j);
void backing_remove(struct job *j);
int backing_init(struct launcher *l);
/* Remove what the launcher of this token left behind; it is dead. */
void backing_sweep(const char *token);
void backing_fini(struct launcher *l);

#endif
