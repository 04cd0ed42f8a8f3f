/* barrier_wire.c - messages of the service "barrier". */
#include "config.h"
#include "barrier_wire.h"

static const struct flux_field enter_fields[] = {
    FLUX_FIELD_STR(struct barrier_enter, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_enter, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_enter, ranks, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_enter_schema = FLUX_SCHEMA(struct barrier_enter, enter_fields);

static const struct flux_field item_fields[] = {
    FLUX_FIELD_STR(struct barrier_item, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_item, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_item, entered, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_item, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct barrier_item, age, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_item_schema = FLUX_SCHEMA(struct barrier_item, item_fields);

static const struct flux_field list_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct barrier_list, barriers, FLUX_FIELD_REQUIRED, &barrier_item_schema),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_list_schema = FLUX_SCHEMA(struct barrier_list, list_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct barrier_stats, barriers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct barrier_stats, entered, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct barrier_stats, joins, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct barrier_stats, completed, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct barrier_stats, failed, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_stats_schema = FLUX_SCHEMA(struct barrier_stats, stats_fields);

static const struct flux_field join_fields[] = {
    FLUX_FIELD_STR(struct barrier_join, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_join, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_join, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct barrier_join, after, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_join, entries, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_join, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_join_schema = FLUX_SCHEMA(struct barrier_join, join_fields);

static const struct flux_field joined_fields[] = {
    FLUX_FIELD_BOOL(struct barrier_joined, done, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct barrier_joined, use, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_joined_schema = FLUX_SCHEMA(struct barrier_joined, joined_fields);

static const struct flux_field abort_fields[] = {
    FLUX_FIELD_STR(struct barrier_abort, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct barrier_abort, errnum, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_abort, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_abort, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_abort_schema = FLUX_SCHEMA(struct barrier_abort, abort_fields);

const struct flux_method barrier_methods[] = {
    {.topic = "barrier.enter",
     .request = &barrier_enter_schema,
     .what = "answered when nprocs participants have entered; ranks: the barrier fails when one of "
             "these "
             "is lost"},
    {.topic = "barrier.list",
     .flags = FLUX_METHOD_STREAM,
     .response = &barrier_list_schema,
     .what = "barriers that are not over, as this instance knows them"},
    {.topic = "barrier.stats",
     .response = &barrier_stats_schema,
     .what = "counters of this instance"},
    {.topic = "barrier.join",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &barrier_join_schema,
     .response = &barrier_joined_schema,
     .what = "new entries in the sender's subtree; answered at the release, or by the next join"},
    {.topic = "barrier.abort",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &barrier_abort_schema,
     .what = "the barrier has failed in the sender's subtree"},
    FLUX_METHOD_END,
};
