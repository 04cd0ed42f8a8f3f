/* resgraph_place.c - levels above the node: leaf switches, pods, the core; racks, rows, and so
 * forth.
 *
 * A place has a level ("leaf", "pod", "rack", ...) and a name; it holds nodes, pools, and other
 * places.  A node may be below places of several levels, and of independent hierarchies: a rack
 * holds it for its power, a leaf switch for its network.
 *
 * Invariants:
 *  1. Each place comes after the place that contains it; level and name together are unique.
 *  2. No rank is directly in two places of one level.
 *  3. A pool that is in a place is a pool of the graph, and in one place only.
 *
 * Failure: EINVAL, EEXIST, ENOENT or ENOMEM and an error message; then nothing has changed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/schema.h"
#include "libutil/strutil.h"
#include "resgraph_private.h"

static int no_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for an inventory of resources");
}

void resgraph_clear_place(struct gplace *p)
{
    free(p->level);
    free(p->name);
    idset_destroy(p->ranks);
    for (size_t i = 0; i < p->npools; i++)
        free(p->pools[i]);
    free(p->pools);
}

void resgraph_clear_places(resgraph_t *g)
{
    int saved = errno;

    for (size_t i = 0; i < g->nplaces; i++)
        resgraph_clear_place(&g->places[i]);
    free(g->places);
    g->places = NULL;
    g->nplaces = g->places_room = 0;
    errno = saved;
}

/* --- building --- */

static bool good_word(const char *s)
{
    return s && *s && strlen(s) < 256 && !strpbrk(s, " \t\n\"\\") &&
           str_utf8_span(s, strlen(s)) == strlen(s);
}

static int check_place(const resgraph_t *g, const struct resgraph_place *in, errmsg_t *err)
{
    if (!good_word(in->level) || !good_word(in->name))
        return errmsg_fail(err, EINVAL, "a place must have a level and a name, without blanks");
    if (g->nplaces >= RESGRAPH_PLACES_MAX)
        return errmsg_fail(err, EINVAL, "more than %u places", RESGRAPH_PLACES_MAX);
    if (in->parent >= 0 && (size_t)in->parent >= g->nplaces)
        return errmsg_fail(err, EINVAL, "%s %.64s is within a place that does not exist", in->level,
                           in->name);
    if (resgraph_find_place(g, in->level, in->name) >= 0)
        return errmsg_fail(err, EEXIST, "%s %.64s occurs twice", in->level, in->name);
    for (uint32_t r = idset_first(in->ranks); r != IDSET_NONE; r = idset_next(in->ranks, r)) {
        ssize_t there = resgraph_place_of(g, in->level, r);

        if (resgraph_find_rank(g, r) < 0)
            return errmsg_fail(err, ENOENT, "%s %.64s contains rank %u, which does not exist",
                               in->level, in->name, r);
        if (there >= 0 && g->named)
            return errmsg_fail(err, EEXIST, "node %.64s is already in %s %.64s",
                               g->nodes[resgraph_find_rank(g, r)].host->name, in->level,
                               g->places[there].name);
        if (there >= 0)
            return errmsg_fail(err, EEXIST, "rank %u is already in %s %.64s", r, in->level,
                               g->places[there].name);
    }
    for (size_t i = 0; i < in->npools; i++) {
        bool known = false;

        for (size_t k = 0; k < g->npools; k++)
            known |= strcmp(g->pools[k].name, in->pools[i]) == 0;
        if (!known)
            return errmsg_fail(err, ENOENT, "%s %.64s contains pool %.64s, which does not exist",
                               in->level, in->name, in->pools[i]);
        for (size_t k = 0; k < g->nplaces; k++) {
            for (size_t m = 0; m < g->places[k].npools; m++) {
                if (strcmp(g->places[k].pools[m], in->pools[i]) == 0)
                    return errmsg_fail(err, EEXIST, "pool %.64s is already in %s %.64s",
                                       in->pools[i], g->places[k].level, g->places[k].name);
            }
        }
    }
    return 0;
}

int resgraph_add_place(resgraph_t *g, const struct resgraph_place *in, errmsg_t *err)
{
    struct gplace p = {.parent = in->parent < 0 ? -1 : in->parent};
    struct gplace *more;

    if (check_place(g, in, err) < 0)
        return -1;
    p.level = strdup(in->level);
    p.name = strdup(in->name);
    p.ranks = in->ranks ? idset_copy(in->ranks) : idset_create();
    p.pools = calloc(in->npools + 1, sizeof(*p.pools));
    for (size_t i = 0; p.pools && i < in->npools; i++) {
        if ((p.pools[i] = strdup(in->pools[i])))
            p.npools++;
    }
    if (!p.level || !p.name || !p.ranks || !p.pools || p.npools < in->npools) {
        resgraph_clear_place(&p);
        return no_memory(err);
    }
    if (g->nplaces == g->places_room) {
        size_t room = g->nplaces ? 2 * g->nplaces : 16;

        if (!(more = realloc(g->places, room * sizeof(*more)))) {
            resgraph_clear_place(&p);
            return no_memory(err);
        }
        g->places = more;
        g->places_room = room;
    }
    g->places[g->nplaces++] = p;
    return 0;
}

int resgraph_copy_places(resgraph_t *g, const resgraph_t *other, errmsg_t *err)
{
    ssize_t first = (ssize_t)g->nplaces;

    for (size_t i = 0; i < other->nplaces; i++) {
        struct resgraph_place p;

        resgraph_place(other, i, &p);
        if (p.parent >= 0)
            p.parent += first;
        if (resgraph_add_place(g, &p, err) < 0)
            return -1;
    }
    return 0;
}

/* For each node of g, the rank of its host in `named`, or IDSET_NONE. */
static uint32_t *ranks_in(const resgraph_t *g, resgraph_t *named)
{
    uint32_t *at = calloc(resgraph_nnodes(g) + 1, sizeof(*at));
    struct resgraph_node node;

    for (size_t i = 0; at && resgraph_node(g, i, &node); i++) {
        idset_t *ranks = resgraph_ranks_of_hosts(named, node.host, NULL);

        if (!ranks && errno == ENOMEM) {
            free(at);
            return NULL;
        }
        at[i] = ranks ? idset_first(ranks) : IDSET_NONE;
        idset_destroy(ranks);
    }
    return at;
}

static int add_named(resgraph_t *g, const struct resgraph_place *from, const uint32_t *at,
                     errmsg_t *err)
{
    idset_t *ranks = idset_create();
    struct resgraph_place p = *from;
    struct resgraph_node node;
    int rc = ranks ? 0 : -1;

    for (size_t i = 0; rc == 0 && resgraph_node(g, i, &node); i++) {
        if (at[i] != IDSET_NONE && idset_test(from->ranks, at[i]))
            rc = idset_set(ranks, node.rank);
    }
    p.ranks = ranks;
    rc = rc < 0 ? no_memory(err) : resgraph_add_place(g, &p, err);
    idset_destroy(ranks);
    return rc;
}

int resgraph_take_named(resgraph_t *g, resgraph_t *named, errmsg_t *err)
{
    uint32_t *at = ranks_in(g, named);
    struct resgraph_place p;
    int rc = at ? 0 : no_memory(err);

    if (rc == 0)
        resgraph_clear_places(g);
    for (size_t i = 0; rc == 0 && resgraph_place(named, i, &p); i++)
        rc = add_named(g, &p, at, err);
    free(at);
    return rc;
}

int resgraph_remove_from_places(resgraph_t *g, const idset_t *ranks)
{
    for (size_t i = 0; i < g->nplaces; i++) {
        if (idset_subtract(g->places[i].ranks, ranks) < 0)
            return -1;
    }
    return 0;
}

/* --- queries --- */

size_t resgraph_nplaces(const resgraph_t *g)
{
    return g->nplaces;
}

bool resgraph_place(const resgraph_t *g, size_t i, struct resgraph_place *place)
{
    const struct gplace *p;

    if (i >= g->nplaces)
        return false;
    p = &g->places[i];
    *place = (struct resgraph_place){.level = p->level,
                                     .name = p->name,
                                     .parent = p->parent,
                                     .ranks = p->ranks,
                                     .pools = (const char *const *)p->pools,
                                     .npools = p->npools};
    return true;
}

ssize_t resgraph_find_place(const resgraph_t *g, const char *level, const char *name)
{
    for (size_t i = 0; i < g->nplaces; i++) {
        if (strcmp(g->places[i].name, name) == 0 && strcmp(g->places[i].level, level) == 0)
            return (ssize_t)i;
    }
    return -1;
}

ssize_t resgraph_place_of(const resgraph_t *g, const char *level, uint32_t rank)
{
    for (size_t i = 0; i < g->nplaces; i++) {
        if (idset_test(g->places[i].ranks, rank) && strcmp(g->places[i].level, level) == 0)
            return (ssize_t)i;
    }
    return -1;
}

idset_t *resgraph_ranks_below(const resgraph_t *g, size_t place)
{
    idset_t *ids = idset_create();

    for (size_t i = place; ids && i < g->nplaces; i++) {
        ssize_t up = (ssize_t)i;

        while (up >= 0 && (size_t)up != place)
            up = g->places[up].parent;
        if (up >= 0 && idset_add(ids, g->places[i].ranks) < 0) {
            idset_destroy(ids);
            ids = NULL;
        }
    }
    return ids;
}

/* --- JSON --- */

struct wire {
    const char *level;
    const char *name;
    const char *in_level;
    const char *in;
    const char *ranks;
    json_t *pools;
};
static const struct flux_field wire_fields[] = {
    FLUX_FIELD_STR(struct wire, level, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct wire, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct wire, in_level, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct wire, in, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct wire, ranks, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct wire, pools, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema wire_schema = FLUX_SCHEMA(struct wire, wire_fields);

static json_t *place_json(const resgraph_t *g, const struct gplace *p)
{
    struct wire w = {.level = p->level, .name = p->name};
    char *ranks = idset_format(p->ranks, 0);
    json_t *obj = NULL;
    bool ok = ranks != NULL;

    if (p->parent >= 0) {
        w.in_level = g->places[p->parent].level;
        w.in = g->places[p->parent].name;
    }
    w.ranks = ranks && *ranks ? ranks : NULL;
    if (p->npools > 0) {
        ok = ok && (w.pools = json_array());
        for (size_t i = 0; ok && i < p->npools; i++)
            ok = json_array_append_new(w.pools, json_string(p->pools[i])) == 0;
    }
    if (ok)
        obj = flux_schema_encode_json(&wire_schema, &w);
    json_decref(w.pools);
    free(ranks);
    return obj;
}

json_t *resgraph_places_to_json(const resgraph_t *g)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < g->nplaces; i++) {
        if (json_array_append_new(list, place_json(g, &g->places[i])) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static int get_place(resgraph_t *g, const json_t *val, errmsg_t *err)
{
    struct resgraph_place p = {.parent = -1};
    struct wire w = {0};
    const char **pools = NULL;
    idset_t *ranks = NULL;
    int rc = -1;

    if (flux_schema_decode_json(&wire_schema, val, &w, err) < 0)
        return -1;
    if (!w.in != !w.in_level)
        return errmsg_fail(err, EPROTO, "in and in_level must be given together");
    if (w.in && (p.parent = resgraph_find_place(g, w.in_level, w.in)) < 0)
        return errmsg_fail(err, EPROTO, "%.64s is in %.64s %.64s, which does not come before it",
                           w.name, w.in_level, w.in);
    if (json_array_size(w.pools) > RESGRAPH_POOLS_MAX)
        return errmsg_fail(err, EPROTO, "too many pools");
    if (!(pools = calloc(json_array_size(w.pools) + 1, sizeof(*pools))))
        return no_memory(err);
    for (size_t i = 0; i < json_array_size(w.pools); i++) {
        if (!(pools[i] = json_string_value(json_array_get(w.pools, i)))) {
            errmsg_fail(err, EPROTO, "pools: must be names");
            goto out;
        }
    }
    p.level = w.level;
    p.name = w.name;
    p.pools = pools;
    p.npools = json_array_size(w.pools);
    if (!(ranks = idset_parse(w.ranks ? w.ranks : "", err)))
        goto out;
    p.ranks = ranks;
    rc = resgraph_add_place(g, &p, err);
out:
    free(pools);
    idset_destroy(ranks);
    return rc;
}

int resgraph_places_from_json(resgraph_t *g, const json_t *list, errmsg_t *err)
{
    const json_t *val;
    errmsg_t why;
    size_t i;

    json_array_foreach(list, i, val)
    {
        if (get_place(g, val, &why) < 0)
            return errmsg_fail(err, errno == ENOMEM ? ENOMEM : EPROTO, "places[%zu]: %s", i,
                               why.text);
    }
    return 0;
}
