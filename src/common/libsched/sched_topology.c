/* sched_topology.c - node policies that know the switches: compact, buddy, interference-free.
 *
 * interference-free places a job of n nodes so that it shares no link between switches with another
 * job.  T1 is a job that fits on the largest leaf, T2 one that fits in the largest pod, T3 any
 * other.
 *
 *    type  allowed switches                               links that it may use
 *    T1    one leaf, beside any job                       none
 *    T2    leaves of one pod that have no other T2 or T3  uplinks of these leaves
 *    T3    pods without another T3, leaves without a T2   uplinks of these leaves and pods
 *
 *    T1: the pods by free nodes, fewest first; in each the leaves likewise; the first with n free
 *    T2: the pods by free nodes, fewest first; the first with n free on allowed leaves; of these
 *        the leaves with most free nodes first
 *    T3: the allowed pods, most free first; in each the allowed leaves, most free first, until n
 *        nodes are found
 *
 * Ties go to the lower number; on a leaf the lowest free nodes are taken.  The search is complete,
 * so sums tell whether there is a set (if_fits).
 *
 * With wait=T, a job that has waited for longer than T is placed by compact, and counts as T2 in
 * one pod, otherwise as T3.
 *
 * compact takes the lowest switch with n free nodes, and of several the one with the fewest.
 * Within that switch it takes the leaf with the fewest free nodes that has enough for the rest of
 * the job; if there is none, it takes all nodes of the leaf with the most, and repeats.  buddy
 * takes the lowest aligned block of 2^k >= n nodes that is entirely free; the rest of the block
 * stays idle.
 *
 * Slots on any nodes count like nodes: a leaf has as many as its nodes together.  buddy takes the
 * lowest nodes for them.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/duration.h"
#include "libutil/strutil.h"
#include "sched_private.h"
#include "sched_topology.h"

typedef const struct sched_plugin_view view_t;

static uint32_t wanted(const struct sched_plugin_job *job)
{
    return job->nnodes > 0 ? job->nnodes : job->nslots;
}

/* --- sorting: most free first, then lower numbers --- */

static inline uint64_t key_of(uint32_t free, uint32_t number)
{
    return (uint64_t)(UINT32_MAX - free) << 32 | number;
}

static inline uint32_t number_of(uint64_t key)
{
    return (uint32_t)key;
}

static inline uint32_t free_of(uint64_t key)
{
    return UINT32_MAX - (uint32_t)(key >> 32);
}

static int by_key(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x;
    uint64_t b = *(const uint64_t *)y;

    return a < b ? -1 : a > b;
}

static void sort(uint64_t *keys, uint32_t n)
{
    if (n > 32) {
        qsort(keys, n, sizeof(*keys), by_key);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        uint64_t key = keys[i];
        uint32_t at = i;

        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

/* Take the lowest free nodes of a leaf, up to `want`.  Returns the number that is still wanted. */
static uint32_t take_leaf(view_t *v, uint32_t leaf, uint32_t want, uint64_t *nodes)
{
    for (uint32_t i = v->sw->leaf_begin[leaf]; want > 0 && i < v->sw->leaf_begin[leaf + 1]; i++) {
        uint32_t n = v->sw->leaf_nodes[i];
        uint32_t has;

        if (!((v->free[n / 64] >> (n % 64)) & 1))
            continue;
        has = v->slots ? v->slots[n] : 1;
        nodes[n / 64] |= UINT64_C(1) << (n % 64);
        want -= has < want ? has : want;
    }
    return want;
}

/* --- compact --- */

/* Among the sorted leaves from `pos` on, the leaf with the fewest free nodes that has `want`. */
static uint32_t tightest(const uint64_t *keys, uint32_t pos, uint32_t n, uint32_t want)
{
    uint32_t at = pos;

    for (uint32_t i = pos; i < n && free_of(keys[i]) >= want; i++) {
        if (free_of(keys[i]) != free_of(keys[at]))
            at = i;
    }
    return at;
}

static void compact_leaves(view_t *v, uint64_t *keys, uint32_t n, uint32_t want, uint64_t *nodes)
{
    sort(keys, n);
    for (uint32_t pos = 0; want > 0 && pos < n; pos++) {
        if (free_of(keys[pos]) >= want)
            pos = tightest(keys, pos, n, want);
        want = take_leaf(v, number_of(keys[pos]), want, nodes);
    }
}

static uint32_t fewest_that_has(const uint32_t *free, uint32_t n, uint32_t want)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < n; i++) {
        if (free[i] >= want && (best == UINT32_MAX || free[i] < free[best]))
            best = i;
    }
    return best;
}

static int compact_select(void *state, const struct sched_plugin_job *job, view_t *v, double at,
                          struct sched_plugin_set *set)
{
    const struct sched_plugin_switches *sw = v->sw;
    uint32_t want = wanted(job);
    uint32_t best, n = 0;

    if (v->nfree < want)
        return 0;
    if (v->leaf_most >= want) {
        take_leaf(v, fewest_that_has(v->leaf_free, sw->nleaves, want), want, set->nodes);
        return 1;
    }
    if ((best = fewest_that_has(v->pod_free, sw->npods, want)) != UINT32_MAX) {
        for (uint32_t i = sw->pod_begin[best]; i < sw->pod_begin[best + 1]; i++)
            v->scratch[n++] = key_of(v->leaf_free[sw->pod_leaves[i]], sw->pod_leaves[i]);
    } else {
        for (uint32_t l = 0; l < sw->nleaves; l++)
            v->scratch[n++] = key_of(v->leaf_free[l], l);
    }
    compact_leaves(v, v->scratch, n, want, set->nodes);
    return 1;
}

static int enough_fits(void *state, const struct sched_plugin_job *job, view_t *v, double at)
{
    return v->nfree >= wanted(job);
}

/* --- buddy --- */

static bool block_free(const uint64_t *free, uint32_t first, uint32_t size)
{
    if (size < 64) {
        uint64_t mask = (UINT64_C(1) << size) - 1;

        return ((free[first / 64] >> (first % 64)) & mask) == mask;
    }
    for (uint32_t w = first / 64; w < (first + size) / 64; w++) {
        if (free[w] != ~UINT64_C(0))
            return false;
    }
    return true;
}

static uint32_t block_size(uint32_t want)
{
    uint32_t size = 1;

    while (size < want)
        size *= 2;
    return size;
}

/* The lowest block, or UINT32_MAX. */
static uint32_t find_block(view_t *v, uint32_t size)
{
    if (size > v->nfree)
        return UINT32_MAX;
    for (uint32_t first = 0; first + size <= v->sw->nnodes; first += size) {
        if (block_free(v->free, first, size))
            return first;
    }
    return UINT32_MAX;
}

/* Nodes with room for slots are not entirely free: take the lowest. */
static int lowest_slots(view_t *v, uint32_t want, uint64_t *nodes)
{
    for (uint32_t n = 0; n < v->sw->nnodes && want > 0; n++) {
        if (!((v->free[n / 64] >> (n % 64)) & 1))
            continue;
        nodes[n / 64] |= UINT64_C(1) << (n % 64);
        want -= v->slots[n] < want ? v->slots[n] : want;
    }
    return want == 0;
}

static int buddy_select(void *state, const struct sched_plugin_job *job, view_t *v, double at,
                        struct sched_plugin_set *set)
{
    uint32_t want = wanted(job);
    uint32_t first, size;

    if (v->slots)
        return lowest_slots(v, want, set->nodes);
    if (want > v->sw->nnodes)
        return 0;
    size = block_size(want);
    if ((first = find_block(v, size)) == UINT32_MAX)
        return 0;
    for (uint32_t n = first; n < first + size; n++)
        (n < first + want ? set->nodes : set->idle)[n / 64] |= UINT64_C(1) << (n % 64);
    return 1;
}

static int buddy_fits(void *state, const struct sched_plugin_job *job, view_t *v, double at)
{
    if (v->slots || wanted(job) > v->sw->nnodes)
        return v->nfree >= wanted(job);
    return find_block(v, block_size(wanted(job))) != UINT32_MAX;
}

/* --- interference-free --- */

struct if_state {
    double wait; /* seconds; negative: without limit */
};

static void *if_create(const char *arg, char *err, size_t size)
{
    struct if_state *st = calloc(1, sizeof(*st));

    if (!st) {
        snprintf(err, size, "out of memory");
        return NULL;
    }
    st->wait = -1.;
    if (arg && (!str_starts(arg, "wait=") || duration_parse(arg + 5, &st->wait, NULL) < 0 ||
                !(st->wait >= 0.))) {
        snprintf(err, size, "its argument is wait=TIME, as in wait=1h, not '%.60s'", arg);
        free(st);
        return NULL;
    }
    return st;
}

static bool waited(const struct if_state *st, const struct sched_plugin_job *job, double at)
{
    return st->wait >= 0. && at - job->t_submit > st->wait;
}

static enum sched_crossing type_of(view_t *v, uint32_t want)
{
    if (want <= v->leaf_max)
        return SCHED_CROSS_NOTHING;
    return want <= v->pod_max ? SCHED_CROSS_LEAVES : SCHED_CROSS_PODS;
}

static int if_t1(view_t *v, uint32_t want, uint64_t *nodes)
{
    uint32_t best = UINT32_MAX;
    uint32_t best_pod = 0;

    if (v->leaf_most < want)
        return 0;
    for (uint32_t l = 0; l < v->sw->nleaves; l++) {
        uint32_t pod = v->sw->pod_of[l];

        if (v->leaf_free[l] < want)
            continue;
        if (best != UINT32_MAX) {
            if (v->pod_free[pod] != v->pod_free[best_pod] ? v->pod_free[pod] > v->pod_free[best_pod]
                : pod != best_pod                         ? pod > best_pod
                                                          : v->leaf_free[l] >= v->leaf_free[best])
                continue;
        }
        best = l;
        best_pod = pod;
    }
    take_leaf(v, best, want, nodes);
    return 1;
}

/* Take nodes of the leaves of a pod that T2, or T3, may use, up to `want`.  Returns the number that
 * is still wanted. */
static uint32_t take_pod(view_t *v, uint32_t pod, bool t3, uint32_t want, uint64_t *keys,
                         uint64_t *nodes)
{
    uint32_t n = 0;

    for (uint32_t i = v->sw->pod_begin[pod]; i < v->sw->pod_begin[pod + 1]; i++) {
        uint32_t l = v->sw->pod_leaves[i];

        if (v->leaf_free[l] > 0 && v->leaf_t2[l] == 0 && (t3 || v->leaf_t3[l] == 0))
            keys[n++] = key_of(v->leaf_free[l], l);
    }
    sort(keys, n);
    for (uint32_t i = 0; i < n && want > 0; i++)
        want = take_leaf(v, number_of(keys[i]), want, nodes);
    return want;
}

static int if_t2(view_t *v, uint32_t want, uint64_t *nodes)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t p = 0; p < v->sw->npods; p++) {
        if (v->pod_uncrossed[p] >= want &&
            (best == UINT32_MAX || v->pod_free[p] < v->pod_free[best]))
            best = p;
    }
    return best != UINT32_MAX && take_pod(v, best, false, want, v->scratch, nodes) == 0;
}

static uint64_t open_to_t3(view_t *v)
{
    uint64_t sum = 0;

    for (uint32_t p = 0; p < v->sw->npods; p++)
        sum += v->pod_t3[p] == 0 ? v->pod_open[p] : 0;
    return sum;
}

static int if_t3(view_t *v, uint32_t want, uint64_t *nodes)
{
    uint64_t *leaves = v->scratch + v->sw->npods;
    uint32_t n = 0;

    if (open_to_t3(v) < want)
        return 0;
    for (uint32_t p = 0; p < v->sw->npods; p++) {
        if (v->pod_t3[p] == 0)
            v->scratch[n++] = key_of(v->pod_free[p], p);
    }
    sort(v->scratch, n);
    for (uint32_t i = 0; i < n && want > 0; i++)
        want = take_pod(v, number_of(v->scratch[i]), true, want, leaves, nodes);
    return want == 0;
}

/* Are the picked nodes in more than one pod? */
static enum sched_crossing by_pods(view_t *v, const uint64_t *nodes)
{
    uint32_t pod = UINT32_MAX;

    for (uint32_t w = 0; w < (v->sw->nnodes + 63) / 64; w++) {
        for (uint64_t left = nodes[w]; left; left &= left - 1) {
            uint32_t n = w * 64 + (uint32_t)__builtin_ctzll(left);
            uint32_t here = v->sw->pod_of[v->sw->leaf_of[n]];

            if (pod != UINT32_MAX && here != pod)
                return SCHED_CROSS_PODS;
            pod = here;
        }
    }
    return SCHED_CROSS_LEAVES;
}

static int if_select(void *state, const struct sched_plugin_job *job, view_t *v, double at,
                     struct sched_plugin_set *set)
{
    uint32_t want = wanted(job);

    if (waited(state, job, at)) {
        if (compact_select(NULL, job, v, at, set) == 0)
            return 0;
        set->crosses = by_pods(v, set->nodes);
        return 1;
    }
    set->crosses = type_of(v, want);
    if (set->crosses == SCHED_CROSS_NOTHING)
        return if_t1(v, want, set->nodes);
    if (set->crosses == SCHED_CROSS_LEAVES)
        return if_t2(v, want, set->nodes);
    return if_t3(v, want, set->nodes);
}

static int if_fits(void *state, const struct sched_plugin_job *job, view_t *v, double at)
{
    uint32_t want = wanted(job);
    enum sched_crossing type = type_of(v, want);

    if (waited(state, job, at))
        return v->nfree >= want;
    if (type == SCHED_CROSS_NOTHING)
        return v->leaf_most >= want;
    if (type == SCHED_CROSS_PODS)
        return open_to_t3(v) >= want;
    for (uint32_t p = 0; p < v->sw->npods; p++) {
        if (v->pod_uncrossed[p] >= want)
            return 1;
    }
    return 0;
}

/* --- limits --- */

static uint32_t largest_block(view_t *v)
{
    uint32_t size = 1;

    if (v->nfree == 0)
        return 0;
    while (size * 2 <= v->nfree && size * 2 <= v->sw->nnodes)
        size *= 2;
    while (find_block(v, size) == UINT32_MAX)
        size /= 2;
    return size;
}

bool sched_topology_limits_of(const struct sched_node_policy *policy, void *state, view_t *v,
                              struct sched_limits *l)
{
    if (policy == &sched_buddy) {
        uint32_t most = largest_block(v);

        *l = (struct sched_limits){UINT32_MAX, UINT32_MAX, {most, most, most}};
        return true;
    }
    if (policy != &sched_interference_free || ((const struct if_state *)state)->wait >= 0.) {
        *l = (struct sched_limits){UINT32_MAX, UINT32_MAX, {v->nfree, v->nfree, v->nfree}};
        return !policy->refuses;
    }
    *l = (struct sched_limits){v->leaf_max, v->pod_max, {v->leaf_most, 0, 0}};
    for (uint32_t p = 0; p < v->sw->npods; p++) {
        if (v->pod_uncrossed[p] > l->most[1])
            l->most[1] = v->pod_uncrossed[p];
    }
    l->most[2] = (uint32_t)open_to_t3(v);
    return true;
}

/* --- reasons --- */

static uint32_t place_of_most(const uint32_t *room, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        best = room[i] > room[best] ? i : best;
    return best;
}

/* "pod 2", "leaf s1". */
static const char *name_switch(const char *level, const char *const *names, uint32_t i, char *buf,
                               size_t size)
{
    size_t len = strlen(level);

    if (names && names[i] && (strncmp(names[i], level, len) != 0))
        snprintf(buf, size, "%s %.40s", level, names[i]);
    else
        snprintf(buf, size, "%s %u", level, i);
    return buf;
}

bool sched_topology_why(const struct sched_node_policy *policy, void *state,
                        const struct sched_plugin_job *job, view_t *v, double at,
                        const char *const *leaf_name, const char *const *pod_name, char *buf,
                        size_t size)
{
    uint32_t want = wanted(job);
    char name[64];
    uint32_t i;

    if (!policy->fits || policy->fits(state, job, v, at) != 0)
        return false;
    if (policy == &sched_buddy) {
        snprintf(buf, size, "waits for a block of %u nodes that are all free: the largest has %u",
                 block_size(want), largest_block(v));
        return true;
    }
    if (policy != &sched_interference_free)
        return false;
    switch (type_of(v, want)) {
    case SCHED_CROSS_NOTHING:
        i = place_of_most(v->leaf_free, v->sw->nleaves);
        snprintf(buf, size, "waits for %u node%s on one leaf: %s has %u", want,
                 want == 1 ? "" : "s", name_switch("leaf", leaf_name, i, name, sizeof(name)),
                 v->leaf_most);
        break;
    case SCHED_CROSS_LEAVES:
        i = place_of_most(v->pod_uncrossed, v->sw->npods);
        snprintf(buf, size, "waits for %u nodes on leaves that no other job crosses: %s has %u",
                 want, name_switch("pod", pod_name, i, name, sizeof(name)), v->pod_uncrossed[i]);
        break;
    default:
        snprintf(buf, size,
                 "waits for %u nodes in pods and on leaves that no other job crosses: there are %u",
                 want, (uint32_t)open_to_t3(v));
    }
    return true;
}

/* --- the tables --- */

const struct sched_node_policy sched_compact = {.create = sched_builtin_no_argument,
                                                .order = SCHED_NODES_BY_SELECT,
                                                .select = compact_select,
                                                .fits = enough_fits};
const struct sched_node_policy sched_buddy = {.create = sched_builtin_no_argument,
                                              .order = SCHED_NODES_BY_SELECT,
                                              .select = buddy_select,
                                              .fits = buddy_fits,
                                              .refuses = true};
const struct sched_node_policy sched_interference_free = {.create = if_create,
                                                          .destroy = free,
                                                          .order = SCHED_NODES_BY_SELECT,
                                                          .select = if_select,
                                                          .fits = if_fits,
                                                          .refuses = true};
