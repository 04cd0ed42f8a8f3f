/* resrc_wire.c - messages of the service "resrc" (header). */
#include "resrc_wire.h"

static const struct flux_field update_fields[] = {
    FLUX_FIELD_OBJECT(struct resrc_update, inventory, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct resrc_update, up, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_update, drained, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_update, unconfirmed, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct resrc_update, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_update_schema = FLUX_SCHEMA(struct resrc_update, update_fields);

static const struct flux_field status_entry_fields[] = {
    FLUX_FIELD_STR(struct resrc_status_entry, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_status_entry, hosts, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_status_entry, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_status_entry, reason, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct resrc_status_entry, time, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct resrc_status_entry, down, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_status_entry_schema =
    FLUX_SCHEMA(struct resrc_status_entry, status_entry_fields);

static const struct flux_field status_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct resrc_status, nodes, FLUX_FIELD_REQUIRED,
                        &resrc_status_entry_schema),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_status_schema = FLUX_SCHEMA(struct resrc_status, status_fields);

static const struct flux_field drain_fields[] = {
    FLUX_FIELD_STR(struct resrc_drain, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_drain, reason, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct resrc_drain, force, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_drain_schema = FLUX_SCHEMA(struct resrc_drain, drain_fields);

static const struct flux_field ranks_fields[] = {
    FLUX_FIELD_STR(struct resrc_ranks, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_ranks_schema = FLUX_SCHEMA(struct resrc_ranks, ranks_fields);

static const struct flux_field leave_fields[] = {
    FLUX_FIELD_STR(struct resrc_leave, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_leave, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_leave_schema = FLUX_SCHEMA(struct resrc_leave, leave_fields);

static const struct flux_field record_fields[] = {
    FLUX_FIELD_STR(struct resrc_record, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct resrc_record, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct resrc_record, time, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct resrc_record, leaves, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_record_schema = FLUX_SCHEMA(struct resrc_record, record_fields);

static const struct flux_field where_fields[] = {
    FLUX_FIELD_U32(struct resrc_where, rank, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_where_schema = FLUX_SCHEMA(struct resrc_where, where_fields);

static const struct flux_field xml_fields[] = {
    FLUX_FIELD_STR(struct resrc_xml, xml, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_xml_schema = FLUX_SCHEMA(struct resrc_xml, xml_fields);

static const struct flux_field join_fields[] = {
    FLUX_FIELD_OBJECT(struct resrc_join, inventory, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct resrc_join, like, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_join_schema = FLUX_SCHEMA(struct resrc_join, join_fields);

static const struct flux_field lost_fields[] = {
    FLUX_FIELD_STR(struct resrc_lost, lost, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_lost_schema = FLUX_SCHEMA(struct resrc_lost, lost_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct resrc_stats, joins, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, nodes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, cores, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, up, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, drained, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, watchers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, commits, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct resrc_stats, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema resrc_stats_schema = FLUX_SCHEMA(struct resrc_stats, stats_fields);

const struct flux_method resrc_methods[] = {
    {.topic = "resrc.watch",
     .flags = FLUX_METHOD_STREAM,
     .takes = "empty object",
     .response = &resrc_update_schema,
     .what = "the resources, and again whenever they change; inventory only when that did"},
    {.topic = "resrc.status",
     .takes = "empty object",
     .response = &resrc_status_schema,
     .what = "nodes by state: up, down, unconfirmed, drained, draining"},
    {.topic = "resrc.drain",
     .request = &resrc_drain_schema,
     .response = &resrc_ranks_schema,
     .what = "give these nodes no more work; answered when that is on record"},
    {.topic = "resrc.undrain",
     .request = &resrc_ranks_schema,
     .response = &resrc_ranks_schema,
     .what = "give these nodes work again"},
    {.topic = "resrc.confirm",
     .request = &resrc_ranks_schema,
     .response = &resrc_ranks_schema,
     .what = "nothing runs any more of what ran on these nodes when they were lost"},
    {.topic = "resrc.leave",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &resrc_leave_schema,
     .response = &resrc_ranks_schema,
     .what = "brokers that leave: drain their nodes until they return"},
    {.topic = "resrc.xml",
     .request = &resrc_where_schema,
     .response = &resrc_xml_schema,
     .what = "XML of hwloc for the machine of a broker; default: the one that is asked"},
    {.topic = "resrc.stats", .response = &resrc_stats_schema, .what = "counters of this instance"},
    {.topic = "resrc.join",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &resrc_join_schema,
     .gives = "empty object",
     .what = "nodes of the sender's subtree, and ranks that have what another rank has"},
    {.topic = "resrc.find",
     .flags = FLUX_METHOD_INSTANCES | FLUX_METHOD_NORESPONSE,
     .request = &resrc_lost_schema,
     .what = "send the join again; a rank that relied on a lost one looks itself"},
    FLUX_METHOD_END,
};
