/* overlay_wire.c - messages of the service "overlay".
 *
 *    overlay.status    {}  -> {"rank","size","state","up","lost","topology"}
 *    overlay.topology  {}  -> {"topology","size","file"}
 *    overlay.run       event {"up"}
 *    overlay.down      event {"ranks"}
 */
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
