/* jm_resources.c - the inventory, so that a job that can never run is refused at its submission.
 *
 * The inventory comes from resrc.watch.  Each jobspec in memory is checked against each inventory
 * once (resgraph_satisfiable()): of a thousand equal jobs, only the first causes a check.  The
 * states up, down and drained do not matter here: nodes come back.
 *
 * If several brokers run on one host (mostly a session for a test), each of them has all its
 * cores:  core 0 of all these nodes is the same, and tasks bound to it would compete there.  Such
 * nodes are found in each inventory, and tasks on them are not bound unless each node has its own
 * share.
 *
 * Invariant: spec->checked is the number of the inventory that was found to satisfy the spec.
 *
 * Failure: submissions wait for the first inventory.  In a session without resrc, no job is refused
 * for lack of resources; the request is repeated every AGAIN seconds.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/resrc_wire.h"
#include "libservice/follow.h"
#include "libutil/hmap.h"

#define AGAIN 0.25

struct jm_resources {
    follow_t *watch;       /* resrc.watch */
    resgraph_t *inventory; /* NULL: none has arrived yet */
    uint64_t version;
    idset_t *shared; /* ranks of nodes that share cores with others; NULL: none */
    bool absent;     /* the session has no resrc module */
};

/* Nodes of one host. */
struct host {
    idset_t *ranks;
    idset_t *cores;
    bool shared; /* two of them have the same core */
};

static void host_free(void *arg)
{
    struct host *host = arg;

    if (host) {
        idset_destroy(host->ranks);
        idset_destroy(host->cores);
        free(host);
    }
}

static struct host *host_of(hmap_t *hosts, const char *name)
{
    struct host *host = hmap_get(hosts, name);

    if (host)
        return host;
    if (!(host = calloc(1, sizeof(*host))) || !(host->ranks = idset_create()) ||
        !(host->cores = idset_create()) || hmap_put(hosts, name, host) < 0) {
        host_free(host);
        return NULL;
    }
    return host;
}

/* Ranks of nodes that have cores of others; NULL: none, or memory is short. */
static idset_t *shared_ranks(const resgraph_t *g)
{
    hmap_t *hosts = hmap_create_str(host_free);
    idset_t *ranks = idset_create();
    struct resgraph_node node;
    struct host *host;
    int rc = hosts && ranks ? 0 : -1;

    for (size_t i = 0; rc == 0 && resgraph_node(g, i, &node); i++) {
        if (!(host = host_of(hosts, node.host))) {
            rc = -1;
            break;
        }
        host->shared = host->shared || idset_intersects(host->cores, node.cores);
        rc = idset_set(host->ranks, node.rank);
        if (rc == 0)
            rc = idset_add(host->cores, node.cores);
        if (rc == 0 && host->shared)
            rc = idset_add(ranks, host->ranks);
    }
    hmap_destroy(hosts);
    if (rc < 0 || idset_empty(ranks)) {
        idset_destroy(ranks);
        ranks = NULL;
    }
    return ranks;
}

static int take_cb(void *arg, flux_future_t *f, errmsg_t *err)
{
    struct jm *jm = arg;
    struct jm_resources *p = jm->resources;
    struct resrc_update u = {0};
    resgraph_t *g;

    if (flux_rpc_get_struct(f, &resrc_update_schema, &u, err) < 0)
        return -1;
    if (!u.inventory)
        return 0;
    if ((g = resgraph_from_json(u.inventory, err))) {
        resgraph_destroy(p->inventory);
        p->inventory = g;
        p->version++;
        idset_destroy(p->shared);
        p->shared = resgraph_emulated(g) ? NULL : shared_ranks(g);
    } else {
        flux_log(jm->h, LOG_ERR, "the inventory cannot be read: %s", err->text);
    }
    jm_module_kick(jm);
    return 0;
}

static void ended_cb(void *arg, int errnum, const char *why, unsigned tries)
{
    struct jm *jm = arg;

    /* When a session starts, resrc is loaded a little later than this module. */
    if (errnum != ENOSYS)
        flux_log(jm->h, LOG_WARNING, "changes of the inventory are not reported any more: %s", why);
    else if (tries >= JM_RESRC_TRIES)
        jm->resources->absent = true;
    jm_module_kick(jm);
}

void jm_resources_start(struct jm *jm)
{
    follow_open(jm->resources->watch);
}

bool jm_resources_known(const struct jm *jm)
{
    return jm->resources->inventory || jm->resources->absent;
}

int jm_resources_satisfiable(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    if (!jm->resources->inventory || spec->checked == jm->resources->version)
        return 0;
    if ((spec->min_slots ? jm_spec_fit(jm, spec, err)
                         : resgraph_satisfiable(jm->resources->inventory, &spec->req, err)) < 0)
        return -1;
    spec->checked = jm->resources->version;
    return 0;
}

int jm_resources_create(struct jm *jm)
{
    static const struct follow_ops ops = {"resrc.watch", AGAIN, AGAIN, NULL, take_cb, ended_cb};
    struct jm_resources *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->resources = p;
    return (p->watch = follow_create(jm->h, &ops, jm)) ? 0 : -1;
}

void jm_resources_destroy(struct jm *jm)
{
    struct jm_resources *p = jm->resources;

    if (!p)
        return;
    follow_destroy(p->watch);
    resgraph_destroy(p->inventory);
    idset_destroy(p->shared);
    free(p);
    jm->resources = NULL;
}

resgraph_t *jm_resources_inventory(const struct jm *jm)
{
    return jm->resources->inventory;
}

const idset_t *jm_resources_shared(const struct jm *jm)
{
    return jm->resources->shared;
}
