/* Messages of the service "event" (src/broker/core_service.c). */
#ifndef FLUX_PROTO_EVENT_H
#define FLUX_PROTO_EVENT_H

#include "schema.h"

struct event_published {
    uint64_t seq;
};
extern const struct flux_schema event_published_schema; /* {"seq"} */

struct event_prefix {
    const char *prefix; /* borrowed from what was decoded */
};
extern const struct flux_schema event_prefix_schema; /* {"prefix"} */

#endif
