/* The table of ended barriers of an instance: the last ends of each name.
 *
 * An instance below may not have been notified of the end, since the broker in between died, or
 * not yet.  It reports its entries again, or more of them, and gets the end as its response. */
#ifndef BARRIER_ENDED_H
#define BARRIER_ENDED_H

#include <stdint.h>

#include "libflux/barrier_wire.h"
#include "libflux/handle.h"
#include "libidset/idset.h"

struct ended {
    uint64_t use;   /* greater than that of any earlier end that its participants knew of */
    idset_t *ranks; /* ranks where participants had entered, and of the instances that had joined */
    int errnum;     /* 0: it was released */
    const char *why;
};

typedef struct ended_table ended_table_t;

ended_table_t *ended_create(void); /* NULL with ENOMEM */
void ended_destroy(ended_table_t *t);
/* Takes e->ranks over, copies e->why.  -1 with ENOMEM. */
int ended_put(ended_table_t *t, const char *name, const struct ended *e);
/* The newest end of a name; NULL: none. */
const struct ended *ended_get(const ended_table_t *t, const char *name);
/* A join of the instance at this rank, which is not known here, continues a barrier.  If that has
 * ended: true, and it is answered. */
bool ended_answer(const ended_table_t *t, flux_t *h, const flux_msg_t *req, uint32_t rank,
                  const struct barrier_join *in);

#endif
