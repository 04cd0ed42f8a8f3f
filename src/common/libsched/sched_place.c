/* sched_place.c - the free nodes, and the jobs on each switch, at one time.
 *
 * Format: the bitmap of free nodes and the numbers by leaf and pod are in one block of memory, so
 * that a copy of the state is one memcpy and a few scalars.
 *
 * Invariants:
 *  1. nfree is the number of bits in `free` (with `count` there is no bitmap).
 *  2. With `switches`, leaf_free and pod_free are nfree by leaf and pod; hist[f] is the number of
 *     leaves with f free nodes; leaf_most is the largest f with hist[f] > 0; pod_uncrossed and
 *     pod_open are the sums of leaf_free that sched_plugin.h defines.
 *  3. Marks are counters: taking and releasing the same set leaves them unchanged.
 *
 * Failure: ENOMEM when an object is created or a set grows; EINVAL for a policy's invalid answer.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_place.h"

/* --- switches --- */

struct sched_switches {
    struct sched_plugin_switches v;
    uint32_t *mem; /* all arrays of `v` */
    uint32_t leaf_max, pod_max;
};

/* Build the lists of members, by the group of each member: begin (ngroups + 1) and members. */
static void group(uint32_t *begin, uint32_t *members, const uint32_t *of, uint32_t n,
                  uint32_t ngroups)
{
    memset(begin, 0, (ngroups + 1) * sizeof(*begin));
    for (uint32_t i = 0; i < n; i++)
        begin[of[i] + 1]++;
    for (uint32_t g = 0; g < ngroups; g++)
        begin[g + 1] += begin[g];
    for (uint32_t i = 0; i < n; i++)
        members[begin[of[i]]++] = i;
    memmove(begin + 1, begin, ngroups * sizeof(*begin));
    begin[0] = 0;
}

sched_switches_t *sched_place_switches_create(uint32_t nnodes, const uint32_t *leaf_of,
                                              uint32_t nleaves, const uint32_t *pod_of,
                                              uint32_t npods)
{
    sched_switches_t *sw = calloc(1, sizeof(*sw));
    uint32_t *at;

    if (!leaf_of)
        nleaves = npods = 1;
    if (sw)
        sw->mem = calloc((size_t)2 * nnodes + (size_t)3 * nleaves + npods + 2, sizeof(uint32_t));
    if (!sw || !sw->mem) {
        sched_place_switches_destroy(sw);
        errno = ENOMEM;
        return NULL;
    }
    at = sw->mem;
    if (leaf_of) {
        memcpy(at, leaf_of, nnodes * sizeof(*at));
        memcpy(at + nnodes, pod_of, nleaves * sizeof(*at));
    }
    sw->v.nnodes = nnodes;
    sw->v.nleaves = nleaves;
    sw->v.npods = npods;
    sw->v.leaf_of = at;
    sw->v.pod_of = at += nnodes;
    sw->v.leaf_nodes = at += nleaves;
    sw->v.pod_leaves = at += nnodes;
    sw->v.leaf_begin = at += nleaves;
    sw->v.pod_begin = at += nleaves + 1;
    group((uint32_t *)(uintptr_t)sw->v.leaf_begin, (uint32_t *)(uintptr_t)sw->v.leaf_nodes,
          sw->v.leaf_of, nnodes, nleaves);
    group((uint32_t *)(uintptr_t)sw->v.pod_begin, (uint32_t *)(uintptr_t)sw->v.pod_leaves,
          sw->v.pod_of, nleaves, npods);
    for (uint32_t l = 0; l < nleaves; l++) {
        if (sw->v.leaf_begin[l + 1] - sw->v.leaf_begin[l] > sw->leaf_max)
            sw->leaf_max = sw->v.leaf_begin[l + 1] - sw->v.leaf_begin[l];
    }
    for (uint32_t p = 0; p < npods; p++) {
        uint32_t size = 0;

        for (uint32_t i = sw->v.pod_begin[p]; i < sw->v.pod_begin[p + 1]; i++) {
            uint32_t l = sw->v.pod_leaves[i];

            size += sw->v.leaf_begin[l + 1] - sw->v.leaf_begin[l];
        }
        if (size > sw->pod_max)
            sw->pod_max = size;
    }
    return sw;
}

void sched_place_switches_destroy(sched_switches_t *sw)
{
    int saved = errno;

    if (sw) {
        free(sw->mem);
        free(sw);
    }
    errno = saved;
}

const struct sched_plugin_switches *sched_place_switches_view(const sched_switches_t *sw)
{
    return &sw->v;
}

/* --- sets --- */

void sched_place_set_clear(struct sched_set *set)
{
    free(set->range);
    *set = (struct sched_set){0};
}

int sched_place_set_add(struct sched_set *set, uint32_t first, uint32_t count)
{
    set->nodes += count;
    if (set->nrange > 0) {
        struct sched_range *last = &set->range[set->nrange - 1];

        if (last->first + last->count == first) {
            last->count += count;
            return 0;
        }
    }
    if (set->nrange == set->room) {
        uint32_t room = set->room ? 2 * set->room : 4;
        struct sched_range *more = realloc(set->range, room * sizeof(*more));

        if (!more) {
            errno = ENOMEM;
            return -1;
        }
        set->range = more;
        set->room = room;
    }
    set->range[set->nrange++] = (struct sched_range){first, count};
    return 0;
}

/* --- the state --- */

struct sched_place {
    struct sched_plugin_view v;
    const sched_switches_t *sw;
    bool count, switches;
    size_t words;
    uint32_t low; /* no word of `free` before this one has a bit */
    uint64_t *mem;
    size_t bytes;
    uint64_t *free; /* in mem */
    uint32_t *leaf_free, *leaf_t2, *leaf_t3, *pod_free, *pod_t3, *pod_uncrossed, *pod_open, *hist;
    uint64_t *picked, *idle; /* the answer of a policy; not copied */
    uint32_t *stamp;         /* of leaves and pods: the value of `turn` at the last visit */
    uint32_t turn;
};

static void leaf_set(sched_place_t *p, uint32_t l, int free, int t2, int t3);

sched_place_t *sched_place_create(const sched_switches_t *sw, bool count, bool switches)
{
    sched_place_t *p = calloc(1, sizeof(*p));
    uint32_t nl = sw->v.nleaves;
    uint32_t np = sw->v.npods;
    uint32_t *at;

    if (!p)
        return NULL;
    p->sw = sw;
    p->count = count;
    p->switches = switches;
    p->words = count ? 0 : ((size_t)sw->v.nnodes + 63) / 64;
    p->bytes = p->words * sizeof(uint64_t);
    if (switches)
        p->bytes += ((size_t)3 * nl + (size_t)4 * np + sw->leaf_max + 1) * sizeof(uint32_t);
    p->mem = calloc(1, p->bytes + sizeof(uint64_t));
    p->picked = calloc(2 * p->words + (switches ? nl + np : 0) + 1, sizeof(uint64_t));
    p->stamp = switches ? calloc((size_t)nl + np, sizeof(uint32_t)) : NULL;
    if (!p->mem || !p->picked || (switches && !p->stamp)) {
        sched_place_destroy(p);
        errno = ENOMEM;
        return NULL;
    }
    p->free = p->mem;
    p->idle = p->picked + p->words;
    p->v.scratch = p->idle + p->words;
    p->v.sw = &sw->v;
    p->v.free = p->free;
    p->v.nfree = sw->v.nnodes;
    for (size_t w = 0; w < p->words; w++)
        p->free[w] = ~UINT64_C(0);
    if (p->words > 0 && sw->v.nnodes % 64)
        p->free[p->words - 1] = (UINT64_C(1) << (sw->v.nnodes % 64)) - 1;
    p->v.leaf_max = sw->leaf_max;
    p->v.pod_max = sw->pod_max;
    if (!switches)
        return p;
    at = (uint32_t *)(void *)(p->free + p->words);
    p->v.leaf_free = p->leaf_free = at;
    p->v.leaf_t2 = p->leaf_t2 = at += nl;
    p->v.leaf_t3 = p->leaf_t3 = at += nl;
    p->v.pod_free = p->pod_free = at += nl;
    p->v.pod_t3 = p->pod_t3 = at += np;
    p->v.pod_uncrossed = p->pod_uncrossed = at += np;
    p->v.pod_open = p->pod_open = at += np;
    p->hist = at + np;
    p->hist[0] = nl;
    for (uint32_t l = 0; l < nl; l++)
        leaf_set(p, l, (int)(sw->v.leaf_begin[l + 1] - sw->v.leaf_begin[l]), 0, 0);
    return p;
}

void sched_place_destroy(sched_place_t *p)
{
    int saved = errno;

    if (p) {
        free(p->mem);
        free(p->picked);
        free(p->stamp);
        free(p);
    }
    errno = saved;
}

void sched_place_copy(sched_place_t *to, const sched_place_t *from)
{
    memcpy(to->mem, from->mem, from->bytes);
    to->low = from->low;
    to->v.nfree = from->v.nfree;
    to->v.leaf_most = from->v.leaf_most;
    to->v.leaf_max = from->v.leaf_max;
    to->v.pod_max = from->v.pod_max;
}

uint32_t sched_place_nfree(const sched_place_t *p)
{
    return p->v.nfree;
}

static bool sched_place_is_free(const sched_place_t *p, uint32_t node)
{
    return (p->free[node / 64] >> (node % 64)) & 1;
}

const struct sched_plugin_view *sched_place_view(const sched_place_t *p)
{
    return &p->v;
}

void sched_place_limit(sched_place_t *p, uint32_t leaf_max, uint32_t pod_max)
{
    p->v.leaf_max = leaf_max;
    p->v.pod_max = pod_max;
}

/* Add to a leaf's free nodes and marks, and update all sums that depend on them. */
static void leaf_set(sched_place_t *p, uint32_t l, int free, int t2, int t3)
{
    uint32_t pod = p->sw->v.pod_of[l];

    if (p->leaf_t2[l] == 0) {
        p->pod_open[pod] -= p->leaf_free[l];
        if (p->leaf_t3[l] == 0)
            p->pod_uncrossed[pod] -= p->leaf_free[l];
    }
    if (free != 0) {
        p->hist[p->leaf_free[l]]--;
        p->leaf_free[l] += (uint32_t)free;
        p->pod_free[pod] += (uint32_t)free;
        p->hist[p->leaf_free[l]]++;
        if (p->leaf_free[l] > p->v.leaf_most)
            p->v.leaf_most = p->leaf_free[l];
        while (p->v.leaf_most > 0 && p->hist[p->v.leaf_most] == 0)
            p->v.leaf_most--;
    }
    p->leaf_t2[l] += (uint32_t)t2;
    p->leaf_t3[l] += (uint32_t)t3;
    if (p->leaf_t2[l] == 0) {
        p->pod_open[pod] += p->leaf_free[l];
        if (p->leaf_t3[l] == 0)
            p->pod_uncrossed[pod] += p->leaf_free[l];
    }
}

/* The bits of a word that are nodes first..first+count-1. */
static inline uint64_t mask_of(size_t w, uint32_t first, uint32_t count)
{
    uint32_t lo = first > w * 64 ? first - (uint32_t)(w * 64) : 0;
    uint64_t hi = first + (uint64_t)count - w * 64;
    uint64_t mask = hi >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << hi) - 1;

    return mask & (~UINT64_C(0) << lo);
}

static void turn_bits(sched_place_t *p, uint32_t first, uint32_t count, bool free)
{
    size_t last = ((size_t)first + count - 1) / 64;

    if (free && first / 64 < p->low)
        p->low = first / 64;
    for (size_t w = first / 64; w <= last; w++) {
        if (free)
            p->free[w] |= mask_of(w, first, count);
        else
            p->free[w] &= ~mask_of(w, first, count);
    }
}

/* The nodes of a range that are consecutive on one leaf: *n is set to the start of the next run. */
static uint32_t run_on_leaf(const sched_place_t *p, uint32_t *n, uint32_t end)
{
    uint32_t leaf = p->sw->v.leaf_of[*n];
    uint32_t from = *n;

    do
        ++*n;
    while (*n < end && p->sw->v.leaf_of[*n] == leaf);
    return *n - from;
}

static void set_range(sched_place_t *p, uint32_t first, uint32_t count, bool free)
{
    p->v.nfree += free ? count : -count;
    if (!p->count)
        turn_bits(p, first, count, free);
    for (uint32_t n = first; p->switches && n < first + count;) {
        uint32_t leaf = p->sw->v.leaf_of[n];
        int run = (int)run_on_leaf(p, &n, first + count);

        leaf_set(p, leaf, free ? run : -run, 0, 0);
    }
}

void sched_place_set_free(sched_place_t *p, uint32_t node, bool free)
{
    if (p->count) {
        p->v.nfree += free ? 1 : -1U;
    } else if (sched_place_is_free(p, node) != free)
        set_range(p, node, 1, free);
}

void sched_place_mark(sched_place_t *p, const struct sched_set *set, int by)
{
    uint32_t nl = p->sw->v.nleaves;

    if (!p->switches || set->crosses <= SCHED_CROSS_NOTHING)
        return;
    p->turn++;
    for (uint32_t i = 0; i < set->nrange; i++) {
        uint32_t end = set->range[i].first + set->range[i].count;

        for (uint32_t n = set->range[i].first; n < end;) {
            uint32_t leaf = p->sw->v.leaf_of[n];
            uint32_t pod = p->sw->v.pod_of[leaf];

            run_on_leaf(p, &n, end);
            if (p->stamp[leaf] == p->turn)
                continue;
            p->stamp[leaf] = p->turn;
            leaf_set(p, leaf, 0, set->crosses == SCHED_CROSS_LEAVES ? by : 0,
                     set->crosses == SCHED_CROSS_PODS ? by : 0);
            if (set->crosses == SCHED_CROSS_PODS && p->stamp[nl + pod] != p->turn) {
                p->stamp[nl + pod] = p->turn;
                p->pod_t3[pod] += (uint32_t)by;
            }
        }
    }
}

void sched_place_take(sched_place_t *p, const struct sched_set *set)
{
    if (p->count)
        p->v.nfree -= set->nodes;
    for (uint32_t i = 0; i < set->nrange && !p->count; i++)
        set_range(p, set->range[i].first, set->range[i].count, false);
    sched_place_mark(p, set, 1);
}

void sched_place_give(sched_place_t *p, const struct sched_set *set)
{
    if (p->count)
        p->v.nfree += set->nodes;
    for (uint32_t i = 0; i < set->nrange && !p->count; i++)
        set_range(p, set->range[i].first, set->range[i].count, true);
    sched_place_mark(p, set, -1);
}

void sched_place_block(sched_place_t *p, const struct sched_set *set)
{
    for (uint32_t i = 0; i < set->nrange; i++) {
        uint32_t end = set->range[i].first + set->range[i].count;

        for (uint32_t n = set->range[i].first; n < end; n++)
            sched_place_set_free(p, n, false);
    }
    sched_place_mark(p, set, 1);
}

enum sched_crossing sched_place_crossing(const sched_place_t *p, const struct sched_set *set)
{
    enum sched_crossing crosses = SCHED_CROSS_NOTHING;
    uint32_t first;

    if (set->nrange == 0)
        return crosses;
    first = p->sw->v.leaf_of[set->range[0].first];
    for (uint32_t i = 0; i < set->nrange; i++) {
        uint32_t end = set->range[i].first + set->range[i].count;

        for (uint32_t n = set->range[i].first; n < end;) {
            uint32_t leaf = p->sw->v.leaf_of[n];

            run_on_leaf(p, &n, end);
            if (p->sw->v.pod_of[leaf] != p->sw->v.pod_of[first])
                return SCHED_CROSS_PODS;
            if (leaf != first)
                crosses = SCHED_CROSS_LEAVES;
        }
    }
    return crosses;
}

/* --- selection --- */

/* Convert a bitmap to ranges. */
static int ranges_of(const uint64_t *bits, size_t words, struct sched_set *set)
{
    for (size_t w = 0; w < words; w++) {
        uint64_t left = bits[w];

        while (left) {
            uint32_t lo = (uint32_t)__builtin_ctzll(left);
            uint64_t run = ~(left >> lo);
            uint32_t len = run ? (uint32_t)__builtin_ctzll(run) : 64;

            if (len > 64 - lo)
                len = 64 - lo;
            if (sched_place_set_add(set, (uint32_t)(w * 64) + lo, len) < 0)
                return -1;
            left = lo + len >= 64 ? 0 : left & (~UINT64_C(0) << (lo + len));
        }
    }
    return 0;
}

/* Select the lowest free nodes. */
static int first_fit(const sched_place_t *p, uint32_t want, struct sched_set *set)
{
    sched_place_t *hint = (sched_place_t *)(uintptr_t)p;

    while (p->low < p->words && p->free[p->low] == 0)
        hint->low++;
    for (size_t w = p->low; want > 0; w++) {
        uint64_t left = p->free[w];

        while (left && want > 0) {
            uint32_t lo = (uint32_t)__builtin_ctzll(left);
            uint64_t run = ~(left >> lo);
            uint32_t len = run ? (uint32_t)__builtin_ctzll(run) : 64;

            if (len > 64 - lo)
                len = 64 - lo;
            if (len > want)
                len = want;
            if (sched_place_set_add(set, (uint32_t)(w * 64) + lo, len) < 0)
                return -1;
            want -= len;
            left = lo + len >= 64 ? 0 : left & (~UINT64_C(0) << (lo + len));
        }
    }
    return 1;
}

static uint32_t bits_of(const uint64_t *bits, size_t words)
{
    uint32_t n = 0;

    for (size_t w = 0; w < words; w++)
        n += (uint32_t)__builtin_popcountll(bits[w]);
    return n;
}

/* Check a policy's answer: its nodes must be free, and as many as requested. */
static int take_answer(const sched_place_t *p, uint32_t want, const struct sched_plugin_set *out,
                       struct sched_set *set)
{
    for (size_t w = 0; w < p->words; w++) {
        if ((out->nodes[w] | out->idle[w]) & ~p->free[w] || out->nodes[w] & out->idle[w]) {
            errno = EINVAL;
            return -1;
        }
    }
    if (bits_of(out->nodes, p->words) != want) {
        errno = EINVAL;
        return -1;
    }
    for (size_t w = 0; w < p->words; w++)
        out->nodes[w] |= out->idle[w];
    if (ranges_of(out->nodes, p->words, set) < 0)
        return -1;
    set->crosses = out->crosses ? out->crosses : sched_place_crossing(p, set);
    return 1;
}

int sched_place_select(const sched_place_t *p, const struct sched_node_policy *policy, void *state,
                       const struct sched_plugin_job *job, double at, struct sched_set *set)
{
    struct sched_plugin_set out = {.nodes = p->picked, .idle = p->idle};
    int rc;

    set->nrange = set->nodes = 0;
    set->crosses = SCHED_CROSS_NOTHING;
    if (job->nnodes > p->v.nfree)
        return 0;
    if (p->count) {
        set->nodes = job->nnodes;
        return 1;
    }
    if (policy->order != SCHED_NODES_BY_SELECT)
        return first_fit(p, job->nnodes, set);
    memset(p->picked, 0, 2 * p->words * sizeof(*p->picked));
    if ((rc = policy->select(state, job, &p->v, at, &out)) == 1)
        return take_answer(p, job->nnodes, &out, set);
    errno = EINVAL;
    return rc == 0 ? 0 : -1;
}

int sched_place_fits(const sched_place_t *p, const struct sched_node_policy *policy, void *state,
                     const struct sched_plugin_job *job, double at)
{
    struct sched_plugin_set out = {.nodes = p->picked, .idle = p->idle};
    int rc;

    if (job->nnodes > p->v.nfree)
        return 0;
    if (policy->order != SCHED_NODES_BY_SELECT)
        return 1;
    if (policy->fits)
        rc = policy->fits(state, job, &p->v, at);
    else {
        memset(p->picked, 0, 2 * p->words * sizeof(*p->picked));
        rc = policy->select(state, job, &p->v, at, &out);
    }
    if (rc >= 0 && rc <= 1)
        return rc;
    errno = EINVAL;
    return -1;
}
