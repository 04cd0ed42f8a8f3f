/* size.c - sizes in bytes as text.
 *
 * Format:  digits [ "." digits ] [ letter [ "iB" | "B" ] | "B" ] letter: K M G T P E, upper or
 * lower case.  Alone or with "iB" it is a power of 1024, with "B" alone a power of 1000.
 *
 * Invariants:
 *  1. Only integers are used: the product of number and unit has 128 bits, so no overflow is
 *     missed, and only a fraction of a byte is rounded.
 *  2. size_parse(size_format(n)) == n for every n.
 *
 * Failure: EINVAL or ERANGE, and an error message.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "size.h"

#define MAX_DIGITS 20

static const char letters[] = "KMGTPE";

/* The unit that is the whole text at `s`, or 0. */
static uint64_t parse_unit(const char *s)
{
    const char *letter;
    uint64_t base = 1024;
    uint64_t unit = 1;

    if (!*s || !strcmp(s, "B"))
        return 1;
    letter = strchr(letters, *s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
    if (!letter)
        return 0;
    if (!strcmp(s + 1, "B"))
        base = 1000;
    else if (s[1] != '\0' && strcmp(s + 1, "iB") != 0)
        return 0;
    for (const char *p = letters; p <= letter; p++)
        unit *= base;
    return unit;
}

int size_parse(const char *s, uint64_t *bytes, errmsg_t *err)
{
    const char *p = s;
    unsigned __int128 value = 0;
    unsigned __int128 scale = 1;
    int digits = 0;
    int frac = -1;
    uint64_t unit;

    if (!s)
        return errmsg_fail(err, EINVAL, "size: no text was given");
    for (; (*p >= '0' && *p <= '9') || (*p == '.' && frac < 0 && digits > 0); p++) {
        if (*p == '.') {
            frac = 0;
            continue;
        }
        if (++digits > MAX_DIGITS)
            return errmsg_fail(err, ERANGE, "size \"%.40s\" has more than %d digits", s,
                               MAX_DIGITS);
        value = value * 10 + (unsigned)(*p - '0');
        if (frac >= 0) {
            frac++;
            scale *= 10;
        }
    }
    if (digits == 0 || frac == 0)
        return errmsg_fail(err, EINVAL, "size \"%.40s\" is not a number; write it like 64K or 1.5M",
                           s);
    unit = parse_unit(p);
    if (unit == 0)
        return errmsg_fail(
            err, EINVAL, "size \"%.40s\": the unit is B or one of K M G T P E, like 64K, 64KiB", s);
    if (frac > 0 && unit == 1)
        return errmsg_fail(err, EINVAL, "size \"%.40s\" is not a whole number of bytes", s);
    value = value * unit / scale;
    if (value > UINT64_MAX)
        return errmsg_fail(err, ERANGE, "size \"%.40s\" is 16 EiB or more", s);
    *bytes = (uint64_t)value;
    return 0;
}

char *size_format(uint64_t bytes, char *buf, size_t size)
{
    for (int i = 5; i >= 0; i--) {
        uint64_t unit = 1ULL << (10 * (i + 1));
        uint64_t frac;
        char text[8];
        int len;

        /* Exact with at most three decimals, or else in a smaller unit. */
        if (bytes < unit || (unsigned __int128)(bytes % unit) * 1000 % unit != 0)
            continue;
        frac = (uint64_t)((unsigned __int128)(bytes % unit) * 1000 / unit);
        len = snprintf(text, sizeof(text), ".%03u", (unsigned)frac);
        while (len > 0 && (text[len - 1] == '0' || text[len - 1] == '.'))
            len--;
        text[len] = '\0';
        snprintf(buf, size, "%" PRIu64 "%s%c", bytes / unit, text, letters[i]);
        return buf;
    }
    snprintf(buf, size, "%" PRIu64, bytes);
    return buf;
}

char *size_format_short(uint64_t bytes, char *buf, size_t size)
{
    uint64_t unit = 1;
    int i = 0;
    double x;
    int decimals;

    while (i < 6 && bytes / unit >= 1000) {
        unit *= 1024;
        i++;
    }
    if (i == 0) {
        snprintf(buf, size, "%" PRIu64, bytes);
        return buf;
    }
    x = (double)bytes / (double)unit;
    decimals = x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
    snprintf(buf, size, "%.*f%c", decimals, x, letters[i - 1]);
    return buf;
}
