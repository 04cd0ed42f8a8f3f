/* Messages of the service "attr" (src/broker/attrs.c). */
#ifndef FLUX_ATTR_WIRE_H
#define FLUX_ATTR_WIRE_H

#include "libschema/schema.h"

/* Pointers refer to the decoded message. */
struct attr_pair {
    const char *name;
    const char *value;
};
extern const struct flux_schema attr_name_schema; /* {"name"}: struct attr_pair */
extern const struct flux_schema attr_pair_schema; /* {"name","value"} */

struct attr_all {
    json_t *attrs; /* object: name -> value */
};
extern const struct flux_schema attr_all_schema; /* {"attrs":{..}} */

extern const struct flux_method attr_methods[];

#endif
