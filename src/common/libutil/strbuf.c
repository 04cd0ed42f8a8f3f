/* strbuf.c - text under construction.
 *
 * Invariants:
 *  1. `text`, once allocated, has a NUL at text[len], and len < cap.
 *  2. A failed append sets `errnum` and changes nothing else; later appends fail with the same
 *     error.  strbuf_take() thus returns a complete text or NULL, never a text with a gap.
 *
 * Failure: ENOMEM, E2BIG beyond the limit, or the error given to strbuf_fail().
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strbuf.h"
#include "libutil/invariant.h"

struct strbuf {
    char *text;
    size_t len;
    size_t cap;
    size_t max;
    int errnum;
};

strbuf_t *strbuf_create(size_t max)
{
    strbuf_t *sb = calloc(1, sizeof(*sb));

    if (sb)
        sb->max = max;
    return sb;
}

void strbuf_destroy(strbuf_t *sb)
{
    int saved = errno;

    if (sb) {
        free(sb->text);
        free(sb);
    }
    errno = saved;
}

/* Room for `len` more bytes and the NUL. */
static int grow(strbuf_t *sb, size_t len)
{
    size_t cap;
    char *text;

    if (!sb) {
        errno = ENOMEM;
        return -1;
    }
    if (!sb->errnum && (len > SIZE_MAX / 4 - sb->len || (sb->max && len > sb->max - sb->len)))
        sb->errnum = E2BIG;
    if (sb->errnum) {
        errno = sb->errnum;
        return -1;
    }
    if (sb->text && len < sb->cap - sb->len)
        return 0;
    cap = sb->cap ? sb->cap : 64;
    while (cap <= sb->len + len)
        cap *= 2;
    text = realloc(sb->text, cap);
    if (!text) {
        sb->errnum = ENOMEM;
        return -1;
    }
    if (!sb->text)
        text[0] = '\0';
    sb->text = text;
    sb->cap = cap;
    return 0;
}

int strbuf_addn(strbuf_t *sb, const void *data, size_t len)
{
    if (grow(sb, len) < 0)
        return -1;
    if (len > 0)
        memcpy(sb->text + sb->len, data, len);
    sb->len += len;
    sb->text[sb->len] = '\0';
    INVARIANT(1, sb->len < sb->cap);
    INVARIANT(2, sb->errnum == 0);
    return 0;
}

int strbuf_add(strbuf_t *sb, const char *s)
{
    return strbuf_addn(sb, s, strlen(s));
}

int strbuf_addc(strbuf_t *sb, char c)
{
    return strbuf_addn(sb, &c, 1);
}

static __attribute__((format(printf, 2, 0))) int strbuf_vaddf(strbuf_t *sb, const char *fmt,
                                                              va_list ap)
{
    char small[128];
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(small, sizeof(small), fmt, ap);
    if (n < 0) {
        if (sb && !sb->errnum)
            sb->errnum = EINVAL;
        errno = EINVAL;
        n = -1;
    } else if ((size_t)n < sizeof(small)) {
        n = strbuf_addn(sb, small, (size_t)n);
    } else if (grow(sb, (size_t)n) == 0) {
        vsnprintf(sb->text + sb->len, (size_t)n + 1, fmt, again);
        sb->len += (size_t)n;
        n = 0;
    } else {
        n = -1;
    }
    va_end(again);
    return n;
}

int strbuf_addf(strbuf_t *sb, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = strbuf_vaddf(sb, fmt, ap);
    va_end(ap);
    return rc;
}

int strbuf_fail(strbuf_t *sb, int errnum)
{
    if (sb && !sb->errnum)
        sb->errnum = errnum;
    errno = sb ? sb->errnum : ENOMEM;
    return -1;
}

const char *strbuf_str(const strbuf_t *sb)
{
    return sb && sb->text ? sb->text : "";
}

size_t strbuf_len(const strbuf_t *sb)
{
    return sb ? sb->len : 0;
}

void strbuf_trunc(strbuf_t *sb, size_t len)
{
    if (sb && len < sb->len) {
        sb->len = len;
        sb->text[len] = '\0';
    }
}

char *strbuf_take(strbuf_t *sb)
{
    char *text;

    if (grow(sb, 0) < 0) {
        strbuf_destroy(sb);
        return NULL;
    }
    text = sb->text;
    free(sb);
    return text;
}
