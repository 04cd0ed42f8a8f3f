/* sched_feed.c - the dialog with the job module (libsched/sched_wire.h).
 *
 *    sender of a feed          its generation   what happens
 *    any, nobody is attached   any              it is answered with ENOTCONN
 *    not the attached module   any              it is answered with EPERM
 *    the attached module       another          it is answered, and ignored
 *    the attached module       this one         it is applied
 *
 * Invariants:
 *  1. A feed with an entry that cannot be decoded is refused as a whole.  An entry that the library
 *     refuses (a job that it knows already) is logged and skipped.
 *  2. The library has only times of the reactor's clock.  R, estimates and the expiration are
 *     converted on input and output (flux_reactor_to_wall), so a step of the wall clock moves the
 *     displayed times, but no start.
 *  3. There is one attached job module; another one that attaches replaces it.
 *
 * Failure: if memory to apply a feed or to respond is short, scheduler and job module would
 * disagree; the scheduler then removes all jobs, and requests them again under a new generation.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/cancel_wire.h"
#include "libsched/sched_feeddata.h"
#include "sched_module.h"
#include "libschema/jsonout.h"
#include "libutil/fnv.h"

#define ESTIMATES_MAX 1000
#define ESTIMATE_AFTER 1. /* seconds between two reports */

/* --- attaching --- */

static bool same_sender(const flux_msg_t *a, const flux_msg_t *b)
{
    char x[FLUX_SENDER_MAX];
    char y[FLUX_SENDER_MAX];

    return strcmp(flux_msg_sender(a, x, sizeof(x)), flux_msg_sender(b, y, sizeof(y))) == 0;
}

static void feed_clear(struct ctx *ctx)
{
    flux_msg_destroy(ctx->attach);
    ctx->attach = NULL;
    ctx->enabled = false;
    if (ctx->broken) {
        /* A strbuf that has failed stays failed: replace both. */
        strbuf_destroy(ctx->alloc);
        strbuf_destroy(ctx->deny);
        ctx->alloc = strbuf_create(0);
        ctx->deny = strbuf_create(0);
        ctx->broken = !ctx->alloc || !ctx->deny;
    } else {
        strbuf_trunc(ctx->alloc, 0);
        strbuf_trunc(ctx->deny, 0);
    }
    ctx->nsent = 0;
    sched_clear(ctx->s);
    sched_enable(ctx->s, false);
    flux_watcher_stop(ctx->estimate_timer);
}

/* Generations are random, so that they differ from those of an earlier instance. */
static void say_attached(struct ctx *ctx)
{
    struct sched_answer out = {0};
    char *json;

    ctx->generation = flux_random(ctx->h) >> 12 | 1;
    out.attached = ctx->generation;
    if ((json = flux_schema_encode(&sched_answer_schema, &out)))
        flux_respond_more(ctx->h, ctx->attach, json);
    free(json);
}

/* Remove all jobs, and have the job module send them again under a new generation. */
static void feed_begin_anew(struct ctx *ctx)
{
    flux_msg_t *attach = ctx->attach;

    ctx->attach = NULL;
    feed_clear(ctx);
    if ((ctx->attach = attach))
        say_attached(ctx);
}

void sched_feed_attach_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_attach in = {0};
    struct sent_estimate *sent;
    json_t *owner = NULL;

    if (flux_request_decode(h, req, &sched_attach_schema, &in, &owner) < 0)
        return;
    json_decref(owner);
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        flux_respond_error(h, req, EPROTO, "sched.attach must be a streaming request");
        return;
    }
    if (in.estimates > ESTIMATES_MAX)
        in.estimates = ESTIMATES_MAX;
    if (!(sent = calloc(in.estimates + 1, sizeof(*sent)))) {
        flux_respond_error(h, req, ENOMEM, "sched.attach: the scheduler is out of memory");
        return;
    }
    if (ctx->attach)
        flux_respond_error(h, ctx->attach, ENODATA, "another job module has attached");
    feed_clear(ctx);
    free(ctx->sent);
    ctx->sent = sent;
    ctx->estimates = in.estimates;
    ctx->attach = flux_msg_incref(req);
    say_attached(ctx);
}

void sched_feed_cancel_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    uint32_t matchtag;

    if (cancel_decode(h, req, &matchtag) < 0)
        return;
    if (ctx->attach && same_sender(ctx->attach, req) &&
        flux_msg_matchtag(ctx->attach) == matchtag) {
        flux_respond_error(h, ctx->attach, ENODATA, "the stream was ended");
        feed_clear(ctx);
    }
    flux_respond(h, req, NULL);
}

void sched_feed_disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->attach && same_sender(ctx->attach, req))
        feed_clear(ctx);
}

/* --- reports to the job module --- */

static void alloc_cb(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    struct ctx *ctx = arg;
    flux_reactor_t *r = flux_get_reactor(ctx->h);
    double start = flux_reactor_to_wall(r, now), expires = rset_expiration(R);
    char *json, *leaves;
    double hops;

    rset_set_times(R, start,
                   expires > 0. ? sched_policies_milliseconds(start + (expires - now)) : 0.);
    json = rset_format(R);
    rset_destroy(R);
    jsonout_object(ctx->alloc, NULL);
    jsonout_uint(ctx->alloc, "id", id);
    if (json)
        jsonout_text(ctx->alloc, "R", json);
    jsonout_time(ctx->alloc, "t", start);
    if (sched_where(ctx->s, id, &leaves, &hops) < 0)
        ctx->broken = true;
    if (leaves) {
        jsonout_str(ctx->alloc, "switches", leaves);
        jsonout_time(ctx->alloc, "hops", hops);
    }
    if (jsonout_object_end(ctx->alloc) < 0 || !json)
        ctx->broken = true;
    free(leaves);
    free(json);
}

static void deny_cb(uint64_t id, const char *note, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_wire_deny d = {id, note};

    if (jsonout_struct(ctx->deny, NULL, &sched_wire_deny_schema, &d) < 0)
        ctx->broken = true;
}

const struct sched_ops sched_feed_ops = {alloc_cb, deny_cb, NULL};

void sched_feed_answer(struct ctx *ctx)
{
    bool alloc = ctx->alloc && strbuf_len(ctx->alloc) > 0;
    bool deny = ctx->deny && strbuf_len(ctx->deny) > 0;
    strbuf_t *sb;
    char *json;

    if (!alloc && !deny && !ctx->broken)
        return;
    sb = strbuf_create(0);
    jsonout_object(sb, NULL);
    if (alloc) {
        jsonout_array(sb, "alloc");
        jsonout_text(sb, NULL, strbuf_str(ctx->alloc));
        jsonout_array_end(sb);
    }
    if (deny) {
        jsonout_array(sb, "deny");
        jsonout_text(sb, NULL, strbuf_str(ctx->deny));
        jsonout_array_end(sb);
    }
    jsonout_object_end(sb);
    json = sb ? strbuf_take(sb) : NULL;
    if (!ctx->broken) {
        strbuf_trunc(ctx->alloc, 0);
        strbuf_trunc(ctx->deny, 0);
    }
    if (!json || ctx->broken || !ctx->attach || flux_respond_more(ctx->h, ctx->attach, json) < 0) {
        flux_log(ctx->h, LOG_ERR, "no memory to report allocations: the scheduler begins anew");
        feed_begin_anew(ctx);
    } else if (ctx->estimates > 0 && !flux_watcher_active(ctx->estimate_timer))
        flux_timer_start(ctx->estimate_timer, ESTIMATE_AFTER, 0.);
    free(json);
}

void sched_feed_estimates(struct ctx *ctx)
{
    struct sched_answer out = {.estimate = json_array()};
    flux_reactor_t *r = flux_get_reactor(ctx->h);
    double now = flux_now(ctx->h), shift = flux_reactor_to_wall(r, 0.);
    char why[SCHED_REASON_MAX];
    uint64_t id;
    char *json;

    if (fabs(shift - ctx->sent_shift) > ESTIMATE_AFTER) {
        ctx->nsent = 0; /* a step of the wall clock changes all estimates */
        ctx->sent_shift = shift;
    }
    for (size_t i = 0; i < ctx->estimates && (id = sched_queue_at(ctx->s, i)) != 0; i++) {
        struct sent_estimate *sent = &ctx->sent[i];
        struct sent_estimate fresh = {.id = id};

        if (sched_why_estimate(ctx->s, id, now, shift, &fresh.t, why) < 0)
            break;
        fresh.reason = fnv64_text(FNV64_BASIS, why);
        if (i < ctx->nsent && sent->id == id && sent->t == fresh.t && sent->reason == fresh.reason)
            continue;
        *sent = fresh;
        if (i >= ctx->nsent)
            ctx->nsent = i + 1;
        json_array_append_new(out.estimate, sched_wire_estimate_encode(
                                                id, fresh.t < 0. ? -1. : fresh.t + shift, why));
    }
    if (ctx->attach && json_array_size(out.estimate) > 0 &&
        (json = flux_schema_encode(&sched_answer_more_schema, &out))) {
        flux_respond_more(ctx->h, ctx->attach, json);
        free(json);
    }
    json_decref(out.estimate);
}

/* --- feeds --- */

/* Apply a feed.  -1: memory is short. */
static int take_feed(struct ctx *ctx, const struct sched_feeddata *f)
{
    double now = flux_now(ctx->h);
    errmsg_t err;

    for (size_t i = 0; i < f->nrunning; i++) {
        const struct sched_wire_running *r = &f->running[i];

        if (sched_running(ctx->s, r->id, f->R[i], r->end, now, &err) == 0)
            continue;
        if (errno == ENOMEM)
            return -1;
        flux_log(ctx->h, LOG_ERR, "a job that runs: %s", err.text);
    }
    for (size_t i = 0; i < f->nfree; i++)
        sched_free(ctx->s, f->free[i], now);
    for (size_t i = 0; i < f->nadd; i++) {
        if (sched_add(ctx->s, &f->add[i], now, &err) == 0)
            continue;
        if (errno == ENOMEM)
            return -1;
        flux_log(ctx->h, LOG_ERR, "a job that is to be queued: %s", err.text);
    }
    for (size_t i = 0; i < f->nurgency; i++)
        sched_urgency(ctx->s, f->urgency[i], f->level[i], now);
    for (size_t i = 0; i < f->nremove; i++)
        sched_remove(ctx->s, f->remove[i]);
    return 0;
}

void sched_feed_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_feed in = {0};
    struct sched_feeddata data = {0};
    json_t *owner = NULL;
    errmsg_t err;

    if (flux_request_decode(h, req, &sched_feed_schema, &in, &owner) < 0) {
        ctx->refused_feeds++;
        return;
    }
    if (!ctx->attach)
        flux_respond_error(h, req, ENOTCONN, "sched.feed: no job module is attached");
    else if (!same_sender(ctx->attach, req))
        flux_respond_error(h, req, EPERM, "sched.feed: another job module is attached");
    else if (in.generation != ctx->generation)
        flux_respond(h, req, "{}");
    else if (sched_feeddata_read(&data, &in, &err) < 0) {
        ctx->refused_feeds++;
        flux_respond_error(h, req, errno, "sched.feed: %s", err.text);
    } else {
        ctx->feeds++;
        if (take_feed(ctx, &data) < 0) {
            flux_log(h, LOG_ERR, "the scheduler is out of memory, and begins anew");
            feed_begin_anew(ctx);
        } else if (in.enabled) {
            ctx->enabled = json_is_true(in.enabled);
            sched_enable(ctx->s, ctx->enabled);
        }
        flux_respond(h, req, "{}");
        sched_module_kick(ctx);
        if (ctx->estimates > 0 && !flux_watcher_active(ctx->estimate_timer))
            flux_timer_start(ctx->estimate_timer, ESTIMATE_AFTER, 0.);
    }
    sched_feeddata_clear(&data);
    json_decref(owner);
}
