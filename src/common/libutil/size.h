/* Sizes in bytes as text: "64", "64K", "1.5M", "2GiB", "3GB". */
#ifndef UTIL_SIZE_H
#define UTIL_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

/* Text to bytes.  A decimal number and one of K M G T P E (also lower case; powers of 1024), KiB...
 * (the same), KB... (powers of 1000) or B.  A fraction needs a unit larger than bytes, and is
 * rounded down to a whole byte.  0, or -1 with EINVAL or ERANGE (2^64 and above) and an error
 * message in `err`, which may be NULL; *bytes is then unchanged.  Thread-safe. */
int size_parse(const char *s, uint64_t *bytes, errmsg_t *err);

/* Bytes to text that size_parse() turns into the same number: "1.5M", "1000".  Writes to `buf` (32
 * bytes are always enough; a longer text is truncated) and returns it. */
char *size_format(uint64_t bytes, char *buf, size_t size);

/* The same, rounded to about 3 significant digits, for tables: "1.46M". */
char *size_format_short(uint64_t bytes, char *buf, size_t size);

#endif
