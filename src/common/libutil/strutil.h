/* Strict conversions of text to numbers, and small string functions.  Thread-safe, independent of
 * the locale.
 */
#ifndef UTIL_STRUTIL_H
#define UTIL_STRUTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parse the whole of `s` as a decimal integer: only digits, after an optional '-' for the signed
 * types; no blanks, no '+'.  0, or -1 with EINVAL (NULL or not a number) or ERANGE; *out is then
 * unchanged. */
int str2u32(const char *s, uint32_t *out);
int str2u64(const char *s, uint64_t *out);
int str2i32(const char *s, int32_t *out);

/* true, false, yes, no, on, off, 1, 0.  0, or -1 with EINVAL. */
int str2bool(const char *s, bool *out);

/* Does `s` begin (end) with that string?  False for NULL. */
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* Length of the longest prefix of s[0..len) that is well-formed UTF-8 (no surrogates, no overlong
 * forms, at most U+10FFFF); `len` if all of it is. */
size_t str_utf8_span(const char *s, size_t len);
/* Make `s` fit for a JSON string of one line, in place: bytes that are not UTF-8 become '?',
 * control characters become blanks, and newlines at the end are removed. */
void str_clean(char *s);

#endif
