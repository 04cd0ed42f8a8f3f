/* sched_plan.c - the earliest start of a job that does not fit now (sched_reservation.c keeps it).
 *
 * A number of nodes: for each candidate node, compute the first time from which it has room for the
 * job's whole duration, given the ends of running jobs and the reservations.  The job can start at
 * the n-th smallest of these times, T, unless a later reservation on one of the nodes is in the
 * way; those nodes are evaluated again from T on, and so forth.  T only grows.
 *
 * Slots on any nodes: sums over all nodes are needed.  Without reservations they only grow, so
 * galloping finds the first end of a running job after which the job fits.  From there the next
 * TRIES ends of claims of any kind are tried, then ends of reservations (TRIES_MORE in total), then
 * the time at which all claims have ended.  The result may be too late; a later search can improve
 * it.
 *
 * Policies that select: the same, with bisection, and the policy is called for each of these times.
 *
 * Of the nodes that fit, those that become free last are reserved: nodes that are free now remain
 * for others.
 *
 * Invariant: two reservations, or a reservation and a held claim, never have the same core or gpu
 * at the same time, provided that held claims end in time.
 *
 * Failure: -1 with ENOMEM; then there is no reservation.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

#define TRIES 8       /* ends of claims of any kind */
#define TRIES_MORE 24 /* with ends of reservations */

struct plan {
    sched_t *s;
    const struct job *j;
    const struct shape *sh;
    const struct claim *own;
    double limit;
    size_t n;                        /* candidates in s->choice */
    const struct sched_bound *bound; /* NULL: all nodes are candidates */
    struct choice *maybe;            /* slots anywhere: the candidates */
    double *from; /* of each candidate: nothing fits there before; a separate array, since most are
                   * skipped */
};

static struct span span_at(const struct plan *p, double t)
{
    return (struct span){.from = t,
                         .to = t + p->j->duration,
                         .now = p->s->now,
                         .future = true,
                         .nreserved = SIZE_MAX,
                         .own = p->own};
}

/* --- pools --- */

/* The next time after t at which a claim with pools ends. */
static double pools_next(const struct plan *p, double t)
{
    sched_t *s = p->s;
    double next = SCHED_NEVER;

    for (struct sched_tree_node *n =
             sched_tree_after(&s->pool_ends, (struct sched_tree_key){t, UINT64_MAX});
         n;) {
        next = sched_claim_end(list_entry(n, struct claim, by_pool), s->now);
        break;
    }
    if (next <= t)
        next = SCHED_NEVER;
    for (struct sched_tree_node *n = sched_tree_first(&s->pool_ends); n && n->a <= t;
         n = sched_tree_after(&s->pool_ends, sched_tree_key(n))) {
        double end = sched_claim_end(list_entry(n, struct claim, by_pool), s->now);

        /* An overdue claim: its nominal end is before t, its assumed end after it. */
        if (end > t && end < next)
            next = end;
    }
    for (size_t r = 0; r < s->nreserved; r++) {
        const struct claim *c = s->reserved[r];

        if (c != p->own && c->pools && c->end > t && c->end < next)
            next = c->end;
    }
    return next;
}

static double pools_from(const struct plan *p, double t)
{
    if (p->sh->req.npools == 0)
        return t;
    while (t < p->limit) {
        struct span sp = span_at(p, t);

        if (sched_select_pools(p->s, p->sh, &sp))
            return t;
        t = pools_next(p, t);
    }
    return SCHED_NEVER;
}

/* --- whole counts of nodes --- */

/* The first time from t on at which a node without reservations has room. */
static double node_from_ends(const struct plan *p, const struct node *nd, double t)
{
    const struct shape *sh = p->sh;
    const struct piece *q = nd->held;
    uint32_t cores = nd->free_cores;
    uint32_t gpus = nd->free_gpus;
    uint64_t used = nd->used_memory;

    if (sh->req.exclusive) {
        double end = nd->held_last ? sched_claim_end(nd->held_last->claim, p->s->now) : 0.;
        return end > t ? end : t;
    }
    for (;;) {
        uint64_t memory = nd->memory > used ? nd->memory - used : 0;

        if (cores >= sh->cores && gpus >= sh->gpus && (nd->memory == 0 || memory >= sh->memory))
            return t;
        if (!q)
            return SCHED_NEVER;
        cores += q->ncores;
        gpus += q->ngpus;
        used -= q->memory;
        if (sched_claim_end(q->claim, p->s->now) > t)
            t = sched_claim_end(q->claim, p->s->now);
        q = q->next;
        p->s->work++;
    }
}

static double next_change(const struct plan *p, const struct node *nd, double t)
{
    double next = SCHED_NEVER;

    for (const struct piece *q = nd->held; q; q = q->next) {
        double end = sched_claim_end(q->claim, p->s->now);

        if (end > t + SCHED_EPSILON) {
            next = end;
            break;
        }
    }
    for (const struct piece *q = nd->reserved; q; q = q->next) {
        if (q->claim != p->own && q->claim->end > t + SCHED_EPSILON && q->claim->end < next)
            next = q->claim->end;
    }
    return next;
}

/* The same for a whole node: the first gap between its reservations that is long enough. */
static double gap_from(const struct plan *p, const struct node *nd, double t)
{
    for (const struct piece *q = nd->reserved; q; q = q->next) {
        struct span sp = span_at(p, t);

        p->s->work++;
        if (q->claim->start + SCHED_EPSILON >= sp.to)
            break;
        if (q->claim != p->own && sched_span_overlaps(&sp, q->claim))
            t = q->claim->end;
    }
    return t < p->limit ? t : SCHED_NEVER;
}

static double node_from(const struct plan *p, uint32_t n, double t)
{
    const struct node *nd = &p->s->map->nodes[n];

    if (!nd->reserved || (nd->reserved->claim == p->own && !nd->reserved->next))
        return node_from_ends(p, nd, t);
    if (p->sh->req.exclusive)
        return gap_from(p, nd, node_from_ends(p, nd, t));
    while (t < p->limit) {
        struct span sp = span_at(p, t);
        struct avail a;

        p->s->work += 2;
        sched_select_node_avail(p->s, n, &sp, &a, NULL);
        if (sched_select_shape_slots(p->s, p->sh, n, &a) > 0)
            return t;
        t = next_change(p, nd, t);
    }
    return SCHED_NEVER;
}

/* The k-th smallest (from 0) of n numbers.  Changes their order. */
static double kth(double *v, size_t n, size_t k)
{
    size_t lo = 0;
    size_t hi = n - 1;

    while (lo < hi) {
        double pivot = v[lo + (hi - lo) / 2];
        size_t i = lo;
        size_t j = hi;

        for (;;) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i >= j)
                break;
            double x = v[i];
            v[i++] = v[j];
            v[j--] = x;
        }
        if (v[j] > pivot)
            j--;
        if (k <= j)
            hi = j;
        else
            lo = j + 1;
    }
    return v[lo];
}

static void candidates(struct plan *p)
{
    sched_t *s = p->s;
    const struct map *m = s->map;
    bool all = m->alike && !p->sh->allowed && m->n > 0 && sched_shape_node_could(m, p->sh, 0);

    for (size_t w = 0; w < m->words; w++) {
        uint64_t bits = m->at_least[w];

        if (p->sh->allowed)
            bits &= p->sh->allowed[w];
        if (p->bound)
            bits &= p->bound->bits[w];
        for (; bits; bits &= bits - 1) {
            uint32_t n = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);

            if (all || sched_shape_node_could(m, p->sh, n))
                s->choice[p->n++] = (struct choice){n, p->sh->nslots, 0.};
        }
    }
}

static int latest_first(const void *x, const void *y)
{
    const struct choice *a = x;
    const struct choice *b = y;

    if (a->from != b->from)
        return a->from > b->from ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static int by_node(const void *x, const void *y)
{
    const struct choice *a = x;
    const struct choice *b = y;

    return a->node < b->node ? -1 : a->node > b->node;
}

void sched_plan_by_node(struct choice *choice, size_t n)
{
    qsort(choice, n, sizeof(*choice), by_node);
}

void sched_plan_latest(struct choice *choice, size_t n, size_t want)
{
    if (n <= want)
        return;
    qsort(choice, n, sizeof(*choice), latest_first);
    sched_plan_by_node(choice, want);
}

/* Of the candidates that are free at t, choose those that become free last. */
static size_t choose(struct plan *p, double t)
{
    sched_t *s = p->s;
    uint32_t want = p->sh->req.nnodes;
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (s->choice[i].from <= t)
            s->choice[n++] = s->choice[i];
    }
    sched_plan_latest(s->choice, n, want);
    return want;
}

static size_t find_nodes(struct plan *p, double *when)
{
    sched_t *s = p->s;
    uint32_t want = p->sh->req.nnodes;
    double t = pools_from(p, s->now);

    candidates(p);
    if (p->n < want || t >= p->limit)
        return 0;
    for (size_t i = 0; i < p->n; i++)
        s->choice[i].from = node_from(p, s->choice[i].node, t);
    s->work += p->n / 2;
    for (;;) {
        bool moved = false;
        double first;

        for (size_t i = 0; i < p->n; i++)
            s->times[i] = s->choice[i].from;
        first = kth(s->times, p->n, want - 1);
        s->work += p->n / 8;
        t = pools_from(p, first > t ? first : t);
        if (t >= p->limit)
            return 0;
        for (size_t i = 0; i < p->n; i++) {
            struct choice *c = &s->choice[i];

            if (c->from < t && s->map->nodes[c->node].reserved) {
                c->from = node_from(p, c->node, t);
                moved |= c->from > t;
            }
        }
        if (!moved && t <= first)
            break;
        size_t free = 0;
        for (size_t i = 0; i < p->n; i++)
            free += s->choice[i].from <= t;
        if (free >= want)
            break;
    }
    *when = t;
    return choose(p, t);
}

/* --- slots anywhere --- */

/* The slots of candidate i at t, which is not before its `from`.  Until a claim there ends, a later
 * time has no more slots, only more reservations.  A node without slots is therefore skipped until
 * then:  most nodes are full, and many times are tried. */
static uint32_t slots_of(struct plan *p, size_t i, const struct span *sp)
{
    uint32_t n = p->maybe[i].node;
    struct avail a;
    uint32_t slots;

    p->s->work += 2;
    sched_select_node_avail(p->s, n, sp, &a, NULL);
    slots = sched_select_shape_slots(p->s, p->sh, n, &a);
    if (slots == 0 && !sp->alone)
        p->from[i] = next_change(p, &p->s->map->nodes[n], sp->from);
    return slots;
}

static size_t slots_at(struct plan *p, double t)
{
    sched_t *s = p->s;
    struct span sp = span_at(p, t);
    uint32_t left = p->sh->nslots;
    double soon = t + SCHED_EPSILON;
    size_t n = 0;

    if (!sched_bound_at(s, p->j, p->own, t))
        return 0;
    if (p->sh->req.npools > 0 && !sched_select_pools(p->s, p->sh, &sp))
        return 0;
    s->work += p->n / 16;
    for (size_t i = 0; i < p->n && left > 0; i++) {
        uint32_t slots;

        if (p->from[i] > soon || (slots = slots_of(p, i, &sp)) == 0)
            continue;
        if (slots > left)
            slots = left;
        s->choice[n++] = (struct choice){p->maybe[i].node, slots, t};
        left -= slots;
    }
    return left == 0 ? n : 0;
}

static bool slots_alone(struct plan *p, double t)
{
    struct span sp = span_at(p, t);
    uint32_t left = p->sh->nslots;

    sp.alone = true;
    p->s->work += p->n / 16;
    for (size_t i = 0; i < p->n && left > 0; i++) {
        uint32_t slots = p->from[i] > t + SCHED_EPSILON ? 0 : slots_of(p, i, &sp);

        left -= slots < left ? slots : left;
    }
    return left == 0;
}

static double end_number(const sched_t *s, size_t i)
{
    struct sched_tree_node *n = sched_tree_nth(&s->ends, i);

    return sched_claim_end(list_entry(n, struct claim, by_end), s->now);
}

/* The first end of a held claim at which the job would fit if there were no reservations. */
static double gallop(struct plan *p)
{
    sched_t *s = p->s;
    size_t count = sched_tree_size(&s->ends);
    size_t lo = 0;
    size_t hi = 0;

    if (slots_alone(p, s->now))
        return s->now;
    if (count == 0)
        return SCHED_NEVER;
    while (hi < count - 1 && !slots_alone(p, end_number(s, hi))) {
        lo = hi + 1;
        hi = hi * 2 + 1 < count - 1 ? hi * 2 + 1 : count - 1;
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (slots_alone(p, end_number(s, mid)))
            hi = mid;
        else
            lo = mid + 1;
    }
    return end_number(s, lo);
}

static double next_end(const struct plan *p, double t, bool held)
{
    sched_t *s = p->s;
    double next = SCHED_NEVER;

    if (held) {
        struct sched_tree_node *n =
            sched_tree_after(&s->ends, (struct sched_tree_key){t + SCHED_EPSILON, UINT64_MAX});

        if (n)
            next = sched_claim_end(list_entry(n, struct claim, by_end), s->now);
    }
    for (size_t r = 0; r < s->nreserved; r++) {
        const struct claim *c = s->reserved[r];

        if (c != p->own && c->end > t + SCHED_EPSILON && c->end < next)
            next = c->end;
    }
    return next;
}

/* The time at which all held and reserved claims have ended. */
static double last_end(const struct plan *p, double t)
{
    sched_t *s = p->s;
    size_t count = sched_tree_size(&s->ends);

    if (count > 0 && end_number(s, count - 1) > t)
        t = end_number(s, count - 1);
    for (size_t r = 0; r < s->nreserved; r++) {
        if (s->reserved[r] != p->own && s->reserved[r]->end > t)
            t = s->reserved[r]->end;
    }
    return t;
}

/* --- policies that select --- */

/* Does the policy place the job at t?  If so, the nodes are in s->choice. */
static size_t select_at(struct plan *p, double t, bool alone)
{
    sched_t *s = p->s;
    struct span sp = span_at(p, t);
    size_t n = 0;

    sp.alone = alone;
    if (s->no_score || t >= p->limit || !sched_select_pools(s, p->sh, &sp))
        return 0;
    for (uint32_t i = 0; i < s->map->n; i++) {
        struct avail a;
        uint32_t slots;

        if (!s->map->nodes[i].usable || !sched_shape_node_could(s->map, p->sh, i))
            continue;
        sched_select_node_avail(s, i, &sp, &a, NULL);
        if ((slots = sched_select_shape_slots(s, p->sh, i, &a)) > 0)
            s->choice[n++] = (struct choice){i, p->sh->req.nnodes > 0 ? p->sh->nslots : slots, t};
    }
    s->work += s->map->n / 2;
    return sched_choose_nodes(s, p->sh, p->j, &sp, n);
}

/* With more room, a policy never refuses a job that it has placed, so bisection finds the first end
 * at which it places the job; from there on each end is tried, since reservations may be in the
 * way. */
static size_t find_selected(struct plan *p, double *when)
{
    sched_t *s = p->s;
    size_t lo = 0;
    size_t hi = sched_tree_size(&s->ends);
    size_t n;
    double t = s->now;

    if (hi == 0 || select_at(p, s->now, true) > 0)
        hi = 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (select_at(p, end_number(s, mid), true) > 0)
            hi = mid;
        else
            lo = mid + 1;
        t = lo < sched_tree_size(&s->ends) ? end_number(s, lo) : SCHED_NEVER;
    }
    for (unsigned tries = 0; t < p->limit && tries < TRIES_MORE; tries++) {
        if ((n = select_at(p, t, false)) > 0) {
            *when = t;
            return n;
        }
        t = next_end(p, t, true);
    }
    return 0;
}

static size_t find_slots(struct plan *p, double *when)
{
    sched_t *s = p->s;
    double t;
    size_t n;

    candidates(p);
    p->maybe = s->choice + s->map->n;
    p->from = s->times;
    for (size_t i = 0; i < p->n; i++) {
        p->maybe[i] = s->choice[i];
        p->from[i] = node_from_ends(p, &s->map->nodes[s->choice[i].node], s->now);
    }
    s->work += p->n / 2;
    t = gallop(p);
    for (unsigned tries = 0; t < p->limit && tries < TRIES_MORE; tries++) {
        if ((n = slots_at(p, t)) > 0) {
            *when = t;
            return n;
        }
        t = next_end(p, t, tries < TRIES);
    }
    t = last_end(p, s->now);
    if (t < p->limit && (n = slots_at(p, t)) > 0) {
        *when = t;
        return n;
    }
    return 0;
}

size_t sched_plan_find(sched_t *s, struct job *j, const struct claim *own, double limit,
                       double *when)
{
    double latest = sched_job_latest(s, j) + SCHED_EPSILON;
    struct plan p = {.s = s, .j = j, .sh = j->shape, .own = own};
    size_t n = 0;

    p.limit = limit < latest ? limit : latest;
    if (!sched_bound_left(s, j, own, p.limit))
        return 0;
    s->stats.planned++;
    p.bound = j->bound;
    if (s->choices && !s->no_score)
        n = find_selected(&p, when);
    if (!s->choices || s->no_score)
        n = j->shape->req.nnodes > 0 ? find_nodes(&p, when) : find_slots(&p, when);
    if (!s->guessing)
        sched_bound_learn(s, j, n > 0 ? *when - SCHED_EPSILON : p.limit);
    return n;
}

bool sched_plan_node_before(sched_t *s, const struct job *j, uint32_t n, double limit)
{
    struct plan p = {.s = s, .j = j, .sh = j->shape, .own = j->reserved, .limit = limit};
    double t = node_from_ends(&p, &s->map->nodes[n], s->now);

    s->work++;
    return t < limit && node_from(&p, n, t) < limit;
}
