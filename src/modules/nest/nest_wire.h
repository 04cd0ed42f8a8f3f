/* Messages of the service "nest" (src/modules/nest). */
#ifndef NEST_WIRE_H
#define NEST_WIRE_H

#include "libschema/schema.h"

struct nest_stats {
    const char *state; /* "waiting", "asked", "told", "alone" */
    const char *uri;   /* optional */
};
extern const struct flux_schema nest_stats_schema;

extern const struct flux_method nest_methods[];

#endif
