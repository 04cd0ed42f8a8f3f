/* Verdicts: the reports to rank 0 about the states of ranks, with the reporting rank and the
 * reason.
 *
 * Thread rules: those of the core.
 */
#ifndef BROKER_VERDICTS_H
#define BROKER_VERDICTS_H

#include <jansson.h>
#include <stdint.h>

#include "sessmap.h"

typedef struct verdicts verdicts_t;

verdicts_t *verdicts_create(void);    /* NULL with ENOMEM */
void verdicts_destroy(verdicts_t *v); /* NULL-safe, keeps errno */

/* Add a verdict: according to rank `by`, `ranks` (an idset) are in this state from `time` (wall
 * clock) on.  `why` may be NULL.  Old verdicts are removed.  -1 with ENOMEM. */
int verdicts_add(verdicts_t *v, double time, const char *ranks, enum rank_state state, uint32_t by,
                 const char *why);

/* The stored verdicts, the oldest first: an array of struct overlay_verdict, to be released.  NULL
 * with ENOMEM. */
json_t *verdicts_list(const verdicts_t *v);

#endif
