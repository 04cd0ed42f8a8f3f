/* Memory that is freed all at once: the working memory of a root change.
 * Not thread-safe. */
#ifndef KVS_ARENA_H
#define KVS_ARENA_H

#include <stddef.h>

typedef struct arena arena_t;

arena_t *arena_create(void);    /* NULL with ENOMEM */
void arena_destroy(arena_t *a); /* NULL-safe, keeps errno */
/* Allocate memory that is aligned for any type and not zeroed.  NULL with ENOMEM. */
void *arena_alloc(arena_t *a, size_t size);
/* Free all allocations; keeps up to 4 MiB of memory for the next root change. */
void arena_reset(arena_t *a);

#endif
