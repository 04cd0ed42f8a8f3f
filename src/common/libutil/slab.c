/* slab.c - memory for objects in blocks of one size each.
 *
 *    size             rounded up to          in blocks of
 *    up to SMALL      a multiple of 32       64 KiB
 *    up to LARGE      a multiple of 512      256 KiB
 *    larger           (malloc)
 *
 * Blocks are aligned to their size, so that the address of an object leads to the head of its
 * block.  An allocation from a block returns the object that was freed last, or else the next
 * unused bytes, so that unneeded pages are not touched.
 *
 * Memory is returned to the system block by block, as objects are freed: there is no walk over all
 * of it, as in malloc_trim(), which takes milliseconds.
 *
 * Invariants:
 *  1. A block is in the list of its class if it has room.
 *  2. A block without objects is returned to the system, except for one of each class up to SMALL.
 *
 * Failure: NULL with ENOMEM; nothing has changed.
 *
 * With the address sanitizer, all objects come from malloc(), so that it detects accesses beyond
 * their ends.
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

#define SMALL_BLOCK ((size_t)65536)
#define SMALL_STEP ((size_t)32)
#define SMALL_CLASSES 72u
#define SMALL (SMALL_STEP * SMALL_CLASSES)
#define LARGE_BLOCK ((size_t)262144)
#define LARGE_STEP ((size_t)512)
#define LARGE_CLASSES 68u
#define LARGE SLAB_LARGEST
#define CLASSES (SMALL_CLASSES + LARGE_CLASSES)

_Static_assert(SMALL + LARGE_STEP * LARGE_CLASSES == LARGE, "classes end with the largest object");

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
    void *freed;               /* freed objects; each begins with the address of the next one */
    uint32_t unused;           /* offset of the unused bytes */
    uint32_t count;            /* number of objects */
    uint32_t class;
};

#define FIRST ((sizeof(struct block) + SMALL_STEP - 1) / SMALL_STEP * SMALL_STEP)

struct slab {
    struct list_node room[CLASSES];
    struct block *all;
};

static size_t class_of(size_t size)
{
    if (size > SMALL)
        return SMALL_CLASSES + (size - SMALL - 1) / LARGE_STEP;
    return size > 0 ? (size - 1) / SMALL_STEP : 0;
}

/* Size of the objects of a class. */
static size_t class_size(size_t class)
{
    if (class < SMALL_CLASSES)
        return (class + 1) * SMALL_STEP;
    return SMALL + (class + 1 - SMALL_CLASSES) * LARGE_STEP;
}

static size_t class_block(size_t class)
{
    return class < SMALL_CLASSES ? SMALL_BLOCK : LARGE_BLOCK;
}

slab_t *slab_create(void)
{
    slab_t *s = calloc(1, sizeof(*s));

    for (size_t i = 0; s && i < CLASSES; i++)
        list_init(&s->room[i]);
    return s;
}

static void block_destroy(slab_t *s, struct block *b)
{
    size_t size = class_block(b->class);
    int saved = errno;

    list_remove(&b->node);
    if (b->prev)
        b->prev->next = b->next;
    else
        s->all = b->next;
    if (b->next)
        b->next->prev = b->prev;
    (void)munmap(b, size);
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

/* Map twice the size, and unmap the parts before and behind the aligned block. */
static struct block *block_create(slab_t *s, size_t class)
{
    size_t size = class_block(class);
    char *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before = p == MAP_FAILED ? 0 : -(uintptr_t)p & (size - 1);
    struct block *b;

    if (p == MAP_FAILED) {
        errno = ENOMEM;
        return NULL;
    }
    if (before > 0)
        (void)munmap(p, before);
    (void)munmap(p + before + size, size - before);
    b = (struct block *)(void *)(p + before);
    list_init(&b->node);
    b->unused = FIRST;
    b->class = (uint32_t) class;
    if ((b->next = s->all))
        b->next->prev = b;
    s->all = b;
    return b;
}

static bool has_room(const struct block *b)
{
    return b->freed || b->unused + class_size(b->class) <= class_block(b->class);
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
        if (!(b = block_create(s, class)))
            return NULL;
        list_append(&s->room[class], &b->node);
    }
    INVARIANT(1, has_room(b));
    if ((p = b->freed)) {
        b->freed = *(void **)p;
    } else {
        p = (char *)b + b->unused;
        b->unused += (uint32_t)class_size(class);
    }
    b->count++;
    if (!has_room(b))
        list_remove(&b->node);
    return p;
}

void slab_free(slab_t *s, void *p, size_t size)
{
    size_t class = class_of(size);
    struct block *b;

    if (SLAB_MALLOC || !p || size > LARGE) {
        free(p);
        return;
    }
    b = (struct block *)((uintptr_t)p & ~(uintptr_t)(class_block(class) - 1));
    *(void **)p = b->freed;
    b->freed = p;
    b->count--;
    if (list_empty(&b->node))
        list_push(&s->room[class], &b->node);
    /* Keep one empty block, so that a single small object that is repeatedly allocated and freed
     * costs no system call. */
    if (b->count == 0 && (class >= SMALL_CLASSES || s->room[class].next != &b->node ||
                          b->node.next != &s->room[class]))
        block_destroy(s, b);
}
