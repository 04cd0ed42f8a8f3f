/* cmd_hwloc.c - flux hwloc: print the hardware of the nodes of the session.
 *
 * `info` and `topology` print the inventory of the service resrc (cmd_res.h): `info` has a line for
 * each kind of node, `topology` one for each vertex of the resource graph.  `xml` asks one broker
 * for the text from which its part of the inventory was made.
 *
 * Failure: exit code 1 and an error message.
 */
#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "cmd_res.h"
#include "libresource/resrc_wire.h"
#include "libutil/size.h"
#include "libutil/strbuf.h"

#define TIMEOUT 90.

static const struct cmd_opt table_opts[] = {
    {'r', "nodes", "NODES", "only these nodes: a set of ranks, or a list of hosts"},
    {'j', "json", NULL, "print a JSON array of objects"},
    CMD_OPT_END,
};

/* Options, then the inventory without the nodes that are not wanted.  0, or an exit code plus 1. */
static int begin(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, struct res *res,
                 bool *json)
{
    const char *val, *nodes = NULL;
    idset_t *ids;
    int key;

    *json = false;
    while ((key = cmd_option(c, u, argc, argv, &val)) > 0) {
        *json |= key == 'j';
        if (key == 'r')
            nodes = val;
    }
    if (key < 0)
        return 1 + cmd_option_exit(key);
    if (argc > c->optind)
        return 1 + cmd_usage_error(c, "no argument is expected");
    if (res_query(c, res, false) < 0)
        return 1 + CMD_FAIL;
    if (!nodes || strcmp(nodes, "all") == 0)
        return 0;
    if (!(ids = res_parse_nodes(c, res, nodes))) {
        res_clear(res);
        return 1 + CMD_FAIL;
    }
    if (idset_subtract(res->all, ids) < 0 || resgraph_remove(res->g, res->all) < 0) {
        idset_destroy(ids);
        res_clear(res);
        return 1 + cmd_error(c, "out of memory");
    }
    idset_destroy(ids);
    return 0;
}

/* --- info: nodes that are alike in one line --- */

static void cell_memory(table_t *t, uint64_t mib)
{
    if (mib && mib < UINT64_MAX >> 20)
        table_size(t, mib << 20);
    else
        table_null(t);
}

static void info_row(table_t *t, const resgraph_t *g, const idset_t *ranks)
{
    ssize_t at = resgraph_find_rank(g, idset_first(ranks));
    char *hosts = resgraph_hosts_of_ranks(g, ranks);
    strbuf_t *sb = strbuf_create(0);
    struct resgraph_node n;
    char *properties;

    if (at >= 0 && resgraph_node(g, (size_t)at, &n)) {
        for (size_t i = 0; i < n.nproperties; i++)
            strbuf_addf(sb, "%s%s", i ? "," : "", n.properties[i]);
        properties = strbuf_take(sb);
        table_row(t);
        res_cell_idset(t, ranks);
        table_u64(t, idset_count(ranks));
        table_u64(t, n.nsockets);
        table_u64(t, idset_count(n.cores));
        res_cell_idset(t, n.cores);
        table_u64(t, idset_count(n.gpus));
        cell_memory(t, n.memory);
        table_str(t, properties && *properties ? properties : NULL);
        table_str(t, hosts);
        free(properties);
    } else {
        strbuf_destroy(sb);
    }
    free(hosts);
}

static int cmd_info(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the sockets, cores, GPUs and memory of each node. Identical nodes share a line.",
        table_opts,
        NULL,
        0,
    };
    const idset_t *ranks;
    struct res res;
    table_t *t;
    bool json;
    int rc;

    if ((rc = begin(c, &usage, argc, argv, &res, &json)))
        return rc - 1;
    t = table_create();
    table_column(t, "ranks", "RANKS", TABLE_LEFT);
    table_column(t, "nnodes", "NNODES", TABLE_RIGHT);
    table_column(t, "sockets", "SOCKETS", TABLE_RIGHT);
    table_column(t, "ncores", "NCORES", TABLE_RIGHT);
    table_column(t, "cores", "CORES", TABLE_LEFT);
    table_column(t, "ngpus", "NGPUS", TABLE_RIGHT);
    table_column(t, "memory", "MEMORY", TABLE_RIGHT);
    table_column(t, "properties", "PROPERTIES", TABLE_LEFT);
    table_column(t, "hosts", "HOSTS", TABLE_LEFT);
    for (size_t k = 0; (ranks = resgraph_kind_ranks(res.g, k)); k++) {
        if (!idset_empty(ranks))
            info_row(t, res.g, ranks);
    }
    res_clear(&res);
    return cmd_print_table(c, t, json);
}

/* --- topology: the graph itself --- */

static int print_vertex(const struct resgraph_vertex *v, void *arg)
{
    char text[32];

    printf("%*s%s", (int)(2 * v->depth), "", v->name);
    switch (v->type) {
    case RESGRAPH_NODE:
        printf(" %u %s", v->rank, v->host);
        break;
    case RESGRAPH_SOCKET:
    case RESGRAPH_CORE:
    case RESGRAPH_GPU:
        printf(" %u", v->id);
        break;
    case RESGRAPH_MEMORY:
        if (v->count < UINT64_MAX >> 20)
            printf(" %s", size_format_short(v->count << 20, text, sizeof(text)));
        break;
    case RESGRAPH_POOL:
        printf(" %" PRIu64 "%s%s", v->count, *v->unit ? " " : "", v->unit);
        break;
    default:
        break;
    }
    putchar('\n');
    return 0;
}

static int add_vertex(const struct resgraph_vertex *v, void *arg)
{
    table_t *t = arg;

    table_row(t);
    table_str(t, v->name);
    table_u64(t, v->depth);
    if (v->rank == IDSET_NONE)
        table_null(t);
    else
        table_u64(t, v->rank);
    if (v->type == RESGRAPH_SOCKET || v->type == RESGRAPH_CORE || v->type == RESGRAPH_GPU)
        table_u64(t, v->id);
    else
        table_null(t);
    table_str(t, v->host);
    table_u64(t, v->count);
    return table_str(t, *v->unit ? v->unit : NULL);
}

static int cmd_topology(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the resource graph, one vertex per line: cluster, nodes, sockets, cores, gpus, "
        "memory\n"
        "and pools, with quantities.",
        table_opts,
        NULL,
        0,
    };
    struct res res;
    table_t *t;
    bool json;
    int rc;

    if ((rc = begin(c, &usage, argc, argv, &res, &json)))
        return rc - 1;
    if (!json) {
        resgraph_walk(res.g, print_vertex, NULL);
        res_clear(&res);
        return CMD_OK;
    }
    t = table_create();
    table_column(t, "type", "TYPE", TABLE_LEFT);
    table_column(t, "depth", "DEPTH", TABLE_RIGHT);
    table_column(t, "rank", "RANK", TABLE_RIGHT);
    table_column(t, "id", "ID", TABLE_RIGHT);
    table_column(t, "host", "HOST", TABLE_LEFT);
    table_column(t, "count", "COUNT", TABLE_RIGHT);
    table_column(t, "unit", "UNIT", TABLE_LEFT);
    rc = resgraph_walk(res.g, add_vertex, t);
    res_clear(&res);
    if (rc < 0) {
        table_destroy(t);
        return cmd_error(c, "out of memory");
    }
    return cmd_print_table(c, t, true);
}

/* --- xml --- */

static const struct cmd_opt xml_opts[] = {
    {'r', "rank", "RANK", "print the machine of this broker (default: the local broker)"},
    CMD_OPT_END,
};

static int cmd_xml(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print everything hwloc knows about a machine as XML, as input for lstopo -i or for a "
        "resource\n"
        "configuration.",
        xml_opts,
        NULL,
        0,
    };
    struct resrc_xml out;
    const char *val;
    uint32_t rank = UINT32_MAX;
    flux_future_t *f;
    flux_t *h;
    int key, rc = CMD_FAIL;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (cmd_parse_u32(c, "--rank", val, &rank) < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (rank == UINT32_MAX)
        rank = flux_rank(h);
    if (rank >= flux_size(h))
        return cmd_error(c, "there is no broker with rank %u", rank);
    f = flux_rpc(h, "resrc.xml", "{}", rank, FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(c, f, TIMEOUT, "hwloc", &resrc_xml_schema, &out) == 0)
        rc = fputs(out.xml, stdout) < 0 ? cmd_error(c, "cannot write") : CMD_OK;
    flux_future_destroy(f);
    return rc;
}

static const struct cmd_sub subs[] = {
    {"info", cmd_info, "[OPTION...]", "print the sockets, cores, GPUs and memory of each node"},
    {"topology", cmd_topology, "[OPTION...]", "print the resource graph, one vertex per line"},
    {"xml", cmd_xml, "[OPTION...]", "print everything hwloc knows about a machine, as XML"},
    CMD_SUB_END,
};

int cmd_hwloc(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(c, "The hardware of the nodes of the session.", subs, argc, argv);
}
