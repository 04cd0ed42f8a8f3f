/* barrier_wire.c - messages of the service "barrier" that clients send.
 *
 *    barrier.enter  {"name","nprocs","ranks"?}  -> {}   when all have entered
 *    barrier.list   {} -> {"barriers":[{"name","nprocs","entered","ranks"},...]}  of this broker
 */
#include "config.h"
#include "barrier_wire.h"

static const struct flux_field enter_fields[] = {
    FLUX_FIELD_STR(struct barrier_enter, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_enter, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_enter, ranks, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_enter_schema = FLUX_SCHEMA(struct barrier_enter, enter_fields);

static const struct flux_field item_fields[] = {
    FLUX_FIELD_STR(struct barrier_item, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_item, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct barrier_item, entered, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct barrier_item, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct barrier_item, age, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_item_schema = FLUX_SCHEMA(struct barrier_item, item_fields);

static const struct flux_field list_fields[] = {
    FLUX_FIELD_ARRAY(struct barrier_list, barriers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema barrier_list_schema = FLUX_SCHEMA(struct barrier_list, list_fields);
