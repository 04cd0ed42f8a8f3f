/* jobspec_names.c - words of a jobspec and the numbers that stand for them in C. */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <string.h>

#include "jobspec_build.h"
#include "libutil/duration.h"
#include "libutil/rlimits.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const stdin_names[] = {"first", "all", "none"};
static const char *const layout_names[] = {"block", "cyclic"};
static const char *const affinity_names[] = {"on", "off", "per-task"};
static const char *const mpi_names[] = {"both", "pmi", "pmix", "none"};
static const char *const dep_names[] = {"after", "afterany", "afterok", "afternotok"};

static int find(const char *const names[], size_t n, const char *s)
{
    for (size_t i = 0; s && i < n; i++)
        if (!strcmp(names[i], s))
            return (int)i;
    errno = EINVAL;
    return -1;
}

void joboptions_init(struct joboptions *o)
{
    memset(o, 0, sizeof(*o));
    o->grace = -1;
    o->umask = -1;
    o->output_limit = JOBSPEC_NO_LIMIT;
}

const char *job_stdin_name(enum job_stdin v)
{
    return (size_t)v < COUNT(stdin_names) ? stdin_names[v] : NULL;
}

const char *job_layout_name(enum job_layout v)
{
    return (size_t)v < COUNT(layout_names) ? layout_names[v] : NULL;
}

const char *job_affinity_name(enum job_affinity v)
{
    return (size_t)v < COUNT(affinity_names) ? affinity_names[v] : NULL;
}

const char *job_mpi_name(enum job_mpi v)
{
    return (size_t)v < COUNT(mpi_names) ? mpi_names[v] : NULL;
}

const char *job_dep_name(enum job_dep_scheme v)
{
    return (size_t)v < COUNT(dep_names) ? dep_names[v] : NULL;
}

int job_stdin_parse(const char *s)
{
    return find(stdin_names, COUNT(stdin_names), s);
}

int job_layout_parse(const char *s)
{
    return find(layout_names, COUNT(layout_names), s);
}

int job_affinity_parse(const char *s)
{
    return find(affinity_names, COUNT(affinity_names), s);
}

int job_mpi_parse(const char *s)
{
    return find(mpi_names, COUNT(mpi_names), s);
}

int job_dep_parse(const char *s)
{
    return find(dep_names, COUNT(dep_names), s);
}

int job_rlimit_parse(const char *name)
{
    return rlimit_parse(name);
}

int job_limit_parse(const char *s, double *seconds, errmsg_t *err)
{
    double t;

    if (duration_parse_minutes(s, &t, err) < 0)
        return -1;
    if (t <= 0.)
        return errmsg_fail(err, EINVAL, "must be greater than 0; write inf for no limit");
    *seconds = isinf(t) ? 0. : t;
    return 0;
}

int job_grace_parse(const char *s, double *seconds, errmsg_t *err)
{
    double t;

    if (duration_parse(s, &t, err) < 0)
        return -1;
    if (isinf(t))
        return errmsg_fail(err, EINVAL, "must be finite");
    *seconds = t;
    return 0;
}
