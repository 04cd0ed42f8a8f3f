/* resgraph_look.c - queries of a resource graph, and iteration over it (see the header).
 *
 * Queries are answered by kinds of nodes wherever possible; a rank is found by bisection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "libutil/strbuf.h"
#include "resgraph_private.h"

#define HOSTS_MORE 1000 /* names beyond twice the number of nodes that may be repeated */

void resgraph_kind_describe(const struct kind *k, struct resgraph_node *node)
{
    node->cores = k->parts->cores;
    node->gpus = k->parts->gpus;
    node->memory = k->parts->memory;
    node->sockets = (const idset_t *const *)k->sockets;
    node->nsockets = k->nsockets;
    node->properties = (const char *const *)k->properties;
    node->nproperties = k->nproperties;
}

/* --- queries --- */

size_t resgraph_nnodes(const resgraph_t *g)
{
    return g->n;
}

size_t resgraph_ncores(const resgraph_t *g)
{
    size_t sum = 0;

    for (size_t i = 0; i < g->nkinds; i++)
        sum += idset_count(g->kinds[i]->ranks) * idset_count(g->kinds[i]->parts->cores);
    return sum;
}

size_t resgraph_ngpus(const resgraph_t *g)
{
    size_t sum = 0;

    for (size_t i = 0; i < g->nkinds; i++)
        sum += idset_count(g->kinds[i]->ranks) * idset_count(g->kinds[i]->parts->gpus);
    return sum;
}

bool resgraph_node(const resgraph_t *g, size_t i, struct resgraph_node *node)
{
    if (i >= g->n)
        return false;
    resgraph_kind_describe(g->kinds[g->nodes[i].kind], node);
    node->rank = g->nodes[i].rank;
    node->host = g->nodes[i].host->name;
    node->kind = g->nodes[i].kind;
    return true;
}

/* The number of the first node whose rank is not below this one. */
static size_t place(const resgraph_t *g, uint32_t rank)
{
    size_t lo = 0, hi = g->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (g->nodes[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

ssize_t resgraph_find_rank(const resgraph_t *g, uint32_t rank)
{
    size_t i = place(g, rank);

    return i < g->n && g->nodes[i].rank == rank ? (ssize_t)i : -1;
}

const idset_t *resgraph_kind_ranks(const resgraph_t *g, size_t kind)
{
    return kind < g->nkinds ? g->kinds[kind]->ranks : NULL;
}

idset_t *resgraph_ranks(const resgraph_t *g)
{
    idset_t *ids = idset_create();

    for (size_t i = 0; ids && i < g->nkinds; i++) {
        if (idset_add(ids, g->kinds[i]->ranks) < 0) {
            idset_destroy(ids);
            ids = NULL;
        }
    }
    return ids;
}

static int by_host(const void *a, const void *b, void *arg)
{
    const resgraph_t *g = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(g->nodes[x].host->name, g->nodes[y].host->name);

    return order ? order : x < y ? -1 : x > y;
}

static int index_hosts(resgraph_t *g)
{
    if (g->by_host)
        return 0;
    if (!(g->by_host = malloc((g->n + !g->n) * sizeof(*g->by_host))))
        return -1;
    for (size_t i = 0; i < g->n; i++)
        g->by_host[i] = (uint32_t)i;
    qsort_r(g->by_host, g->n, sizeof(*g->by_host), by_host, g);
    return 0;
}

/* The place in by_host of the first node whose host is not before this name. */
static size_t host_place(const resgraph_t *g, const char *name)
{
    size_t lo = 0, hi = g->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (strcmp(g->nodes[g->by_host[mid]].host->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct hosts_asked {
    const resgraph_t *g;
    idset_t *ids;
    size_t n;
    errmsg_t *err;
};

/* All names before the current one exist, so there can be more names than nodes only when some
 * names are repeated. */
static int take_host(const char *name, void *arg)
{
    struct hosts_asked *a = arg;
    const resgraph_t *g = a->g;
    size_t i = host_place(g, name), first = i;

    for (; i < g->n && strcmp(g->nodes[g->by_host[i]].host->name, name) == 0; i++) {
        if (idset_set(a->ids, g->nodes[g->by_host[i]].rank) < 0)
            return errmsg_fail(a->err, ENOMEM, "out of memory while looking for nodes");
    }
    if (i == first)
        return errmsg_fail(a->err, ENOENT, "there is no node named %s", name);
    if (++a->n > 2 * g->n + HOSTS_MORE)
        return errmsg_fail(a->err, E2BIG,
                           "there are more than %zu host names, and %zu nodes: name each host once",
                           a->n - 1, g->n);
    return 0;
}

idset_t *resgraph_ranks_of_hosts(resgraph_t *g, const char *hosts, errmsg_t *err)
{
    struct hosts_asked a = {.g = g, .ids = idset_create(), .err = err};

    if (!a.ids || index_hosts(g) < 0)
        errmsg_fail(err, ENOMEM, "out of memory while looking for nodes");
    else if (hostlist_walk(hosts, take_host, &a, err) == 0)
        return a.ids;
    idset_destroy(a.ids);
    return NULL;
}

char *resgraph_hosts_of_ranks(const resgraph_t *g, const idset_t *ranks)
{
    hostlist_t *hl;
    uint32_t lo, hi;
    strbuf_t *sb = strbuf_create(0);
    const char *last = NULL;
    size_t pos = 0;
    char *text;

    while (idset_next_range(ranks, &pos, &lo, &hi)) {
        for (size_t i = place(g, lo); i < g->n && g->nodes[i].rank <= hi; i++) {
            const char *name = g->nodes[i].host->name;

            if (!last || strcmp(last, name) != 0)
                strbuf_addf(sb, "%s%s", last ? "," : "", name);
            last = name;
        }
    }
    if (!(text = strbuf_take(sb)))
        return NULL;
    hl = hostlist_parse(text, NULL);
    free(text);
    text = hl && hostlist_unique(hl) == 0 ? hostlist_format(hl) : NULL;
    hostlist_destroy(hl);
    return text;
}

static int add_range(rset_t *rs, const resgraph_t *g, uint32_t lo, uint32_t hi)
{
    for (size_t i = place(g, lo); i < g->n && g->nodes[i].rank <= hi; i++) {
        struct rset_parts *k = g->kinds[g->nodes[i].kind]->parts;

        if (rset_append(rs, g->nodes[i].rank, rset_parts_incref(k),
                        rset_host_incref(g->nodes[i].host)) < 0)
            return -1;
    }
    return 0;
}

rset_t *resgraph_rset(const resgraph_t *g, const idset_t *ranks)
{
    rset_t *rs = rset_create();
    uint32_t lo, hi;
    size_t pos = 0;

    if (!rs)
        return NULL;
    while (ranks && idset_next_range(ranks, &pos, &lo, &hi)) {
        if (add_range(rs, g, lo, hi) < 0)
            goto nomem;
    }
    if (!ranks && add_range(rs, g, 0, UINT32_MAX) < 0)
        goto nomem;
    for (size_t i = 0; !ranks && i < g->npools; i++) {
        if (rset_set_pool(rs, g->pools[i].name, g->pools[i].count) < 0)
            goto nomem;
    }
    return rs;
nomem:
    rset_destroy(rs);
    errno = ENOMEM;
    return NULL;
}

/* --- iteration --- */

typedef int (*walk_f)(const struct resgraph_vertex *v, void *arg);

static int walk_ids(struct resgraph_vertex v, const idset_t *ids, walk_f fn, void *arg)
{
    int rc = 0;

    for (v.id = idset_first(ids); rc == 0 && v.id != IDSET_NONE; v.id = idset_next(ids, v.id))
        rc = fn(&v, arg);
    return rc;
}

static int walk_node(const struct resgraph_node *node, walk_f fn, void *arg)
{
    struct resgraph_vertex v = {.type = RESGRAPH_NODE,
                                .name = "node",
                                .depth = 1,
                                .rank = node->rank,
                                .host = node->host,
                                .count = 1,
                                .unit = ""};
    struct resgraph_vertex core = {.type = RESGRAPH_CORE,
                                   .name = "core",
                                   .depth = 3,
                                   .rank = node->rank,
                                   .count = 1,
                                   .unit = ""};
    int rc = fn(&v, arg);

    v.host = NULL;
    v.depth = 2;
    for (size_t i = 0; rc == 0 && i < node->nsockets; i++) {
        v.type = RESGRAPH_SOCKET;
        v.name = "socket";
        v.id = (uint32_t)i;
        if ((rc = fn(&v, arg)) == 0)
            rc = walk_ids(core, node->sockets[i], fn, arg);
    }
    v.type = RESGRAPH_GPU;
    v.name = "gpu";
    if (rc == 0)
        rc = walk_ids(v, node->gpus, fn, arg);
    if (rc == 0 && node->memory) {
        v.type = RESGRAPH_MEMORY;
        v.name = "memory";
        v.id = 0;
        v.count = node->memory;
        v.unit = "MiB";
        rc = fn(&v, arg);
    }
    return rc;
}

int resgraph_walk(const resgraph_t *g, walk_f fn, void *arg)
{
    struct resgraph_vertex v = {
        .type = RESGRAPH_CLUSTER, .name = "cluster", .rank = IDSET_NONE, .count = 1, .unit = ""};
    struct resgraph_node node;
    int rc = fn(&v, arg);

    for (size_t i = 0; rc == 0 && resgraph_node(g, i, &node); i++)
        rc = walk_node(&node, fn, arg);
    v.type = RESGRAPH_POOL;
    v.depth = 1;
    for (size_t i = 0; rc == 0 && i < g->npools; i++) {
        v.name = g->pools[i].name;
        v.count = g->pools[i].count;
        v.unit = g->pools[i].unit;
        rc = fn(&v, arg);
    }
    return rc;
}
