/* Subtrees that others have taken over return to their places, while brokers die (home.c). */
#ifndef SIM_HOME_H
#define SIM_HOME_H

#include "sim.h"

typedef struct home home_t;

home_t *home_create(sim_t *s); /* lives as long as the session */
/* All are up: let some time pass, in which subtrees return, and clients ask services.  Returns
 * whether there were faults meanwhile: some may be down. */
bool home_dance(home_t *o);
/* All are up: wait until the tree has its shape again. */
void home_whole(home_t *o);

#endif
