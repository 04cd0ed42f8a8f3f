/* A slab allocator for many long-lived objects of up to 36 KiB, apart from the heap of malloc().
 * So short-lived allocations are not scattered into the gaps between these objects, where each use
 * would be a cache miss; and freed memory is returned to the system a block at a time.
 *
 * Not thread-safe.
 */
#ifndef UTIL_SLAB_H
#define UTIL_SLAB_H

#include <stddef.h>

typedef struct slab slab_t;

/* Larger objects come from malloc(). */
#define SLAB_LARGEST ((size_t)37120)

slab_t *slab_create(void); /* NULL with ENOMEM */
/* Free all of it.  NULL-safe; keeps errno. */
void slab_destroy(slab_t *s);

/* `size` bytes, aligned for any type, not initialized.  NULL with ENOMEM. */
void *slab_alloc(slab_t *s, size_t size);
/* `size`: as in slab_alloc().  NULL-safe; keeps errno. */
void slab_free(slab_t *s, void *p, size_t size);

#endif
