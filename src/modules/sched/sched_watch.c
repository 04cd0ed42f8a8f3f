/* sched_watch.c - the resources, as the resrc module reports them (resrc.watch).
 *
 * The first response has the inventory, later ones the changes; the scheduler applies each at once.
 *
 * Failure: without resrc, or after a response that cannot be decoded, no job starts.  The request
 * is repeated after AGAIN seconds (resrc may be about to load), then after twice as long each time,
 * up to AGAIN_MAX.  After TRIES_QUIET failures in a row one message is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/resrc_wire.h"
#include "sched_module.h"

#define AGAIN 0.02    /* seconds; twice as long each time */
#define AGAIN_MAX 2.  /* maximum */
#define TRIES_QUIET 4 /* number of failures after which a message is logged */

/* Replace a set by that of the text. */
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

static int take_cb(void *arg, flux_future_t *f, errmsg_t *err)
{
    struct ctx *ctx = arg;
    struct resrc_update w = {0};

    if (flux_rpc_get_struct(f, &resrc_update_schema, &w, err) < 0 || take(ctx, &w, err) < 0)
        return -1;
    ctx->watch_failed = false;
    sched_module_kick(ctx);
    return 0;
}

static void ended_cb(void *arg, int errnum, const char *why, unsigned tries)
{
    struct ctx *ctx = arg;

    /* Nodes may go down or be drained unnoticed from now on. */
    if (ctx->graph)
        sched_unheard(ctx->s);
    if (!ctx->watch_failed && tries > TRIES_QUIET) {
        flux_log(ctx->h, LOG_WARNING, "the scheduler does not hear about resources: %s", why);
        ctx->watch_failed = true;
    }
}

static const struct follow_ops resources = {"resrc.watch", AGAIN,   AGAIN_MAX,
                                            NULL,          take_cb, ended_cb};

int sched_watch_init(struct ctx *ctx)
{
    if (!(ctx->watch = follow_create(ctx->h, &resources, ctx)))
        return -1;
    follow_open(ctx->watch);
    return 0;
}

void sched_watch_fini(struct ctx *ctx)
{
    follow_destroy(ctx->watch);
    resgraph_destroy(ctx->graph);
    idset_destroy(ctx->up);
    idset_destroy(ctx->drained);
}
