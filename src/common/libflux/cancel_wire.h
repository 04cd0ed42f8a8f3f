/* "NAME.cancel", a request that every streaming service may get. */
#ifndef FLUX_CANCEL_WIRE_H
#define FLUX_CANCEL_WIRE_H

#include "handle.h"
#include "libschema/schema.h"

struct cancel {
    uint32_t matchtag; /* of the request whose responses are no longer wanted */
};
extern const struct flux_schema cancel_schema; /* {"matchtag"} */

/* Decode such a request.  0, or -1 when it was answered with an error.  The handler ends the stream
 * and then calls flux_respond(): libflux requests no response, but other senders may. */
int cancel_decode(flux_t *h, const flux_msg_t *req, uint32_t *matchtag);

#endif
