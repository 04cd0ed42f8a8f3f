/* The session map: the state and the incarnation of each rank, as rank 0 knows them.
 *
 * Only rank 0 has a map.  It publishes each change as an event, with the new number of the map.
 *
 * Thread rules: those of the core.
 */
#ifndef BROKER_SESSMAP_H
#define BROKER_SESSMAP_H

#include <jansson.h>
#include <stdint.h>

#include "libidset/idset.h"

/* state      meaning                                        left when
 * absent     no broker of this rank has been ready yet      one joins
 * joining    its broker has connected, and is not ready     it is ready; it is lost: as before
 * up         its broker is ready                            it is slow, draining or lost, or leaves
 * slow       ... and nothing has come from it for a while   it is heard again, or lost
 * draining   ... and is about to leave                      it has left, or is lost
 * lost       it was up, and cannot be reached               another broker of this rank joins
 * left       it was up, and has left in order               the same
 */
enum rank_state {
    RANK_ABSENT,
    RANK_JOINING,
    RANK_UP,
    RANK_SLOW,
    RANK_DRAINING,
    RANK_LOST,
    RANK_LEFT,
    RANK_NSTATES
};

typedef struct sessmap sessmap_t;

sessmap_t *sessmap_create(uint32_t size); /* all ranks are absent; NULL with ENOMEM */
void sessmap_destroy(sessmap_t *m);       /* NULL-safe, keeps errno */

/* Change these ranks to state `to`, as far as the table above has such a change.  A rank that was
 * not up, slow or draining, and becomes up, begins its next incarnation.  A rank that was never up
 * is absent when it is lost or leaves. */
void sessmap_change(sessmap_t *m, const idset_t *ranks, enum rank_state to);

/* Count the move of ranks to another parent, which the core stores, as a change.  Returns its
 * number. */
uint64_t sessmap_moved(sessmap_t *m);

uint64_t sessmap_number(const sessmap_t *m);                     /* of changes so far */
uint32_t sessmap_incarnation(const sessmap_t *m, uint32_t rank); /* from 1; 0: never up */

/* The ranks in this state, as text to be freed ("": none).  NULL with ENOMEM. */
char *sessmap_ranks(const sessmap_t *m, enum rank_state state);
/* The incarnations above 1: an array of {"incarnation","ranks"}, to be released (empty: none).
 * NULL with ENOMEM. */
json_t *sessmap_incarnations(const sessmap_t *m);
/* The same for these ranks (the set is emptied), whose incarnations `of` returns. */
json_t *sessmap_group(idset_t *ranks, uint32_t (*of)(const void *arg, uint32_t rank),
                      const void *arg);

const char *sessmap_state_name(enum rank_state state);
/* RANK_NSTATES: there is no such state. */
enum rank_state sessmap_state_find(const char *name);

#endif
