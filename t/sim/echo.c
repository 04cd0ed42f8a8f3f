/* echo.c - a service for tests: answers with the payload it got, at once or after up to 20 ms. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "echo.h"
#include "libutil/list.h"

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    struct list_node late;
};

struct late {
    struct list_node node;
    struct ctx *ctx;
    flux_watcher_t *timer;
    flux_msg_t *req;
};

static void answer(flux_t *h, const flux_msg_t *req)
{
    size_t len;
    const void *data = flux_msg_payload(req, &len);

    flux_respond_raw(h, req, data, len);
}

static void late_free(struct late *l)
{
    list_remove(&l->node);
    flux_watcher_destroy(l->timer);
    flux_msg_destroy(l->req);
    free(l);
}

static void late_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct late *l = arg;

    answer(l->ctx->h, l->req);
    late_free(l);
}

static void now_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    answer(h, req);
}

static void later_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct late *l = calloc(1, sizeof(*l));

    if (!l || !(l->timer = flux_timer_create(flux_get_reactor(h), late_cb, l))) {
        free(l);
        flux_respond_error(h, req, ENOMEM, "out of memory");
        return;
    }
    l->ctx = ctx;
    l->req = flux_msg_incref(req);
    list_init(&l->node);
    list_append(&ctx->late, &l->node);
    flux_timer_start(l->timer, 1e-6 * (double)(flux_random(h) % 20000), 0.);
}

static const struct flux_handler echo_handlers[] = {
    {FLUX_MSG_REQUEST, "echo.now", now_cb, 0},
    {FLUX_MSG_REQUEST, "echo.later", later_cb, 0},
    FLUX_HANDLER_END,
};
static const struct flux_handler spot_handlers[] = {
    {FLUX_MSG_REQUEST, "spot.now", now_cb, 0},
    {FLUX_MSG_REQUEST, "spot.later", later_cb, 0},
    FLUX_HANDLER_END,
};

static void echo_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    LIST_FOREACH_SAFE(it, tmp, &ctx->late)
    late_free(list_entry(it, struct late, node));
    flux_handlers_remove(ctx->handlers);
    free(ctx);
}

static int start(flux_t *h, const struct flux_handler *tab, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    if (!ctx)
        return errmsg_fail(err, ENOMEM, "out of memory");
    ctx->h = h;
    list_init(&ctx->late);
    if (!(ctx->handlers = flux_handlers_add(h, tab, ctx))) {
        free(ctx);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    *arg = ctx;
    return 0;
}

static int echo_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    return start(h, echo_handlers, arg, err);
}

static int spot_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    return start(h, spot_handlers, arg, err);
}

FLUX_MODULE(echo, echo_init, echo_fini);
FLUX_MODULE(spot, spot_init, echo_fini);
