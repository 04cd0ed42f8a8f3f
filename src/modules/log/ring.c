/* ring.c - the circular log buffer.
 *
 * An array of pointers is used as a ring; every entry is one block of memory, which includes its
 * texts.
 *
 * Invariants:
 *  1. count <= capacity, and bytes <= max_bytes unless there is only one entry.
 *  2. The numbers of the entries held are consecutive; the last is last_seq.
 *  3. The oldest `cleared` entries, of cleared_bytes bytes, only wait to be freed: they are not
 *     visible, and do not count as dropped.
 *
 * Failure: if memory is short, an entry is not added and gets no number.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

struct slot {
    struct log_entry e;
    size_t bytes;
    char text[];
};

struct ring {
    struct slot **slots;
    size_t capacity;
    size_t max_bytes;
    size_t head; /* index of the oldest */
    size_t count;
    size_t bytes;
    size_t cleared;
    size_t cleared_bytes;
    uint64_t last_seq;
    uint64_t dropped;
};

ring_t *ring_create(size_t entries, size_t bytes)
{
    ring_t *r = calloc(1, sizeof(*r));

    if (!r || !(r->slots = calloc(entries, sizeof(struct slot *)))) {
        free(r);
        errno = ENOMEM;
        return NULL;
    }
    r->capacity = entries;
    r->max_bytes = bytes;
    return r;
}

static void drop_oldest(ring_t *r)
{
    struct slot *s = r->slots[r->head];

    r->head = (r->head + 1) % r->capacity;
    r->count--;
    r->bytes -= s->bytes;
    if (r->cleared > 0) {
        r->cleared--;
        r->cleared_bytes -= s->bytes;
    }
    free(s);
}

/* Remove the oldest entry to make room for others. */
static void make_room(ring_t *r)
{
    r->dropped += r->cleared == 0;
    drop_oldest(r);
}

void ring_pop(ring_t *r)
{
    while (ring_sweep(r))
        ;
    if (r->count > 0)
        drop_oldest(r);
}

void ring_clear(ring_t *r)
{
    r->cleared = r->count;
    r->cleared_bytes = r->bytes;
}

bool ring_sweep(ring_t *r)
{
    if (r->cleared > 0)
        drop_oldest(r);
    return r->cleared > 0;
}

void ring_destroy(ring_t *r)
{
    if (r) {
        int saved = errno;
        while (r->count > 0)
            drop_oldest(r);
        free(r->slots);
        free(r);
        errno = saved;
    }
}

int ring_resize(ring_t *r, size_t entries, size_t bytes)
{
    struct slot **slots = calloc(entries, sizeof(struct slot *));

    if (!slots)
        return -1;
    while (r->count > entries || (r->bytes > bytes && r->count > 1))
        make_room(r);
    for (size_t i = 0; i < r->count; i++)
        slots[i] = r->slots[(r->head + i) % r->capacity];
    free(r->slots);
    r->slots = slots;
    r->head = 0;
    r->capacity = entries;
    r->max_bytes = bytes;
    return 0;
}

uint64_t ring_append(ring_t *r, const struct log_entry *e)
{
    size_t nsource = strlen(e->source) + 1;
    size_t ntext = strlen(e->text) + 1;
    struct slot *s = malloc(sizeof(*s) + nsource + ntext);

    if (!s) {
        errno = ENOMEM;
        return 0;
    }
    s->e = *e;
    s->bytes = sizeof(*s) + nsource + ntext;
    s->e.source = memcpy(s->text, e->source, nsource);
    s->e.text = memcpy(s->text + nsource, e->text, ntext);
    while (r->count > 0 && (r->count == r->capacity || r->bytes + s->bytes > r->max_bytes))
        make_room(r);
    s->e.seq = ++r->last_seq;
    r->slots[(r->head + r->count) % r->capacity] = s;
    r->count++;
    r->bytes += s->bytes;
    return s->e.seq;
}

const struct log_entry *ring_at(const ring_t *r, size_t i)
{
    return i < ring_count(r) ? &r->slots[(r->head + r->cleared + i) % r->capacity]->e : NULL;
}

size_t ring_count(const ring_t *r)
{
    return r->count - r->cleared;
}

size_t ring_bytes(const ring_t *r)
{
    return r->bytes - r->cleared_bytes;
}

uint64_t ring_last_seq(const ring_t *r)
{
    return r->last_seq;
}

uint64_t ring_dropped(const ring_t *r)
{
    return r->dropped;
}
