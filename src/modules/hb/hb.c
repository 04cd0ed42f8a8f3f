/* hb.c - the heartbeat of a session.
 *
 * One instance, at rank 0, publishes the event "hb" {"epoch":n}, n = 0, 1, ..., once per period.
 * A beat is numbered, but not published, while nobody in the session has subscribed to it
 * (flux_event_offer()): then nothing is sent, and whoever subscribes gets the next beats.
 * A service does its periodic work upon this event, at all ranks at about the same moment: so all
 * processors of a machine are disturbed at once, and an idle session sleeps in between.
 *
 * The period is the setting hb.period.  The event is published when the wall clock is a multiple of
 * it (flux_reactor_beat()): brokers wake up at such times for their signs of life.  Messages:
 * hb_wire.c.
 *
 * Failure: the module refuses to load at ranks other than 0.  An attribute that is not a valid
 * period is logged, and the default is used.  A heartbeat that cannot be published is counted and
 * omitted: the next one has the next number, so that subscribers see the gap.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "hb_wire.h"
#include "libflux/module.h"
#include "libservice/setup.h"

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    setup_t *setup;
    flux_watcher_t *timer;
    double period;
    uint64_t epoch;
    uint64_t failed;
};

static void set_timer(struct ctx *ctx)
{
    flux_reactor_t *r = flux_get_reactor(ctx->h);

    flux_timer_start(ctx->timer, flux_reactor_beat(r, ctx->period) - flux_reactor_now(r), 0.);
}

static void beat_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct hb_beat b = {ctx->epoch++};
    char *json = flux_schema_encode(&hb_beat_schema, &b);

    if (!json || flux_event_offer(ctx->h, "hb", json) < 0)
        ctx->failed++;
    free(json);
    set_timer(ctx);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct hb_stats st = {ctx->epoch, ctx->period, ctx->failed};

    flux_respond_struct(h, req, &hb_stats_schema, &st);
}

static void ready(void *arg)
{
    struct ctx *ctx = arg;

    set_timer(ctx);
}

static void refused(void *arg, const char *sentence)
{
    struct ctx *ctx = arg;

    flux_log(ctx->h, LOG_ERR, "%s", sentence);
}

static const struct setup_row rows[] = {
    SETUP_SECONDS("hb.period", struct ctx, period),
    SETUP_END,
};
static const struct setup_table settings = {"hb", rows, ready, refused};

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "hb.stats", stats_cb, FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    FLUX_HANDLER_END,
};

static void hb_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;
    int saved = errno;

    setup_destroy(ctx->setup);
    flux_handlers_remove(ctx->handlers);
    flux_watcher_destroy(ctx->timer);
    free(ctx);
    errno = saved;
}

static int hb_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx;

    if (setup_root_only(h, "hb", err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "the hb module is out of memory");
    ctx->h = h;
    if (!(ctx->timer = flux_timer_create(flux_get_reactor(h), beat_cb, ctx)) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx)))
        errmsg_fail(err, ENOMEM, "the hb module is out of memory");
    else if ((ctx->setup = setup_create(h, &settings, ctx, argc, argv, err))) {
        *arg = ctx;
        return 0;
    }
    hb_fini(h, ctx);
    return -1;
}

FLUX_MODULE(hb, hb_init, hb_fini, .place = FLUX_PLACE_LOOP);
