/* Messages of the service "barrier" (src/modules/barrier) that clients send. */
#ifndef FLUX_BARRIER_WIRE_H
#define FLUX_BARRIER_WIRE_H

#include "libschema/schema.h"

struct barrier_enter {
    const char *name; /* borrowed from what was decoded */
    uint32_t nprocs;
    const char *ranks; /* optional: the barrier fails when one of these is lost, also before a
                          participant of that rank entered */
};
extern const struct flux_schema barrier_enter_schema; /* {"name","nprocs","ranks"} */

/* What one instance knows of a barrier that is not over. */
struct barrier_item {
    const char *name;
    uint32_t nprocs;
    uint32_t entered;  /* participants at this broker */
    const char *ranks; /* those announced, "" for none */
    double age;        /* seconds since this instance heard of it */
};
extern const struct flux_schema barrier_item_schema; /* {"name","nprocs","entered","ranks","age"} */

struct barrier_list {
    json_t *barriers; /* of barrier_item; borrowed from what was decoded */
};
extern const struct flux_schema barrier_list_schema; /* {"barriers"} */

#endif
