/* Event logs of jobs: one JSON object a line, Flux RFC 18, with the events of RFC 21.
 *
 *    {"timestamp":1763719200.123456,"name":"submit","context":{"urgency":16,"userid":99,"flags":0}}
 *
 * A known event has exactly the context that the table in events.c gives it, and is decoded into
 * one flat struct.  An unknown event keeps its context as JSON and changes no state.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef JOB_EVENTS_H
#define JOB_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

struct strbuf; /* libutil/strbuf.h */

enum job_event_type {
    JOB_EV_OTHER = 0,  /* any other name; `context` is the object of the line */
    JOB_EV_SUBMIT,     /* urgency, userid, flags */
    JOB_EV_DEP_ADD,    /* "dependency-add": description ("afterok:12", "begin-time:1763719200") */
    JOB_EV_DEP_REMOVE, /* "dependency-remove": description */
    JOB_EV_DEPEND,     /* (none) */
    JOB_EV_PRIORITY,   /* priority */
    JOB_EV_URGENCY,    /* urgency, userid */
    JOB_EV_ALLOC,      /* switches, hops: if the cluster has leaf switches */
    JOB_EV_START,      /* (none) */
    JOB_EV_FINISH,     /* status, as of wait(2); started, exited: if tasks were started; failed */
    JOB_EV_RELEASE,    /* (none) */
    JOB_EV_FREE,       /* (none) */
    JOB_EV_CLEAN,      /* (none) */
    JOB_EV_EXCEPTION,  /* type, severity, note, userid */
    JOB_EV_REQUEUE,    /* count, R */
    JOB_EV_TYPES
};

#define JOB_SEVERITY_FATAL 0
#define JOB_SEVERITY_MAX 7

struct job_event {
    double timestamp; /* seconds since 1970; written with microseconds */
    enum job_event_type event;
    const char *name; /* JOB_EV_OTHER when writing; always set when reading */
    int64_t priority;
    uint32_t userid;
    uint32_t flags;
    int urgency;
    int severity;
    uint32_t count; /* number of requeues, including this one */
    json_t *R;      /* the resources that the attempt had (RFC 20); NULL: not on record */
    int status;
    double started;   /* when the last task was started, seconds since 1970; 0: no task, or not
                     * given */
    double exited;    /* when the last task was reaped; not before `started`; 0 if that is 0 */
    const char *type; /* "cancel", "timeout", "exec", "alloc", "dependency", "lost"... */
    const char *note;
    const char *description;
    const char *switches; /* leaf switches of its nodes, a hostlist; NULL: not known */
    double hops;          /* mean hops between two of its nodes, with `switches` */
    /* tasks that failed by themselves, see job_failed_count() in job_wire.h; NULL: none */
    json_t *failed;
    /* After reading: the whole context, or NULL.  To write JOB_EV_OTHER: an object, or NULL. */
    json_t *context;
};

/* "submit" for JOB_EV_SUBMIT ...; NULL for JOB_EV_OTHER and for values outside the enum. */
const char *job_event_name(enum job_event_type type);

/* Append one line (with its newline) to `sb`.  -1 with EINVAL (a text that is missing or not UTF-8,
 * a severity above JOB_SEVERITY_MAX, a timestamp that is not a number >= 0, impossible times of
 * tasks) or the errno of strbuf; then nothing was appended. */
int job_event_write(struct strbuf *sb, const struct job_event *ev);

/* Read one line (without its newline), strictly.  The texts of `ev` belong to the returned object,
 * which the caller has to json_decref().  NULL with EPROTO or ENOMEM and an error message. */
json_t *job_event_read(const char *line, size_t len, struct job_event *ev, errmsg_t *err);

/* Read a log line by line; set *pos to 0 first.  1 with the next event; 0 at the end; -1 with
 * EPROTO or ENOMEM and an error message with the number of the line ("line 3: ..."), also when the
 * last line has no newline.  Each call frees the preceding event; job_log_done() frees the last
 * one. */
struct job_log {
    const char *text;
    size_t len;
    size_t pos;
    unsigned line;
    json_t *owner;
};
void job_log_init(struct job_log *log, const char *text, size_t len);
int job_log_next(struct job_log *log, struct job_event *ev, errmsg_t *err);
void job_log_done(struct job_log *log);

#endif
