/* Between the launcher and its shared object for hwloc (hwloc_map.c): which processors each core
 * has.  The launcher maps the object when the first job is to be bound, and only while it asks.
 */
#ifndef LAUNCHER_HWLOC_MAP_H
#define LAUNCHER_HWLOC_MAP_H

#include <sched.h>
#include <stddef.h>

#define HWLOC_MAP_ABI 1
#define HWLOC_MAP_SYMBOL "flux_launcher_hwloc_map"

struct hwloc_map {
    int abi;
    /* The processors of cores 0.., numbered as in the inventory (libresource/reshwloc_cores.h); to
     * be freed by the caller.  Of a core that the calling thread may use in part only that part.
     * `synthetic`: hwloc's description of a machine to take instead of this one, or NULL.  No other
     * thread may look at the environment meanwhile.  NULL with an error message. */
    cpu_set_t *(*read)(const char *synthetic, size_t *ncores, char *err, size_t size);
};

#endif
