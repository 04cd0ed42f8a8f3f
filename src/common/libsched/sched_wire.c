/* sched_wire.c - the schemas of the scheduler's messages; see sched_wire.h.
 *
 * This file has no state.  A message that cannot be decoded gives EPROTO and an error message.
 */
#include "config.h"
#include <errno.h>

#include "sched_wire.h"

static const struct flux_field attach_fields[] = {
    FLUX_FIELD_U32(struct sched_attach, estimates, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema sched_attach_schema = FLUX_SCHEMA(struct sched_attach, attach_fields);

static const struct flux_field answer_fields[] = {
    FLUX_FIELD_U64(struct sched_answer, attached, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct sched_answer, alloc, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct sched_answer, deny, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct sched_answer, estimate, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema sched_answer_schema = FLUX_SCHEMA(struct sched_answer, answer_fields);
/* The same without the first field. */
const struct flux_schema sched_answer_more_schema = {answer_fields + 1};

static const struct flux_field alloc_fields[] = {
    FLUX_FIELD_U64(struct sched_wire_alloc, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct sched_wire_alloc, R, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct sched_wire_alloc, t, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct sched_wire_alloc, switches, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct sched_wire_alloc, hops, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema sched_wire_alloc_schema =
    FLUX_SCHEMA(struct sched_wire_alloc, alloc_fields);

static const struct flux_field deny_fields[] = {
    FLUX_FIELD_U64(struct sched_wire_deny, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct sched_wire_deny, note, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_wire_deny_schema = FLUX_SCHEMA(struct sched_wire_deny, deny_fields);

static const struct flux_field feed_fields[] = {
    FLUX_FIELD_U64(struct sched_feed, generation, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct sched_feed, running, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct sched_feed, free, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct sched_feed, add, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct sched_feed, urgency, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct sched_feed, remove, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_JSON(struct sched_feed, enabled, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema sched_feed_schema = FLUX_SCHEMA(struct sched_feed, feed_fields);

static const struct flux_field running_fields[] = {
    FLUX_FIELD_U64(struct sched_wire_running, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct sched_wire_running, R, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct sched_wire_running, end, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema sched_wire_running_schema =
    FLUX_SCHEMA(struct sched_wire_running, running_fields);

static const struct flux_field add_fields[] = {
    FLUX_FIELD_U64(struct sched_wire_add, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct sched_wire_add, urgency, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct sched_wire_add, t_submit, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct sched_wire_add, uid, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct sched_wire_add, req, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_wire_add_schema = FLUX_SCHEMA(struct sched_wire_add, add_fields);

static const struct flux_field why_fields[] = {
    FLUX_FIELD_ARRAY(struct sched_why, ids, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_why_schema = FLUX_SCHEMA(struct sched_why, why_fields);

static const struct flux_field reasons_fields[] = {
    FLUX_FIELD_ARRAY(struct sched_reasons, why, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_reasons_schema = FLUX_SCHEMA(struct sched_reasons, reasons_fields);

static const struct flux_field status_fields[] = {
    FLUX_FIELD_STR(struct sched_status, queue, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct sched_status, node, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct sched_status, attached, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct sched_status, enabled, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct sched_status, ready, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, queued, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, held, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, running, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, nodes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, nodes_up, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, passes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, slices, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, decisions, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, started, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, denied, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct sched_status, busy, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct sched_status, rate, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, reserved, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_status, fallbacks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct sched_status, expiration, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_status_schema = FLUX_SCHEMA(struct sched_status, status_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct sched_module_stats, queued, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, running, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, shapes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, reserved, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, passes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, slices, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, decisions, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, planned, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, started, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, feeds, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct sched_module_stats, refused, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_module_stats_schema =
    FLUX_SCHEMA(struct sched_module_stats, stats_fields);

static const struct flux_field resources_fields[] = {
    FLUX_FIELD_OBJECT(struct sched_resources, allocated, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct sched_resources, free, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_resources_schema =
    FLUX_SCHEMA(struct sched_resources, resources_fields);

static const struct flux_field expiration_fields[] = {
    FLUX_FIELD_DOUBLE(struct sched_expiration, expiration, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema sched_expiration_schema =
    FLUX_SCHEMA(struct sched_expiration, expiration_fields);

static const struct flux_field policy_fields[] = {
    FLUX_FIELD_STR(struct sched_policy_names, queue, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct sched_policy_names, node, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema sched_policy_schema =
    FLUX_SCHEMA(struct sched_policy_names, policy_fields);

const struct flux_method sched_methods[] = {
    {.topic = "sched.attach",
     .flags = FLUX_METHOD_STREAM,
     .request = &sched_attach_schema,
     .response = &sched_answer_schema,
     .what = "the job module attaches; attached: the number that its feeds have to carry; then "
             "what each "
             "pass has brought"},
    {.topic = "sched.feed",
     .request = &sched_feed_schema,
     .gives = "empty object",
     .what = "changes of the queue and of running jobs"},
    {.topic = "sched.why",
     .request = &sched_why_schema,
     .response = &sched_reasons_schema,
     .what = "expected start and reason of each pending job"},
    {.topic = "sched.status", .response = &sched_status_schema, .what = "state of the scheduler"},
    {.topic = "sched.resources",
     .response = &sched_resources_schema,
     .what = "resources (R) that are allocated, and that are free on nodes that are up and not "
             "drained"},
    {.topic = "sched.policy",
     .request = &sched_policy_schema,
     .response = &sched_policy_schema,
     .what = "change policies; answered with those in use"},
    {.topic = "sched.expiration",
     .request = &sched_expiration_schema,
     .response = &sched_expiration_schema,
     .what = "the session has the resources until then; 0: without limit"},
    {.topic = "sched.stats", .response = &sched_module_stats_schema, .what = "counters"},
    FLUX_METHOD_END,
};

/* --- entries of arrays --- */

static json_t *entry_of(json_t *a, json_t *b, json_t *c)
{
    json_t *entry = json_array();
    bool failed = !entry || !a || !b;

    if (failed) {
        json_decref(a);
        json_decref(b);
        json_decref(c);
    } else {
        failed = json_array_append_new(entry, a) < 0;
        failed |= json_array_append_new(entry, b) < 0;
        failed |= c && json_array_append_new(entry, c) < 0;
    }
    if (failed) {
        json_decref(entry);
        errno = ENOMEM;
        return NULL;
    }
    return entry;
}

json_t *sched_wire_estimate_encode(uint64_t id, double t, const char *reason)
{
    json_t *text = json_string(reason);
    json_t *entry = entry_of(json_integer((json_int_t)id), t < 0. ? json_null() : json_real(t),
                             text ? text : json_string("?"));

    return entry;
}

int sched_wire_id_decode(const json_t *entry, uint64_t *id, errmsg_t *err)
{
    if (!json_is_integer(entry) || json_integer_value(entry) < 0)
        return errmsg_fail(err, EPROTO, "the id of a job is an integer of at least 0");
    *id = (uint64_t)json_integer_value(entry);
    return 0;
}

int sched_wire_estimate_decode(const json_t *entry, uint64_t *id, double *t, const char **reason,
                               errmsg_t *err)
{
    const json_t *when = json_array_get(entry, 1);
    const json_t *text = json_array_get(entry, 2);

    if (json_array_size(entry) != 3 || !json_is_string(text) ||
        !(json_is_null(when) || json_is_number(when)))
        return errmsg_fail(err, EPROTO, "an estimate is [id, time or null, reason]");
    if (sched_wire_id_decode(json_array_get(entry, 0), id, err) < 0)
        return -1;
    *t = json_is_null(when) ? -1. : json_number_value(when);
    *reason = json_string_value(text);
    return 0;
}

int sched_wire_urgency_decode(const json_t *entry, uint64_t *id, uint32_t *urgency, errmsg_t *err)
{
    const json_t *u = json_array_get(entry, 1);

    if (json_array_size(entry) != 2 || !json_is_integer(u) || json_integer_value(u) < 0 ||
        json_integer_value(u) > SCHED_URGENCY_MAX)
        return errmsg_fail(err, EPROTO, "a change of urgency is [id, 0 to %d]", SCHED_URGENCY_MAX);
    if (sched_wire_id_decode(json_array_get(entry, 0), id, err) < 0)
        return -1;
    *urgency = (uint32_t)json_integer_value(u);
    return 0;
}
