/* proto_barrier.c - messages of the service "barrier" that clients send.
 *
 *    barrier.enter  {"name","nprocs"}  -> {}   when all have entered
 */
#include "config.h"
#include "proto_barrier.h"

static const struct flux_field enter_fields[] = {
    FLUX_FIELD_STR(struct barrier_enter, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_enter, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_enter_schema = FLUX_SCHEMA(struct barrier_enter, enter_fields);
