/* Lengths of time as text: "1.5h", "30s", "100ms", "2d", "90" (seconds), "inf". */
#ifndef UTIL_DURATION_H
#define UTIL_DURATION_H

#include <stddef.h>

#include "libutil/errmsg.h"

/* Text to seconds.  A decimal number, with a fraction if wanted, and one of the units ns, us, ms,
 * s, m (minutes), h, d (86400 s); no unit means seconds; "inf" is INFINITY.  Signs, blanks,
 * exponents and values above 1e12 s are refused.  0, or -1 with EINVAL or ERANGE and a sentence in
 * `err`, which may be NULL; *seconds is then unchanged.  Independent of the locale.  Thread-safe.
 */
int duration_parse(const char *s, double *seconds, errmsg_t *err);

/* Seconds to text with the largest unit that says it exactly in few digits, else rounded to 6
 * significant digits; "?" for a negative number or NaN.  Writes to `buf` (32 bytes always suffice,
 * a longer text is cut) and returns it. */
char *duration_format(double seconds, char *buf, size_t size);

#endif
