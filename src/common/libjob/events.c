/* events.c - lines of an event log, to and from struct job_event.
 *
 *    event              context
 *    submit             urgency userid flags
 *    dependency-add     description
 *    dependency-remove  description
 *    depend             -
 *    priority           priority
 *    urgency            urgency userid
 *    alloc              switches hops, or no context
 *    start release free clean   -
 *    finish             status, and when tasks were started: started exited failed?
 *    exception          type severity note? userid?
 *    requeue            count R?
 *    any other          an object, or none
 *
 * Invariants:
 *  1. job_event_read() returns the event that job_event_write() wrote, except that a timestamp is
 *     rounded to microseconds.
 *  2. A line has no newline inside: JSON escapes it.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "libschema/schema.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"
#include "libschema/jsonout.h"

#define NAME_MAX_LEN 64

static const struct flux_field none_fields[] = {FLUX_FIELD_END};
static const struct flux_field submit_fields[] = {
    FLUX_FIELD_INT(struct job_event, urgency, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_event, userid, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_event, flags, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_field dependency_fields[] = {
    FLUX_FIELD_STR(struct job_event, description, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_field priority_fields[] = {
    FLUX_FIELD_I64(struct job_event, priority, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_field urgency_fields[] = {
    FLUX_FIELD_INT(struct job_event, urgency, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_event, userid, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_field finish_fields[] = {
    FLUX_FIELD_INT(struct job_event, status, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct job_event, started, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_event, exited, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_OBJECT(struct job_event, failed, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_field finish_bare_fields[] = {
    FLUX_FIELD_INT(struct job_event, status, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema finish_bare = FLUX_SCHEMA(struct job_event, finish_bare_fields);
static const struct flux_field alloc_fields[] = {
    FLUX_FIELD_STR(struct job_event, switches, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_event, hops, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_field exception_fields[] = {
    FLUX_FIELD_STR(struct job_event, type, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct job_event, severity, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_event, note, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct job_event, userid, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};

static const struct flux_field requeue_fields[] = {
    FLUX_FIELD_U32(struct job_event, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct job_event, R, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};

static const struct {
    const char *name;
    struct flux_schema context;
} events[JOB_EV_TYPES] = {
    [JOB_EV_OTHER] = {NULL, {NULL}},
    [JOB_EV_SUBMIT] = {"submit", {submit_fields}},
    [JOB_EV_DEP_ADD] = {"dependency-add", {dependency_fields}},
    [JOB_EV_DEP_REMOVE] = {"dependency-remove", {dependency_fields}},
    [JOB_EV_DEPEND] = {"depend", {none_fields}},
    [JOB_EV_PRIORITY] = {"priority", {priority_fields}},
    [JOB_EV_URGENCY] = {"urgency", {urgency_fields}},
    [JOB_EV_ALLOC] = {"alloc", {alloc_fields}},
    [JOB_EV_START] = {"start", {none_fields}},
    [JOB_EV_FINISH] = {"finish", {finish_fields}},
    [JOB_EV_RELEASE] = {"release", {none_fields}},
    [JOB_EV_FREE] = {"free", {none_fields}},
    [JOB_EV_CLEAN] = {"clean", {none_fields}},
    [JOB_EV_EXCEPTION] = {"exception", {exception_fields}},
    [JOB_EV_REQUEUE] = {"requeue", {requeue_fields}},
};

const char *job_event_name(enum job_event_type type)
{
    return (unsigned)type < JOB_EV_TYPES ? events[type].name : NULL;
}

static bool is_name(const char *s)
{
    size_t len = strlen(s);

    return len > 0 && len <= NAME_MAX_LEN &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") == len;
}

/* Check the values of an event beyond the types of its fields.  Returns what is wrong, or NULL. */
static const char *unsound(const struct job_event *ev)
{
    if (!isfinite(ev->timestamp) || ev->timestamp < 0)
        return "its timestamp must be a number >= 0";
    switch (ev->event) {
    case JOB_EV_SUBMIT:
    case JOB_EV_URGENCY:
        return ev->urgency < 0 || ev->urgency > 31 ? "its urgency must be 0 to 31" : NULL;
    case JOB_EV_FINISH:
        if (!isfinite(ev->started) || !isfinite(ev->exited) || ev->started < 0)
            return "its times must be numbers >= 0";
        if ((ev->started > 0) != (ev->exited > 0))
            return "it must have both 'started' and 'exited', or neither";
        return ev->exited < ev->started ? "its tasks must not exit before they start" : NULL;
    case JOB_EV_ALLOC:
        return isfinite(ev->hops) && ev->hops >= 0 ? NULL : "its hops must be a number >= 0";
    case JOB_EV_EXCEPTION:
        if (ev->severity < 0 || ev->severity > JOB_SEVERITY_MAX)
            return "its severity must be 0 to 7";
        return !ev->type || !*ev->type ? "its type must not be empty" : NULL;
    default:
        return NULL;
    }
}

/* --- writing --- */

static char *encode_context(const struct job_event *ev)
{
    char *text;

    if (ev->event == JOB_EV_FINISH && !(ev->started > 0))
        return flux_schema_encode(&finish_bare, ev);
    if (ev->event != JOB_EV_OTHER)
        return flux_schema_encode(&events[ev->event].context, ev);
    if (!json_is_object(ev->context)) {
        errno = EINVAL;
        return NULL;
    }
    if (!(text = json_dumps(ev->context, JSON_COMPACT)))
        errno = ENOMEM;
    return text;
}

static bool has_context(const struct job_event *ev)
{
    if (ev->event == JOB_EV_ALLOC)
        return ev->switches != NULL;
    return ev->event == JOB_EV_OTHER ? ev->context != NULL
                                     : events[ev->event].context.fields[0].name != NULL;
}

int job_event_write(struct strbuf *sb, const struct job_event *ev)
{
    const char *name = ev->event == JOB_EV_OTHER ? ev->name : job_event_name(ev->event);
    size_t before = strbuf_len(sb);
    char *context = NULL;
    int rc;

    if (!name || !is_name(name) || unsound(ev) || ev->timestamp > 1e15) {
        errno = EINVAL;
        return -1;
    }
    if (has_context(ev) && !(context = encode_context(ev)))
        return -1;
    jsonout_object(sb, NULL);
    jsonout_time(sb, "timestamp", ev->timestamp);
    jsonout_str(sb, "name", name);
    if (context)
        jsonout_text(sb, "context", context);
    jsonout_object_end(sb);
    rc = strbuf_addc(sb, '\n');
    free(context);
    if (rc < 0)
        strbuf_trunc(sb, before);
    return rc;
}

/* --- reading --- */

struct line {
    double timestamp;
    const char *name;
    json_t *context;
};
static const struct flux_field line_fields[] = {
    FLUX_FIELD_DOUBLE(struct line, timestamp, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct line, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct line, context, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema line_schema = FLUX_SCHEMA(struct line, line_fields);

static enum job_event_type find_event(const char *name)
{
    for (int i = 1; i < JOB_EV_TYPES; i++)
        if (!strcmp(events[i].name, name))
            return (enum job_event_type)i;
    return JOB_EV_OTHER;
}

static int read_context(const struct line *l, struct job_event *ev, errmsg_t *err)
{
    const struct flux_schema *schema = &events[ev->event].context;
    const char *why;
    errmsg_t sub;

    if (ev->event != JOB_EV_OTHER) {
        if (!l->context && schema->fields[0].name && ev->event != JOB_EV_ALLOC)
            return errmsg_fail(err, EPROTO, "event '%s': field 'context' is missing", l->name);
        if (l->context && flux_schema_decode_json(schema, l->context, ev, &sub) < 0)
            return errmsg_fail(err, EPROTO, "event '%s': context: %s", l->name, sub.text);
    } else if (!is_name(l->name)) {
        return errmsg_fail(err, EPROTO,
                           "the name of an event must be 1 to %d of letters, digits, "
                           "'-', '_', '.' and ':'",
                           NAME_MAX_LEN);
    }
    if ((why = unsound(ev)))
        return errmsg_fail(err, EPROTO, "event '%s': %s", l->name, why);
    return 0;
}

json_t *job_event_read(const char *line, size_t len, struct job_event *ev, errmsg_t *err)
{
    struct line l = {0};
    json_t *obj = flux_schema_decode(&line_schema, line, len, &l, err);

    if (!obj)
        return NULL;
    memset(ev, 0, sizeof(*ev));
    ev->timestamp = l.timestamp;
    ev->name = l.name;
    ev->event = find_event(l.name);
    ev->context = l.context;
    if (read_context(&l, ev, err) < 0) {
        json_decref(obj);
        errno = EPROTO;
        return NULL;
    }
    return obj;
}

void job_log_init(struct job_log *log, const char *text, size_t len)
{
    *log = (struct job_log){.text = text, .len = len};
}

int job_log_next(struct job_log *log, struct job_event *ev, errmsg_t *err)
{
    const char *line = log->text + log->pos;
    const char *end;
    errmsg_t why;

    job_log_done(log);
    if (log->pos >= log->len)
        return 0;
    log->line++;
    if (!(end = memchr(line, '\n', log->len - log->pos)))
        return errmsg_fail(err, EPROTO, "line %u: the last line has no newline", log->line);
    if (!(log->owner = job_event_read(line, (size_t)(end - line), ev, &why)))
        return errmsg_fail(err, errno, "line %u: %s", log->line, why.text);
    log->pos += (size_t)(end - line) + 1;
    return 1;
}

void job_log_done(struct job_log *log)
{
    json_decref(log->owner);
    log->owner = NULL;
}
