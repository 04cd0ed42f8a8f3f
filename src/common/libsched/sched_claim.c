/* sched_claim.c - claims: the resources that a job holds or has reserved; and their conversion to
 * resource sets.
 *
 * A claim has a piece for each of its nodes, with a bit for each core and GPU of the node (words of
 * sched_map.c), and a number for each pool.  Resources of a resource set that are not in the
 * inventory are kept beside the pieces, in `outside`, so that the whole set can be returned.
 *
 * Invariant: a piece has only bits of its node.
 *
 * Failure: NULL or -1 with ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

struct claim *sched_claim_create(const struct map *m, size_t npieces, bool pools)
{
    struct claim *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->stride = sizeof(struct piece) + (m->cw + m->gw) * sizeof(uint64_t);
    c->npieces = npieces;
    c->pieces = calloc(npieces + 1, c->stride);
    c->pools = pools ? calloc(m->npools + 1, sizeof(uint64_t)) : NULL;
    if (!c->pieces || (pools && !c->pools)) {
        sched_claim_destroy(c);
        errno = ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < npieces; i++)
        sched_claim_piece(c, i)->claim = c;
    return c;
}

void sched_claim_destroy(struct claim *c)
{
    int saved = errno;

    if (c) {
        rset_destroy(c->outside);
        free(c->pools);
        free(c->pieces);
        free(c);
    }
    errno = saved;
}

/* Set the bits of these ids.  Returns whether there are ids that the node does not have. */
static bool foreign_ids(uint64_t *bits, const uint64_t *all, size_t words, const idset_t *ids)
{
    bool foreign = false;

    for (uint32_t id = idset_first(ids); id != IDSET_NONE; id = idset_next(ids, id)) {
        if (id / 64 < words && (all[id / 64] >> (id % 64)) & 1)
            bits[id / 64] |= UINT64_C(1) << (id % 64);
        else
            foreign = true;
    }
    return foreign;
}

static uint32_t count_bits(const uint64_t *bits, size_t words)
{
    uint32_t n = 0;

    for (size_t w = 0; w < words; w++)
        n += (uint32_t)__builtin_popcountll(bits[w]);
    return n;
}

/* Store the resources of R that the claim does not have in `outside`. */
static int set_outside(const struct map *m, struct claim *c, const rset_t *R)
{
    rset_t *mine = sched_claim_rset(m, c);

    c->outside = mine ? rset_diff(R, mine) : NULL;
    rset_destroy(mine);
    return c->outside ? 0 : -1;
}

struct claim *sched_claim_from_rset(const struct map *m, uint64_t id, const rset_t *R)
{
    struct claim *c = sched_claim_create(m, rset_nnodes(R), rset_npools(R) > 0);
    struct rset_node rn;
    bool foreign = false;
    size_t n = 0;

    if (!c)
        return NULL;
    c->id = id;
    for (size_t i = 0; rset_node(R, i, &rn); i++) {
        ssize_t place = resgraph_find_rank(m->graph, rn.rank);
        struct piece *p = sched_claim_piece(c, n);
        const uint64_t *all;

        if (place < 0) {
            foreign = true;
            continue;
        }
        all = sched_map_all(m, (uint32_t)place);
        p->node = (uint32_t)place;
        foreign |= foreign_ids(p->bits, all, m->cw, rn.cores);
        foreign |= foreign_ids(p->bits + m->cw, all + m->cw, m->gw, rn.gpus);
        p->ncores = count_bits(p->bits, m->cw);
        p->ngpus = count_bits(p->bits + m->cw, m->gw);
        p->whole = p->ncores == m->nodes[place].ncores;
        p->memory = rn.memory;
        n++;
    }
    c->npieces = n;
    for (size_t i = 0; i < m->npools && c->pools; i++)
        c->pools[i] = rset_pool_count(R, m->pools[i].name);
    if (foreign && set_outside(m, c, R) < 0) {
        sched_claim_destroy(c);
        return NULL;
    }
    return c;
}

static idset_t *ids_of(const uint64_t *bits, size_t words)
{
    idset_t *ids = idset_create();

    for (size_t w = 0; w < words && ids; w++) {
        uint64_t left = bits[w];

        while (left) {
            uint32_t lo = (uint32_t)__builtin_ctzll(left);
            uint64_t run = ~(left >> lo);
            uint32_t len = run ? (uint32_t)__builtin_ctzll(run) : 64;

            if (idset_range_set(ids, (uint32_t)(w * 64) + lo, (uint32_t)(w * 64) + lo + len - 1) <
                0) {
                idset_destroy(ids);
                return NULL;
            }
            left = lo + len >= 64 ? 0 : left & (~UINT64_C(0) << (lo + len));
        }
    }
    return ids;
}

int sched_claim_add_to_rset(const struct map *m, rset_t *R, uint32_t n, const uint64_t *bits,
                            uint64_t memory)
{
    idset_t *cores = ids_of(bits, m->cw);
    idset_t *gpus = m->gw > 0 ? ids_of(bits + m->cw, m->gw) : NULL;
    int rc = -1;

    if (cores && (gpus || m->gw == 0))
        rc = rset_add_node(R, m->nodes[n].rank, m->nodes[n].host, cores, gpus, memory);
    idset_destroy(cores);
    idset_destroy(gpus);
    return rc;
}

/* Neighbors mostly have the same bits: their sets of ids are converted once. */
rset_t *sched_claim_rset(const struct map *m, const struct claim *c)
{
    rset_t *R = rset_create();
    const struct piece *last = NULL;
    size_t bytes = (m->cw + m->gw) * sizeof(uint64_t);
    idset_t *cores = NULL;
    idset_t *gpus = NULL;

    if (!R)
        return NULL;
    for (size_t i = 0; i < c->npieces; i++) {
        const struct piece *p = sched_claim_piece(c, i);

        if (!last || memcmp(last->bits, p->bits, bytes) != 0) {
            idset_destroy(cores);
            idset_destroy(gpus);
            cores = ids_of(p->bits, m->cw);
            gpus = ids_of(p->bits + m->cw, m->gw);
            last = p;
        }
        if (!cores || !gpus ||
            rset_add_node(R, m->nodes[p->node].rank, m->nodes[p->node].host, cores, gpus,
                          p->memory) < 0)
            goto fail;
    }
    for (size_t i = 0; c->pools && i < m->npools; i++) {
        if (c->pools[i] > 0 && rset_add_pool(R, m->pools[i].name, c->pools[i]) < 0)
            goto fail;
    }
    if (c->outside && rset_add(R, c->outside) < 0)
        goto fail;
    idset_destroy(cores);
    idset_destroy(gpus);
    return R;
fail:
    idset_destroy(cores);
    idset_destroy(gpus);
    rset_destroy(R);
    errno = ENOMEM;
    return NULL;
}
