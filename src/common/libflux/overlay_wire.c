/* overlay_wire.c - messages of the service "overlay". */
#include "config.h"
#include "overlay_wire.h"

static const struct flux_field status_fields[] = {
    FLUX_FIELD_U32(struct overlay_status, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_status, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, up, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, lost, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_status, topology, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_status_schema = FLUX_SCHEMA(struct overlay_status, status_fields);

static const struct flux_field shape_fields[] = {
    FLUX_FIELD_STR(struct overlay_shape, topology, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct overlay_shape, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct overlay_shape, file, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_shape_schema = FLUX_SCHEMA(struct overlay_shape, shape_fields);

static const struct flux_field run_fields[] = {
    FLUX_FIELD_U64(struct overlay_run, up, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_run_schema = FLUX_SCHEMA(struct overlay_run, run_fields);

static const struct flux_field down_fields[] = {
    FLUX_FIELD_STR(struct overlay_down, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema overlay_down_schema = FLUX_SCHEMA(struct overlay_down, down_fields);

const struct flux_method overlay_methods[] = {
    {.topic = "overlay.status",
     .response = &overlay_status_schema,
     .what = "state of this broker, and the ranks that it knows to be up and lost (idsets)"},
    {.topic = "overlay.topology",
     .response = &overlay_shape_schema,
     .what = "shape of the tree, and the tree itself in the form of a topology file"},
    {.topic = "overlay.run",
     .flags = FLUX_METHOD_EVENT,
     .request = &overlay_run_schema,
     .what = "all ranks are ready, or lost"},
    {.topic = "overlay.down",
     .flags = FLUX_METHOD_EVENT,
     .request = &overlay_down_schema,
     .what = "these ranks (an idset) are lost"},
    FLUX_METHOD_END,
};
