/* Jobspec, for clients: the description of a job that its user requests.  The format is that of
 * Flux RFC 14 and RFC 25, version 1, with a few additions that flux-jobspec(5) describes: pools
 * beside nodes, memory below slots, dependencies of four kinds, options of the launcher.
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
/* ON: every task has all cores (gpus) of the job on its node; PER_TASK: each task has its share of
 * them. */
enum job_affinity { JOB_AFFINITY_ON = 0, JOB_AFFINITY_OFF, JOB_AFFINITY_PER_TASK };
enum job_mpi { JOB_MPI_BOTH = 0, JOB_MPI_PMI, JOB_MPI_PMIX, JOB_MPI_NONE };

struct job_rlimit {
    int resource;     /* RLIMIT_* */
    const char *name; /* as in the jobspec: "nofile" */
    uint64_t value; /* soft limit, and hard limit when the present one is lower; JOBSPEC_NO_LIMIT */
};

/* Zeros are the defaults of all members except `grace` (< 0: the session's), `output_limit`
 * (JOBSPEC_NO_LIMIT: the session's) and `umask`: see joboptions_init(). */
struct joboptions {
    const char *output; /* template of a file name; NULL: the KVS (or the client) */
    const char *error;  /* NULL: as output */
    const char *input;  /* NULL: standard input comes from the client */
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
    /* Soft limits of the submitter, which a node applies as far as its hard limits permit. */
    const struct job_rlimit *softlimits;
    size_t nsoftlimits;
    int umask; /* umask of the tasks; -1: the broker's */
};
void joboptions_init(struct joboptions *o);

/* Texts of the enums above, as in a jobspec; NULL for a value outside the enum. */
const char *job_stdin_name(enum job_stdin v);
const char *job_layout_name(enum job_layout v);
const char *job_affinity_name(enum job_affinity v);
const char *job_mpi_name(enum job_mpi v);
/* The value of a text; -1 with EINVAL. */
int job_stdin_parse(const char *s);
int job_layout_parse(const char *s);
int job_affinity_parse(const char *s);
int job_mpi_parse(const char *s);
/* RLIMIT_* of "nofile", "core", "stack"...; -1 with EINVAL. */
int job_rlimit_parse(const char *name);
/* Parse the time limit of a job ("30", which is minutes, "90s", "1:30:00"), in seconds; 0 for
 * "inf": no limit.  job_grace_parse() parses a grace period ("30" is seconds).  -1 with EINVAL or
 * ERANGE and an error message. */
int job_limit_parse(const char *s, double *seconds, errmsg_t *err);
int job_grace_parse(const char *s, double *seconds, errmsg_t *err);

/* --- dependencies: attributes.system.dependencies --- */

enum job_dep_scheme {
    JOB_DEP_AFTER = 0,  /* that job has started (or ended without starting) */
    JOB_DEP_AFTERANY,   /* it has ended */
    JOB_DEP_AFTEROK,    /* it has ended successfully */
    JOB_DEP_AFTERNOTOK, /* it has ended unsuccessfully */
};
struct jobspec_dep {
    enum job_dep_scheme scheme;
    uint64_t id;
};
const char *job_dep_name(enum job_dep_scheme v);
int job_dep_parse(const char *s); /* -1 with EINVAL */

/* --- texts that may be any bytes: arguments, paths, values of variables --- */

/* Encode such a text: a JSON string if it is UTF-8, else {"bytes":...}, in which each character up
 * to U+00FF is a byte.  The caller has to json_decref() it.  NULL with ENOMEM. */
json_t *jobspec_text(const char *s);
/* Decode it: malloc'd.  NULL with EINVAL for a value of neither form, or ENOMEM. */
char *jobspec_text_get(const json_t *val);

/* --- building a jobspec --- */

/* One program of a job of several programs.  Tasks are numbered in the order of the programs. */
struct jobspec_program {
    const char *const *argv; /* NULL after the last */
    uint32_t ntasks;         /* total number of tasks */
    const json_t *env;       /* changes for its tasks: NAME to text, or null to unset; or NULL */
};
#define JOBSPEC_PROGRAMS_MAX 256

struct jobspec_pool {
    const char *name;
    uint64_t count;
};

/* Initialize with jobspec_parts_init(); all pointers are borrowed until jobspec_build() returns. */
struct jobspec_parts {
    const char *const *argv; /* NULL after the last; unused with programs */
    const struct jobspec_program *programs;
    size_t nprograms;   /* of several programs; they have all tasks of the job */
    uint32_t nnodes;    /* 0: slots anywhere */
    uint32_t nslots;    /* on each node, or without nodes in total; 0: 1 */
    uint32_t min_slots; /* 0: nslots; else the minimum of a range of slots (requires ntasks or
                         * programs) */
    uint32_t cores;     /* per slot; 0: 1 */
    uint32_t gpus;      /* per slot */
    uint64_t memory;    /* MiB per slot */
    bool exclusive;     /* whole nodes (with nnodes) */
    const struct jobspec_pool *pools;
    size_t npools;
    uint32_t ntasks;   /* total; 0: per_slot tasks in each slot */
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

/* Build a jobspec: a new JSON object, which the caller has to json_decref().  NULL with an error
 * message and EINVAL (no command, a name that is not UTF-8...) or ENOMEM. */
json_t *jobspec_build(const struct jobspec_parts *p, errmsg_t *err);
/* Put a value at a path below "attributes", creating objects along the path: "user.project",
 * "system.shell.options.mpi".  Takes over the value, also on failure.  -1 with EINVAL or ENOMEM and
 * an error message. */
int jobspec_set(json_t *spec, const char *path, json_t *value, errmsg_t *err);
/* Compact text, malloc'd; `len` may be NULL.  NULL with ENOMEM. */
char *jobspec_encode(const json_t *spec, size_t *len);

#endif
