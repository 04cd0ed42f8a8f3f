/* log_wire.c - messages of the service "log".
 *
 *    log.append   {"level","source","text","rank"?,"time"?}
 *    log.dump     {"level"?,"rank"?,"source"?,"count"?,"from"?,"to"?}
 *                 -> {"entries":[entry..],"dropped","from","to"}
 *    log.follow   {"level"?,"rank"?,"source"?,"count"?}  -> {"entries":[entry..],"dropped"}, ...
 *    log.forward  {"entries":[entry..],"dropped"}
 *
 * An entry is {"seq","time","level","rank","source","text"}.
 */
#include "config.h"
#include "log_wire.h"

static const struct flux_field line_fields[] = {
    FLUX_FIELD_INT(struct log_line, level, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct log_line, source, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct log_line, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema log_line_schema = FLUX_SCHEMA(struct log_line, line_fields);

static const struct flux_field any_line_fields[] = {
    FLUX_FIELD_INT(struct log_line, level, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct log_line, source, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct log_line, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct log_line, rank, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct log_line, time, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema log_any_line_schema = FLUX_SCHEMA(struct log_line, any_line_fields);

static const struct flux_field entry_fields[] = {
    FLUX_FIELD_U64(struct log_entry, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct log_entry, time, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct log_entry, level, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct log_entry, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct log_entry, source, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct log_entry, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema log_entry_schema = FLUX_SCHEMA(struct log_entry, entry_fields);

static const struct flux_field entries_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct log_entries, entries, FLUX_FIELD_REQUIRED, &log_entry_schema),
    FLUX_FIELD_U64(struct log_entries, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema log_entries_schema = FLUX_SCHEMA(struct log_entries, entries_fields);

static const struct flux_field query_fields[] = {
    FLUX_FIELD_INT(struct log_query, level, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct log_query, rank, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct log_query, source, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct log_query, count, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema log_query_schema = FLUX_SCHEMA(struct log_query, query_fields);

static const struct flux_field dump_fields[] = {
    FLUX_FIELD_INT(struct log_query, level, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct log_query, rank, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct log_query, source, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct log_query, count, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct log_query, from, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct log_query, to, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema log_dump_schema = FLUX_SCHEMA(struct log_query, dump_fields);

static const struct flux_field page_fields[] = {
    FLUX_FIELD_ARRAY_OF(struct log_page, entries, FLUX_FIELD_REQUIRED, &log_entry_schema),
    FLUX_FIELD_U64(struct log_page, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_page, from, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_page, to, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema log_page_schema = FLUX_SCHEMA(struct log_page, page_fields);

static const struct flux_field cleared_fields[] = {
    FLUX_FIELD_U64(struct log_cleared, cleared, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema log_cleared_schema = FLUX_SCHEMA(struct log_cleared, cleared_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct log_stats, entries, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_stats, bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_stats, appended, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_stats, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_stats, forwarded, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_stats, forward_dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_stats, bad, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct log_stats, followers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema log_stats_schema = FLUX_SCHEMA(struct log_stats, stats_fields);

const struct flux_method log_methods[] = {
    {.topic = "log.append",
     .request = &log_any_line_schema,
     .gives = "empty object",
     .what = "add an entry; level: 0 (emerg) to 7 (debug); rank and time default to the sender's "
             "and to "
             "now"},
    {.topic = "log.dump",
     .request = &log_dump_schema,
     .response = &log_page_schema,
     .what = "entries that match: of this level and more important ones, of these ranks (an "
             "idset), with numbers from..to, oldest first; with a count: that many at most, newest "
             "first. A response has what one slice of time finds, and the numbers that are left "
             "for the next request: none if from > to"},
    {.topic = "log.follow",
     .flags = FLUX_METHOD_STREAM,
     .request = &log_query_schema,
     .response = &log_entries_schema,
     .what = "entries that match, or the last ones of them (count), and then new ones as they "
             "come"},
    {.topic = "log.clear",
     .response = &log_cleared_schema,
     .what = "forget the entries of this rank"},
    {.topic = "log.stats", .response = &log_stats_schema, .what = "counters of this rank"},
    {.topic = "log.forward",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &log_entries_schema,
     .gives = "empty object",
     .what = "entries of the sender's subtree that go to rank 0; dropped: number of those that "
             "could not be "
             "kept"},
    FLUX_METHOD_END,
};
