/* trace_swf.c - a line of the Standard Workload Format.
 *
 * A line has eighteen numbers; -1 means that a value is not known.  These are used:
 *    1 id        4 runtime                 8 processors requested
 *    2 submit    5 processors allocated    9 time requested
 * The number of processors is the one requested, or else the one allocated.  The estimate is the
 * time requested, or else the runtime.  The other fields must be present, but are not parsed.
 *
 * Failure: EINVAL and an error message with the file and the line.
 */
#include "config.h"
#include <errno.h>

#include "trace_private.h"

#define NFIELDS 18

static const char *const names[NFIELDS] = {
    [0] = "the id",
    [1] = "the submit time",
    [3] = "the runtime",
    [4] = "the number of processors",
    [7] = "the number of processors requested",
    [8] = "the time requested",
};

int trace_swf_line(trace_t *t, const struct trace_line *l, uint32_t ppn, errmsg_t *err)
{
    struct trace_job job = {.line = l->number};
    int64_t value[NFIELDS] = {0}, processors;
    size_t at = 0, n = 0;

    while (n < NFIELDS) {
        size_t from;

        while (at < l->len && (l->text[at] == ' ' || l->text[at] == '\t'))
            at++;
        if (at == l->len)
            break;
        from = at;
        while (at < l->len && l->text[at] != ' ' && l->text[at] != '\t')
            at++;
        if (names[n] && trace_number(l, names[n], l->text + from, at - from, &value[n], err) < 0)
            return -1;
        n++;
    }
    if (n < NFIELDS)
        return errmsg_fail(err, EINVAL,
                           "%s, line %zu is too short: it has %zu of the %d fields of SWF", l->name,
                           l->number, n, NFIELDS);
    if (value[0] < 0)
        return errmsg_fail(err, EINVAL, "%s, line %zu: the id is negative", l->name, l->number);
    processors = value[7] > 0 ? value[7] : value[4];
    job.id = value[0];
    job.submit = value[1];
    job.runtime = value[3];
    job.estimate = value[8] > 0 ? value[8] : value[3];
    job.nodes = processors > 0 ? (processors + ppn - 1) / ppn : 0;
    return trace_add(t, &job, err);
}
