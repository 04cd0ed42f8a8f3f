/* sched_watch.c - what there is, as the resrc module tells it (resrc.watch).
 *
 * The first answer has the inventory, later ones what has changed; each goes to the scheduler at
 * once.
 *
 * Failure: without resrc nothing is started; it is asked again, after AGAIN seconds at first, since
 * it may be about to be loaded.  The same when an answer cannot be understood.  Both are logged
 * once.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/future.h"
#include "libresource/resrc_wire.h"
#include "sched_module.h"

#define AGAIN 0.02    /* seconds; twice as long each time */
#define AGAIN_MAX 2.  /* at most */
#define PATIENCE 0.25 /* from that on it is worth a word */

static void watch_begin(struct ctx *ctx);

/* Replace a set by another one of this text. */
static int replace(idset_t **set, const char *text, errmsg_t *err)
{
    idset_t *fresh;

    if (!text)
        return 0;
    if (!(fresh = idset_parse(text, err)))
        return -1;
    idset_destroy(*set);
    *set = fresh;
    return 0;
}

static int take(struct ctx *ctx, const struct resrc_update *w, errmsg_t *err)
{
    resgraph_t *g = NULL;

    if (replace(&ctx->up, w->up, err) < 0 || replace(&ctx->drained, w->drained, err) < 0)
        return -1;
    if (w->inventory) {
        if (!(g = resgraph_from_json(w->inventory, err)))
            return -1;
        resgraph_destroy(ctx->graph);
        ctx->graph = g;
        return sched_inventory(ctx->s, g, ctx->up, ctx->drained, err);
    }
    return ctx->graph ? sched_nodes(ctx->s, ctx->up, ctx->drained, err) : 0;
}

static void again(struct ctx *ctx, const char *why)
{
    flux_future_destroy(ctx->watch);
    ctx->watch = NULL;
    /* What was up may be down or drained by now. */
    if (ctx->graph)
        sched_unheard(ctx->s);
    ctx->watch_again = ctx->watch_again > 0. ? 2. * ctx->watch_again : AGAIN;
    if (ctx->watch_again > AGAIN_MAX)
        ctx->watch_again = AGAIN_MAX;
    if (!ctx->watch_failed && ctx->watch_again > PATIENCE) {
        flux_log(ctx->h, LOG_WARNING, "the scheduler does not hear about resources: %s", why);
        ctx->watch_failed = true;
    }
    flux_timer_start(ctx->again, ctx->watch_again, 0.);
}

static void watch_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;
    struct resrc_update w = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &resrc_update_schema, &w, &err) < 0 || take(ctx, &w, &err) < 0) {
        again(ctx, err.text);
        return;
    }
    ctx->watch_failed = false;
    ctx->watch_again = 0.;
    module_kick(ctx);
    flux_future_next(f);
}

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    watch_begin(arg);
}

static void watch_begin(struct ctx *ctx)
{
    ctx->watch = flux_rpc(ctx->h, "resrc.watch", "{}", FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);
    if (!ctx->watch || flux_future_then(ctx->watch, -1., watch_cb, ctx) < 0)
        again(ctx, "out of memory");
}

int watch_init(struct ctx *ctx)
{
    if (!(ctx->again = flux_timer_create(flux_get_reactor(ctx->h), again_cb, ctx)))
        return -1;
    watch_begin(ctx);
    return 0;
}

void watch_fini(struct ctx *ctx)
{
    flux_future_destroy(ctx->watch);
    flux_watcher_destroy(ctx->again);
    resgraph_destroy(ctx->graph);
    idset_destroy(ctx->up);
    idset_destroy(ctx->drained);
}
