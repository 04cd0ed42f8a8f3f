/* Messages of the service "broker" (core_service.c). */
#ifndef BROKER_BROKER_WIRE_H
#define BROKER_BROKER_WIRE_H

#include "core.h"
#include "libschema/schema.h"

extern const struct flux_schema core_stats_schema;

extern const struct flux_method broker_methods[];

#endif
