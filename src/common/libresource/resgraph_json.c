/* resgraph_json.c - encoding and decoding of an inventory as JSON (see the header).
 *
 *  1. One entry for each kind of node that has any; pools as they are.
 *  2. Decoding goes through resgraph_add(), so an inventory that was accepted keeps its invariants.
 *
 * Failure: EPROTO with an error message that names the field; nothing remains allocated.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/schema.h"
#include "libidset/hostlist.h"
#include "libutil/strbuf.h"
#include "resgraph_private.h"

struct wire {
    json_t *nodes;
    json_t *pools;
    json_t *places;
    bool emulated;
    bool named;
};
static const struct flux_field wire_fields[] = {
    FLUX_FIELD_ARRAY(struct wire, nodes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct wire, pools, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct wire, places, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct wire, emulated, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct wire, named, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema wire_schema = FLUX_SCHEMA(struct wire, wire_fields);

struct entry {
    const char *ranks;
    const char *hosts;
    const char *cores;
    const char *gpus;
    json_t *sockets;
    uint64_t memory;
    json_t *properties;
};
static const struct flux_field entry_fields[] = {
    FLUX_FIELD_STR(struct entry, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct entry, hosts, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct entry, cores, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct entry, gpus, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct entry, sockets, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct entry, memory, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct entry, properties, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema entry_schema = FLUX_SCHEMA(struct entry, entry_fields);

struct pool {
    const char *name;
    uint64_t count;
    const char *unit;
};
static const struct flux_field pool_fields[] = {
    FLUX_FIELD_STR(struct pool, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct pool, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct pool, unit, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema pool_schema = FLUX_SCHEMA(struct pool, pool_fields);

/* --- to JSON --- */

/* Hosts of a kind in the order of ranks, while they are collected. */
struct names {
    strbuf_t *sb;
    const char *first;
    bool differ;
};

static char *names_format(const struct names *nm)
{
    hostlist_t *hl;
    char *text;

    if (!nm->differ)
        return strdup(nm->first);
    if (!(hl = hostlist_parse(strbuf_str(nm->sb), NULL)))
        return NULL;
    text = hostlist_format(hl);
    hostlist_destroy(hl);
    return text;
}

static int put(json_t *obj, const char *key, json_t *val)
{
    return json_object_set_new_nocheck(obj, key, val);
}

static json_t *json_idset(const idset_t *ids)
{
    char *text = idset_format(ids, 0);
    json_t *val = text ? json_string(text) : NULL;

    free(text);
    return val;
}

static int put_kind(json_t *list, const struct kind *k, const struct names *nm)
{
    json_t *obj = json_object(), *arr;
    char *hosts = names_format(nm);
    int rc = -1;

    if (json_array_append_new(list, obj) < 0 || !hosts ||
        put(obj, "ranks", json_idset(k->ranks)) < 0 || put(obj, "hosts", json_string(hosts)) < 0 ||
        put(obj, "cores", json_idset(k->parts->cores)) < 0)
        goto out;
    if (!idset_empty(k->parts->gpus) && put(obj, "gpus", json_idset(k->parts->gpus)) < 0)
        goto out;
    if (k->parts->memory && put(obj, "memory", json_integer((json_int_t)k->parts->memory)) < 0)
        goto out;
    if (k->nsockets > 1) {
        if (put(obj, "sockets", arr = json_array()) < 0)
            goto out;
        for (size_t i = 0; i < k->nsockets; i++) {
            if (json_array_append_new(arr, json_idset(k->sockets[i])) < 0)
                goto out;
        }
    }
    if (k->nproperties > 0) {
        if (put(obj, "properties", arr = json_array()) < 0)
            goto out;
        for (size_t i = 0; i < k->nproperties; i++) {
            if (json_array_append_new(arr, json_string(k->properties[i])) < 0)
                goto out;
        }
    }
    rc = 0;
out:
    free(hosts);
    return rc;
}

static int collect_names(const resgraph_t *g, struct names *names)
{
    for (size_t i = 0; i < g->n; i++) {
        struct names *nm = &names[g->nodes[i].kind];
        const char *host = g->nodes[i].host->name;

        if (!nm->sb && !(nm->sb = strbuf_create(0)))
            return -1;
        if ((nm->first && strbuf_addc(nm->sb, ',') < 0) || strbuf_add(nm->sb, host) < 0)
            return -1;
        if (!nm->first)
            nm->first = host;
        else if (strcmp(nm->first, host) != 0)
            nm->differ = true;
    }
    return 0;
}

static json_t *nodes_json(const resgraph_t *g)
{
    struct names *names = calloc(g->nkinds + 1, sizeof(*names));
    json_t *list = json_array();
    bool ok = names && list && collect_names(g, names) == 0;

    for (size_t i = 0; ok && i < g->nkinds; i++)
        ok = !names[i].first || put_kind(list, g->kinds[i], &names[i]) == 0;
    for (size_t i = 0; names && i < g->nkinds; i++)
        strbuf_destroy(names[i].sb);
    free(names);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *pools_json(const resgraph_t *g)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < g->npools; i++) {
        struct pool p = {g->pools[i].name, g->pools[i].count,
                         g->pools[i].unit[0] ? g->pools[i].unit : NULL};

        if (json_array_append_new(list, flux_schema_encode_json(&pool_schema, &p)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

json_t *resgraph_to_json(const resgraph_t *g)
{
    json_t *obj = json_object();

    if (!obj || put(obj, "nodes", nodes_json(g)) < 0 || put(obj, "pools", pools_json(g)) < 0 ||
        (g->nplaces > 0 && put(obj, "places", resgraph_places_to_json(g)) < 0) ||
        (g->named && put(obj, "named", json_true()) < 0) ||
        put(obj, "emulated", json_boolean(g->emulated)) < 0) {
        json_decref(obj);
        errno = ENOMEM;
        return NULL;
    }
    return obj;
}

char *resgraph_format(const resgraph_t *g)
{
    json_t *obj = resgraph_to_json(g);
    char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

    json_decref(obj);
    if (!text)
        errno = ENOMEM;
    return text;
}

/* --- from JSON --- */

/* The objects to which a decoded entry points. */
struct parts {
    idset_t *ranks;
    idset_t *cores;
    idset_t *gpus;
    idset_t **sockets;
    size_t nsockets;
    const char *properties[RESGRAPH_PROPERTIES_MAX];
    size_t nproperties;
};

static void parts_clear(struct parts *p)
{
    int saved = errno;

    idset_destroy(p->ranks);
    idset_destroy(p->cores);
    idset_destroy(p->gpus);
    for (size_t i = 0; i < p->nsockets; i++)
        idset_destroy(p->sockets[i]);
    free(p->sockets);
    errno = saved;
}

static idset_t *get_idset(const char *text, const char *what, errmsg_t *err)
{
    errmsg_t why;
    idset_t *ids = idset_parse(text ? text : "", &why);

    if (!ids)
        errmsg_fail(err, errno == ENOMEM ? ENOMEM : EPROTO, "%s: %s", what, why.text);
    return ids;
}

static int get_lists(const struct entry *e, struct parts *p, errmsg_t *err)
{
    size_t n = json_array_size(e->sockets);

    if (n > RESGRAPH_CORES_MAX || json_array_size(e->properties) > RESGRAPH_PROPERTIES_MAX)
        return errmsg_fail(err, EPROTO, "too many sockets or properties");
    if (n > 0 && !(p->sockets = calloc(n, sizeof(*p->sockets))))
        return errmsg_fail(err, ENOMEM, "out of memory for an inventory of resources");
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(e->sockets, i));

        if (!text)
            return errmsg_fail(err, EPROTO, "sockets: must be idsets of cores");
        if (!(p->sockets[i] = get_idset(text, "sockets", err)))
            return -1;
        p->nsockets++;
    }
    for (size_t i = 0; i < json_array_size(e->properties); i++) {
        const char *text = json_string_value(json_array_get(e->properties, i));

        if (!text)
            return errmsg_fail(err, EPROTO, "properties: must be strings");
        p->properties[p->nproperties++] = text;
    }
    return 0;
}

static int get_entry(resgraph_t *g, const json_t *val, errmsg_t *err)
{
    struct entry e = {0};
    struct parts p = {0};
    struct resgraph_node desc;
    int rc = -1;

    if (flux_schema_decode_json(&entry_schema, val, &e, err) < 0)
        return -1;
    if ((p.ranks = get_idset(e.ranks, "ranks", err)) &&
        (p.cores = get_idset(e.cores, "cores", err)) && (p.gpus = get_idset(e.gpus, "gpus", err)) &&
        get_lists(&e, &p, err) == 0) {
        desc = (struct resgraph_node){.cores = p.cores,
                                      .gpus = p.gpus,
                                      .sockets = (const idset_t *const *)p.sockets,
                                      .nsockets = p.nsockets,
                                      .memory = e.memory,
                                      .properties = p.properties,
                                      .nproperties = p.nproperties};
        rc = resgraph_add(g, p.ranks, e.hosts, &desc, err);
    }
    parts_clear(&p);
    return rc;
}

static int get_all(resgraph_t *g, const struct wire *w, errmsg_t *err)
{
    const json_t *val;
    errmsg_t why;
    size_t i;

    json_array_foreach(w->nodes, i, val)
    {
        if (get_entry(g, val, &why) < 0)
            return errmsg_fail(err, errno == ENOMEM ? ENOMEM : EPROTO, "nodes[%zu]: %s", i,
                               why.text);
    }
    json_array_foreach(w->pools, i, val)
    {
        struct pool p = {0};

        if (flux_schema_decode_json(&pool_schema, val, &p, &why) < 0 ||
            resgraph_add_pool(g, p.name, p.count, p.unit, &why) < 0)
            return errmsg_fail(err, errno == ENOMEM ? ENOMEM : EPROTO, "pools[%zu]: %s", i,
                               why.text);
    }
    resgraph_set_emulated(g, w->emulated);
    resgraph_set_named(g, w->named);
    return resgraph_places_from_json(g, w->places, err);
}

resgraph_t *resgraph_from_json(const json_t *obj, errmsg_t *err)
{
    struct wire w = {0};
    resgraph_t *g;

    if (flux_schema_decode_json(&wire_schema, obj, &w, err) < 0)
        return NULL;
    if (!(g = resgraph_create())) {
        errmsg_fail(err, ENOMEM, "out of memory for an inventory of resources");
        return NULL;
    }
    if (get_all(g, &w, err) < 0) {
        resgraph_destroy(g);
        return NULL;
    }
    return g;
}

resgraph_t *resgraph_parse(const char *json, size_t len, errmsg_t *err)
{
    json_error_t error;
    json_t *obj = json_loadb(json, len, JSON_REJECT_DUPLICATES, &error);
    resgraph_t *g;

    if (!obj) {
        errmsg_fail(err, EPROTO, "an inventory is not valid JSON: %s", error.text);
        return NULL;
    }
    g = resgraph_from_json(obj, err);
    json_decref(obj);
    return g;
}
