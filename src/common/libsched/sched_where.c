/* sched_where.c - the leaf switches of a running job, and the mean distance between its nodes.
 *
 * Failure: ENOENT (the job does not run), ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "libutil/strbuf.h"
#include "sched_private.h"

static int by_pod_and_leaf(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* pod << 32 | leaf for each node of the claim, sorted; NULL with ENOMEM. */
static uint64_t *leaves_of(const struct map *m, const struct claim *c)
{
    uint64_t *at = malloc((c->npieces + 1) * sizeof(*at));

    for (size_t i = 0; at && i < c->npieces; i++) {
        uint32_t leaf = m->names.leaf[sched_claim_piece(c, i)->node];

        at[i] = (uint64_t)m->names.pod[leaf] << 32 | leaf;
    }
    if (at)
        qsort(at, c->npieces, sizeof(*at), by_pod_and_leaf);
    return at;
}

/* Over ordered pairs of different nodes: 0 in one leaf, 2 in one pod, else 4. */
static double mean_hops(const uint64_t *at, size_t n)
{
    double same_leaf = 0., same_pod = 0.;
    double all = (double)n * (double)n;

    for (size_t first = 0, i = 1; i <= n; i++) {
        if (i < n && at[i] == at[first])
            continue;
        same_leaf += (double)(i - first) * (double)(i - first);
        first = i;
    }
    for (size_t first = 0, i = 1; i <= n; i++) {
        if (i < n && at[i] >> 32 == at[first] >> 32)
            continue;
        same_pod += (double)(i - first) * (double)(i - first);
        first = i;
    }
    return n < 2 ? 0. : (4. * all - 2. * same_pod - 2. * same_leaf) / (all - (double)n);
}

/* Names that are not valid host names cannot be folded, and are joined with commas. */
static char *leaf_names(const struct map *m, const uint64_t *at, size_t n)
{
    hostlist_t *hl = hostlist_create();
    strbuf_t *plain = strbuf_create(0);
    bool folds = hl != NULL;
    char *text = NULL;

    for (size_t i = 0; i < n; i++) {
        const char *name = m->names.leaf_name[(uint32_t)at[i]];

        if (!name || (i > 0 && at[i] == at[i - 1]))
            continue;
        strbuf_addf(plain, "%s%s", strbuf_len(plain) > 0 ? "," : "", name);
        folds = folds && !strchr(name, '[') && !strchr(name, ',') &&
                hostlist_append(hl, name, NULL) == 0;
    }
    if (folds && (text = hostlist_format(hl)))
        strbuf_destroy(plain);
    else
        text = strbuf_take(plain);
    hostlist_destroy(hl);
    return text;
}

int sched_where(const sched_t *s, uint64_t id, char **leaves, double *hops)
{
    const struct claim *c = hmap_get_u64(s->held, id);
    uint64_t *at;

    *leaves = NULL;
    *hops = 0.;
    if (!c) {
        errno = ENOENT;
        return -1;
    }
    if (s->map->names.nleaves == 0 || c->npieces == 0)
        return 0;
    if (!(at = leaves_of(s->map, c)) || !(*leaves = leaf_names(s->map, at, c->npieces))) {
        free(at);
        errno = ENOMEM;
        return -1;
    }
    *hops = mean_hops(at, c->npieces);
    free(at);
    return 0;
}
