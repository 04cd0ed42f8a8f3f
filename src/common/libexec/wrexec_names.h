/* Messages of the names service, a part of wrexec at rank 0.
 *
 *    wrexec.name    {"id":ID, "op":"publish", "service":S, "port":P} -> {}
 *                   {"id":ID, "op":"lookup", "service":S, "wait"?:bool} -> {"port":P}
 *                   {"id":ID, "op":"unpublish", "service":S} -> {}
 *
 * Errors: EEXIST (published already, by any job of the user), ENOENT (not published; to unpublish:
 * not by this job), ECANCELED (the job that waited has ended), ENAMETOOLONG, EINVAL, ESRCH (no such
 * job), each with an error message.
 */
#ifndef EXEC_WREXEC_NAMES_H
#define EXEC_WREXEC_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "libschema/schema.h"

#define NAMES_SERVICE_MAX 1024
#define NAMES_PORT_MAX (256 * 1024)

struct wrexec_name {
    uint64_t id;
    const char *op;
    const char *service;
    const char *port;
    bool wait;     /* a look-up is answered when the name is published */
    bool repeated; /* the answer to an earlier copy may have been lost with a broker */
};
extern const struct flux_schema wrexec_name_schema;

struct wrexec_named {
    const char *port;
};
extern const struct flux_schema wrexec_named_schema;

#endif
