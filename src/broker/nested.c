/* nested.c - see nested.h.
 *
 * Strict on purpose: a broker that wrongly believes to be a job would take a few cores for the
 * whole machine.  So both the number of the job and the address of its session have to be there.
 */
#include "nested.h"

#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"

bool nested_read(struct nested *n)
{
    const char *id = getenv("FLUX_JOB_ID");
    const char *uri = getenv("FLUX_URI");
    const char *level = getenv("FLUX_JOB_LEVEL");
    const char *tmpdir = getenv("FLUX_JOB_TMPDIR");
    uint64_t num;

    memset(n, 0, sizeof(*n));
    if (!id || !uri || str2u64(id, &num) < 0 || !str_starts(uri, "local:///"))
        return false;
    if (!level || str2u32(level, &n->level) < 0 || n->level == 0 || n->level > NESTED_LEVEL_MAX)
        n->level = 1;
    n->jobid = id;
    n->parent = uri;
    n->tmpdir = tmpdir && tmpdir[0] == '/' ? tmpdir : NULL;
    return true;
}

int nested_attrs(const struct nested *n, attrs_t *attrs)
{
    if (attrs_setf(attrs, "instance-level", true, "%u", n->level) < 0)
        return -1;
    if (n->level == 0)
        return 0;
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
