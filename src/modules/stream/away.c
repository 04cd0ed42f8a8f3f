/* away.c - writers and readers that the module cannot reach for a while.
 *
 * Purpose: a broker between a process and this module has died.  The request of the process has
 * ended there, and the broker that noticed says that the way to its sender was lost (disconnect,
 * libflux/dispatch.h).  The process lives, writes and reads as before, and sends its request again
 * when it next looks for messages of this module (libstream/stream_join.c).
 *
 *    state of a member   meaning                             left when (by)
 *    here                its request can be answered         the way to it was lost (away_sender):
 *                                                            away
 *    away                it is listed, and readers may       its request comes again (away_back):
 *                        connect to it; what it is told      here; or its client has ended, or its
 *                        gets lost                           rank was lost, or AWAY_MAX seconds
 *                                                            have passed: removed
 *
 * Invariants:
 *  1. ctx.away holds the members that are away, in the order in which their time ends.
 *
 * Failure: a notice that a client has ended, and that was on its way through the dead broker, is
 * lost.  Its members are removed after AWAY_MAX seconds.  A process that does not look for messages
 * during this time is removed as well, and joins again when it does.
 */
#include "config.h"

#include "registry.h"

#define AWAY_MAX 60.

static void expire(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct list_node *n;

    while ((n = list_first(&ctx->away))) {
        struct away *a = list_entry(n, struct away, node);

        if (a->until > flux_now(ctx->h)) {
            flux_timer_start(ctx->away_timer, a->until - flux_now(ctx->h), 0.);
            return;
        }
        away_back(a);
        claim_expire(ctx->claims, &a->claim);
    }
}

int away_init(struct ctx *ctx)
{
    list_init(&ctx->away);
    ctx->away_timer = flux_timer_create(flux_get_reactor(ctx->h), expire, ctx);
    return ctx->away_timer ? 0 : -1;
}

void away_fini(struct ctx *ctx)
{
    flux_watcher_destroy(ctx->away_timer);
}

static void leave(struct claim *c, void *arg)
{
    struct ctx *ctx = arg;
    struct away *a = list_entry(c, struct away, claim);

    away_back(a);
    a->until = flux_now(ctx->h) + AWAY_MAX;
    list_append(&ctx->away, &a->node);
}

void away_sender(struct ctx *ctx, const flux_msg_t *msg)
{
    claims_each(ctx->claims, msg, leave, ctx);
    if (!list_empty(&ctx->away) && !flux_watcher_active(ctx->away_timer))
        flux_timer_start(ctx->away_timer, AWAY_MAX, 0.);
}

void away_back(struct away *a)
{
    list_remove(&a->node);
}
