/* resrc_status.c - resrc.status: the nodes by state (up, down, unconfirmed, drained, draining).
 *
 * A drained node on which a job still runs is "draining".  Only the scheduler knows that, so it is
 * asked (sched.resources) if any node is drained.  Without its response, no node counts as
 * draining.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libsched/sched_wire.h"
#include "resrc_root.h"

#define ASKERS_MAX 1024

/* Add an entry for `ranks`, if there are any.  -1 with ENOMEM. */
static int add_entry(const struct root *r, json_t *list, const idset_t *ranks, const char *state,
                     const struct record *rec, const idset_t *up)
{
    struct resrc_status_entry e = {.state = state};
    char *text = NULL, *hosts = NULL, *down = NULL;
    idset_t *lost = NULL;
    int rc = -1;

    if (idset_empty(ranks))
        return 0;
    if (rec && !(lost = idset_difference(ranks, up)))
        return -1;
    if (!(text = idset_format(ranks, 0)) ||
        !(hosts = resgraph_hosts_of_ranks(root_graph(r), ranks)) ||
        (lost && !idset_empty(lost) && !(down = idset_format(lost, 0))))
        goto out;
    e.ranks = text;
    e.hosts = hosts;
    e.reason = rec ? rec->reason : NULL;
    e.time = rec ? rec->time : 0.;
    e.down = down;
    rc = json_array_append_new(list, flux_schema_encode_json(&resrc_status_entry_schema, &e));
out:
    free(text);
    free(hosts);
    free(down);
    idset_destroy(lost);
    return rc;
}

static int add_drained(const struct root *r, json_t *list, const idset_t *all, const idset_t *up,
                       const idset_t *busy)
{
    for (size_t i = 0; i < r->drained.n; i++) {
        const struct record *rec = &r->drained.list[i];
        idset_t *there = idset_intersect(rec->ranks, all);
        idset_t *still = there ? idset_intersect(there, busy) : NULL;
        int rc = still ? idset_subtract(there, still) : -1;

        if (rc == 0)
            rc = add_entry(r, list, there, "drained", rec, up);
        if (rc == 0)
            rc = add_entry(r, list, still, "draining", rec, up);
        idset_destroy(there);
        idset_destroy(still);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int add_unconfirmed(const struct root *r, json_t *list, const idset_t *ranks)
{
    const struct record rec = {.reason = (char *)"was lost, and tasks of that time may still run"};

    return add_entry(r, list, ranks, "unconfirmed", &rec, ranks);
}

static json_t *entries(const struct root *r, const idset_t *busy)
{
    json_t *list = json_array();
    idset_t *all = resgraph_ranks(root_graph(r)), *up = resrc_root_nodes_up(r), *free = NULL,
            *down = NULL, *unsure = resrc_root_unconfirmed(r);
    bool ok = list && all && up && unsure && (free = idset_difference(up, r->drained.ranks)) &&
              (down = idset_difference(all, up)) && idset_subtract(down, unsure) == 0 &&
              idset_subtract(down, r->drained.ranks) == 0 &&
              idset_subtract(unsure, r->drained.ranks) == 0 &&
              add_entry(r, list, free, "up", NULL, up) == 0 &&
              add_entry(r, list, down, "down", NULL, up) == 0 &&
              add_unconfirmed(r, list, unsure) == 0 && add_drained(r, list, all, up, busy) == 0;

    idset_destroy(all);
    idset_destroy(up);
    idset_destroy(free);
    idset_destroy(down);
    idset_destroy(unsure);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static void respond(const struct root *r, const flux_msg_t *req, const idset_t *busy)
{
    struct resrc_status st = {entries(r, busy)};

    if (st.nodes)
        flux_respond_struct(r->ctx->h, req, &resrc_status_schema, &st);
    else
        flux_respond_error(r->ctx->h, req, ENOMEM, "no memory to list nodes");
    json_decref(st.nodes);
}

static void sched_cb(flux_future_t *f, void *arg)
{
    struct waiter *w = arg;
    struct sched_resources a = {0};
    rset_t *rs = NULL;
    idset_t *busy = NULL;

    if (flux_rpc_get_struct(f, &sched_resources_schema, &a, NULL) == 0 &&
        (rs = rset_from_json(a.allocated, NULL)))
        busy = rset_ranks(rs);
    respond(w->root, w->req, busy);
    idset_destroy(busy);
    rset_destroy(rs);
    w->root->naskers--;
    resrc_root_waiter_free(w);
}

void resrc_status_request(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct root *r = ctx->root;
    struct waiter *w;

    if (!r) {
        flux_respond_error(h, req, EINVAL, "resources are known at rank 0, not at rank %u",
                           ctx->rank);
    } else if (!r->settled || !idset_empty(r->drained.ranks)) {
        if (r->naskers >= ASKERS_MAX || !(w = resrc_root_waiter_add(r, &r->askers, req))) {
            flux_respond_error(h, req, EAGAIN, "too many ask for the state of nodes");
            return;
        }
        r->naskers++;
        resrc_status_go_on(r);
    } else {
        respond(r, req, NULL);
    }
}

void resrc_status_go_on(struct root *r)
{
    if (!r->settled)
        return;
    LIST_FOREACH_SAFE(it, tmp, &r->askers)
    {
        struct waiter *w = list_entry(it, struct waiter, node);

        if (w->f)
            continue;
        w->f = flux_rpc(r->ctx->h, "sched.resources", NULL, FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
        if (!w->f || flux_future_then(w->f, -1., sched_cb, w) < 0) {
            respond(r, w->req, NULL);
            r->naskers--;
            resrc_root_waiter_free(w);
        }
    }
}
