/* Memory for many objects of up to 36 KiB that live long, apart from malloc's: so that what lives
 * shortly does not get scattered into the gaps between them, where each use of it is a cache miss;
 * and what is freed goes back to the system a block at a time.
 *
 * Not thread-safe.
 */
#ifndef UTIL_SLAB_H
#define UTIL_SLAB_H

#include <stddef.h>

typedef struct slab slab_t;

/* Larger objects are malloc's. */
#define SLAB_LARGEST ((size_t)37120)

slab_t *slab_create(void); /* NULL with ENOMEM */
/* Free all of it.  NULL-safe; keeps errno. */
void slab_destroy(slab_t *s);

/* `size` bytes, aligned for any type, not initialized.  NULL with ENOMEM. */
void *slab_alloc(slab_t *s, size_t size);
/* `size`: as it was asked for.  NULL-safe; keeps errno. */
void slab_free(slab_t *s, void *p, size_t size);

#endif
