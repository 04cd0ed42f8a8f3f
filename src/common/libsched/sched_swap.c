/* sched_swap.c - let a job start by moving the only reservation to other nodes.
 *
 * Purpose: a reservation for any n whole nodes, all of one kind, is a number and a time.  Where the
 * engine for whole nodes does not decide (sched_alike.c), because some other job requests less than
 * whole nodes, sched_plan.c reserves particular nodes.  A job that finds no room beside these may
 * still leave n nodes for the reservation: then it starts, and the reservation takes other nodes at
 * the same time.  With several reservations sched_exchange.c does this, at a higher cost.
 *
 *    spare = nodes free at the reserved time if all running jobs end in time, less n
 *    a job may pass if at most `spare` of its nodes are among those
 *
 * The count is kept while the reservation stays: nodes are subtracted when a claim holds them
 * beyond the reserved time, and added with its release.  A job that overruns its time can make the
 * count too high; sched_swap() then finds too few nodes.
 *
 * Invariants:
 *  1. A reservation moves to other nodes, never to another time.
 *  2. Only the single reservation of the pass moves, and only if its job takes any whole nodes.
 *     Reservations for cores, gpus, properties or pools, and those of policies that select, stay.
 *
 * Failure: if memory is short, the reservation stays as it was, and the job waits.
 */
#include "config.h"
#include <stdlib.h>

#include "sched_private.h"

static bool free_by(const sched_t *s, uint32_t n, double when)
{
    const struct node *nd = &s->map->nodes[n];

    return nd->usable && sched_node_free_from(s, nd) <= when;
}

bool sched_swap_could(const sched_t *s, const struct job *j)
{
    const struct claim *c = s->nreserved == 1 ? s->reserved[0] : NULL;

    return c && c->job != j && c->pass == s->pass && c->job->shape->alike && !s->choices &&
           c->start > s->now;
}

static size_t spare(sched_t *s)
{
    const struct claim *c = s->reserved[0];
    size_t want = c->job->shape->req.nnodes;
    struct spare *sp = &s->spare;

    if (!sp->known || sp->id != c->job->id || sp->when != c->start || sp->epoch != s->epoch) {
        *sp = (struct spare){true, c->job->id, s->epoch, c->start, 0};
        for (uint32_t i = 0; i < s->map->n; i++)
            sp->nodes += free_by(s, i, c->start);
        s->work += s->map->n / 8;
    }
    return sp->nodes > want ? sp->nodes - want : 0;
}

void sched_swap_held(sched_t *s, const struct claim *c)
{
    if (!s->spare.known || c->end <= s->spare.when)
        return;
    for (size_t i = 0; i < c->npieces; i++) {
        if (free_by(s, sched_claim_piece(c, i)->node, s->spare.when) && s->spare.nodes > 0)
            s->spare.nodes--;
    }
}

void sched_swap_released(sched_t *s, const struct claim *c)
{
    if (!s->spare.known || c->end <= s->spare.when)
        return;
    for (size_t i = 0; i < c->npieces; i++)
        s->spare.nodes += free_by(s, sched_claim_piece(c, i)->node, s->spare.when);
}

/* A node that has room for a job but will not be free then is not reserved.  If the job could run
 * on such nodes alone, the search would have found them. */
bool sched_swap_room(sched_t *s, const struct job *j)
{
    size_t n = spare(s);

    return n > 0 && (!j->shape->req.exclusive || n >= j->shape->req.nnodes);
}

bool sched_swap_leaves(sched_t *s, size_t nchoice)
{
    const struct claim *c = s->reserved[0];
    size_t left = spare(s);

    for (size_t i = 0; i < nchoice; i++) {
        if (free_by(s, s->choice[i].node, c->start) && left-- == 0)
            return false;
    }
    return true;
}

int sched_swap(sched_t *s, const struct claim *c)
{
    struct job *h = s->reserved[0]->job;
    double when = s->reserved[0]->start;
    size_t want = h->shape->req.nnodes;
    size_t piece = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < s->map->n; i++) {
        while (piece < c->npieces && sched_claim_piece(c, piece)->node < i)
            piece++;
        if (piece < c->npieces && sched_claim_piece(c, piece)->node == i)
            continue;
        if (free_by(s, i, when))
            s->choice[n++] =
                (struct choice){i, h->shape->nslots, sched_node_free_from(s, &s->map->nodes[i])};
    }
    s->work += s->map->n / 4;
    if (n < want)
        return -1;
    sched_plan_latest(s->choice, n, want);
    if (sched_reservation_add(s, h, want, when) < 0)
        return -1;
    h->reserved->pass = s->pass;
    sched_bound_drop(h);
    return 0;
}
