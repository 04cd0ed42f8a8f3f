/* module_keep.c - a module that hands over, for t/fault-module.t.
 *
 * "keep.wait" is answered when "keep.go" comes, with how many have come since the first instance
 * was loaded.  Its first argument says what goes wrong:
 *    refuses            it does not hand over, with a sentence
 *    unreadable         its successor cannot begin
 * "keep.find" sends its payload on as resrc.find, which only modules may, and passes the answer
 * back.  KEEP_FORM is the number of its form.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/module.h"

#define KEPT_MAX 64

struct ctx {
    flux_handlers_t *handlers;
    const char *what;
    uint64_t count;
    flux_msg_t *kept[KEPT_MAX];
    size_t nkept;
};

static void wait_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    ctx->count++;
    if (ctx->nkept < KEPT_MAX)
        ctx->kept[ctx->nkept++] = flux_msg_incref(req);
    else
        flux_respond_error(h, req, EAGAIN, "too many wait");
}

static void go_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    while (ctx->nkept > 0) {
        flux_respond(h, ctx->kept[--ctx->nkept], "{}");
        flux_msg_destroy(ctx->kept[ctx->nkept]);
    }
    flux_respond(h, req, "{}");
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    const struct ctx *ctx = arg;
    char json[64];

    snprintf(json, sizeof(json), "{\"count\":%u,\"form\":%d}", (unsigned)ctx->count, KEEP_FORM);
    flux_respond(h, req, json);
}

static void found_cb(flux_future_t *f, void *arg)
{
    flux_msg_t *req = arg;
    errmsg_t err;

    if (flux_rpc_get(f, &err) < 0)
        flux_respond_error(flux_future_handle(f), req, errno, "%s", err.text);
    else
        flux_respond(flux_future_handle(f), req, "{}");
    flux_msg_destroy(req);
    flux_future_destroy(f);
}

static void find_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    size_t len;
    flux_future_t *f = flux_rpc(h, "resrc.find", flux_msg_payload(req, &len), flux_rank(h), 0);

    if (!f || flux_future_then(f, 20., found_cb, flux_msg_incref(req)) < 0)
        abort();
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "keep.wait", wait_cb, 0},
    {FLUX_MSG_REQUEST, "keep.go", go_cb, 0},
    {FLUX_MSG_REQUEST, "keep.find", find_cb, 0},
    {FLUX_MSG_REQUEST, "keep.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

/* After keep_hand_over() nobody hears this. */
static void keep_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    for (size_t i = 0; i < ctx->nkept; i++) {
        flux_respond_error(h, ctx->kept[i], ECONNABORTED, "it was ended");
        flux_msg_destroy(ctx->kept[i]);
    }
    free(ctx);
}

static int keep_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    flux_handover_t *o = flux_module_inherited(h);
    struct ctx *ctx = calloc(1, sizeof(*ctx));
    flux_msg_t *msg;

    if (!ctx || !(ctx->handlers = flux_handlers_add(h, handlers, ctx))) {
        free(ctx);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    ctx->what = argc > 0 ? argv[0] : "";
    if (o) {
        flux_handover_get_mark(o, "keep");
        ctx->count = flux_handover_get(o, UINT32_MAX);
        while (ctx->nkept < KEPT_MAX && (msg = flux_handover_get_msg(o)))
            ctx->kept[ctx->nkept++] = msg;
        if (flux_handover_end(o, err) < 0) {
            keep_fini(h, ctx);
            errno = EPROTO;
            return -1;
        }
    }
    *arg = ctx;
    return 0;
}

static int keep_hand_over(flux_t *h, void *arg, flux_handover_t *o, errmsg_t *err)
{
    const struct ctx *ctx = arg;

    if (strcmp(ctx->what, "refuses") == 0)
        return errmsg_fail(err, EBUSY, "it was told not to hand over");
    flux_handover_put_mark(o, strcmp(ctx->what, "unreadable") == 0 ? "lost" : "keep");
    flux_handover_put(o, ctx->count);
    for (size_t i = 0; i < ctx->nkept; i++)
        flux_handover_put_msg(o, ctx->kept[i]);
    flux_handover_put_msg(o, NULL);
    return 1;
}

FLUX_MODULE(keep, keep_init, keep_fini, .hand_over = keep_hand_over, .handover = KEEP_FORM);
