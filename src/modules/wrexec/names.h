/* Names that jobs publish for each other (MPI_Publish_name), at rank 0: see names.c. */
#ifndef WREXEC_NAMES_H
#define WREXEC_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "libflux/flux.h"
#include "libflux/handover.h"

typedef struct names names_t;

/* `runs(arg, id)`: is there such a job?  NULL with ENOMEM. */
names_t *names_create(flux_t *h, bool (*runs)(void *arg, uint64_t id), void *arg);
void names_destroy(names_t *n); /* NULL-safe, keeps errno; names stay, for the next one to remove */

/* A request "wrexec.name" (wrexec_names.h). */
void names_request(names_t *n, const flux_msg_t *req);

/* The job is over: what it published is removed, what it waits for is given up.  Costs one look in
 * a table for jobs that did neither.  NULL-safe. */
void names_job_over(names_t *n, uint64_t id);

/* What the next instance of the module needs; it calls names_load() before it sends anything. */
void names_save(const names_t *n, flux_handover_t *o);
void names_load(names_t *n, flux_handover_t *o);

#endif
