/* How much memory a JSON text would take, before it is parsed.  Thread-safe. */
#ifndef FLUX_JSONSIZE_H
#define FLUX_JSONSIZE_H

#include <stddef.h>

/* At least as many as the values and names in the text; counting ends when there are more than `max`,
 * and then the result is max + 1.  The text need not be JSON. */
size_t flux_json_count(const char *text, size_t len, size_t max);

#endif
