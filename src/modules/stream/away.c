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
 * A member that is away while its stream is removed cannot be notified of that.  Nor can one whose
 * way is broken already while the news of that is still to come.  So the request of each member of
 * a stream that is removed is kept for AWAY_MAX seconds, and if it comes again, it is answered with
 * the removal.  That answer may be lost as well.  Then a broker on the way sends the same request
 * again, so it is kept for AWAY_MAX seconds more, under its match tag.
 *
 * Copies: when brokers find other parents one after the other, the same request may be under way
 * by two ways, and the copy that comes last need not be the one whose way exists.  The loss of the
 * other way is told by a notice, which may follow long after that.  So the module keeps all copies
 * of which no notice has said that their way was lost.  When the way of the last one is lost, it
 * tells the sender by each of the others to ask again.
 *
 * Invariants:
 *  1. ctx.away holds the members that are away, and the requests of those that were, in the order
 *     in which their time ends.
 *  2. away.earlier holds requests with the match tag of away.req that came by other ways.
 *
 * Failure: a notice that a client has ended, and that was on its way through the dead broker, is
 * lost.  Its members are removed after AWAY_MAX seconds.  A process that does not look for messages
 * during this time is removed as well, and joins again when it does.  A removal that there is no
 * memory to keep is forgotten: the member joins a stream without writers.  So does one whose way
 * breaks while its stream is removed if REMOVED_MAX others are kept already.  A copy that cannot be
 * kept, because of memory or beyond EARLIER_MAX, is forgotten: if it is the one whose way exists,
 * the member is removed after AWAY_MAX seconds.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry.h"

#define AWAY_MAX 60.
#define REMOVED_MAX 4096 /* requests kept of removed streams, beside those of members away */
#define EARLIER_MAX 16   /* copies of a request by other ways */
#define REMOVED "stream '%s' was removed"

/* A member of a stream that was removed. */
struct removed {
    struct away away;
    struct ctx *ctx;
    bool told; /* the request away.req, which had come again, was answered */
};

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
        list_remove(&a->node);
        claim_expire(ctx->claims, &a->claim);
    }
}

int away_init(struct ctx *ctx)
{
    list_init(&ctx->away);
    ctx->away_timer = flux_timer_create(flux_get_reactor(ctx->h), expire, ctx);
    return ctx->away_timer ? 0 : -1;
}

static void back(struct away *a)
{
    list_remove(&a->node);
    a->lost = false;
}

static void wait_back(struct ctx *ctx, struct away *a)
{
    a->lost = true;
    a->until = flux_now(ctx->h) + AWAY_MAX;
    list_append(&ctx->away, &a->node);
    if (!flux_watcher_active(ctx->away_timer))
        flux_timer_start(ctx->away_timer, AWAY_MAX, 0.);
}

/* --- copies of a request --- */

static void earlier_drop(struct away *a, unsigned i)
{
    flux_msg_destroy(a->earlier[i]);
    a->earlier[i] = a->earlier[--a->nearlier];
}

static void earlier_drop_all(struct away *a)
{
    while (a->nearlier > 0)
        earlier_drop(a, a->nearlier - 1);
    free(a->earlier);
    a->earlier = NULL;
}

/* Another copy takes the place of the request, whose way may still exist. */
static void earlier_keep(struct away *a)
{
    flux_msg_t **more = NULL;

    if (a->nearlier < EARLIER_MAX)
        more = realloc(a->earlier, (a->nearlier + 1) * sizeof(flux_msg_t *));
    if (!more)
        return;
    a->earlier = more;
    a->earlier[a->nearlier++] = flux_msg_incref(a->req);
}

/* A process asks again only after a response, and a reader gets none until it is told of writers:
 * send it one by each way that may exist. */
static void earlier_tell(const struct away *a)
{
    for (unsigned i = 0; a->reads && i < a->nearlier; i++)
        readers_answer(list_entry(a, struct reader, away), a->earlier[i]);
}

/* --- members that are away --- */

struct lost_way {
    struct ctx *ctx;
    const flux_msg_t *notice;
};

/* The brokers that are left on the way keep the request until it is answered. */
static void leave(struct claim *c, void *arg)
{
    const struct lost_way *lost = arg;
    struct ctx *ctx = lost->ctx;
    struct away *a = list_entry(c, struct away, claim);

    for (unsigned i = a->nearlier; i > 0; i--) {
        if (flux_request_ended(a->earlier[i - 1], lost->notice))
            earlier_drop(a, i - 1);
    }
    if (!flux_request_ended(a->req, lost->notice))
        return; /* it has come again already, by another way */
    earlier_tell(a);
    away_answer(ctx, a, EHOSTUNREACH, "the way to the sender was lost");
    earlier_drop_all(a);
    list_remove(&a->node);
    wait_back(ctx, a);
}

void away_sender(struct ctx *ctx, const flux_msg_t *msg)
{
    struct lost_way lost = {ctx, msg};

    claims_each(ctx->claims, msg, leave, &lost);
}

int away_join(struct ctx *ctx, struct away *a, const flux_msg_t *req,
              void (*gone)(struct claim *c, bool canceled))
{
    list_init(&a->node);
    a->lost = false;
    a->req = flux_msg_incref(req);
    return claim_take(ctx->claims, &a->claim, req, gone);
}

int away_renew(struct ctx *ctx, struct away *a, const flux_msg_t *req)
{
    void (*gone)(struct claim * c, bool canceled) = a->claim.gone;
    bool copy = flux_msg_matchtag(a->req) == flux_msg_matchtag(req);

    if (!copy) {
        away_answer(ctx, a, ENODATA, "the sender has asked again");
        earlier_drop_all(a);
    } else if (!a->lost && flux_msg_way(a->req) != flux_msg_way(req)) {
        earlier_keep(a);
    }
    for (unsigned i = a->nearlier; i > 0; i--) {
        if (flux_msg_way(a->earlier[i - 1]) == flux_msg_way(req))
            earlier_drop(a, i - 1);
    }
    back(a);
    claim_drop(ctx->claims, &a->claim);
    flux_msg_destroy(a->req);
    return away_join(ctx, a, req, gone);
}

void away_answer(struct ctx *ctx, struct away *a, int errnum, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!a->lost)
        flux_respond_error(ctx->h, a->req, errnum, "%s", text);
    for (unsigned i = 0; i < a->nearlier; i++)
        flux_respond_error(ctx->h, a->earlier[i], errnum, "%s", text);
}

int away_page_send(struct ctx *ctx, const struct away *a)
{
    return registry_page_send(ctx, a->lost ? NULL : a->req);
}

void away_over(struct ctx *ctx, struct away *a)
{
    back(a);
    claim_drop(ctx->claims, &a->claim);
    earlier_drop_all(a);
    flux_msg_destroy(a->req);
}

static void removed_free(struct removed *r)
{
    r->ctx->nremoved--;
    away_over(r->ctx, &r->away);
    free(r);
}

static void forgotten(struct claim *c, bool canceled)
{
    removed_free(list_entry(list_entry(c, struct away, claim), struct removed, away));
}

void away_remove(struct ctx *ctx, struct away *a, const char *name)
{
    struct removed *r;

    away_answer(ctx, a, ECANCELED, REMOVED, name);
    if ((!a->lost && ctx->nremoved >= REMOVED_MAX) || !(r = calloc(1, sizeof(*r))))
        return;
    r->ctx = ctx;
    ctx->nremoved++;
    if (away_join(ctx, &r->away, a->req, forgotten) < 0)
        removed_free(r);
    else
        wait_back(ctx, &r->away);
}

struct came {
    const flux_msg_t *req;
    struct removed *found;
};

static void match(struct claim *c, void *arg)
{
    struct came *m = arg;
    struct away *a = list_entry(c, struct away, claim);
    struct removed *r = list_entry(a, struct removed, away);

    if (c->gone == forgotten && strcmp(flux_msg_json(a->req), flux_msg_json(m->req)) == 0 &&
        (!r->told || flux_msg_matchtag(a->req) == flux_msg_matchtag(m->req)))
        m->found = r;
}

bool away_removed(struct ctx *ctx, const flux_msg_t *req, const char *name)
{
    struct came m = {req, NULL};

    if (ctx->nremoved > 0)
        claims_each(ctx->claims, req, match, &m);
    if (!m.found)
        return false;
    flux_respond_error(ctx->h, req, ECANCELED, REMOVED, name);
    m.found->told = true;
    if (away_renew(ctx, &m.found->away, req) < 0)
        removed_free(m.found);
    else
        wait_back(ctx, &m.found->away);
    return true;
}

void away_fini(struct ctx *ctx)
{
    if (!ctx->away_timer)
        return;
    LIST_FOREACH_SAFE(it, tmp, &ctx->away)
    {
        removed_free(list_entry(list_entry(it, struct away, node), struct removed, away));
    }
    flux_watcher_destroy(ctx->away_timer);
}
