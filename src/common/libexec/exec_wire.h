/* Frames: the protocol between the wrexec module and its launcher, over a stream socket on one
 * machine, and between instances of the module, along the tree (wrexec_wire.h).
 *
 * A frame is a header of 16 bytes and a payload:
 *    0  u32  payload length, at most WIRE_PAYLOAD_MAX
 *    4  u16  type
 *    6  u16  magic 0x5746
 *    8  u64  job
 * Between module and launcher numbers are in the byte order of the machine, except in output
 * records, which travel on; between instances they are little-endian.
 *
 * A frame whose type is unknown, or whose length does not fit its type, ends the job that it
 * names.  A wrong magic number, or a length above WIRE_PAYLOAD_MAX, leaves no way to find the next
 * frame, so it ends the connection.  Only Flux itself writes to it; a flux-pmixd, which serves one
 * job, has a connection of its own.
 *
 * To the launcher:
 *    CONFIG     strings, see enum wire_config: the settings for all jobs; the first frame
 *    RUN        struct wire_run and what follows it: start the local tasks of a job
 *    SIGNAL     i32 signal: to the process group of every running task
 *    KILL       (empty): SIGKILL to all processes of the job
 *    STDIN      u32 task (WIRE_ALL: all that have a pipe), data; no data: end of file
 *    CREDIT     u32: number of further bytes of output that may be sent
 *    PMI_DONE   i32 rc, then pairs (rc 0) or an error message: the barrier handed over is complete
 *    PMI_NAMED  u32 task (its number here), i32 rc, then a port (look-up, rc 0) or an error
 *               message: the answer to its PMI_NAME
 *    SPAWNED    u32 from its SPAWN, i32 rc, then the name of the new tasks' namespace (rc 0) or an
 *               error message
 *    ASK_END    u32 task (its number here): send its END, at once or when it has ended
 *
 * From the launcher:
 *    OUTPUT     records, see below
 *    STDIN_ACK  u32: number of bytes of standard input that were written or discarded
 *    FAIL       i32 exit code, i32 first task (-1: none), u32 count, text: the job cannot go on
 *               (program not found, a task died within MPI, MPI_Abort)
 *    PMI_FENCE  u32 number of the barrier, pairs: all local tasks have entered it
 *    PMI_NAME   u32 task (its number here), u32 enum wire_name, service, NUL, port, NUL; a task has
 *               at most one outstanding request
 *    SPAWN      a task requests further tasks: u32 for SPAWNED (PMI-1: the task's number here; a
 *               task has at most one outstanding request), u32 length of the request, u32
 *               environment variables, the request (pmi_spawn.h), strings: WIRE_STRINGS fixed ones,
 *               environment
 *    STARTED    (empty), about such further tasks: all that are to run here are running
 *    NOTE       text: an event that does not end the job
 *    WARNING    text: the job runs, but not as its user requested; the client prints it
 *    BEGUN      (empty): a task here has initialized PMIx; sent once per job
 *    SWEPT      u32: the preceding launcher is dead, and so are its processes except this number of
 *               them, which could not be ended; not about a job
 *    END        u32 task (its number here), i32 wait status: a task that ASK_END has named has
 *               ended; others may run
 *    DONE       times (struct wire_times), then i32 wait status for each local task: no process of
 *               the job is left here
 *
 * From flux-pmixd to the launcher, besides FAIL:
 *    PMIX_READY   u32 common, u32 each, strings with their NULs: environment that all tasks get,
 *                 then that of each local task in turn
 *    PMIX_CLIENT  u32 rank, u32 1 (it is there) or 2 (it has finalized)
 * and back, besides SPAWNED:
 *    PMIX_JOIN    u32 node, u32 rank of each of its tasks; with a descriptor: the connection to the
 *                 launcher of that node, which gets PMIX_READY, and PMIX_CLIENT about these tasks
 *    PMIX_LEAVE   (empty): the tasks of this launcher have ended; the server exits when all
 *                 expected nodes have joined and closed their connections
 *
 * Between instances, down: KILL, CREDIT as above,
 *    LAUNCH     u32 round, u32 credit for output, u64 random number of this launch, an idset, NUL:
 *               the nodes of the job that the child is responsible for; then a job as in
 *               wrexec.launch (wrexec_wire.h).  An instance that has this launch already repeats
 *               what rank 0 may lack, as after AGAIN
 *    NTH_SIGNAL u32 number of this signal in the job, u32 signal
 *    INPUT      u64 position, u64 taken, data: standard input; no data: end of file.  All nodes
 *               have taken the bytes before the position `taken`
 *    ACK        u32 rank, u32 stream, u64 number: rank 0 has the frames NUMBERED of this rank up to
 *               this number
 *    AGAIN      u32 round, u32 credit: repeat all frames NUMBERED that rank 0 has not acknowledged,
 *               and the latest of each other frame
 *    OVER       (empty): rank 0 has everything about the job, so nothing will be asked for again
 * and up, each with a u32 before it, the round of the last LAUNCH or AGAIN (the parent ignores
 * frames of earlier rounds):
 *    NUMBERED   u32 rank, u64 number, u32 type, and the payload of a frame of that type: OUTPUT,
 *               FAIL (the first task is always -1: the text names the node), NOTE, WARNING.  Each
 *               rank numbers them from 1, those with OUTPUT (stream 0) and all others (stream 1)
 *               each by themselves; number 0: it is not repeated
 *    TAKEN      u32 node, u64 bytes: so much standard input was written there in all
 *    STARTED    u32 node: all its tasks are running
 *    LOST       an idset of ranks, NUL, text: these nodes of the job are lost, together with their
 *               tasks
 *    BEGUN      (empty): a task in this subtree has initialized MPI
 *    RESULT     the bytes of exec_result_pack(): the job has ended in this subtree; its last frame.
 *               (empty): nothing of it was started there
 *
 * A record of output: u32 task, u32 stream (1 or 2), u32 length, all little-endian; then the bytes.
 *
 * Flow: the launcher sends no more bytes of OUTPUT payload than it was given credit for (it may go
 * over by one record).  The module sends no more bytes of STDIN than WIRE_STDIN_WINDOW
 * unacknowledged.  DONE is the last frame about a job from the launcher.  A frame for a job that
 * does not exist, or has ended, is ignored.
 *
 * Functions are pure and thread-safe.
 */
#ifndef EXEC_WIRE_H
#define EXEC_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "exec_layout.h"
#include "libutil/buf.h"
#include "libutil/errmsg.h"

#define WIRE_HEADER 16
#define WIRE_PAYLOAD_MAX (64u << 20)
#define WIRE_ALL UINT32_MAX
#define WIRE_WINDOW (256u << 10)
#define WIRE_STDIN_WINDOW (256u << 10)
#define WIRE_TASKS_MAX (1u << 16)           /* on one node */
#define WIRE_PMI_MAX (WIRE_PAYLOAD_MAX - 4) /* bytes of pairs in PMI_FENCE and PMI_DONE */

enum wire_type {
    WIRE_BAD, /* a result of exec_wire_parse() only */
    WIRE_RUN = 1,
    WIRE_SIGNAL,
    WIRE_KILL,
    WIRE_STDIN,
    WIRE_CREDIT,
    WIRE_PMI_DONE,
    WIRE_PMI_NAMED,
    WIRE_SPAWNED,
    WIRE_ASK_END,
    WIRE_OUTPUT = 16,
    WIRE_STDIN_ACK,
    WIRE_FAIL,
    WIRE_PMI_FENCE,
    WIRE_DONE,
    WIRE_PMI_NAME,
    WIRE_NOTE,
    WIRE_BEGUN,
    WIRE_SPAWN,
    WIRE_STARTED,
    WIRE_WARNING,
    WIRE_LOST,
    WIRE_SWEPT,
    WIRE_END,
    WIRE_PMIX_READY = 32,
    WIRE_PMIX_CLIENT,
    WIRE_PMIX_JOIN,
    WIRE_PMIX_LEAVE,
    WIRE_LAUNCH = 48,
    WIRE_TAKEN,
    WIRE_RESULT,
    WIRE_CONFIG,
    WIRE_NUMBERED,
    WIRE_INPUT,
    WIRE_ACK,
    WIRE_AGAIN,
    WIRE_OVER,
    WIRE_NTH_SIGNAL,
};
enum wire_name { WIRE_NAME_PUBLISH = 1, WIRE_NAME_LOOKUP, WIRE_NAME_UNPUBLISH };
#define WIRE_NAME_MAX 1024 /* bytes of a service or a port */

/* When the last of some tasks was started, and when the last of them was reaped: microseconds since
 * 1970 by the clocks of their nodes; both 0: no task was started.  Times travel up the tree, so
 * they are little-endian everywhere. */
struct wire_times {
    uint64_t started;
    uint64_t exited;
};
#define WIRE_TIMES 16
#define WIRE_SPAWN_HEAD 12
#define WIRE_SPAWN_PMIX 0x80000000u /* in the first number of SPAWN: PMIx made the request */
#define WIRE_LAUNCH_HEAD 16         /* before the idset in LAUNCH */
#define WIRE_ROUND 4                /* before each frame up */

struct wire_frame {
    enum wire_type type;
    unsigned said; /* the type in the header, also of a WIRE_BAD */
    uint64_t job;
    uint32_t len;
    const uint8_t *payload;
};

void exec_wire_header(void *dst, enum wire_type type, uint64_t job, uint32_t len);
/* Append a frame whose payload is in `n` parts.  -1 with EMSGSIZE, ENOBUFS or ENOMEM, and nothing
 * was appended. */
int exec_wire_put(buf_t *b, enum wire_type type, uint64_t job, const struct iovec *iov, int n);
/* Parse the frame at the start of `data`.  Returns its whole size, with *f filled; 0 when more
 * bytes are needed; -1 with EPROTO and an error message when these bytes are not a frame, after
 * which the stream cannot be read any further.  A frame of an unknown type, or of a length that its
 * type cannot have, is returned as WIRE_BAD with an error message: skip it, and end the job that it
 * names.  The lengths of payloads of simple types have thus been checked. */
ptrdiff_t exec_wire_parse(const void *data, size_t len, struct wire_frame *f, errmsg_t *err);

/* The times, in WIRE_TIMES bytes.  exec_wire_times_get() returns -1 with EPROTO and an error
 * message for impossible times: only one of both, or an end before the start. */
void exec_wire_times_put(void *dst, const struct wire_times *t);
int exec_wire_times_get(const void *p, struct wire_times *t, errmsg_t *err);

/* The name of the namespace of a launch's tasks.  No other job of any host has that name, now or
 * later. */
#define WIRE_JOB_NAME_MAX 64
void exec_wire_job_name(char name[WIRE_JOB_NAME_MAX], uint64_t job, uint64_t nonce);

uint32_t exec_wire_u32(const void *p); /* in the machine's order, from any address */
int32_t exec_wire_i32(const void *p);

/* --- LAUNCH and NUMBERED, between instances --- */

struct wire_launch {
    uint32_t round;
    uint32_t credit;
    uint64_t nonce;
    const char *ranks;
    const void *job; /* see exec_launchrec_get() */
    size_t job_len;
};
/* Writes the first WIRE_LAUNCH_HEAD bytes; the idset with its NUL, and the job, follow. */
void exec_wire_launch_put(void *dst, const struct wire_launch *l);
/* -1 with EPROTO and an error message; then the round is valid.  Pointers lead into the payload. */
int exec_wire_launch_get(const struct wire_frame *f, struct wire_launch *l, errmsg_t *err);

/* `f`: the frame that it carries, about the same job. */
struct wire_numbered {
    uint32_t round;
    uint32_t rank;
    uint64_t number;
    struct wire_frame f;
};
#define WIRE_NUMBERED_HEAD 20
/* Writes the first WIRE_NUMBERED_HEAD bytes; the payload of the frame follows. */
void exec_wire_numbered_put(void *dst, const struct wire_numbered *n);
/* Strict, like exec_wire_parse(): -1 with EPROTO for a frame that cannot be carried. */
int exec_wire_numbered_get(const struct wire_frame *f, struct wire_numbered *n);

/* --- output records --- */

#define WIRE_RECORD 12
struct wire_record {
    uint32_t task;
    uint32_t stream;
    uint32_t len;
    const uint8_t *data;
};
void exec_wire_record_header(void *dst, uint32_t task, uint32_t stream, uint32_t len);
/* Take the next record from the bytes: 1; 0 at the end; -1 with EPROTO. */
int exec_wire_record_next(const void **p, size_t *left, struct wire_record *rec);

/* --- CONFIG --- */

/* The strings of CONFIG: the local broker's URI and libpmi.so for tasks, the programs to run before
 * and after each job and their time limit in seconds, directories of Lua plugins, where job
 * directories and cgroups are made, and whether brokers of one host count as one for MPI.  "": not
 * given. */
enum wire_config {
    WIRE_C_URI,
    WIRE_C_LIBPMI,
    WIRE_C_PROLOG,
    WIRE_C_EPILOG,
    WIRE_C_HOOK_TIMEOUT,
    WIRE_C_LUA_PATH,
    WIRE_C_TMPDIR,
    WIRE_C_CGROUP,
    WIRE_C_HUNG_MAX,
    WIRE_C_SHARE_HOSTS,
    WIRE_CONFIG_STRINGS
};

/* --- RUN --- */

enum {
    WIRE_F_EXEC = 1, /* the tasks are not those of a job: no PMI, no job id in the environment */
    WIRE_F_STDIN_ALL = 2, /* every task reads a copy of standard input */
    WIRE_F_STDIN_NONE = 4,
    WIRE_F_MPI_NONE = 8,  /* no PMI */
    WIRE_F_MPI_PMIX = 16, /* a PMIx server, started before the tasks; spawned tasks: no PMI-1 */
    WIRE_F_CYCLIC = 32,
    WIRE_F_LABEL = 64,        /* "TASK: " before each line in files */
    WIRE_F_KILLBAD = 128,     /* the first task that fails ends the job */
    WIRE_F_OUTPUT_NONE = 256, /* streams without file go to /dev/null */
    WIRE_F_BIND = 512,        /* to all cores of the job here */
    WIRE_F_BIND_TASK = 1024,  /* to the task's share of them */
    WIRE_F_GPU_OFF = 2048,    /* no variables about gpus */
    WIRE_F_GPU_ALL = 4096,    /* each task is shown all gpus, not its share */
    WIRE_F_NESTED = 8192,     /* a session runs in the job */
    WIRE_F_MEMORY = 32768,    /* the memory of the job here is also its limit */
    WIRE_F_CROWDED = 65536,   /* other tasks may have the same cores */
    WIRE_F_JOIN = 16384,      /* standard error without a file goes where standard output goes */
    WIRE_F_MPI_BOTH = 131072, /* PMI-1, and a PMIx server that is started when a task first connects
                               * to it */
};
#define WIRE_FLAGS_ALL 262143u
#define WIRE_LIMITS_MAX 16

struct wire_limit {
    uint32_t resource; /* RLIMIT_* */
    uint32_t carried;  /* 1: it is the soft limit of the submitter, applied up to the hard limit
                       * here */
    uint64_t soft;
};

/* One program of the job.  Its ntasks tasks follow those of the preceding program by rank.  It has
 * argc strings in argv, followed by envc changes of the environment, NAME=value or NAME (unset). */
struct wire_command {
    uint32_t ntasks;
    uint32_t argc;
    uint32_t envc;
};
#define WIRE_COMMAND_DIR 0    /* string of a command: its working directory */
#define WIRE_COMMAND_SEARCH 1 /* ... directories to search for its program */
#define WIRE_COMMAND_ARGV 2   /* ... the first word of its argv */
#define WIRE_COMMANDS_MAX 4096

struct wire_run {
    uint32_t flags;
    uint32_t node;   /* number of this node in the job */
    uint32_t window; /* first credit for output */
    uint32_t argc;
    uint32_t envc;
    uint32_t nfiles;
    uint32_t nruns; /* of the layout */
    uint32_t nlimits;
    uint32_t ncommands;  /* 0: one for all tasks, in argv */
    uint32_t first;      /* number in the job of the first task: above 0 for those spawned */
    uint32_t universe;   /* number of tasks that the job's resources have room for */
    uint64_t parent;     /* of spawned tasks: the job that they belong to; else 0 */
    uint64_t memory;     /* MiB on this node, 0: not given */
    uint64_t expiration; /* when the time of the job is up, microseconds since 1970; 0: never */
    uint64_t nonce; /* of this launch of the job: the same on all its nodes, different for any other
                     * launch */
    uint64_t mask;  /* umask of the tasks + 1, 0: the launcher's */
    uint64_t grace; /* microseconds between SIGTERM and SIGKILL when the job has to end */
    const void *runs;     /* nruns struct layout_run, from any address */
    const void *limits;   /* nlimits struct wire_limit, from any address */
    const void *commands; /* ncommands struct wire_command, from any address */
    /* Strings that follow, each with its NUL: WIRE_NODE_STRINGS about this node, WIRE_STRINGS fixed
     * ones, name and text of each file (for spawned tasks: key and value of each pair in their
     * key-value space), argv (for each command: working directory, directories to search, each ""
     * to use the job's, its argv, its changes), environment. */
    const char *strings;
    size_t strings_len;
    /* From the layout, filled in by exec_wire_run_get(). */
    uint32_t nnodes;
    uint32_t ntasks; /* of the job */
};
enum { WIRE_S_CWD, WIRE_S_IN, WIRE_S_OUT, WIRE_S_ERR, WIRE_STRINGS };
/* The job's name, this node's, its cores and gpus (idsets), the hosts of all nodes of the job (a
 * host list; "": not given). */
enum { WIRE_N_NAME, WIRE_N_NODE, WIRE_N_CORES, WIRE_N_GPUS, WIRE_N_HOSTS, WIRE_NODE_STRINGS };
#define WIRE_RUN_FIXED 92

/* The first WIRE_RUN_FIXED bytes of RUN; runs, limits, commands and strings follow. */
void exec_wire_run_put(void *dst, const struct wire_run *run);
/* Strict; pointers lead into the payload.  -1 with EPROTO and an error message. */
int exec_wire_run_get(const void *data, size_t len, struct wire_run *run, errmsg_t *err);
/* Its layout, to be destroyed by the caller.  NULL with ENOMEM and an error message. */
layout_t *exec_wire_run_layout(const struct wire_run *run, errmsg_t *err);

/* Are these bytes exactly `count` NUL-terminated strings? */
int exec_wire_strings_ok(const char *strings, size_t len, size_t count);

#endif
