/* resrc_root.c - rank 0: the inventory, the nodes that are up, and the clients that watch them.
 *
 * Purpose: the inventory is collected from the brokers (resrc.join), or read from a configuration
 * file (attribute resrc.config, or the section `resource` of config.file); if that names nodes, the
 * session has only these.  The overlay reports which brokers are up.
 *
 *    state      lasts until (left by)                                        requests
 *    starting   configuration and switches are known, and fit each other     wait
 *               (resrc_root_known)
 *    unsettled  drained nodes and ranks that are up are known, the session   wait
 *               runs, and all these ranks have reported their resources (or
 *               PATIENCE times TICK seconds have passed) (settle)
 *    settled    the end                                                      are answered
 *
 *    up is          if nodes come from            condition
 *    node n         the brokers                   broker n is up and has reported it
 *                   a configuration               broker n is up
 *                   an emulating configuration    broker n % size is up
 *
 * A broker that was lost does not count as up before its processes are confirmed to be gone
 * (resrc_confirm.c).
 *
 * Invariants:
 *  1. All changes of one pass of the reactor cause one response to each watcher, and at most one
 *     commit.
 *  2. A repeated report of a rank changes nothing.
 *  3. The text of the inventory is made once for each change of it, for all watchers and the store.
 *
 * Failure: an unreadable configuration ends the module with an error message, and so the start of
 * the session.  Ranks that have not reported are asked (resrc.find) at each tick, so a report that
 * was dropped for lack of room is delayed by a tick at most; finally they are left out, which is
 * logged.  A broker that comes later is asked at each tick until it has reported, and at once if it
 * reports to be like one that has died and never reported.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/cancel_wire.h"
#include "libflux/overlay_wire.h"
#include "libschema/jsonout.h"
#include "resrc_root.h"

#define TICK 2.
#define PATIENCE 3
#define WATCHERS_MAX 1024
#define EARLY_MAX 1024 /* requests to drain that arrive before the module is settled */

/* --- waiting requests --- */

struct waiter *resrc_root_waiter_add(struct root *r, struct list_node *list, const flux_msg_t *req)
{
    struct waiter *w = calloc(1, sizeof(*w));

    if (w) {
        w->root = r;
        w->req = flux_msg_incref(req);
        list_append(list, &w->node);
    }
    return w;
}

void resrc_root_waiter_free(struct waiter *w)
{
    if (!w)
        return;
    claim_drop(w->root->senders, &w->claim);
    list_remove(&w->node);
    flux_future_destroy(w->f);
    flux_msg_destroy(w->req);
    free(w->text);
    free(w);
}

/* --- nodes that are up --- */

/* Emulated node n belongs to broker n % size. */
static idset_t *emulated_of(const struct root *r, const idset_t *all, const idset_t *brokers)
{
    uint32_t size = r->ctx->size;
    idset_t *ids;

    if (idset_count(brokers) == size)
        return idset_copy(all);
    ids = idset_create();
    for (uint32_t n = idset_first(all); ids && n != IDSET_NONE; n = idset_next(all, n)) {
        if (idset_test(brokers, n % size) && idset_set(ids, n) < 0) {
            idset_destroy(ids);
            ids = NULL;
        }
    }
    return ids;
}

idset_t *resrc_root_nodes_of(const struct root *r, const idset_t *brokers)
{
    const resgraph_t *g = root_graph(r);
    idset_t *all = resgraph_ranks(g), *nodes;

    if (!all)
        return NULL;
    nodes = resgraph_emulated(g) ? emulated_of(r, all, brokers) : idset_intersect(all, brokers);
    idset_destroy(all);
    return nodes;
}

idset_t *resrc_root_nodes_named(const struct root *r, const char *text, errmsg_t *err)
{
    resgraph_t *g = root_graph(r);
    idset_t *ranks = idset_parse(text, NULL), *all, *missing;

    if (!ranks)
        return resgraph_ranks_of_hosts(g, text, err);
    all = resgraph_ranks(g);
    missing = all ? idset_difference(ranks, all) : NULL;
    if (!missing || !idset_empty(missing)) {
        char *names = missing ? idset_format(missing, 0) : NULL;

        errmsg_fail(err, missing ? ENOENT : ENOMEM, "there is no node %s", names ? names : "?");
        free(names);
        idset_destroy(ranks);
        ranks = NULL;
    } else if (idset_empty(ranks)) {
        errmsg_fail(err, EINVAL, "no node is named");
        idset_destroy(ranks);
        ranks = NULL;
    }
    idset_destroy(all);
    idset_destroy(missing);
    return ranks;
}

idset_t *resrc_root_brokers_of(const struct root *r, const idset_t *nodes)
{
    idset_t *brokers;

    if (!resgraph_emulated(root_graph(r)))
        return idset_copy(nodes);
    brokers = idset_create();
    for (uint32_t n = idset_first(nodes); brokers && n != IDSET_NONE; n = idset_next(nodes, n)) {
        if (idset_set(brokers, n % r->ctx->size) < 0) {
            idset_destroy(brokers);
            brokers = NULL;
        }
    }
    return brokers;
}

idset_t *resrc_root_nodes_up(const struct root *r)
{
    idset_t *brokers = idset_difference(r->brokers_up, resrc_confirm_missing(r->confirm));
    idset_t *nodes = brokers ? resrc_root_nodes_of(r, brokers) : NULL;

    idset_destroy(brokers);
    return nodes;
}

idset_t *resrc_root_unconfirmed(const struct root *r)
{
    idset_t *brokers = idset_intersect(r->brokers_up, resrc_confirm_missing(r->confirm));
    idset_t *nodes = brokers ? resrc_root_nodes_of(r, brokers) : NULL;

    idset_destroy(brokers);
    return nodes;
}

/* Brokers that are up and have not reported their resources. */
static idset_t *missing(const struct root *r)
{
    idset_t *said = resgraph_ranks(r->found);
    idset_t *ids = said ? idset_difference(r->brokers_up, said) : NULL;

    idset_destroy(said);
    return ids;
}

/* --- watchers --- */

const char *resrc_root_text(struct root *r)
{
    if (!r->text)
        r->text = resgraph_format(root_graph(r));
    return r->text;
}

static void inventory_changed(struct root *r)
{
    free(r->text);
    r->text = NULL;
    r->inventory_changed = r->save_inventory = true;
}

static char *update_text(struct root *r, bool inventory)
{
    struct resrc_update u = {.version = r->version};
    const char *text = inventory ? resrc_root_text(r) : NULL;
    idset_t *up = resrc_root_nodes_up(r);
    char *up_text = up ? idset_format(up, 0) : NULL;
    char *drained = r->drained.ranks ? idset_format(r->drained.ranks, 0) : strdup("");
    idset_t *unconfirmed = resrc_root_unconfirmed(r);
    char *unconfirmed_text = idset_empty(unconfirmed) ? NULL : idset_format(unconfirmed, 0);
    strbuf_t *sb = strbuf_create(0);

    u.up = up_text;
    u.drained = drained;
    u.unconfirmed = unconfirmed_text;
    jsonout_object(sb, NULL);
    if (text)
        jsonout_text(sb, "inventory", text);
    jsonout_members(sb, &resrc_update_schema, &u);
    jsonout_object_end(sb);
    if (!up_text || !drained || !unconfirmed || (inventory && !text))
        strbuf_fail(sb, ENOMEM);
    idset_destroy(up);
    idset_destroy(unconfirmed);
    free(up_text);
    free(unconfirmed_text);
    free(drained);
    return strbuf_take(sb);
}

static void watcher_free(struct waiter *w)
{
    w->root->nwatchers--;
    resrc_root_waiter_free(w);
}

static void watcher_gone(struct claim *c, bool canceled)
{
    struct waiter *w = list_entry(c, struct waiter, claim);

    flux_respond_error(w->root->ctx->h, w->req, ENODATA, "the request %s",
                       claim_gone_why(canceled));
    watcher_free(w);
}

static void notify_watchers(struct root *r)
{
    char *full = NULL, *part = NULL;

    LIST_FOREACH_SAFE(it, tmp, &r->watchers)
    {
        struct waiter *w = list_entry(it, struct waiter, node);
        bool inventory = !w->begun || r->inventory_changed;
        char **text = inventory ? &full : &part;

        if (w->begun && !r->changed && !r->inventory_changed)
            continue;
        if (!*text)
            *text = update_text(r, inventory);
        if (*text && flux_respond_more(r->ctx->h, w->req, *text) == 0) {
            w->begun = true;
            continue;
        }
        flux_respond_error(r->ctx->h, w->req, ENOMEM, "out of memory for the changes of resources");
        watcher_free(w);
    }
    free(full);
    free(part);
    r->changed = r->inventory_changed = false;
}

void resrc_root_watch(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct root *r = ctx->root;
    struct waiter *w;

    if (!r) {
        flux_respond_error(h, req, EINVAL, "resources are watched at rank 0, not at rank %u",
                           ctx->rank);
    } else if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        flux_respond_error(h, req, EPROTO, "resrc.watch has to be a streaming request");
    } else if (r->nwatchers >= WATCHERS_MAX || !(w = resrc_root_waiter_add(r, &r->watchers, req))) {
        flux_respond_error(h, req, EAGAIN, "too many clients watch the resources");
    } else {
        r->nwatchers++;
        flux_watcher_start(r->defer);
        if (claim_take(r->senders, &w->claim, req, watcher_gone) < 0) {
            flux_respond_error(h, req, errno, "out of memory for the changes of resources");
            watcher_free(w);
        }
    }
}

void resrc_root_disconnect(flux_t *h, const flux_msg_t *req, void *arg)
{
    const struct ctx *ctx = arg;

    if (ctx->root)
        claims_disconnect(ctx->root->senders, req);
}

void resrc_root_cancel(flux_t *h, const flux_msg_t *req, void *arg)
{
    const struct ctx *ctx = arg;
    uint32_t matchtag;

    if (cancel_decode(h, req, &matchtag) < 0)
        return;
    if (ctx->root)
        claims_cancel(ctx->root->senders, req, matchtag);
    flux_respond(h, req, NULL);
}

/* --- changes --- */

static void out_of_memory(struct root *r)
{
    flux_log(r->ctx->h, LOG_ERR, "no memory for the inventory: nodes are left out");
}

/* Nodes whose brokers were lost before this instance was loaded still belong to the session.  They
 * are down, and jobs that need them wait. */
static void recall_lost(struct root *r)
{
    idset_t *known = resgraph_ranks(r->found);
    struct resgraph_node node;
    int rc = known ? 0 : -1;

    for (size_t i = 0; rc == 0 && r->record && resgraph_node(r->record, i, &node); i++) {
        idset_t *rank;

        if (node.rank >= r->ctx->size || idset_test(r->brokers_up, node.rank) ||
            idset_test(known, node.rank))
            continue;
        rank = idset_create_range(node.rank, node.rank);
        rc = rank ? resgraph_add(r->found, rank, node.host, &node, NULL) : -1;
        idset_destroy(rank);
    }
    if (rc < 0)
        out_of_memory(r);
    idset_destroy(known);
}

/* Brokers that are up, and not about to leave, have returned if they were ever away, perhaps while
 * no instance of this module was loaded. */
static void take_returned(struct root *r)
{
    if (idset_add(r->returned, r->brokers_up) < 0 || idset_subtract(r->returned, r->draining) < 0)
        out_of_memory(r);
    else
        resrc_drain_returned(r, r->returned);
}

static void settle(struct root *r)
{
    idset_t *left;
    bool all;

    if (!r->loaded || r->failed || !r->drained_known || !r->record_known || !r->brokers_up ||
        !r->running)
        return;
    if (!r->config) {
        if (!(left = missing(r)))
            return;
        all = idset_empty(left);
        if (!all && r->patience < PATIENCE) {
            idset_destroy(left);
            return;
        }
        if (!all) {
            char *text = idset_format(left, 0);

            flux_log(r->ctx->h, LOG_WARNING, "rank%s %s did not report their resources",
                     idset_count(left) == 1 ? "" : "s", text ? text : "?");
            free(text);
        }
        idset_destroy(left);
        r->divided = getenv("FLUX_JOB_ID") && getenv("FLUX_TASK_CORES");
        if (r->divided && resrc_share_divide(&r->found) < 0)
            out_of_memory(r);
        if (r->late)
            recall_lost(r);
    }
    take_returned(r);
    if (resrc_topology_apply(r) < 0)
        return;
    resgraph_destroy(r->record);
    r->record = NULL;
    r->settled = true;
    r->changed = true;
    inventory_changed(r);
    flux_watcher_stop(r->timer);
    resrc_status_go_on(r);
    early_serve(r->early);
}

static void defer_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    struct root *r = arg;

    if (!r->settled)
        settle(r);
    if (!r->settled)
        return;
    if (r->inventory_changed) {
        resrc_topology_apply(r);
        inventory_changed(r);
    }
    if (r->changed || r->inventory_changed)
        r->version++;
    notify_watchers(r);
    resrc_store_save(r);
}

void resrc_root_changed(struct root *r, bool inventory)
{
    r->changed = true;
    if (inventory)
        inventory_changed(r);
    flux_watcher_start(r->defer);
}

/* --- reports of brokers --- */

static bool same_node(const struct resgraph_node *a, const struct resgraph_node *b)
{
    if (strcmp(a->host, b->host) != 0 || a->memory != b->memory || a->nsockets != b->nsockets ||
        !idset_equal(a->cores, b->cores) || !idset_equal(a->gpus, b->gpus))
        return false;
    for (size_t i = 0; i < a->nsockets; i++) {
        if (!idset_equal(a->sockets[i], b->sockets[i]))
            return false;
    }
    return true;
}

/* Are all nodes of `g` known already? */
static bool nothing_new(const struct root *r, const resgraph_t *g)
{
    struct resgraph_node theirs, ours;

    for (size_t i = 0; resgraph_node(g, i, &theirs); i++) {
        ssize_t at = resgraph_find_rank(r->found, theirs.rank);

        if (at < 0 || !resgraph_node(r->found, (size_t)at, &ours) ||
            !(r->divided || same_node(&ours, &theirs)))
            return false;
    }
    return true;
}

/* Add `ranks` with the resources of node `as`. */
static int copy_node(struct root *r, size_t as, const idset_t *ranks)
{
    idset_t *said = resgraph_ranks(r->found);
    idset_t *fresh = said ? idset_difference(ranks, said) : NULL;
    struct resgraph_node node;
    char host[256];
    int rc = -1;

    if (fresh && resgraph_node(r->found, as, &node)) {
        snprintf(host, sizeof(host), "%s", node.host);
        rc = resgraph_add(r->found, fresh, host, &node, NULL);
        if (!idset_empty(fresh) && !r->config)
            resrc_root_changed(r, true);
    }
    idset_destroy(said);
    idset_destroy(fresh);
    return rc;
}

static void resolve(struct root *r)
{
    for (size_t i = r->likes.n; i-- > 0;) {
        ssize_t at = resgraph_find_rank(r->found, r->likes.list[i].as);

        if (at < 0)
            continue;
        if (copy_node(r, (size_t)at, r->likes.list[i].ranks) < 0)
            out_of_memory(r);
        resrc_likes_drop(&r->likes, i);
    }
}

void resrc_root_found(struct root *r, const resgraph_t *g)
{
    idset_t *ranks;

    if (nothing_new(r, g))
        return;
    ranks = resgraph_ranks(g);
    if (!ranks || resgraph_remove(r->found, ranks) < 0 || resgraph_merge(r->found, g, NULL) < 0)
        out_of_memory(r);
    idset_destroy(ranks);
    resolve(r);
    if (!r->config)
        resrc_root_known(r);
}

/* Ask the ranks that have not reported once more. */
static void ask_missing(struct root *r)
{
    idset_t *ids = r->brokers_up && !r->config ? missing(r) : NULL;
    idset_t *lost = idset_create_range(0, r->ctx->size - 1);
    struct resrc_lost m = {0};
    char *text = NULL;

    if (ids && lost && idset_subtract(lost, r->brokers_up) == 0 && (text = idset_format(lost, 0))) {
        m.lost = text;
        for (uint32_t id = idset_first(ids); id != IDSET_NONE; id = idset_next(ids, id))
            flux_future_destroy(flux_rpc_struct(r->ctx->h, "resrc.find", &resrc_lost_schema, &m, id,
                                                FLUX_MSGF_NORESPONSE));
    }
    free(text);
    idset_destroy(ids);
    idset_destroy(lost);
}

void resrc_root_found_like(struct root *r, uint32_t as, const idset_t *ranks)
{
    if (resrc_likes_add(&r->likes, as, ranks) < 0)
        out_of_memory(r);
    resolve(r);
    /* That one has died before it reported. */
    if (r->brokers_up && !idset_test(r->brokers_up, as) && resgraph_find_rank(r->found, as) < 0)
        ask_missing(r);
}

static bool all_reported(const struct root *r)
{
    idset_t *ids = r->config ? NULL : missing(r);
    bool all = !ids || idset_empty(ids);

    idset_destroy(ids);
    return all;
}

static void timer_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    struct root *r = arg;

    if (!r->running || !r->config_known)
        return;
    if (r->settled) {
        if (all_reported(r))
            flux_watcher_stop(w);
        else
            ask_missing(r);
        return;
    }
    r->patience++;
    if (r->patience < PATIENCE)
        ask_missing(r);
    flux_watcher_start(r->defer);
}

/* --- brokers that are up --- */

/* Brokers that have left, or were never up, have left no processes behind. */
static void left_in_order(struct root *r, const char *text)
{
    idset_t *ranks = text ? idset_parse(text, NULL) : NULL;

    if (ranks)
        resrc_confirm_left(r->confirm, ranks);
    idset_destroy(ranks);
}

static void draining(struct root *r, const char *text)
{
    idset_t *ranks = idset_parse(text ? text : "", NULL);

    if (!ranks)
        return;
    idset_destroy(r->draining);
    r->draining = ranks;
}

static void status_cb(void *arg, const struct overlay_status *st)
{
    struct root *r = arg;
    bool first = !r->brokers_up;
    errmsg_t err;
    idset_t *up;

    if (!st)
        return;
    if (!(up = idset_parse(st->up, &err))) {
        flux_log(r->ctx->h, LOG_ERR, "cannot learn which ranks are up: %s", err.text);
        return;
    }
    if (strcmp(st->state, "run") == 0)
        r->running = true;
    left_in_order(r, st->left);
    left_in_order(r, st->absent);
    draining(r, st->draining);
    if (first || !idset_equal(up, r->brokers_up) || !r->settled) {
        idset_destroy(r->brokers_up);
        r->brokers_up = up;
        if (first && r->running) { /* loaded late: all ranks have reported already */
            r->late = true;
            ask_missing(r);
            session_ask_lost(r->session);
        }
        if (r->settled && !all_reported(r) && !flux_watcher_active(r->timer))
            flux_timer_start(r->timer, TICK, TICK); /* they have just come */
        resrc_root_changed(r, false);
    } else {
        idset_destroy(up);
    }
}

static void lost_cb(void *arg, const idset_t *ranks, bool now)
{
    struct root *r = arg;

    claims_lost(r->senders, ranks);
    resrc_confirm_lost(r->confirm, ranks);
}

static void back_cb(void *arg, const idset_t *ranks)
{
    struct root *r = arg;

    if (r->settled)
        resrc_drain_returned(r, ranks);
    else if (idset_add(r->returned, ranks) < 0)
        out_of_memory(r);
    resrc_confirm_back(r->confirm, ranks);
}

static const struct session_ops session_ops = {
    .lost = lost_cb, .back = back_cb, .status = status_cb};

/* --- configuration --- */

void resrc_root_known(struct root *r)
{
    resrc_root_changed(r, true);
    if (r->loaded || r->failed || !r->config_known || !r->topology_known || !resrc_topology_fits(r))
        return;
    r->loaded = true;
    flux_module_started(r->ctx->h);
}

static void config_is_known(struct root *r)
{
    r->config_known = true;
    resrc_root_known(r);
}

void resrc_root_fail(struct root *r, const char *error)
{
    r->failed = true;
    flux_module_fail(r->ctx->h, EINVAL, "%s", error);
    flux_reactor_stop(flux_get_reactor(r->ctx->h), -1);
}

static bool is_own(const struct root *r)
{
    return r->own_config && *r->own_config;
}

static void config_cb(probe_t *p, const char *text, size_t len, const char *error, void *arg)
{
    struct root *r = arg;
    bool own = is_own(r), none = text && strcmp(text, "null") == 0;
    char why[300];
    errmsg_t err;
    resgraph_t *g = NULL;

    snprintf(why, sizeof(why), "%s", error);
    if (none)
        snprintf(why, sizeof(why), "the file resrc.config names has no section `resource`");
    else if (text && !(g = resgraph_parse(text, len, &err)))
        snprintf(why, sizeof(why), "%s", err.text);
    resrc_probe_destroy(r->probe);
    r->probe = NULL;
    if (none && !own) {
        config_is_known(r);
    } else if (!g) {
        resrc_root_fail(r, why);
    } else if (resgraph_named(g)) {
        struct resgraph_pool pool;

        for (size_t i = 0; resgraph_pool(g, i, &pool); i++) {
            if (resgraph_add_pool(r->found, pool.name, pool.count, pool.unit, NULL) < 0)
                out_of_memory(r);
        }
        r->named = g;
        config_is_known(r);
    } else if (resgraph_nnodes(g) > 0) {
        r->config = g;
        config_is_known(r);
    } else { /* pools only */
        if (resgraph_merge(r->found, g, NULL) < 0)
            out_of_memory(r);
        resgraph_destroy(g);
        config_is_known(r);
    }
}

/* The module's own configuration comes before that of the session. */
static void config_start(struct root *r)
{
    const char *path = is_own(r) ? r->own_config : r->config_file;
    char option[4200];
    errmsg_t err;

    if (!path || !*path)
        config_is_known(r);
    else if ((size_t)snprintf(option, sizeof(option), "--config=%s", path) >= sizeof(option))
        resrc_root_fail(r, "the name of the configuration file is too long");
    else if (!(r->probe = resrc_probe_start(r->ctx->h, option, NULL, config_cb, r, &err)))
        resrc_root_fail(r, err.text);
}

static void ready(void *arg)
{
    struct root *r = arg;

    if (r->failed)
        return;
    resrc_topology_start(r);
    config_start(r);
}

static void refused(void *arg, const char *sentence)
{
    resrc_root_fail(arg, sentence);
}

static const struct setup_row rows[] = {
    SETUP_TEXT("resrc.config", struct root, own_config),
    SETUP_TEXT("config.file", struct root, config_file),
    SETUP_TEXT("resource.topology", struct root, topology_text),
    SETUP_END,
};
static const struct setup_table settings = {"resrc", rows, ready, refused};

/* --- life --- */

void resrc_root_stats(struct root *r, struct resrc_stats *st)
{
    idset_t *up = r->brokers_up ? resrc_root_nodes_up(r) : NULL;

    st->nodes = resgraph_nnodes(root_graph(r));
    st->cores = resgraph_ncores(root_graph(r));
    st->up = idset_count(up);
    st->drained = idset_count(r->drained.ranks);
    st->watchers = r->nwatchers;
    st->commits = r->commits;
    st->version = r->version;
    idset_destroy(up);
}

struct root *resrc_root_create(struct ctx *ctx, errmsg_t *err)
{
    struct root *r = calloc(1, sizeof(*r));
    flux_reactor_t *reactor = flux_get_reactor(ctx->h);

    if (!r)
        return NULL;
    r->ctx = ctx;
    list_init(&r->watchers);
    list_init(&r->askers);
    list_init(&r->to_commit);
    list_init(&r->committing);
    if (!(r->draining = idset_create()) || !(r->returned = idset_create()) ||
        !(r->found = resgraph_create()) || !(r->defer = flux_defer_create(reactor, defer_cb, r)) ||
        !(r->timer = flux_timer_create(reactor, timer_cb, r)) || !(r->senders = claims_create()) ||
        !(r->early = early_create(ctx->h, NULL, EARLY_MAX)) ||
        !(r->confirm = resrc_confirm_create(r)) ||
        !(r->session = session_create(ctx->h, &session_ops, r)) ||
        !(r->setup = setup_create(ctx->h, &settings, r, 0, NULL, err))) {
        resrc_root_destroy(r);
        errmsg_fail(err, ENOMEM, "the resrc module is out of memory");
        return NULL;
    }
    flux_module_starting(ctx->h);
    flux_timer_start(r->timer, TICK, TICK);
    resrc_store_load(r);
    return r;
}

/* These requests get no answer here: after a reload the next instance receives them; otherwise the
 * host answers. */
static void forget(struct list_node *list)
{
    struct list_node *n;

    while ((n = list_first(list)))
        resrc_root_waiter_free(list_entry(n, struct waiter, node));
}

void resrc_root_destroy(struct root *r)
{
    if (!r)
        return;
    forget(&r->watchers);
    forget(&r->askers);
    resrc_store_stop(r);
    setup_destroy(r->setup);
    session_destroy(r->session);
    resrc_confirm_destroy(r->confirm);
    early_destroy(r->early);
    claims_destroy(r->senders);
    resrc_probe_destroy(r->probe);
    resrc_topology_destroy(r);
    flux_watcher_destroy(r->timer);
    flux_watcher_destroy(r->defer);
    resrc_likes_clear(&r->likes);
    resrc_drain_list_clear(&r->drained);
    resgraph_destroy(r->found);
    resgraph_destroy(r->config);
    resgraph_destroy(r->named);
    idset_destroy(r->brokers_up);
    idset_destroy(r->draining);
    idset_destroy(r->returned);
    free(r->text);
    free(r->own_config);
    free(r->config_file);
    free(r->topology_text);
    free(r);
}
