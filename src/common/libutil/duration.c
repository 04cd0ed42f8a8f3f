/* duration.c - durations as text.
 *
 * Format:
 *
 *    number [ unit ]             1.5h  30s  .5m  1e3ms  90
 *    fields joined by ":"        MM:SS  HH:MM:SS
 *    days "-" fields             D-HH  D-HH:MM  D-HH:MM:SS
 *    "inf", "infinity", "infinite", "unlimited", in any case
 *
 * A field may exceed 59 ("0:90:00" is 90 minutes): its meaning is clear, and other schedulers
 * accept it.
 *
 * Invariants:
 *  1. Only the table of units knows how long a day is; parsing and formatting both use it.
 *  2. Digits are summed up here, not by strtod(3), which depends on the locale and accepts signs,
 *     blanks, hexadecimal numbers and "nan".
 *  3. The caller chooses the unit of a number without unit; no other form depends on it.
 *
 * Failure: EINVAL or ERANGE, and an error message.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "duration.h"

#define MAX_SECONDS 1e12L
#define MAX_DIGITS 18 /* digits that fit in 64 bits: enough for every value below 1e12 */

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

/* Append the digits at *s to the mantissa.  Returns their number, or -1 if there are too many. */
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

static const char *const forever[] = {"inf", "infinity", "infinite", "unlimited"};

static int no_number(const char *s, errmsg_t *err)
{
    return errmsg_fail(err, EINVAL,
                       "duration \"%.40s\" is not a number; write it like 30s, 1.5h, 2:30:00, "
                       "1-12:00:00 or inf",
                       s);
}

/* Add the exponent at *s ("e" and a number) to *exp.  An "e" without digits is left for the
 * unit. */
static void parse_exponent(const char **s, int *exp)
{
    const char *p = *s;
    bool minus;
    int n = 0;

    if (*p != 'e' && *p != 'E')
        return;
    minus = *++p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (*p < '0' || *p > '9')
        return;
    for (; *p >= '0' && *p <= '9'; p++)
        n = n < 5000 ? n * 10 + (*p - '0') : n;
    *exp += minus ? -n : n;
    *s = p;
}

/* Digits with a fraction or an exponent, and a unit. */
static int parse_decimal(const char *s, const char *bare, long double *value, errmsg_t *err)
{
    const char *p = s;
    uint64_t mant = 0;
    int total = 0, whole, frac = 0, exp = 0;
    long double scale = 1;
    size_t u;

    whole = parse_digits(&p, &mant, &total);
    if (whole >= 0 && *p == '.') {
        p++;
        frac = parse_digits(&p, &mant, &total);
    }
    if (whole < 0 || frac < 0 || frac > 4000)
        return errmsg_fail(err, ERANGE, "duration \"%.40s\" has too many digits", s);
    if (whole + frac == 0)
        return no_number(s, err);
    exp = -frac;
    parse_exponent(&p, &exp);
    for (u = 0; u < NUNITS; u++) {
        if (!strcmp(*p ? p : bare, units[u].name))
            break;
    }
    if (u == NUNITS)
        return errmsg_fail(err, EINVAL,
                           "duration \"%.40s\": the unit is one of ns, us, ms, s, m, h and d", s);
    if (exp > 40)
        exp = mant ? 40 : 0; /* too long in any unit */
    for (int i = 0; i < (exp < 0 ? -exp : exp) && i < 5000; i++)
        scale *= 10;
    *value = (long double)mant * units[u].num / units[u].den;
    *value = exp < 0 ? *value / scale : *value * scale;
    return 0;
}

/* [D-]HH:MM:SS, in full or in part. */
static int parse_fields(const char *s, long double *value, errmsg_t *err)
{
    static const uint32_t weight[] = {86400, 3600, 60, 1};
    const char *p = s;
    uint64_t field[4];
    bool days = false;
    size_t n = 0, first;

    for (;;) {
        int total = 0, digits;

        field[n] = 0;
        digits = parse_digits(&p, &field[n++], &total);
        if (digits < 0)
            return errmsg_fail(err, ERANGE, "duration \"%.40s\" has too many digits", s);
        if (digits == 0)
            return no_number(s, err);
        if (!*p)
            break;
        if (n == 1 && *p == '-')
            days = true;
        else if (*p != ':' || n == (days ? 4 : 3))
            return no_number(s, err);
        p++;
    }
    first = days ? 0 : 4 - n;
    *value = 0;
    for (size_t i = 0; i < n; i++)
        *value += (long double)field[i] * weight[first + i];
    return 0;
}

static int parse(const char *s, const char *bare, double *seconds, errmsg_t *err)
{
    long double value = 0;
    int rc;

    if (!s)
        return errmsg_fail(err, EINVAL, "duration: no text was given");
    for (size_t i = 0; i < sizeof(forever) / sizeof(forever[0]); i++) {
        if (strcasecmp(s, forever[i]) == 0) {
            *seconds = INFINITY;
            return 0;
        }
    }
    rc = s[strspn(s, "0123456789")] == ':' || (s[0] != '-' && s[strspn(s, "0123456789")] == '-')
             ? parse_fields(s, &value, err)
             : parse_decimal(s, bare, &value, err);
    if (rc < 0)
        return -1;
    if (value > MAX_SECONDS)
        return errmsg_fail(err, ERANGE, "duration \"%.40s\" is too long; write inf for no limit",
                           s);
    *seconds = (double)value;
    return 0;
}

int duration_parse(const char *s, double *seconds, errmsg_t *err)
{
    return parse(s, "s", seconds, err);
}

int duration_parse_minutes(const char *s, double *seconds, errmsg_t *err)
{
    return parse(s, "m", seconds, err);
}

/* Format the number in this unit, with the unit, and with 6 significant digits if it has a
 * fraction. True if the text means exactly `seconds`. */
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
        text[len] = '.'; /* whatever the locale's point is */
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

        /* A million of a unit below the second would be exact, but hard to read. */
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
