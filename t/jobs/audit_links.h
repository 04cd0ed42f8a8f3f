/* Which job may send over which links between switches, for audit.h: of P pods of L leaves of K
 * nodes, numbered in the order of the ranks.
 *
 * A job within one leaf uses no link.  One on several leaves may use any uplink of each of them,
 * and one in several pods any uplink of each of those, too.  Written from this alone: it shares no
 * code with the scheduler, nor with what tells it about switches.
 *
 * Pure; one thread per object.
 */
#ifndef JOBS_AUDIT_LINKS_H
#define JOBS_AUDIT_LINKS_H

#include <stdint.h>

#include "libidset/idset.h"

typedef struct audit_links audit_links_t;

audit_links_t *audit_links_create(uint32_t leaves, uint32_t nodes); /* L and K; NULL with ENOMEM */
void audit_links_destroy(audit_links_t *l);                         /* NULL-safe, keeps errno */

/* The job gets these nodes.  `shared` is told of each group of uplinks that another job has: a
 * level ("leaf", "pod") and a number.  How far it reaches: 1 within a leaf, 2 a pod, 3 further; -1
 * with ENOMEM. */
typedef void (*audit_shared_f)(const char *level, uint32_t number, uint64_t other, void *arg);
int audit_links_take(audit_links_t *l, uint64_t id, const idset_t *ranks, audit_shared_f shared,
                     void *arg);
/* It gives them back. */
void audit_links_give(audit_links_t *l, uint64_t id, const idset_t *ranks);
/* The mean hops between two of these nodes, by looking at each pair. */
double audit_links_hops(const audit_links_t *l, const idset_t *ranks);

#endif
