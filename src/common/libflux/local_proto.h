/* Control messages on a local connection, each with a JSON payload:
 *
 *    "hello"   broker to client, first:       {"protocol":1,"rank":R,"size":N,"life":L}; L is a
 *                                             random number of each start of a broker, by which a
 *                                             disconnected client recognizes the same broker
 *    "error"   broker to client, then close:  {"errnum":E,"text":"an error message"}
 *    "ending"  broker to client:              {}: the broker ends, and may be started again; it
 *                                             answers the outstanding requests with errors
 *
 * A client may send requests before the "hello" (FLUX_O_NOWAIT in handle.h).  If these have arrived
 * when the broker accepts the connection, the "hello" comes together with the first message for the
 * client.
 *
 * A client sends no control messages.
 */
#ifndef FLUX_LOCAL_PROTO_H
#define FLUX_LOCAL_PROTO_H

#include "libschema/schema.h"

#define LOCAL_PROTOCOL 1
#define LOCAL_HELLO "hello"
#define LOCAL_ERROR "error"
#define LOCAL_ENDING "ending"

struct local_hello {
    int protocol;
    uint32_t rank;
    uint32_t size;
    uint64_t life;
};
struct local_error {
    int errnum;
    const char *text;
};

extern const struct flux_schema local_hello_schema;
extern const struct flux_schema local_error_schema;

#endif
