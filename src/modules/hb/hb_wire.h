/* Messages of the service "hb" (src/modules/hb). */
#ifndef HB_WIRE_H
#define HB_WIRE_H

#include "libschema/schema.h"

struct hb_beat {
    uint64_t epoch;
};
extern const struct flux_schema hb_beat_schema;

struct hb_stats {
    uint64_t epoch; /* of the next beat */
    double period;  /* seconds */
    uint64_t failed;
};
extern const struct flux_schema hb_stats_schema;

extern const struct flux_method hb_methods[];

#endif
