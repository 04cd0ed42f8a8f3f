/* How cores are numbered: 0.. as hwloc numbers them, in the order in which `lstopo` shows them.
 *
 * That order depends on the objects that hwloc keeps while it sorts, since cores of one die, cache
 * or group of NUMA nodes are consecutive, whatever the numbers of their processors.  So the program
 * that assigns cores and the program that binds tasks to them must set up their topologies in the
 * same way: with these functions.
 *
 * Thread rules: any thread, one topology by one thread at a time.
 */
#ifndef RESOURCE_RESHWLOC_CORES_H
#define RESOURCE_RESHWLOC_CORES_H

#include <hwloc.h>

/* To be called between hwloc_topology_init() and hwloc_topology_load(): keep packages and cores,
 * and of the objects between them only those that group cores; no devices.  0, or -1 with errno. */
int reshwloc_cores_filter(hwloc_topology_t t);

/* The type of object that counts as a core in a loaded topology: HWLOC_OBJ_CORE, or HWLOC_OBJ_PU in
 * a topology without cores. Its logical index is the core's number. */
hwloc_obj_type_t reshwloc_cores_type(hwloc_topology_t t);

#endif
