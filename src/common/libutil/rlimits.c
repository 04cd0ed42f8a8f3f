/* rlimits.c - names of limits, in one table for the options of commands, jobspecs, and launchers.
 */
#include "config.h"
#include "rlimits.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
    const char *name;
    int resource;
} rlimits[] = {
    {"as", RLIMIT_AS},
    {"core", RLIMIT_CORE},
    {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},
    {"memlock", RLIMIT_MEMLOCK},
    {"msgqueue", RLIMIT_MSGQUEUE},
    {"nice", RLIMIT_NICE},
    {"nofile", RLIMIT_NOFILE},
    {"nproc", RLIMIT_NPROC},
    {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},
    {"rttime", RLIMIT_RTTIME},
    {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK},
};

int rlimit_parse(const char *name)
{
    for (size_t i = 0; name && i < sizeof(rlimits) / sizeof(rlimits[0]); i++)
        if (!strcmp(rlimits[i].name, name))
            return rlimits[i].resource;
    errno = EINVAL;
    return -1;
}
