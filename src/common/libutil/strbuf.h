/* Text under construction.  An error is remembered, so callers append without checks and check
 * once, at the end.  Not thread-safe.
 */
#ifndef UTIL_STRBUF_H
#define UTIL_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

typedef struct strbuf strbuf_t;

/* `max`: the most bytes of text (0: no limit).  NULL with ENOMEM. */
strbuf_t *strbuf_create(size_t max);
void strbuf_destroy(strbuf_t *sb); /* NULL-safe, keeps errno */

/* Append.  0, or -1 with ENOMEM or E2BIG (limit); from then on every append fails in the same way.
 * A NULL `sb` fails with ENOMEM, so the result of strbuf_create() need not be checked. */
int strbuf_add(strbuf_t *sb, const char *s);
int strbuf_addn(strbuf_t *sb, const void *data, size_t len);
int strbuf_addc(strbuf_t *sb, char c);
int strbuf_addf(strbuf_t *sb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Fail with `errnum` from now on, like a failed append.  Returns -1 with that errno, or with that
 * of an earlier failure. */
int strbuf_fail(strbuf_t *sb, int errnum);

/* The text so far, always NUL-terminated, valid until the next append; its length. */
const char *strbuf_str(const strbuf_t *sb);
size_t strbuf_len(const strbuf_t *sb);

/* Truncate to `len` bytes; no effect if the text is shorter. */
void strbuf_trunc(strbuf_t *sb, size_t len);

/* Destroy `sb` and return its text, which the caller frees.  NULL with the errno of the first
 * failed append. */
char *strbuf_take(strbuf_t *sb);

#endif
