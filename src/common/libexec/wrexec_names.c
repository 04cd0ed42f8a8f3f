/* wrexec_names.c - messages of the names service: see wrexec_names.h. */
#include "wrexec_names.h"

static const struct flux_field name_fields[] = {
    FLUX_FIELD_U64(struct wrexec_name, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct wrexec_name, op, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct wrexec_name, service, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct wrexec_name, port, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct wrexec_name, wait, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct wrexec_name, repeated, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_name_schema = FLUX_SCHEMA(struct wrexec_name, name_fields);

static const struct flux_field named_fields[] = {
    FLUX_FIELD_STR(struct wrexec_named, port, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_named_schema = FLUX_SCHEMA(struct wrexec_named, named_fields);
