/* topology.c - tree shapes over ranks 0..N-1.
 *
 * A k-ary tree that is filled level by level needs arithmetic only: the parent of r is (r-1)/k, and
 * its children are k*r+1..k*r+k, up to N-1.  flat is the same with k = N-1.  For a chain (k = 1),
 * whose depth is N, closed forms replace the walks to the root.  A tree from a file is a set of
 * arrays built once (topology_file.c); preorder numbers turn "is it below?" into two comparisons.
 * A tree in which ranks have been moved refers to the tree before the moves (topology_moved.c), and
 * has its spec.
 *
 * Invariants:
 *  1. A regular shape holds no memory that depends on N: a thousand brokers on one host pay
 *     nothing.
 *  2. parent(r) < r holds for regular shapes only; no code relies on it for trees from a file.
 *  3. A topology does not change after its creation, except by topology_move().
 *
 * Failure: a failed creation gives an error message.  A query about a rank that does not exist
 * returns TOPOLOGY_NONE, 0 or false, and touches no memory.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"
#include "topology_private.h"

#define MAX_FILE ((size_t)64 << 20)

/* Shapes that are a name for some k; 0 stands for N-1. */
static const struct {
    const char *name;
    uint32_t k;
} shapes[] = {
    {"binary", 2},
    {"chain", 1},
    {"flat", 0},
};

void topology_destroy(topology_t *t)
{
    int saved = errno;

    if (t) {
        topology_tree_destroy(t->tree);
        topology_moves_destroy(t->moves);
        free(t->spec);
        free(t);
    }
    errno = saved;
}

static topology_t *create(const char *prefix, const char *spec, uint32_t size, errmsg_t *err)
{
    topology_t *t;

    if (size < 1 || size > TOPOLOGY_MAX_SIZE) {
        errmsg_fail(err, EINVAL, "a topology has 1 to %u ranks, not %u", TOPOLOGY_MAX_SIZE, size);
        return NULL;
    }
    t = calloc(1, sizeof(*t));
    if (t) {
        strbuf_t *sb = strbuf_create(0);

        strbuf_add(sb, prefix);
        strbuf_add(sb, spec);
        t->spec = strbuf_take(sb);
    }
    if (!t || !t->spec) {
        errmsg_fail(err, ENOMEM, "topology: out of memory");
        topology_destroy(t);
        return NULL;
    }
    t->size = size;
    return t;
}

/* Depth of a rank in a regular tree. */
static uint32_t kary_depth(uint32_t k, uint32_t rank)
{
    uint32_t depth = 0;

    if (k == 1)
        return rank;
    for (; rank > 0; rank = (rank - 1) / k)
        depth++;
    return depth;
}

static topology_t *create_kary(const char *spec, uint32_t k, uint32_t size, errmsg_t *err)
{
    topology_t *t = create("", spec, size, err);

    if (!t)
        return NULL;
    /* There cannot be more than N-1 children; this limit keeps every product below in 64 bits. */
    if (k == 0 || k >= size)
        k = size > 1 ? size - 1 : 1;
    t->k = k;
    t->max_depth = kary_depth(k, size - 1);
    return t;
}

topology_t *topology_create_text(const char *text, size_t len, const char *name, uint32_t size,
                                 errmsg_t *err)
{
    topology_t *t;

    if (!text || !name) {
        errmsg_fail(err, EINVAL, "topology: no text was given");
        return NULL;
    }
    t = create("file:", name, size, err);
    if (!t)
        return NULL;
    t->tree = topology_tree_parse(text, len, name, size, err);
    if (!t->tree) {
        topology_destroy(t);
        return NULL;
    }
    t->max_depth = t->tree->max_depth;
    return t;
}

static topology_t *create_file(const char *path, uint32_t size, errmsg_t *err)
{
    topology_t *t;
    char *text;
    size_t len;
    int saved;
    errmsg_t why;

    if (!file_is_trusted(path, &why)) {
        errmsg_fail(err, errno, "topology file %s", why.text);
        return NULL;
    }
    if (file_read_all(path, MAX_FILE, &text, &len) < 0) {
        saved = errno;
        errmsg_fail(err, saved, "cannot read the topology file \"%.100s\": %s", path,
                    strerror(saved));
        return NULL;
    }
    t = topology_create_text(text, len, path, size, err);
    saved = errno;
    free(text);
    errno = saved;
    return t;
}

topology_t *topology_create(const char *spec, uint32_t size, errmsg_t *err)
{
    struct stat st;
    uint32_t k;

    if (!spec || !*spec) {
        errmsg_fail(err, EINVAL, "topology: the shape is empty; try kary:2");
        return NULL;
    }
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (!strcmp(spec, shapes[i].name))
            return create_kary(spec, shapes[i].k, size, err);
    }
    if (str_starts(spec, "kary:")) {
        if (str2u32(spec + 5, &k) == 0 && k >= 1)
            return create_kary(spec, k, size, err);
        errmsg_fail(err, EINVAL, "topology \"%.60s\": K must be a whole number from 1; try kary:2",
                    spec);
        return NULL;
    }
    if (str_starts(spec, "file:"))
        return create_file(spec + 5, size, err);
    if (strchr(spec, '/') || stat(spec, &st) == 0)
        return create_file(spec, size, err);
    errmsg_fail(
        err, EINVAL,
        "topology \"%.60s\" is neither a shape nor a file; shapes are kary:K, binary, flat, "
        "chain and file:PATH",
        spec);
    return NULL;
}

topology_t *topology_create_over(const topology_t *base)
{
    topology_t *t = create("", base->spec, base->size, NULL);

    if (!t)
        return NULL;
    t->base = base;
    if ((t->moves = topology_moves_create()))
        return t;
    topology_destroy(t);
    return NULL;
}

const char *topology_spec(const topology_t *t)
{
    return t->spec;
}

uint32_t topology_size(const topology_t *t)
{
    return t->size;
}

uint32_t topology_parent(const topology_t *t, uint32_t rank)
{
    if (rank >= t->size || rank == 0)
        return TOPOLOGY_NONE;
    if (t->base)
        return topology_moved_parent(t, rank);
    return t->tree ? t->tree->parent[rank] : (rank - 1) / t->k;
}

uint32_t topology_nchildren(const topology_t *t, uint32_t rank)
{
    uint64_t lo;

    if (rank >= t->size)
        return 0;
    if (t->base)
        return topology_moved_nchildren(t, rank);
    if (t->tree)
        return t->tree->first[rank + 1] - t->tree->first[rank];
    lo = (uint64_t)rank * t->k + 1;
    if (lo >= t->size)
        return 0;
    return t->size - lo < t->k ? (uint32_t)(t->size - lo) : t->k;
}

uint32_t topology_child_at(const topology_t *t, uint32_t rank, uint32_t i)
{
    if (i >= topology_nchildren(t, rank))
        return TOPOLOGY_NONE;
    if (t->base)
        return topology_moved_child_at(t, rank, i);
    if (t->tree)
        return t->tree->child[t->tree->first[rank] + i];
    return rank * t->k + 1 + i;
}

idset_t *topology_children(const topology_t *t, uint32_t rank)
{
    uint32_t n = topology_nchildren(t, rank);
    idset_t *ids;

    if (rank >= t->size) {
        errno = EINVAL;
        return NULL;
    }
    if (n == 0)
        return idset_create();
    if (t->base)
        return topology_moved_children(t, rank);
    if (!t->tree)
        return idset_create_range(rank * t->k + 1, rank * t->k + n);
    ids = idset_create();
    for (uint32_t i = 0; ids && i < n; i++) {
        if (idset_set(ids, t->tree->child[t->tree->first[rank] + i]) < 0) {
            idset_destroy(ids);
            ids = NULL;
        }
    }
    return ids;
}

uint32_t topology_depth(const topology_t *t, uint32_t rank)
{
    if (rank >= t->size)
        return TOPOLOGY_NONE;
    if (t->base)
        return topology_moved_depth(t, rank);
    return t->tree ? t->tree->depth[rank] : kary_depth(t->k, rank);
}

uint32_t topology_max_depth(const topology_t *t)
{
    uint32_t max = t->max_depth;

    for (uint32_t r = 0; t->base && r < t->size; r++) {
        uint32_t depth = topology_moved_depth(t, r);

        max = depth > max ? depth : max;
    }
    return max;
}

bool topology_is_ancestor(const topology_t *t, uint32_t anc, uint32_t rank)
{
    if (anc >= t->size || rank >= t->size)
        return false;
    if (t->base)
        return anc == rank || topology_moved_towards(t, anc, rank) != TOPOLOGY_NONE;
    if (t->tree)
        return t->tree->pre[rank] - t->tree->pre[anc] < t->tree->count[anc];
    if (t->k == 1)
        return anc <= rank;
    while (rank > anc)
        rank = (rank - 1) / t->k;
    return rank == anc;
}

/* Walk a regular subtree level by level; each level is one range of ranks.  Adds them to `ids`
 * unless it is NULL.
 */
static int64_t walk_levels(const topology_t *t, uint32_t rank, idset_t *ids)
{
    uint64_t lo = rank;
    uint64_t hi = t->k == 1 ? t->size - 1 : rank;
    int64_t count = 0;

    while (lo < t->size) {
        uint64_t end = hi < t->size ? hi : t->size - 1;

        if (ids && idset_range_set(ids, (uint32_t)lo, (uint32_t)end) < 0)
            return -1;
        count += (int64_t)(end - lo + 1);
        lo = (t->k == 1 ? hi : lo * t->k) + 1;
        hi = (hi + 1) * t->k;
    }
    return count;
}

uint32_t topology_subtree_count(const topology_t *t, uint32_t rank)
{
    uint32_t n = 0;

    if (rank >= t->size)
        return 0;
    if (t->base) {
        for (uint32_t r = 0; r < t->size; r++)
            n += topology_is_ancestor(t, rank, r);
        return n;
    }
    return t->tree ? t->tree->count[rank] : (uint32_t)walk_levels(t, rank, NULL);
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* The ranks are sorted first, so that each is added at the upper end of the set. */
static int add_tree(const struct tree *tree, uint32_t rank, idset_t *ids)
{
    uint32_t n = tree->count[rank];
    uint32_t *ranks = malloc(n * sizeof(*ranks));
    int rc = 0;

    if (!ranks)
        return -1;
    memcpy(ranks, tree->order + tree->pre[rank], n * sizeof(*ranks));
    qsort(ranks, n, sizeof(*ranks), compare_ranks);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = idset_set(ids, ranks[i]);
    free(ranks);
    return rc;
}

idset_t *topology_subtree(const topology_t *t, uint32_t rank)
{
    idset_t *ids;

    if (rank >= t->size) {
        errno = EINVAL;
        return NULL;
    }
    if (t->base)
        return topology_moved_subtree(t, rank);
    ids = idset_create();
    if (ids && (t->tree ? add_tree(t->tree, rank, ids) : walk_levels(t, rank, ids)) < 0) {
        idset_destroy(ids);
        return NULL;
    }
    return ids;
}

/* The child of `from` whose subtree holds `to`, which is below `from`. */
static uint32_t tree_child_towards(const struct tree *tree, uint32_t from, uint32_t to)
{
    uint32_t lo = tree->first[from];
    uint32_t hi = tree->first[from + 1];

    /* Preorder numbers rise with the children: find the last child whose number is not above that
     * of `to`. */
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (tree->pre[tree->child[mid]] <= tree->pre[to])
            lo = mid;
        else
            hi = mid;
    }
    return tree->child[lo];
}

uint32_t topology_next_hop(const topology_t *t, uint32_t from, uint32_t to)
{
    uint32_t below;

    if (from >= t->size || to >= t->size)
        return TOPOLOGY_NONE;
    if (from == to)
        return to;
    if (t->base) {
        below = topology_moved_towards(t, from, to);
        return below != TOPOLOGY_NONE ? below : topology_moved_parent(t, from);
    }
    if (t->tree) {
        if (topology_is_ancestor(t, from, to))
            return tree_child_towards(t->tree, from, to);
        return t->tree->parent[from];
    }
    if (t->k == 1)
        return to > from ? from + 1 : from - 1;
    /* Climb from `to`: its ancestor just below `from`, if there is one, is the result. */
    below = to;
    while (to > from) {
        below = to;
        to = (to - 1) / t->k;
    }
    return to == from ? below : (from - 1) / t->k;
}

uint32_t topology_ring_next(const topology_t *t, uint32_t rank)
{
    if (rank >= t->size)
        return TOPOLOGY_NONE;
    return rank + 1 < t->size ? rank + 1 : 0;
}

uint32_t topology_ring_prev(const topology_t *t, uint32_t rank)
{
    if (rank >= t->size)
        return TOPOLOGY_NONE;
    return rank > 0 ? rank - 1 : t->size - 1;
}
