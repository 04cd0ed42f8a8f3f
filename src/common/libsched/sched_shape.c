/* sched_shape.c - shapes: requests that differ only in their duration are stored once.
 *
 * Purpose: a queue of 100,000 jobs mostly has few different requests.  If one job does not fit,
 * other jobs of its shape do not fit either, so a pass considers shapes rather than jobs.
 *
 * Properties that depend on the inventory (the allowed nodes, whether the request can ever fit) are
 * computed at the first use after the inventory or the state of nodes has changed (epoch).
 *
 * Failure: after ENOMEM a shape is not renewed, and the pass leaves its jobs for the next one.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

static void shape_needs(struct shape *sh)
{
    const struct rreq *r = &sh->req;
    uint32_t cores = r->cores;

    /* Each slot needs at least one resource for its tasks. */
    if (cores == 0 && r->gpus == 0)
        cores = 1;
    sh->nslots = r->nslots > 0 ? r->nslots : 1;
    sh->cores = cores;
    sh->gpus = r->gpus;
    sh->memory = r->memory;
    if (r->nnodes > 0) {
        uint64_t c = (uint64_t)cores * sh->nslots;
        uint64_t g = (uint64_t)r->gpus * sh->nslots;

        sh->cores = c > UINT32_MAX ? UINT32_MAX : (uint32_t)c;
        sh->gpus = g > UINT32_MAX ? UINT32_MAX : (uint32_t)g;
        sh->memory = r->memory > UINT64_MAX / sh->nslots ? UINT64_MAX : r->memory * sh->nslots;
    }
}

void sched_shape_destroy(sched_t *s, struct shape *sh)
{
    struct shape *first = hmap_get_u64(s->shapes, sh->hash);

    if (first == sh && !sh->next)
        hmap_del_u64(s->shapes, sh->hash);
    else if (first == sh) {
        /* Cannot fail: the key is there. */
        (void)hmap_put_u64(s->shapes, sh->hash, sh->next);
    } else {
        for (; first; first = first->next) {
            if (first->next == sh) {
                first->next = sh->next;
                break;
            }
        }
    }
    list_remove(&sh->link);
    s->nshapes--;
    rreq_clear(&sh->req);
    free(sh->pools);
    free(sh->allowed);
    free(sh);
}

struct shape *sched_shape_get(sched_t *s, const struct rreq *req)
{
    uint64_t hash = rreq_hash(req);
    struct shape *first = hmap_get_u64(s->shapes, hash);
    struct shape *sh;

    for (sh = first; sh; sh = sh->next) {
        if (rreq_equal_resources(&sh->req, req)) {
            sh->njobs++;
            return sh;
        }
    }
    if (!(sh = calloc(1, sizeof(*sh))) || rreq_copy(&sh->req, req) < 0) {
        free(sh);
        errno = ENOMEM;
        return NULL;
    }
    sh->req.duration = 0.;
    sh->hash = hash;
    sh->next = first;
    if (!(sh->pools = calloc(sh->req.npools + 1, sizeof(*sh->pools))) ||
        hmap_put_u64(s->shapes, hash, sh) < 0) {
        rreq_clear(&sh->req);
        free(sh->pools);
        free(sh);
        errno = ENOMEM;
        return NULL;
    }
    shape_needs(sh);
    sh->njobs = 1;
    list_append(&s->all_shapes, &sh->link);
    s->nshapes++;
    return sh;
}

/* An empty shape is kept during a pass, since the pass may refer to it. */
void sched_shape_put(sched_t *s, struct shape *sh)
{
    if (--sh->njobs > 0)
        return;
    if (s->phase == PHASE_IDLE)
        sched_shape_destroy(s, sh);
    else
        s->empty_shapes = true;
}

bool sched_shape_node_could(const struct map *m, const struct shape *sh, uint32_t n)
{
    const struct node *nd = &m->nodes[n];

    return nd->ncores >= sh->cores && nd->ngpus >= sh->gpus &&
           (nd->memory == 0 || nd->memory >= sh->memory) &&
           (!sh->allowed || (sh->allowed[n / 64] >> (n % 64)) & 1);
}

static int renew_allowed(sched_t *s, struct shape *sh)
{
    const struct map *m = s->map;
    struct resgraph_node rn;
    size_t kind = SIZE_MAX;
    bool fits = false;

    free(sh->allowed);
    sh->allowed = NULL;
    if (!sh->req.ranks && !sh->req.properties)
        return 0;
    if (!(sh->allowed = calloc(m->words + 1, sizeof(uint64_t))))
        return -1;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->nodes[i].kind != kind) {
            kind = m->nodes[i].kind;
            fits = resgraph_node(m->graph, i, &rn) && resgraph_fits_properties(&rn, &sh->req);
        }
        if (fits && (!sh->req.ranks || idset_test(sh->req.ranks, m->nodes[i].rank)))
            sh->allowed[i / 64] |= UINT64_C(1) << (i % 64);
    }
    return 0;
}

static uint32_t slots_when_empty(const sched_t *s, const struct shape *sh, uint32_t n)
{
    const struct node *nd = &s->map->nodes[n];
    struct avail a = {nd->ncores, nd->ngpus, nd->memory, true};

    return sched_select_shape_slots(s, sh, n, &a);
}

/* Slots, or nodes, on the nodes that are usable (or on all), counted up to `enough`. */
static uint64_t capacity(const sched_t *s, const struct shape *sh, bool usable, uint64_t enough)
{
    const struct map *m = s->map;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < m->n && sum < enough; i++) {
        if ((!usable || m->nodes[i].usable) && sched_shape_node_could(m, sh, i))
            sum += sh->req.nnodes > 0 ? 1 : slots_when_empty(s, sh, i);
    }
    return sum;
}

size_t sched_shape_suited(const sched_t *s, const struct shape *sh)
{
    return (size_t)capacity(s, sh, true, UINT64_MAX);
}

static bool pools_exist(sched_t *s, struct shape *sh)
{
    bool enough = true;

    for (size_t i = 0; i < sh->req.npools; i++) {
        const struct rreq_pool *want = &sh->req.pools[i];
        size_t p = 0;

        while (p < s->map->npools && strcmp(s->map->pools[p].name, want->name) != 0)
            p++;
        sh->pools[i] = (uint32_t)p;
        if (p == s->map->npools || s->map->pools[p].total < want->count)
            enough = false;
    }
    return enough;
}

int sched_shape_renew(sched_t *s, struct shape *sh)
{
    uint64_t enough = sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots;
    bool pools;

    if (sh->epoch == s->epoch)
        return 0;
    if (renew_allowed(s, sh) < 0)
        return -1;
    pools = pools_exist(s, sh);
    sh->available = pools && capacity(s, sh, true, enough) >= enough;
    sh->possible = sh->available || (pools && capacity(s, sh, false, enough) >= enough);
    if (sh->available)
        sh->missed = false;
    sh->alike = s->map->alike && !sh->allowed && sh->req.nnodes > 0 && sh->req.npools == 0 &&
                s->map->n > 0 && sched_shape_node_could(s->map, sh, 0) &&
                (sh->req.exclusive || sh->cores == s->map->nodes[0].ncores);
    sh->grown = 0;
    sh->epoch = s->epoch;
    s->work += 8 + (s->map->n >> 3);
    return 0;
}
