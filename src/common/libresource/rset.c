/* rset.c - a set of resources: nodes, and the resources of each (see the header).
 *
 *  1. Nodes are in ascending order of ranks, each rank once; pools in order of names, none of 0.
 *  2. The contribution of a node is never changed but replaced, so nodes and sets share it; the
 *     reference counts are atomic, so such sets may belong to different threads.
 *  3. Consecutive nodes that are added with equal contributions share one.
 *
 * Failure: when out of memory, a set is unchanged.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "libutil/strbuf.h"
#include "rreq.h"
#include "rset_private.h"

/* --- shared parts --- */

struct rset_parts *rset_parts_create(const idset_t *cores, const idset_t *gpus, uint64_t memory)
{
    struct rset_parts *k = calloc(1, sizeof(*k));

    if (!k)
        return NULL;
    k->refs = 1;
    k->memory = memory;
    k->cores = cores ? idset_copy(cores) : idset_create();
    k->gpus = gpus ? idset_copy(gpus) : idset_create();
    if (!k->cores || !k->gpus) {
        rset_parts_decref(k);
        errno = ENOMEM;
        return NULL;
    }
    return k;
}

struct rset_parts *rset_parts_incref(struct rset_parts *k)
{
    __atomic_add_fetch(&k->refs, 1, __ATOMIC_RELAXED);
    return k;
}

void rset_parts_decref(struct rset_parts *k)
{
    if (k && __atomic_sub_fetch(&k->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        idset_destroy(k->cores);
        idset_destroy(k->gpus);
        free(k);
    }
}

bool rset_parts_equal(const struct rset_parts *a, const struct rset_parts *b)
{
    return a == b || (a->memory == b->memory && idset_equal(a->cores, b->cores) &&
                      idset_equal(a->gpus, b->gpus));
}

struct rset_host *rset_host_create(const char *name)
{
    size_t len = strlen(name) + 1;
    struct rset_host *h = malloc(sizeof(*h) + len);

    if (h) {
        h->refs = 1;
        memcpy(h->name, name, len);
    }
    return h;
}

struct rset_host *rset_host_incref(struct rset_host *h)
{
    if (h)
        __atomic_add_fetch(&h->refs, 1, __ATOMIC_RELAXED);
    return h;
}

void rset_host_decref(struct rset_host *h)
{
    if (h && __atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(h);
}

/* --- life --- */

rset_t *rset_create(void)
{
    return calloc(1, sizeof(rset_t));
}

void rset_drop_nodes(rset_t *rs)
{
    for (size_t i = 0; i < rs->n; i++) {
        rset_parts_decref(rs->nodes[i].parts);
        rset_host_decref(rs->nodes[i].host);
    }
    free(rs->nodes);
    rs->nodes = NULL;
    rs->n = rs->cap = 0;
}

void rset_destroy(rset_t *rs)
{
    int saved = errno;

    if (!rs)
        return;
    rset_drop_nodes(rs);
    for (size_t i = 0; i < rs->npools; i++)
        free(rs->pools[i].name);
    free(rs->pools);
    free(rs);
    errno = saved;
}

/* --- nodes --- */

static int make_room(rset_t *rs)
{
    size_t cap = rs->cap ? 2 * rs->cap : 1;
    struct rnode *nodes;

    if (rs->n < rs->cap)
        return 0;
    if (!(nodes = realloc(rs->nodes, cap * sizeof(*nodes))))
        return -1;
    rs->nodes = nodes;
    rs->cap = cap;
    return 0;
}

int rset_append(rset_t *rs, uint32_t rank, struct rset_parts *parts, struct rset_host *host)
{
    if (!parts || make_room(rs) < 0) {
        rset_parts_decref(parts);
        rset_host_decref(host);
        errno = ENOMEM;
        return -1;
    }
    rs->nodes[rs->n++] = (struct rnode){.rank = rank, .parts = parts, .host = host};
    return 0;
}

size_t rset_place(const rset_t *rs, uint32_t rank)
{
    size_t lo = 0, hi = rs->n;

    if (hi > 0 && rs->nodes[hi - 1].rank < rank)
        return hi;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (rs->nodes[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Add resources to a node of the set. */
static int extend_node(struct rnode *n, const char *host, const idset_t *cores, const idset_t *gpus,
                       uint64_t memory)
{
    struct rset_parts *k;
    struct rset_host *h = NULL;

    if (memory > RSET_QUANTITY_MAX - n->parts->memory) {
        errno = EINVAL;
        return -1;
    }
    if (!n->host && host && *host && !(h = rset_host_create(host)))
        return -1;
    k = rset_parts_create(n->parts->cores, n->parts->gpus, n->parts->memory + memory);
    if (!k || (cores && idset_add(k->cores, cores) < 0) || (gpus && idset_add(k->gpus, gpus) < 0)) {
        rset_parts_decref(k);
        rset_host_decref(h);
        errno = ENOMEM;
        return -1;
    }
    rset_parts_decref(n->parts);
    n->parts = k;
    if (h)
        n->host = h;
    return 0;
}

/* The parts of a new node at place i: shared with a neighbor if that has the same. */
static struct rset_parts *parts_beside(const rset_t *rs, size_t i, const idset_t *cores,
                                       const idset_t *gpus, uint64_t memory)
{
    if (i > 0) {
        struct rset_parts *k = rs->nodes[i - 1].parts;

        if (k->memory == memory && idset_equal(k->cores, cores) && idset_equal(k->gpus, gpus))
            return rset_parts_incref(k);
    }
    return rset_parts_create(cores, gpus, memory);
}

int rset_add_node(rset_t *rs, uint32_t rank, const char *host, const idset_t *cores,
                  const idset_t *gpus, uint64_t memory)
{
    size_t i;
    struct rset_host *h = NULL;
    struct rset_parts *k;

    if (rank > RSET_RANK_MAX || memory > RSET_QUANTITY_MAX) {
        errno = EINVAL;
        return -1;
    }
    i = rset_place(rs, rank);
    if (i < rs->n && rs->nodes[i].rank == rank)
        return extend_node(&rs->nodes[i], host, cores, gpus, memory);
    if (rs->n >= RSET_NODES_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (make_room(rs) < 0 || (host && *host && !(h = rset_host_create(host))))
        return -1;
    if (!(k = parts_beside(rs, i, cores, gpus, memory))) {
        rset_host_decref(h);
        errno = ENOMEM;
        return -1;
    }
    memmove(&rs->nodes[i + 1], &rs->nodes[i], (rs->n - i) * sizeof(*rs->nodes));
    rs->nodes[i] = (struct rnode){.rank = rank, .parts = k, .host = h};
    rs->n++;
    return 0;
}

static void fill_info(const struct rnode *n, struct rset_node *info)
{
    info->rank = n->rank;
    info->host = n->host ? n->host->name : "";
    info->cores = n->parts->cores;
    info->gpus = n->parts->gpus;
    info->memory = n->parts->memory;
}

bool rset_node(const rset_t *rs, size_t i, struct rset_node *info)
{
    if (i >= rs->n)
        return false;
    fill_info(&rs->nodes[i], info);
    return true;
}

bool rset_find(const rset_t *rs, uint32_t rank, struct rset_node *info)
{
    size_t i = rset_place(rs, rank);

    if (i >= rs->n || rs->nodes[i].rank != rank)
        return false;
    fill_info(&rs->nodes[i], info);
    return true;
}

size_t rset_nnodes(const rset_t *rs)
{
    return rs->n;
}

size_t rset_ncores(const rset_t *rs)
{
    size_t sum = 0;

    for (size_t i = 0; i < rs->n; i++)
        sum += idset_count(rs->nodes[i].parts->cores);
    return sum;
}

size_t rset_ngpus(const rset_t *rs)
{
    size_t sum = 0;

    for (size_t i = 0; i < rs->n; i++)
        sum += idset_count(rs->nodes[i].parts->gpus);
    return sum;
}

idset_t *rset_ranks(const rset_t *rs)
{
    idset_t *ids = idset_create();

    for (size_t i = 0; ids && i < rs->n; i++) {
        if (idset_set(ids, rs->nodes[i].rank) < 0) {
            idset_destroy(ids);
            ids = NULL;
        }
    }
    return ids;
}

/* Have all nodes the same host name? */
static bool one_host(const rset_t *rs)
{
    for (size_t i = 1; i < rs->n; i++) {
        const struct rset_host *a = rs->nodes[i - 1].host, *b = rs->nodes[i].host;

        if (a != b && (!a || !b || strcmp(a->name, b->name) != 0))
            return false;
    }
    return true;
}

char *rset_hosts(const rset_t *rs)
{
    strbuf_t *sb;
    hostlist_t *hl;
    char *text = NULL;

    if (rs->n == 0 || !rs->nodes[0].host)
        return strdup("");
    if (one_host(rs))
        return strdup(rs->nodes[0].host->name);
    sb = strbuf_create(0);
    for (size_t i = 0; i < rs->n; i++) {
        if (rs->nodes[i].host)
            strbuf_addf(sb, "%s%s", i ? "," : "", rs->nodes[i].host->name);
    }
    if (!(text = strbuf_take(sb)))
        return NULL;
    hl = hostlist_parse(text, NULL);
    free(text);
    text = hl ? hostlist_format(hl) : NULL;
    hostlist_destroy(hl);
    return text;
}

/* --- pools --- */

/* The place of the pool, or the place at which it would be inserted. */
static size_t pool_place(const rset_t *rs, const char *name, bool *found)
{
    size_t i = 0;

    while (i < rs->npools && strcmp(rs->pools[i].name, name) < 0)
        i++;
    *found = i < rs->npools && strcmp(rs->pools[i].name, name) == 0;
    return i;
}

int rset_set_pool(rset_t *rs, const char *name, uint64_t count)
{
    struct rpool *pools;
    bool found;
    size_t i = pool_place(rs, name, &found);
    char *copy;

    if (found && count > 0) {
        rs->pools[i].count = count;
    } else if (found) {
        free(rs->pools[i].name);
        rs->npools--;
        memmove(&rs->pools[i], &rs->pools[i + 1], (rs->npools - i) * sizeof(*rs->pools));
    } else if (count > 0) {
        if (rs->npools >= RSET_POOLS_MAX) {
            errno = EINVAL;
            return -1;
        }
        if (!(copy = strdup(name)))
            return -1;
        if (!(pools = realloc(rs->pools, (rs->npools + 1) * sizeof(*pools)))) {
            free(copy);
            return -1;
        }
        rs->pools = pools;
        memmove(&pools[i + 1], &pools[i], (rs->npools - i) * sizeof(*pools));
        pools[i] = (struct rpool){.name = copy, .count = count};
        rs->npools++;
    }
    return 0;
}

int rset_add_pool(rset_t *rs, const char *name, uint64_t count)
{
    uint64_t have;

    if (!rreq_name_valid(name)) {
        errno = EINVAL;
        return -1;
    }
    have = rset_pool_count(rs, name);
    if (count > RSET_QUANTITY_MAX - have) {
        errno = EINVAL;
        return -1;
    }
    return rset_set_pool(rs, name, have + count);
}

size_t rset_npools(const rset_t *rs)
{
    return rs->npools;
}

const char *rset_pool(const rset_t *rs, size_t i, uint64_t *count)
{
    if (i >= rs->npools)
        return NULL;
    if (count)
        *count = rs->pools[i].count;
    return rs->pools[i].name;
}

uint64_t rset_pool_count(const rset_t *rs, const char *name)
{
    bool found;
    size_t i = pool_place(rs, name, &found);

    return found ? rs->pools[i].count : 0;
}

/* --- times --- */

void rset_set_times(rset_t *rs, double starttime, double expiration)
{
    rs->starttime = starttime;
    rs->expiration = expiration;
}

double rset_expiration(const rset_t *rs)
{
    return rs->expiration;
}
