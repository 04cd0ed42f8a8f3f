/* Messages of the service "barrier" (src/modules/barrier) that clients send. */
#ifndef FLUX_PROTO_BARRIER_H
#define FLUX_PROTO_BARRIER_H

#include "schema.h"

struct barrier_enter {
    const char *name; /* borrowed from what was decoded */
    uint32_t nprocs;
};
extern const struct flux_schema barrier_enter_schema; /* {"name","nprocs"} */

#endif
