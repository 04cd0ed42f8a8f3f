/* The resources that a job requests: nodes, slots with cores, gpus and memory, and amounts of
 * pools.
 *
 * This is the compact form of the resources of a jobspec (RFC 14 V1), for messages between the job
 * module and the scheduler.  JSON:
 * {"nnodes":2,"nslots":4,"cores":8,"gpus":1,"memory":4096,"exclusive":true,
 *        "pools":[["power",100]],"ranks":"0-7","properties":["bigmem","^old"],"duration":60.5};
 * an absent field is 0, false or empty.  Unknown fields are errors.
 *
 * Thread rules: one thread per object; const functions may run side by side.
 */
#ifndef RESOURCE_RREQ_H
#define RESOURCE_RREQ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libidset/idset.h"
#include "libutil/errmsg.h"

#define RREQ_POOLS_MAX 64
#define RREQ_PROPERTIES_MAX 64
#define RREQ_COUNT_MAX (1u << 24)             /* limit of each: nodes, slots, cores, gpus */
#define RREQ_QUANTITY_MAX (UINT64_C(1) << 53) /* memory and pools: exact in any JSON reader */

struct rreq_pool {
    char *name;
    uint64_t count;
};

struct rreq {
    uint32_t nnodes;         /* 0: slots on any nodes */
    uint32_t nslots;         /* on each node when nnodes > 0, else in total; 0 counts as 1 */
    uint32_t cores;          /* of a slot */
    uint32_t gpus;           /* of a slot */
    uint64_t memory;         /* MiB, of a slot */
    bool exclusive;          /* whole nodes, whatever part of them is requested */
    struct rreq_pool *pools; /* sorted by name, each name once */
    size_t npools;
    idset_t *ranks;    /* only these; NULL: any */
    char **properties; /* properties that a node must have (or after '^', must not have);
                        * NULL-terminated, sorted; NULL: none */
    double duration;   /* seconds; 0: no limit */
};

/* Copy to `dst`, which is overwritten: 0, or -1 with ENOMEM (then *dst is empty).  rreq_clear()
 * frees the members of a request and zeroes it (NULL-safe, keeps errno). */
int rreq_copy(struct rreq *dst, const struct rreq *src);
void rreq_clear(struct rreq *req);

/* Add an amount of a pool (to the amount that the request has), or a property.  0, or -1 with an
 * error message and ENOMEM, EINVAL (bad name: 1 to 63 of letters, digits, "_-.", a property after
 * an optional '^') or ERANGE. */
int rreq_add_pool(struct rreq *req, const char *name, uint64_t count, errmsg_t *err);
int rreq_add_property(struct rreq *req, const char *property, errmsg_t *err);

/* May a pool or property have this name? */
bool rreq_name_valid(const char *name);

/* Encode to a new JSON object; NULL with ENOMEM.  Decode strictly; 0, or -1 with EPROTO (ENOMEM)
 * and an error message that names the field; then *out is empty. */
json_t *rreq_to_json(const struct rreq *req);
int rreq_from_json(const json_t *obj, struct rreq *out, errmsg_t *err);

/* Are all fields but the duration equal?  And a hash of these fields.  The duration is omitted
 * because it has no influence on whether the resources exist. */
bool rreq_equal_resources(const struct rreq *a, const struct rreq *b);
uint64_t rreq_hash(const struct rreq *req);

#endif
