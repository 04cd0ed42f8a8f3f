/* The resources of a session: a graph of typed vertices with quantities.
 *
 *    cluster -+- node (rank, host, properties) -+- socket - core...
 *             |                                 +- gpu...
 *             |                                 +- memory (MiB)
 *             +- pool (power, bandwidth, licenses...: any name, an amount and a unit)
 *             +- place (a leaf switch, a pod, the core; a rack, a row...: a level and a name) that
 *                holds nodes, pools and other places
 *
 * Nodes with the same vertices below them share one description, in memory, in JSON, and in
 * queries; so a cluster of 4096 equal nodes costs little more than one node.
 *
 * JSON (inventory, KVS resource.inventory):
 *    {"nodes":[{"ranks":"0-3","hosts":"node[0-3]","sockets":["0-1","2-3"],"cores":"0-3",
 *               "gpus":"0","memory":65536,"properties":["bigmem"]}],
 *     "pools":[{"name":"power","count":100,"unit":"kW"}],
 *     "places":[{"level":"pod","name":"p0"},
 *               {"level":"leaf","name":"s0","in_level":"pod","in":"p0","ranks":"0-3",
 *                "pools":["power"]}],
 *     "emulated":false}
 * Ranks and hosts belong together in ascending order of ranks; one host for several ranks stands
 * for all of them.  "sockets" are sets of cores and may be absent (all cores are one socket), as
 * may gpus, memory, properties, pools, places, emulated, named.  A place follows the place that
 * contains it.
 *
 * In an emulated inventory, ranks are numbers of nodes that need not exist: broker n % size runs
 * the tasks of node n.
 *
 * Sources: resgraph_hwloc.h (this machine, or a file of hwloc) and resgraph_lua.h (configuration)
 * are separate libraries, since a scheduler needs neither hwloc nor Lua.
 *
 * Thread rules: one thread per object; const functions may run side by side.
 */
#ifndef RESOURCE_RESGRAPH_H
#define RESOURCE_RESGRAPH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libidset/idset.h"
#include "libutil/errmsg.h"
#include "rreq.h"
#include "rset.h"

#define RESGRAPH_NODES_MAX (1u << 20)
#define RESGRAPH_CORES_MAX 65536u /* ids of cores and gpus of a node are below this */
#define RESGRAPH_POOLS_MAX 1024
#define RESGRAPH_PROPERTIES_MAX 64
#define RESGRAPH_PLACES_MAX 65536u

typedef struct resgraph resgraph_t;

/* Pointers are valid until the graph is changed or destroyed.  Two nodes with the same number
 * `kind` have the same vertices and properties. */
struct resgraph_node {
    uint32_t rank;
    const char *host;
    size_t kind;
    const idset_t *cores;
    const idset_t *gpus;           /* never NULL */
    const idset_t *const *sockets; /* nsockets sets of cores, disjoint, together all cores */
    size_t nsockets;               /* at least 1 */
    uint64_t memory;               /* MiB; 0: not known, and not checked */
    const char *const *properties; /* sorted */
    size_t nproperties;
};

struct resgraph_pool {
    const char *name;
    uint64_t count;
    const char *unit; /* "" when none was given */
};

/* A place: a level of the cluster above its nodes. */
struct resgraph_place {
    const char *level;        /* "leaf", "pod", "rack", ... */
    const char *name;         /* unique among those of its level */
    ssize_t parent;           /* number of the place that contains it; -1: none */
    const idset_t *ranks;     /* nodes directly in it; NULL (for resgraph_add_place): none */
    const char *const *pools; /* names of pools that it holds */
    size_t npools;
};

resgraph_t *resgraph_create(void); /* empty; NULL with ENOMEM */
resgraph_t *resgraph_copy(const resgraph_t *g);
void resgraph_destroy(resgraph_t *g); /* NULL-safe, keeps errno */

/* --- building --- */

/* Add one node for each rank, all with the same description.  hosts: a hostlist with one name for
 * each rank, or one name for all; the other fields as in struct resgraph_node (rank, host and kind
 * are ignored; gpus, sockets and properties may be NULL).  0, or -1 with an error message and
 * EEXIST (a rank exists already), EINVAL or ENOMEM; then nothing changed. */
int resgraph_add(resgraph_t *g, const idset_t *ranks, const char *hosts,
                 const struct resgraph_node *desc, errmsg_t *err);
/* Add an amount to a pool, which is created if it does not exist.  `unit` may be NULL. */
int resgraph_add_pool(resgraph_t *g, const char *name, uint64_t count, const char *unit,
                      errmsg_t *err);
/* Add a place after all others.  A rank is directly in at most one place of each level.  0, or -1
 * with EINVAL, EEXIST, ENOENT or ENOMEM and an error message; then nothing changed. */
int resgraph_add_place(resgraph_t *g, const struct resgraph_place *place, errmsg_t *err);
void resgraph_set_emulated(resgraph_t *g, bool emulated);
/* Mark the nodes as mere host names, to be found in another graph by resgraph_take_named(). */
void resgraph_set_named(resgraph_t *g, bool named);
/* Replace the places of g by those of `named`, which contain the nodes of g with the same hosts;
 * the pools of these places must be in g.  Hosts that are not in g are omitted.  0, or -1 with an
 * error message; then some places may be missing. */
int resgraph_take_named(resgraph_t *g, resgraph_t *named, errmsg_t *err);

/* g = g | other, for the reduction up the tree.  A rank that is in both is an error (EEXIST); pools
 * of the same name are added.  0, or -1 with an error message; then `g` has only a part, and can
 * only be destroyed. */
int resgraph_merge(resgraph_t *g, const resgraph_t *other, errmsg_t *err);
/* Remove these ranks: 0, or -1 with ENOMEM. */
int resgraph_remove(resgraph_t *g, const idset_t *ranks);

/* Decode strictly.  NULL with EPROTO or ENOMEM and an error message that names the field. */
resgraph_t *resgraph_from_json(const json_t *obj, errmsg_t *err);
resgraph_t *resgraph_parse(const char *json, size_t len, errmsg_t *err);
json_t *resgraph_to_json(const resgraph_t *g); /* NULL with ENOMEM */
char *resgraph_format(const resgraph_t *g);    /* compact text, freed by the caller */

/* --- queries --- */

bool resgraph_emulated(const resgraph_t *g);
bool resgraph_named(const resgraph_t *g);
size_t resgraph_nnodes(const resgraph_t *g);
size_t resgraph_ncores(const resgraph_t *g);
size_t resgraph_ngpus(const resgraph_t *g);
/* Node number i (from 0) in ascending order of ranks; false beyond the end.  Constant time. */
bool resgraph_node(const resgraph_t *g, size_t i, struct resgraph_node *node);
/* Number of a rank's node in that order, or -1.  Logarithmic. */
ssize_t resgraph_find_rank(const resgraph_t *g, uint32_t rank);
/* The ranks of kind number `kind` (from 0; NULL beyond the end), owned by the graph. */
const idset_t *resgraph_kind_ranks(const resgraph_t *g, size_t kind);
/* All ranks as a new set; or the ranks of hosts (text of a hostlist; a host may have several
 * ranks).  The list is expanded only as far as its hosts exist, so the time is bounded by the
 * number of nodes. NULL with an error message and ENOMEM, ENOENT (the message names the unknown
 * host), EINVAL or E2BIG. */
idset_t *resgraph_ranks(const resgraph_t *g);
idset_t *resgraph_ranks_of_hosts(resgraph_t *g, const char *hosts, errmsg_t *err);
/* Hosts of these ranks, in ascending order of ranks, each once, folded; freed by the caller.  NULL
 * with ENOMEM. */
char *resgraph_hosts_of_ranks(const resgraph_t *g, const idset_t *ranks);

/* Pools, sorted by name; false beyond the end. */
size_t resgraph_npools(const resgraph_t *g);
bool resgraph_pool(const resgraph_t *g, size_t i, struct resgraph_pool *pool);

/* Places in the order in which they were added; false beyond the end. */
size_t resgraph_nplaces(const resgraph_t *g);
bool resgraph_place(const resgraph_t *g, size_t i, struct resgraph_place *place);
/* The number of a place by its level and name; the number of the place of a level that directly
 * contains a rank.  -1: none. */
ssize_t resgraph_find_place(const resgraph_t *g, const char *level, const char *name);
ssize_t resgraph_place_of(const resgraph_t *g, const char *level, uint32_t rank);
/* All ranks in a place and in the places within it: a new set, NULL with ENOMEM. */
idset_t *resgraph_ranks_below(const resgraph_t *g, size_t place);

/* All resources of these ranks (NULL: of all ranks, and then with the pools) as a set of
 * resources. */
rset_t *resgraph_rset(const resgraph_t *g, const idset_t *ranks);

/* Could this request ever be met, if all nodes were up and no resource in use?  The cost depends on
 * the kinds of nodes, not on their number.  0, or -1 with an error message ("needs 4 nodes with 32
 * cores each; the largest of 2 nodes has 16") and ENOSPC (too little of a resource), ENOENT (no
 * such pool, property or rank), EINVAL or ENOMEM. */
int resgraph_satisfiable(const resgraph_t *g, const struct rreq *req, errmsg_t *err);
/* For a request that accepts fewer slots, but at least `min` (1 or more): lower its nslots to the
 * maximum that could ever be met.  -1, as above, when even `min` slots could not be met: nslots is
 * then `min`. */
int resgraph_fit_slots(const resgraph_t *g, struct rreq *req, uint32_t min, errmsg_t *err);

/* Does the node have the requested properties?  (This does not check req->ranks.) */
bool resgraph_fits_properties(const struct resgraph_node *node, const struct rreq *req);

/* --- iteration --- */

enum resgraph_type {
    RESGRAPH_CLUSTER,
    RESGRAPH_NODE,
    RESGRAPH_SOCKET,
    RESGRAPH_CORE,
    RESGRAPH_GPU,
    RESGRAPH_MEMORY,
    RESGRAPH_POOL,
};
struct resgraph_vertex {
    enum resgraph_type type;
    const char *name; /* "node", "core", ...; for a pool its own name */
    unsigned depth;   /* 0: the cluster */
    uint32_t rank;    /* of the node that contains it; IDSET_NONE for the cluster and pools */
    const char *host; /* of a node, else NULL */
    uint32_t id;      /* of a core, gpu or socket; else 0 */
    uint64_t count;   /* quantity: 1 for a vertex with an id */
    const char *unit; /* of the quantity, else "" */
};
/* Visit all vertices, each before those below it.  `fn` returns 0 to continue; any other value ends
 * the walk and is returned. */
int resgraph_walk(const resgraph_t *g, int (*fn)(const struct resgraph_vertex *v, void *arg),
                  void *arg);

#endif
