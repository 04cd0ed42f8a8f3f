/* Logs of jobs: the input of a replay (flux-sim(1)).
 *
 * A trace is an array of jobs of whole nodes.  It is read from
 *    SWF   the Standard Workload Format: 18 numbers a line, ';' comments
 *          [S. Chapin et al., "Benchmarks and standards for the evaluation of parallel job
 *          schedulers", JSSPP 1999]
 *    CSV   a first line of names (JobID, NNodes, Timelimit, Submit, Elapsed; others are ignored),
 *          fields separated by ',' or '|', as `sacct -X -P` prints them
 * which the first line tells apart, plain or compressed by gzip.
 *
 * Thread rules: a trace belongs to one thread at a time.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libutil/errmsg.h"

/* Largest number of a field, times and lengths of time included. */
#define TRACE_VALUE_MAX INT64_C(1000000000000)
#define TRACE_PPN_MAX 1000000U

struct trace_job {
    int64_t id;
    int64_t submit;   /* seconds */
    int64_t runtime;  /* seconds; as read it may be 0 or less */
    int64_t estimate; /* seconds; the runtime where the log has none */
    int64_t nodes;    /* as read it may be 0 or less */
    size_t line;      /* of the log; 0: the job is not from one */
};

typedef struct trace trace_t;

/* Read a file ("-": standard input).  `ppn`: processors of a node; a CSV counts nodes already.
 * NULL with an errno of open(2) or read(2), EINVAL (a line that cannot be understood, a broken .gz)
 * or ENOMEM, and an error message that names the file and the line. */
trace_t *trace_read(const char *path, uint32_t ppn, errmsg_t *err);
void trace_destroy(trace_t *t); /* NULL-safe, keeps errno */

/* The jobs, owned by `t`, and their number. */
const struct trace_job *trace_jobs(const trace_t *t);
size_t trace_count(const trace_t *t);

/* Numbers of jobs that trace_keep() left out, by the first reason that applies. */
struct trace_dropped {
    size_t runtime;    /* runtime <= 0 */
    size_t processors; /* no processors */
    size_t larger;     /* larger than the machine */
};

/* Keep the jobs that a machine of `nodes` nodes can run, sorted by (submit, id); of these only the
 * first `first` (0: all).  The runtime of a job that ran longer than its estimate is cut to the
 * estimate, or with `extend` its estimate is raised. */
void trace_keep(trace_t *t, uint32_t nodes, bool extend, size_t first,
                struct trace_dropped *dropped);

struct trace_derive {
    int64_t from_day, days; /* counted from the first job that was kept */
    int64_t max_nodes;      /* a job has at most this many, before `mult` */
    int64_t machine;        /* nodes of the machine to which `load` refers */
    double load;            /* offered load: above 0 */
    int64_t mult;           /* nodes are multiplied by it in the end */
};
/* Turn a trace into a workload for another machine, in place.  0, or -1 with an error message and
 * EINVAL (no job is left, a number out of range) or ENOMEM; the trace can then only be
 * destroyed. */
int trace_derive(trace_t *t, const struct trace_derive *d, errmsg_t *err);

/* A copy whose jobs have `mult` (at least 1) times as many nodes.  NULL with ENOMEM. */
trace_t *trace_multiply(const trace_t *t, int64_t mult);

/* Write a trace as SWF.  0, or -1 with an error of write(2). */
int trace_write_swf(const trace_t *t, FILE *f);

#endif
