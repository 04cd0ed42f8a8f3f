/* hello.c - a module outside the tree: answers hello.greet. */
#include <libflux/flux.h>
#include <errno.h>
#include <stdio.h>

static void greet_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    char json[64];

    snprintf(json, sizeof(json), "{\"text\":\"good day\",\"rank\":%u}", flux_rank(h));
    flux_respond(h, req, json);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "hello.greet", greet_cb, 0},
    FLUX_HANDLER_END,
};

static int hello_init(flux_t *h, int argc, char **argv, void **ctx, errmsg_t *err)
{
    if (!(*ctx = flux_handlers_add(h, handlers, NULL))) {
        errmsg_set(err, "out of memory");
        return -1;
    }
    return 0;
}

static void hello_fini(flux_t *h, void *ctx)
{
    flux_handlers_remove(ctx);
}

FLUX_MODULE(hello, hello_init, hello_fini);
