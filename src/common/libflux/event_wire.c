/* event_wire.c - messages of the service "event". */
#include "config.h"
#include "event_wire.h"

static const struct flux_field published_fields[] = {
    FLUX_FIELD_U64(struct event_published, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema event_published_schema =
    FLUX_SCHEMA(struct event_published, published_fields);

static const struct flux_field prefix_fields[] = {
    FLUX_FIELD_STR(struct event_prefix, prefix, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema event_prefix_schema = FLUX_SCHEMA(struct event_prefix, prefix_fields);

static const struct flux_field lost_fields[] = {
    FLUX_FIELD_U64(struct event_lost, from, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct event_lost, to, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema event_lost_schema = FLUX_SCHEMA(struct event_lost, lost_fields);

const struct flux_method event_methods[] = {
    {.topic = "event.publish",
     .takes = "raw: an encoded event",
     .response = &event_published_schema,
     .what = "sent to rank 0, which gives the event its number"},
    {.topic = "event.offer",
     .takes = "raw: an encoded event",
     .response = &event_published_schema,
     .what = "the same for a heartbeat, which is published only if somebody in the session has "
             "subscribed to it; seq is 0 if nobody has"},
    {.topic = "event.subscribe",
     .request = &event_prefix_schema,
     .gives = "empty object",
     .what = "events from now on whose topics begin with the prefix are delivered"},
    {.topic = "event.unsubscribe",
     .request = &event_prefix_schema,
     .gives = "empty object",
     .what = "take one subscription back"},
    {.topic = "event.lost",
     .flags = FLUX_METHOD_EVENT,
     .request = &event_lost_schema,
     .what = "in the stream of a subscriber: the events with these numbers do not come; to is 0 "
             "when none "
             "comes any more"},
    FLUX_METHOD_END,
};
