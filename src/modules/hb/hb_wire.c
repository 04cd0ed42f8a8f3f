/* hb_wire.c - messages of the service "hb". */
#include "config.h"
#include "hb_wire.h"

static const struct flux_field beat_fields[] = {
    FLUX_FIELD_U64(struct hb_beat, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema hb_beat_schema = FLUX_SCHEMA(struct hb_beat, beat_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct hb_stats, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct hb_stats, period, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct hb_stats, failed, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema hb_stats_schema = FLUX_SCHEMA(struct hb_stats, stats_fields);

const struct flux_method hb_methods[] = {
    {.topic = "hb",
     .flags = FLUX_METHOD_EVENT,
     .request = &hb_beat_schema,
     .what =
         "published by rank 0 once per period while somebody in the session has subscribed to it; "
         "epoch: number of the period, 0, 1, ..."},
    {.topic = "hb.stats",
     .response = &hb_stats_schema,
     .what = "number of the next beat, the period in seconds, beats that could not be published"},
    FLUX_METHOD_END,
};
