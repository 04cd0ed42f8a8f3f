/* Jobspec, for clients: what a job is, as asked for.  Flux RFC 14 and RFC 25, version 1, with a
 * few additions that flux-jobspec(5) names: pools beside nodes, memory below slots, dependencies of
 * four kinds, options of the launcher.
 *
 * A client fills in struct jobspec_parts and gets JSON that the service accepts (and reads
 * with jobspec.h).
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef JOB_JOBSPEC_BUILD_H
#define JOB_JOBSPEC_BUILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define JOBSPEC_MAX (1u << 24)       /* bytes of text */
#define JOBSPEC_TASKS_MAX (1u << 20) /* tasks of a job */
#define JOBSPEC_NAME_MAX 255         /* bytes of a name: of a job, pool, property, file */
#define JOBSPEC_DEPS_MAX 1000        /* dependencies of a job */
#define JOBSPEC_NO_LIMIT UINT64_MAX  /* rlimit: "unlimited"; output_limit: not given */

/* --- options of the launcher: attributes.system.shell.options --- */

enum job_stdin { JOB_STDIN_FIRST = 0, JOB_STDIN_ALL, JOB_STDIN_NONE };
enum job_layout { JOB_LAYOUT_BLOCK = 0, JOB_LAYOUT_CYCLIC };
/* ON: every task has all cores (gpus) that the job has on the node; PER_TASK: each its share. */
enum job_affinity { JOB_AFFINITY_ON = 0, JOB_AFFINITY_OFF, JOB_AFFINITY_PER_TASK };
enum job_mpi { JOB_MPI_BOTH = 0, JOB_MPI_PMI, JOB_MPI_PMIX, JOB_MPI_NONE };

struct job_rlimit {
    int resource;     /* RLIMIT_* */
    const char *name; /* as in the jobspec: "nofile" */
    uint64_t value;   /* soft limit, and hard limit when that is lower; JOBSPEC_NO_LIMIT */
};

/* All zero is the default of everything but `grace` (< 0: of the session) and `output_limit`
 * (JOBSPEC_NO_LIMIT: of the session) and `umask`: see joboptions_init(). */
struct joboptions {
    const char *output; /* template of a file name; NULL: the KVS (or the client) */
    const char *error;  /* NULL: as output */
    const char *input;  /* NULL: what a client sends, if one does */
    bool label;         /* lines begin with "TASK: " */
    bool kill_on_bad_exit;
    bool survive_node_loss; /* the loss of a node ends only the tasks on it */
    bool requeue;           /* a job that is ended by the loss of a node runs again */
    bool nested;            /* the job is a session of its own */
    enum job_stdin stdin_mode;
    enum job_layout layout;
    enum job_affinity cpu_affinity;
    enum job_affinity gpu_affinity;
    enum job_mpi mpi;
    double grace;          /* seconds between SIGTERM and SIGKILL */
    uint64_t output_limit; /* bytes kept in the KVS */
    const struct job_rlimit *rlimits;
    size_t nrlimits;
    /* Soft limits of the submitter, which a node applies as far as its hard ones go. */
    const struct job_rlimit *softlimits;
    size_t nsoftlimits;
    int umask; /* of tasks; -1: the broker's */
};
void joboptions_init(struct joboptions *o);

/* Texts of the enums above, as in a jobspec; NULL for a number that is none. */
const char *job_stdin_name(enum job_stdin v);
const char *job_layout_name(enum job_layout v);
const char *job_affinity_name(enum job_affinity v);
const char *job_mpi_name(enum job_mpi v);
/* Number of a text; -1 with EINVAL. */
int job_stdin_parse(const char *s);
int job_layout_parse(const char *s);
int job_affinity_parse(const char *s);
int job_mpi_parse(const char *s);
/* RLIMIT_* of "nofile", "core", "stack"...; -1 with EINVAL. */
int job_rlimit_parse(const char *name);
/* The time limit of a job as text ("30", which is minutes, "90s", "1:30:00"), in seconds; 0 for
 * "inf": without limit.  The grace period ("30" is seconds).  -1 with EINVAL or ERANGE and a
 * sentence. */
int job_limit_parse(const char *s, double *seconds, errmsg_t *err);
int job_grace_parse(const char *s, double *seconds, errmsg_t *err);

/* --- dependencies: attributes.system.dependencies --- */

enum job_dep_scheme {
    JOB_DEP_AFTER = 0,  /* that job has started (or ended without) */
    JOB_DEP_AFTERANY,   /* it has ended */
    JOB_DEP_AFTEROK,    /* it has ended with success */
    JOB_DEP_AFTERNOTOK, /* it has ended without */
};
struct jobspec_dep {
    enum job_dep_scheme scheme;
    uint64_t id;
};
const char *job_dep_name(enum job_dep_scheme v);
int job_dep_parse(const char *s); /* -1 with EINVAL */

/* --- texts that may be any bytes: arguments, paths, values of variables --- */

/* How such a text is written: a JSON string when it is UTF-8, else {"bytes":...}, in which each
 * character up to U+00FF is a byte.  To be json_decref'd; NULL with ENOMEM. */
json_t *jobspec_text(const char *s);
/* Read again: malloc'd.  NULL with EINVAL for a value that is neither, or ENOMEM. */
char *jobspec_text_get(const json_t *val);

/* --- making one --- */

/* Of a job of several programs: one of them.  Tasks are numbered in the order of the programs. */
struct jobspec_program {
    const char *const *argv; /* NULL after the last */
    uint32_t ntasks;         /* in all */
    const json_t *env;       /* changes for its tasks: NAME to text, or null to unset; or NULL */
};
#define JOBSPEC_PROGRAMS_MAX 256

struct jobspec_pool {
    const char *name;
    uint64_t count;
};

/* Set up with jobspec_parts_init(); everything is borrowed until jobspec_build() returns. */
struct jobspec_parts {
    const char *const *argv; /* NULL after the last; unused with programs */
    const struct jobspec_program *programs;
    size_t nprograms;   /* several programs; their tasks are all there are */
    uint32_t nnodes;    /* 0: slots anywhere */
    uint32_t nslots;    /* on each node, else in all; 0: 1 */
    uint32_t min_slots; /* 0: nslots; else as few will do (requires ntasks or programs) */
    uint32_t cores;     /* per slot; 0: 1 */
    uint32_t gpus;      /* per slot */
    uint64_t memory;    /* MiB per slot */
    bool exclusive;     /* whole nodes (with nnodes) */
    const struct jobspec_pool *pools;
    size_t npools;
    uint32_t ntasks;   /* in all; 0: per_slot says */
    uint32_t per_slot; /* 0: 1 */
    double duration;   /* seconds; 0: no limit */
    double begin;
    const char *cwd;
    const char *name;
    const char *ranks;             /* idset */
    const char *hosts;             /* host list */
    const char *const *properties; /* NULL after the last; or NULL */
    const struct jobspec_dep *deps;
    size_t ndeps;
    const json_t *env;   /* object; or NULL */
    const json_t *files; /* object; or NULL */
    struct joboptions options;
};
void jobspec_parts_init(struct jobspec_parts *p);

/* A new JSON object, to be json_decref'd.  NULL with EINVAL (no command, a name that is not
 * UTF-8...) or ENOMEM, and an error message. */
json_t *jobspec_build(const struct jobspec_parts *p, errmsg_t *err);
/* Put a value (taken over, also on failure) at a path below "attributes", making objects on it:
 * "user.project", "system.shell.options.mpi".  -1 with EINVAL or ENOMEM and an error message. */
int jobspec_set(json_t *spec, const char *path, json_t *value, errmsg_t *err);
/* Compact text, malloc'd; `len` may be NULL.  NULL with ENOMEM. */
char *jobspec_encode(const json_t *spec, size_t *len);

#endif
