/* Strict conversions of text to numbers, and small string questions.  Thread-safe, no locale. */
#ifndef UTIL_STRUTIL_H
#define UTIL_STRUTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The whole of `s` as a decimal integer: digits only, after one '-' for the signed ones; no blanks,
 * no '+'.  0, or -1 with EINVAL (NULL or not a number) or ERANGE; *out is then unchanged. */
int str2u32(const char *s, uint32_t *out);
int str2u64(const char *s, uint64_t *out);
int str2i32(const char *s, int32_t *out);
int str2i64(const char *s, int64_t *out);

/* true, false, yes, no, on, off, 1, 0.  0, or -1 with EINVAL. */
int str2bool(const char *s, bool *out);

/* Does `s` begin (end) with that?  false for NULL. */
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* Length of the longest start of s[0..len) that is well-formed UTF-8 (no surrogates, no overlong
 * forms, at most U+10FFFF).  Equal to `len` when all of it is. */
size_t str_utf8_span(const char *s, size_t len);
/* Make it fit to be a JSON string of one line, in place: what is not UTF-8 becomes '?', a control
 * character a blank; line ends at the end go. */
void str_clean(char *s);

#endif
