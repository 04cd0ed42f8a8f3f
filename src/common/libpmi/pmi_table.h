/* The key-value table of a node's PMI server: strings to strings, add and look up only.
 * Not thread-safe. */
#ifndef PMI_TABLE_H
#define PMI_TABLE_H

#include <stddef.h>

#include "libpmi/pmi_pack.h"

struct pmi_table;

/* `max`: maximum number of bytes of keys and values (0: no limit).  NULL with ENOMEM. */
struct pmi_table *pmi_table_create(size_t max);
void pmi_table_destroy(struct pmi_table *t); /* NULL-safe, keeps errno */

/* Insert or overwrite (copied).  -1 with EINVAL (sizes, or NUL in the key), ENOSPC (bound) or
 * ENOMEM; then the table is unchanged. */
int pmi_table_put(struct pmi_table *t, const struct pmi_pair *pair);

/* Look up; 0 with pair->value filled, pointing into the table, or -1 with ENOENT.  The pointers
 * stay valid until pmi_table_destroy().  Allocates nothing. */
int pmi_table_get(const struct pmi_table *t, const char *key, size_t keylen, struct pmi_pair *pair);

/* Add all pairs of a blob (copied as one piece); later ones win.  -1 with EPROTO or ENOSPC (table
 * unchanged) or ENOMEM (some pairs may be in). */
int pmi_table_merge(struct pmi_table *t, const void *blob, size_t len);

#endif
