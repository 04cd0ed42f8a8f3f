/* broker_wire.c - messages of the service "broker". */
#include "config.h"
#include "broker_wire.h"
#include "libflux/overlay_wire.h"

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct core_stats, tree_up, 0),
    FLUX_FIELD_U64(struct core_stats, tree_down, 0),
    FLUX_FIELD_U64(struct core_stats, ring, 0),
    FLUX_FIELD_U64(struct core_stats, event_down, 0),
    FLUX_FIELD_U64(struct core_stats, requests, 0),
    FLUX_FIELD_U64(struct core_stats, responses, 0),
    FLUX_FIELD_U64(struct core_stats, events, 0),
    FLUX_FIELD_U64(struct core_stats, unreachable, 0),
    FLUX_FIELD_U64(struct core_stats, dropped, 0),
    FLUX_FIELD_U64(struct core_stats, gaps, 0),
    FLUX_FIELD_U64(struct core_stats, replays, 0),
    FLUX_FIELD_U64(struct core_stats, events_lost, 0),
    FLUX_FIELD_U64(struct core_stats, inflight, 0),
    FLUX_FIELD_U64(struct core_stats, held_max, 0),
    FLUX_FIELD_U64(struct core_stats, held_bytes_max, 0),
    FLUX_FIELD_U64(struct core_stats, link_bytes_max, 0),
    FLUX_FIELD_END,
};
const struct flux_schema core_stats_schema = FLUX_SCHEMA(struct core_stats, stats_fields);

const struct flux_method broker_methods[] = {
    {.topic = "broker.stats",
     .response = &core_stats_schema,
     .what =
         "messages that this broker has routed, by kind; the most requests that it has ever held "
         "for one neighbor, their bytes, and the most bytes in the queue to one neighbor"},
    {.topic = "broker.shutdown",
     .request = &shutdown_order_schema,
     .gives = "empty object",
     .what = "end the session with this exit code; to rank 0"},
    FLUX_METHOD_END,
};
