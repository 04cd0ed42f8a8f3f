/* trace_wire.c - messages of the service "trace", and the text form of a line. */
#include "config.h"
#include "trace_wire.h"

#include <stdio.h>
#include <string.h>

static const struct flux_field choice_fields[] = {
    FLUX_FIELD_STR(struct trace_choice, prefix, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct trace_choice, modules, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema trace_choice_schema = FLUX_SCHEMA(struct trace_choice, choice_fields);

static const struct flux_field line_fields[] = {
    FLUX_FIELD_DOUBLE(struct trace_line, time, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct trace_line, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct trace_line, type, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct trace_line, topic, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct trace_line, from, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct trace_line, to, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct trace_line, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct trace_line, errnum, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct trace_line, latency, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct trace_line, missed, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema trace_line_schema = FLUX_SCHEMA(struct trace_line, line_fields);

const struct flux_method trace_methods[] = {
    {.topic = "trace.watch",
     .flags = FLUX_METHOD_STREAM,
     .request = &trace_choice_schema,
     .response = &trace_line_schema,
     .what = "messages that pass through this broker from now on"},
    FLUX_METHOD_END,
};

int trace_line_format(const struct trace_line *l, char *buf, size_t size)
{
    char latency[32] = "";
    char error[64] = "";
    char missed[64] = "";

    if (l->latency >= 0.)
        snprintf(latency, sizeof(latency), " after %.6f s", l->latency);
    if (l->errnum != 0)
        snprintf(error, sizeof(error), " error: %s", strerror(l->errnum));
    if (l->missed > 0)
        snprintf(missed, sizeof(missed), " (%llu before it were not recorded)",
                 (unsigned long long)l->missed);
    return snprintf(buf, size, "%.6f rank %u %s %s: %s -> %s, %llu bytes%s%s%s", l->time, l->rank,
                    l->type, l->topic, l->from, l->to, (unsigned long long)l->size, latency, error,
                    missed);
}
