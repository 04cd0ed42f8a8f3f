/* Messages of the service "event" (src/broker/core_service.c). */
#ifndef FLUX_EVENT_WIRE_H
#define FLUX_EVENT_WIRE_H

#include "libschema/schema.h"

/* The heartbeat, the only topic of "event.offer": brokers tell their parents whether anybody has
 * subscribed to it, so that it is not sent through a session in which nobody has. */
#define EVENT_OFFERED "hb"

struct event_published {
    uint64_t seq;
};
extern const struct flux_schema event_published_schema; /* {"seq"} */

struct event_prefix {
    const char *prefix; /* refers to the decoded message */
};
extern const struct flux_schema event_prefix_schema; /* {"prefix"} */

/* Sent to subscribers as an event of topic "event.lost": their broker will not get these events. */
struct event_lost {
    uint64_t from;
    uint64_t to; /* 0: no event from `from` on will come, because a broker above was lost */
};
extern const struct flux_schema event_lost_schema; /* {"from","to"} */

extern const struct flux_method event_methods[];

#endif
