/* The interface between the launcher and its shared object for hwloc (hwloc_map.c), which finds the
 * processors of each core.  The launcher maps the object for the first job whose tasks are to be
 * bound, and unmaps it after the call.
 */
#ifndef LAUNCHER_HWLOC_MAP_H
#define LAUNCHER_HWLOC_MAP_H

#include <sched.h>
#include <stddef.h>

#define HWLOC_MAP_ABI 1
#define HWLOC_MAP_SYMBOL "flux_launcher_hwloc_map"

struct hwloc_map {
    int abi;
    /* Return the processors of the cores from 0 on, numbered as in the inventory
     * (libresource/reshwloc_cores.h); the caller frees the array.  A core that the calling thread
     * may use only in part is reduced to this part.  `synthetic` is hwloc's description of a
     * machine to use instead of this one, or NULL.  No other thread may use the environment during
     * the call.  Returns NULL with an error message. */
    cpu_set_t *(*read)(const char *synthetic, size_t *ncores, char *err, size_t size);
};

#endif
