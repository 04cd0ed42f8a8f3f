/* How cores are numbered: 0.. as hwloc numbers them, in the order in which `lstopo` shows them.
 *
 * That order depends on the objects that hwloc keeps while it sorts, since cores of one die, cache
 * or group of NUMA nodes stand together, whatever the numbers of their processors.  So whoever
 * gives out numbers of cores and whoever binds to them must set their topologies up alike: here.
 *
 * Thread rules: any thread, one topology by one thread at a time.
 */
#ifndef RESOURCE_RESHWLOC_CORES_H
#define RESOURCE_RESHWLOC_CORES_H

#include <hwloc.h>

/* Between hwloc_topology_init() and hwloc_topology_load(): keep packages and cores, and of what is
 * between them only what says how cores stand together; no devices.  0, or -1 with errno. */
int reshwloc_cores_filter(hwloc_topology_t t);

/* What counts as a core in a loaded topology: HWLOC_OBJ_CORE, HWLOC_OBJ_PU in one without cores.
 * Its logical index is the core's number. */
hwloc_obj_type_t reshwloc_cores_type(hwloc_topology_t t);

#endif
