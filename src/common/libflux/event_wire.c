/* event_wire.c - messages of the service "event".
 *
 *    event.publish      raw: an encoded event  -> {"seq"}
 *    event.subscribe    {"prefix"}             -> {}
 *    event.unsubscribe  {"prefix"}             -> {}
 */
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
