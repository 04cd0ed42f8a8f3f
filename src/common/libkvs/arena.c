/* arena.c - memory that is freed all at once.
 *
 * Blocks of 64 KiB (larger for a larger request) in a list; the newest is being filled.  A reset
 * keeps at most 4 MiB of them for reuse, so that root changes of the usual size do not allocate
 * memory; unused blocks are freed one by one, one with each reset.
 *
 * Failure: NULL with ENOMEM; earlier allocations stay valid.
 */
#include "config.h"
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>

#include "arena.h"

#define BLOCK 65536
#define SPARE_MAX 64 /* blocks put aside */

struct block {
    struct block *prev;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

struct arena {
    struct block *top;
    struct block *spare;
    unsigned nspare;
};

arena_t *arena_create(void)
{
    return calloc(1, sizeof(arena_t));
}

static void free_blocks(struct block *b)
{
    while (b) {
        struct block *prev = b->prev;
        free(b);
        b = prev;
    }
}

void arena_destroy(arena_t *a)
{
    if (!a)
        return;
    int saved = errno;
    free_blocks(a->top);
    free_blocks(a->spare);
    free(a);
    errno = saved;
}

/* A block for at least `need` bytes. */
static struct block *new_block(arena_t *a, size_t need)
{
    struct block *b = a->spare;
    if (b && need <= BLOCK) {
        a->spare = b->prev;
        a->nspare--;
        return b;
    }
    size_t bytes = need > BLOCK ? need : BLOCK;
    b = malloc(sizeof(*b) + bytes);
    if (b)
        b->size = bytes;
    return b;
}

void *arena_alloc(arena_t *a, size_t size)
{
    size_t need = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct block *b = a->top;
    if (!b || b->size - b->used < need) {
        if (!(b = new_block(a, need)))
            return NULL;
        b->prev = a->top;
        b->used = 0;
        a->top = b;
    }
    void *p = b->data + b->used;
    b->used += need;
    return p;
}

void arena_reset(arena_t *a)
{
    struct block *b = a->spare; /* not needed this time */
    if (b) {
        a->spare = b->prev;
        a->nspare--;
        free(b);
    }
    while ((b = a->top)) {
        a->top = b->prev;
        if (b->size == BLOCK && a->nspare < SPARE_MAX) {
            b->prev = a->spare;
            a->spare = b;
            a->nspare++;
        } else {
            free(b);
        }
    }
}
