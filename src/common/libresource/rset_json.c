/* rset_json.c - resource sets as JSON, RFC 20 version 1 (header), and back.
 *
 *  1. Nodes with the same children are one entry of R_lite, at the place of their least rank.
 *  2. "nodelist" has the hosts in ascending order of ranks, or the one host of all ranks; it is
 *     left out unless every node has a name.
 *  3. A decoded set encodes to equal JSON.  The cost of decoding is bounded by RSET_NODES_MAX
 *     nodes.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/schema.h"
#include "libidset/hostlist.h"
#include "libutil/fnv.h"
#include "libutil/hmap.h"
#include "rreq.h"
#include "rset_private.h"

struct wire {
    int version;
    json_t *execution;
    json_t *pools;
    json_t *attributes;
    json_t *scheduling;
};
static const struct flux_field wire_fields[] = {
    FLUX_FIELD_INT(struct wire, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct wire, execution, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct wire, pools, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_JSON(struct wire, attributes, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_JSON(struct wire, scheduling, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema wire_schema = FLUX_SCHEMA(struct wire, wire_fields);

struct execution {
    json_t *R_lite;
    json_t *nodelist;
    json_t *properties;
    double starttime;
    double expiration;
};
static const struct flux_field execution_fields[] = {
    FLUX_FIELD_ARRAY(struct execution, R_lite, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct execution, nodelist, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_JSON(struct execution, properties, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct execution, starttime, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct execution, expiration, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema execution_schema = FLUX_SCHEMA(struct execution, execution_fields);

struct entry {
    const char *rank;
    json_t *children;
};
static const struct flux_field entry_fields[] = {
    FLUX_FIELD_STR(struct entry, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct entry, children, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema entry_schema = FLUX_SCHEMA(struct entry, entry_fields);

struct children {
    const char *core;
    const char *gpu;
    uint64_t memory;
};
static const struct flux_field children_fields[] = {
    FLUX_FIELD_STR(struct children, core, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct children, gpu, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct children, memory, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema children_schema = FLUX_SCHEMA(struct children, children_fields);

/* --- to JSON --- */

/* Nodes with the same children. */
struct group {
    const struct rset_parts *parts;
    idset_t *ranks;
};

struct groups {
    struct group *list;
    size_t n;
    size_t cap;
    hmap_t *by_hash; /* hash of children -> 1 + place */
};

static uint64_t parts_hash(const struct rset_parts *k)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ k->memory;
    const idset_t *sets[] = {k->cores, k->gpus};

    for (int s = 0; s < 2; s++) {
        uint32_t lo, hi;
        size_t pos = 0;

        while (idset_next_range(sets[s], &pos, &lo, &hi)) {
            hash = fnv64_word(hash, (uint64_t)lo << 32 | hi);
            hash ^= hash >> 31;
        }
        hash = hash * 3 + 1;
    }
    return hash;
}

/* Find the group of these children, or add one. */
static struct group *group_of(struct groups *gs, const struct rset_parts *k)
{
    struct group *list, *g = gs->n ? &gs->list[gs->n - 1] : NULL;
    uint64_t hash;
    uintptr_t place;

    if (g && rset_parts_equal(g->parts, k))
        return g;
    hash = parts_hash(k);
    if (gs->n > 1 && (place = (uintptr_t)hmap_get_u64(gs->by_hash, hash)) &&
        rset_parts_equal(gs->list[place - 1].parts, k))
        return &gs->list[place - 1];
    if (gs->n == gs->cap) {
        size_t cap = gs->cap ? 2 * gs->cap : 4;

        if (!(list = realloc(gs->list, cap * sizeof(*list))))
            return NULL;
        gs->list = list;
        gs->cap = cap;
    }
    g = &gs->list[gs->n];
    g->parts = k;
    if (!(g->ranks = idset_create()))
        return NULL;
    gs->n++;
    if (!gs->by_hash && !(gs->by_hash = hmap_create_u64(NULL)))
        return NULL;
    return hmap_put_u64(gs->by_hash, hash, (void *)(uintptr_t)gs->n) < 0 ? NULL : g;
}

static int put(json_t *obj, const char *key, json_t *val)
{
    return json_object_set_new_nocheck(obj, key, val);
}

static int put_idset(json_t *obj, const char *key, const idset_t *ids)
{
    char *text = idset_format(ids, 0);
    int rc = text ? put(obj, key, json_string(text)) : -1;

    free(text);
    return rc;
}

static int put_group(json_t *list, const struct group *g)
{
    json_t *obj = json_object();
    json_t *parts = json_object();

    if (json_array_append_new(list, obj) < 0 || put_idset(obj, "rank", g->ranks) < 0) {
        json_decref(parts);
        return -1;
    }
    if (put(obj, "children", parts) < 0)
        return -1;
    if ((!idset_empty(g->parts->cores) && put_idset(parts, "core", g->parts->cores) < 0) ||
        (!idset_empty(g->parts->gpus) && put_idset(parts, "gpu", g->parts->gpus) < 0) ||
        (g->parts->memory && put(parts, "memory", json_integer((json_int_t)g->parts->memory)) < 0))
        return -1;
    return 0;
}

/* The array under "R_lite" alone. */
static json_t *rset_rlite(const rset_t *rs)
{
    struct groups gs = {0};
    json_t *list = json_array();
    struct group *g;

    for (size_t i = 0; list && i < rs->n; i++) {
        if (!(g = group_of(&gs, rs->nodes[i].parts)) ||
            idset_set(g->ranks, rs->nodes[i].rank) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    for (size_t i = 0; list && i < gs.n; i++) {
        if (put_group(list, &gs.list[i]) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    for (size_t i = 0; i < gs.n; i++)
        idset_destroy(gs.list[i].ranks);
    free(gs.list);
    hmap_destroy(gs.by_hash);
    if (!list)
        errno = ENOMEM;
    return list;
}

static int put_hosts(json_t *obj, const rset_t *rs)
{
    char *hosts;
    json_t *list;
    int rc;

    for (size_t i = 0; i < rs->n; i++) {
        if (!rs->nodes[i].host)
            return 0;
    }
    if (rs->n == 0)
        return 0;
    if (put(obj, "nodelist", list = json_array()) < 0 || !(hosts = rset_hosts(rs)))
        return -1;
    rc = json_array_append_new(list, json_string(hosts));
    free(hosts);
    return rc;
}

static int put_pools(json_t *obj, const rset_t *rs)
{
    const char *name;
    uint64_t count;
    json_t *pools;

    if (rs->npools == 0)
        return 0;
    if (put(obj, "pools", pools = json_object()) < 0)
        return -1;
    for (size_t i = 0; (name = rset_pool(rs, i, &count)); i++) {
        if (put(pools, name, json_integer((json_int_t)count)) < 0)
            return -1;
    }
    return 0;
}

static json_t *number(double val)
{
    return val == floor(val) && fabs(val) < 1e15 ? json_integer((json_int_t)val) : json_real(val);
}

json_t *rset_to_json(const rset_t *rs)
{
    json_t *obj = json_object();
    json_t *exec = json_object();

    if (!obj || put(obj, "version", json_integer(1)) < 0) {
        json_decref(exec);
        goto nomem;
    }
    if (put(obj, "execution", exec) < 0 || put(exec, "R_lite", rset_rlite(rs)) < 0 ||
        put_hosts(exec, rs) < 0 || put(exec, "starttime", number(rs->starttime)) < 0 ||
        put(exec, "expiration", number(rs->expiration)) < 0 || put_pools(obj, rs) < 0)
        goto nomem;
    return obj;
nomem:
    json_decref(obj);
    errno = ENOMEM;
    return NULL;
}

char *rset_format(const rset_t *rs)
{
    json_t *obj = rset_to_json(rs);
    char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

    json_decref(obj);
    if (!text)
        errno = ENOMEM;
    return text;
}

/* --- from JSON --- */

static idset_t *get_idset(const char *text, const char *what, size_t i, errmsg_t *err)
{
    errmsg_t why;
    idset_t *ids = idset_parse(text ? text : "", &why);

    if (!ids)
        errmsg_fail(err, errno == ENOMEM ? ENOMEM : EPROTO, "execution.R_lite[%zu].%s: %s", i, what,
                    why.text);
    return ids;
}

static int add_ranks(rset_t *rs, const idset_t *ranks, struct rset_parts *k)
{
    for (uint32_t rank = idset_first(ranks); rank != IDSET_NONE; rank = idset_next(ranks, rank)) {
        if (rset_append(rs, rank, rset_parts_incref(k), NULL) < 0)
            return -1;
    }
    return 0;
}

static int get_entry(rset_t *rs, const json_t *val, size_t i, errmsg_t *err)
{
    struct entry e = {0};
    struct children c = {0};
    idset_t *ranks = NULL, *cores = NULL, *gpus = NULL;
    struct rset_parts *k = NULL;
    errmsg_t why;
    int rc = -1;

    if (flux_schema_decode_json(&entry_schema, val, &e, &why) < 0)
        return errmsg_fail(err, EPROTO, "execution.R_lite[%zu]: %s", i, why.text);
    if (flux_schema_decode_json(&children_schema, e.children, &c, &why) < 0)
        return errmsg_fail(err, EPROTO, "execution.R_lite[%zu].children: %s", i, why.text);
    if (c.memory > RSET_QUANTITY_MAX)
        return errmsg_fail(err, EPROTO,
                           "execution.R_lite[%zu].children.memory: the number is too large", i);
    if (!(ranks = get_idset(e.rank, "rank", i, err)) ||
        !(cores = get_idset(c.core, "children.core", i, err)) ||
        !(gpus = get_idset(c.gpu, "children.gpu", i, err)))
        goto out;
    if (idset_count(ranks) > RSET_NODES_MAX - rs->n) {
        errmsg_fail(err, EPROTO, "execution.R_lite: more than %u nodes", RSET_NODES_MAX);
        goto out;
    }
    if (!(k = rset_parts_create(cores, gpus, c.memory)) || add_ranks(rs, ranks, k) < 0) {
        errmsg_fail(err, ENOMEM, "out of memory for a set of resources");
        goto out;
    }
    rc = 0;
out:
    rset_parts_decref(k);
    idset_destroy(ranks);
    idset_destroy(cores);
    idset_destroy(gpus);
    return rc;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = ((const struct rnode *)a)->rank, y = ((const struct rnode *)b)->rank;

    return (x > y) - (x < y);
}

static int get_nodes(rset_t *rs, const json_t *list, errmsg_t *err)
{
    const json_t *val;
    bool sorted = true;
    size_t i;

    json_array_foreach(list, i, val)
    {
        if (get_entry(rs, val, i, err) < 0)
            return -1;
    }
    for (i = 1; i < rs->n; i++)
        sorted &= rs->nodes[i - 1].rank < rs->nodes[i].rank;
    if (!sorted)
        qsort(rs->nodes, rs->n, sizeof(*rs->nodes), by_rank);
    for (i = 1; i < rs->n; i++) {
        if (rs->nodes[i - 1].rank == rs->nodes[i].rank)
            return errmsg_fail(err, EPROTO, "execution.R_lite: rank %u occurs twice",
                               rs->nodes[i].rank);
    }
    return 0;
}

static int set_hosts(rset_t *rs, const hostlist_t *hl, errmsg_t *err)
{
    size_t n = hostlist_count(hl);
    char name[HOSTLIST_NAME_MAX + 1];
    struct rset_host *h = NULL;

    if (n != rs->n && n != 1)
        return errmsg_fail(err, EPROTO, "execution.nodelist: %zu hosts for %zu nodes", n, rs->n);
    for (size_t i = 0; i < rs->n; i++) {
        if (n == 1 && i > 0) {
            rs->nodes[i].host = rset_host_incref(h);
            continue;
        }
        if (!hostlist_nth(hl, i, name, sizeof(name)) || !(h = rset_host_create(name)))
            return errmsg_fail(err, ENOMEM, "out of memory for a set of resources");
        rs->nodes[i].host = h;
    }
    return 0;
}

static int get_hosts(rset_t *rs, const json_t *list, errmsg_t *err)
{
    hostlist_t *hl;
    const json_t *val;
    errmsg_t why;
    size_t i;
    int rc = 0;

    if (!list || json_array_size(list) == 0)
        return 0;
    if (!(hl = hostlist_create()))
        return errmsg_fail(err, ENOMEM, "out of memory for a set of resources");
    json_array_foreach(list, i, val)
    {
        if (!json_is_string(val))
            rc = errmsg_fail(err, EPROTO, "execution.nodelist[%zu]: must be a string", i);
        else if (hostlist_append(hl, json_string_value(val), &why) < 0)
            rc = errmsg_fail(err, errno == ENOMEM ? ENOMEM : EPROTO, "execution.nodelist[%zu]: %s",
                             i, why.text);
        if (rc < 0)
            break;
    }
    if (rc == 0 && hostlist_count(hl) > 0)
        rc = set_hosts(rs, hl, err);
    hostlist_destroy(hl);
    return rc;
}

static int get_pools(rset_t *rs, json_t *pools, errmsg_t *err)
{
    const char *name;
    json_t *val;

    json_object_foreach(pools, name, val)
    {
        if (!rreq_name_valid(name))
            return errmsg_fail(err, EPROTO, "pools: '%.80s' is not a valid name of a pool", name);
        if (!json_is_integer(val) || json_integer_value(val) < 0 ||
            (uint64_t)json_integer_value(val) > RSET_QUANTITY_MAX)
            return errmsg_fail(err, EPROTO, "pools.%s: must be a quantity", name);
        if (rset_add_pool(rs, name, (uint64_t)json_integer_value(val)) < 0)
            return errmsg_fail(err, errno == ENOMEM ? ENOMEM : EPROTO, "pools: there are too many");
    }
    return 0;
}

static int get_execution(rset_t *rs, const json_t *obj, errmsg_t *err)
{
    struct execution x = {0};
    errmsg_t why;

    if (flux_schema_decode_json(&execution_schema, obj, &x, &why) < 0)
        return errmsg_fail(err, EPROTO, "execution: %s", why.text);
    if (!isfinite(x.starttime) || !isfinite(x.expiration) || x.starttime < 0. || x.expiration < 0.)
        return errmsg_fail(err, EPROTO, "execution: a time must be seconds since 1970");
    rs->starttime = x.starttime;
    rs->expiration = x.expiration;
    if (get_nodes(rs, x.R_lite, err) < 0)
        return -1;
    return get_hosts(rs, x.nodelist, err);
}

rset_t *rset_from_json(const json_t *obj, errmsg_t *err)
{
    struct wire w = {0};
    rset_t *rs;

    if (flux_schema_decode_json(&wire_schema, obj, &w, err) < 0)
        return NULL;
    if (w.version != 1) {
        errmsg_fail(err, EPROTO, "version: must be 1, not %d", w.version);
        return NULL;
    }
    if (!(rs = rset_create())) {
        errmsg_fail(err, ENOMEM, "out of memory for a set of resources");
        return NULL;
    }
    if (get_execution(rs, w.execution, err) < 0 || get_pools(rs, w.pools, err) < 0) {
        rset_destroy(rs);
        return NULL;
    }
    return rs;
}

rset_t *rset_parse(const char *json, size_t len, errmsg_t *err)
{
    json_error_t error;
    json_t *obj = json_loadb(json, len, JSON_REJECT_DUPLICATES, &error);
    rset_t *rs;

    if (!obj) {
        errmsg_fail(err, EPROTO, "R is not valid JSON: %s", error.text);
        return NULL;
    }
    rs = rset_from_json(obj, err);
    json_decref(obj);
    return rs;
}
