/* fake_sched.c - stands in for the scheduler: a job gets a core when one of `cores=N` (4) is free,
 * in the order of ids, whatever its urgency, unless that is 0.
 *
 *    sched.again   {} -> {}: it has forgotten everything and begins anew
 *    sched.cross   {"id"} -> {}: the next remove of this id is crossed by an alloc
 *
 * It checks what it is fed: a free of what has no core, an add of what is there, more than it
 * allows: sched.stats has how often, under "wrong".
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libflux/module.h"
#include "libidset/idset.h"
#include "libsched/sched_wire.h"
#include "libutil/hmap.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    flux_msg_t *attached;
    uint64_t generation;
    bool enabled;
    uint32_t ncores;
    idset_t *queue;  /* ids */
    idset_t *held;   /* ids with urgency 0 */
    idset_t *cores;  /* free ones */
    hmap_t *running; /* id -> core + 1 */
    uint64_t cross;
    unsigned wrong, adds, frees;
};

static void give(struct ctx *ctx, strbuf_t *sb, uint32_t id)
{
    uint32_t core = idset_first(ctx->cores);

    idset_clear(ctx->cores, core);
    idset_clear(ctx->queue, id);
    hmap_put_u64(ctx->running, id, (void *)(uintptr_t)(core + 1));
    strbuf_addf(sb,
                "%s{\"id\":%u,\"R\":{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0\","
                "\"children\":{\"core\":\"%u\"}}],\"nodelist\":[\"one\"],\"starttime\":0,"
                "\"expiration\":0}},\"t\":1.5}",
                strbuf_len(sb) > 10 ? "," : "", id, core);
}

static void say_allocs(struct ctx *ctx, strbuf_t *sb)
{
    char *json;

    strbuf_add(sb, "]}");
    json = strbuf_take(sb);
    flux_respond_more(ctx->h, ctx->attached, json);
    free(json);
}

static void pass(struct ctx *ctx)
{
    strbuf_t *sb = strbuf_create(0);
    uint32_t id = idset_first(ctx->queue), next;

    strbuf_add(sb, "{\"alloc\":[");
    for (; ctx->enabled && id != IDSET_NONE && !idset_empty(ctx->cores); id = next) {
        next = idset_next(ctx->queue, id);
        if (!idset_test(ctx->held, id))
            give(ctx, sb, id);
    }
    if (strbuf_len(sb) > 10)
        say_allocs(ctx, sb);
    else
        strbuf_destroy(sb);
}

static void begin_anew(struct ctx *ctx)
{
    char text[64];

    hmap_destroy(ctx->running);
    idset_destroy(ctx->queue);
    idset_destroy(ctx->held);
    idset_destroy(ctx->cores);
    ctx->running = hmap_create_u64(NULL);
    ctx->queue = idset_create();
    ctx->held = idset_create();
    ctx->cores = idset_create_range(0, ctx->ncores - 1);
    ctx->enabled = false;
    snprintf(text, sizeof(text), "{\"attached\":%llu}", (unsigned long long)++ctx->generation);
    if (ctx->attached)
        flux_respond_more(ctx->h, ctx->attached, text);
}

static void attach_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    flux_msg_destroy(ctx->attached);
    ctx->attached = flux_msg_incref(req);
    begin_anew(ctx);
}

static void release(struct ctx *ctx, uint32_t id)
{
    uintptr_t core = (uintptr_t)hmap_take_u64(ctx->running, id);

    ctx->frees++;
    if (core)
        idset_set(ctx->cores, (uint32_t)core - 1);
    else
        ctx->wrong++;
}

static void take_running(struct ctx *ctx, const json_t *entry)
{
    uint32_t id = (uint32_t)json_integer_value(json_object_get(entry, "id"));
    uint32_t core = idset_first(ctx->cores);

    if (core == IDSET_NONE || ctx->enabled)
        ctx->wrong++;
    else
        idset_clear(ctx->cores, core);
    hmap_put_u64(ctx->running, id, (void *)(uintptr_t)(core + 1));
}

static void take_add(struct ctx *ctx, const json_t *entry)
{
    struct sched_wire_add a;
    errmsg_t err;

    ctx->adds++;
    if (flux_schema_decode_json(&sched_wire_add_schema, entry, &a, &err) < 0 ||
        idset_test(ctx->queue, (uint32_t)a.id) || hmap_get_u64(ctx->running, a.id)) {
        ctx->wrong++;
        return;
    }
    idset_set(ctx->queue, (uint32_t)a.id);
    if (a.urgency == 0)
        idset_set(ctx->held, (uint32_t)a.id);
}

static void take_remove(struct ctx *ctx, uint32_t id)
{
    if (id == ctx->cross && idset_test(ctx->queue, id) && !idset_empty(ctx->cores)) {
        strbuf_t *sb = strbuf_create(0);

        strbuf_add(sb, "{\"alloc\":[");
        give(ctx, sb, id);
        say_allocs(ctx, sb);
        return;
    }
    idset_clear(ctx->queue, id);
    idset_clear(ctx->held, id);
}

static void feed_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct sched_feed f = {0};
    json_t *owner;

    if (flux_request_decode(h, req, &sched_feed_schema, &f, &owner) < 0) {
        ctx->wrong++;
        return;
    }
    flux_respond(h, req, "{}");
    for (size_t i = 0; f.generation == ctx->generation && i < json_array_size(f.running); i++)
        take_running(ctx, json_array_get(f.running, i));
    for (size_t i = 0; f.generation == ctx->generation && i < json_array_size(f.free); i++)
        release(ctx, (uint32_t)json_integer_value(json_array_get(f.free, i)));
    for (size_t i = 0; f.generation == ctx->generation && i < json_array_size(f.add); i++)
        take_add(ctx, json_array_get(f.add, i));
    for (size_t i = 0; i < json_array_size(f.urgency); i++) {
        const json_t *pair = json_array_get(f.urgency, i);
        uint32_t id = (uint32_t)json_integer_value(json_array_get(pair, 0));

        if (json_integer_value(json_array_get(pair, 1)) == 0)
            idset_set(ctx->held, id);
        else
            idset_clear(ctx->held, id);
    }
    for (size_t i = 0; i < json_array_size(f.remove); i++)
        take_remove(ctx, (uint32_t)json_integer_value(json_array_get(f.remove, i)));
    if (f.enabled)
        ctx->enabled = json_is_true(f.enabled);
    json_decref(owner);
    pass(ctx);
}

static void again_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    begin_anew(arg);
    flux_respond(h, req, "{}");
}

static void cross_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    json_t *obj = json_loads(flux_msg_json(req), 0, NULL);

    ctx->cross = (uint64_t)json_integer_value(json_object_get(obj, "id"));
    json_decref(obj);
    flux_respond(h, req, "{}");
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    char text[160];

    snprintf(text, sizeof(text),
             "{\"wrong\":%u,\"adds\":%u,\"frees\":%u,\"queued\":%zu,\"running\":%zu}", ctx->wrong,
             ctx->adds, ctx->frees, idset_count(ctx->queue), hmap_count(ctx->running));
    flux_respond(h, req, text);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "sched.attach", attach_cb, 0},
    {FLUX_MSG_REQUEST, "sched.feed", feed_cb, 0},
    {FLUX_MSG_REQUEST, "sched.again", again_cb, 0},
    {FLUX_MSG_REQUEST, "sched.cross", cross_cb, 0},
    {FLUX_MSG_REQUEST, "sched.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

static void fake_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    flux_msg_destroy(ctx->attached);
    hmap_destroy(ctx->running);
    idset_destroy(ctx->queue);
    idset_destroy(ctx->held);
    idset_destroy(ctx->cores);
    free(ctx);
}

static int fake_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    ctx->h = h;
    ctx->ncores = 4;
    for (int i = 0; i < argc; i++)
        if (str_starts(argv[i], "cores="))
            str2u32(argv[i] + 6, &ctx->ncores);
    ctx->handlers = flux_handlers_add(h, handlers, ctx);
    *arg = ctx;
    return ctx->handlers ? 0 : errmsg_fail(err, errno, "no handlers");
}

FLUX_MODULE(sched, fake_init, fake_fini);
