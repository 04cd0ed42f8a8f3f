/* sched_line.c - an ordered list of jobs, stored in blocks.
 *
 * Invariants:
 *  1. No block is empty.  Entries are in order, and blocks are in the order of their first entries.
 *  2. least_nodes and least_time are the minima over the entries of a block, and `sizes` has the
 *     classes of all of them.
 *  3. count is the sum of all n.
 *
 * An insertion into a full block splits the block in halves.  An insertion behind its last entry
 * begins a new block instead, so a list that grows at its end has full blocks.
 *
 * Failure: -1 with ENOMEM; the list is unchanged.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched_line.h"

void sched_line_clear(struct sched_line *l)
{
    int saved = errno;

    for (size_t i = 0; i < l->nblock; i++)
        free(l->block[i]);
    free(l->block);
    free(l->spare);
    *l = (struct sched_line){0};
    errno = saved;
}

static inline bool before(double a1, uint64_t b1, double a2, uint64_t b2)
{
    return a1 < a2 || (a1 == a2 && b1 < b2);
}

/* The block in which the key belongs: the last block that does not begin behind it. */
static size_t find_block(const struct sched_line *l, double a, uint64_t b)
{
    size_t lo = 0;
    size_t hi = l->nblock;

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        const struct sched_entry *e = &l->block[mid]->entry[0];

        if (before(a, b, e->a, e->b))
            hi = mid;
        else
            lo = mid;
    }
    return lo;
}

/* Place of the first entry of the block that is not before the key. */
static uint32_t find_pos(const struct sched_block *k, double a, uint64_t b)
{
    uint32_t lo = 0;
    uint32_t hi = k->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (before(k->entry[mid].a, k->entry[mid].b, a, b))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t size_bit(const struct sched_entry *e)
{
    return UINT64_C(1) << sched_limits_class(e->nodes);
}

static void measure(struct sched_block *k)
{
    k->least_nodes = UINT32_MAX;
    k->least_time = INFINITY;
    k->sizes = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        if (k->entry[i].nodes < k->least_nodes)
            k->least_nodes = k->entry[i].nodes;
        if (k->entry[i].time < k->least_time)
            k->least_time = k->entry[i].time;
        k->sizes |= size_bit(&k->entry[i]);
    }
}

/* Insert an empty block at place i. */
static struct sched_block *add_block(struct sched_line *l, size_t i)
{
    struct sched_block *k = l->spare;

    if (l->nblock == l->room) {
        size_t room = l->room ? 2 * l->room : 16;
        struct sched_block **more = realloc(l->block, room * sizeof(*more));

        if (!more) {
            errno = ENOMEM;
            return NULL;
        }
        l->block = more;
        l->room = room;
    }
    if (!k && !(k = malloc(sizeof(*k))))
        return NULL;
    l->spare = NULL;
    k->n = 0;
    measure(k);
    memmove(l->block + i + 1, l->block + i, (l->nblock - i) * sizeof(*l->block));
    l->block[i] = k;
    l->nblock++;
    return k;
}

int sched_line_insert(struct sched_line *l, const struct sched_entry *e)
{
    size_t i = find_block(l, e->a, e->b);
    struct sched_block *k = l->nblock > 0 ? l->block[i] : add_block(l, 0);
    uint32_t pos;

    if (!k)
        return -1;
    pos = find_pos(k, e->a, e->b);
    if (k->n == SCHED_BLOCK) {
        struct sched_block *fresh = add_block(l, i + 1);
        uint32_t keep = pos == SCHED_BLOCK ? SCHED_BLOCK : SCHED_BLOCK / 2;

        if (!fresh)
            return -1;
        fresh->n = SCHED_BLOCK - keep;
        memcpy(fresh->entry, k->entry + keep, fresh->n * sizeof(*k->entry));
        k->n = keep;
        measure(k);
        measure(fresh);
        if (pos > keep || keep == SCHED_BLOCK) {
            k = fresh;
            pos -= keep;
        }
    }
    memmove(k->entry + pos + 1, k->entry + pos, (k->n - pos) * sizeof(*k->entry));
    k->entry[pos] = *e;
    k->n++;
    if (e->nodes < k->least_nodes)
        k->least_nodes = e->nodes;
    if (e->time < k->least_time)
        k->least_time = e->time;
    k->sizes |= size_bit(e);
    l->count++;
    return 0;
}

static void drop_block(struct sched_line *l, size_t i)
{
    if (l->spare)
        free(l->block[i]);
    else
        l->spare = l->block[i];
    l->nblock--;
    memmove(l->block + i, l->block + i + 1, (l->nblock - i) * sizeof(*l->block));
}

void sched_line_take(struct sched_line *l, struct sched_at *at)
{
    struct sched_block *k = l->block[at->block];

    k->n--;
    l->count--;
    memmove(k->entry + at->pos, k->entry + at->pos + 1, (k->n - at->pos) * sizeof(*k->entry));
    if (k->n == 0) {
        drop_block(l, at->block);
        at->pos = 0;
        return;
    }
    measure(k);
    if (at->pos == k->n) {
        at->block++;
        at->pos = 0;
    }
}

void sched_line_remove(struct sched_line *l, double a, uint64_t b)
{
    struct sched_at at = sched_line_from(l, a, b);

    sched_line_take(l, &at);
}

struct sched_at sched_line_from(const struct sched_line *l, double a, uint64_t b)
{
    struct sched_at at = {find_block(l, a, b), 0};

    if (at.block >= l->nblock)
        return at;
    at.pos = find_pos(l->block[at.block], a, b);
    if (at.pos == l->block[at.block]->n)
        at = (struct sched_at){at.block + 1, 0};
    return at;
}

struct sched_at sched_line_nth(const struct sched_line *l, size_t i)
{
    struct sched_at at = {0, 0};

    while (at.block < l->nblock && i >= l->block[at.block]->n)
        i -= l->block[at.block++]->n;
    if (at.block < l->nblock)
        at.pos = (uint32_t)i;
    return at;
}

struct sched_entry *sched_line_fit(const struct sched_line *l, struct sched_at *at, uint32_t nodes,
                                   uint32_t extra, double now, double until, size_t *looked)
{
    for (; at->block < l->nblock; at->block++, at->pos = 0) {
        struct sched_block *k = l->block[at->block];

        ++*looked;
        if (k->least_nodes > nodes || (k->least_nodes > extra && now + k->least_time > until))
            continue;
        for (; at->pos < k->n; at->pos++) {
            struct sched_entry *e = &k->entry[at->pos];

            if (e->nodes <= nodes && (e->nodes <= extra || now + e->time <= until))
                return e;
        }
        *looked += SCHED_BLOCK / 16;
    }
    return NULL;
}

struct sched_entry *sched_line_fit_sizes(const struct sched_line *l, struct sched_at *at,
                                         const struct sched_limits *some,
                                         const struct sched_limits *any, double now, double until,
                                         size_t *looked)
{
    uint64_t some_sizes = sched_limits_mask(some);
    uint64_t any_sizes = sched_limits_mask(any);

    for (; at->block < l->nblock; at->block++, at->pos = 0) {
        struct sched_block *k = l->block[at->block];

        ++*looked;
        if (!(k->sizes & any_sizes) && (!(k->sizes & some_sizes) || now + k->least_time > until))
            continue;
        for (; at->pos < k->n; at->pos++) {
            struct sched_entry *e = &k->entry[at->pos];

            if (sched_limits_fit(any, e->nodes) ||
                (now + e->time <= until && sched_limits_fit(some, e->nodes)))
                return e;
        }
        *looked += SCHED_BLOCK / 16;
    }
    return NULL;
}
