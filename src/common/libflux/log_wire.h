/* Messages of the service "log" (src/modules/log). */
#ifndef FLUX_LOG_WIRE_H
#define FLUX_LOG_WIRE_H

#include "libschema/schema.h"

/* Pointers refer to the decoded message, or to the ring that keeps the entry. */
struct log_line {
    int level;
    const char *source;
    const char *text;
    uint32_t rank;
    double time;
};
extern const struct flux_schema log_line_schema; /* for sending: without rank and time */
extern const struct flux_schema log_any_line_schema;

struct log_entry {
    uint64_t seq; /* from 1 */
    double time;
    int level;
    uint32_t rank;
    const char *source;
    const char *text;
};
extern const struct flux_schema log_entry_schema;

struct log_entries {
    json_t *entries; /* array of log_entry_schema */
    uint64_t dropped;
};
extern const struct flux_schema log_entries_schema;

struct log_query {
    int level;
    const char *rank;
    const char *source;
    uint32_t count; /* 0: all */
    uint64_t from;  /* numbers of entries */
    uint64_t to;
};
extern const struct flux_schema log_query_schema; /* without numbers; all fields are optional */
extern const struct flux_schema log_dump_schema;

/* from and to are the numbers that are left for the next page; there are none if from > to. */
struct log_page {
    json_t *entries;
    uint64_t dropped;
    uint64_t from;
    uint64_t to;
};
extern const struct flux_schema log_page_schema;

struct log_cleared {
    uint64_t cleared; /* number of entries that were removed */
};
extern const struct flux_schema log_cleared_schema;

struct log_stats {
    uint64_t entries, bytes, appended, dropped, forwarded, forward_dropped, bad, followers;
};
extern const struct flux_schema log_stats_schema;

extern const struct flux_method log_methods[];

#endif
