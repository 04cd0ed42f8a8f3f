/* The entries of a barrier: the number of participants that have entered at each rank.
 *
 * A number only grows, and the larger of two numbers of a rank is the newer one.  So entries of a
 * subtree count once, even if they are merged repeatedly, or arrive by another path.  Text:
 * "0-7:1,9:3", a list of ranks, or ranges of ranks, each with its number. */
#ifndef BARRIER_ENTRIES_H
#define BARRIER_ENTRIES_H

#include <stdbool.h>
#include <stdint.h>

#include "libidset/idset.h"
#include "libutil/errmsg.h"

typedef struct entries entries_t;

entries_t *entries_create(void); /* NULL with ENOMEM */
void entries_destroy(entries_t *e);

uint64_t entries_total(const entries_t *e);
const idset_t *entries_ranks(const entries_t *e);
/* Add an entry at this rank.  -1 with ENOMEM. */
int entries_add(entries_t *e, uint32_t rank);
/* -1 with an error message and EPROTO (malformed text, or a rank that does not exist) or ENOMEM;
 * then a part of the entries may be merged. */
int entries_merge(entries_t *e, const char *text, uint32_t size, errmsg_t *err);

/* Are there entries that were not reported yet? */
bool entries_news(const entries_t *e);
/* Entries that were not reported yet, as text, to be freed.  NULL with ENOMEM. */
char *entries_format_news(const entries_t *e);
void entries_reported(entries_t *e);
/* Mark all entries to be reported again.  -1 with ENOMEM. */
int entries_renew(entries_t *e);

#endif
