/* Declarations that the parts of the reader of jobspecs share.  For jobspec*.c only. */
#ifndef JOB_JOBSPEC_PRIVATE_H
#define JOB_JOBSPEC_PRIVATE_H

#include "jobspec.h"
#include "libresource/rreq.h"

struct jobspec {
    json_t *root;    /* owner of every text and object below */
    json_t *bytes;   /* array: owner of texts that are not UTF-8; may be NULL */
    char *name_copy; /* the name of the job, when it is derived from such a text */
    struct rreq rreq;
    struct jobspec_program
        *programs; /* nprograms of them; while tasks are read, the last one is being filled */
    size_t nprograms;
    size_t argc;       /* number of arguments of the first program */
    const char *label; /* of the slot */
    uint32_t nslots;
    uint32_t min_slots; /* minimum of a range, on each node or in total; 0: not a range */
    uint32_t ntasks;
    uint32_t per_slot;
    double duration;
    double begin;
    const char *cwd;
    const char *name;
    char *hosts;
    const json_t *env;
    const json_t *files;
    struct jobspec_dep *deps;
    size_t ndeps;
    struct joboptions options;
    struct job_rlimit *rlimits, *softlimits;
};

/* The position in the jobspec: a chain of frames on the C stack, so that a path costs nothing until
 * an error message needs it. */
struct path {
    const struct path *up; /* NULL: of the outermost object */
    const char *key;       /* NULL: an index */
    size_t index;
};

/* "PATH: SENTENCE" with EINVAL; returns -1. */
int jspec_path_fail(errmsg_t *err, const struct path *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* One member of an object, and the function that reads its value. */
typedef int (*take_f)(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err);
struct member {
    const char *name;
    take_f take;
    bool required;
};
/* Read an object by a table that ends with a NULL name; at most 32 members. */
int jspec_take_object(jobspec_t *js, const struct path *at, const json_t *obj,
                      const struct member *table, errmsg_t *err);

/* Read a value of one kind.  The functions report a refused value with an error message. */
int jspec_get_integer(const struct path *at, const json_t *val, uint64_t min, uint64_t max,
                      uint64_t *out, errmsg_t *err);
int jspec_get_seconds(const struct path *at, const json_t *val, double *out, errmsg_t *err);
int jspec_get_text(const struct path *at, const json_t *val, const char **out, errmsg_t *err);
/* The same for a text of any bytes (jobspec_text.c). */
int jspec_get_path(jobspec_t *js, const struct path *at, const json_t *val, const char **out,
                   errmsg_t *err);
int jspec_get_bool(const struct path *at, const json_t *val, bool *out, errmsg_t *err);

/* Convert a text of either form (see jobspec_text.h) to a JSON string that holds the raw bytes;
 * borrowed, valid as long as the jobspec.  NULL after an error message. */
json_t *jspec_take_bytes(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err);

/* attributes, and attributes.system.shell.options (jobspec_attr.c, jobspec_shell.c). */
/* NAME to text or null. */
int jspec_get_environment(jobspec_t *js, const struct path *at, const json_t *val,
                          const json_t **out, errmsg_t *err);
int jspec_take_attributes(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err);
int jspec_take_shell(jobspec_t *js, const struct path *at, const json_t *val, errmsg_t *err);

/* The path of the object around byte `pos` of a JSON text with a syntax error, in `buf`, which is
 * returned (jobspec_where.c).  "" at the outermost level. */
const char *jspec_json_where(const char *text, size_t len, size_t pos, char *buf, size_t size);

#endif
