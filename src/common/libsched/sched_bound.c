/* sched_bound.c - quick tests that rule out an earlier time for a reservation.
 *
 * Purpose: after each end of a job, every reservation has to be checked for an earlier start, which
 * nearly never exists.
 *
 * Feasibility bound, for a job that requests a number of nodes and has a reservation: a bitmap of
 * the nodes on which the job could start before a time `limit`, and their count.  Passing time and
 * new allocations only remove nodes from this set.  A node can only join it when resources on it
 * are released, and the map lists such nodes; the test checks only these.  While the count is below
 * the number of requested nodes, no search is made; above that, the search is limited to nodes of
 * the bitmap.
 *
 * For slots on any nodes such a bound is useless: each node has room at some time.  For each
 * candidate time the test counts the free cores of the whole cluster instead.
 *
 * Invariants:
 *  1. A node whose bit is clear, and that is not in the map's list from `seen` on, has no room for
 *     the job at any time before `limit`.
 *  2. count is the number of set bits.
 *
 * Failure: if memory is short, there is no bound, and the search includes all nodes.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "sched_private.h"

#define MOMENTS 8 /* points of time within the job's duration at which cores are counted */

/* --- counts of nodes --- */

static inline uint64_t bit_of(uint32_t n)
{
    return UINT64_C(1) << (n % 64);
}

void sched_bound_drop(struct job *j)
{
    int saved = errno;

    free(j->bound);
    j->bound = NULL;
    errno = saved;
}

static void look(sched_t *s, const struct job *j, struct sched_bound *h, uint32_t n)
{
    if (!s->map->nodes[n].usable || !sched_shape_node_could(s->map, j->shape, n) ||
        !sched_plan_node_before(s, j, n, h->limit))
        return;
    h->bits[n / 64] |= bit_of(n);
    h->count++;
}

bool sched_bound_left(sched_t *s, struct job *j, const struct claim *own, double limit)
{
    const struct map *m = s->map;
    struct sched_bound *h = j->bound;

    if (!h)
        return true;
    if (!own || h->epoch != s->epoch || limit > h->limit || m->ngiven - h->seen > m->given_room) {
        sched_bound_drop(j);
        return true;
    }
    h->limit = limit;
    for (; h->seen < m->ngiven; h->seen++) {
        uint32_t n = m->given[h->seen & (m->given_room - 1)];

        s->work++;
        if (!(h->bits[n / 64] & bit_of(n)))
            look(s, j, h, n);
    }
    return h->count >= j->shape->req.nnodes;
}

void sched_bound_learn(sched_t *s, struct job *j, double limit)
{
    const struct map *m = s->map;
    struct sched_bound *h = j->bound;
    bool all = h == NULL;

    if (j->shape->req.nnodes == 0 || limit >= SCHED_NEVER) {
        sched_bound_drop(j);
        return;
    }
    if (all && !(j->bound = h = calloc(1, sizeof(*h) + m->words * sizeof(uint64_t))))
        return;
    h->epoch = s->epoch;
    h->seen = m->ngiven;
    h->limit = limit;
    h->count = 0;
    for (size_t w = 0; w < m->words; w++) {
        uint64_t bits = all ? m->at_least[w] : h->bits[w];

        h->bits[w] = 0;
        for (; bits; bits &= bits - 1)
            look(s, j, h, (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits));
    }
}

/* --- slots anywhere --- */

/* Bring s->frees up to date, by end.  false: memory is short. */
static bool make_frees(sched_t *s)
{
    size_t count = sched_tree_size(&s->ends);
    uint64_t cores = s->map->free_cores;

    if (s->frees && s->frees_holds == s->map->nholds)
        return true;
    if (s->frees_room < count + 1) {
        struct later_free *more = realloc(s->frees, 2 * (count + 1) * sizeof(*more));

        if (!more)
            return false;
        s->frees = more;
        s->frees_room = 2 * (count + 1);
    }
    s->nfrees = 0;
    s->frees[s->nfrees++] = (struct later_free){-SCHED_NEVER, cores};
    for (struct sched_tree_node *n = sched_tree_first(&s->ends); n;
         n = sched_tree_after(&s->ends, sched_tree_key(n))) {
        const struct claim *c = list_entry(n, struct claim, by_end);

        cores += c->ncores;
        s->frees[s->nfrees++] = (struct later_free){c->end, cores};
    }
    s->frees_holds = s->map->nholds;
    s->work += count;
    return true;
}

/* An upper bound on the cores that are free at t.  Claims that end or begin within a few epsilons
 * of t may have the same core, which counts as free. */
static uint64_t cores_at(const sched_t *s, const struct claim *own, double t)
{
    double soon = t + 2. * SCHED_EPSILON;
    size_t lo = 0;
    size_t hi = s->nfrees;
    uint64_t cores;

    /* Overdue claims are assumed to end in a moment. */
    if (soon < s->now + 2. * SCHED_OVERDUE)
        soon = s->now + 2. * SCHED_OVERDUE;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->frees[mid].end <= soon)
            lo = mid;
        else
            hi = mid;
    }
    cores = s->frees[lo].cores;
    soon = t + 2. * SCHED_EPSILON;
    for (size_t r = 0; r < s->nreserved && s->reserved[r]->start <= t + SCHED_EPSILON; r++) {
        const struct claim *c = s->reserved[r];

        if (c != own && c->end > soon)
            cores -= c->ncores < cores ? c->ncores : cores;
    }
    return cores;
}

/* Are there enough cores at t, and at some later times at which reservations begin?  This necessary
 * condition is much cheaper to test than all nodes. */
bool sched_bound_at(sched_t *s, const struct job *j, const struct claim *own, double t)
{
    uint64_t want = (uint64_t)j->shape->nslots * j->shape->cores;
    size_t first = sched_reservation_place(s, t);
    size_t behind = sched_reservation_place(s, t + j->duration - 4. * SCHED_EPSILON);
    size_t step = behind > first ? (behind - first) / MOMENTS + 1 : 1;

    if (!make_frees(s))
        return true;
    s->work += 4;
    if (cores_at(s, own, t) < want)
        return false;
    for (size_t r = first; r < behind; r += step) {
        if (cores_at(s, own, s->reserved[r]->start) < want)
            return false;
    }
    return true;
}
