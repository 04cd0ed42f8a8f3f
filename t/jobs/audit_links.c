/* audit_links.c - see audit_links.h.
 *
 * Invariant: a group of uplinks belongs to the first job that took it, until that one gives it
 * back.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "audit_links.h"
#include "libutil/hmap.h"

#define POD (UINT64_C(1) << 32)

struct audit_links {
    uint32_t leaves, nodes;
    hmap_t *holders; /* leaf, or POD | pod -> id of a job, as a pointer */
};

audit_links_t *audit_links_create(uint32_t leaves, uint32_t nodes)
{
    audit_links_t *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->leaves = leaves;
    l->nodes = nodes;
    if (!(l->holders = hmap_create_u64(NULL))) {
        free(l);
        errno = ENOMEM;
        return NULL;
    }
    return l;
}

void audit_links_destroy(audit_links_t *l)
{
    int saved = errno;

    if (!l)
        return;
    hmap_destroy(l->holders);
    free(l);
    errno = saved;
}

static uint32_t leaf_of(const audit_links_t *l, uint32_t rank)
{
    return rank / l->nodes;
}

static uint32_t pod_of(const audit_links_t *l, uint32_t rank)
{
    return rank / (l->nodes * l->leaves);
}

/* 1 within a leaf, 2 within a pod, 3 further. */
static int reach(const audit_links_t *l, const idset_t *ranks)
{
    uint32_t first = idset_first(ranks);
    int far = 1;

    for (uint32_t r = first; r != IDSET_NONE; r = idset_next(ranks, r)) {
        if (pod_of(l, r) != pod_of(l, first))
            return 3;
        if (leaf_of(l, r) != leaf_of(l, first))
            far = 2;
    }
    return far;
}

static int take(audit_links_t *l, uint64_t key, uint64_t id, audit_shared_f shared, void *arg)
{
    uint64_t has = (uint64_t)(uintptr_t)hmap_get_u64(l->holders, key);

    if (has == id)
        return 0;
    if (has) {
        shared(key & POD ? "pod" : "leaf", (uint32_t)key, has, arg);
        return 0;
    }
    return hmap_put_u64(l->holders, key, (void *)(uintptr_t)id);
}

int audit_links_take(audit_links_t *l, uint64_t id, const idset_t *ranks, audit_shared_f shared,
                     void *arg)
{
    int far = reach(l, ranks);
    uint32_t leaf = UINT32_MAX, pod = UINT32_MAX; /* the last that was taken */

    for (uint32_t r = idset_first(ranks); far > 1 && r != IDSET_NONE; r = idset_next(ranks, r)) {
        if (leaf_of(l, r) != leaf && take(l, leaf_of(l, r), id, shared, arg) < 0)
            return -1;
        if (far > 2 && pod_of(l, r) != pod && take(l, POD | pod_of(l, r), id, shared, arg) < 0)
            return -1;
        leaf = leaf_of(l, r);
        pod = pod_of(l, r);
    }
    return far;
}

static void give(audit_links_t *l, uint64_t key, uint64_t id)
{
    if ((uint64_t)(uintptr_t)hmap_get_u64(l->holders, key) == id)
        hmap_del_u64(l->holders, key);
}

void audit_links_give(audit_links_t *l, uint64_t id, const idset_t *ranks)
{
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        give(l, leaf_of(l, r), id);
        give(l, POD | pod_of(l, r), id);
    }
}

double audit_links_hops(const audit_links_t *l, const idset_t *ranks)
{
    double sum = 0., n = 0.;

    for (uint32_t a = idset_first(ranks); a != IDSET_NONE; a = idset_next(ranks, a)) {
        for (uint32_t b = idset_next(ranks, a); b != IDSET_NONE; b = idset_next(ranks, b)) {
            sum += pod_of(l, a) != pod_of(l, b) ? 4. : leaf_of(l, a) != leaf_of(l, b) ? 2. : 0.;
            n++;
        }
    }
    return n > 0. ? sum / n : 0.;
}
