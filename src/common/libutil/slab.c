/* slab.c - memory for small objects in blocks of one size each.
 *
 * Sizes are rounded up to a multiple of STEP.  Each of these classes has blocks of BLOCK bytes, aligned
 * to their size, so that the address of an object leads to the head of its block.  A block hands out
 * what was freed in it last, and else its next unused bytes, so that pages that nothing needs are not
 * touched.  Objects beyond LARGE are malloc's.
 *
 * Invariants:
 *  1. A block is in the list of its class if it has room.
 *  2. A block without objects is given back to the system, but for one of each class.
 *
 * Failure: NULL with ENOMEM; nothing has changed.
 *
 * With the address sanitizer, all objects are malloc's, so that it sees their ends.
 */
#include "config.h"
#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "invariant.h"
#include "list.h"
#include "slab.h"

#define BLOCK ((size_t)65536)
#define STEP ((size_t)32)
#define CLASSES 72
#define LARGE (STEP * CLASSES)

#if defined(__SANITIZE_ADDRESS__)
#define SLAB_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLAB_MALLOC 1
#endif
#endif
#ifndef SLAB_MALLOC
#define SLAB_MALLOC 0
#endif

struct block {
    struct list_node node;     /* in class.room, or in no list */
    struct block *prev, *next; /* of all */
    void *freed;               /* each begins with the address of the next one */
    uint32_t unused;           /* offset */
    uint32_t count;            /* objects */
};

#define FIRST ((sizeof(struct block) + STEP - 1) / STEP * STEP)

struct slab {
    struct list_node room[CLASSES];
    struct block *all;
    size_t nblocks;
};

slab_t *slab_create(void)
{
    slab_t *s = calloc(1, sizeof(*s));

    for (size_t i = 0; s && i < CLASSES; i++)
        list_init(&s->room[i]);
    return s;
}

static void block_destroy(slab_t *s, struct block *b)
{
    int saved = errno;

    list_remove(&b->node);
    if (b->prev)
        b->prev->next = b->next;
    else
        s->all = b->next;
    if (b->next)
        b->next->prev = b->prev;
    s->nblocks--;
    (void)munmap(b, BLOCK);
    errno = saved;
}

void slab_destroy(slab_t *s)
{
    if (!s)
        return;
    while (s->all)
        block_destroy(s, s->all);
    free(s);
}

/* Twice as much is mapped, and what is before and behind the aligned part given back. */
static struct block *block_create(slab_t *s)
{
    char *p = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before = p == MAP_FAILED ? 0 : -(uintptr_t)p & (BLOCK - 1);
    struct block *b;

    if (p == MAP_FAILED) {
        errno = ENOMEM;
        return NULL;
    }
    if (before > 0)
        (void)munmap(p, before);
    (void)munmap(p + before + BLOCK, BLOCK - before);
    b = (struct block *)(void *)(p + before);
    list_init(&b->node);
    b->unused = FIRST;
    if ((b->next = s->all))
        b->next->prev = b;
    s->all = b;
    s->nblocks++;
    return b;
}

static size_t class_of(size_t size)
{
    return size > 0 ? (size - 1) / STEP : 0;
}

static bool has_room(const struct block *b, size_t class)
{
    return b->freed || b->unused + (class + 1) * STEP <= BLOCK;
}

void *slab_alloc(slab_t *s, size_t size)
{
    size_t class = class_of(size);
    struct list_node *n;
    struct block *b;
    void *p;

    if (SLAB_MALLOC || size > LARGE)
        return malloc(size);
    if ((n = list_first(&s->room[class]))) {
        b = list_entry(n, struct block, node);
    } else {
        if (!(b = block_create(s)))
            return NULL;
        list_append(&s->room[class], &b->node);
    }
    INVARIANT(1, has_room(b, class));
    if ((p = b->freed)) {
        b->freed = *(void **)p;
    } else {
        p = (char *)b + b->unused;
        b->unused += (class + 1) * STEP;
    }
    b->count++;
    if (!has_room(b, class))
        list_remove(&b->node);
    return p;
}

void slab_free(slab_t *s, void *p, size_t size)
{
    struct block *b = (struct block *)((uintptr_t)p & ~(uintptr_t)(BLOCK - 1));
    size_t class = class_of(size);

    if (SLAB_MALLOC || !p || size > LARGE) {
        free(p);
        return;
    }
    *(void **)p = b->freed;
    b->freed = p;
    b->count--;
    if (list_empty(&b->node))
        list_push(&s->room[class], &b->node);
    /* One stays, so that a single object that comes and goes costs no system call. */
    if (b->count == 0 && (s->room[class].next != &b->node || b->node.next != &s->room[class]))
        block_destroy(s, b);
}

size_t slab_bytes(const slab_t *s)
{
    return s->nblocks * BLOCK;
}
