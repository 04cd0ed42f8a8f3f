/* A set of resources: cores and gpus of nodes, memory and amounts of pools.  The R of RFC 20.
 *
 * JSON, version 1 (`children` are idsets; nodes with the same children are one entry; hosts are in
 * the order of ranks; empty and zero fields are left out):
 *    {"version":1,
 *     "execution":{"R_lite":[{"rank":"0-3","children":{"core":"0-3","gpu":"0","memory":4096}}],
 *                  "nodelist":["node[0-3]"],"starttime":0,"expiration":0},
 *     "pools":{"power":100}}
 * "memory" (MiB of each node of the entry) and "pools" are additions to RFC 20, which permits
 * readers to skip them.
 *
 * Algebra: cores, gpus and the nodes themselves are sets.  Memory and pools are quantities: union
 * adds, difference subtracts (not below zero).  So (a | b) - b = a for allocations a, b that share
 * nothing.
 *
 * A node is in the set as soon as it was added, even without cores; a difference removes it when
 * none of its resources is left.  Nodes share equal children, so 4096 whole nodes are cheap.
 *
 * Thread rules: one thread per object; const functions may run side by side.
 */
#ifndef RESOURCE_RSET_H
#define RESOURCE_RSET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libidset/idset.h"
#include "libutil/errmsg.h"

#define RSET_NODES_MAX (1u << 20)
#define RSET_RANK_MAX 0x7fffffffU

typedef struct rset rset_t;

/* One node of a set.  Pointers are valid until the set is changed or destroyed. */
struct rset_node {
    uint32_t rank;
    const char *host;     /* "" when none was given */
    const idset_t *cores; /* never NULL */
    const idset_t *gpus;  /* never NULL */
    uint64_t memory;      /* MiB */
};

rset_t *rset_create(void);     /* the empty set; NULL with ENOMEM */
void rset_destroy(rset_t *rs); /* NULL-safe, keeps errno */

/* Decode JSON text or a parsed object, strictly; fields of RFC 20 that are not used here
 * ("scheduling", "attributes", execution.properties) are accepted and skipped.  NULL with EPROTO or
 * ENOMEM and an error message that names the field. */
rset_t *rset_parse(const char *json, size_t len, errmsg_t *err);
rset_t *rset_from_json(const json_t *obj, errmsg_t *err);
/* Encode to a new object, or to compact text (freed by the caller).  NULL with ENOMEM. */
json_t *rset_to_json(const rset_t *rs);
char *rset_format(const rset_t *rs);

/* Add cores, gpus (NULL: none) and memory of a node to those that the set has.  Fastest in
 * ascending order of ranks.  `host` may be NULL.  0, or -1 with EINVAL (rank, or memory beyond
 * 2^53) or ENOMEM; then nothing changed. */
int rset_add_node(rset_t *rs, uint32_t rank, const char *host, const idset_t *cores,
                  const idset_t *gpus, uint64_t memory);
/* Add an amount of a pool.  -1 with EINVAL (bad name, or beyond 2^53) or ENOMEM. */
int rset_add_pool(rset_t *rs, const char *name, uint64_t count);

/* Seconds since 1970; 0: not given. */
void rset_set_times(rset_t *rs, double starttime, double expiration);
double rset_expiration(const rset_t *rs);

/* a - b as a new set, with the times of `a`.  NULL with ENOMEM. */
rset_t *rset_diff(const rset_t *a, const rset_t *b);
/* a = a | b: linear in `b` when its ranks are few.  0, or -1 with ENOMEM; then `a` holds part of
 * the change and can only be destroyed. */
int rset_add(rset_t *a, const rset_t *b);
/* The part of `a` on these ranks; without pools. */
rset_t *rset_of_ranks(const rset_t *a, const idset_t *ranks);

size_t rset_nnodes(const rset_t *rs);
size_t rset_ncores(const rset_t *rs);
size_t rset_ngpus(const rset_t *rs);
/* The ranks as a new set (freed by the caller); the hosts in the order of ranks as text of a
 * hostlist ("" when no node has a name).  NULL with ENOMEM. */
idset_t *rset_ranks(const rset_t *rs);
char *rset_hosts(const rset_t *rs);

/* Node number i (from 0) in ascending order of ranks: true, or false beyond the end.  The node of a
 * rank: true, or false when it is not in the set. */
bool rset_node(const rset_t *rs, size_t i, struct rset_node *info);
bool rset_find(const rset_t *rs, uint32_t rank, struct rset_node *info);

/* Pools, sorted by name: number i (name NULL beyond the end); the amount of one (0: none). */
size_t rset_npools(const rset_t *rs);
const char *rset_pool(const rset_t *rs, size_t i, uint64_t *count);
uint64_t rset_pool_count(const rset_t *rs, const char *name);

#endif
