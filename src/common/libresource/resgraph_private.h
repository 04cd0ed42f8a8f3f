/* Declarations that the sources of resgraph share.  Not for use outside. */
#ifndef RESOURCE_RESGRAPH_PRIVATE_H
#define RESOURCE_RESGRAPH_PRIVATE_H

#include "resgraph.h"
#include "rset_private.h"

/* The description that equal nodes share. */
struct kind {
    struct rset_parts *parts; /* cores, gpus, memory: shared with sets made from the graph */
    idset_t **sockets;
    size_t nsockets;
    char **properties; /* sorted, NULL-terminated */
    size_t nproperties;
    idset_t *ranks;
};

struct gnode {
    uint32_t rank;
    uint32_t kind;
    struct rset_host *host;
};

struct gpool {
    char *name;
    char *unit;
    uint64_t count;
};

struct gplace {
    char *level;
    char *name;
    ssize_t parent; /* number of the place that contains it, or -1 */
    idset_t *ranks; /* directly in it */
    char **pools;
    size_t npools;
};

struct resgraph {
    struct kind **kinds;
    size_t nkinds;
    struct gnode *nodes; /* ascending rank */
    size_t n;
    uint32_t *by_host;   /* numbers of nodes, by name of host; NULL: built when it is needed */
    struct gpool *pools; /* by name */
    size_t npools;
    struct gplace *places;
    size_t nplaces, places_room;
    bool emulated;
    bool named; /* nodes are only names of hosts, to be found in another graph */
};

/* Describe a kind: all fields but rank, host and number of the kind. */
void resgraph_kind_describe(const struct kind *k, struct resgraph_node *node);

/* resgraph_place.c */
void resgraph_clear_place(struct gplace *p);
void resgraph_clear_places(resgraph_t *g);
/* 0, or -1 with an error message. */
int resgraph_copy_places(resgraph_t *g, const resgraph_t *other, errmsg_t *err);
int resgraph_remove_from_places(resgraph_t *g, const idset_t *ranks);
json_t *resgraph_places_to_json(const resgraph_t *g);
int resgraph_places_from_json(resgraph_t *g, const json_t *list, errmsg_t *err);

#endif
