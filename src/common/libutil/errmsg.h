/* One clear error message besides errno.
 *
 * Functions that can fail for a reason that people should read take an `errmsg_t *` (which may be
 * NULL), and leave there an error message that says what failed, where, and what to do.
 */
#ifndef UTIL_ERRMSG_H
#define UTIL_ERRMSG_H

typedef struct errmsg {
    char text[256];
} errmsg_t;

/* Set the message, truncated to 255 bytes.  `e` may be NULL.  Keeps errno.  Thread-safe. */
void errmsg_set(errmsg_t *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* errmsg_set(), then errno = errnum.  Always returns -1, for the caller's return statement. */
int errmsg_fail(errmsg_t *e, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
