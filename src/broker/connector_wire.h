/* Messages of the service "connector" (connector_service.c), and control messages to clients. */
#ifndef BROKER_CONNECTOR_WIRE_H
#define BROKER_CONNECTOR_WIRE_H

#include "libflux/msg.h"
#include "libschema/schema.h"

extern const struct flux_schema connector_stats_schema;

extern const struct flux_method connector_methods[];

/* A control message to a client (libflux/local_proto.h).  NULL with ENOMEM. */
flux_msg_t *connector_control(const char *topic, const struct flux_schema *desc, const void *in);

#endif
