/* nest_wire.c - messages of the service "nest". */
#include "config.h"
#include "nest_wire.h"

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_STR(struct nest_stats, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct nest_stats, uri, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema nest_stats_schema = FLUX_SCHEMA(struct nest_stats, stats_fields);

const struct flux_method nest_methods[] = {
    {.topic = "nest.stats",
     .response = &nest_stats_schema,
     .what =
         "whether the session around this one knows its address: waiting, asked, told or alone"},
    FLUX_METHOD_END,
};
