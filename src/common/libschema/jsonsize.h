/* Estimates the memory of a JSON text before it is parsed.  Thread-safe. */
#ifndef FLUX_JSONSIZE_H
#define FLUX_JSONSIZE_H

#include <stddef.h>

/* Limits of the JSON of a client, in requests and in events. */
#define FLUX_JSON_BYTES_MAX ((size_t)8 * 1024 * 1024)
#define FLUX_JSON_VALUES_MAX ((size_t)256 * 1024)

/* An upper bound for the number of values and names in the text.  Counting stops above `max`; the
 * result is then max + 1.  The text need not be JSON. */
size_t flux_json_count(const char *text, size_t len, size_t max);

#endif
