/* Estimates the memory of a JSON text before it is parsed.  Thread-safe. */
#ifndef FLUX_JSONSIZE_H
#define FLUX_JSONSIZE_H

#include <stddef.h>

/* An upper bound for the number of values and names in the text.  Counting stops above `max`; the
 * result is then max + 1.  The text need not be JSON. */
size_t flux_json_count(const char *text, size_t len, size_t max);

#endif
