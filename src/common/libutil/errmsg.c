/* errmsg.c - error messages for people, besides errno for programs.
 *
 * Invariants:
 *  1. The text is always NUL-terminated and never contains a newline: a message takes one line of a
 *     log or a terminal, whatever bytes came from outside.
 *  2. No call changes errno, except errmsg_fail(), which sets it last.
 *
 * Failure: a text that does not fit is truncated.  Nothing is allocated.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "errmsg.h"

static void set_va(errmsg_t *e, const char *fmt, va_list ap)
{
    if (!e)
        return;
    if (vsnprintf(e->text, sizeof(e->text), fmt, ap) < 0)
        e->text[0] = '\0';
    for (char *p = e->text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    }
}

void errmsg_set(errmsg_t *e, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;

    va_start(ap, fmt);
    set_va(e, fmt, ap);
    va_end(ap);
    errno = saved;
}

int errmsg_fail(errmsg_t *e, int errnum, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_va(e, fmt, ap);
    va_end(ap);
    errno = errnum;
    return -1;
}
