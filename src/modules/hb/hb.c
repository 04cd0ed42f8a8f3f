/* hb.c - the heartbeat of a session.
 *
 * One instance, at the root, publishes the event "hb" {"epoch":n}, n = 0, 1, ..., once per period.
 * Whoever wants to do something now and then, all ranks at about the same moment, does it then; so
 * the processors of a machine are disturbed together, and an idle session sleeps in between.
 *
 *    hb.stats  {}  ->  {"epoch","period","failed"}      epoch: of the next beat
 *
 * The period is the attribute hb.period, or the argument "period=...", a duration ("500ms", "2s",
 * 5); at least 1 ms, 2 s when not said.
 *
 * Failure: elsewhere than at the root it refuses to load.  A period that cannot be understood is
 * logged, and the default is used.  A beat that cannot be published is counted and left out: the
 * next one carries the next number, so that listeners see the gap.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libflux/module.h"
#include "libutil/duration.h"
#include "libutil/strutil.h"

#define PERIOD_DEFAULT 2.
#define PERIOD_MIN 0.001

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    flux_watcher_t *timer;
    double period;
    uint64_t epoch;
    uint64_t failed;
};

struct beat {
    uint64_t epoch;
};
static const struct flux_field beat_fields[] = {
    FLUX_FIELD_U64(struct beat, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema beat_schema = FLUX_SCHEMA(struct beat, beat_fields);

struct stats {
    uint64_t epoch;
    double period;
    uint64_t failed;
};
static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct stats, epoch, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct stats, period, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, failed, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema stats_schema = FLUX_SCHEMA(struct stats, stats_fields);

static int parse_period(const char *text, double *period, errmsg_t *err)
{
    double value;

    if (duration_parse(text, &value, err) < 0)
        return -1;
    if (!isfinite(value) || value < PERIOD_MIN)
        return errmsg_fail(err, EINVAL, "a heartbeat period of '%s' is out of range: 1ms at least",
                           text);
    *period = value;
    return 0;
}

static void beat_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct beat b = {ctx->epoch++};
    char *json = flux_schema_encode(&beat_schema, &b);

    if (!json || flux_event_send(ctx->h, "hb", json) < 0)
        ctx->failed++;
    free(json);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stats st = {ctx->epoch, ctx->period, ctx->failed};

    flux_respond_struct(h, req, &stats_schema, &st);
}

/* ENOENT, or a broker without attributes, means the default. */
static void period_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;
    const char *text;
    errmsg_t err;

    if (flux_attr_future_get(f, &text, &err) == 0 && parse_period(text, &ctx->period, &err) < 0)
        flux_log(ctx->h, LOG_ERR, "attribute hb.period: %s", err.text);
    flux_timer_start(ctx->timer, ctx->period, ctx->period);
    flux_future_destroy(f);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "hb.stats", stats_cb, FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    FLUX_HANDLER_END,
};

static void hb_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    flux_watcher_destroy(ctx->timer);
    free(ctx);
}

/* Start beating at the period given as an argument, else ask for the attribute first. */
static int start(struct ctx *ctx, const char *period, errmsg_t *err)
{
    flux_future_t *f;

    if (period) {
        if (parse_period(period, &ctx->period, err) < 0)
            return -1;
        flux_timer_start(ctx->timer, ctx->period, ctx->period);
        return 0;
    }
    f = flux_attr_get_async(ctx->h, "hb.period");
    if (!f || flux_future_then(f, -1., period_cb, ctx) < 0) {
        flux_future_destroy(f);
        return errmsg_fail(err, ENOMEM, "the hb module is out of memory");
    }
    return 0;
}

static int hb_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    const char *period = NULL;
    struct ctx *ctx;

    if (flux_rank(h) != 0)
        return errmsg_fail(err, EINVAL, "the hb module belongs to rank 0, not to rank %u",
                           flux_rank(h));
    for (int i = 0; i < argc; i++) {
        if (!str_starts(argv[i], "period="))
            return errmsg_fail(err, EINVAL, "the hb module takes period=DURATION, not '%s'",
                               argv[i]);
        period = argv[i] + strlen("period=");
    }
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "the hb module is out of memory");
    ctx->h = h;
    ctx->period = PERIOD_DEFAULT;
    if (!(ctx->timer = flux_timer_create(flux_get_reactor(h), beat_cb, ctx)) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx))) {
        hb_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "the hb module is out of memory");
    }
    if (start(ctx, period, err) < 0) {
        int saved = errno;
        hb_fini(h, ctx);
        errno = saved;
        return -1;
    }
    *arg = ctx;
    return 0;
}

FLUX_MODULE(hb, hb_init, hb_fini);
