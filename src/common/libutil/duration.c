/* duration.c - lengths of time as text.
 *
 * Format owned here:  "inf" | digits [ "." digits ] [ unit ]    ("1.", ".5" and "" are refused)
 *
 * Invariants:
 *  1. The table of units is the only place that knows how long a day is; parsing and formatting
 * both read it.
 *  2. Digits are summed up here, not by strtod(3), which depends on the locale and takes signs,
 *     blanks, exponents, hexadecimals and "nan".
 *
 * Failure: EINVAL or ERANGE and a sentence.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "duration.h"

#define MAX_SECONDS 1e12L
#define MAX_DIGITS 18 /* that fit in 64 bits; more are not needed to say anything below 1e12 */

/* Largest first.  num/den rather than one number: 1/1000 is not exact in binary. */
static const struct {
    const char *name;
    long double num;
    long double den;
} units[] = {
    {"d", 86400, 1}, {"h", 3600, 1},     {"m", 60, 1},          {"s", 1, 1},
    {"ms", 1, 1000}, {"us", 1, 1000000}, {"ns", 1, 1000000000},
};
#define NUNITS (sizeof(units) / sizeof(units[0]))

/* Digits at *s: appended to the mantissa.  The number of them, or -1 when there are too many. */
static int parse_digits(const char **s, uint64_t *mant, int *total)
{
    int n = 0;

    for (; **s >= '0' && **s <= '9'; (*s)++, n++) {
        if (*mant > 0 && ++*total > MAX_DIGITS)
            return -1;
        *mant = *mant * 10 + (uint64_t)(**s - '0');
    }
    return n;
}

int duration_parse(const char *s, double *seconds, errmsg_t *err)
{
    const char *p = s;
    uint64_t mant = 0;
    int total = 0;
    int whole;
    int frac = 0;
    long double value;
    long double scale = 1;
    size_t u;

    if (!s)
        return errmsg_fail(err, EINVAL, "duration: no text was given");
    if (!strcmp(s, "inf")) {
        *seconds = INFINITY;
        return 0;
    }
    whole = parse_digits(&p, &mant, &total);
    if (whole > 0 && *p == '.') {
        p++;
        frac = parse_digits(&p, &mant, &total);
        if (frac == 0)
            whole = 0; /* a point needs digits on both sides */
    }
    if (whole < 0 || frac < 0 || frac > 4000)
        return errmsg_fail(err, ERANGE, "duration \"%.40s\" has too many digits", s);
    if (whole == 0)
        return errmsg_fail(err, EINVAL,
                           "duration \"%.40s\" is not a number; write it like 30s, 1.5h or inf", s);
    for (u = 0; u < NUNITS; u++) {
        if (!strcmp(*p ? p : "s", units[u].name))
            break;
    }
    if (u == NUNITS)
        return errmsg_fail(err, EINVAL,
                           "duration \"%.40s\": the unit is one of ns, us, ms, s, m, h and d", s);
    for (int i = 0; i < frac; i++)
        scale *= 10;
    value = (long double)mant * units[u].num / (units[u].den * scale);
    if (value > MAX_SECONDS)
        return errmsg_fail(err, ERANGE, "duration \"%.40s\" is too long; write inf for no limit",
                           s);
    *seconds = (double)value;
    return 0;
}

/* The number in this unit, 6 significant digits where it has a fraction, with the unit.  True when
 * the text means exactly `seconds`. */
static bool format_in(double seconds, size_t u, char *text, size_t size)
{
    long double value = (long double)seconds * units[u].den / units[u].num;
    long double limit = 1;
    int decimals = 6;
    double back;
    size_t len;

    for (; decimals > 0 && value >= limit; limit *= 10)
        decimals--;
    snprintf(text, size, "%.*Lf", decimals, value);
    len = strlen(text);
    if (decimals > 0) {
        len = strspn(text, "0123456789");
        text[len] = '.'; /* whatever the locale wrote */
        len = strlen(text);
        while (text[len - 1] == '0')
            len--;
        if (text[len - 1] == '.')
            len--;
    }
    snprintf(text + len, size - len, "%s", units[u].name);
    return duration_parse(text, &back, NULL) == 0 && !(back < seconds) && !(back > seconds);
}

char *duration_format(double seconds, char *buf, size_t size)
{
    int saved = errno;
    char text[64];
    size_t u;

    if (!(seconds >= 0)) {
        snprintf(buf, size, "?");
        return buf;
    }
    if (seconds > (double)MAX_SECONDS) {
        snprintf(buf, size, "inf");
        return buf;
    }
    if (!(seconds > 0)) {
        snprintf(buf, size, "0s");
        return buf;
    }
    for (u = 0; u < NUNITS; u++) {
        long double scaled = (long double)seconds * units[u].den;

        /* A million of a unit below the second is exact, but nobody reads it. */
        if (scaled >= units[u].num && (scaled < 1e6L || units[u].den <= 1) &&
            format_in(seconds, u, text, sizeof(text)))
            break;
    }
    if (u == NUNITS) {
        for (u = 0; u < NUNITS - 1; u++) {
            if ((long double)seconds * units[u].den >= units[u].num)
                break;
        }
        (void)format_in(seconds, u, text, sizeof(text));
    }
    snprintf(buf, size, "%s", text);
    errno = saved;
    return buf;
}
