/* The session map: for each rank its state, its incarnation, its present parent, and its card: the
 * addresses at which it is reached, and its public key.
 *
 * Only rank 0 has a map.  It publishes each change as an event, with the new number of the map.
 * Events do not have the cards: the request overlay.map asks for them (core_cards.c).
 *
 * Thread rules: those of the core.
 */
#ifndef BROKER_SESSMAP_H
#define BROKER_SESSMAP_H

#include <jansson.h>
#include <stdint.h>

#include "libidset/idset.h"
#include "libtopology/topology.h"

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

/* All ranks are absent, at their places in this shape, and without cards.  NULL with ENOMEM. */
sessmap_t *sessmap_create(const topology_t *shape);
void sessmap_destroy(sessmap_t *m); /* NULL-safe, keeps errno */

/* Change these ranks to state `to`, as far as the table above has such a change.  A rank that was
 * not up, slow or draining, and becomes up, begins its next incarnation.  A rank that was never up
 * is absent when it is lost or leaves. */
void sessmap_change(sessmap_t *m, const idset_t *ranks, enum rank_state to);

/* The rank has this parent now.  Returns the number of this change. */
uint64_t sessmap_moved(sessmap_t *m, uint32_t rank, uint32_t parent);

/* What belongs to another change, by which the rank becomes up: its parent, and the parts of the
 * card of its latest broker.  `tree`, `event`: addresses, as in struct control_card.  Texts are
 * copied; -1 with ENOMEM: the rank has no such part. */
void sessmap_set_parent(sessmap_t *m, uint32_t rank, uint32_t parent);
int sessmap_set_address(sessmap_t *m, uint32_t rank, const char *tree, const char *event);
int sessmap_set_key(sessmap_t *m, uint32_t rank, const char *key);
const char *sessmap_key(const sessmap_t *m, uint32_t rank);     /* NULL: none is known */
const char *sessmap_address(const sessmap_t *m, uint32_t rank); /* `tree`; NULL: the same */
uint32_t sessmap_parent(const sessmap_t *m, uint32_t rank);

uint64_t sessmap_number(const sessmap_t *m);                     /* of changes so far */
uint32_t sessmap_incarnation(const sessmap_t *m, uint32_t rank); /* from 1; 0: never up */

/* The ranks from `first` on that have changed since the map had the number `since` (0: all), up to
 * `max` of them: an array of struct overlay_place, to be released.  `next`: the first one that is
 * missing; 0: none is.  NULL with ENOMEM. */
json_t *sessmap_places(const sessmap_t *m, uint64_t since, uint32_t first, size_t max,
                       uint32_t *next);

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
