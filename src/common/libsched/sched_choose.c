/* sched_choose.c - calls of node policies that select a set, for requests of any kind.
 *
 * (Where all jobs take whole nodes that are alike, sched_alike.c does not use this file.)
 *
 * Purpose: build the view that a policy gets.  One sched_place keeps the marks of the running jobs,
 * which count the jobs that cross each switch.  The room (nodes, slots on each, sums by leaf and
 * pod) is computed for each request.  For a later time the marks of jobs that end before it are
 * removed, and those of overlapping reservations added, for the duration of the call.
 *
 * Invariants:
 *  1. The marks are those of the held claims with `crosses` set.
 *
 * Failure: a policy that fails, or gives an invalid answer, is not called again until a node policy
 * is set: the lowest ranks are taken, and an error message is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

struct choices {
    sched_place_t *marks;
    uint64_t *room, *picked, *idle, *scratch;
    uint32_t *slots, *leaf_free, *pod_free, *pod_uncrossed, *pod_open;
    struct sched_set set; /* scratch: the set of one claim */
};

void sched_choose_destroy(sched_t *s)
{
    struct choices *c = s->choices;

    if (!c)
        return;
    sched_place_destroy(c->marks);
    sched_place_set_clear(&c->set);
    free(c->room);
    free(c->slots);
    free(c);
    s->choices = NULL;
}

int sched_choose_set(const struct claim *c, struct sched_set *set)
{
    set->nrange = set->nodes = 0;
    for (size_t i = 0; i < c->npieces; i++) {
        if (sched_place_set_add(set, sched_claim_piece(c, i)->node, 1) < 0)
            return -1;
    }
    return 0;
}

static void mark(sched_t *s, const struct claim *c, enum sched_crossing crosses, int by)
{
    struct choices *ch = s->choices;

    if (crosses <= SCHED_CROSS_NOTHING || sched_choose_set(c, &ch->set) < 0)
        return;
    ch->set.crosses = crosses;
    sched_place_mark(ch->marks, &ch->set, by);
}

static enum sched_crossing crossing(sched_t *s, const struct claim *c)
{
    struct choices *ch = s->choices;

    return sched_choose_set(c, &ch->set) < 0 ? SCHED_CROSS_PODS
                                             : sched_place_crossing(ch->marks, &ch->set);
}

void sched_choose_held(sched_t *s, struct claim *c)
{
    if (!s->choices)
        return;
    if (!c->crosses)
        c->crosses = crossing(s, c);
    mark(s, c, c->crosses, 1);
}

void sched_choose_released(sched_t *s, struct claim *c)
{
    if (s->choices)
        mark(s, c, c->crosses, -1);
    c->crosses = 0;
}

int sched_choose_renew(sched_t *s)
{
    const struct sched_plugin_switches *sw = sched_place_switches_view(s->map->sw);
    size_t words = s->map->words + 1;
    struct choices *c;
    size_t pos = 0;
    void *val;

    sched_choose_destroy(s);
    while (hmap_next(s->held, &pos, NULL, NULL, &val))
        ((struct claim *)val)->crosses = 0;
    if (!s->node || s->node->node->order != SCHED_NODES_BY_SELECT)
        return 0;
    if (!(c = calloc(1, sizeof(*c))))
        return -1;
    s->choices = c;
    c->marks = sched_place_create(s->map->sw, false, true);
    c->room = calloc(3 * words + sw->nleaves + sw->npods + 1, sizeof(uint64_t));
    c->slots =
        calloc((size_t)sw->nnodes + sw->nleaves + 3 * (size_t)sw->npods + 1, sizeof(uint32_t));
    if (!c->marks || !c->room || !c->slots) {
        sched_choose_destroy(s);
        errno = ENOMEM;
        return -1;
    }
    c->picked = c->room + words;
    c->idle = c->picked + words;
    c->scratch = c->idle + words;
    c->leaf_free = c->slots + sw->nnodes;
    c->pod_free = c->leaf_free + sw->nleaves;
    c->pod_uncrossed = c->pod_free + sw->npods;
    c->pod_open = c->pod_uncrossed + sw->npods;
    pos = 0;
    while (hmap_next(s->held, &pos, NULL, NULL, &val))
        sched_choose_held(s, val);
    return 0;
}

/* --- the view --- */

/* Compute the sums of the candidates, and the sums that leaves and pods would have if no job
 * ran. */
static void make_view(sched_t *s, const struct shape *sh, size_t n, struct sched_plugin_view *v)
{
    struct choices *c = s->choices;
    const struct sched_plugin_switches *sw = sched_place_switches_view(s->map->sw);
    const struct sched_plugin_view *m = sched_place_view(c->marks);
    bool nodes = sh->req.nnodes > 0;

    memset(c->room, 0, s->map->words * sizeof(*c->room));
    memset(c->leaf_free, 0, ((size_t)sw->nleaves + 3 * (size_t)sw->npods) * sizeof(uint32_t));
    *v = (struct sched_plugin_view){.sw = sw,
                                    .free = c->room,
                                    .slots = nodes ? NULL : c->slots,
                                    .leaf_free = c->leaf_free,
                                    .pod_free = c->pod_free,
                                    .leaf_t2 = m->leaf_t2,
                                    .leaf_t3 = m->leaf_t3,
                                    .pod_t3 = m->pod_t3,
                                    .pod_uncrossed = c->pod_uncrossed,
                                    .pod_open = c->pod_open,
                                    .scratch = c->scratch};
    /* Sums on the empty machine, first in the arrays of the present sums. */
    for (uint32_t i = 0; i < sw->nnodes; i++) {
        const struct node *nd = &s->map->nodes[i];
        struct avail a = {nd->ncores, nd->ngpus, nd->memory, true};
        uint32_t slots;

        if (!nd->usable || !sched_shape_node_could(s->map, sh, i))
            continue;
        slots = sched_select_shape_slots(s, sh, i, &a);
        c->leaf_free[sw->leaf_of[i]] += slots;
        c->pod_free[sw->pod_of[sw->leaf_of[i]]] += slots;
    }
    for (uint32_t l = 0; l < sw->nleaves; l++)
        v->leaf_max = c->leaf_free[l] > v->leaf_max ? c->leaf_free[l] : v->leaf_max;
    for (uint32_t p = 0; p < sw->npods; p++)
        v->pod_max = c->pod_free[p] > v->pod_max ? c->pod_free[p] : v->pod_max;
    memset(c->leaf_free, 0, ((size_t)sw->nleaves + 3 * (size_t)sw->npods) * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++) {
        uint32_t node = s->choice[i].node;
        uint32_t slots = nodes ? 1 : s->choice[i].slots;

        c->room[node / 64] |= UINT64_C(1) << (node % 64);
        c->slots[node] = slots;
        c->leaf_free[sw->leaf_of[node]] += slots;
        v->nfree += slots;
    }
    for (uint32_t l = 0; l < sw->nleaves; l++) {
        uint32_t pod = sw->pod_of[l];

        c->pod_free[pod] += c->leaf_free[l];
        if (m->leaf_t2[l] == 0)
            c->pod_open[pod] += c->leaf_free[l];
        if (m->leaf_t2[l] == 0 && m->leaf_t3[l] == 0)
            c->pod_uncrossed[pod] += c->leaf_free[l];
        if (c->leaf_free[l] > v->leaf_most)
            v->leaf_most = c->leaf_free[l];
    }
    s->work += sw->nnodes / 8;
}

/* --- selection --- */

static void mark_span(sched_t *s, const struct span *sp, int by)
{
    for (struct sched_tree_node *n = sp->future ? sched_tree_first(&s->ends) : NULL; n;
         n = sched_tree_after(&s->ends, sched_tree_key(n))) {
        const struct claim *c = list_entry(n, struct claim, by_end);

        if (sched_claim_end(c, sp->now) > sp->from + SCHED_EPSILON)
            break;
        mark(s, c, c->crosses, -by);
    }
    for (size_t r = 0; !sp->alone && r < s->nreserved && r < sp->nreserved; r++) {
        const struct claim *c = s->reserved[r];

        if (c != sp->own && sched_span_overlaps(sp, c))
            mark(s, c, crossing(s, c), by);
    }
}

/* Check a policy's answer, and copy it to s->choice: candidates only, and as many as were
 * requested. */
static size_t take_answer(sched_t *s, const struct shape *sh, size_t n)
{
    struct choices *c = s->choices;
    uint64_t left = sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots;
    size_t words = s->map->words;
    size_t taken = 0;

    for (size_t w = 0; w < words; w++) {
        if ((c->picked[w] | c->idle[w]) & ~c->room[w])
            return 0;
    }
    for (size_t i = 0; i < n && left > 0; i++) {
        struct choice ch = s->choice[i];
        uint64_t has = sh->req.nnodes > 0 ? 1 : ch.slots;

        if (!((c->picked[ch.node / 64] >> (ch.node % 64)) & 1))
            continue;
        if (sh->req.nnodes == 0 && has > left)
            ch.slots = (uint32_t)(has = left);
        left -= has;
        s->choice[taken++] = ch;
    }
    return left == 0 ? taken : 0;
}

static void view_of(const struct shape *sh, const struct job *j, double at,
                    struct sched_plugin_job *v)
{
    if (j) {
        sched_job_view(j, v);
        return;
    }
    *v = (struct sched_plugin_job){.t_submit = at,
                                   .nnodes = sh->req.nnodes,
                                   .nslots = sh->nslots,
                                   .cores = sh->req.cores,
                                   .exclusive = sh->req.exclusive};
}

size_t sched_choose_nodes(sched_t *s, const struct shape *sh, const struct job *j,
                          const struct span *sp, size_t n)
{
    struct choices *c = s->choices;
    struct sched_plugin_set set = {.nodes = c->picked, .idle = c->idle};
    struct sched_plugin_view v;
    struct sched_plugin_job job;
    int rc;

    view_of(sh, j, sp->from, &job);
    mark_span(s, sp, 1);
    make_view(s, sh, n, &v);
    memset(c->picked, 0, s->map->words * sizeof(*c->picked));
    memset(c->idle, 0, s->map->words * sizeof(*c->idle));
    rc = s->node->node->select(s->node_state, &job, &v, sp->from, &set);
    mark_span(s, sp, -1);
    if (rc == 0)
        return 0;
    if (rc == 1 && (n = take_answer(s, sh, n)) > 0)
        return n;
    s->no_score = true;
    s->grown++; /* shapes that the policy has refused may fit */
    sched_touch(s);
    s->stats.fallbacks++;
    sched_say(s, "node policy %s could not select nodes for job %ju: lowest ranks are taken",
              s->node->name, (uintmax_t)(j ? j->id : 0));
    return 0;
}
