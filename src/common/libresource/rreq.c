/* rreq.c - the resource request of a job (see the header).
 *
 *  1. Pools and properties are sorted and unique, so that equal requests are equal byte for byte,
 *     regardless of the order in which they were written.
 *  2. Every count is bounded, so that products of two of them fit 64 bits.
 *
 * Failure: a request that cannot be decoded leaves an empty request.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/schema.h"
#include "rreq.h"
#include "libutil/fnv.h"

struct wire {
    uint32_t nnodes, nslots, cores, gpus;
    uint64_t memory;
    bool exclusive;
    json_t *pools;
    const char *ranks;
    json_t *properties;
    double duration;
};
static const struct flux_field wire_fields[] = {
    FLUX_FIELD_U32(struct wire, nnodes, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct wire, nslots, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct wire, cores, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct wire, gpus, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct wire, memory, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct wire, exclusive, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct wire, pools, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct wire, ranks, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct wire, properties, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct wire, duration, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema wire_schema = FLUX_SCHEMA(struct wire, wire_fields);

bool rreq_name_valid(const char *name)
{
    static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t len = name ? strlen(name) : 0;

    return len > 0 && len < 64 && strspn(name, chars) == len;
}

void rreq_clear(struct rreq *req)
{
    int saved = errno;

    if (!req)
        return;
    for (size_t i = 0; i < req->npools; i++)
        free(req->pools[i].name);
    free(req->pools);
    for (char **p = req->properties; p && *p; p++)
        free(*p);
    free(req->properties);
    idset_destroy(req->ranks);
    memset(req, 0, sizeof(*req));
    errno = saved;
}

int rreq_add_pool(struct rreq *req, const char *name, uint64_t count, errmsg_t *err)
{
    struct rreq_pool *pools;
    size_t i = 0;

    if (!rreq_name_valid(name))
        return errmsg_fail(err, EINVAL, "'%.80s' is not a valid name of a pool", name ? name : "");
    while (i < req->npools && strcmp(req->pools[i].name, name) < 0)
        i++;
    if (i < req->npools && strcmp(req->pools[i].name, name) == 0) {
        if (count > RREQ_QUANTITY_MAX - req->pools[i].count)
            return errmsg_fail(err, ERANGE, "the requested quantity of pool %s is too large", name);
        req->pools[i].count += count;
        return 0;
    }
    if (count > RREQ_QUANTITY_MAX)
        return errmsg_fail(err, ERANGE, "the requested quantity of pool %s is too large", name);
    if (req->npools >= RREQ_POOLS_MAX)
        return errmsg_fail(err, ERANGE, "more than %d pools are requested", RREQ_POOLS_MAX);
    if (!(pools = realloc(req->pools, (req->npools + 1) * sizeof(*pools))))
        return errmsg_fail(err, ENOMEM, "out of memory for a request");
    req->pools = pools;
    memmove(&pools[i + 1], &pools[i], (req->npools - i) * sizeof(*pools));
    if (!(pools[i].name = strdup(name))) {
        memmove(&pools[i], &pools[i + 1], (req->npools - i) * sizeof(*pools));
        return errmsg_fail(err, ENOMEM, "out of memory for a request");
    }
    pools[i].count = count;
    req->npools++;
    return 0;
}

int rreq_add_property(struct rreq *req, const char *property, errmsg_t *err)
{
    size_t n = 0, i = 0;
    char **list;

    if (!property || !rreq_name_valid(property + (property[0] == '^')))
        return errmsg_fail(err, EINVAL, "'%.80s' is not a valid name of a property",
                           property ? property : "");
    while (req->properties && req->properties[n])
        n++;
    while (i < n && strcmp(req->properties[i], property) < 0)
        i++;
    if (i < n && strcmp(req->properties[i], property) == 0)
        return 0;
    if (n >= RREQ_PROPERTIES_MAX)
        return errmsg_fail(err, ERANGE, "more than %d properties are requested",
                           RREQ_PROPERTIES_MAX);
    if (!(list = realloc(req->properties, (n + 2) * sizeof(*list))))
        return errmsg_fail(err, ENOMEM, "out of memory for a request");
    req->properties = list;
    list[n] = list[n + 1] = NULL;
    char *copy = strdup(property);
    if (!copy)
        return errmsg_fail(err, ENOMEM, "out of memory for a request");
    memmove(&list[i + 1], &list[i], (n - i) * sizeof(*list));
    list[i] = copy;
    return 0;
}

int rreq_copy(struct rreq *dst, const struct rreq *src)
{
    *dst = *src;
    dst->pools = NULL;
    dst->npools = 0;
    dst->properties = NULL;
    dst->ranks = NULL;
    if (src->ranks && !(dst->ranks = idset_copy(src->ranks)))
        goto nomem;
    for (size_t i = 0; i < src->npools; i++) {
        if (rreq_add_pool(dst, src->pools[i].name, src->pools[i].count, NULL) < 0)
            goto nomem;
    }
    for (char **p = src->properties; p && *p; p++) {
        if (rreq_add_property(dst, *p, NULL) < 0)
            goto nomem;
    }
    return 0;
nomem:
    rreq_clear(dst);
    errno = ENOMEM;
    return -1;
}

/* --- JSON --- */

/* Set a field: 0, or -1 when `val` is NULL or memory is short. */
static int put(json_t *obj, const char *key, json_t *val)
{
    return json_object_set_new_nocheck(obj, key, val);
}

static int put_count(json_t *obj, const char *key, uint64_t count)
{
    return count ? put(obj, key, json_integer((json_int_t)count)) : 0;
}

static int put_pools(json_t *obj, const struct rreq *req)
{
    json_t *list;

    if (req->npools == 0)
        return 0;
    if (put(obj, "pools", list = json_array()) < 0)
        return -1;
    for (size_t i = 0; i < req->npools; i++) {
        json_t *pair = json_array();

        if (json_array_append_new(list, pair) < 0 ||
            json_array_append_new(pair, json_string(req->pools[i].name)) < 0 ||
            json_array_append_new(pair, json_integer((json_int_t)req->pools[i].count)) < 0)
            return -1;
    }
    return 0;
}

static int put_sets(json_t *obj, const struct rreq *req)
{
    json_t *list;

    if (req->ranks) {
        char *text = idset_format(req->ranks, 0);
        int rc = text ? put(obj, "ranks", json_string(text)) : -1;

        free(text);
        if (rc < 0)
            return -1;
    }
    if (!req->properties || !req->properties[0])
        return 0;
    if (put(obj, "properties", list = json_array()) < 0)
        return -1;
    for (char **p = req->properties; *p; p++) {
        if (json_array_append_new(list, json_string(*p)) < 0)
            return -1;
    }
    return 0;
}

json_t *rreq_to_json(const struct rreq *req)
{
    json_t *obj = json_object();

    if (!obj || put_count(obj, "nnodes", req->nnodes) < 0 ||
        put_count(obj, "nslots", req->nslots) < 0 || put_count(obj, "cores", req->cores) < 0 ||
        put_count(obj, "gpus", req->gpus) < 0 || put_count(obj, "memory", req->memory) < 0 ||
        (req->exclusive && put(obj, "exclusive", json_true()) < 0) || put_pools(obj, req) < 0 ||
        put_sets(obj, req) < 0 ||
        (req->duration > 0. && put(obj, "duration", json_real(req->duration)) < 0)) {
        json_decref(obj);
        errno = ENOMEM;
        return NULL;
    }
    return obj;
}

static int get_lists(const struct wire *w, struct rreq *req, errmsg_t *err)
{
    json_t *val;
    size_t i;

    json_array_foreach(w->pools, i, val)
    {
        const char *name = json_string_value(json_array_get(val, 0));
        const json_t *count = json_array_get(val, 1);

        if (json_array_size(val) != 2 || !name || !json_is_integer(count) ||
            json_integer_value(count) < 0)
            return errmsg_fail(err, EPROTO, "pools[%zu]: must be [name, amount]", i);
        if (rreq_add_pool(req, name, (uint64_t)json_integer_value(count), err) < 0)
            return -1;
    }
    json_array_foreach(w->properties, i, val)
    {
        if (!json_is_string(val))
            return errmsg_fail(err, EPROTO, "properties[%zu]: must be a string", i);
        if (rreq_add_property(req, json_string_value(val), err) < 0)
            return -1;
    }
    return 0;
}

int rreq_from_json(const json_t *obj, struct rreq *out, errmsg_t *err)
{
    struct wire w = {0};
    errmsg_t why;

    memset(out, 0, sizeof(*out));
    if (flux_schema_decode_json(&wire_schema, obj, &w, err) < 0)
        return -1;
    if (w.nnodes > RREQ_COUNT_MAX || w.nslots > RREQ_COUNT_MAX || w.cores > RREQ_COUNT_MAX ||
        w.gpus > RREQ_COUNT_MAX)
        return errmsg_fail(err, EPROTO,
                           "a number of nodes, slots, cores or gpus is greater than %u",
                           RREQ_COUNT_MAX);
    if (w.memory > RREQ_QUANTITY_MAX)
        return errmsg_fail(err, EPROTO, "memory: the number of MiB is too large");
    if (!isfinite(w.duration) || w.duration < 0.)
        return errmsg_fail(err, EPROTO, "duration: must be a number of seconds >= 0");
    out->nnodes = w.nnodes;
    out->nslots = w.nslots;
    out->cores = w.cores;
    out->gpus = w.gpus;
    out->memory = w.memory;
    out->exclusive = w.exclusive;
    out->duration = w.duration;
    if (w.ranks && !(out->ranks = idset_parse(w.ranks, &why))) {
        int errnum = errno == ENOMEM ? ENOMEM : EPROTO;

        rreq_clear(out);
        return errmsg_fail(err, errnum, "ranks: %s", why.text);
    }
    if (get_lists(&w, out, err) < 0) {
        int errnum = errno == ENOMEM ? ENOMEM : EPROTO;

        rreq_clear(out);
        errno = errnum;
        return -1;
    }
    return 0;
}

/* --- comparing --- */

bool rreq_equal_resources(const struct rreq *a, const struct rreq *b)
{
    char **p = a->properties, **q = b->properties;

    if (a->nnodes != b->nnodes || a->nslots != b->nslots || a->cores != b->cores ||
        a->gpus != b->gpus || a->memory != b->memory || a->exclusive != b->exclusive ||
        a->npools != b->npools || !a->ranks != !b->ranks ||
        (a->ranks && !idset_equal(a->ranks, b->ranks)))
        return false;
    for (size_t i = 0; i < a->npools; i++) {
        if (a->pools[i].count != b->pools[i].count ||
            strcmp(a->pools[i].name, b->pools[i].name) != 0)
            return false;
    }
    while (p && *p && q && *q && strcmp(*p, *q) == 0)
        p++, q++;
    return !(p && *p) && !(q && *q);
}

/* FNV-1a, word by word. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = fnv64_word(hash, word);
    return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *s)
{
    while (*s)
        hash = mix(hash, (unsigned char)*s++);
    return mix(hash, 256);
}

uint64_t rreq_hash(const struct rreq *req)
{
    uint64_t hash = FNV64_BASIS;
    uint32_t lo, hi;
    size_t pos = 0;

    hash = mix(hash, (uint64_t)req->nnodes << 32 | req->nslots);
    hash = mix(hash, (uint64_t)req->cores << 32 | req->gpus);
    hash = mix(hash, req->memory << 1 | req->exclusive);
    for (size_t i = 0; i < req->npools; i++)
        hash = mix(mix_text(hash, req->pools[i].name), req->pools[i].count);
    for (char **p = req->properties; p && *p; p++)
        hash = mix_text(hash, *p);
    hash = mix(hash, req->ranks != NULL);
    while (req->ranks && idset_next_range(req->ranks, &pos, &lo, &hi))
        hash = mix(hash, (uint64_t)lo << 32 | hi);
    return hash;
}
