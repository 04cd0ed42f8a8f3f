/* nested.c - see nested.h.
 *
 * The check is strict, because a broker that wrongly regards itself as a task of a job would use
 * only a few cores of the machine.  The number of the job, the address of its session and the
 * number of the task must all be present.  The initial program of a nested session has only the
 * first of them, and sessions that it starts are not jobs.
 */
#include "nested.h"

#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"

/* Seconds since 1970; 0 if the text is not such a time. */
static double a_time(const char *text)
{
    char *end;
    double t = text && text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : 0.;

    return t > 0. && t < 1e12 && !*end ? t : 0.;
}

bool nested_read(struct nested *n)
{
    const char *id = getenv("FLUX_JOB_ID");
    const char *uri = getenv("FLUX_URI");
    const char *level = getenv("FLUX_JOB_LEVEL");
    const char *tmpdir = getenv("FLUX_JOB_TMPDIR");
    const char *expiration = getenv("FLUX_JOB_EXPIRATION");
    uint64_t num;

    memset(n, 0, sizeof(*n));
    if (!id || !uri || !getenv("FLUX_TASK_RANK") || str2u64(id, &num) < 0 ||
        !str_starts(uri, "local:///"))
        return false;
    if (!level || str2u32(level, &n->level) < 0 || n->level == 0 || n->level > NESTED_LEVEL_MAX)
        n->level = 1;
    n->jobid = id;
    n->parent = uri;
    n->tmpdir = tmpdir && tmpdir[0] == '/' ? tmpdir : NULL;
    n->expiration = a_time(expiration) > 0. ? expiration : NULL;
    return true;
}

int nested_attrs(const struct nested *n, attrs_t *attrs)
{
    double own = a_time(attrs_get(attrs, "sched.expiration"));

    if (attrs_setf(attrs, "instance-level", true, "%u", n->level) < 0)
        return -1;
    if (n->level == 0)
        return 0;
    if (n->expiration && !(own > 0. && own < a_time(n->expiration)) &&
        (attrs_set(attrs, "sched.expiration", n->expiration, true) < 0 ||
         attrs_set_source(attrs, "sched.expiration", "environment FLUX_JOB_EXPIRATION") < 0))
        return -1;
    return attrs_set(attrs, "jobid", n->jobid, true) < 0 ||
                   attrs_set(attrs, "parent-uri", n->parent, true) < 0
               ? -1
               : 0;
}

double nested_patience(const struct nested *n, double seconds)
{
    for (uint32_t i = 0; i < n->level && seconds > 0.1; i++)
        seconds /= 2;
    return seconds;
}
