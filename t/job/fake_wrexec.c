/* fake_wrexec.c - stands in for wrexec: a job "runs" for as many seconds as its first argument says
 * and ends with the exit code that is the second (program names do not matter); SIGTERM is ignored
 * when the third is "deaf".  SIGKILL, or SIGTERM, ends it with that status.
 *
 * With the arguments N and M its first N requests to launch and M to kill find no room, as if its
 * mailbox were full.  wrexec.stats has how many jobs were launched, and twice, and how many
 * requests are still to be refused.
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/module.h"
#include "libutil/hmap.h"
#include "libutil/strbuf.h"
#include "libexec/wrexec_wire.h"

struct run {
    struct ctx *ctx;
    uint64_t id;
    flux_watcher_t *timer;
    int code;
    bool deaf;
};

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    flux_watcher_t *defer;
    flux_msg_t *stream;
    hmap_t *runs;
    hmap_t *seen;
    strbuf_t *ended;
    unsigned launched, twice;
    unsigned no_launch, no_kill; /* this many requests are still to be refused */
};

static void run_free(void *val)
{
    struct run *run = val;

    flux_watcher_destroy(run->timer);
    free(run);
}

static void end_run(struct run *run, int status)
{
    struct ctx *ctx = run->ctx;
    int code = status & 0x7f ? 128 + (status & 0x7f) : status >> 8;

    if (!ctx->ended)
        ctx->ended = strbuf_create(0);
    strbuf_addf(ctx->ended, "%s{\"id\":%llu,\"code\":%d,\"status\":[[%d,\"0\"]],\"t\":%.6f}",
                strbuf_len(ctx->ended) ? "," : "", (unsigned long long)run->id, code, status,
                flux_wall(ctx->h));
    hmap_del_u64(ctx->runs, run->id);
    flux_watcher_start(ctx->defer);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct run *run = arg;

    end_run(run, run->code << 8);
}

static void tell_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    strbuf_t *sb;
    char *json;

    if (!ctx->stream || !ctx->ended)
        return;
    sb = strbuf_create(0);
    strbuf_addf(sb, "{\"ended\":[%s]}", strbuf_str(ctx->ended));
    strbuf_destroy(ctx->ended);
    ctx->ended = NULL;
    json = strbuf_take(sb);
    flux_respond_more(ctx->h, ctx->stream, json);
    free(json);
}

static void jobs_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    strbuf_t *sb = strbuf_create(0);
    size_t pos = 0;
    uint64_t id;
    char *json;

    if (ctx->stream)
        flux_respond_error(h, ctx->stream, ENODATA, "another asks");
    flux_msg_destroy(ctx->stream);
    ctx->stream = flux_msg_incref(req);
    strbuf_add(sb, "{\"running\":[");
    for (int n = 0; hmap_next(ctx->runs, &pos, NULL, &id, NULL); n++)
        strbuf_addf(sb, "%s%llu", n ? "," : "", (unsigned long long)id);
    strbuf_addf(sb, "],\"ended\":[%s]}", ctx->ended ? strbuf_str(ctx->ended) : "");
    strbuf_destroy(ctx->ended);
    ctx->ended = NULL;
    json = strbuf_take(sb);
    flux_respond_more(h, req, json);
    free(json);
}

static void start(struct ctx *ctx, const struct launchrec *rec)
{
    const char *args[4] = {"", "0", "0", ""};
    struct wrexec_launch l = {0};
    struct run *run = calloc(1, sizeof(*run));
    const char *p = rec->strings;
    json_t *owner;
    errmsg_t err;

    if (!(owner = flux_schema_decode(&wrexec_launch_schema, rec->json, rec->json_len, &l, &err))) {
        flux_log(ctx->h, LOG_ERR, "%s", err.text);
        free(run);
        return;
    }
    for (uint32_t i = 0; i < WIRE_STRINGS + 2 * rec->nfiles; i++)
        p += strlen(p) + 1;
    for (uint32_t i = 0; i < rec->argc && i < 4; i++, p += strlen(p) + 1)
        args[i] = p;
    ctx->launched++;
    if (hmap_get_u64(ctx->seen, l.id))
        ctx->twice++;
    hmap_put_u64(ctx->seen, l.id, ctx);
    run->ctx = ctx;
    run->id = l.id;
    run->code = atoi(args[2]);
    run->deaf = strcmp(args[3], "deaf") == 0;
    hmap_put_u64(ctx->runs, l.id, run);
    json_decref(owner);
    if (atof(args[1]) <= 0) {
        end_run(run, run->code << 8);
        return;
    }
    run->timer = flux_timer_create(flux_get_reactor(ctx->h), timer_cb, run);
    flux_timer_start(run->timer, atof(args[1]), 0.);
}

static bool no_room(struct ctx *ctx, unsigned *times, const flux_msg_t *req)
{
    if (*times == 0)
        return false;
    --*times;
    flux_respond_error(ctx->h, req, EAGAIN, "no room");
    return true;
}

static void launch_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct launchrec rec;
    size_t len, pos = 0;
    const void *data = flux_msg_payload(req, &len);
    struct ctx *ctx = arg;
    errmsg_t err;

    if (no_room(ctx, &ctx->no_launch, req))
        return;
    while (exec_launchrec_next(data, len, &pos, &rec, &err) == 1)
        start(arg, &rec);
    flux_respond(h, req, NULL);
}

static void kill_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct wrexec_kill k;
    json_t *owner;

    if (no_room(ctx, &ctx->no_kill, req) ||
        flux_request_decode(h, req, &wrexec_kill_schema, &k, &owner) < 0)
        return;
    for (size_t i = 0; i < json_array_size(k.ids); i++) {
        struct run *run =
            hmap_get_u64(ctx->runs, (uint64_t)json_integer_value(json_array_get(k.ids, i)));

        if (run && (k.signum == SIGKILL || (k.signum == SIGTERM && !run->deaf)))
            end_run(run, k.signum);
    }
    flux_respond(h, req, "{}");
    json_decref(owner);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    char text[128];

    snprintf(text, sizeof(text), "{\"launched\":%u,\"twice\":%u,\"running\":%zu,\"busy\":%u}",
             ctx->launched, ctx->twice, hmap_count(ctx->runs), ctx->no_launch + ctx->no_kill);
    flux_respond(h, req, text);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "wrexec.jobs", jobs_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.launch", launch_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.kill", kill_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

static void fake_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    flux_watcher_destroy(ctx->defer);
    flux_msg_destroy(ctx->stream);
    hmap_destroy(ctx->runs);
    hmap_destroy(ctx->seen);
    strbuf_destroy(ctx->ended);
    free(ctx);
}

static int fake_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    ctx->h = h;
    ctx->no_launch = argc > 0 ? (unsigned)atoi(argv[0]) : 0;
    ctx->no_kill = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    ctx->runs = hmap_create_u64(run_free);
    ctx->seen = hmap_create_u64(NULL);
    ctx->defer = flux_defer_create(flux_get_reactor(h), tell_cb, ctx);
    ctx->handlers = flux_handlers_add(h, handlers, ctx);
    *arg = ctx;
    return ctx->handlers ? 0 : errmsg_fail(err, errno, "no handlers");
}

FLUX_MODULE(wrexec, fake_init, fake_fini);
