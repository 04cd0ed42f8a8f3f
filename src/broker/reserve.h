/* Memory that a broker keeps for the time when there is none.
 *
 * malloc() has no context argument, so the reserve is one for the process.  Thread-safe.
 */
#ifndef BROKER_RESERVE_H
#define BROKER_RESERVE_H

#include <stdbool.h>

/* Fill the reserve, unless it is full.  -1 with ENOMEM. */
int reserve_fill(void);

/* An allocation has failed: give the reserve back to the system, so that a second attempt succeeds.
 * False: it has been spent already. */
bool reserve_spend(void);

/* Have the libraries that allocate for the broker do so by the functions of reserve_wrap.c. */
void reserve_libraries(void);

#endif
