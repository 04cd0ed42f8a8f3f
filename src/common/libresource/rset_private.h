/* Declarations that the sources of rset share.  Not for use outside. */
#ifndef RESOURCE_RSET_PRIVATE_H
#define RESOURCE_RSET_PRIVATE_H

#include "rset.h"

#define RSET_QUANTITY_MAX (UINT64_C(1) << 53)
#define RSET_POOLS_MAX 1024

/* The contribution of a node.  Shared between nodes and sets, and never changed. */
struct rset_parts {
    unsigned refs; /* atomic: sets of several threads may share it */
    idset_t *cores;
    idset_t *gpus;
    uint64_t memory;
};

struct rset_host {
    unsigned refs; /* atomic */
    char name[];
};

struct rnode {
    uint32_t rank;
    struct rset_parts *parts;
    struct rset_host *host; /* NULL: not known */
};

struct rpool {
    char *name;
    uint64_t count;
};

struct rset {
    struct rnode *nodes; /* ascending rank */
    size_t n;
    size_t cap;
    struct rpool *pools; /* by name */
    size_t npools;
    double starttime;
    double expiration;
};

/* `cores` and `gpus` are copied (NULL: none).  NULL with ENOMEM. */
struct rset_parts *rset_parts_create(const idset_t *cores, const idset_t *gpus, uint64_t memory);
struct rset_parts *rset_parts_incref(struct rset_parts *k);
void rset_parts_decref(struct rset_parts *k);
bool rset_parts_equal(const struct rset_parts *a, const struct rset_parts *b);
struct rset_host *rset_host_create(const char *name);
struct rset_host *rset_host_incref(struct rset_host *h); /* NULL-safe, as is the following */
void rset_host_decref(struct rset_host *h);

/* Append a node; takes the references over, also on failure.  The caller keeps the order. */
int rset_append(rset_t *rs, uint32_t rank, struct rset_parts *parts, struct rset_host *host);
/* The place of the rank, or the place at which it would be inserted. */
size_t rset_place(const rset_t *rs, uint32_t rank);
/* Free the nodes, keep the rest. */
void rset_drop_nodes(rset_t *rs);
/* Set an amount; 0 removes the pool. */
int rset_set_pool(rset_t *rs, const char *name, uint64_t count);

#endif
