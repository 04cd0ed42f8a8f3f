/* sched_exchange.c - several reservations of whole nodes that are alike: a number and a time each.
 *
 * Purpose: where sched_pass.c decides with more than one reservation (conservative, replan), each
 * reservation has particular nodes.  For a job that takes any whole nodes (shape->alike), they only
 * prove that there are enough nodes; they can be exchanged for others.  Such a reservation is
 * called movable, others (for cores, gpus, properties, pools) fixed.
 *
 *    profile = usable nodes that are not held, nor in a fixed reservation, less the numbers of the
 *              movable reservations, as a function of time
 *
 * A job for any n whole nodes can be placed at a time only if the profile is n or more over its
 * duration.  It is then placed on nodes that are idle at its start, and makes room: the movable
 * reservations on these nodes are visited in the order of their start, and the nodes that they have
 * lost are replaced by nodes that are idle at their start, which may displace reservations that
 * start later.  A job that requests cores makes room likewise, on the nodes that it would get
 * without the movable reservations.
 *
 * Without fixed reservations there are always such nodes: at each start the profile counts the idle
 * nodes, and reservations that begin later can make room in turn.  So a sufficient number is all
 * that is needed. Fixed reservations can divide the time of a node so that the number does not
 * suffice; then nothing is changed, and the job is planned beside the particular nodes.
 *
 * Invariants:
 *  1. A reservation moves to other nodes, never to another time.
 *  2. When a function returns, no two reservations have a node at the same time, nor have a
 *     reservation and a held claim, provided that the claim ends in time.
 *  3. While `valid`, the profile is the function above, for this pass.
 *
 * Failure: if memory is short, reservations stay as they were.
 */
#include "config.h"
#include <math.h>
#include <stdlib.h>

#include "libutil/invariant.h"
#include "sched_private.h"

#define FAILED_MAX 8 /* failed attempts to make room in a pass */

bool sched_exchange_movable(const sched_t *s, const struct claim *c)
{
    return c->job && c->job->shape->alike && !s->choices;
}

bool sched_exchange_could(const sched_t *s, const struct job *j)
{
    if (s->exchange.failed[j->shape->alike] >= FAILED_MAX)
        return false;
    for (size_t i = 0; i < s->nreserved; i++) {
        if (s->reserved[i]->job != j && sched_exchange_movable(s, s->reserved[i]))
            return true;
    }
    return false;
}

void sched_exchange_forget(sched_t *s)
{
    s->exchange.valid = false;
    s->exchange.failed[0] = s->exchange.failed[1] = 0;
}

void sched_exchange_destroy(sched_t *s)
{
    sched_profile_clear(&s->exchange.profile);
}

/* --- the profile --- */

static void add(sched_t *s, double from, double to, int64_t by)
{
    s->work += 4;
    if (sched_profile_add(&s->exchange.profile, from, to, by) < 0)
        s->exchange.valid = false;
}

/* Add the node to the profile in [from, to), except for the time of its fixed reservations other
 * than `own`. */
static void add_node(sched_t *s, const struct node *nd, const struct claim *own, double from,
                     double to, int64_t by)
{
    for (const struct piece *q = nd->reserved; q && q->claim->start < to; q = q->next) {
        if (q->claim == own || sched_exchange_movable(s, q->claim) || q->claim->end <= from)
            continue;
        if (q->claim->start > from)
            add(s, from, q->claim->start, by);
        from = q->claim->end;
    }
    if (from < to)
        add(s, from, to, by);
}

static void add_fixed(sched_t *s, const struct claim *c, int64_t by)
{
    for (size_t i = 0; i < c->npieces; i++) {
        const struct node *nd = &s->map->nodes[sched_claim_piece(c, i)->node];
        double from = sched_node_free_from(s, nd);

        if (nd->usable)
            add_node(s, nd, c, from > c->start ? from : c->start, c->end, by);
    }
}

void sched_exchange_reserved(sched_t *s, const struct claim *c, int sign)
{
    if (!s->exchange.valid)
        return;
    if (sched_exchange_movable(s, c))
        add(s, c->start, c->end, -sign * (int64_t)c->npieces);
    else
        add_fixed(s, c, -sign);
}

void sched_exchange_held(sched_t *s, const struct claim *c)
{
    double end = sched_claim_end(c, s->now);

    for (size_t i = 0; s->exchange.valid && i < c->npieces; i++) {
        const struct node *nd = &s->map->nodes[sched_claim_piece(c, i)->node];
        double from = sched_node_free_from(s, nd);

        if (nd->usable && from < end)
            add_node(s, nd, NULL, from > s->now ? from : s->now, end, -1);
    }
}

/* The number of usable nodes of which this claim is the last to end. */
static int64_t last_of(const sched_t *s, const struct claim *c)
{
    int64_t n = 0;

    for (size_t i = 0; i < c->npieces; i++) {
        const struct node *nd = &s->map->nodes[sched_claim_piece(c, i)->node];

        n += nd->usable && nd->held_last->claim == c;
    }
    return n;
}

/* Subtract the time of all fixed reservations. */
static void add_all_fixed(sched_t *s)
{
    const struct map *m = s->map;

    for (size_t w = 0; w < m->words; w++) {
        for (uint64_t bits = m->touched[w] & m->at_least[w]; bits; bits &= bits - 1) {
            const struct node *nd = &m->nodes[w * 64 + (size_t)__builtin_ctzll(bits)];
            double from = sched_node_free_from(s, nd);

            for (const struct piece *q = nd->reserved; q; q = q->next) {
                if (sched_exchange_movable(s, q->claim) || q->claim->end <= from)
                    continue;
                add(s, q->claim->start > from ? q->claim->start : from, q->claim->end, -1);
                from = q->claim->end;
            }
        }
    }
}

/* Build the profile.  -1: it cannot be built. */
static int make_profile(sched_t *s)
{
    struct sched_exchange *x = &s->exchange;

    if (x->valid)
        return 0;
    if (sched_profile_reset(&x->profile, s->now, s->map->nempty) < 0)
        return -1;
    x->valid = true;
    for (struct sched_tree_node *n = sched_tree_first(&s->ends); n;
         n = sched_tree_after(&s->ends, sched_tree_key(n))) {
        const struct claim *c = list_entry(n, struct claim, by_end);

        add(s, sched_claim_end(c, s->now), SCHED_NEVER, last_of(s, c));
    }
    add_all_fixed(s);
    for (size_t i = 0; i < s->nreserved; i++) {
        const struct claim *c = s->reserved[i];

        if (sched_exchange_movable(s, c))
            add(s, c->start, c->end, -(int64_t)c->npieces);
    }
    return x->valid ? 0 : -1;
}

/* The earliest time before `limit` at which there are enough nodes; `own` is ignored. */
static double find_count(sched_t *s, const struct claim *own, int64_t nodes, double length,
                         double limit)
{
    double t;

    if (own)
        sched_exchange_reserved(s, own, -1);
    s->work += 16;
    t = s->exchange.valid ? sched_profile_find(&s->exchange.profile, s->now, nodes, length, limit)
                          : INFINITY;
    if (own)
        sched_exchange_reserved(s, own, 1);
    return s->exchange.valid && t < limit ? t : SCHED_NEVER;
}

/* The first time from now on at which there are fewer nodes. */
static double enough_until(sched_t *s, const struct claim *own, int64_t nodes)
{
    double t = s->now;

    if (own)
        sched_exchange_reserved(s, own, -1);
    s->work += 16;
    if (s->exchange.valid)
        t = sched_profile_until(&s->exchange.profile, s->now, nodes);
    if (own)
        sched_exchange_reserved(s, own, 1);
    return t;
}

/* --- nodes --- */

/* Is the node idle at `start`, and free of fixed reservations until `end`?  If so, *next is the
 * start of the first movable reservation on it.  Reservations that have made room count as
 * fixed. */
static bool idle(const sched_t *s, const struct node *nd, double start, double end, double *next)
{
    *next = SCHED_NEVER;
    if (!nd->usable || sched_node_free_from(s, nd) > start + SCHED_EPSILON)
        return false;
    for (const struct piece *q = nd->reserved; q; q = q->next) {
        const struct claim *c = q->claim;

        if (c->start + SCHED_EPSILON >= end)
            break;
        if (c->end <= start + SCHED_EPSILON)
            continue;
        if (c->start <= start + SCHED_EPSILON || c->round == s->exchange.round ||
            !sched_exchange_movable(s, c))
            return false;
        if (c->start < *next)
            *next = c->start;
    }
    return true;
}

/* Choose `want` idle nodes, in s->choice: first those without a reservation in the way, and of
 * these those that become free last; then those whose reservation begins last.  0: there are not
 * enough. */
static size_t idle_nodes(sched_t *s, double start, double end, size_t want)
{
    struct choice *clear = s->choice;
    struct choice *others = s->choice + s->map->n;
    size_t nclear = 0;
    size_t nothers = 0;

    for (uint32_t i = 0; i < s->map->n; i++) {
        const struct node *nd = &s->map->nodes[i];
        double next;

        if (!idle(s, nd, start, end, &next))
            continue;
        if (next < SCHED_NEVER)
            others[nothers++] = (struct choice){i, 1, next};
        else
            clear[nclear++] = (struct choice){i, 1, sched_node_free_from(s, nd)};
    }
    s->work += s->map->n / 2;
    if (nclear + nothers < want)
        return 0;
    if (nclear >= want) {
        sched_plan_latest(clear, nclear, want);
        return want;
    }
    sched_plan_latest(others, nothers, want - nclear);
    for (size_t i = 0; nclear < want; i++)
        clear[nclear++] = others[i];
    sched_plan_by_node(clear, want);
    return want;
}

/* --- making room --- */

static void enter_round(sched_t *s, struct claim *c)
{
    c->round = s->exchange.round;
    for (size_t i = 0; i < c->npieces; i++)
        s->map->nodes[sched_claim_piece(c, i)->node].round = s->exchange.round;
}

/* The start of a reservation.  One that is overdue begins now. */
static double start_of(const sched_t *s, const struct claim *c)
{
    return c->start > s->now ? c->start : s->now;
}

/* Has a reservation or claim that was placed before taken the node of this piece? */
static bool lost(const sched_t *s, const struct claim *c, const struct piece *p)
{
    const struct node *nd = &s->map->nodes[p->node];
    double soon = start_of(s, c) + SCHED_EPSILON;

    if (nd->round != s->exchange.round)
        return false;
    for (const struct piece *q = nd->reserved; q; q = q->next) {
        if (q->claim->start + SCHED_EPSILON >= c->end)
            break;
        if (q->claim != c && q->claim->round == s->exchange.round && q->claim->end > soon)
            return true;
    }
    return false;
}

/* A reservation that has moved, and its former nodes. */
struct moved {
    struct moved *next;
    struct claim *claim;
    uint32_t nodes[];
};

/* Replace the nodes that the reservation has lost.  0, or -1: there are not enough others. */
static int replace(sched_t *s, struct claim *c, struct moved **list)
{
    struct choice *kept = s->choice;
    struct moved *m;
    size_t nlost = 0;
    size_t n;

    for (size_t i = 0; i < c->npieces; i++)
        nlost += lost(s, c, sched_claim_piece(c, i));
    s->work += c->npieces / 4;
    if (nlost == 0)
        return 0;
    if ((n = idle_nodes(s, start_of(s, c), c->end, nlost)) == 0 ||
        !(m = malloc(sizeof(*m) + c->npieces * sizeof(m->nodes[0]))))
        return -1;
    *m = (struct moved){.next = *list, .claim = c};
    *list = m;
    for (size_t i = 0; i < c->npieces; i++) {
        const struct piece *p = sched_claim_piece(c, i);

        m->nodes[i] = p->node;
        if (!lost(s, c, p))
            kept[n++] = (struct choice){p->node, 1, 0.};
    }
    sched_plan_by_node(kept, n);
    sched_map_move(s->map, c, kept);
    enter_round(s, c);
    s->work += 4 * c->npieces;
    return 0;
}

static void move_back(sched_t *s, const struct moved *m)
{
    for (size_t i = 0; i < m->claim->npieces; i++)
        s->choice[i].node = m->nodes[i];
    sched_map_move(s->map, m->claim, s->choice);
}

static __attribute__((unused)) bool disjoint(const sched_t *s, const struct claim *c)
{
    for (size_t i = 0; i < c->npieces; i++) {
        const struct piece *p = sched_claim_piece(c, i);

        for (const struct piece *q = s->map->nodes[p->node].reserved; q; q = q->next) {
            if (q->claim != c && q->claim->start + SCHED_EPSILON < c->end &&
                q->claim->end > start_of(s, c) + SCHED_EPSILON)
                return false;
        }
    }
    return true;
}

/* The claim has been entered on its nodes: move the reservations that are in its way.  False: that
 * is impossible, and all of them are where they were. */
static bool make_room(sched_t *s, const struct job *j, struct claim *in)
{
    struct moved *list = NULL;
    double until = in->end;
    bool ok = true;

    s->exchange.round++;
    enter_round(s, in);
    for (size_t i = 0; ok && i < s->nreserved && s->reserved[i]->start < until; i++) {
        struct claim *c = s->reserved[i];
        struct moved *before = list;

        if (c == in || c->end <= in->start || !sched_exchange_movable(s, c))
            continue;
        ok = replace(s, c, &list) == 0;
        if (list != before && c->end > until)
            until = c->end;
    }
    for (struct moved *m; (m = list);) {
        list = m->next;
        if (!ok)
            move_back(s, m);
        INVARIANT(2, !ok || disjoint(s, m->claim));
        free(m);
    }
    s->exchange.failed[j->shape->alike] += !ok;
    return ok;
}

/* --- starting now --- */

static struct span now_span(const sched_t *s, const struct job *j)
{
    return (struct span){.from = s->now,
                         .to = s->now + j->duration,
                         .now = s->now,
                         .nreserved = SIZE_MAX,
                         .own = j->reserved,
                         .fixed = true};
}

/* The number of the chosen nodes that the profile counts now. */
static int64_t counted(const sched_t *s, const struct job *j, size_t n)
{
    int64_t count = 0;

    for (size_t i = 0; i < n; i++) {
        const struct node *nd = &s->map->nodes[s->choice[i].node];
        bool fixed = false;

        for (const struct piece *q = nd->reserved; q; q = q->next)
            fixed |= q->claim != j->reserved && !sched_exchange_movable(s, q->claim);
        count += nd->nheld == 0 && !fixed;
    }
    return count;
}

bool sched_exchange_room(sched_t *s, const struct job *j)
{
    struct span sp = now_span(s, j);
    int64_t want = j->shape->req.nnodes;

    s->exchange.until = s->now;
    if (j->shape->alike && s->map->nempty < j->shape->req.nnodes)
        return false;
    if (!j->shape->alike) {
        size_t n = sched_select_now(s, j->shape, j, &sp);

        if (n == 0)
            return false;
        want = counted(s, j, n);
    }
    if (make_profile(s) < 0)
        return false;
    s->exchange.until = enough_until(s, j->reserved, want);
    return s->exchange.until >= sp.to;
}

struct claim *sched_exchange_start(sched_t *s, struct job *j)
{
    struct claim *own = j->reserved ? sched_reservation_take(s, j) : NULL;
    struct span sp = now_span(s, j);
    struct claim *c = NULL;
    bool ok = false;
    size_t n;

    s->exchange.round++; /* no reservation has made room yet */
    n = j->shape->alike ? idle_nodes(s, sp.from, sp.to, j->shape->req.nnodes)
                        : sched_select_now(s, j->shape, j, &sp);
    if (n > 0 && (c = sched_select_claim(s, j, n, &sp))) {
        sched_map_reserve(s->map, c);
        ok = make_room(s, j, c);
        sched_map_unreserve(s->map, c);
    }
    if (ok) {
        sched_claim_destroy(own);
        return c;
    }
    sched_claim_destroy(c);
    if (own)
        sched_reservation_enter(s, j, own);
    return NULL;
}

/* --- starting later --- */

bool sched_exchange_place(sched_t *s, struct job *j, double start)
{
    struct span sp = {.from = start,
                      .to = start + j->duration,
                      .now = s->now,
                      .future = true,
                      .nreserved = SIZE_MAX,
                      .fixed = true};
    size_t want = j->shape->req.nnodes;
    struct claim *c;

    s->exchange.round++; /* no reservation has made room yet */
    if (sched_reservation_room(s) < 0 || idle_nodes(s, sp.from, sp.to, want) != want ||
        !(c = sched_select_claim(s, j, want, &sp)))
        return false;
    sched_reservation_enter(s, j, c);
    return true;
}

bool sched_exchange_reserve(sched_t *s, struct job *j)
{
    double limit = j->reserved ? j->reserved->start - SCHED_EPSILON : SCHED_NEVER;
    double latest = sched_job_latest(s, j) + SCHED_EPSILON;
    struct span sp = {.now = s->now, .future = true, .nreserved = SIZE_MAX, .fixed = true};
    size_t want = j->shape->req.nnodes;
    struct claim *own;
    struct claim *c;

    if (!j->shape->alike || make_profile(s) < 0)
        return false;
    sp.from =
        find_count(s, j->reserved, (int64_t)want, j->duration, limit < latest ? limit : latest);
    sp.to = sp.from + j->duration;
    if (!(sp.from < SCHED_NEVER) || sp.from <= s->now + SCHED_EPSILON ||
        sched_reservation_room(s) < 0)
        return false;
    own = j->reserved ? sched_reservation_take(s, j) : NULL;
    s->exchange.round++;
    c = idle_nodes(s, sp.from, sp.to, want) == want ? sched_select_claim(s, j, want, &sp) : NULL;
    if (c) {
        sched_reservation_enter(s, j, c);
        if (make_room(s, j, c)) {
            sched_claim_destroy(own);
            return true;
        }
        sched_claim_destroy(sched_reservation_take(s, j));
    }
    if (own)
        sched_reservation_enter(s, j, own);
    return false;
}
