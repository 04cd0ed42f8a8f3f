/* resgraph_lua.c - the sections `resource` and `places` of a configuration file.
 *
 *     field        type              meaning                                of a list's entry, too
 *     nodes        string            hostlist; ranks in this order          yes, required there
 *     cores        number            of each node                           yes
 *     sockets      number            cores are divided in order (1)         yes
 *     gpus         number            of each node (0)                       yes
 *     memory       number or string  MiB, or with a unit ("64G")            yes
 *     properties   string            comma-separated names                  yes
 *     xml          string            file of hwloc instead of the five      yes
 *     pools        pairs             name = amount, or "amount unit"
 *     emulate      boolean           the nodes need not exist
 *
 * A section can consist of pools only: then the brokers determine the nodes.
 *
 * Entries of `places`, each after the place that contains it:
 *
 *     field        type              meaning
 *     level, name  string            "rack", "r0": together unique
 *     within       string            the name of the place that holds it, or its level and name
 *     nodes        string            hostlist: what it holds itself
 *     pools        string            names with commas between them: likewise
 *
 * Failure: EINVAL with an error message that names file, group and field.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libconfig/config_file.h"
#include "libidset/hostlist.h"
#include "libutil/hmap.h"
#include "libutil/size.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"
#include "libutil/strvec.h"
#include "resgraph_lua.h"

#define SECTION "resource"
#define SOCKETS_MAX 1024
#define MIB (1024. * 1024.)

#define GROUP_FIELDS(section, required)                                                           \
    {section, "nodes", CONFIG_STRING, required}, {section, "cores", CONFIG_NUMBER, false},        \
        {section, "sockets", CONFIG_NUMBER, false}, {section, "gpus", CONFIG_NUMBER, false},      \
        {section, "memory", CONFIG_AMOUNT, false}, {section, "properties", CONFIG_STRING, false}, \
    {                                                                                             \
        section, "xml", CONFIG_STRING, false                                                      \
    }

#define PLACES "places"

static const struct config_field fields[] = {
    GROUP_FIELDS(SECTION, false),
    {SECTION, "pools", CONFIG_PAIRS, false},
    {SECTION, "emulate", CONFIG_BOOL, false},
    GROUP_FIELDS(SECTION "[]", true),
    {PLACES, "level", CONFIG_STRING, false}, /* of entries only: see read_places() */
    {PLACES "[]", "level", CONFIG_STRING, true},
    {PLACES "[]", "name", CONFIG_STRING, true},
    {PLACES "[]", "within", CONFIG_STRING, false},
    {PLACES "[]", "nodes", CONFIG_STRING, false},
    {PLACES "[]", "pools", CONFIG_STRING, false},
    {"session", "*", CONFIG_ANY, false},
    CONFIG_FIELD_END,
};

struct source {
    config_t *file;
    resgraph_xml_f xml;
    resgraph_t *g;
};

static int no_memory(errmsg_t *err)
{
    return errmsg_fail(err, ENOMEM, "out of memory for an inventory of resources");
}

/* A whole number of a group; `absent` when the field is absent. */
static int get_number(struct source *s, const char *group, const char *name, uint32_t max,
                      uint32_t absent, uint32_t *val, errmsg_t *err)
{
    double num = config_number(s->file, group, name, absent);

    if (num < 0. || num > max || num != floor(num))
        return errmsg_fail(err, EINVAL, "%s: %s.%s must be a whole number from 0 to %u",
                           config_name(s->file), group, name, max);
    *val = (uint32_t)num;
    return 0;
}

static int get_memory(struct source *s, const char *group, uint64_t *mib, errmsg_t *err)
{
    const char *text = config_string(s->file, group, "memory");
    double num;
    uint64_t bytes;
    errmsg_t why;

    if (text) {
        if (size_parse(text, &bytes, &why) < 0)
            return errmsg_fail(err, EINVAL, "%s: %s.memory: %s", config_name(s->file), group,
                               why.text);
        *mib = bytes >> 20;
        return 0;
    }
    num = config_number(s->file, group, "memory", 0.);
    if (num < 0. || num > (double)RREQ_QUANTITY_MAX)
        return errmsg_fail(err, EINVAL, "%s: %s.memory must be a quantity in MiB or with a unit",
                           config_name(s->file), group);
    *mib = (uint64_t)num;
    return 0;
}

/* Cores 0..cores-1 dealt to sockets in order. */
static idset_t **deal(uint32_t cores, uint32_t sockets)
{
    idset_t **list = calloc(sockets, sizeof(*list));

    for (uint32_t i = 0; list && i < sockets; i++) {
        uint32_t lo = (uint32_t)((uint64_t)cores * i / sockets);
        uint32_t hi = (uint32_t)((uint64_t)cores * (i + 1) / sockets);

        if (!(list[i] = hi > lo ? idset_create_range(lo, hi - 1) : idset_create())) {
            while (i-- > 0)
                idset_destroy(list[i]);
            free(list);
            return NULL;
        }
    }
    return list;
}

static void free_sets(idset_t **list, size_t n)
{
    for (size_t i = 0; list && i < n; i++)
        idset_destroy(list[i]);
    free(list);
}

/* Add the nodes; `desc` has all but properties. */
static int add_nodes(struct source *s, const char *group, const char *nodes,
                     struct resgraph_node *desc, errmsg_t *err)
{
    const char *text = config_string(s->file, group, "properties");
    strvec_t *properties = strvec_split(text ? text : "", ',');
    hostlist_t *hl = NULL;
    idset_t *ranks = NULL;
    uint32_t first = (uint32_t)resgraph_nnodes(s->g);
    errmsg_t why;
    size_t n;
    int rc = -1;

    if (!properties) {
        no_memory(err);
        goto out;
    }
    if (!(hl = hostlist_parse(nodes, &why))) {
        errmsg_fail(err, EINVAL, "%s: %s.nodes: %s", config_name(s->file), group, why.text);
        goto out;
    }
    if ((n = hostlist_count(hl)) == 0) {
        errmsg_fail(err, EINVAL, "%s: %s.nodes is empty", config_name(s->file), group);
        goto out;
    }
    if (n > RESGRAPH_NODES_MAX - first) {
        errmsg_fail(err, EINVAL, "%s: more than %u nodes", config_name(s->file),
                    RESGRAPH_NODES_MAX);
        goto out;
    }
    if (!(ranks = idset_create_range(first, first + (uint32_t)n - 1))) {
        no_memory(err);
        goto out;
    }
    desc->properties = (const char *const *)strvec_argv(properties);
    desc->nproperties = strvec_count(properties);
    if ((rc = resgraph_add(s->g, ranks, nodes, desc, &why)) < 0)
        errmsg_fail(err, errno, "%s: %s: %s", config_name(s->file), group, why.text);
out:
    idset_destroy(ranks);
    hostlist_destroy(hl);
    strvec_destroy(properties);
    return rc;
}

static int add_from_xml(struct source *s, const char *group, const char *nodes, const char *path,
                        errmsg_t *err)
{
    struct resgraph_node desc;
    resgraph_t *one;
    int rc = -1;

    if (!s->xml)
        return errmsg_fail(err, EINVAL, "%s: %s.xml cannot be read here", config_name(s->file),
                           group);
    if (!(one = s->xml(path, 0, "node", err)))
        return -1;
    if (resgraph_node(one, 0, &desc))
        rc = add_nodes(s, group, nodes, &desc, err);
    resgraph_destroy(one);
    return rc;
}

static int add_group(struct source *s, const char *group, errmsg_t *err)
{
    const char *nodes = config_string(s->file, group, "nodes");
    const char *xml = config_string(s->file, group, "xml");
    struct resgraph_node desc = {0};
    uint32_t cores, sockets, gpus;
    idset_t *core_ids, *gpu_ids;
    idset_t **list;
    int rc = -1;

    if (xml)
        return add_from_xml(s, group, nodes, xml, err);
    if (get_number(s, group, "cores", RESGRAPH_CORES_MAX, 0, &cores, err) < 0 ||
        get_number(s, group, "sockets", SOCKETS_MAX, 1, &sockets, err) < 0 ||
        get_number(s, group, "gpus", RESGRAPH_CORES_MAX, 0, &gpus, err) < 0 ||
        get_memory(s, group, &desc.memory, err) < 0)
        return -1;
    if (cores == 0)
        return errmsg_fail(err, EINVAL,
                           "%s: %s.cores is missing: it is the number of cores of a node",
                           config_name(s->file), group);
    if (sockets == 0 || sockets > cores)
        return errmsg_fail(err, EINVAL, "%s: %s.sockets must be from 1 to the number of cores, %u",
                           config_name(s->file), group, cores);
    core_ids = idset_create_range(0, cores - 1);
    gpu_ids = gpus ? idset_create_range(0, gpus - 1) : idset_create();
    list = deal(cores, sockets);
    if (core_ids && gpu_ids && list) {
        desc.cores = core_ids;
        desc.gpus = gpu_ids;
        desc.sockets = (const idset_t *const *)list;
        desc.nsockets = sockets;
        rc = add_nodes(s, group, nodes, &desc, err);
    } else {
        no_memory(err);
    }
    free_sets(list, sockets);
    idset_destroy(core_ids);
    idset_destroy(gpu_ids);
    return rc;
}

/* "1000", "1000 kW": whole amounts. */
static int add_pool(struct source *s, const char *name, const char *value, errmsg_t *err)
{
    size_t len = strcspn(value, " ");
    char digits[32] = "";
    uint64_t count = 0;
    errmsg_t why;

    if (len < sizeof(digits))
        memcpy(digits, value, len);
    if (str2u64(digits, &count) < 0)
        return errmsg_fail(err, EINVAL,
                           "%s: pool %.64s = '%.40s' is not a whole number, with or without a unit",
                           config_name(s->file), name, value);
    if (resgraph_add_pool(s->g, name, count, value + len + (value[len] == ' '), &why) < 0)
        return errmsg_fail(err, errno, "%s: %s", config_name(s->file), why.text);
    return 0;
}

static int add_pools(struct source *s, errmsg_t *err)
{
    char *name, *value;
    int rc;

    for (size_t i = 0; (rc = config_pair(s->file, SECTION, "pools", i, &name, &value)) > 0; i++) {
        rc = add_pool(s, name, value, err);
        free(name);
        free(value);
        if (rc < 0)
            return -1;
    }
    return rc < 0 ? no_memory(err) : 0;
}

/* --- places --- */

/* "row0", or "row row0": the number of the place with that name, or with that level and name. */
static ssize_t find_within(const resgraph_t *g, const char *within, errmsg_t *why)
{
    const char *blank = strchr(within, ' ');
    const char *name = blank ? blank + 1 : within;
    size_t len = blank ? (size_t)(blank - within) : 0;
    struct resgraph_place p;
    ssize_t found = -1;

    for (size_t i = 0; resgraph_place(g, i, &p); i++) {
        if (strcmp(p.name, name) != 0 ||
            (blank && (strlen(p.level) != len || strncmp(p.level, within, len) != 0)))
            continue;
        if (found >= 0)
            return errmsg_fail(why, EINVAL,
                               "'%.64s' is the name of several places: write level and name, as in "
                               "\"%.32s %.64s\"",
                               name, p.level, name);
        found = (ssize_t)i;
    }
    return found < 0 ? errmsg_fail(why, EINVAL, "there is no place '%.64s' before it", within)
                     : found;
}

static int place_fields(struct source *s, const char *group, struct resgraph_place *p,
                        idset_t **ranks, strvec_t **pools, errmsg_t *why)
{
    const char *within = config_string(s->file, group, "within");
    const char *nodes = config_string(s->file, group, "nodes");
    const char *text = config_string(s->file, group, "pools");

    p->level = config_string(s->file, group, "level");
    p->name = config_string(s->file, group, "name");
    p->parent = -1;
    if (within && (p->parent = find_within(s->g, within, why)) < 0)
        return -1;
    if (nodes && !(*ranks = resgraph_ranks_of_hosts(s->g, nodes, why)))
        return -1;
    if (!(*pools = strvec_split(text ? text : "", ',')))
        return no_memory(why);
    p->ranks = *ranks;
    p->pools = (const char *const *)strvec_argv(*pools);
    p->npools = strvec_count(*pools);
    return 0;
}

/* The hosts of places, each once. */
struct names {
    hmap_t *seen;
    strbuf_t *list;
};

static int take_name(const char *name, void *arg)
{
    struct names *n = arg;

    if (hmap_get(n->seen, name))
        return 0;
    if (hmap_count(n->seen) >= RESGRAPH_NODES_MAX)
        errno = EINVAL;
    else if (hmap_put(n->seen, name, n) == 0) {
        strbuf_addf(n->list, "%s%s", hmap_count(n->seen) > 1 ? "," : "", name);
        return 0;
    }
    return -1;
}

/* The section `resource` has no nodes: the nodes of the places are mere names, for
 * resgraph_take_named(). */
static int name_nodes(struct source *s, errmsg_t *err)
{
    struct names names = {hmap_create_str(NULL), strbuf_create(0)};
    idset_t *ranks = NULL, *core = idset_create_range(0, 0);
    struct resgraph_node desc = {.cores = core};
    size_t n = config_count(s->file, PLACES);
    int rc = names.seen && names.list && core ? 0 : no_memory(err);
    errmsg_t why;

    for (size_t i = 1; rc == 0 && i <= n; i++) {
        const char *nodes;
        char group[40];

        snprintf(group, sizeof(group), PLACES "[%zu]", i);
        errmsg_set(&why, "more than %u nodes, or out of memory", RESGRAPH_NODES_MAX);
        if ((nodes = config_string(s->file, group, "nodes")) &&
            (rc = hostlist_walk(nodes, take_name, &names, &why)) < 0)
            errmsg_fail(err, errno == ENOMEM ? ENOMEM : EINVAL, "%s: %s: %s", config_name(s->file),
                        group, why.text);
    }
    if (rc == 0 && (n = hmap_count(names.seen)) > 0) {
        const char *list = strbuf_str(names.list);

        if (!list || !(ranks = idset_create_range(0, (uint32_t)n - 1)))
            rc = no_memory(err);
        else if ((rc = resgraph_add(s->g, ranks, list, &desc, &why)) < 0)
            errmsg_fail(err, errno, "%s: " PLACES ": %s", config_name(s->file), why.text);
    }
    resgraph_set_named(s->g, config_count(s->file, PLACES) > 0);
    hmap_destroy(names.seen);
    strbuf_destroy(names.list);
    idset_destroy(ranks);
    idset_destroy(core);
    return rc;
}

static int read_places(struct source *s, errmsg_t *err)
{
    size_t n = config_count(s->file, PLACES);

    if (config_string(s->file, PLACES, "level"))
        return errmsg_fail(err, EINVAL,
                           "%s: " PLACES " is a list of tables: " PLACES " { { level = ... } }",
                           config_name(s->file));
    for (size_t i = 1; i <= n; i++) {
        struct resgraph_place p = {0};
        strvec_t *pools = NULL;
        idset_t *ranks = NULL;
        char group[40];
        errmsg_t why;
        int rc;

        snprintf(group, sizeof(group), PLACES "[%zu]", i);
        rc = place_fields(s, group, &p, &ranks, &pools, &why);
        if (rc == 0)
            rc = resgraph_add_place(s->g, &p, &why);
        if (rc < 0)
            errmsg_fail(err, errno == ENOMEM ? ENOMEM : EINVAL, "%s: %s: %s", config_name(s->file),
                        group, why.text);
        strvec_destroy(pools);
        idset_destroy(ranks);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int read_section(struct source *s, errmsg_t *err)
{
    size_t n = config_count(s->file, SECTION);
    char group[40];

    if (!config_has(s->file, SECTION) && !config_has(s->file, PLACES))
        return errmsg_fail(err, ENODATA, "%s has no section " SECTION, config_name(s->file));
    if (config_string(s->file, SECTION, "nodes")) {
        if (add_group(s, SECTION, err) < 0)
            return -1;
    } else if (config_number(s->file, SECTION, "cores", 0.) != 0. ||
               config_string(s->file, SECTION, "xml")) {
        return errmsg_fail(err, EINVAL,
                           "%s: " SECTION ".nodes is missing: it is the list of these nodes",
                           config_name(s->file));
    }
    for (size_t i = 1; i <= n; i++) {
        snprintf(group, sizeof(group), SECTION "[%zu]", i);
        if (add_group(s, group, err) < 0)
            return -1;
    }
    resgraph_set_emulated(s->g, config_bool(s->file, SECTION, "emulate", false));
    if (resgraph_emulated(s->g) && resgraph_nnodes(s->g) == 0)
        return errmsg_fail(err, EINVAL, "%s: " SECTION ".emulate is set, but there are no nodes",
                           config_name(s->file));
    if (resgraph_nnodes(s->g) == 0 && name_nodes(s, err) < 0)
        return -1;
    return add_pools(s, err) < 0 || read_places(s, err) < 0 ? -1 : 0;
}

resgraph_t *resgraph_from_lua(const char *path, resgraph_xml_f xml, errmsg_t *err)
{
    struct source s = {.file = config_load(path, fields, err), .xml = xml};

    if (!s.file)
        return NULL;
    if (!(s.g = resgraph_create()))
        no_memory(err);
    else if (read_section(&s, err) < 0) {
        resgraph_destroy(s.g);
        s.g = NULL;
    }
    config_destroy(s.file);
    return s.g;
}
