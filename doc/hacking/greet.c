/* greet.c - a module that greets whoever asks, and tells the session about it.
 *
 * Messages: greet_wire.h.  After each greeting the event "greet.said" is published, with the same
 * payload as the answer.
 *
 * Invariants:
 *  1. `count` is the number of greetings that were answered.
 *
 * Failure: a name that is empty is refused with EINVAL.
 */
#include <errno.h>
#include <libflux/flux.h>
#include <stdio.h>
#include <stdlib.h>

#include "greet_wire.h"

struct ctx {
    flux_handlers_t *handlers;
    uint64_t count;
};

static void hello_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct greet_guest in;
    struct greet_words out;
    char text[128];
    json_t *owner;
    char *json;

    if (flux_request_decode(h, req, &greet_guest_schema, &in, &owner) < 0)
        return; /* it was answered with an error that names the field */
    if (!in.name[0])
        flux_respond_error(h, req, EINVAL, "the name is empty: say whom to greet");
    else {
        snprintf(text, sizeof(text), "good day, %s, from rank %u", in.name, flux_rank(h));
        out = (struct greet_words){text, ++ctx->count};
        flux_respond_struct(h, req, &greet_words_schema, &out);
        if ((json = flux_schema_encode(&greet_words_schema, &out)))
            (void)flux_event_send(h, "greet.said", json);
        free(json);
    }
    json_decref(owner);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "greet.hello", hello_cb, FLUX_ROLE_OWNER | FLUX_ROLE_USER},
    FLUX_HANDLER_END,
};

static int greet_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx;

    if (argc > 0) {
        errmsg_set(err, "greet takes no argument, not '%s'", argv[0]);
        errno = EINVAL;
        return -1;
    }
    if (!(ctx = calloc(1, sizeof(*ctx))) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx))) {
        errmsg_set(err, "the greet module is out of memory");
        free(ctx);
        return -1;
    }
    *arg = ctx;
    return 0;
}

static void greet_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    (void)h;
    flux_handlers_remove(ctx->handlers);
    free(ctx);
}

FLUX_MODULE(greet, greet_init, greet_fini);
