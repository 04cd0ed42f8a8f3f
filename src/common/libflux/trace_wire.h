/* Messages of the service "trace" (src/broker/tracer.c): the messages that pass through a
 * broker. */
#ifndef FLUX_TRACE_WIRE_H
#define FLUX_TRACE_WIRE_H

#include <stddef.h>
#include "libschema/schema.h"

/* Pointers refer to the decoded message. */
struct trace_choice {
    const char *prefix; /* record messages whose topic begins with this */
    /* And that these modules sent or received (names separated by commas); "": all messages. */
    const char *modules;
};
extern const struct flux_schema trace_choice_schema;

struct trace_line {
    double time; /* wall clock, seconds since 1970 */
    uint32_t rank;
    const char *type; /* "request", "response", "event" */
    const char *topic;
    const char *from; /* "client N", "module NAME", "broker", "rank N" */
    const char *to;   /* the same, or "subscribers" */
    uint64_t size;    /* encoded, in bytes */
    int errnum;       /* response: 0 or an errno */
    double latency;   /* response: seconds since the request passed here; -1: not known */
    uint64_t
        missed; /* messages before this one that were not recorded because the queue was full */
};
extern const struct flux_schema trace_line_schema;

extern const struct flux_method trace_methods[];

/* Format the line for a person, without a newline; the conventions of snprintf(). */
int trace_line_format(const struct trace_line *line, char *buf, size_t size);

#endif
