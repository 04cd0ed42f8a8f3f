/* clock.c - the virtual clock: a binary heap of events.
 *
 * Invariants:
 *  1. The heap is ordered by (time, deferred, number): two runs with the same calls give the same
 *     order.
 *  2. An event is in the heap, or in the list of its paused owner, or free.
 *  3. Time never goes back.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "clock.h"

struct vevent {
    int64_t at;
    uint64_t order; /* deferred events have the top bit set */
    size_t index;   /* in the heap; SIZE_MAX when stalled */
    struct vowner *owner;
    struct list_node node; /* owner.stalled, or the next free one */
    vevent_f cb;
    void *arg;
    void *data;
};

struct vclock {
    vevent_t **heap;
    size_t count;
    size_t cap;
    int64_t now;
    uint64_t last_order;
    uint64_t steps;
    struct list_node free;
};

void vowner_init(struct vowner *o)
{
    o->paused = false;
    list_init(&o->stalled);
}

vclock_t *vclock_create(void)
{
    vclock_t *c = calloc(1, sizeof(*c));

    if (c)
        list_init(&c->free);
    return c;
}

void vclock_destroy(vclock_t *c, void (*discard)(vevent_f cb, void *arg, void *data))
{
    if (c) {
        for (size_t i = 0; i < c->count; i++) {
            vevent_t *e = c->heap[i];
            if (discard)
                discard(e->cb, e->arg, e->data);
            free(e);
        }
        LIST_FOREACH_SAFE(it, tmp, &c->free)
        free(list_entry(it, vevent_t, node));
        free(c->heap);
        free(c);
    }
}

int64_t vclock_now(const vclock_t *c)
{
    return c->now;
}

uint64_t vclock_steps(const vclock_t *c)
{
    return c->steps;
}

static bool before(const vevent_t *a, const vevent_t *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void place(vclock_t *c, size_t i, vevent_t *e)
{
    c->heap[i] = e;
    e->index = i;
}

static void sift_up(vclock_t *c, size_t i, vevent_t *e)
{
    while (i > 0 && before(e, c->heap[(i - 1) / 2])) {
        place(c, i, c->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(c, i, e);
}

static void sift_down(vclock_t *c, size_t i, vevent_t *e)
{
    for (;;) {
        size_t k = 2 * i + 1;
        if (k + 1 < c->count && before(c->heap[k + 1], c->heap[k]))
            k++;
        if (k >= c->count || !before(c->heap[k], e))
            break;
        place(c, i, c->heap[k]);
        i = k;
    }
    place(c, i, e);
}

static int heap_insert(vclock_t *c, vevent_t *e)
{
    if (c->count == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 256;
        vevent_t **heap = realloc(c->heap, cap * sizeof(*heap));
        if (!heap)
            return -1;
        c->heap = heap;
        c->cap = cap;
    }
    sift_up(c, c->count++, e);
    return 0;
}

static void heap_remove(vclock_t *c, vevent_t *e)
{
    size_t i = e->index;
    vevent_t *last = c->heap[--c->count];

    if (last == e)
        return;
    if (i > 0 && before(last, c->heap[(i - 1) / 2]))
        sift_up(c, i, last);
    else
        sift_down(c, i, last);
}

vevent_t *vclock_add(vclock_t *c, struct vowner *o, int64_t at, bool deferred, vevent_f cb,
                     void *arg, void *data)
{
    struct list_node *n = list_first(&c->free);
    vevent_t *e;

    if (n) {
        list_remove(n);
        e = list_entry(n, vevent_t, node);
    } else if (!(e = malloc(sizeof(*e))))
        return NULL;
    list_init(&e->node);
    e->at = at < c->now ? c->now : at;
    e->order = ++c->last_order | (deferred ? UINT64_C(1) << 63 : 0);
    e->owner = o;
    e->cb = cb;
    e->arg = arg;
    e->data = data;
    if (heap_insert(c, e) < 0) {
        free(e);
        errno = ENOMEM;
        return NULL;
    }
    return e;
}

void vclock_cancel(vclock_t *c, vevent_t *e)
{
    if (!e)
        return;
    if (e->index == SIZE_MAX)
        list_remove(&e->node);
    else
        heap_remove(c, e);
    list_append(&c->free, &e->node);
}

bool vclock_step(vclock_t *c, int64_t until)
{
    while (c->count > 0 && c->heap[0]->at <= until) {
        vevent_t *e = c->heap[0];
        vevent_f cb = e->cb;
        void *arg = e->arg;
        void *data = e->data;

        c->now = e->at;
        heap_remove(c, e);
        if (e->owner && e->owner->paused) {
            e->index = SIZE_MAX;
            list_append(&e->owner->stalled, &e->node);
            continue;
        }
        list_push(&c->free, &e->node);
        c->steps++;
        cb(arg, data);
        return true;
    }
    if (until > c->now)
        c->now = until;
    return false;
}

void vowner_pause(struct vowner *o)
{
    o->paused = true;
}

void vowner_continue(vclock_t *c, struct vowner *o)
{
    o->paused = false;
    LIST_FOREACH_SAFE(it, tmp, &o->stalled)
    {
        vevent_t *e = list_entry(it, vevent_t, node);
        list_remove(it);
        e->at = c->now;
        /* It keeps its number, so that what waited stays in order and comes before anything new. */
        if (heap_insert(c, e) < 0) {
            e->index = SIZE_MAX;
            list_push(&o->stalled, &e->node);
            return;
        }
    }
}
