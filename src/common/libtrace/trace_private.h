/* Declarations that the parts of a trace's reader share. */
#ifndef TRACE_PRIVATE_H
#define TRACE_PRIVATE_H

#include "trace.h"

struct trace {
    struct trace_job *jobs;
    size_t n, space;
};

/* The source of a line, for error messages. */
struct trace_line {
    const char *name;
    size_t number;
    const char *text; /* without its newline; not NUL-terminated */
    size_t len;
};

/* A number, truncated to an integer.  0, or -1 with EINVAL and an error message. */
int trace_number(const struct trace_line *l, const char *what, const char *s, size_t len,
                 int64_t *out, errmsg_t *err);
/* Append a job.  0, or -1 with ENOMEM and an error message. */
int trace_add(trace_t *t, const struct trace_job *job, errmsg_t *err);

/* One line of SWF that is neither blank nor a comment. */
int trace_swf_line(trace_t *t, const struct trace_line *l, uint32_t ppn, errmsg_t *err);

/* The column of each field of a CSV. */
struct trace_csv {
    char separator;
    int column[5];
};
/* Is this the first line of a CSV? */
bool trace_csv_is_header(const struct trace_line *l);
int trace_csv_header(struct trace_csv *csv, const struct trace_line *l, errmsg_t *err);
int trace_csv_line(trace_t *t, const struct trace_csv *csv, const struct trace_line *l,
                   errmsg_t *err);

#endif
