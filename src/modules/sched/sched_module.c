/* sched_module.c - the scheduler of a session, at rank 0.
 *
 * The library (libsched) decides.  This module provides its input: jobs from the job module
 * (sched_feed.c), resources from the resrc module (sched_watch.c), policies (sched_policies.c) and
 * the time.  Messages: libsched/sched_wire.h.
 *
 * A pass over the queue begins once all received messages are handled.  It runs in slices of
 * bounded time (libflux/slice.h).  Between slices, received messages are handled, so a deep queue
 * delays no request for longer than a slice.  One message reports the results of a slice.
 *
 * Invariants:
 *  1. Nothing is allocated until a job module is attached and has enabled the scheduler, and the
 *     inventory and the policies are known.
 *  2. The size of every response is bounded, by the number of ids asked for or by the inventory.
 *
 * Failure: see the parts.  The module refuses to load on ranks other than 0.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched_module.h"

#define BUDGET 1000  /* steps of a pass between two readings of the clock: about 50 us */
#define SLICE 0.0005 /* seconds */
#define ANYBODY (FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER)

void sched_module_kick(struct ctx *ctx)
{
    if (ctx->attach && setup_known(ctx->setup) && sched_pass_wanted(ctx->s))
        flux_watcher_start(ctx->defer);
}

static void set_timer(struct ctx *ctx)
{
    double next = sched_pass_next_time(ctx->s);
    double now = flux_now(ctx->h);

    if (next < 0.)
        flux_watcher_stop(ctx->timer);
    else
        flux_timer_start(ctx->timer, next > now ? next - now : 0., 0.);
}

static void slice(struct ctx *ctx)
{
    flux_reactor_t *r = flux_get_reactor(ctx->h);
    struct sched_ops ops = sched_feed_ops;
    double before = flux_reactor_clock(r);
    struct flux_slice sl;

    ops.arg = ctx;
    flux_slice_begin(&sl, r, SLICE, 10);
    while (flux_slice_more(&sl) && sched_pass(ctx->s, flux_now(ctx->h), BUDGET, &ops))
        ;
    sched_feed_answer(ctx);
    ctx->busy += flux_reactor_clock(r) - before;
    sched_module_kick(ctx);
    set_timer(ctx);
}

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->attach)
        slice(ctx);
}

/* The end of a job may be among the received messages: handle these before the pass. */
static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->attach)
        flux_watcher_start(ctx->defer);
}

static void estimate_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    sched_feed_estimates(arg);
}

static void log_cb(const char *text, void *arg)
{
    struct ctx *ctx = arg;

    flux_log(ctx->h, LOG_WARNING, "%s", text);
}

/* --- queries --- */

static void why_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_why in;
    struct sched_reasons out = {json_array()};
    char why[SCHED_REASON_MAX];
    const json_t *entry;
    json_t *owner;
    errmsg_t err;
    uint64_t id;
    double t, shift = flux_reactor_to_wall(flux_get_reactor(h), 0.);
    size_t i;

    if (flux_request_decode(h, req, &sched_why_schema, &in, &owner) < 0) {
        json_decref(out.why);
        return;
    }
    if (json_array_size(in.ids) > SCHED_WHY_MAX) {
        flux_respond_error(h, req, EINVAL, "sched.why: at most %d ids at a time", SCHED_WHY_MAX);
        goto done;
    }
    json_array_foreach(in.ids, i, entry)
    {
        if (sched_wire_id_decode(entry, &id, &err) < 0) {
            flux_respond_error(h, req, EPROTO, "sched.why: %s", err.text);
            goto done;
        }
        if (sched_why_estimate(ctx->s, id, flux_now(h), shift, &t, why) == 0)
            json_array_append_new(out.why,
                                  sched_wire_estimate_encode(id, t < 0. ? -1. : t + shift, why));
    }
    flux_respond_struct(h, req, &sched_reasons_schema, &out);
done:
    json_decref(out.why);
    json_decref(owner);
}

static void status_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_stats st;

    sched_get_stats(ctx->s, &st);
    struct sched_status out = {
        .queue = sched_policy_queue_name(ctx->s),
        .node = sched_policy_nodes_name(ctx->s),
        .attached = ctx->attach != NULL,
        .enabled = ctx->enabled,
        .ready = ctx->graph != NULL,
        .queued = st.queued,
        .held = st.held,
        .running = st.running,
        .nodes = st.nodes,
        .nodes_up = st.nodes_up,
        .passes = st.passes,
        .slices = st.slices,
        .decisions = st.decisions,
        .started = st.started,
        .denied = st.denied,
        .busy = ctx->busy,
        .rate = ctx->busy > 0. ? (double)st.decisions / ctx->busy : 0.,
        .reserved = st.reserved,
        .fallbacks = st.fallbacks,
        .expiration = sched_policies_expiration(ctx),
    };
    flux_respond_struct(h, req, &sched_status_schema, &out);
}

static void resources_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    rset_t *allocated = sched_allocated(ctx->s);
    rset_t *available = sched_available(ctx->s);
    struct sched_resources out = {allocated ? rset_to_json(allocated) : NULL,
                                  available ? rset_to_json(available) : NULL};

    if (!out.allocated || !out.free)
        flux_respond_error(h, req, ENOMEM, "sched.resources: the scheduler is out of memory");
    else
        flux_respond_struct(h, req, &sched_resources_schema, &out);
    json_decref(out.allocated);
    json_decref(out.free);
    rset_destroy(allocated);
    rset_destroy(available);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_stats st;

    sched_get_stats(ctx->s, &st);
    struct sched_module_stats out = {st.queued,  st.running, st.shapes,         st.reserved,
                                     st.passes,  st.slices,  st.decisions,      st.planned,
                                     st.started, ctx->feeds, ctx->refused_feeds};
    flux_respond_struct(h, req, &sched_module_stats_schema, &out);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "sched.attach", sched_feed_attach_cb, 0},
    {FLUX_MSG_REQUEST, "sched.feed", sched_feed_cb, 0},
    {FLUX_MSG_REQUEST, "sched.cancel", sched_feed_cancel_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "sched.disconnect", sched_feed_disconnect_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "sched.why", why_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "sched.status", status_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "sched.resources", resources_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "sched.policy", sched_policies_cb, 0},
    {FLUX_MSG_REQUEST, "sched.expiration", sched_policies_expiration_cb, 0},
    {FLUX_MSG_REQUEST, "sched.stats", stats_cb, ANYBODY},
    FLUX_HANDLER_END,
};

/* --- life --- */

static void sched_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    /* No response: the module host ends the stream, or hands it to the next instance. */
    flux_msg_destroy(ctx->attach);
    flux_handlers_remove(ctx->handlers);
    sched_watch_fini(ctx);
    flux_watcher_destroy(ctx->defer);
    flux_watcher_destroy(ctx->timer);
    flux_watcher_destroy(ctx->estimate_timer);
    sched_destroy(ctx->s);
    sched_policies_fini(ctx);
    strbuf_destroy(ctx->alloc);
    strbuf_destroy(ctx->deny);
    free(ctx->sent);
    free(ctx);
}

static int sched_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    flux_reactor_t *r = flux_get_reactor(h);
    struct ctx *ctx;

    if (setup_root_only(h, "sched", err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "the sched module is out of memory");
    ctx->h = h;
    if (!(ctx->s = sched_create()) || !(ctx->alloc = strbuf_create(0)) ||
        !(ctx->deny = strbuf_create(0)) || !(ctx->defer = flux_defer_create(r, defer_cb, ctx)) ||
        !(ctx->timer = flux_deadline_create(r, timer_cb, ctx)) ||
        !(ctx->estimate_timer = flux_timer_create(r, estimate_cb, ctx)) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx)) || sched_watch_init(ctx) < 0)
        errmsg_fail(err, ENOMEM, "the sched module is out of memory");
    else if (sched_policies_configure(ctx, argc, argv, err) == 0) {
        sched_enable(ctx->s, false);
        sched_set_log(ctx->s, log_cb, ctx);
        *arg = ctx;
        return 0;
    }
    int saved = errno;
    sched_fini(h, ctx);
    errno = saved;
    return -1;
}

FLUX_MODULE(sched, sched_init, sched_fini);
