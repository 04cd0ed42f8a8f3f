/* Inventory from hwloc: this machine, or XML as `lstopo FILE.xml` and flux hwloc write it.
 *
 * Cores are numbered 0.. in hwloc's logical order, as in RFC 20; a machine without core objects
 * counts its processing units.  Cores on which this process may not run are left out.  Sockets are
 * hwloc's packages, gpus its GPU and co-processor devices.  Memory is that of all NUMA nodes.
 *
 * Thread rules: any thread, but hwloc reads environment variables.
 */
#ifndef RESOURCE_RESGRAPH_HWLOC_H
#define RESOURCE_RESGRAPH_HWLOC_H

#include "resgraph.h"

/* This machine as one node.  NULL with errno and an error message.  Costs a few ms. */
resgraph_t *resgraph_from_hwloc(uint32_t rank, const char *host, errmsg_t *err);
/* One node from XML in a file, or in memory.  `host` NULL: the host of the XML (hwloc's info
 * "HostName"), else "node" and the rank. */
resgraph_t *resgraph_from_xml(const char *path, uint32_t rank, const char *host, errmsg_t *err);
resgraph_t *resgraph_from_xml_text(const char *xml, size_t len, uint32_t rank, const char *host,
                                   errmsg_t *err);
/* This machine in full as XML text, freed by the caller. */
char *resgraph_hwloc_xml(errmsg_t *err);

#endif
