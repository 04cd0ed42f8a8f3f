/* Pieces of an address space: a pool that manages which pieces are in use.
 *
 *    e = extent_take(pool, len);     e->off .. e->off + len belongs to the caller
 *    extent_give(pool, e);
 *
 * Only numbers are managed here; the memory at an offset belongs to the caller. Thread rules: none;
 * the caller locks.
 */
#ifndef STREAM_EXTENT_H
#define STREAM_EXTENT_H

#include <stdint.h>

typedef struct extent_pool extent_pool_t;

struct extent {
    uint64_t off; /* a multiple of EXTENT_MIN */
    uint64_t room;
    uint64_t ready;      /* for the user: bytes from `off` on that have memory; 0 at first */
    struct extent *next; /* in the pool's lists */
};

#define EXTENT_MIN 1024 /* bytes of the smallest piece */

/* Bytes of addresses that a stream maps for its steps; at least EXTENT_SPACE_LEAST if the process
 * may not have as many.  Not a multiple of 4 GiB: the kernel maps the next thing directly below or
 * above the last one, a large block of malloc() begins 16 bytes behind its page, and many
 * processors copy four times slower to what is 1 to 63 bytes above the source, modulo 4 GiB. */
#define EXTENT_SPACE (((uint64_t)16 << 30) + ((uint64_t)5 << 28))
#define EXTENT_SPACE_LEAST ((uint64_t)64 << 20)
_Static_assert(EXTENT_SPACE % ((uint64_t)4 << 30) > 0, "see above");

/* Create a pool of `size` bytes, a multiple of EXTENT_MIN.  NULL with EINVAL or ENOMEM. */
extent_pool_t *extent_pool_create(uint64_t size);
/* Also frees the extents that are in use.  NULL-safe, keeps errno. */
void extent_pool_destroy(extent_pool_t *p);

/* Take a piece of at least `len` bytes.  NULL with ENOSPC (the address space is exhausted) or
 * ENOMEM. */
struct extent *extent_take(extent_pool_t *p, uint64_t len);
void extent_give(extent_pool_t *p, struct extent *e);

#endif
