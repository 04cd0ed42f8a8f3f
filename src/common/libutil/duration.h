/* Durations as text: "1.5h", "30s", "100ms", "2d", "90", "2:30:00", "1-12", "inf". */
#ifndef UTIL_DURATION_H
#define UTIL_DURATION_H

#include <stddef.h>

#include "libutil/errmsg.h"

/* Text to seconds.  One of
 *    a decimal number (with an optional fraction or exponent) and one of the units ns, us, ms, s,
 *    m (minutes), h, d (86400 s); a number without unit means seconds;
 *    MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, as other schedulers read them;
 *    "inf", "infinity", "infinite" or "unlimited": INFINITY.
 * Signs, blanks and values above 1e12 s are refused.  0, or -1 with EINVAL or ERANGE and an error
 * message in `err`, which may be NULL; *seconds is then unchanged.  Independent of the locale.
 * Thread-safe.
 */
int duration_parse(const char *s, double *seconds, errmsg_t *err);
/* The same, except that a number without unit means minutes: the time limit of a job. */
int duration_parse_minutes(const char *s, double *seconds, errmsg_t *err);

/* Seconds to text, in the largest unit that represents them exactly with few digits, else rounded
 * to 6 significant digits; "?" for a negative number or NaN.  Writes to `buf` (32 bytes are always
 * enough; a longer text is truncated) and returns it. */
char *duration_format(double seconds, char *buf, size_t size);

#endif
