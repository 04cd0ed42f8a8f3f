/* "NAME.cancel", which every service that streams answers may get. */
#ifndef FLUX_CANCEL_WIRE_H
#define FLUX_CANCEL_WIRE_H

#include "libschema/schema.h"

struct cancel {
    uint32_t matchtag; /* of the request whose answers are no longer wanted */
};
extern const struct flux_schema cancel_schema; /* {"matchtag"} */

#endif
