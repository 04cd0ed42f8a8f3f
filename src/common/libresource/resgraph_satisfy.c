/* resgraph_satisfy.c - whether a request can ever be satisfied, and if not, why (see the header).
 *
 * The check counts by kinds of nodes: how many nodes of a kind may be used, and how many slots each
 * of them can hold.  The error message names the first resource that is insufficient, in the order
 *
 *    pools, ranks, properties, number of nodes, cores, gpus, memory, all of these at once
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "resgraph_private.h"

/* Count the nodes of a kind that may be used. */
static int usable(const struct kind *k, const struct rreq *req, size_t *count)
{
    idset_t *both;

    if (!req->ranks) {
        *count = idset_count(k->ranks);
        return 0;
    }
    if (!(both = idset_intersect(k->ranks, req->ranks)))
        return -1;
    *count = idset_count(both);
    idset_destroy(both);
    return 0;
}

static bool has_property(const char *const *properties, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(properties[i], name) == 0)
            return true;
    }
    return false;
}

static bool fits(const char *const *properties, size_t n, const struct rreq *req)
{
    for (char **p = req->properties; p && *p; p++) {
        bool without = **p == '^';

        if (has_property(properties, n, *p + without) == without)
            return false;
    }
    return true;
}

bool resgraph_fits_properties(const struct resgraph_node *node, const struct rreq *req)
{
    return fits(node->properties, node->nproperties, req);
}

static uint64_t least(uint64_t slots, uint64_t have, uint64_t per_slot)
{
    return per_slot > 0 && have / per_slot < slots ? have / per_slot : slots;
}

static uint32_t slots_of(const struct rset_parts *k, const struct rreq *req)
{
    uint64_t slots = RREQ_COUNT_MAX;

    slots = least(slots, idset_count(k->cores), req->cores);
    slots = least(slots, idset_count(k->gpus), req->gpus);
    if (k->memory) /* else the memory is not known */
        slots = least(slots, k->memory, req->memory);
    return (uint32_t)slots;
}

/* --- the count of each resource --- */

enum what { CORES, GPUS, MEMORY, NWHAT };

struct tally {
    size_t nodes;         /* may be used */
    uint64_t slots;       /* slots that fit on these nodes */
    size_t enough;        /* nodes with enough of every resource for one node's share */
    size_t have[NWHAT];   /* nodes with enough of this resource */
    uint64_t most[NWHAT]; /* the maximum of this resource on one of them */
};

static int tally(const resgraph_t *g, const struct rreq *req, const uint64_t need[NWHAT],
                 uint32_t nslots, struct tally *t)
{
    memset(t, 0, sizeof(*t));
    for (size_t i = 0; i < g->nkinds; i++) {
        const struct kind *k = g->kinds[i];
        uint64_t has[NWHAT] = {idset_count(k->parts->cores), idset_count(k->parts->gpus),
                               k->parts->memory ? k->parts->memory : UINT64_MAX};
        uint32_t slots;
        size_t count;

        if (!fits((const char *const *)k->properties, k->nproperties, req))
            continue;
        if (usable(k, req, &count) < 0)
            return -1;
        if (count == 0)
            continue;
        slots = slots_of(k->parts, req);
        t->nodes += count;
        t->slots += (uint64_t)slots * count;
        if (slots >= nslots)
            t->enough += count;
        for (int w = 0; w < NWHAT; w++) {
            if (has[w] >= need[w])
                t->have[w] += count;
            if (has[w] > t->most[w])
                t->most[w] = has[w];
        }
    }
    return 0;
}

/* --- error messages --- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* "16 cores, 2 gpus" ... */
static void describe(char *buf, size_t size, const uint64_t need[NWHAT])
{
    static const char *const one[] = {"core", "gpu", "MiB of memory"};
    static const char *const many[] = {"cores", "gpus", "MiB of memory"};
    size_t len = 0;

    buf[0] = '\0';
    for (int w = 0; w < NWHAT; w++) {
        if (need[w] && len < size)
            len += (size_t)snprintf(buf + len, size - len, "%s%" PRIu64 " %s", len ? " and " : "",
                                    need[w], need[w] == 1 ? one[w] : many[w]);
    }
}

/* The condition that nodes must meet, unless all nodes may be used. */
static const char *whose(const struct rreq *req)
{
    if (req->ranks)
        return req->properties ? " of those it allows" : " of these ranks";
    return req->properties ? " with these properties" : "";
}

/* The error message that there is too little of one or more resources: `want` is "4 nodes" or "a
 * slot", each with `need`. */
static int too_little(const char *want, const char *each, const uint64_t need[NWHAT],
                      const struct tally *t, size_t nnodes, const struct rreq *req, errmsg_t *err)
{
    for (int w = 0; w < NWHAT; w++) {
        uint64_t only[NWHAT] = {0};
        char text[80];

        if (t->have[w] >= nnodes)
            continue;
        only[w] = need[w];
        describe(text, sizeof(text), only);
        if (t->have[w] > 0)
            return errmsg_fail(err, ENOSPC,
                               "needs %s with %s%s; only %zu of %zu node%s%s ha%s as many", want,
                               text, each, t->have[w], t->nodes, plural(t->nodes), whose(req),
                               t->have[w] == 1 ? "s" : "ve");
        if (t->nodes == 1)
            return errmsg_fail(err, ENOSPC, "needs %s with %s%s; the only node%s has %" PRIu64,
                               want, text, each, whose(req), t->most[w]);
        return errmsg_fail(err, ENOSPC,
                           "needs %s with %s%s; the largest of %zu nodes%s has %" PRIu64, want,
                           text, each, t->nodes, whose(req), t->most[w]);
    }
    return 0;
}

static int check_pools(const resgraph_t *g, const struct rreq *req, errmsg_t *err)
{
    for (size_t i = 0; i < req->npools; i++) {
        const struct rreq_pool *p = &req->pools[i];
        const struct gpool *have = NULL;

        for (size_t j = 0; j < g->npools; j++) {
            if (strcmp(g->pools[j].name, p->name) == 0)
                have = &g->pools[j];
        }
        if (!have)
            return errmsg_fail(err, ENOENT, "needs %" PRIu64 " of '%s', but there is no such pool",
                               p->count, p->name);
        if (have->count < p->count)
            return errmsg_fail(
                err, ENOSPC, "needs %" PRIu64 " of pool %s, which has %" PRIu64 "%s%s in all",
                p->count, p->name, have->count, have->unit[0] ? " " : "", have->unit);
    }
    return 0;
}

static int check_ranks(const resgraph_t *g, const struct rreq *req, errmsg_t *err)
{
    idset_t *all, *missing;
    size_t count;

    if (!req->ranks)
        return 0;
    all = resgraph_ranks(g);
    missing = all ? idset_difference(req->ranks, all) : NULL;
    idset_destroy(all);
    if (!missing)
        return errmsg_fail(err, ENOMEM, "out of memory while looking for resources");
    count = idset_count(missing);
    if (count > 0) {
        uint32_t first = idset_first(missing);

        idset_destroy(missing);
        if (count == 1)
            return errmsg_fail(err, ENOENT, "there is no node with rank %u", first);
        return errmsg_fail(err, ENOENT,
                           "there are no nodes with rank %u and %zu other ranks that it names",
                           first, count - 1);
    }
    idset_destroy(missing);
    return 0;
}

static int check_properties(const resgraph_t *g, const struct rreq *req, errmsg_t *err)
{
    for (char **p = req->properties; p && *p; p++) {
        bool without = **p == '^', found = false;

        for (size_t i = 0; !found && i < g->nkinds; i++) {
            const struct kind *k = g->kinds[i];

            found = !idset_empty(k->ranks) && has_property((const char *const *)k->properties,
                                                           k->nproperties, *p + without) != without;
        }
        if (!found && without)
            return errmsg_fail(err, ENOENT, "there is no node without the property '%s'", *p + 1);
        if (!found)
            return errmsg_fail(err, ENOENT, "there is no node with the property '%s'", *p);
    }
    return 0;
}

/* --- the check --- */

static int whole_nodes(const resgraph_t *g, const struct rreq *req, errmsg_t *err)
{
    uint32_t nslots = req->nslots ? req->nslots : 1;
    uint64_t need[NWHAT] = {(uint64_t)nslots * req->cores, (uint64_t)nslots * req->gpus,
                            nslots * req->memory};
    char want[32], all[120];
    struct tally t;

    if (req->memory > UINT64_MAX / nslots)
        need[MEMORY] = UINT64_MAX;
    if (tally(g, req, need, nslots, &t) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory while looking for resources");
    if (t.enough >= req->nnodes)
        return 0;
    if (t.nodes < req->nnodes)
        return errmsg_fail(err, ENOSPC, "needs %u node%s; there %s %zu%s", req->nnodes,
                           plural(req->nnodes), t.nodes == 1 ? "is" : "are", t.nodes, whose(req));
    snprintf(want, sizeof(want), "%u node%s", req->nnodes, plural(req->nnodes));
    if (too_little(want, req->nnodes == 1 ? "" : " each", need, &t, req->nnodes, req, err) < 0)
        return -1;
    describe(all, sizeof(all), need);
    return errmsg_fail(err, ENOSPC, "needs %s with %s%s; only %zu of %zu nodes%s ha%s all of that",
                       want, all, req->nnodes == 1 ? "" : " each", t.enough, t.nodes, whose(req),
                       t.enough == 1 ? "s" : "ve");
}

static int slots_anywhere(const resgraph_t *g, const struct rreq *req, errmsg_t *err)
{
    uint32_t nslots = req->nslots ? req->nslots : 1;
    uint64_t need[NWHAT] = {req->cores, req->gpus, req->memory};
    struct tally t;
    char all[120];

    if (tally(g, req, need, 1, &t) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory while looking for resources");
    if (t.nodes > 0 && t.slots >= nslots)
        return 0;
    if (t.nodes == 0)
        return errmsg_fail(err, ENOSPC, "there is no node%s", whose(req));
    if (too_little("a slot", "", need, &t, 1, req, err) < 0)
        return -1;
    describe(all, sizeof(all), need);
    return errmsg_fail(err, ENOSPC,
                       "needs %u slot%s with %s%s; all %zu node%s%s have room for %" PRIu64 "%s",
                       nslots, plural(nslots), all, nslots == 1 ? "" : " each", t.nodes,
                       plural(t.nodes), whose(req), t.slots,
                       req->gpus || req->memory ? "" : " (--overcommit lets tasks share cores)");
}

int resgraph_satisfiable(const resgraph_t *g, const struct rreq *req, errmsg_t *err)
{
    if (req->nnodes > RREQ_COUNT_MAX || req->nslots > RREQ_COUNT_MAX ||
        req->cores > RREQ_COUNT_MAX || req->gpus > RREQ_COUNT_MAX ||
        req->memory > RREQ_QUANTITY_MAX)
        return errmsg_fail(err, EINVAL, "requests more than can be counted");
    if (check_pools(g, req, err) < 0 || check_ranks(g, req, err) < 0 ||
        check_properties(g, req, err) < 0)
        return -1;
    return req->nnodes ? whole_nodes(g, req, err) : slots_anywhere(g, req, err);
}

int resgraph_fit_slots(const resgraph_t *g, struct rreq *req, uint32_t min, errmsg_t *err)
{
    uint32_t max = req->nslots;
    errmsg_t ignored;

    req->nslots = min;
    if (resgraph_satisfiable(g, req, err) < 0)
        return -1;
    /* `min` slots could be met, and more than `max` are not requested. */
    while (min < max) {
        req->nslots = max - (max - min) / 2;
        if (resgraph_satisfiable(g, req, &ignored) == 0)
            min = req->nslots;
        else
            max = req->nslots - 1;
    }
    req->nslots = min;
    return 0;
}
