/* extent.c - pieces of the address space of a ring.
 *
 * The room of a piece is a power of two.  Returned pieces are kept in one list for each size, the
 * latest first, since its bytes may still be in a cache; if that list is empty, a new piece is cut
 * from the unused end.  So extent_take() and extent_give() are a few instructions, a stream of
 * equal steps uses the same few pieces forever, and the memory behind them is mapped and cleared by
 * the kernel only once.  The address space is sparse: the unused part of a piece is never touched,
 * and costs nothing.
 *
 * Invariants:
 *  1. No two pieces overlap, and all are below `end` <= size.
 *  2. A piece is either its taker's or in the list of its size.
 *
 * Failure: pieces are neither split nor joined, so a stream whose steps have had many sizes needs
 * up to the sum of its needs for each size.  ENOSPC when the address space is exhausted; it is a
 * few hundred times the memory in use.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "libstream/extent.h"
#include "libutil/invariant.h"

#define CLASSES 64

struct extent_pool {
    uint64_t size;
    uint64_t end;
    struct extent *spare[CLASSES];
    struct block *blocks;
};

/* Extents are never freed one by one; they are allocated in blocks. */
#define BLOCK_EXTENTS 64
struct block {
    struct block *next;
    unsigned n;
    struct extent e[BLOCK_EXTENTS];
};

extent_pool_t *extent_pool_create(uint64_t size)
{
    extent_pool_t *p;

    if (size == 0 || size % EXTENT_MIN != 0 || size > INT64_MAX) {
        errno = EINVAL;
        return NULL;
    }
    if (!(p = calloc(1, sizeof(*p))))
        return NULL;
    p->size = size;
    return p;
}

void extent_pool_destroy(extent_pool_t *p)
{
    int saved = errno;

    while (p && p->blocks) {
        struct block *b = p->blocks;

        p->blocks = b->next;
        free(b);
    }
    free(p);
    errno = saved;
}

/* The power of two that holds `len` bytes. */
static unsigned class_of(uint64_t len)
{
    return len <= EXTENT_MIN ? 10 : 64 - (unsigned)__builtin_clzll(len - 1);
}

static struct extent *extent_cut(extent_pool_t *p, uint64_t room)
{
    struct block *b = p->blocks;
    struct extent *e;

    if (room > p->size - p->end) {
        errno = ENOSPC;
        return NULL;
    }
    if (!b || b->n == BLOCK_EXTENTS) {
        if (!(b = calloc(1, sizeof(*b))))
            return NULL;
        b->next = p->blocks;
        p->blocks = b;
    }
    e = &b->e[b->n++];
    e->off = p->end;
    e->room = room;
    p->end += room;
    INVARIANT(1, p->end <= p->size);
    return e;
}

struct extent *extent_take(extent_pool_t *p, uint64_t len)
{
    unsigned class;
    struct extent *e;

    if (len > p->size) {
        errno = ENOSPC;
        return NULL;
    }
    class = class_of(len);
    if (!(e = p->spare[class]))
        return extent_cut(p, (uint64_t)1 << class);
    p->spare[class] = e->next;
    e->next = NULL;
    INVARIANT(2, e->room == (uint64_t)1 << class);
    return e;
}

void extent_give(extent_pool_t *p, struct extent *e)
{
    unsigned class = class_of(e->room);

    INVARIANT(1, e->off + e->room <= p->end);
    e->next = p->spare[class];
    p->spare[class] = e;
}
