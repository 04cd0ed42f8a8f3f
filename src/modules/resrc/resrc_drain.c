/* resrc_drain.c - the drained nodes, with reason and time, and the requests that change them.
 *
 * Invariants:
 *  1. A rank is in at most one record, and `ranks` is the union of all records.
 *  2. A node whose broker leaves is drained until the broker returns, which is noted in its record.
 *     An operator's drain replaces such a record; such a record never replaces an operator's drain.
 *  3. A change takes effect at once.  It is answered when the store has recorded it, or, without a
 *     store, when it is known that module kvs is not loaded.
 *
 * Failure: a change that cannot be recorded stays in effect, and the answer reports that it is not
 * on record.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/jsonsize.h"
#include "libutil/strutil.h"
#include "resrc_root.h"

#define RECORDS_MAX 65536
#define RECORD_VALUES 12 /* maximum number of values and names of a record */

struct wire {
    json_t *nodes;
};
static const struct flux_field wire_fields[] = {
    FLUX_FIELD_ARRAY(struct wire, nodes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema wire_schema = FLUX_SCHEMA(struct wire, wire_fields);

/* --- the list --- */

static void record_drop(struct drained *d, size_t i)
{
    idset_destroy(d->list[i].ranks);
    free(d->list[i].reason);
    d->n--;
    memmove(&d->list[i], &d->list[i + 1], (d->n - i) * sizeof(*d->list));
}

void resrc_drain_list_clear(struct drained *d)
{
    while (d->n > 0)
        record_drop(d, d->n - 1);
    free(d->list);
    idset_destroy(d->ranks);
    memset(d, 0, sizeof(*d));
}

static int resrc_drain_list_remove(struct drained *d, const idset_t *ranks)
{
    if (d->ranks && idset_subtract(d->ranks, ranks) < 0)
        return -1;
    for (size_t i = d->n; i-- > 0;) {
        if (idset_subtract(d->list[i].ranks, ranks) < 0)
            return -1;
        if (idset_empty(d->list[i].ranks))
            record_drop(d, i);
    }
    return 0;
}

/* 0, or -1 with ENOMEM.  A node that is drained already gets the new reason. */
static int resrc_drain_list_add(struct drained *d, const idset_t *ranks, const char *reason,
                                double time, bool leaves)
{
    struct record rec = {
        .ranks = idset_copy(ranks), .reason = strdup(reason), .time = time, .leaves = leaves};
    struct record *list;

    if (!d->ranks)
        d->ranks = idset_create();
    if (d->n >= RECORDS_MAX)
        errno = ENOMEM;
    else if (rec.ranks && rec.reason && d->ranks && resrc_drain_list_remove(d, ranks) == 0 &&
             (list = realloc(d->list, (d->n + 1) * sizeof(*list)))) {
        d->list = list;
        if (idset_add(d->ranks, ranks) == 0) {
            list[d->n++] = rec;
            return 0;
        }
    }
    idset_destroy(rec.ranks);
    free(rec.reason);
    return -1;
}

char *resrc_drain_list_format(const struct drained *d)
{
    struct wire w = {json_array()};
    char *text = NULL;
    bool ok = w.nodes != NULL;

    for (size_t i = 0; ok && i < d->n; i++) {
        char *ranks = idset_format(d->list[i].ranks, 0);
        struct resrc_record rec = {ranks, d->list[i].reason, d->list[i].time, d->list[i].leaves};

        ok = ranks && json_array_append_new(
                          w.nodes, flux_schema_encode_json(&resrc_record_schema, &rec)) == 0;
        free(ranks);
    }
    if (ok)
        text = flux_schema_encode(&wire_schema, &w);
    json_decref(w.nodes);
    return text;
}

int resrc_drain_list_parse(struct drained *d, const char *json, size_t len, errmsg_t *err)
{
    const size_t values = (size_t)RECORDS_MAX * RECORD_VALUES;
    struct wire w;
    const json_t *val;
    json_t *owner;
    size_t i;
    int rc = 0;

    if (flux_json_count(json, len, values) > values)
        return errmsg_fail(err, EMSGSIZE, "there are more than %d records", RECORDS_MAX);
    if (!(owner = flux_schema_decode(&wire_schema, json, len, &w, err)))
        return -1;
    json_array_foreach(w.nodes, i, val)
    {
        struct resrc_record rec = {0};
        idset_t *ranks = NULL;

        if (flux_schema_decode_json(&resrc_record_schema, val, &rec, err) < 0 ||
            !(ranks = idset_parse(rec.ranks, err)) ||
            resrc_drain_list_add(d, ranks, rec.reason, rec.time, rec.leaves) < 0)
            rc = -1;
        idset_destroy(ranks);
        if (rc < 0)
            break;
    }
    json_decref(owner);
    return rc;
}

/* --- requests --- */

/* The nodes of `ranks` that an operator has drained (or, `leaves`, whose brokers leave or have
 * left).  A new set, NULL with ENOMEM. */
static idset_t *drained_among(const struct drained *d, const idset_t *ranks, bool leaves)
{
    idset_t *all = idset_create();
    int rc = all ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < d->n; i++)
        rc = d->list[i].leaves == leaves ? idset_add(all, d->list[i].ranks) : 0;
    if (rc == 0)
        rc = idset_keep(all, ranks);
    if (rc == 0)
        return all;
    idset_destroy(all);
    return NULL;
}

/* The nodes as text that the caller frees; NULL: there are none.  Takes the set over. */
static char *names_of(idset_t *ranks)
{
    char *text = ranks && !idset_empty(ranks) ? idset_format(ranks, 0) : NULL;

    idset_destroy(ranks);
    return text;
}

/* After a change: answer the request when the change is on record. */
static void answer_later(struct root *r, const flux_msg_t *req, const idset_t *ranks)
{
    struct waiter *w = resrc_root_waiter_add(r, &r->to_commit, req);
    char *text = idset_format(ranks, 0);
    struct resrc_ranks out = {text};

    if (w)
        w->text = text ? flux_schema_encode(&resrc_ranks_schema, &out) : NULL;
    if (!w || !w->text) {
        resrc_root_waiter_free(w);
        flux_respond_error(r->ctx->h, req, ENOMEM,
                           "the change is in effect, but may not be on record: out of memory");
    }
    free(text);
    r->save_drained = true;
    resrc_root_changed(r, false);
}

/* Log a change: its user and the nodes. */
static void tell(struct root *r, const flux_msg_t *req, const char *what, const idset_t *ranks,
                 const char *reason)
{
    char *hosts = resgraph_hosts_of_ranks(root_graph(r), ranks), *text = idset_format(ranks, 0);

    if (hosts && text)
        flux_log(r->ctx->h, LOG_NOTICE, "user %u %s %s (rank%s %s)%s%s", flux_msg_userid(req), what,
                 hosts, idset_count(ranks) == 1 ? "" : "s", text, reason[0] ? ": " : "", reason);
    free(hosts);
    free(text);
}

/* Can the request be handled now, and at this rank?  A request that comes too early waits. */
static bool here(flux_t *h, const flux_msg_t *req, struct ctx *ctx, flux_handler_f cb)
{
    struct root *r = ctx->root;

    if (r && r->settled)
        return true;
    if (r)
        early_put(r->early, req, cb, ctx);
    else
        flux_respond_error(h, req, EINVAL, "nodes are drained at rank 0, not at rank %u",
                           ctx->rank);
    return false;
}

void resrc_drain_add(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct root *r = ctx->root;
    struct resrc_drain in = {.reason = ""};
    idset_t *ranks = NULL;
    char *already = NULL;
    errmsg_t err;
    json_t *owner;

    if (!here(h, req, ctx, resrc_drain_add) ||
        flux_request_decode(h, req, &resrc_drain_schema, &in, &owner) < 0)
        return;
    if (strlen(in.reason) > RESRC_REASON_MAX)
        flux_respond_error(h, req, EINVAL, "a reason has at most %d bytes", RESRC_REASON_MAX);
    else if (!(ranks = resrc_root_nodes_named(r, in.ranks, &err)))
        flux_respond_error(h, req, errno, "%s", err.text);
    else if (!in.force && (already = names_of(drained_among(&r->drained, ranks, false))))
        flux_respond_error(h, req, EEXIST, "%s: drained already; use force to change the reason",
                           already);
    else if (resrc_drain_list_add(&r->drained, ranks, in.reason, flux_wall(h), false) < 0)
        flux_respond_error(h, req, ENOMEM, "no memory to drain a node");
    else {
        tell(r, req, "drained", ranks, in.reason);
        answer_later(r, req, ranks);
    }
    free(already);
    idset_destroy(ranks);
    json_decref(owner);
}

void resrc_drain_remove(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct root *r = ctx->root;
    struct resrc_ranks in;
    idset_t *ranks = NULL;
    char *others = NULL;
    errmsg_t err;
    json_t *owner;

    if (!here(h, req, ctx, resrc_drain_remove) ||
        flux_request_decode(h, req, &resrc_ranks_schema, &in, &owner) < 0)
        return;
    if (!(ranks = resrc_root_nodes_named(r, in.ranks, &err)))
        flux_respond_error(h, req, errno, "%s", err.text);
    else if ((others = names_of(idset_difference(ranks, r->drained.ranks))))
        flux_respond_error(h, req, ENOENT, "%s: not drained", others);
    else if (resrc_drain_list_remove(&r->drained, ranks) < 0)
        flux_respond_error(h, req, ENOMEM, "no memory to undrain a node");
    else {
        tell(r, req, "undrained", ranks, "");
        answer_later(r, req, ranks);
    }
    free(others);
    idset_destroy(ranks);
    json_decref(owner);
}

/* --- brokers that leave, and return --- */

/* The nodes of leaving brokers; `fresh`: those of them that are not drained yet. */
static int leaving_nodes(const struct root *r, const char *text, idset_t **nodes, idset_t **fresh,
                         errmsg_t *err)
{
    idset_t *brokers = idset_parse(text, err);

    *nodes = brokers ? resrc_root_nodes_of(r, brokers) : NULL;
    *fresh = *nodes ? idset_difference(*nodes, r->drained.ranks) : NULL;
    if (brokers && !*fresh)
        errmsg_fail(err, ENOMEM, "no memory to drain a node");
    idset_destroy(brokers);
    return *fresh ? 0 : -1;
}

void resrc_drain_leave(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct root *r = ctx->root;
    struct resrc_leave in = {0};
    idset_t *nodes = NULL, *fresh = NULL;
    errmsg_t err;
    json_t *owner;

    if (!here(h, req, ctx, resrc_drain_leave) ||
        flux_request_decode(h, req, &resrc_leave_schema, &in, &owner) < 0)
        return;
    if (leaving_nodes(r, in.ranks, &nodes, &fresh, &err) < 0)
        flux_respond_error(h, req, errno, "%s", err.text);
    else if (!idset_empty(fresh) &&
             resrc_drain_list_add(&r->drained, fresh, in.reason, flux_wall(h), true) < 0)
        flux_respond_error(h, req, ENOMEM, "no memory to drain a node");
    else {
        if (!idset_empty(fresh))
            tell(r, req, "drained", fresh, in.reason);
        answer_later(r, req, nodes);
    }
    idset_destroy(nodes);
    idset_destroy(fresh);
    json_decref(owner);
}

void resrc_drain_returned(struct root *r, const idset_t *brokers)
{
    idset_t *nodes = r->drained.n > 0 ? resrc_root_nodes_of(r, brokers) : NULL;
    idset_t *back = nodes ? drained_among(&r->drained, nodes, true) : NULL;
    char *text;

    if (back && !idset_empty(back) && resrc_drain_list_remove(&r->drained, back) == 0) {
        if ((text = idset_format(back, 0)))
            flux_log(r->ctx->h, LOG_NOTICE, "rank%s %s returned: not drained any more",
                     idset_count(back) == 1 ? "" : "s", text);
        free(text);
        r->save_drained = true;
        resrc_root_changed(r, false);
    }
    idset_destroy(nodes);
    idset_destroy(back);
}
