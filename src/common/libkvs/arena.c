/* arena.c - memory that is freed all at once.
 *
 * Blocks of 64 KiB (larger for a larger request) in a list; the newest is being filled.  A reset
 * frees all but the first, so that a root change of the usual size never asks the system for
 * memory.
 *
 * Failure: NULL with ENOMEM; what was handed out before stays valid.
 */
#include "config.h"
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>

#include "arena.h"

#define BLOCK 65536

struct block {
    struct block *prev;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

struct arena {
    struct block *top;
};

arena_t *arena_create(void)
{
    return calloc(1, sizeof(arena_t));
}

void arena_destroy(arena_t *a)
{
    if (!a)
        return;
    int saved = errno;
    while (a->top) {
        struct block *prev = a->top->prev;
        free(a->top);
        a->top = prev;
    }
    free(a);
    errno = saved;
}

void *arena_alloc(arena_t *a, size_t size)
{
    size_t need = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct block *b = a->top;
    if (!b || b->size - b->used < need) {
        size_t bytes = need > BLOCK ? need : BLOCK;
        b = malloc(sizeof(*b) + bytes);
        if (!b)
            return NULL;
        b->prev = a->top;
        b->used = 0;
        b->size = bytes;
        a->top = b;
    }
    void *p = b->data + b->used;
    b->used += need;
    return p;
}

void arena_reset(arena_t *a)
{
    while (a->top && a->top->prev) {
        struct block *prev = a->top->prev;
        free(a->top);
        a->top = prev;
    }
    if (a->top && a->top->size > BLOCK) {
        free(a->top);
        a->top = NULL;
    }
    if (a->top)
        a->top->used = 0;
}
