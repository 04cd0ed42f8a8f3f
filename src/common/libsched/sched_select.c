/* sched_select.c - choose nodes for a job that is to start now; compute the room of a node over a
 * time.
 *
 * First-fit walks over the bitmap of nodes with enough free cores (sched_map.c).  Best-fit walks
 * over one such bitmap for each number of free cores, upwards from just enough; spread walks
 * downwards.  Reservations are checked only on nodes that have some.
 *
 * Memory and pools are quantities: the peak of their use over the time counts, which is reached at
 * its beginning or at the start of a reservation.
 *
 * Failure: a score that fails turns the policy off, and first-fit replaces it.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

/* --- free resources --- */

static uint32_t count_bits(const uint64_t *bits, size_t words)
{
    uint32_t n = 0;

    for (size_t w = 0; w < words; w++)
        n += (uint32_t)__builtin_popcountll(bits[w]);
    return n;
}

/* Is the reservation among the first `nreserved` by start? */
static bool counts(const sched_t *s, const struct span *sp, const struct claim *c)
{
    if (c == sp->own || !sched_span_overlaps(sp, c) || (sp->fixed && sched_exchange_movable(s, c)))
        return false;
    return sp->nreserved >= s->nreserved || c->start < s->reserved[sp->nreserved]->start;
}

static uint64_t memory_at(const sched_t *s, const struct node *nd, const struct span *sp, double t)
{
    uint64_t used = nd->used_memory;

    for (const struct piece *p = nd->held;
         p && sched_claim_end(p->claim, sp->now) <= t + SCHED_EPSILON; p = p->next)
        used -= p->memory;
    for (const struct piece *p = sp->alone ? NULL : nd->reserved; p; p = p->next) {
        if (p->claim->start > t + SCHED_EPSILON)
            break;
        if (counts(s, sp, p->claim) && p->claim->end > t + SCHED_EPSILON)
            used += p->memory;
    }
    return used;
}

/* The peak use of memory over the time: use only grows where a reservation begins. */
static uint64_t memory_peak(const sched_t *s, const struct node *nd, const struct span *sp)
{
    uint64_t peak = memory_at(s, nd, sp, sp->from);

    for (const struct piece *p = sp->alone ? NULL : nd->reserved; p; p = p->next) {
        uint64_t used;

        if (p->memory == 0 || p->claim->start <= sp->from || !counts(s, sp, p->claim))
            continue;
        used = memory_at(s, nd, sp, p->claim->start);
        if (used > peak)
            peak = used;
    }
    return peak;
}

void sched_select_node_avail(const sched_t *s, uint32_t n, const struct span *sp, struct avail *a,
                             uint64_t *bits)
{
    const struct map *m = s->map;
    const struct node *nd = &m->nodes[n];
    size_t words = m->cw + m->gw;
    uint64_t used = nd->used_memory;
    bool look = !sp->alone && nd->reserved;

    a->empty = nd->nheld == 0;
    if (!look && !sp->future) {
        if (bits)
            memcpy(bits, sched_map_free(m, n), words * sizeof(uint64_t));
        a->cores = nd->free_cores;
        a->gpus = nd->free_gpus;
        a->memory = nd->memory > used ? nd->memory - used : 0;
        return;
    }
    if (!bits)
        bits = s->bits;
    memcpy(bits, sched_map_free(m, n), words * sizeof(uint64_t));
    if (sp->future) {
        const struct piece *p;

        for (p = nd->held; p && sched_claim_end(p->claim, sp->now) <= sp->from + SCHED_EPSILON;
             p = p->next) {
            for (size_t w = 0; w < words; w++)
                bits[w] |= p->bits[w];
        }
        a->empty = p == NULL;
    }
    for (const struct piece *p = look ? nd->reserved : NULL; p; p = p->next) {
        if (p->claim->start + SCHED_EPSILON >= sp->to)
            break;
        if (!counts(s, sp, p->claim))
            continue;
        for (size_t w = 0; w < words; w++)
            bits[w] &= ~p->bits[w];
        a->empty = false;
    }
    a->cores = count_bits(bits, m->cw);
    a->gpus = count_bits(bits + m->cw, m->gw);
    a->memory = 0;
    if (nd->memory > 0 && (used = memory_peak(s, nd, sp)) < nd->memory)
        a->memory = nd->memory - used;
}

uint32_t sched_select_shape_slots(const sched_t *s, const struct shape *sh, uint32_t n,
                                  const struct avail *a)
{
    uint64_t most = UINT32_MAX;

    if (sh->req.exclusive && !a->empty)
        return 0;
    if (sh->cores > 0)
        most = a->cores / sh->cores;
    if (sh->gpus > 0 && a->gpus / sh->gpus < most)
        most = a->gpus / sh->gpus;
    if (sh->memory > 0 && s->map->nodes[n].memory > 0 && a->memory / sh->memory < most)
        most = a->memory / sh->memory;
    if (sh->req.nnodes > 0)
        return most > 0;
    return (uint32_t)most;
}

/* --- pools --- */

static uint64_t pool_at(const sched_t *s, uint32_t which, const struct span *sp, double t)
{
    uint64_t used = s->map->pools[which].used;

    for (struct sched_tree_node *n = sched_tree_first(&s->pool_ends); n;
         n = sched_tree_after(&s->pool_ends, sched_tree_key(n))) {
        const struct claim *c = list_entry(n, struct claim, by_pool);

        if (sched_claim_end(c, sp->now) > t + SCHED_EPSILON)
            break;
        used -= c->pools[which];
    }
    for (size_t r = 0; r < s->nreserved && !sp->alone; r++) {
        const struct claim *c = s->reserved[r];

        if (c->start > t + SCHED_EPSILON)
            break;
        if (c->pools && counts(s, sp, c) && c->end > t + SCHED_EPSILON)
            used += c->pools[which];
    }
    return used;
}

/* The peak use of the pool over the time: use only grows where a reservation begins. */
static uint64_t pool_peak(const sched_t *s, uint32_t which, const struct span *sp)
{
    uint64_t peak = pool_at(s, which, sp, sp->from);

    for (size_t r = 0; r < s->nreserved && !sp->alone; r++) {
        const struct claim *c = s->reserved[r];
        uint64_t used;

        if (!c->pools || !counts(s, sp, c) || c->start <= sp->from)
            continue;
        used = pool_at(s, which, sp, c->start);
        if (used > peak)
            peak = used;
    }
    return peak;
}

bool sched_select_pools(const sched_t *s, const struct shape *sh, const struct span *sp)
{
    for (size_t i = 0; i < sh->req.npools; i++) {
        uint64_t total = s->map->pools[sh->pools[i]].total;
        uint64_t used = pool_peak(s, sh->pools[i], sp);

        if (used > total || total - used < sh->req.pools[i].count)
            return false;
    }
    return true;
}

bool sched_select_infeasible(const sched_t *s, const struct shape *sh)
{
    const struct map *m = s->map;

    if (sh->grown == s->grown || sh->cores > m->max_cores || sh->gpus > m->max_gpus)
        return true;
    if (sh->req.nnodes == 0)
        return (uint64_t)sh->cores * sh->nslots > m->free_cores ||
               (uint64_t)sh->gpus * sh->nslots > m->free_gpus ||
               (sh->req.exclusive && m->nempty == 0);
    return m->ncores_at_least[sh->cores] < sh->req.nnodes ||
           (sh->req.exclusive && m->nempty < sh->req.nnodes);
}

/* --- walking over nodes --- */

struct search {
    sched_t *s;
    const struct shape *sh;
    const struct span *sp;
    uint32_t left; /* nodes, or slots, still to be found */
    size_t n;      /* entries in s->choice */
    bool all;      /* find all nodes, not just enough */
};

/* Take the node if it has room.  True: there are enough now. */
static bool take_node(struct search *q, uint32_t n)
{
    sched_t *s = q->s;
    struct avail a;
    uint32_t slots;

    s->work++;
    sched_select_node_avail(s, n, q->sp, &a, NULL);
    if ((slots = sched_select_shape_slots(s, q->sh, n, &a)) == 0)
        return false;
    if (q->sh->req.nnodes > 0)
        slots = q->sh->nslots;
    else if (!q->all && slots > q->left)
        slots = q->left;
    s->choice[q->n++] = (struct choice){n, slots, 0.};
    if (q->all)
        return false;
    q->left -= q->sh->req.nnodes > 0 ? 1 : slots;
    return q->left == 0;
}

/* Visit nodes with at least `least` free cores, but fewer than `below` (0: no such bound). */
static bool walk(struct search *q, uint32_t least, uint32_t below)
{
    const struct map *m = q->s->map;
    const struct shape *sh = q->sh;
    const uint64_t *base = m->at_least + (size_t)least * m->words;
    const uint64_t *upper = below ? m->at_least + (size_t)below * m->words : NULL;
    const uint64_t *gpus = sh->gpus ? m->gpus_at_least + (size_t)sh->gpus * m->words : NULL;

    for (size_t w = 0; w < m->words; w++) {
        uint64_t bits = base[w];

        if (upper)
            bits &= ~upper[w];
        if (gpus)
            bits &= gpus[w];
        if (sh->allowed)
            bits &= sh->allowed[w];
        if (sh->req.exclusive)
            bits &= m->empty[w];
        while (bits) {
            uint32_t n = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);

            bits &= bits - 1;
            if (take_node(q, n))
                return true;
        }
    }
    q->s->work += m->words >> 4;
    return false;
}

static bool by_level(struct search *q, bool fullest)
{
    const struct map *m = q->s->map;
    uint32_t least = q->sh->cores;

    for (uint32_t i = least; i <= m->max_cores; i++) {
        uint32_t c = fullest ? i : m->max_cores - (i - least);
        uint32_t exactly = m->ncores_at_least[c];

        if (c < m->max_cores)
            exactly -= m->ncores_at_least[c + 1];
        if (exactly > 0 && walk(q, c, c < m->max_cores ? c + 1 : 0))
            return true;
    }
    return false;
}

/* --- by score --- */

struct scored {
    double score;
    struct choice choice;
};

static int scored_cmp(const void *x, const void *y)
{
    const struct scored *a = x;
    const struct scored *b = y;

    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return a->choice.node < b->choice.node ? -1 : a->choice.node > b->choice.node;
}

static int score_node(sched_t *s, const struct sched_plugin_job *job, uint32_t n, double *score)
{
    const struct node *nd = &s->map->nodes[n];
    struct sched_plugin_node pn = {
        .rank = nd->rank,
        .host = nd->host ? nd->host : "",
        .cores = nd->ncores,
        .cores_free = nd->free_cores,
        .gpus = nd->ngpus,
        .gpus_free = nd->free_gpus,
        .memory = nd->memory,
        .memory_free = nd->memory > nd->used_memory ? nd->memory - nd->used_memory : 0,
    };

    if (s->node->node->score(s->node_state, job, &pn, score) == 0 && !isnan(*score))
        return 0;
    s->no_score = true;
    s->stats.fallbacks++;
    sched_say(s, "node policy %s could not score node %u for job %ju: lowest ranks are taken",
              s->node->name, nd->rank, (uintmax_t)job->id);
    return -1;
}

/* Choose the nodes with the best scores, in s->choice. */
static bool best_scores(struct search *q, const struct job *j)
{
    sched_t *s = q->s;
    struct scored *list = calloc(q->n + 1, sizeof(*list));
    struct sched_plugin_job job;
    size_t n = 0;

    if (!list)
        return false;
    sched_job_view(j, &job);
    for (size_t i = 0; i < q->n; i++) {
        list[i].choice = s->choice[i];
        if (score_node(s, &job, s->choice[i].node, &list[i].score) < 0) {
            free(list);
            return false;
        }
    }
    qsort(list, q->n, sizeof(*list), scored_cmp);
    for (size_t i = 0; i < q->n && q->left > 0; i++) {
        struct choice *c = &s->choice[n++];

        *c = list[i].choice;
        if (q->sh->req.nnodes == 0 && c->slots > q->left)
            c->slots = q->left;
        q->left -= q->sh->req.nnodes > 0 ? 1 : c->slots;
    }
    q->n = n;
    free(list);
    return true;
}

size_t sched_select_now(sched_t *s, const struct shape *sh, const struct job *j,
                        const struct span *sp)
{
    struct search q = {.s = s, .sh = sh, .sp = sp};
    enum sched_node_order order = s->node->node->order;

    s->work++;
    if (sched_select_infeasible(s, sh) || !sched_select_pools(s, sh, sp))
        return 0;
    q.left = sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots;
    if (order == SCHED_NODES_BY_SELECT && s->choices && !s->no_score) {
        size_t n;

        q.all = true;
        walk(&q, sh->cores, 0);
        n = sched_choose_nodes(s, sh, j, sp, q.n);
        if (!s->no_score)
            return n;
        q = (struct search){.s = s, .sh = sh, .sp = sp};
        q.left = sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots;
    }
    if (order == SCHED_NODES_BY_SELECT)
        order = SCHED_NODES_BY_RANK;
    if (order == SCHED_NODES_BY_SCORE && (s->no_score || !s->node->node->score || !j))
        order = SCHED_NODES_BY_RANK;
    if (order == SCHED_NODES_BY_SCORE) {
        q.all = true;
        walk(&q, sh->cores, 0);
        if (best_scores(&q, j)) {
            sched_plan_by_node(s->choice, q.n);
            return q.left == 0 ? q.n : 0;
        }
        q = (struct search){.s = s, .sh = sh, .sp = sp, .left = q.left};
        q.left = sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots;
        order = SCHED_NODES_BY_RANK;
    }
    if (order == SCHED_NODES_BY_RANK)
        return walk(&q, sh->cores, 0) ? q.n : 0;
    if (!by_level(&q, order == SCHED_NODES_FULLEST))
        return 0;
    sched_plan_by_node(s->choice, q.n);
    return q.n;
}

uint64_t sched_select_count(sched_t *s, const struct shape *sh)
{
    struct span sp = {.alone = true, .nreserved = SIZE_MAX};
    struct search q = {.s = s, .sh = sh, .sp = &sp, .all = true};
    uint64_t sum = 0;

    if (sh->cores > s->map->max_cores || sh->gpus > s->map->max_gpus)
        return 0;
    walk(&q, sh->cores, 0);
    for (size_t i = 0; i < q.n; i++)
        sum += sh->req.nnodes > 0 ? 1 : s->choice[i].slots;
    return sum;
}

/* --- the claim --- */

/* Move the lowest `count` of the bits from `from` to `to`. */
static void take_bits(uint64_t *to, const uint64_t *from, size_t words, uint32_t count)
{
    for (size_t w = 0; w < words && count > 0; w++) {
        uint64_t left = from[w];
        uint32_t here = (uint32_t)__builtin_popcountll(left);

        if (here <= count) {
            to[w] = left;
            count -= here;
            continue;
        }
        for (; count > 0; count--) {
            to[w] |= left & -left;
            left &= left - 1;
        }
    }
}

static void take_piece(sched_t *s, const struct shape *sh, struct piece *p, const struct choice *ch,
                       const struct span *sp)
{
    const struct map *m = s->map;
    const struct node *nd = &m->nodes[ch->node];
    uint32_t times = sh->req.nnodes > 0 ? 1 : ch->slots;
    struct avail a;

    p->node = ch->node;
    if (sh->req.exclusive) {
        p->whole = true;
        p->ncores = nd->ncores;
        p->ngpus = nd->ngpus;
        p->memory = nd->memory;
        memcpy(p->bits, sched_map_all(m, ch->node), (m->cw + m->gw) * sizeof(uint64_t));
        return;
    }
    sched_select_node_avail(s, ch->node, sp, &a, s->bits);
    p->ncores = sh->cores * times;
    p->ngpus = sh->gpus * times;
    p->memory = sh->memory * times;
    take_bits(p->bits, s->bits, m->cw, p->ncores);
    take_bits(p->bits + m->cw, s->bits + m->cw, m->gw, p->ngpus);
}

struct claim *sched_select_claim(sched_t *s, const struct job *j, size_t nchoice,
                                 const struct span *sp)
{
    const struct shape *sh = j->shape;
    struct claim *c = sched_claim_create(s->map, nchoice, sh->req.npools > 0);

    if (!c)
        return NULL;
    c->id = j->id;
    c->start = sp->from;
    c->end = sp->from + j->duration;
    sched_job_view(j, &c->view);
    for (size_t i = 0; i < nchoice; i++)
        take_piece(s, sh, sched_claim_piece(c, i), &s->choice[i], sp);
    for (size_t i = 0; i < sh->req.npools; i++)
        c->pools[sh->pools[i]] = sh->req.pools[i].count;
    s->work += nchoice;
    return c;
}
