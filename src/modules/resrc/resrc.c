/* resrc.c - the module that manages the resources of a session, and which of them are usable.
 *
 * Purpose: one instance runs at every rank.  Each reports once the resources of its broker
 * (resrc_find.c).  Instances merge the reports of their children and pass them on, so the root gets
 * few messages:
 *
 *    resrc.join  {"inventory"?,"like"?}  upstream, answered {}   (libresource/resrc_wire.h)
 *
 * The root (resrc_root.c) keeps the inventory, commits it, and answers all other requests.  The
 * exception is resrc.xml, which the rank of the machine answers.
 *
 * Invariants:
 *  1. At most one join is unanswered; reports that arrive meanwhile go into the next one.
 *  2. Below the root, a report is not kept after it has been passed on.
 *  3. Equal nodes are one entry in messages and in memory (resgraph.h).  Ranks that share a host
 *     are reported as "like" another rank.
 *
 * Failure: a failed join is sent again after a second; if the parent refuses it (EPROTO, EPERM), it
 * is logged and dropped.  A malformed message is answered with EPROTO and changes nothing.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "resrc.h"

#define AGAIN_AFTER 1.
#define ANYBODY (FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER)

/* --- likes --- */

int resrc_likes_add(struct likes *l, uint32_t as, const idset_t *ranks)
{
    struct like *list;
    idset_t *copy;

    for (size_t i = 0; i < l->n; i++) {
        if (l->list[i].as == as)
            return idset_add(l->list[i].ranks, ranks);
    }
    if (!(copy = idset_copy(ranks)))
        return -1;
    if (!(list = realloc(l->list, (l->n + 1) * sizeof(*list)))) {
        idset_destroy(copy);
        return -1;
    }
    l->list = list;
    list[l->n++] = (struct like){.as = as, .ranks = copy};
    return 0;
}

void resrc_likes_drop(struct likes *l, size_t i)
{
    idset_destroy(l->list[i].ranks);
    l->list[i] = l->list[--l->n];
}

void resrc_likes_clear(struct likes *l)
{
    while (l->n > 0)
        resrc_likes_drop(l, l->n - 1);
    free(l->list);
    l->list = NULL;
}

static json_t *likes_to_json(const struct likes *l)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < l->n; i++) {
        json_t *pair = json_array();
        char *text = idset_format(l->list[i].ranks, 0);

        if (!text || json_array_append_new(list, pair) < 0 ||
            json_array_append_new(pair, json_integer(l->list[i].as)) < 0 ||
            json_array_append_new(pair, json_string(text)) < 0) {
            json_decref(list);
            list = NULL;
        }
        free(text);
    }
    return list;
}

/* --- up the tree --- */

static void wake(struct ctx *ctx)
{
    if (!ctx->join && !flux_watcher_active(ctx->again))
        flux_watcher_start(ctx->defer);
}

static void join_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;
    int errnum = flux_future_errnum(f);

    ctx->join = NULL;
    if (errnum == 0 || errnum == EPROTO || errnum == EPERM) {
        if (errnum != 0)
            flux_log(ctx->h, LOG_ERR, "the resources at and below rank %u are refused: %s",
                     ctx->rank, flux_future_error(f));
        free(ctx->sent);
        ctx->sent = NULL;
        if (resgraph_nnodes(ctx->pending) > 0 || ctx->likes.n > 0)
            wake(ctx);
    } else {
        flux_timer_start(ctx->again, AGAIN_AFTER, 0.);
    }
    flux_future_destroy(f);
}

static void send_text(struct ctx *ctx)
{
    ctx->join = flux_rpc(ctx->h, "resrc.join", ctx->sent, FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM);
    ctx->joins_out++;
    if (!ctx->join || flux_future_then(ctx->join, -1., join_cb, ctx) < 0) {
        flux_future_destroy(ctx->join);
        ctx->join = NULL;
        flux_timer_start(ctx->again, AGAIN_AFTER, 0.);
    }
}

static void flush(struct ctx *ctx)
{
    struct resrc_join j = {0};
    resgraph_t *fresh = resgraph_create();

    if (!fresh ||
        (resgraph_nnodes(ctx->pending) > 0 && !(j.inventory = resgraph_to_json(ctx->pending))) ||
        (ctx->likes.n > 0 && !(j.like = likes_to_json(&ctx->likes))) ||
        !(ctx->sent = flux_schema_encode(&resrc_join_schema, &j))) {
        resgraph_destroy(fresh);
        flux_timer_start(ctx->again, AGAIN_AFTER, 0.);
    } else {
        resgraph_destroy(ctx->pending);
        ctx->pending = fresh;
        resrc_likes_clear(&ctx->likes);
        send_text(ctx);
    }
    json_decref(j.inventory);
    json_decref(j.like);
}

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    if (!ctx->join && !ctx->sent)
        flush(ctx);
}

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    flux_watcher_stop(w);
    if (ctx->sent && !ctx->join)
        send_text(ctx);
    else if (!ctx->sent)
        flush(ctx);
}

void resrc_found(struct ctx *ctx, const resgraph_t *g)
{
    idset_t *ranks;
    errmsg_t err = {"no memory"};

    if (ctx->root) {
        resrc_root_found(ctx->root, g);
        return;
    }
    ranks = resgraph_ranks(g); /* a repeated report replaces the earlier one */
    if (!ranks || resgraph_remove(ctx->pending, ranks) < 0 ||
        resgraph_merge(ctx->pending, g, &err) < 0)
        flux_log(ctx->h, LOG_ERR, "resources below rank %u are not reported: %s", ctx->rank,
                 err.text);
    idset_destroy(ranks);
    wake(ctx);
}

void resrc_found_like(struct ctx *ctx, uint32_t as, const idset_t *ranks)
{
    if (ctx->root) {
        resrc_root_found_like(ctx->root, as, ranks);
        return;
    }
    if (resrc_likes_add(&ctx->likes, as, ranks) < 0)
        flux_log(ctx->h, LOG_ERR, "resources below rank %u are not reported: out of memory",
                 ctx->rank);
    wake(ctx);
}

/* --- reports from below --- */

static int take_likes(struct ctx *ctx, const json_t *list, bool act, errmsg_t *err)
{
    const json_t *pair;
    size_t i;

    json_array_foreach(list, i, pair)
    {
        const json_t *as = json_array_get(pair, 0);
        const char *text = json_string_value(json_array_get(pair, 1));
        idset_t *ranks = text ? idset_parse(text, NULL) : NULL;
        bool ok = ranks && json_array_size(pair) == 2 && json_is_integer(as) &&
                  json_integer_value(as) >= 0 && json_integer_value(as) < ctx->size &&
                  !idset_empty(ranks) && idset_last(ranks) < ctx->size;

        if (ok && act)
            resrc_found_like(ctx, (uint32_t)json_integer_value(as), ranks);
        idset_destroy(ranks);
        if (!ok)
            return errmsg_fail(err, EPROTO, "like[%zu]: must be [rank, idset] within the session",
                               i);
    }
    return 0;
}

static int take_join(struct ctx *ctx, const struct resrc_join *j, errmsg_t *err)
{
    resgraph_t *g = NULL;
    idset_t *ranks = NULL;
    int rc = -1;

    if (take_likes(ctx, j->like, false, err) < 0)
        return -1;
    if (j->inventory) {
        if (!(g = resgraph_from_json(j->inventory, err)))
            return -1;
        if (!(ranks = resgraph_ranks(g))) {
            errmsg_fail(err, ENOMEM, "no memory for an inventory of resources");
            goto out;
        }
        if (!idset_empty(ranks) && idset_last(ranks) >= ctx->size) {
            errmsg_fail(err, EPROTO, "inventory: there is no rank %u", idset_last(ranks));
            goto out;
        }
        resrc_found(ctx, g);
    }
    rc = take_likes(ctx, j->like, true, err);
out:
    idset_destroy(ranks);
    resgraph_destroy(g);
    return rc;
}

static void join_request_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct resrc_join j = {0};
    errmsg_t err;
    json_t *owner;

    if (flux_request_decode(h, req, &resrc_join_schema, &j, &owner) < 0)
        return;
    ctx->joins_in++;
    if (take_join(ctx, &j, &err) < 0)
        flux_respond_error(h, req, errno, "%s", err.text);
    else
        flux_respond(h, req, "{}");
    json_decref(owner);
}

static void find_request_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct resrc_lost in;
    idset_t *lost;
    json_t *owner;

    if (flux_request_decode(h, req, &resrc_lost_schema, &in, &owner) < 0)
        return;
    if ((lost = idset_parse(in.lost, NULL))) {
        resrc_find_again(ctx->find, lost);
        flux_respond(h, req, "{}");
    } else {
        flux_respond_error(h, req, errno, "'%.64s' is not a set of ranks", in.lost);
    }
    idset_destroy(lost);
    json_decref(owner);
}

/* --- other requests --- */

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct resrc_stats st = {.joins = ctx->joins_in, .sent = ctx->joins_out};

    if (ctx->root)
        resrc_root_stats(ctx->root, &st);
    flux_respond_struct(h, req, &resrc_stats_schema, &st);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "resrc.join", join_request_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "resrc.find", find_request_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "resrc.watch", resrc_root_watch, ANYBODY},
    {FLUX_MSG_REQUEST, "resrc.status", resrc_status_request, ANYBODY},
    {FLUX_MSG_REQUEST, "resrc.drain", resrc_drain_add, FLUX_ROLE_OWNER},
    {FLUX_MSG_REQUEST, "resrc.undrain", resrc_drain_remove, FLUX_ROLE_OWNER},
    {FLUX_MSG_REQUEST, "resrc.confirm", resrc_confirm_request, FLUX_ROLE_OWNER},
    {FLUX_MSG_REQUEST, "resrc.leave", resrc_drain_leave, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "resrc.xml", resrc_xml_request, ANYBODY},
    {FLUX_MSG_REQUEST, "resrc.stats", stats_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "resrc.cancel", resrc_root_cancel, ANYBODY},
    {FLUX_MSG_REQUEST, "resrc.disconnect", resrc_root_disconnect, ANYBODY},
    FLUX_HANDLER_END,
};

/* --- life --- */

static void resrc_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    resrc_xml_clear(ctx);
    resrc_find_destroy(ctx->find);
    resrc_root_destroy(ctx->root);
    flux_future_destroy(ctx->join);
    flux_watcher_destroy(ctx->defer);
    flux_watcher_destroy(ctx->again);
    resgraph_destroy(ctx->pending);
    resrc_likes_clear(&ctx->likes);
    free(ctx->sent);
    free(ctx);
}

static int resrc_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx;

    if (setup_no_arguments("resrc", argc, argv, err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "the resrc module is out of memory");
    errmsg_set(err, "the resrc module is out of memory");
    ctx->h = h;
    ctx->rank = flux_rank(h);
    ctx->size = flux_size(h);
    list_init(&ctx->xmls);
    ctx->pending = resgraph_create();
    ctx->defer = flux_defer_create(flux_get_reactor(h), defer_cb, ctx);
    ctx->again = flux_timer_create(flux_get_reactor(h), again_cb, ctx);
    if (!ctx->pending || !ctx->defer || !ctx->again || !(ctx->find = resrc_find_create(ctx)) ||
        (flux_is_root(h) && !(ctx->root = resrc_root_create(ctx, err))) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx))) {
        int saved = errno;

        resrc_fini(h, ctx);
        errno = saved;
        return -1;
    }
    *arg = ctx;
    return 0;
}

FLUX_MODULE(resrc, resrc_init, resrc_fini, .place = FLUX_PLACE_LOOP);
