/* hwloc_map.c - the processors of each core, as found by hwloc.
 *
 * Invariants:
 *  1. Cores have the numbers of the inventory: the same function sets up the topology, with the
 *     same components of hwloc.
 *  2. The result describes this machine only.  The variables HWLOC_* of the environment (an XML
 *     file, a synthetic machine, other roots and components) are hidden during the discovery, and
 *     so are the plugins of hwloc, which would examine devices and map the drivers of vendors.
 *  3. Processors that the cgroup forbids do not exist, and cores are numbered without them.  A core
 *     is reduced to the processors to which this thread is bound.  A core without such a processor
 *     can only come from a configuration, and stays whole.
 *  4. Only the result is kept: one set per core, without the processors from CPU_SETSIZE on.
 *
 * Failure: NULL with an error message, and no memory stays allocated.
 */
#include "config.h"
#include "hwloc_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libresource/reshwloc_cores.h"

extern char **environ;

/* Return the environment without the variables of hwloc; its strings are those of the old
 * environment. */
static char **plain_environ(void)
{
    char **env;
    size_t n = 0, k = 0;

    while (environ && environ[n])
        n++;
    if (!(env = calloc(n + 2, sizeof(*env))))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "HWLOC_", 6) != 0)
            env[k++] = environ[i];
    env[k] = (char *)"HWLOC_PLUGINS_PATH=/dev/null";
    return env;
}

/* Convert a set of hwloc to a set of the kernel, reduced to the processors in `within` (NULL: all)
 * unless that leaves none. */
static void to_cpus(hwloc_const_bitmap_t set, hwloc_const_bitmap_t within, cpu_set_t *cpus)
{
    if (within && !hwloc_bitmap_intersects(set, within))
        within = NULL;
    CPU_ZERO(cpus);
    for (int i = hwloc_bitmap_first(set); i >= 0 && i < CPU_SETSIZE; i = hwloc_bitmap_next(set, i))
        if (!within || hwloc_bitmap_isset(within, (unsigned)i))
            CPU_SET(i, cpus);
}

static cpu_set_t *collect(hwloc_topology_t t, size_t *ncores)
{
    hwloc_obj_type_t type = reshwloc_cores_type(t);
    int n = hwloc_get_nbobjs_by_type(t, type);
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    cpu_set_t *cores = n > 0 ? calloc((size_t)n, sizeof(*cores)) : NULL;
    bool known;

    if (!bound || !cores) {
        errno = n > 0 ? ENOMEM : ENODEV;
        free(cores);
        hwloc_bitmap_free(bound);
        return NULL;
    }
    known = hwloc_topology_is_thissystem(t) &&
            hwloc_get_cpubind(t, bound, HWLOC_CPUBIND_THREAD) == 0 && !hwloc_bitmap_iszero(bound);
    for (int i = 0; i < n; i++)
        to_cpus(hwloc_get_obj_by_type(t, type, (unsigned)i)->cpuset, known ? bound : NULL,
                &cores[i]);
    hwloc_bitmap_free(bound);
    *ncores = (size_t)n;
    return cores;
}

static cpu_set_t *load(const char *synthetic, size_t *ncores)
{
    cpu_set_t *cores = NULL;
    hwloc_topology_t t;

    errno = 0;
    if (hwloc_topology_init(&t) < 0)
        return NULL;
    if (reshwloc_cores_filter(t) == 0 &&
        (!synthetic || hwloc_topology_set_synthetic(t, synthetic) == 0) &&
        hwloc_topology_load(t) == 0)
        cores = collect(t, ncores);
    int saved = errno;
    hwloc_topology_destroy(t);
    errno = saved;
    return cores;
}

static cpu_set_t *map_read(const char *synthetic, size_t *ncores, char *err, size_t size)
{
    char **kept = environ, **plain = plain_environ();
    cpu_set_t *cores = NULL;

    errno = ENOMEM;
    if (plain) {
        environ = plain;
        cores = load(synthetic, ncores);
        environ = kept;
    }
    if (!cores)
        snprintf(err, size, "hwloc cannot read %s: %s", synthetic ? synthetic : "this machine",
                 strerror(errno ? errno : EIO));
    free(plain);
    return cores;
}

extern const struct hwloc_map flux_launcher_hwloc_map;
const struct hwloc_map flux_launcher_hwloc_map = {HWLOC_MAP_ABI, map_read};
