/* fake_wrexec.c - the emulated launcher (t/emu/launcher.c) as a module of a session.
 *
 * With the arguments N and M its first N requests to launch and M to kill find no room, as if its
 * mailbox were full.  wrexec.stats says how many jobs run, how many were launched again, how many
 * requests were wrong, and how many are still to be refused.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libflux/log.h"
#include "emu/launcher.h"

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    launcher_t *launcher;
    unsigned again, wrong;
    unsigned refused[2]; /* launch, kill: this many requests are still to be refused */
};

static bool no_room(void *arg, bool kill)
{
    struct ctx *ctx = arg;

    if (ctx->refused[kill] == 0)
        return false;
    ctx->refused[kill]--;
    return true;
}

static void again(void *arg)
{
    struct ctx *ctx = arg;

    ctx->again++;
}

static void fail(void *arg, const char *why)
{
    struct ctx *ctx = arg;

    ctx->wrong++;
    flux_log(ctx->h, LOG_ERR, "%s", why);
}

static const struct launcher_ops ops = {.no_room = no_room, .again = again, .fail = fail};

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    char text[128];

    snprintf(text, sizeof(text), "{\"again\":%u,\"wrong\":%u,\"running\":%zu,\"busy\":%u}",
             ctx->again, ctx->wrong, launcher_running(ctx->launcher),
             ctx->refused[0] + ctx->refused[1]);
    flux_respond(h, req, text);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "wrexec.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

static void fake_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    launcher_destroy(ctx->launcher);
    free(ctx);
}

static int fake_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    if (!ctx)
        return errmsg_fail(err, ENOMEM, "out of memory for emulated tasks");
    ctx->h = h;
    for (int i = 0; i < argc && i < 2; i++)
        ctx->refused[i] = (unsigned)atoi(argv[i]);
    if (!(ctx->launcher = launcher_create(h, &ops, ctx)) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx))) {
        fake_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "out of memory for emulated tasks");
    }
    *arg = ctx;
    return 0;
}

FLUX_MODULE(wrexec, fake_init, fake_fini);
