/* reshwloc_cores.c - numbering of cores (see the header).
 *
 *    kept                     why
 *    packages, cores          they are the result
 *    dies, caches, groups     where they group cores, since they determine the numbers: hwloc sorts
 *                             the objects within an object by their first processor, and on
 *                             machines with several dies or clusters of NUMA nodes processors may
 *                             be interleaved
 */
#include "reshwloc_cores.h"

int reshwloc_cores_filter(hwloc_topology_t t)
{
    static const struct {
        hwloc_obj_type_t type;
        enum hwloc_type_filter_e filter;
    } kept[] = {
        {HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL},
        {HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL},
        {HWLOC_OBJ_DIE, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
        {HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
    };

    if (hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE) < 0 ||
        hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_STRUCTURE) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        if (hwloc_topology_set_type_filter(t, kept[i].type, kept[i].filter) < 0)
            return -1;
    }
    return 0;
}

hwloc_obj_type_t reshwloc_cores_type(hwloc_topology_t t)
{
    return hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}
