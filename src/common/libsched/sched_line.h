/* Ordered lists of jobs: waiting jobs by (key, id), running jobs by (end, id).
 *
 * A list of blocks of up to SCHED_BLOCK entries.  Each block has the minima of nodes and times of
 * its entries, and the classes of their sizes (sched_limits.h), so the next job that is small or
 * short enough is found without visiting most others.  An entry is inserted or removed by moving a
 * few neighbors.
 *
 * Thread rules: one thread per object.
 */
#ifndef SCHED_LINE_H
#define SCHED_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched_limits.h"

#define SCHED_BLOCK 64

struct sched_entry {
    double a; /* order: by a, then by b */
    uint64_t b;
    double time; /* the job's estimate */
    uint32_t nodes;
    void *job;
};

struct sched_block {
    uint32_t n;
    uint32_t least_nodes;
    double least_time;
    uint64_t sizes; /* classes of nodes */
    struct sched_entry entry[SCHED_BLOCK];
};

struct sched_line {
    struct sched_block **block;
    struct sched_block *spare; /* a block that became empty */
    size_t nblock, room;
    size_t count;
};

/* A place in the list: an entry, or, with block == nblock, the end. */
struct sched_at {
    size_t block;
    uint32_t pos;
};

/* Zeroed memory is an empty line. */
void sched_line_clear(struct sched_line *l); /* frees what it has */
/* 0, or -1 with ENOMEM.  No two entries have the same (a, b). */
int sched_line_insert(struct sched_line *l, const struct sched_entry *e);
/* Remove an entry, which must be in the list. */
void sched_line_remove(struct sched_line *l, double a, uint64_t b);
/* Remove the entry at this place; the place then has the next entry, or is the end. */
void sched_line_take(struct sched_line *l, struct sched_at *at);

/* The entry at this place, NULL at the end. */
static inline struct sched_entry *sched_line_entry(const struct sched_line *l,
                                                   const struct sched_at *at)
{
    return at->block < l->nblock ? &l->block[at->block]->entry[at->pos] : NULL;
}
static inline void sched_line_next(const struct sched_line *l, struct sched_at *at)
{
    if (++at->pos >= l->block[at->block]->n) {
        at->block++;
        at->pos = 0;
    }
}
/* The first entry whose key is not below (a, b); entry number i, from 0. */
struct sched_at sched_line_from(const struct sched_line *l, double a, uint64_t b);
struct sched_at sched_line_nth(const struct sched_line *l, size_t i);

/* From `at` on (itself included), find the first entry of at most `nodes` nodes that either has at
 * most `extra` nodes or for which now + time <= until.  NULL: there is none; `at` is then the end.
 * The cost of the search is added to `looked`. */
struct sched_entry *sched_line_fit(const struct sched_line *l, struct sched_at *at, uint32_t nodes,
                                   uint32_t extra, double now, double until, size_t *looked);
/* Likewise, find the first entry whose size is within `any`, or is within `some` and for which now
 * + time <= until. */
struct sched_entry *sched_line_fit_sizes(const struct sched_line *l, struct sched_at *at,
                                         const struct sched_limits *some,
                                         const struct sched_limits *any, double now, double until,
                                         size_t *looked);

#endif
