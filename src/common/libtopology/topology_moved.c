/* topology_moved.c - a tree in which some ranks have been moved.
 *
 * Such a tree refers to another one, its base, and has a list of the ranks with another parent than
 * in the base.  So a move costs O(depth + moved), whatever the size of the tree is, and a session
 * in which each broker keeps a tree can move many ranks.
 *
 * Terms: a moved rank, and all ranks that are below it in the base without another moved rank in
 * between, are a piece.  A piece is as in the base; only its top has another parent.
 *
 * Invariants:
 *  1. `list` has each moved rank once, in ascending order of depth in the base.  So a piece that is
 *     cut out of another one comes later.
 *  2. `parent_of` has the same ranks.  None is the root, and none has its parent in the base.
 *  3. The parents form a tree.
 *
 * Failure: a move that fails for lack of memory changes nothing.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "topology_private.h"

struct top {
    uint32_t rank;
    uint32_t depth; /* in the base */
};

struct moves {
    hmap_t *parent_of; /* rank -> parent + 1 */
    struct top *list;
    size_t n, room;
};

struct moves *topology_moves_create(void)
{
    struct moves *m = calloc(1, sizeof(*m));

    if (m && (m->parent_of = hmap_create_u64(NULL)))
        return m;
    free(m);
    errno = ENOMEM;
    return NULL;
}

void topology_moves_destroy(struct moves *m)
{
    if (!m)
        return;
    hmap_destroy(m->parent_of);
    free(m->list);
    free(m);
}

size_t topology_nmoved(const topology_t *t)
{
    return t->moves ? t->moves->n : 0;
}

/* --- moves --- */

/* Return the place of a rank in the list, or where it belongs. */
static size_t place_of(const struct moves *m, struct top top)
{
    size_t lo = 0, hi = m->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct top *at = &m->list[mid];

        if (at->depth < top.depth || (at->depth == top.depth && at->rank < top.rank))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void take_out(struct moves *m, struct top top)
{
    size_t i = place_of(m, top);

    if (!hmap_del_u64(m->parent_of, top.rank))
        return;
    memmove(m->list + i, m->list + i + 1, (m->n - i - 1) * sizeof(top));
    m->n--;
}

static int put_in(struct moves *m, struct top top)
{
    size_t i = place_of(m, top);

    if (i < m->n && m->list[i].rank == top.rank)
        return 0;
    if (m->n == m->room) {
        size_t room = 2 * m->room + 8;
        struct top *list = realloc(m->list, room * sizeof(*list));

        if (!list)
            return -1;
        m->list = list;
        m->room = room;
    }
    memmove(m->list + i + 1, m->list + i, (m->n - i) * sizeof(top));
    m->list[i] = top;
    m->n++;
    return 0;
}

int topology_move(topology_t *t, uint32_t rank, uint32_t parent)
{
    struct moves *m = t->moves;
    struct top top = {rank, topology_depth(t->base, rank)};
    bool known;

    if (rank == 0 || rank >= t->size || parent >= t->size ||
        topology_is_ancestor(t, rank, parent)) {
        errno = EINVAL;
        return -1;
    }
    if (topology_parent(t->base, rank) == parent) {
        take_out(m, top);
        return 0;
    }
    known = hmap_get_u64(m->parent_of, rank) != NULL;
    if (!known && put_in(m, top) < 0)
        return -1;
    if (hmap_put_u64(m->parent_of, rank, (void *)(uintptr_t)(parent + 1)) < 0) {
        if (!known) {
            size_t i = place_of(m, top);

            memmove(m->list + i, m->list + i + 1, (--m->n - i) * sizeof(top));
        }
        errno = ENOMEM;
        return -1;
    }
    INVARIANT(2, hmap_count(m->parent_of) == m->n);
    return 0;
}

/* --- queries --- */

uint32_t topology_moved_parent(const topology_t *t, uint32_t rank)
{
    uintptr_t parent = (uintptr_t)hmap_get_u64(t->moves->parent_of, rank);

    return parent ? (uint32_t)parent - 1 : topology_parent(t->base, rank);
}

uint32_t topology_moved_towards(const topology_t *t, uint32_t from, uint32_t to)
{
    while (to != 0) {
        uint32_t parent = topology_moved_parent(t, to);

        if (parent == from)
            return to;
        to = parent;
    }
    return TOPOLOGY_NONE;
}

uint32_t topology_moved_depth(const topology_t *t, uint32_t rank)
{
    uint32_t depth = 0;

    for (; rank != 0; rank = topology_moved_parent(t, rank))
        depth++;
    return depth;
}

idset_t *topology_moved_children(const topology_t *t, uint32_t rank)
{
    idset_t *ids = topology_children(t->base, rank);
    int rc = ids ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < t->moves->n; i++) {
        uint32_t r = t->moves->list[i].rank;

        rc = topology_moved_parent(t, r) == rank ? idset_set(ids, r) : idset_clear(ids, r);
    }
    if (rc == 0)
        return ids;
    idset_destroy(ids);
    errno = ENOMEM;
    return NULL;
}

uint32_t topology_moved_nchildren(const topology_t *t, uint32_t rank)
{
    uint32_t n = topology_nchildren(t->base, rank);

    for (size_t i = 0; i < t->moves->n; i++) {
        uint32_t r = t->moves->list[i].rank;

        n += topology_moved_parent(t, r) == rank;
        n -= topology_parent(t->base, r) == rank;
    }
    return n;
}

uint32_t topology_moved_child_at(const topology_t *t, uint32_t rank, uint32_t i)
{
    idset_t *ids = topology_moved_children(t, rank);
    uint32_t child = ids ? idset_nth(ids, i) : IDSET_NONE;

    idset_destroy(ids);
    return child == IDSET_NONE ? TOPOLOGY_NONE : child;
}

/* Add the ranks below this one in the base to the set, or take them out. */
static int change(const topology_t *t, uint32_t rank, idset_t *ids, bool add)
{
    idset_t *below = topology_subtree(t->base, rank);
    int rc = !below ? -1 : add ? idset_add(ids, below) : idset_subtract(ids, below);

    idset_destroy(below);
    return rc;
}

/* The pieces are visited in their order, with the subtree of `rank` in the base in its place among
 * them: what belongs to a later piece is added or taken out once more. */
idset_t *topology_moved_subtree(const topology_t *t, uint32_t rank)
{
    const struct moves *m = t->moves;
    uint32_t depth = topology_depth(t->base, rank);
    idset_t *ids = idset_create();
    bool own = false;
    int rc = ids ? 0 : -1;

    for (size_t i = 0; rc == 0 && i <= m->n; i++) {
        const struct top *top = i < m->n ? &m->list[i] : NULL;

        if (!own && (!top || top->depth >= depth)) {
            own = true;
            rc = change(t, rank, ids, true);
        }
        if (rc < 0 || !top || top->rank == rank)
            continue;
        if (topology_is_ancestor(t, rank, top->rank))
            rc = idset_test(ids, top->rank) ? 0 : change(t, top->rank, ids, true);
        else if (idset_test(ids, top->rank))
            rc = change(t, top->rank, ids, false);
    }
    if (rc == 0)
        return ids;
    idset_destroy(ids);
    errno = ENOMEM;
    return NULL;
}

topology_t *topology_solid(const topology_t *t)
{
    uint32_t *up = malloc(t->size * sizeof(*up));
    topology_t *solid = calloc(1, sizeof(*solid));

    if (up && solid && (solid->spec = strdup(t->spec))) {
        for (uint32_t r = 0; r < t->size; r++)
            up[r] = topology_parent(t, r);
        solid->size = t->size;
        if ((solid->tree = topology_tree_create(up, t->size)))
            solid->max_depth = solid->tree->max_depth;
    }
    free(up);
    if (solid && solid->tree)
        return solid;
    topology_destroy(solid);
    errno = ENOMEM;
    return NULL;
}
