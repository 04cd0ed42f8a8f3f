/* sched_map.c - the nodes, their free resources, and the pieces that are held and reserved.
 *
 * Invariants:
 *  1. The free bits of a node are all its bits minus those of the pieces held there; free_cores and
 *     free_gpus count them.
 *  2. Bit n of at_least[c] is set exactly if node n is usable and has at least c free cores; the
 *     same holds for gpus.  Bit n of `empty` is set if the node is usable and no piece is held
 *     there.  ncores_at_least and nempty count these bits.
 *  3. Each node has two lists of pieces: held ones in the order of their ends, reserved ones in the
 *     order of their starts.  Bit n of `touched` is set if the second list is not empty.
 *
 * A change of a node's free cores flips one bit for each core, so first-fit is a walk over a bitmap
 * in which only nodes with room are set.
 *
 * Failure: only sched_map_create() fails, with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"
#include "libutil/invariant.h"

static inline void bit_set(uint64_t *map, size_t i)
{
    map[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void bit_clear(uint64_t *map, size_t i)
{
    map[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static void fill(uint64_t *map, const idset_t *ids)
{
    for (uint32_t id = idset_first(ids); id != IDSET_NONE; id = idset_next(ids, id))
        bit_set(map, id);
}

static size_t words_for(const idset_t *ids, size_t so_far)
{
    uint32_t last = idset_last(ids);
    size_t words = last == IDSET_NONE ? 0 : last / 64 + 1;

    return words > so_far ? words : so_far;
}

void sched_map_destroy(struct map *m)
{
    int saved = errno;

    if (m) {
        free(m->nodes);
        free(m->all);
        free(m->free);
        free(m->at_least);
        free(m->gpus_at_least);
        free(m->empty);
        free(m->touched);
        free(m->ncores_at_least);
        free(m->pools);
        free(m->given);
        sched_place_switches_destroy(m->sw);
        resgraph_switches_clear(&m->names);
        resgraph_destroy(m->graph);
        free(m);
    }
    errno = saved;
}

static int map_arrays(struct map *m)
{
    size_t bits = m->cw + m->gw;

    m->words = (m->n + 63) / 64;
    m->npools = resgraph_npools(m->graph);
    m->nodes = calloc(m->n + 1, sizeof(*m->nodes));
    m->all = calloc(m->n * bits + 1, sizeof(*m->all));
    m->free = calloc(m->n * bits + 1, sizeof(*m->free));
    m->at_least = calloc((m->max_cores + 1) * m->words + 1, sizeof(uint64_t));
    m->gpus_at_least = calloc((m->max_gpus + 1) * m->words + 1, sizeof(uint64_t));
    m->empty = calloc(m->words + 1, sizeof(uint64_t));
    m->touched = calloc(m->words + 1, sizeof(uint64_t));
    m->ncores_at_least = calloc(m->max_cores + 1, sizeof(uint32_t));
    m->pools = calloc(m->npools + 1, sizeof(*m->pools));
    for (m->given_room = 64; m->given_room < m->n;)
        m->given_room *= 2;
    m->given = calloc(m->given_room, sizeof(*m->given));
    if (!m->nodes || !m->all || !m->free || !m->at_least || !m->gpus_at_least || !m->empty ||
        !m->touched || !m->ncores_at_least || !m->pools || !m->given) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static int map_switches(struct map *m)
{
    struct resgraph_node rn;

    m->alike = true;
    for (size_t i = 0; resgraph_node(m->graph, i, &rn); i++)
        m->alike &= rn.kind == m->nodes[0].kind;
    if (resgraph_switches(m->graph, &m->names) < 0)
        return -1;
    m->sw = sched_place_switches_create((uint32_t)m->n, m->names.nleaves > 0 ? m->names.leaf : NULL,
                                        m->names.nleaves, m->names.pod, m->names.npods);
    return m->sw ? 0 : -1;
}

struct map *sched_map_create(const resgraph_t *g)
{
    struct map *m = calloc(1, sizeof(*m));
    struct resgraph_node rn;
    struct resgraph_pool rp;

    if (!m || !(m->graph = g ? resgraph_copy(g) : resgraph_create())) {
        sched_map_destroy(m);
        errno = ENOMEM;
        return NULL;
    }
    m->n = resgraph_nnodes(m->graph);
    for (size_t i = 0; resgraph_node(m->graph, i, &rn); i++) {
        m->cw = words_for(rn.cores, m->cw);
        m->gw = words_for(rn.gpus, m->gw);
        if (idset_count(rn.cores) > m->max_cores)
            m->max_cores = (uint32_t)idset_count(rn.cores);
        if (idset_count(rn.gpus) > m->max_gpus)
            m->max_gpus = (uint32_t)idset_count(rn.gpus);
    }
    if (map_arrays(m) < 0) {
        sched_map_destroy(m);
        return NULL;
    }
    for (size_t i = 0; resgraph_node(m->graph, i, &rn); i++) {
        struct node *n = &m->nodes[i];
        uint64_t *all = sched_map_all(m, (uint32_t)i);

        n->rank = rn.rank;
        n->host = rn.host;
        n->kind = rn.kind;
        n->memory = rn.memory;
        n->ncores = n->free_cores = (uint32_t)idset_count(rn.cores);
        n->ngpus = n->free_gpus = (uint32_t)idset_count(rn.gpus);
        fill(all, rn.cores);
        fill(all + m->cw, rn.gpus);
        memcpy(sched_map_free(m, (uint32_t)i), all, (m->cw + m->gw) * sizeof(uint64_t));
    }
    for (size_t i = 0; resgraph_pool(m->graph, i, &rp); i++)
        m->pools[i] = (struct pool){rp.name, rp.count, 0};
    if (map_switches(m) < 0) {
        sched_map_destroy(m);
        errno = ENOMEM;
        return NULL;
    }
    return m;
}

/* --- the indexes --- */

static void index_cores(struct map *m, uint32_t n, uint32_t old, uint32_t fresh)
{
    for (uint32_t c = old + 1; c <= fresh; c++) {
        bit_set(m->at_least + c * m->words, n);
        m->ncores_at_least[c]++;
    }
    for (uint32_t c = old; c > fresh; c--) {
        INVARIANT(2, m->ncores_at_least[c] > 0);
        bit_clear(m->at_least + c * m->words, n);
        m->ncores_at_least[c]--;
    }
    m->free_cores += fresh;
    m->free_cores -= old;
}

static void index_gpus(struct map *m, uint32_t n, uint32_t old, uint32_t fresh)
{
    for (uint32_t g = old + 1; g <= fresh; g++)
        bit_set(m->gpus_at_least + g * m->words, n);
    for (uint32_t g = old; g > fresh; g--)
        bit_clear(m->gpus_at_least + g * m->words, n);
    m->free_gpus += fresh;
    m->free_gpus -= old;
}

static void index_empty(struct map *m, uint32_t n, bool empty)
{
    if (empty) {
        bit_set(m->empty, n);
        m->nempty++;
    } else {
        INVARIANT(2, m->nempty > 0);
        bit_clear(m->empty, n);
        m->nempty--;
    }
}

void sched_map_set_usable(struct map *m, uint32_t n, bool usable)
{
    struct node *nd = &m->nodes[n];

    if (nd->usable == usable)
        return;
    nd->usable = usable;
    m->nholds++;
    if (usable) {
        bit_set(m->at_least, n);
        bit_set(m->gpus_at_least, n);
        m->ncores_at_least[0]++;
        m->nusable++;
        index_cores(m, n, 0, nd->free_cores);
        index_gpus(m, n, 0, nd->free_gpus);
    } else {
        INVARIANT(2, m->nusable > 0);
        index_cores(m, n, nd->free_cores, 0);
        index_gpus(m, n, nd->free_gpus, 0);
        bit_clear(m->at_least, n);
        bit_clear(m->gpus_at_least, n);
        m->ncores_at_least[0]--;
        m->nusable--;
    }
    if (nd->nheld == 0)
        index_empty(m, n, usable);
}

static void set_free(struct map *m, uint32_t n, uint32_t cores, uint32_t gpus, uint32_t nheld)
{
    struct node *nd = &m->nodes[n];

    INVARIANT(1, cores <= nd->ncores && gpus <= nd->ngpus);
    if (nd->usable) {
        index_cores(m, n, nd->free_cores, cores);
        index_gpus(m, n, nd->free_gpus, gpus);
        if ((nd->nheld == 0) != (nheld == 0))
            index_empty(m, n, nheld == 0);
    }
    nd->free_cores = cores;
    nd->free_gpus = gpus;
    nd->nheld = nheld;
}

/* --- pieces --- */

static void given_back(struct map *m, uint32_t n)
{
    m->given[m->ngiven++ & (m->given_room - 1)] = n;
}

/* Pieces with later ends are mostly added later: search from the end. */
static void held_insert(struct node *nd, struct piece *p)
{
    struct piece *before = nd->held_last;

    while (before && before->claim->end > p->claim->end)
        before = before->prev;
    p->prev = before;
    p->next = before ? before->next : nd->held;
    INVARIANT(3, !before || before->claim->end <= p->claim->end);
    INVARIANT(3, !p->next || p->next->claim->end >= p->claim->end);
    if (p->next)
        p->next->prev = p;
    else
        nd->held_last = p;
    if (before)
        before->next = p;
    else
        nd->held = p;
}

static void held_remove(struct node *nd, struct piece *p)
{
    if (p->next)
        p->next->prev = p->prev;
    else
        nd->held_last = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        nd->held = p->next;
}

static void use_pools(struct map *m, const struct claim *c, bool more)
{
    for (size_t i = 0; c->pools && i < m->npools; i++) {
        if (more)
            m->pools[i].used += c->pools[i];
        else
            m->pools[i].used -= c->pools[i];
    }
}

void sched_map_hold(struct map *m, struct claim *c)
{
    size_t words = m->cw + m->gw;

    c->ncores = 0;
    for (size_t i = 0; i < c->npieces; i++) {
        struct piece *p = sched_claim_piece(c, i);
        struct node *nd = &m->nodes[p->node];
        uint64_t *bits = sched_map_free(m, p->node);

        INVARIANT(1, nd->free_cores >= p->ncores && nd->free_gpus >= p->ngpus);
        for (size_t w = 0; w < words; w++) {
            INVARIANT(1, (p->bits[w] & ~bits[w]) == 0);
            bits[w] &= ~p->bits[w];
        }
        nd->used_memory += p->memory;
        held_insert(nd, p);
        set_free(m, p->node, nd->free_cores - p->ncores, nd->free_gpus - p->ngpus, nd->nheld + 1);
        c->ncores += p->ncores;
    }
    m->nholds++;
    use_pools(m, c, true);
}

void sched_map_release(struct map *m, struct claim *c)
{
    size_t words = m->cw + m->gw;

    for (size_t i = 0; i < c->npieces; i++) {
        struct piece *p = sched_claim_piece(c, i);
        struct node *nd = &m->nodes[p->node];
        uint64_t *bits = sched_map_free(m, p->node);

        INVARIANT(3, nd->nheld > 0 && nd->held);
        for (size_t w = 0; w < words; w++) {
            INVARIANT(1, (p->bits[w] & bits[w]) == 0);
            bits[w] |= p->bits[w];
            INVARIANT(1, (bits[w] & ~sched_map_all(m, p->node)[w]) == 0);
        }
        nd->used_memory -= p->memory;
        held_remove(nd, p);
        set_free(m, p->node, nd->free_cores + p->ncores, nd->free_gpus + p->ngpus, nd->nheld - 1);
        given_back(m, p->node);
    }
    m->nholds++;
    use_pools(m, c, false);
}

static void reserved_insert(struct map *m, struct piece *p)
{
    struct node *nd = &m->nodes[p->node];
    struct piece *before = NULL;
    struct piece *after = nd->reserved;

    while (after && after->claim->start <= p->claim->start) {
        before = after;
        after = after->next;
    }
    p->prev = before;
    p->next = after;
    if (after)
        after->prev = p;
    if (before)
        before->next = p;
    else
        nd->reserved = p;
    bit_set(m->touched, p->node);
}

static void reserved_remove(struct map *m, struct piece *p)
{
    struct node *nd = &m->nodes[p->node];

    if (p->next)
        p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        nd->reserved = p->next;
    INVARIANT(3, nd->reserved != p);
    if (!nd->reserved)
        bit_clear(m->touched, p->node);
}

void sched_map_reserve(struct map *m, struct claim *c)
{
    c->ncores = 0;
    for (size_t i = 0; i < c->npieces; i++) {
        struct piece *p = sched_claim_piece(c, i);

        reserved_insert(m, p);
        c->ncores += p->ncores;
    }
}

void sched_map_unreserve(struct map *m, struct claim *c)
{
    for (size_t i = 0; i < c->npieces; i++) {
        struct piece *p = sched_claim_piece(c, i);

        reserved_remove(m, p);
        given_back(m, p->node);
    }
}

void sched_map_move(struct map *m, struct claim *c, const struct choice *to)
{
    for (size_t i = 0; i < c->npieces; i++) {
        struct piece *p = sched_claim_piece(c, i);

        if (p->node == to[i].node)
            continue;
        reserved_remove(m, p);
        given_back(m, p->node);
        p->node = to[i].node;
        reserved_insert(m, p);
    }
}

const struct node *sched_map_taken(const struct map *m, const struct claim *c)
{
    for (size_t i = 0; i < c->npieces; i++) {
        const struct piece *p = sched_claim_piece(c, i);
        const struct node *nd = &m->nodes[p->node];
        const uint64_t *bits = sched_map_free(m, p->node);

        for (size_t w = 0; w < m->cw + m->gw; w++) {
            if (p->bits[w] & ~bits[w])
                return nd;
        }
    }
    return NULL;
}

bool sched_map_room(const struct map *m, const struct claim *c)
{
    for (size_t i = 0; i < c->npieces; i++) {
        const struct piece *p = sched_claim_piece(c, i);
        const struct node *nd = &m->nodes[p->node];

        if (!nd->usable || (p->whole && nd->nheld > 0) ||
            (nd->memory > 0 && nd->used_memory + p->memory > nd->memory))
            return false;
    }
    for (size_t i = 0; c->pools && i < m->npools; i++) {
        if (c->pools[i] > 0 && m->pools[i].used + c->pools[i] > m->pools[i].total)
            return false;
    }
    return !sched_map_taken(m, c);
}
