/* module_mute.c - a module in place of wrexec that answers nothing, as one does that still has to
 * end what an earlier broker has left. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "libflux/module.h"

#define KEPT_MAX 64

struct ctx {
    flux_handlers_t *handlers;
    flux_msg_t *kept[KEPT_MAX];
    size_t n;
};

static void keep_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->n < KEPT_MAX)
        ctx->kept[ctx->n++] = flux_msg_incref(req);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "wrexec.*", keep_cb, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER},
    FLUX_HANDLER_END,
};

static void mute_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    while (ctx->n > 0)
        flux_msg_destroy(ctx->kept[--ctx->n]);
    free(ctx);
}

static int mute_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    if (!ctx || !(ctx->handlers = flux_handlers_add(h, handlers, ctx))) {
        free(ctx);
        return errmsg_fail(err, ENOMEM, "out of memory for a module that is mute");
    }
    *arg = ctx;
    return 0;
}

FLUX_MODULE(wrexec, mute_init, mute_fini);
