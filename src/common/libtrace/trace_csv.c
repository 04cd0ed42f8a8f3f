/* trace_csv.c - a table of jobs with a header line of names, as `sacct -X -P` prints it.
 *
 * Format:
 *    fields    separated by ',' or '|', whichever the first line has; "..." around a field, with ""
 *              for a quotation mark in it
 *    JobID     a number
 *    NNodes    a number
 *    Submit    seconds, or YYYY-MM-DDThh:mm:ss in UTC
 *    Elapsed   seconds, or [D-]HH:MM:SS
 *    Timelimit likewise; empty, 0, UNLIMITED or Partition_Limit: no limit
 * The names may be in any order and in any case; other columns are ignored.
 *
 * Failure: EINVAL and an error message with the file and the line.
 */
#include "config.h"
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "trace_private.h"

enum { ID, NNODES, LIMIT, SUBMIT, ELAPSED, NCOLUMNS };
static const char *const names[NCOLUMNS] = {"JobID", "NNodes", "Timelimit", "Submit", "Elapsed"};

#define FIELD_MAX 256

struct field {
    char text[FIELD_MAX];
    size_t len; /* FIELD_MAX: longer than that */
};

/* The next field, without its quotation marks; *at is moved behind it.  False at the end. */
static bool next_field(const struct trace_line *l, char separator, size_t *at, struct field *f)
{
    bool quoted = false, more = *at <= l->len;

    f->len = 0;
    for (; *at < l->len && (quoted || l->text[*at] != separator); ++*at) {
        char c = l->text[*at];

        if (c == '"' && quoted && *at + 1 < l->len && l->text[*at + 1] == '"')
            ++*at;
        else if (c == '"') {
            quoted = !quoted;
            continue;
        }
        if (f->len < FIELD_MAX - 1)
            f->text[f->len] = c;
        if (f->len < FIELD_MAX)
            f->len++;
    }
    ++*at;
    f->text[f->len < FIELD_MAX ? f->len : FIELD_MAX - 1] = '\0';
    return more;
}

bool trace_csv_is_header(const struct trace_line *l)
{
    struct field f;

    for (const char *sep = ",|"; *sep; sep++)
        for (size_t at = 0; next_field(l, *sep, &at, &f);)
            if (strcasecmp(f.text, names[ID]) == 0)
                return true;
    return false;
}

int trace_csv_header(struct trace_csv *csv, const struct trace_line *l, errmsg_t *err)
{
    struct field f;
    size_t at = 0;

    csv->separator = memchr(l->text, '|', l->len) ? '|' : ',';
    for (int i = 0; i < NCOLUMNS; i++)
        csv->column[i] = -1;
    for (int n = 0; next_field(l, csv->separator, &at, &f); n++) {
        for (int i = 0; i < NCOLUMNS; i++) {
            if (strcasecmp(f.text, names[i]) != 0)
                continue;
            if (csv->column[i] >= 0)
                return errmsg_fail(err, EINVAL, "%s, line %zu: there are two columns %s", l->name,
                                   l->number, names[i]);
            csv->column[i] = n;
        }
    }
    for (int i = 0; i < NCOLUMNS; i++)
        if (csv->column[i] < 0)
            return errmsg_fail(err, EINVAL, "%s, line %zu: there is no column %s", l->name,
                               l->number, names[i]);
    return 0;
}

/* Parse digits at *s, between lo and hi; *s is moved behind them. */
static bool digits(const char **s, size_t count, int64_t lo, int64_t hi, int64_t *out)
{
    int64_t v = 0;

    for (size_t i = 0; i < count; i++, ++*s) {
        if (**s < '0' || **s > '9')
            return false;
        v = v * 10 + (**s - '0');
    }
    *out = v;
    return v >= lo && v <= hi;
}

static bool literal(const char **s, char c)
{
    return **s == c ? (++*s, true) : false;
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t month_days(int64_t year, int64_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

/* Days from 1970-01-01: those of whole years, then of whole months. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = year - 1, days = y * 365 + y / 4 - y / 100 + y / 400 - 719162;

    for (int64_t m = 1; m < month; m++)
        days += month_days(year, m);
    return days + day - 1;
}

static bool date(const char *s, int64_t *out)
{
    int64_t y, mon, d, h, min, sec;

    if (!digits(&s, 4, 1, 9999, &y) || !literal(&s, '-') || !digits(&s, 2, 1, 12, &mon) ||
        !literal(&s, '-') || !digits(&s, 2, 1, month_days(y, mon), &d) || !literal(&s, 'T') ||
        !digits(&s, 2, 0, 23, &h) || !literal(&s, ':') || !digits(&s, 2, 0, 59, &min) ||
        !literal(&s, ':') || !digits(&s, 2, 0, 60, &sec) || *s)
        return false;
    *out = days_of(y, mon, d) * 86400 + h * 3600 + min * 60 + sec;
    return true;
}

/* [D-]HH:MM:SS */
static bool length(const char *s, int64_t *out)
{
    size_t n = strspn(s, "0123456789");
    int64_t d = 0, h, m, sec;

    if (s[n] == '-') {
        if (n == 0 || n > 7 || !digits(&s, n, 0, 9999999, &d) || !literal(&s, '-'))
            return false;
        n = strspn(s, "0123456789");
    }
    if (n < 2 || n > 7 || !digits(&s, n, 0, 9999999, &h) || !literal(&s, ':') ||
        !digits(&s, 2, 0, 59, &m) || !literal(&s, ':') || !digits(&s, 2, 0, 59, &sec) || *s)
        return false;
    *out = d * 86400 + h * 3600 + m * 60 + sec;
    return *out <= TRACE_VALUE_MAX;
}

static bool no_limit(const char *s)
{
    return !*s || strcasecmp(s, "UNLIMITED") == 0 || strcasecmp(s, "Partition_Limit") == 0;
}

static int value(const struct trace_line *l, int column, const struct field *f, int64_t *out,
                 errmsg_t *err)
{
    if (f->len >= FIELD_MAX)
        return errmsg_fail(err, EINVAL, "%s, line %zu: %s is longer than %d bytes", l->name,
                           l->number, names[column], FIELD_MAX);
    if (column == LIMIT && no_limit(f->text)) {
        *out = 0;
        return 0;
    }
    if (column == SUBMIT && strchr(f->text, 'T')) {
        if (date(f->text, out))
            return 0;
        return errmsg_fail(err, EINVAL,
                           "%s, line %zu: Submit '%.40s' is not a time YYYY-MM-DDThh:mm:ss",
                           l->name, l->number, f->text);
    }
    if ((column == LIMIT || column == ELAPSED) && strchr(f->text, ':')) {
        if (length(f->text, out))
            return 0;
        return errmsg_fail(err, EINVAL, "%s, line %zu: %s '%.40s' is not a duration [D-]HH:MM:SS",
                           l->name, l->number, names[column], f->text);
    }
    return trace_number(l, names[column], f->text, f->len, out, err);
}

int trace_csv_line(trace_t *t, const struct trace_csv *csv, const struct trace_line *l,
                   errmsg_t *err)
{
    struct trace_job job = {.line = l->number};
    struct field f;
    int64_t v[NCOLUMNS];
    size_t at = 0;
    int n = 0, found = 0;

    for (; next_field(l, csv->separator, &at, &f); n++) {
        for (int i = 0; i < NCOLUMNS; i++) {
            if (csv->column[i] == n) {
                if (value(l, i, &f, &v[i], err) < 0)
                    return -1;
                found++;
            }
        }
    }
    if (found < NCOLUMNS)
        return errmsg_fail(err, EINVAL, "%s, line %zu is too short: it has %d fields", l->name,
                           l->number, n);
    if (v[ID] < 0)
        return errmsg_fail(err, EINVAL, "%s, line %zu: JobID is negative", l->name, l->number);
    job.id = v[ID];
    job.submit = v[SUBMIT];
    job.runtime = v[ELAPSED];
    job.estimate = v[LIMIT] > 0 ? v[LIMIT] : v[ELAPSED];
    job.nodes = v[NNODES];
    return trace_add(t, &job, err);
}
