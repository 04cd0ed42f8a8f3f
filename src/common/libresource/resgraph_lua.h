/* Inventory from a configuration file in Lua: the sections `resource` and `places`
 * (doc/man5/flux-resource).
 *
 *    resource {
 *        nodes = "node[0-1023]", cores = 16, sockets = 2, gpus = 0, memory = "64G",
 *        properties = "batch,bigmem", pools = { power = 1000 }, emulate = true,
 *    }
 * or several kinds of nodes, each a table of nodes, cores, sockets, gpus, memory, properties, xml:
 *    resource { emulate = true, pools = { power = "1000 kW" },
 *               { nodes = "node[0-15]", cores = 16 }, { nodes = "fat[0-1]", cores = 64 } }
 *
 * and places above the nodes, each after the place that contains it:
 *    places { { level = "row", name = "row0" },
 *             { level = "rack", name = "r0", within = "row0", nodes = "node[0-7]", pools = "power"
 *             } }
 *
 * Without nodes in `resource`, the nodes of places are names of hosts (resgraph_named()), which the
 * caller has to find in another graph.
 *
 * Nodes get ranks from 0 in that order.  xml = FILE takes cores, sockets, gpus and memory from a
 * file of hwloc (if the caller gives a function that reads it).  The file may have the section
 * `session` of flux-broker, which is skipped.
 */
#ifndef RESOURCE_RESGRAPH_LUA_H
#define RESOURCE_RESGRAPH_LUA_H

#include "resgraph.h"

/* Reads one XML file: resgraph_from_xml(), or a function that calls it. */
typedef resgraph_t *(*resgraph_xml_f)(const char *path, uint32_t rank, const char *host,
                                      errmsg_t *err);

/* From a file; `xml` may be NULL (then the field xml is an error).  NULL with an error message and
 * ENODATA when it has neither section, EINVAL, or an errno of reading the file. */
resgraph_t *resgraph_from_lua(const char *path, resgraph_xml_f xml, errmsg_t *err);

#endif
