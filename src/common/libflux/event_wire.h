/* Messages of the service "event" (src/broker/core_service.c). */
#ifndef FLUX_EVENT_WIRE_H
#define FLUX_EVENT_WIRE_H

#include "libschema/schema.h"

struct event_published {
    uint64_t seq;
};
extern const struct flux_schema event_published_schema; /* {"seq"} */

struct event_prefix {
    const char *prefix; /* borrowed from what was decoded */
};
extern const struct flux_schema event_prefix_schema; /* {"prefix"} */

/* Told to subscribers in their stream as a message of topic "event.lost": these events do not come
 * to their broker. */
struct event_lost {
    uint64_t from;
    uint64_t to; /* 0: nothing comes from `from` on, for a broker above is lost */
};
extern const struct flux_schema event_lost_schema; /* {"from","to"} */

extern const struct flux_method event_methods[];

#endif
