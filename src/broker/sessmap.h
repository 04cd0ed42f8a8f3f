/* The session map: the state and the incarnation of each rank, as rank 0 knows them.
 *
 * Only rank 0 has a map, and only it changes it.  It tells the others each change by an event, with
 * the number that the map then has.
 *
 * Thread rules: those of the core.
 */
#ifndef BROKER_SESSMAP_H
#define BROKER_SESSMAP_H

#include <jansson.h>
#include <stdint.h>

#include "libidset/idset.h"

/* state    meaning                                          left when
 * absent   no broker of this rank has been ready yet        one is ready
 * up       its broker is ready                              it is lost, or leaves
 * lost     it was up, and cannot be reached                 another broker of this rank is ready
 * left     it was up, and has left in order                 the same
 */
enum rank_state { RANK_ABSENT, RANK_UP, RANK_LOST, RANK_LEFT, RANK_NSTATES };

typedef struct sessmap sessmap_t;

sessmap_t *sessmap_create(uint32_t size); /* all ranks are absent; NULL with ENOMEM */
void sessmap_destroy(sessmap_t *m);       /* NULL-safe, keeps errno */

/* These ranks change to state `to`.  A rank that becomes up begins its next incarnation. A rank
 * that was never up stays absent when it is lost or leaves. */
void sessmap_change(sessmap_t *m, const idset_t *ranks, enum rank_state to);

uint64_t sessmap_number(const sessmap_t *m);                     /* of changes so far */
uint32_t sessmap_incarnation(const sessmap_t *m, uint32_t rank); /* from 1; 0: never up */

/* The ranks in this state, as text to be freed ("": none).  NULL with ENOMEM. */
char *sessmap_ranks(const sessmap_t *m, enum rank_state state);
/* The incarnations above 1: an array of {"incarnation","ranks"}, to be released (empty: none).
 * NULL with ENOMEM. */
json_t *sessmap_incarnations(const sessmap_t *m);

const char *sessmap_state_name(enum rank_state state);

#endif
