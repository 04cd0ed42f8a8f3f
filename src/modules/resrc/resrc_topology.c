/* resrc_topology.c - switches above the nodes, by the setting resource.topology.
 *
 *    value    what
 *    P,L,K    P pods of L leaves of K nodes, in the order of ranks
 *    path     a topology.conf of Slurm; nodes are found by their hosts
 *
 * The file is read by flux-inventory (a module does not wait for a disk), and understood here.
 *
 * Failure: at the start of a session a topology that cannot be used ends it with a sentence; so does a
 * node that is on no switch.  When the inventory changes later, the switches are left out, which is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libresource/resgraph_topology.h"
#include "resrc_root.h"

struct topology {
    char *name; /* as it was set */
    fattree_t *tree;
    flux_future_t *attr_f;
    probe_t *probe;
};

void resrc_topology_destroy(struct root *r)
{
    struct topology *t = r->topology;

    if (!t)
        return;
    flux_future_destroy(t->attr_f);
    resrc_probe_destroy(t->probe);
    fattree_destroy(t->tree);
    free(t->name);
    free(t);
    r->topology = NULL;
}

static void known(struct root *r)
{
    r->topology_known = true;
    resrc_root_changed(r, true);
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
        tree = fattree_parse_conf(text, len, t->name, &err);
    else
        errmsg_set(&err, "resource.topology: %s", error);
    resrc_probe_destroy(t->probe);
    t->probe = NULL;
    take(r, tree, &err);
}

static void attr_cb(flux_future_t *f, void *arg)
{
    struct root *r = arg;
    struct topology *t = r->topology;
    char option[4200];
    const char *value;
    errmsg_t err;

    if (flux_attr_future_get(f, &value, NULL) < 0 || !*value)
        known(r);
    else if (!(t->name = strdup(value)))
        resrc_root_fail(r, "the resrc module is out of memory");
    else if (strspn(value, "0123456789,") == strlen(value)) {
        fattree_t *tree = fattree_parse(value, &err);

        take(r, tree, &err);
    } else if ((size_t)snprintf(option, sizeof(option), "--topology=%s", value) >= sizeof(option))
        resrc_root_fail(r, "the name of the file of resource.topology is too long");
    else if (!(t->probe = resrc_probe_start(r->ctx->h, option, NULL, probe_cb, r, &err)))
        resrc_root_fail(r, err.text);
    flux_future_destroy(f);
    t->attr_f = NULL;
}

int resrc_topology_start(struct root *r)
{
    struct topology *t = calloc(1, sizeof(*t));

    if (!(r->topology = t))
        return -1;
    t->attr_f = flux_attr_get_async(r->ctx->h, "resource.topology");
    return t->attr_f && flux_future_then(t->attr_f, -1., attr_cb, r) == 0 ? 0 : -1;
}

int resrc_topology_apply(struct root *r)
{
    const struct topology *t = r->topology;
    errmsg_t err;

    if (!t->tree || resgraph_set_topology(root_graph(r), t->tree, t->name, &err) == 0)
        return 0;
    if (!r->settled)
        resrc_root_fail(r, err.text);
    else
        flux_log(r->ctx->h, LOG_ERR, "the switches are left out: %s", err.text);
    return -1;
}
