/* The names that jobs publish for each other (MPI_Publish_name), at rank 0: see names.c. */
#ifndef WREXEC_NAMES_H
#define WREXEC_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "libflux/flux.h"
#include "libflux/handover.h"

typedef struct names names_t;

/* `runs(arg, id)` returns whether there is such a job.  Returns NULL with ENOMEM. */
names_t *names_create(flux_t *h, bool (*runs)(void *arg, uint64_t id), void *arg);
void names_destroy(names_t *n); /* NULL-safe, keeps errno; the next instance removes the names */

/* Handle a request "wrexec.name" (wrexec_names.h). */
void names_request(names_t *n, const flux_msg_t *req);

/* When a job is over: remove the names that it has published, and end its waits for names.  For
 * other jobs the cost is one look-up in a table.  NULL-safe. */
void names_job_over(names_t *n, uint64_t id);

/* Save the state for the next instance of the module, which calls names_load() before it sends
 * anything. */
void names_save(const names_t *n, flux_handover_t *o);
void names_load(names_t *n, flux_handover_t *o);

#endif
