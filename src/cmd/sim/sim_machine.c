/* sim_machine.c - the machine of a replay: a number of nodes, or a tree of switches.
 *
 * Exactly one of --nodes, --tree and --topology sets it; a second one is a usage error.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

int sim_machine_create(struct sim_machine *m, uint32_t pods, uint32_t leaves, uint32_t nodes,
                       errmsg_t *err)
{
    fattree_t *tree = fattree_create(pods, leaves, nodes, err);

    if (!tree)
        return -1;
    *m = (struct sim_machine){tree, fattree_nnodes(tree), pods, leaves, nodes};
    return 0;
}

void sim_machine_clear(struct sim_machine *m)
{
    fattree_destroy(m->tree);
    *m = (struct sim_machine){0};
}

/* Derive the sizes of a regular tree, whose leaves all have K nodes and whose pods L leaves. */
static void regular(struct sim_machine *m)
{
    m->pods = fattree_npods(m->tree);
    m->leaves = fattree_nleaves(m->tree) / m->pods;
    m->k = fattree_leaf_max(m->tree);
}

int sim_machine_option(struct cmd *c, struct sim_machine *m, int key, const char *val, int *code)
{
    errmsg_t err;

    *code = CMD_USAGE;
    if (m->nodes > 0) {
        cmd_usage_error(c, "expected one of --nodes, --tree and --topology, once");
        return -1;
    }
    if (key == SIM_OPT_NODES) {
        if (cmd_parse_u32(c, "--nodes", val, &m->nodes) < 0)
            return -1;
        if (m->nodes == 0 || m->nodes > FATTREE_NODES_MAX) {
            cmd_usage_error(c, "--nodes is between 1 and %u", FATTREE_NODES_MAX);
            return -1;
        }
        return 0;
    }
    m->tree = key == SIM_OPT_TREE ? fattree_parse(val, &err) : fattree_read_conf(val, &err);
    if (!m->tree) {
        if (key == SIM_OPT_TREE)
            cmd_usage_error(c, "--tree: %s", err.text);
        else
            *code = cmd_error(c, "%s", err.text);
        return -1;
    }
    m->nodes = fattree_nnodes(m->tree);
    if (key == SIM_OPT_TREE)
        regular(m);
    return 0;
}

void sim_machine_describe(const struct sim_machine *m, char *buf, size_t size)
{
    if (m->pods > 0)
        snprintf(buf, size, "%u,%u,%u (%u nodes)", m->pods, m->leaves, m->k, m->nodes);
    else if (m->tree)
        snprintf(buf, size, "%u nodes on %u leaf switches in %u pods", m->nodes,
                 fattree_nleaves(m->tree), fattree_npods(m->tree));
    else
        snprintf(buf, size, "%u nodes", m->nodes);
}
