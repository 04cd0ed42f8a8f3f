/* cancel_wire.c - "NAME.cancel" {"matchtag"}, without response: the sender no longer wants
 * responses to its request with that match tag.
 */
#include "config.h"
#include "cancel_wire.h"

#include "dispatch.h"

static const struct flux_field cancel_fields[] = {
    FLUX_FIELD_U32(struct cancel, matchtag, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema cancel_schema = FLUX_SCHEMA(struct cancel, cancel_fields);

int cancel_decode(flux_t *h, const flux_msg_t *req, uint32_t *matchtag)
{
    struct cancel in;
    json_t *owner;

    if (flux_request_decode(h, req, &cancel_schema, &in, &owner) < 0)
        return -1;
    *matchtag = in.matchtag;
    json_decref(owner);
    return 0;
}
