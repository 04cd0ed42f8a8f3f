/* strutil.c - strict conversions of text to numbers, and small string functions.
 *
 * Invariants:
 *  1. A conversion accepts the whole text or nothing.  strtol(3) and its relatives are not used:
 *     they skip blanks, accept '+', and stop at the first bad character.
 *  2. *out changes only on success.
 *
 * Failure: EINVAL for text that is not a number, ERANGE for a number that does not fit.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "strutil.h"

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

static int parse(const char *s, uint64_t max, uint64_t *out)
{
    uint64_t n = 0;
    int over = 0;

    if (!s || !*s)
        return fail(EINVAL);
    for (; *s; s++) {
        unsigned digit = (unsigned)(*s - '0');

        if (*s < '0' || *s > '9')
            return fail(EINVAL);
        if (over || n > max / 10 || n * 10 > max - digit)
            over = 1; /* continue: "99999999999999999999x" is malformed, not large */
        else
            n = n * 10 + digit;
    }
    if (over)
        return fail(ERANGE);
    *out = n;
    return 0;
}

static int parse_signed(const char *s, uint64_t max, int64_t *out)
{
    uint64_t n;

    if (s && *s == '-') {
        if (parse(s + 1, max + 1, &n) < 0)
            return -1;
        *out = n > 0 ? -(int64_t)(n - 1) - 1 : 0;
        return 0;
    }
    if (parse(s, max, &n) < 0)
        return -1;
    *out = (int64_t)n;
    return 0;
}

int str2u32(const char *s, uint32_t *out)
{
    uint64_t n;

    if (parse(s, UINT32_MAX, &n) < 0)
        return -1;
    *out = (uint32_t)n;
    return 0;
}

int str2u64(const char *s, uint64_t *out)
{
    return parse(s, UINT64_MAX, out);
}

int str2i32(const char *s, int32_t *out)
{
    int64_t n;

    if (parse_signed(s, INT32_MAX, &n) < 0)
        return -1;
    *out = (int32_t)n;
    return 0;
}

int str2bool(const char *s, bool *out)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {
        {"true", true}, {"false", false}, {"yes", true}, {"no", false},
        {"on", true},   {"off", false},   {"1", true},   {"0", false},
    };

    for (size_t i = 0; s && i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strcmp(s, words[i].word)) {
            *out = words[i].value;
            return 0;
        }
    }
    return fail(EINVAL);
}

bool str_starts(const char *s, const char *prefix)
{
    return s && prefix && strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n;
    size_t m;

    if (!s || !suffix)
        return false;
    n = strlen(s);
    m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

/* Length of the well-formed UTF-8 sequence at p, which has `len` > 0 bytes; 0 when malformed.
 * RFC 3629: the second byte decides about overlong forms, surrogates and the upper end. */
static size_t utf8_sequence(const unsigned char *p, size_t len)
{
    unsigned char lo = 0x80;
    unsigned char hi = 0xbf;
    size_t n;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        n = 2;
    else if (p[0] >= 0xe0 && p[0] <= 0xef)
        n = 3;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (len < n)
        return 0;
    if (p[0] == 0xe0)
        lo = 0xa0;
    else if (p[0] == 0xed)
        hi = 0x9f;
    else if (p[0] == 0xf0)
        lo = 0x90;
    else if (p[0] == 0xf4)
        hi = 0x8f;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    return n;
}

size_t str_utf8_span(const char *s, size_t len)
{
    size_t pos = 0;

    while (pos < len) {
        size_t n = utf8_sequence((const unsigned char *)s + pos, len - pos);

        if (n == 0)
            break;
        pos += n;
    }
    return pos;
}

void str_clean(char *s)
{
    size_t len = strlen(s);

    while (len > 0 && (s[len - 1] == '\n' || s[len - 1] == '\r'))
        s[--len] = '\0';
    for (size_t i = 0; i < len;) {
        size_t ok = str_utf8_span(s + i, len - i);
        for (size_t end = i + ok; i < end; i++) {
            if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
                s[i] = ' ';
        }
        if (i < len)
            s[i++] = '?';
    }
}
