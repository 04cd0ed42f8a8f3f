/* wrexec_wire.h - the messages of the service wrexec.  A rank other than 0 refuses all requests but
 * wrexec.tree, wrexec.down, wrexec.host, wrexec.remains, wrexec.end and wrexec.stats.
 *
 * From the job module, to rank 0:
 *    wrexec.jobs    streaming, {} -> struct wrexec_jobs, at most one response for each pass of the
 *                   event loop.  The first response comes at once.  It lists the jobs that run, and
 *                   reports the jobs that ended while there was no stream and, once more, those
 *                   that ended last: a job module that restarts compares them with its own record.
 *                   There is one stream; a later request replaces it, and the earlier one ends with
 *                   ENODATA.
 *    wrexec.launch  raw -> (empty): jobs to start, see launchbuf below.  A message that cannot be
 *                   decoded is refused with EPROTO.  A job that cannot be started is reported by
 *                   `ended`, with code 126 or 127 and an error message.
 *    wrexec.kill    struct wrexec_kill -> {}: send a signal to all tasks of jobs.  SIGKILL also
 *                   ends a job whose output no client reads.  If an id is unknown, the client that
 *                   listens to it gets ENOENT: the job module also names the jobs that ended before
 *                   they were launched.
 *
 * From clients, to rank 0:
 *    wrexec.listen  streaming, struct wrexec_listen: follow a job.  Responses: struct wrexec_notice
 *                   as JSON, the first when the job is launched, with its ranks; records of output
 *                   (exec_wire.h), raw, if the output mode of the job is "client"; last, and
 *                   without the streaming flag, struct wrexec_result.  The request may arrive
 *                   before the job is launched, or shortly after it ended.  A second client gets
 *                   EBUSY.  A stream that ended with EHOSTUNREACH, because a broker between died,
 *                   is resumed by another request of the same client: it gets the responses after
 *                   those that it has received (records, and notices with `text` or `warning`,
 *                   count), and a notice as the first one, with the input taken so far.  A client
 *                   whose own broker was lost has another sender when it is back, and is known by
 *                   its `token`.  A client that has learned elsewhere that the job has ended asks
 *                   with `ended`, and gets an error; if the job is not known here, another request
 *                   of the same client for it gets ENOENT.
 *    wrexec.run     streaming, raw, struct jobreq with struct wrexec_run as its JSON: run a program
 *                   on chosen ranks (flux exec).  Responses as for wrexec.listen, by which the
 *                   stream is resumed, with the id of the first notice.  The program ends when its
 *                   client disconnects.
 *    wrexec.stdin   raw -> (empty): u64 id, u64 token of the stream (0: the client is known by its
 *                   sender), u64 position of the first byte, bytes (none: end of file).  At most
 *                   WIRE_STDIN_WINDOW bytes may be without acknowledgement by a notice.  Bytes that
 *                   have arrived before are skipped.
 *    wrexec.credit  raw -> (empty): u64 id, u64 token, u64 number of responses that the client has
 *                   received (counted as above), u64 bytes of output for which it has room again,
 *                   in all.  Standard input and credit count only from the client that listens to
 *                   the job or runs the program; others get the same response, and nothing happens.
 *    wrexec.signal  struct wrexec_signal -> {}: to the tasks of a wrexec.run.  ESRCH when it has
 *                   ended, and for the number of a job.
 *    wrexec.name    see wrexec_names.h
 *
 * To any rank:
 *    wrexec.stats   {} -> struct wrexec_stats
 *
 * Between instances, raw; each message holds all frames (exec_wire.h) that wait at the end of a
 * pass:
 *    wrexec.tree    streaming, to a child, which is below in the tree: an empty response when the
 *                   child is ready, then the frames that go up
 *    wrexec.down    raw -> (empty), to the same child: the frames that go down
 *    wrexec.known   to rank 0, raw -> raw: entries of u64 job, u64 random number of its launch, of
 *                   jobs that have lost their parent; the answer has those that rank 0 does not run
 *    wrexec.spawn   to rank 0, raw: u64 job or group, u32 WREXEC_SPAWN_ flags, u64 number of this
 *                   request, then the frame SPAWN without its first number -> struct
 *                   wrexec_spawned: more tasks for a running job.  A request whose answer was lost
 *                   with a broker is sent again with the same number
 *    wrexec.host    {} -> struct wrexec_host: from rank 0, to any rank
 *    wrexec.end     streaming, so that it can be canceled, struct wrexec_task -> struct wrexec_end:
 *                   from the module stream of rank 0, to the rank where the task runs or has run:
 *                   answered when the task has ended.  ENOENT: it is not a task of this rank, or
 *                   ended so long ago that this is forgotten
 *    wrexec.remains {} -> {}: from the module resrc of rank 0, to a rank that came back: answered
 *                   when no process of an earlier broker of the rank is left; EBUSY: some are left
 *
 * Messages wrexec.tree, wrexec.down and wrexec.spawn must all arrive, and in their order: the
 * sender uses a courier (libflux/courier.h), which repeats a request that found a full mailbox
 * (EAGAIN).
 *
 * Numbers in raw payloads are little-endian.  Functions are pure and thread-safe.
 */
#ifndef EXEC_WREXEC_WIRE_H
#define EXEC_WREXEC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libschema/schema.h"
#include "libutil/errmsg.h"
#include "exec_wire.h"

/* A request to run a program: JSON, and strings that JSON cannot carry.
 *    "WXR1", u32 length of JSON, u32 argc, u32 envc, JSON, strings: WIRE_STRINGS
 *    fixed ones, argv, environment */
struct jobreq {
    const char *json; /* not NUL-terminated */
    size_t json_len;
    uint32_t argc;
    uint32_t envc;
    const char *strings;
    size_t strings_len;
};
/* Returns malloc'd bytes, with one more byte of room for flux_msg_take_raw(); *len is their length.
 * NULL with ENOMEM. */
void *wrexec_jobreq_encode(const struct jobreq *req, size_t *len);
/* Strict; pointers lead into `data`.  -1 with an error message and EPROTO, or EMSGSIZE for more
 * than one MiB of JSON. */
int wrexec_jobreq_decode(const void *data, size_t len, struct jobreq *req, errmsg_t *err);
/* Gather the strings; malloc'd.  NULLs count as "".  NULL with ENOMEM. */
char *wrexec_jobreq_strings(const char *const fixed[WIRE_STRINGS], char *const *argv,
                            char *const *envp, struct jobreq *req);
/* String number i of the request: the fixed ones, then argv, then the environment. */
const char *wrexec_jobreq_string(const struct jobreq *req, size_t i);

struct wrexec_run {
    const char *ranks; /* idset: one task on each */
    const char *input; /* "first", "all", "none": which tasks read standard input */
    uint32_t window;   /* first credit for output */
};
extern const struct flux_schema wrexec_run_schema;

/* One of these is reported: the tasks have started (`ranks`); the job is failing (`text`) and its
 * remaining tasks will be killed; a `warning`; all tasks that read standard input have taken
 * `taken` bytes of it (also with `ranks`). */
struct wrexec_notice {
    uint64_t id;
    const char *ranks;
    int code;
    const char *text;
    const char *warning;
    uint64_t taken;
};
extern const struct flux_schema wrexec_notice_schema;

struct wrexec_result {
    int code; /* exit code of the whole: of the failure that ended it, else of the worst task */
    const char *text; /* the failure that ended it; NULL: the tasks ended by themselves */
    json_t *status;   /* [[wait status, "tasks"], ...] */
    json_t *failed;   /* [[task, rank, wait status], ...]: some of those that did not exit with 0 */
};
extern const struct flux_schema wrexec_result_schema;

struct wrexec_signal {
    uint64_t id;
    int signum;
    uint32_t number; /* the client of the program counts its signals from 1: one that arrives again
                        has no effect.  0: not counted */
};
extern const struct flux_schema wrexec_signal_schema;

/* --- jobs --- */

/* One job to be run: JSON in wrexec.launch. */
struct wrexec_launch {
    uint64_t id;
    uint32_t uid;
    json_t *nodes;      /* [["ranks", ntasks, "cores", "gpus", MiB], ...]: broker ranks, each once;
                          ntasks on each (> 0); idsets of its cores and gpus ("": not given);
                          memory (0: not given).  Equal nodes are folded.  Node numbers of the job
                          follow ascending ranks. */
    const char *names;  /* hostlist: names of these nodes by ascending rank; NULL: host names */
    const char *hosts;  /* the same, but with invented names, which are equal for nodes that share a
                        * host; NULL: nodes with equal `names` share one.  Added by rank 0. */
    const char *name;   /* of the job: {{name}}; NULL: the program's */
    const char *layout; /* "block" (default), "cyclic" */
    const char *input;  /* which tasks read standard input: "first", "all", "none" (default) */
    const char *output; /* streams without file: "kvs" (default), "client", "none" */
    const char *affinity;    /* cpu-affinity: "off" (default), "on", "per-task" */
    const char *gpuaffinity; /* "per-task" (default), "on", "off" */
    const char *mpi;         /* "both" (default), "pmi", "pmix", "none" */
    bool label;              /* "TASK: " before each line in files */
    bool killbad;            /* the first task that fails ends the job */
    bool survive;            /* the loss of a node does not end the job */
    uint32_t attempt;        /* number of this attempt to run the job, from 1 */
    bool nested;             /* a session of its own runs in the job */
    bool memlimit;           /* the job requested its memory: that is its limit */
    json_t *commands;        /* [[ntasks, words, changes], ...], as in struct wire_command: several
                       * programs, whose words are in argv; NULL: one program, with all of argv */
    bool crowded;            /* its cores may also be those of other nodes */
    bool exec;               /* a program of flux exec, not a job */
    bool overcommit;         /* it may have more tasks than its resources have room for */
    uint64_t parent;         /* of tasks that were spawned: the job that they belong to */
    uint32_t first;          /* ... the number of their first task in that job */
    uint32_t universe;       /* ... tasks that the job has room for */
    double grace; /* seconds between SIGTERM and SIGKILL when the job has to end; 0: SIGKILL at
                   * once */
    json_t *softlimits;   /* the soft limits of the submitter: applied as far as the hard limits
                         * permit */
    int mask;             /* umask of the tasks + 1; 0: the broker's */
    json_t *rlimits;      /* {"nofile":n, "stack":n, ...}, -1: unlimited; NULL: as the broker's */
    uint64_t outputlimit; /* 1 + bytes kept in the store; 0: attribute wrexec.output-limit */
    double expiration;    /* when the job must return its resources, seconds since 1970; 0: never */
};
extern const struct flux_schema wrexec_launch_schema;

/* The mark of what a rank shares with other ranks of its host: see hostshare_get() in
 * hostmark.h. */
struct wrexec_host {
    const char *mark;
};
extern const struct flux_schema wrexec_host_schema;

struct wrexec_task {
    uint64_t id; /* of the job */
    uint32_t task;
};
extern const struct flux_schema wrexec_task_schema;

struct wrexec_end {
    int status; /* of wait(2) */
};
extern const struct flux_schema wrexec_end_schema;

struct wrexec_spawned {
    const char *name; /* of the namespace in which the new tasks are */
};
extern const struct flux_schema wrexec_spawned_schema;
#define WREXEC_SPAWN_HEAD 28
#define WREXEC_SPAWN_PMIX 1     /* a task asks by PMIx */
#define WREXEC_SPAWN_REPEATED 2 /* an earlier copy may have been served */

/* Encoder of wrexec.launch:  "WXL1", then for each job
 *    u32 JSON length, u32 files, u32 argc, u32 strings length, u32 environment length
 *    JSON; strings, each with its NUL: WIRE_STRINGS fixed ones, name and text of each file, argv;
 *    environment, NAME=value with NUL after each (length 0xffffffff: that of the job before)
 */
typedef struct launchbuf launchbuf_t;
struct launchreq {
    const struct wrexec_launch *launch;
    const char *fixed[WIRE_STRINGS]; /* NULL: "" */
    const char *const *files;        /* name, text, name, text... */
    size_t nfiles;
    char *const *argv; /* NULL-terminated, at least one */
    const void *env;   /* NAME=value, NUL after each */
    size_t envlen;
};
launchbuf_t *exec_launchbuf_create(void);
void exec_launchbuf_destroy(launchbuf_t *b); /* NULL-safe, keeps errno */
/* -1 with EINVAL (a text of the JSON that is not UTF-8, or a malformed environment), EMSGSIZE (the
 * message would grow beyond LAUNCH_MAX: send it first), ENOMEM; then nothing was added. */
int exec_launchbuf_add(launchbuf_t *b, const struct launchreq *req);
size_t exec_launchbuf_count(const launchbuf_t *b);
/* Take the payload, which leaves the buffer empty: malloc'd bytes, with one more byte of room for
 * flux_msg_take_raw().  NULL with ENOENT when the buffer holds no job. */
void *exec_launchbuf_take(launchbuf_t *b, size_t *len);
#define LAUNCH_MAX (64u << 20)

/* Decoder.  Pointers lead into the payload. */
struct launchrec {
    const char *json;
    size_t json_len;
    uint32_t nfiles;
    uint32_t argc;
    uint32_t envc;
    const char *strings; /* fixed, files, argv */
    size_t strings_len;
    const char *env;
    size_t env_len;
};
/* Decode the next job: start with *pos = 0.  1; 0 at the end; -1 with EPROTO and an error
 * message. */
int exec_launchrec_next(const void *data, size_t len, size_t *pos, struct launchrec *rec,
                        errmsg_t *err);

/* A single job, as in the frame LAUNCH between instances.  exec_launchrec_head() writes its head of
 * LAUNCHREC_HEAD bytes, which JSON, strings and environment follow; exec_launchrec_get() reads all
 * of it, with the results of exec_launchrec_next(). */
#define LAUNCHREC_HEAD 20
void exec_launchrec_head(void *dst, const struct launchrec *rec);
int exec_launchrec_get(const void *data, size_t len, struct launchrec *rec, errmsg_t *err);

/* A response of wrexec.jobs.  Arrays that are absent are empty. */
struct wrexec_jobs {
    json_t *running; /* [id...]: in the first response only */
    json_t *ended;   /* [struct wrexec_ended...] */
    json_t *raise;   /* [struct wrexec_raise...] */
};
extern const struct flux_schema wrexec_jobs_schema;

struct wrexec_ended {
    uint64_t id;
    uint32_t attempt; /* of the launch; 0: not known */
    int code; /* exit code of the whole: of the failure that ended it, else of the worst task */
    const char *text;    /* the failure that ended it; NULL: the tasks ended by themselves */
    const char *type;    /* of this failure, as in struct wrexec_raise; NULL: "exec" */
    json_t *status;      /* [[wait status, "tasks"], ...] */
    double t;            /* when, seconds since 1970 */
    double t_started;    /* when the last task was started, by its node's clock; 0: none was */
    double t_exited;     /* when the last task was reaped; 0: none was started */
    uint64_t outputlost; /* bytes beyond the limit, or that the store did not accept */
    json_t *failed;      /* as in struct wrexec_result */
};
extern const struct flux_schema wrexec_ended_schema;

struct wrexec_raise {
    uint64_t id;
    uint32_t attempt; /* of the launch; 0: not known */
    const char *type; /* "exec", "output", "node-lost", "plugin" */
    int severity;     /* 0: wrexec is ending the job; more: for information */
    const char *note;
};
extern const struct flux_schema wrexec_raise_schema;

struct wrexec_kill {
    json_t *ids; /* [id...] */
    int signum;
};
extern const struct flux_schema wrexec_kill_schema;

struct wrexec_listen {
    uint64_t id;
    uint32_t window; /* first credit for output; 0: WREXEC_CLIENT_WINDOW */
    bool input; /* standard input will be sent; false: tasks that wait for it read end of file */
    uint64_t received; /* to resume a stream: as in wrexec.credit */
    uint64_t paid;
    uint64_t token; /* random: who has it is the same client, also after the loss of its broker; 0:
                       the stream ends with that */
    bool ended;     /* only end a request that waits for the launch of this job, which has ended */
};
extern const struct flux_schema wrexec_listen_schema;

struct wrexec_stats {
    uint64_t jobs;      /* jobs that were started so far */
    uint64_t running;   /* jobs that are running */
    int launcher;       /* process id of the launcher of this rank; 0: there is none */
    uint32_t launchers; /* number of launchers started so far */
};
extern const struct flux_schema wrexec_stats_schema;

#define WREXEC_CLIENT_WINDOW (1u << 20)
#define WREXEC_STDIN_HEAD 24
#define WREXEC_CREDIT_SIZE 32
#define WREXEC_KNOWN_SIZE 16

extern const struct flux_method wrexec_methods[];

#endif
