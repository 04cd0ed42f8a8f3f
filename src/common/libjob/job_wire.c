/* job_wire.c - fields of the messages of the service "job": see job_wire.h.
 *
 * A service encodes a page as an array of structs; a client decodes the page, then each element by
 * its own table, so that only the elements that it uses are decoded.
 */
#include "config.h"
#include <errno.h>

#include "job_wire.h"

static const struct flux_field submitted_fields[] = {
    FLUX_FIELD_U64(struct job_submitted, first, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_submitted, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct job_submitted, errors, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_submitted_schema = FLUX_SCHEMA(struct job_submitted, submitted_fields);

static const struct flux_field ids_fields[] = {
    FLUX_FIELD_STR(struct job_ids, ids, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_ids_schema = FLUX_SCHEMA(struct job_ids, ids_fields);

static const struct flux_field list_fields[] = {
    FLUX_FIELD_STR(struct job_list, ids, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_list, name, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct job_list, states, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_I64(struct job_list, user, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct job_list, max, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_list, since, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct job_list, estimates, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_list_schema = FLUX_SCHEMA(struct job_list, list_fields);

static const struct flux_field page_fields[] = {
    FLUX_FIELD_ARRAY(struct job_page, jobs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema job_page_schema = FLUX_SCHEMA(struct job_page, page_fields);

static const struct flux_field info_fields[] = {
    FLUX_FIELD_U64(struct job_info, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_info, uid, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct job_info, urgency, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_I64(struct job_info, priority, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_info, name, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct job_info, nnodes, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct job_info, ntasks, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct job_info, ncores, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, duration, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, t_submit, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, t_depend, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, t_run, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, t_cleanup, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, t_inactive, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, t_estimate, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, expiration, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, ranks, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, nodelist, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, switches, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_info, hops, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, result, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_INT(struct job_info, code, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, exception, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, note, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_I64(struct job_info, canceled_by, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_OBJECT(struct job_info, failed, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, warning, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, why, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, uri, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_info, dependency, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_info_schema = FLUX_SCHEMA(struct job_info, info_fields);

static const struct flux_field cancel_fields[] = {
    FLUX_FIELD_STR(struct job_cancel, ids, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_cancel, note, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct job_cancel, number, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_cancel_schema = FLUX_SCHEMA(struct job_cancel, cancel_fields);

static const struct flux_field raise_fields[] = {
    FLUX_FIELD_STR(struct job_raise, ids, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_raise, type, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct job_raise, severity, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_raise, note, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct job_raise, number, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_raise_schema = FLUX_SCHEMA(struct job_raise, raise_fields);

static const struct flux_field kill_fields[] = {
    FLUX_FIELD_STR(struct job_kill, ids, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct job_kill, signum, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct job_kill, number, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_kill_schema = FLUX_SCHEMA(struct job_kill, kill_fields);

static const struct flux_field urgency_fields[] = {
    FLUX_FIELD_STR(struct job_urgency, ids, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_urgency, urgency, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct job_urgency, number, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_urgency_schema = FLUX_SCHEMA(struct job_urgency, urgency_fields);

static const struct flux_field claim_fields[] = {
    FLUX_FIELD_U64(struct job_claim, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema job_claim_schema = FLUX_SCHEMA(struct job_claim, claim_fields);

static const struct flux_field acted_fields[] = {
    FLUX_FIELD_U32(struct job_acted, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct job_acted, errors, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_acted_schema = FLUX_SCHEMA(struct job_acted, acted_fields);

static const struct flux_field ended_page_fields[] = {
    FLUX_FIELD_ARRAY(struct job_ended_page, ended, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema job_ended_page_schema =
    FLUX_SCHEMA(struct job_ended_page, ended_page_fields);

static const struct flux_field ended_fields[] = {
    FLUX_FIELD_U64(struct job_ended, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_ended, result, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_INT(struct job_ended, code, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_ended, text, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct job_ended, warning, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_INT(struct job_ended, error, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_I64(struct job_ended, canceled_by, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_OBJECT(struct job_ended, failed, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_ended_schema = FLUX_SCHEMA(struct job_ended, ended_fields);

static const struct flux_field watch_page_fields[] = {
    FLUX_FIELD_ARRAY(struct job_watch_page, transitions, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema job_watch_page_schema =
    FLUX_SCHEMA(struct job_watch_page, watch_page_fields);

static const struct flux_field queue_fields[] = {
    FLUX_FIELD_STR(struct job_queue, op, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_queue, reason, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_queue_schema = FLUX_SCHEMA(struct job_queue, queue_fields);

static const struct flux_field queue_status_fields[] = {
    FLUX_FIELD_BOOL(struct job_queue_status, accepting, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct job_queue_status, scheduling, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_queue_status, depend, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_queue_status, priority, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_queue_status, sched, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_queue_status, held, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_queue_status, run, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct job_queue_status, cleanup, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct job_queue_status, inactive, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_queue_status, reason, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_queue_status_schema =
    FLUX_SCHEMA(struct job_queue_status, queue_status_fields);

static const struct flux_field leave_fields[] = {
    FLUX_FIELD_STR(struct job_leave, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_leave, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct job_leave, grace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema job_leave_schema = FLUX_SCHEMA(struct job_leave, leave_fields);

static const struct flux_field purge_fields[] = {
    FLUX_FIELD_STR(struct job_purge, ids, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct job_purge, age, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_I64(struct job_purge, keep, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct job_purge, force, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema job_purge_schema = FLUX_SCHEMA(struct job_purge, purge_fields);

static const struct flux_field purged_fields[] = {
    FLUX_FIELD_U32(struct job_purged, purged, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema job_purged_schema = FLUX_SCHEMA(struct job_purged, purged_fields);

static const struct flux_field memo_fields[] = {
    FLUX_FIELD_U64(struct job_memo, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct job_memo, uri, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema job_memo_schema = FLUX_SCHEMA(struct job_memo, memo_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_BOOL(struct job_stats, ready, 0),    FLUX_FIELD_BOOL(struct job_stats, durable, 0),
    FLUX_FIELD_BOOL(struct job_stats, sched, 0),    FLUX_FIELD_BOOL(struct job_stats, wrexec, 0),
    FLUX_FIELD_U64(struct job_stats, submitted, 0), FLUX_FIELD_U64(struct job_stats, refused, 0),
    FLUX_FIELD_U64(struct job_stats, purged, 0),    FLUX_FIELD_U64(struct job_stats, active, 0),
    FLUX_FIELD_U64(struct job_stats, inactive, 0),  FLUX_FIELD_U64(struct job_stats, specs, 0),
    FLUX_FIELD_U64(struct job_stats, parsed, 0),    FLUX_FIELD_U64(struct job_stats, envs, 0),
    FLUX_FIELD_U64(struct job_stats, commits, 0),   FLUX_FIELD_U64(struct job_stats, failed, 0),
    FLUX_FIELD_U64(struct job_stats, launches, 0),  FLUX_FIELD_U64(struct job_stats, ended, 0),
    FLUX_FIELD_U64(struct job_stats, allocs, 0),    FLUX_FIELD_U64(struct job_stats, returned, 0),
    FLUX_FIELD_U64(struct job_stats, denied, 0),    FLUX_FIELD_U64(struct job_stats, feeds, 0),
    FLUX_FIELD_U64(struct job_stats, held, 0),      FLUX_FIELD_U64(struct job_stats, timers, 0),
    FLUX_FIELD_U32(struct job_stats, senders, 0),   FLUX_FIELD_U32(struct job_stats, watchers, 0),
    FLUX_FIELD_U32(struct job_stats, feeding, 0),   FLUX_FIELD_END,
};
const struct flux_schema job_stats_schema = FLUX_SCHEMA(struct job_stats, stats_fields);

int job_error_at(const json_t *errors, size_t i, uint64_t *number, int *errnum, const char **text)
{
    const json_t *e, *n, *code, *why;

    if (i >= json_array_size(errors)) {
        errno = ENOENT;
        return -1;
    }
    e = json_array_get(errors, i);
    n = json_array_get(e, 0);
    code = json_array_get(e, 1);
    why = json_array_get(e, 2);
    if (json_array_size(e) != 3 || !json_is_integer(n) || json_integer_value(n) < 0 ||
        !json_is_integer(code) || json_integer_value(code) <= 0 ||
        json_integer_value(code) > 4095 || !json_is_string(why)) {
        errno = EPROTO;
        return -1;
    }
    *number = (uint64_t)json_integer_value(n);
    *errnum = (int)json_integer_value(code);
    *text = json_string_value(why);
    return 0;
}

int job_error_add(json_t **errors, uint64_t number, int errnum, const char *text)
{
    json_t *e = json_array();

    if (!*errors)
        *errors = json_array();
    if (json_array_append_new(e, json_integer((json_int_t)number)) < 0 ||
        json_array_append_new(e, json_integer(errnum)) < 0 ||
        json_array_append_new(e, json_string(text)) < 0) {
        json_decref(e);
        goto nomem;
    }
    if (json_array_append_new(*errors, e) == 0)
        return 0;
nomem:
    errno = ENOMEM;
    return -1;
}

size_t job_failed_count(const json_t *failed)
{
    json_int_t n = json_integer_value(json_object_get(failed, "count"));

    return n > 0 ? (size_t)n : 0;
}

int job_failed_at(const json_t *failed, size_t i, struct job_failed *f)
{
    const json_t *e = json_array_get(json_object_get(failed, "first"), i);
    const json_t *v[4];

    if (!e || i >= JOB_FAILED_MAX) {
        errno = ENOENT;
        return -1;
    }
    for (size_t k = 0; k < 4; k++)
        v[k] = json_array_get(e, k);
    for (size_t k = 0; k < 4; k++) {
        json_int_t n = json_integer_value(v[k]);

        if (k == 2 ? !json_is_string(v[k])
                   : !json_is_integer(v[k]) || n < 0 || n > (k == 3 ? INT32_MAX : UINT32_MAX)) {
            errno = EPROTO;
            return -1;
        }
    }
    f->task = (uint32_t)json_integer_value(v[0]);
    f->rank = (uint32_t)json_integer_value(v[1]);
    f->host = json_string_value(v[2]);
    f->status = (int)json_integer_value(v[3]);
    return 0;
}

const struct flux_method job_methods[] = {
    {.topic = "job.submit",
     .takes = "raw: see src/common/libjob/submit.h",
     .response = &job_submitted_schema,
     .what = "submit jobs; errors: [place in the request, errno, sentence] for each refused one"},
    {.topic = "job.list",
     .flags = FLUX_METHOD_STREAM,
     .request = &job_list_schema,
     .response = &job_page_schema,
     .what = "jobs, page by page; ends with ENODATA"},
    {.topic = "job.cancel",
     .request = &job_cancel_schema,
     .response = &job_acted_schema,
     .what = "cancel jobs; with a match tag and no response, the end of a stream"},
    {.topic = "job.raise",
     .request = &job_raise_schema,
     .response = &job_acted_schema,
     .what = "raise an exception of jobs"},
    {.topic = "job.kill",
     .request = &job_kill_schema,
     .response = &job_acted_schema,
     .what = "send a signal to all tasks of jobs"},
    {.topic = "job.claim",
     .request = &job_claim_schema,
     .gives = "empty object",
     .what = "the client of a job is back, after the loss of its broker"},
    {.topic = "job.urgency",
     .request = &job_urgency_schema,
     .response = &job_acted_schema,
     .what = "change the urgency of jobs"},
    {.topic = "job.wait",
     .flags = FLUX_METHOD_STREAM,
     .request = &job_ids_schema,
     .response = &job_ended_page_schema,
     .what = "how jobs ended, when they have; ends with ENODATA after the last"},
    {.topic = "job.watch",
     .flags = FLUX_METHOD_STREAM,
     .request = &job_ids_schema,
     .response = &job_watch_page_schema,
     .what = "events of jobs"},
    {.topic = "job.queue",
     .request = &job_queue_schema,
     .response = &job_queue_status_schema,
     .what = "state of the queue, after it was changed"},
    {.topic = "job.leave",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &job_leave_schema,
     .gives = "empty object",
     .what = "brokers that leave: answered when no job has resources of these nodes"},
    {.topic = "job.purge",
     .request = &job_purge_schema,
     .response = &job_purged_schema,
     .what = "remove jobs that have ended"},
    {.topic = "job.memo",
     .request = &job_memo_schema,
     .gives = "empty object",
     .what = "set or remove notes of a job"},
    {.topic = "job.journal",
     .gives = "empty object",
     .what = "answered when the record has what became of jobs until now"},
    {.topic = "job.stats", .response = &job_stats_schema, .what = "counters of the service"},
    FLUX_METHOD_END,
};
