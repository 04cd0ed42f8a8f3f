/* Messages of the service "overlay" (src/broker/core_service.c). */
#ifndef FLUX_OVERLAY_WIRE_H
#define FLUX_OVERLAY_WIRE_H

#include "libschema/schema.h"

/* Pointers refer to the decoded message. */
struct overlay_status {
    uint32_t rank;
    uint32_t size;
    const char *state;
    const char *up;   /* idset */
    const char *lost; /* idset */
    const char *topology;
};
extern const struct flux_schema overlay_status_schema;

struct overlay_shape {
    const char *topology;
    uint32_t size;
    const char *file; /* the tree in topology file format */
};
extern const struct flux_schema overlay_shape_schema;

/* Event "overlay.run": all ranks are ready or lost. */
struct overlay_run {
    uint64_t up; /* number of ranks that are ready */
};
extern const struct flux_schema overlay_run_schema;

/* Event "overlay.down": these ranks are lost. */
struct overlay_down {
    const char *ranks; /* idset */
};
extern const struct flux_schema overlay_down_schema;

extern const struct flux_method overlay_methods[];

#endif
