/* resrc_topology.c - the switches above the nodes, from the setting resource.topology.
 *
 *    value    meaning
 *    P,L,K    P pods of L leaves of K nodes, in the order of ranks
 *    path     a topology.conf of Slurm; hosts identify the nodes
 *
 * flux-inventory reads the file, because a module does not wait for a disk; this module parses it.
 *
 * The setting is checked before the session counts as started, so a mistake ends the start with an
 * error message:
 *
 *    source of the nodes    P,L,K must have                topology.conf must have
 *    a configuration        as many nodes                  all of them
 *    the brokers            as many nodes as brokers       the host of rank 0
 *
 * The hosts of other brokers are known only when they have joined.  Hosts of the file that are not
 * in the session are ignored, which is logged.
 *
 * Places of a configuration that names no nodes (racks, say) are put above the nodes that are
 * found, before the switches.
 *
 * Failure: a host that turns out to be on no switch ends the module with an error message.  After a
 * later change of the inventory, the switches are left out instead, which is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/resgraph_topology.h"
#include "resrc_root.h"

struct topology {
    fattree_t *tree;
    probe_t *probe;
};

void resrc_topology_destroy(struct root *r)
{
    struct topology *t = r->topology;

    if (!t)
        return;
    resrc_probe_destroy(t->probe);
    fattree_destroy(t->tree);
    free(t);
    r->topology = NULL;
}

static void known(struct root *r)
{
    r->topology_known = true;
    resrc_root_known(r);
}

static void take(struct root *r, fattree_t *tree, const errmsg_t *err)
{
    r->topology->tree = tree;
    if (tree)
        known(r);
    else
        resrc_root_fail(r, err->text);
}

static void probe_cb(probe_t *p, const char *text, size_t len, const char *error, void *arg)
{
    struct root *r = arg;
    struct topology *t = r->topology;
    fattree_t *tree = NULL;
    errmsg_t err;

    if (text)
        tree = fattree_parse_conf(text, len, r->topology_text, &err);
    else
        errmsg_set(&err, "resource.topology: %s", error);
    resrc_probe_destroy(t->probe);
    t->probe = NULL;
    take(r, tree, &err);
}

void resrc_topology_start(struct root *r)
{
    struct topology *t = calloc(1, sizeof(*t));
    const char *value = r->topology_text;
    char option[4200];
    errmsg_t err;

    if (!(r->topology = t))
        resrc_root_fail(r, "the resrc module is out of memory");
    else if (!value || !*value)
        known(r);
    else if (strspn(value, "0123456789,") == strlen(value)) {
        fattree_t *tree = fattree_parse(value, &err);

        take(r, tree, &err);
    } else if ((size_t)snprintf(option, sizeof(option), "--topology=%s", value) >= sizeof(option))
        resrc_root_fail(r, "the name of the file of resource.topology is too long");
    else if (!(t->probe = resrc_probe_start(r->ctx->h, option, NULL, probe_cb, r, &err)))
        resrc_root_fail(r, err.text);
}

static bool is_named(const struct topology *t)
{
    return fattree_node_name(t->tree, 0) != NULL;
}

static bool wrong_size(struct root *r, const char *what, size_t n)
{
    const struct topology *t = r->topology;
    char text[200];

    if (is_named(t) || fattree_nnodes(t->tree) == n)
        return false;
    snprintf(text, sizeof(text), "resource.topology=%.64s: this tree has %u nodes, but %s %zu",
             r->topology_text, fattree_nnodes(t->tree), what, n);
    resrc_root_fail(r, text);
    return true;
}

bool resrc_topology_fits(struct root *r)
{
    const struct topology *t = r->topology;
    errmsg_t err;

    if (!t->tree)
        return true;
    if (r->config ? wrong_size(r, "the configuration has", resgraph_nnodes(r->config))
                  : wrong_size(r, "the number of brokers is", r->ctx->size))
        return false;
    if (is_named(t) && !r->config && resgraph_find_rank(r->found, 0) < 0)
        return false;
    if (resgraph_set_topology(root_graph(r), t->tree, r->topology_text, &err) == 0)
        return true;
    resrc_root_fail(r, err.text);
    return false;
}

/* Log how many hosts of the file are not in the session. */
static void tell_foreign(struct root *r)
{
    const struct topology *t = r->topology;
    const resgraph_t *g = root_graph(r);
    size_t n = fattree_nnodes(t->tree), here = 0;
    bool *seen = calloc(n, sizeof(*seen));
    struct resgraph_node node;

    for (size_t i = 0; seen && resgraph_node(g, i, &node); i++) {
        uint32_t at = fattree_find(t->tree, node.host);

        if (at < n && !seen[at]) {
            seen[at] = true;
            here++;
        }
    }
    if (seen && here < n)
        flux_log(r->ctx->h, LOG_NOTICE, "%s: %zu of its %zu nodes are not in this session",
                 r->topology_text, n - here, n);
    free(seen);
}

int resrc_topology_apply(struct root *r)
{
    const struct topology *t = r->topology;
    errmsg_t err;

    if (r->named && resgraph_take_named(r->found, r->named, &err) < 0)
        flux_log(r->ctx->h, LOG_ERR, "places above the nodes are left out: %s", err.text);
    if (t->tree && is_named(t) && !r->settled)
        tell_foreign(r);
    if (!t->tree || resgraph_set_topology(root_graph(r), t->tree, r->topology_text, &err) == 0)
        return 0;
    if (!r->settled)
        resrc_root_fail(r, err.text);
    else
        flux_log(r->ctx->h, LOG_ERR, "the switches are left out: %s", err.text);
    return -1;
}
