/* module_order.c - a module that says in which order it was asked, for t/fair.t.
 *
 * "order.hold" keeps its thread until the file ORDER_MODULE_GO is there; the file ORDER_MODULE_HELD
 * says that it does.  Any other request whose last word is one small letter adds that letter, and
 * is answered.  That a sender is gone adds its letter as a large one.  "order.stats" answers with
 * all letters so far, and whether each sender's requests came in the order of their match tags.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/module.h"

#define MOST 4096
#define SENDERS 64

struct sender {
    char name[FLUX_SENDER_MAX];
    char letter;
    uint32_t tag;
};

struct ctx {
    flux_handlers_t *handlers;
    char order[MOST + 1];
    size_t n;
    bool sorted;
    struct sender senders[SENDERS];
    size_t nsenders;
};

static void add(struct ctx *ctx, char letter)
{
    if (ctx->n < MOST)
        ctx->order[ctx->n++] = letter;
}

static struct sender *find(struct ctx *ctx, const flux_msg_t *req)
{
    char name[FLUX_SENDER_MAX];

    flux_msg_sender(req, name, sizeof(name));
    for (size_t i = 0; i < ctx->nsenders; i++)
        if (strcmp(ctx->senders[i].name, name) == 0)
            return &ctx->senders[i];
    if (ctx->nsenders == SENDERS)
        return NULL;
    strcpy(ctx->senders[ctx->nsenders].name, name);
    return &ctx->senders[ctx->nsenders++];
}

static void hold_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    const char *held = getenv("ORDER_MODULE_HELD");
    const char *go = getenv("ORDER_MODULE_GO");
    int fd = held ? open(held, O_WRONLY | O_CREAT, 0600) : -1;

    if (fd >= 0)
        close(fd);
    while (go && access(go, F_OK) < 0)
        poll(NULL, 0, 10);
    flux_respond(h, req, "{}");
}

static void letter_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sender *s = find(ctx, req);
    uint32_t tag = flux_msg_matchtag(req);
    const char *word = flux_msg_topic(req) + strlen("order.");

    if (s && strlen(word) == 1) {
        s->letter = word[0];
        ctx->sorted &= tag == 0 || tag > s->tag;
        s->tag = tag;
        add(ctx, s->letter);
    }
    if (!flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE))
        flux_respond(h, req, "{}");
}

static void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    const struct sender *s = find(ctx, req);

    if (s && s->letter)
        add(ctx, (char)(s->letter - 'a' + 'A'));
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    const struct ctx *ctx = arg;
    char json[MOST + 64];

    snprintf(json, sizeof(json), "{\"order\":\"%s\",\"sorted\":%s}", ctx->order,
             ctx->sorted ? "true" : "false");
    flux_respond(h, req, json);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "order.hold", hold_cb, 0},
    {FLUX_MSG_REQUEST, "order.stats", stats_cb, 0},
    {FLUX_MSG_REQUEST, "order.disconnect", disconnect_cb, 0},
    {FLUX_MSG_REQUEST, "order.*", letter_cb, 0},
    FLUX_HANDLER_END,
};

static void order_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    free(ctx);
}

static int order_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    if (!ctx || !(ctx->handlers = flux_handlers_add(h, handlers, ctx))) {
        free(ctx);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    ctx->sorted = true;
    *arg = ctx;
    return 0;
}

FLUX_MODULE(order, order_init, order_fini);
