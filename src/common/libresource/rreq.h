/* What a job asks for: nodes, slots with cores, gpus and memory, and amounts of pools.
 *
 * The compact form a jobspec (RFC 14 V1) comes down to, between the job module and the scheduler.
 * JSON: {"nnodes":2,"nslots":4,"cores":8,"gpus":1,"memory":4096,"exclusive":true,
 *        "pools":[["power",100]],"ranks":"0-7","properties":["bigmem","^old"],"duration":60.5};
 * what is absent is 0, false or none.  Unknown fields are errors.
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
#define RREQ_COUNT_MAX (1u << 24)             /* nodes, slots, cores, gpus: each at most */
#define RREQ_QUANTITY_MAX (UINT64_C(1) << 53) /* memory and pools: exact in any JSON reader */

struct rreq_pool {
    char *name;
    uint64_t count;
};

struct rreq {
    uint32_t nnodes;         /* 0: slots wherever they are */
    uint32_t nslots;         /* on each node when nnodes > 0, else in all; 0 counts as 1 */
    uint32_t cores;          /* of a slot */
    uint32_t gpus;           /* of a slot */
    uint64_t memory;         /* MiB, of a slot */
    bool exclusive;          /* whole nodes, whatever is asked of each */
    struct rreq_pool *pools; /* sorted by name, each name once */
    size_t npools;
    idset_t *ranks;    /* only these; NULL: any */
    char **properties; /* a node must have each of these (not have, after '^'); NULL-terminated,
                          sorted; NULL: none */
    double duration;   /* seconds; 0: no limit */
};

/* Copy to `dst`, which is overwritten: 0, or -1 with ENOMEM (then *dst is empty).  Free what a
 * request holds and zero it (NULL-safe, keeps errno). */
int rreq_copy(struct rreq *dst, const struct rreq *src);
void rreq_clear(struct rreq *req);

/* Add an amount of a pool (to what is there), or a property; for those who build a request.  0, or
 * -1 with ENOMEM, EINVAL (bad name: 1 to 63 of letters, digits, "_-.", a property after an optional
 * '^') or ERANGE, and an error message. */
int rreq_add_pool(struct rreq *req, const char *name, uint64_t count, errmsg_t *err);
int rreq_add_property(struct rreq *req, const char *property, errmsg_t *err);

/* Is this a name that pools and properties may have? */
bool rreq_name_valid(const char *name);

/* To a new JSON object; NULL with ENOMEM.  From one: strict; 0, or -1 with EPROTO (ENOMEM) and an
 * error message that names the field; then *out is empty. */
json_t *rreq_to_json(const struct rreq *req);
int rreq_from_json(const json_t *obj, struct rreq *out, errmsg_t *err);

/* Are all fields but the duration equal?  And a hash of these fields.  The duration is left out
 * because whether the resources exist does not depend on it. */
bool rreq_equal_resources(const struct rreq *a, const struct rreq *b);
uint64_t rreq_hash(const struct rreq *req);

#endif
