/* resgraph.c - the resource graph, and how it is built (see the header).
 *
 *  1. Nodes are in ascending order of ranks, each rank once; a node has the number of its
 *     kind, and each kind has the set of its ranks.  No two kinds are equal.
 *  2. The sockets of a kind are disjoint and together are its cores; there is at least one.
 *  3. Pools are in order of their names.
 *
 * Failure: an addition takes effect as a whole or not at all.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "resgraph_private.h"

/* --- kinds --- */

static void kind_destroy(struct kind *k)
{
    if (!k)
        return;
    rset_parts_decref(k->parts);
    for (size_t i = 0; i < k->nsockets; i++)
        idset_destroy(k->sockets[i]);
    free(k->sockets);
    for (size_t i = 0; i < k->nproperties; i++)
        free(k->properties[i]);
    free(k->properties);
    idset_destroy(k->ranks);
    free(k);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int copy_properties(struct kind *k, const char *const *properties, size_t n)
{
    if (!(k->properties = calloc(n + 1, sizeof(*k->properties))))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!(k->properties[k->nproperties] = strdup(properties[i])))
            return -1;
        k->nproperties++;
    }
    qsort(k->properties, n, sizeof(*k->properties), by_text);
    for (size_t i = 1; i < k->nproperties;) {
        if (strcmp(k->properties[i - 1], k->properties[i]) == 0) {
            free(k->properties[i]);
            k->nproperties--;
            memmove(&k->properties[i], &k->properties[i + 1],
                    (k->nproperties - i + 1) * sizeof(*k->properties));
        } else {
            i++;
        }
    }
    return 0;
}

static int copy_sockets(struct kind *k, const struct resgraph_node *desc)
{
    size_t n = desc->sockets && desc->nsockets ? desc->nsockets : 1;

    if (!(k->sockets = calloc(n, sizeof(*k->sockets))))
        return -1;
    for (; k->nsockets < n; k->nsockets++) {
        const idset_t *ids =
            desc->sockets && desc->nsockets ? desc->sockets[k->nsockets] : desc->cores;

        if (!(k->sockets[k->nsockets] = ids ? idset_copy(ids) : idset_create()))
            return -1;
    }
    return 0;
}

static struct kind *kind_create(const struct resgraph_node *desc)
{
    struct kind *k = calloc(1, sizeof(*k));

    if (!k || !(k->parts = rset_parts_create(desc->cores, desc->gpus, desc->memory)) ||
        !(k->ranks = idset_create()) || copy_sockets(k, desc) < 0 ||
        copy_properties(k, desc->properties, desc->properties ? desc->nproperties : 0) < 0) {
        kind_destroy(k);
        errno = ENOMEM;
        return NULL;
    }
    return k;
}

static bool kind_equal(const struct kind *a, const struct kind *b)
{
    if (a->nsockets != b->nsockets || a->nproperties != b->nproperties ||
        !rset_parts_equal(a->parts, b->parts))
        return false;
    for (size_t i = 0; i < a->nsockets; i++) {
        if (!idset_equal(a->sockets[i], b->sockets[i]))
            return false;
    }
    for (size_t i = 0; i < a->nproperties; i++) {
        if (strcmp(a->properties[i], b->properties[i]) != 0)
            return false;
    }
    return true;
}

/* The number of the kind that equals `k`, or of `k` itself, added as a new kind.  Takes over `k`.
 * -1 with ENOMEM. */
static ssize_t kind_intern(resgraph_t *g, struct kind *k)
{
    struct kind **kinds;

    for (size_t i = g->nkinds; i-- > 0;) {
        if (kind_equal(g->kinds[i], k)) {
            kind_destroy(k);
            return (ssize_t)i;
        }
    }
    if (!(kinds = realloc(g->kinds, (g->nkinds + 1) * sizeof(*kinds)))) {
        kind_destroy(k);
        return -1;
    }
    g->kinds = kinds;
    kinds[g->nkinds] = k;
    return (ssize_t)g->nkinds++;
}

/* --- life --- */

resgraph_t *resgraph_create(void)
{
    return calloc(1, sizeof(resgraph_t));
}

void resgraph_destroy(resgraph_t *g)
{
    int saved = errno;

    if (!g)
        return;
    for (size_t i = 0; i < g->nkinds; i++)
        kind_destroy(g->kinds[i]);
    free(g->kinds);
    for (size_t i = 0; i < g->n; i++)
        rset_host_decref(g->nodes[i].host);
    free(g->nodes);
    free(g->by_host);
    for (size_t i = 0; i < g->npools; i++) {
        free(g->pools[i].name);
        free(g->pools[i].unit);
    }
    free(g->pools);
    resgraph_clear_places(g);
    free(g);
    errno = saved;
}

resgraph_t *resgraph_copy(const resgraph_t *g)
{
    resgraph_t *copy = resgraph_create();

    if (copy && resgraph_merge(copy, g, NULL) < 0) {
        resgraph_destroy(copy);
        return NULL;
    }
    return copy;
}

void resgraph_set_emulated(resgraph_t *g, bool emulated)
{
    g->emulated = emulated;
}

void resgraph_set_named(resgraph_t *g, bool named)
{
    g->named = named;
}

bool resgraph_named(const resgraph_t *g)
{
    return g->named;
}

bool resgraph_emulated(const resgraph_t *g)
{
    return g->emulated;
}

/* --- adding nodes --- */

static int no_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for an inventory of resources");
}

static int check_sockets(const struct resgraph_node *desc, errmsg_t *err)
{
    idset_t *all;
    int rc = 0;

    if (!desc->sockets || desc->nsockets == 0)
        return 0;
    if (!(all = idset_create()))
        return no_memory(err);
    for (size_t i = 0; rc == 0 && i < desc->nsockets; i++) {
        if (idset_intersects(all, desc->sockets[i]))
            rc = errmsg_fail(err, EINVAL, "a core is in two sockets of a node");
        else if (idset_add(all, desc->sockets[i]) < 0)
            rc = no_memory(err);
    }
    if (rc == 0 && !(desc->cores ? idset_equal(all, desc->cores) : idset_empty(all)))
        rc = errmsg_fail(err, EINVAL, "the sockets of a node do not contain exactly its cores");
    idset_destroy(all);
    return rc;
}

static int check(const struct resgraph_node *desc, errmsg_t *err)
{
    if ((!idset_empty(desc->cores) && idset_last(desc->cores) >= RESGRAPH_CORES_MAX) ||
        (!idset_empty(desc->gpus) && idset_last(desc->gpus) >= RESGRAPH_CORES_MAX))
        return errmsg_fail(err, EINVAL, "a core or gpu has a number above %u",
                           RESGRAPH_CORES_MAX - 1);
    if (desc->memory > RREQ_QUANTITY_MAX)
        return errmsg_fail(err, EINVAL, "memory: the number of MiB is too large");
    if (desc->properties && desc->nproperties > RESGRAPH_PROPERTIES_MAX)
        return errmsg_fail(err, EINVAL, "a node has more than %d properties",
                           RESGRAPH_PROPERTIES_MAX);
    for (size_t i = 0; desc->properties && i < desc->nproperties; i++) {
        if (!rreq_name_valid(desc->properties[i]))
            return errmsg_fail(err, EINVAL, "'%.80s' is not a valid name of a property",
                               desc->properties[i]);
    }
    return check_sockets(desc, err);
}

static bool has_rank(const resgraph_t *g, const idset_t *ranks, uint32_t *which)
{
    for (size_t i = 0; i < g->nkinds; i++) {
        idset_t *both;

        if (!idset_intersects(g->kinds[i]->ranks, ranks))
            continue;
        both = idset_intersect(g->kinds[i]->ranks, ranks);
        *which = idset_first(both);
        idset_destroy(both);
        return true;
    }
    return false;
}

/* Set the names of `nodes`: the list has one name for each rank, or one for all. */
static int fill_nodes(struct gnode *nodes, const idset_t *ranks, const hostlist_t *hl)
{
    char name[HOSTLIST_NAME_MAX + 1];
    size_t i = 0, nhosts = hostlist_count(hl);
    struct rset_host *h = NULL;

    for (uint32_t rank = idset_first(ranks); rank != IDSET_NONE; rank = idset_next(ranks, rank)) {
        if (i > 0 && nhosts == 1)
            h = rset_host_incref(h);
        else if (!hostlist_nth(hl, i, name, sizeof(name)) || !(h = rset_host_create(name)))
            return -1;
        nodes[i++] = (struct gnode){.rank = rank, .host = h};
    }
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = ((const struct gnode *)a)->rank, y = ((const struct gnode *)b)->rank;

    return (x > y) - (x < y);
}

/* Make room for n more nodes at the end. */
static struct gnode *make_room(resgraph_t *g, size_t n)
{
    struct gnode *nodes = realloc(g->nodes, (g->n + n + !(g->n + n)) * sizeof(*nodes));

    if (!nodes)
        return NULL;
    g->nodes = nodes;
    free(g->by_host);
    g->by_host = NULL;
    memset(&nodes[g->n], 0, n * sizeof(*nodes));
    return &nodes[g->n];
}

/* Sort the nodes; those from number `first` on are new. */
static void sort_nodes(resgraph_t *g, size_t first)
{
    if (first > 0 && first < g->n && g->nodes[first - 1].rank > g->nodes[first].rank)
        qsort(g->nodes, g->n, sizeof(*g->nodes), by_rank);
}

int resgraph_add(resgraph_t *g, const idset_t *ranks, const char *hosts,
                 const struct resgraph_node *desc, errmsg_t *err)
{
    size_t n = idset_count(ranks), first = g->n;
    hostlist_t *hl = NULL;
    struct gnode *nodes;
    struct kind *k;
    uint32_t taken;
    ssize_t kind;

    if (n == 0)
        return 0;
    if (n > RESGRAPH_NODES_MAX - g->n)
        return errmsg_fail(err, EINVAL, "more than %u nodes", RESGRAPH_NODES_MAX);
    if (check(desc, err) < 0)
        return -1;
    if (has_rank(g, ranks, &taken))
        return errmsg_fail(err, EEXIST, "rank %u already exists", taken);
    if (!(hl = hostlist_parse(hosts, err)))
        return -1;
    if (hostlist_count(hl) != n && hostlist_count(hl) != 1) {
        errmsg_fail(err, EINVAL, "there are %zu host names for %zu nodes", hostlist_count(hl), n);
        hostlist_destroy(hl);
        return -1;
    }
    if (!(nodes = make_room(g, n)) || fill_nodes(nodes, ranks, hl) < 0)
        goto nomem;
    if (!(k = kind_create(desc)) || (kind = kind_intern(g, k)) < 0 ||
        idset_add(g->kinds[kind]->ranks, ranks) < 0)
        goto nomem;
    for (size_t i = 0; i < n; i++)
        nodes[i].kind = (uint32_t)kind;
    g->n += n;
    sort_nodes(g, first);
    hostlist_destroy(hl);
    return 0;
nomem:
    for (size_t i = 0; nodes && i < n; i++)
        rset_host_decref(nodes[i].host);
    hostlist_destroy(hl);
    return no_memory(err);
}

int resgraph_merge(resgraph_t *g, const resgraph_t *other, errmsg_t *err)
{
    ssize_t *map = calloc(other->nkinds + 1, sizeof(*map));
    size_t first = g->n;
    struct gnode *nodes;
    uint32_t taken;

    if (!map)
        return no_memory(err);
    if (other->n > RESGRAPH_NODES_MAX - g->n) {
        free(map);
        return errmsg_fail(err, EINVAL, "more than %u nodes", RESGRAPH_NODES_MAX);
    }
    for (size_t i = 0; i < other->nkinds; i++) {
        const struct kind *theirs = other->kinds[i];
        struct resgraph_node desc;
        struct kind *k;

        if (has_rank(g, theirs->ranks, &taken)) {
            free(map);
            return errmsg_fail(err, EEXIST, "rank %u already exists", taken);
        }
        resgraph_kind_describe(theirs, &desc);
        if (!(k = kind_create(&desc)) || (map[i] = kind_intern(g, k)) < 0)
            goto nomem;
    }
    for (size_t i = 0; i < other->nkinds; i++) {
        if (idset_add(g->kinds[map[i]]->ranks, other->kinds[i]->ranks) < 0)
            goto nomem;
    }
    if (!(nodes = make_room(g, other->n)))
        goto nomem;
    for (size_t i = 0; i < other->n; i++) {
        nodes[i] = other->nodes[i];
        nodes[i].kind = (uint32_t)map[other->nodes[i].kind];
        rset_host_incref(nodes[i].host);
    }
    g->n += other->n;
    sort_nodes(g, first);
    free(map);
    for (size_t i = 0; i < other->npools; i++) {
        const struct gpool *p = &other->pools[i];

        if (resgraph_add_pool(g, p->name, p->count, p->unit, err) < 0)
            return -1;
    }
    g->emulated |= other->emulated;
    return resgraph_copy_places(g, other, err);
nomem:
    free(map);
    return no_memory(err);
}

int resgraph_remove(resgraph_t *g, const idset_t *ranks)
{
    size_t kept = 0;

    for (size_t i = 0; i < g->nkinds; i++) {
        if (idset_subtract(g->kinds[i]->ranks, ranks) < 0)
            return -1;
    }
    for (size_t i = 0; i < g->n; i++) {
        if (idset_test(ranks, g->nodes[i].rank))
            rset_host_decref(g->nodes[i].host);
        else
            g->nodes[kept++] = g->nodes[i];
    }
    g->n = kept;
    free(g->by_host);
    g->by_host = NULL;
    return resgraph_remove_from_places(g, ranks);
}

/* --- pools --- */

int resgraph_add_pool(resgraph_t *g, const char *name, uint64_t count, const char *unit,
                      errmsg_t *err)
{
    struct gpool *pools, p;
    size_t i = 0;

    if (!rreq_name_valid(name))
        return errmsg_fail(err, EINVAL, "'%.80s' is not a valid name of a pool", name ? name : "");
    if (unit && *unit && !rreq_name_valid(unit))
        return errmsg_fail(err, EINVAL, "'%.80s' is not a valid unit of a pool", unit);
    while (i < g->npools && strcmp(g->pools[i].name, name) < 0)
        i++;
    if (i < g->npools && strcmp(g->pools[i].name, name) == 0) {
        if (count > RREQ_QUANTITY_MAX - g->pools[i].count)
            return errmsg_fail(err, EINVAL, "pool %s: the quantity is too large", name);
        if (unit && *unit && strcmp(unit, g->pools[i].unit) != 0)
            return errmsg_fail(err, EINVAL, "pool %s: its unit is %s here and '%s' elsewhere", name,
                               unit, g->pools[i].unit);
        g->pools[i].count += count;
        return 0;
    }
    if (count > RREQ_QUANTITY_MAX || g->npools >= RESGRAPH_POOLS_MAX)
        return errmsg_fail(err, EINVAL,
                           "pool %s: the quantity is too large, or there are too many pools", name);
    p = (struct gpool){.name = strdup(name), .unit = strdup(unit ? unit : ""), .count = count};
    if (!p.name || !p.unit || !(pools = realloc(g->pools, (g->npools + 1) * sizeof(*pools)))) {
        free(p.name);
        free(p.unit);
        return no_memory(err);
    }
    g->pools = pools;
    memmove(&pools[i + 1], &pools[i], (g->npools - i) * sizeof(*pools));
    pools[i] = p;
    g->npools++;
    return 0;
}

size_t resgraph_npools(const resgraph_t *g)
{
    return g->npools;
}

bool resgraph_pool(const resgraph_t *g, size_t i, struct resgraph_pool *pool)
{
    if (i >= g->npools)
        return false;
    pool->name = g->pools[i].name;
    pool->count = g->pools[i].count;
    pool->unit = g->pools[i].unit;
    return true;
}
