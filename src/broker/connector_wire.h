/* Messages of the service "connector" (connector_service.c). */
#ifndef BROKER_CONNECTOR_WIRE_H
#define BROKER_CONNECTOR_WIRE_H

#include "libschema/schema.h"

extern const struct flux_schema connector_stats_schema;

extern const struct flux_method connector_methods[];

#endif
