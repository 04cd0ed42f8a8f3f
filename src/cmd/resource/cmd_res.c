/* cmd_res.c - query the resources of the session. */
#include "config.h"
#include "cmd_res.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/resrc_wire.h"
#include "libsched/sched_wire.h"

#define TIMEOUT 60.

static int take(struct cmd *c, struct res *res, const struct resrc_update *u)
{
    errmsg_t err = {"the response has no inventory"};

    if (!u->inventory || !(res->g = resgraph_from_json(u->inventory, &err)) ||
        !(res->up = idset_parse(u->up, &err)) || !(res->drained = idset_parse(u->drained, &err)) ||
        !(res->unconfirmed = idset_parse(u->unconfirmed ? u->unconfirmed : "", &err)) ||
        !(res->all = resgraph_ranks(res->g))) {
        cmd_error(c, "the response of the service resrc is invalid: %s", err.text);
        return -1;
    }
    res->version = u->version;
    return 0;
}

/* Without a scheduler, nothing is allocated. */
static int query_use(struct cmd *c, flux_t *h, struct res *res)
{
    flux_future_t *f = flux_rpc(h, "sched.resources", "{}", FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
    struct sched_resources a = {0};
    errmsg_t err = {""};

    if (f && flux_future_wait(f, TIMEOUT) == 0 && flux_future_errnum(f) == ENOSYS)
        res->allocated = rset_create();
    else if (cmd_wait_struct(c, f, TIMEOUT, "the scheduler", &sched_resources_schema, &a) == 0 &&
             !(res->allocated = rset_from_json(a.allocated, &err)))
        cmd_error(c, "the response of the scheduler is invalid: %s", err.text);
    flux_future_destroy(f);
    return res->allocated ? 0 : -1;
}

int res_query(struct cmd *c, struct res *res, bool use)
{
    struct resrc_update u = {0};
    flux_future_t *f;
    flux_t *h;
    int rc;

    memset(res, 0, sizeof(*res));
    if (!(h = cmd_handle(c)))
        return -1;
    f = flux_rpc(h, "resrc.watch", "{}", FLUX_NODEID_ROOT,
                 FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    rc = cmd_wait_struct(c, f, TIMEOUT, "the inventory", &resrc_update_schema, &u);
    if (rc == 0)
        rc = take(c, res, &u);
    flux_future_destroy(f);
    if (rc == 0 && use)
        rc = query_use(c, h, res);
    if (rc < 0)
        res_clear(res);
    return rc;
}

void res_clear(struct res *res)
{
    resgraph_destroy(res->g);
    idset_destroy(res->all);
    idset_destroy(res->up);
    idset_destroy(res->drained);
    idset_destroy(res->unconfirmed);
    rset_destroy(res->allocated);
    memset(res, 0, sizeof(*res));
}

idset_t *res_parse_nodes(struct cmd *c, const struct res *res, const char *text)
{
    idset_t *ids = idset_parse(text, NULL);
    errmsg_t err;

    if (ids && idset_subset(ids, res->all))
        return ids;
    if (ids)
        cmd_error(c, "%s: some of these nodes do not exist; see 'flux resource status'", text);
    else if ((ids = resgraph_ranks_of_hosts(res->g, text, &err)))
        return ids;
    else
        cmd_error(c, "%s", err.text);
    idset_destroy(ids);
    return NULL;
}

const char *res_host(const struct res *res, uint32_t rank)
{
    struct resgraph_node node;

    ssize_t i = resgraph_find_rank(res->g, rank);

    return i >= 0 && resgraph_node(res->g, (size_t)i, &node) ? node.host : NULL;
}

void res_cell_idset(table_t *t, const idset_t *ids)
{
    char *text = idset_empty(ids) ? NULL : idset_format(ids, 0);

    table_str(t, text);
    free(text);
}
