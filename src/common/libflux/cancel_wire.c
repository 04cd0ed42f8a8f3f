/* cancel_wire.c - "NAME.cancel" {"matchtag"}, without response: the sender no longer wants the
 * answers to its request with that match tag. */
#include "config.h"
#include "cancel_wire.h"

static const struct flux_field cancel_fields[] = {
    FLUX_FIELD_U32(struct cancel, matchtag, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema cancel_schema = FLUX_SCHEMA(struct cancel, cancel_fields);
