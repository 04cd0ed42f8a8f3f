/* Memory that is freed all at once: the working memory of a root change.
 * Not thread-safe. */
#ifndef KVS_ARENA_H
#define KVS_ARENA_H

#include <stddef.h>

typedef struct arena arena_t;

arena_t *arena_create(void);    /* NULL with ENOMEM */
void arena_destroy(arena_t *a); /* NULL-safe, keeps errno */
/* Aligned for anything, not zeroed.  NULL with ENOMEM. */
void *arena_alloc(arena_t *a, size_t size);
/* Forget everything; keeps up to 4 MiB for the next time, as long as it is needed. */
void arena_reset(arena_t *a);

#endif
