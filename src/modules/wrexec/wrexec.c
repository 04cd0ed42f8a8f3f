/* wrexec - the module that runs programs: jobs (flux wreckrun) and flux exec.
 *
 * An instance at every rank.  Rank 0's gives a job its id and its place (root.c); the request then
 * goes down the tree, and output and results come up (job.c); at each rank the launcher, a process
 * of its own, starts the tasks (exec.c, launcher.c); MPI programs find each other by PMI over the
 * key-value store (pmi.c); the store keeps a record (record.c).  Messages: proto.h; to the
 * launcher: wire.h.
 *
 *  1. The module never waits; what tells it something is the launcher's socket, or a message.
 *  2. A job belongs to the request it came with.  When who asked is gone (disconnect, cancel), so
 *     is the job: all the way down, since each instance is the client of the one above.
 *  3. When the module is unloaded, or its broker goes, the launcher sees its connection end, and no
 *     task stays.
 *
 * Failure: a rank that cannot start its tasks, a launcher or a rank that is lost: the job ends with
 * an exit code that is not 0, and a sentence.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libflux/proto_cancel.h"
#include "libflux/proto_overlay.h"
#include "libutil/le.h"
#include "names.h"

struct stats {
    uint64_t jobs;
    uint64_t running;
    int launcher;
    uint32_t launchers;
};
static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct stats, jobs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, running, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct stats, launcher, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct stats, launchers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema stats_schema = FLUX_SCHEMA(struct stats, stats_fields);

/* --- from above --- */

static int try_start(struct ctx *ctx, const flux_msg_t *req, errmsg_t *err)
{
    struct wrexec_start start = {0};
    struct jobreq strings;
    const void *data;
    struct job *j = NULL;
    json_t *owner;
    size_t len;

    if (!ctx->topo)
        return errmsg_fail(err, EAGAIN, "rank %u does not know its place yet", ctx->rank);
    data = flux_msg_payload(req, &len);
    if (jobreq_decode(data, len, &strings, err) < 0)
        return -1;
    owner = flux_schema_decode(&wrexec_start_schema, strings.json, strings.json_len, &start, err);
    if (!owner)
        return -1;
    j = job_create(ctx, &start, err);
    json_decref(owner);
    if (!j)
        return -1;
    j->req = flux_msg_incref(req);
    job_launch(j, &strings, data, len);
    job_check(j);
    return 0;
}

static void start_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    errmsg_t err;

    if (try_start(arg, req, &err) < 0)
        flux_respond_error(h, req, errno, "%s", err.text);
}

static void ctl_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct wrexec_signal s;
    struct job *j;
    json_t *owner;

    if (flux_request_decode(h, req, &wrexec_signal_schema, &s, &owner) < 0)
        return;
    if ((j = hmap_get_u64(ctx->jobs, s.id)) && !j->rj)
        job_signal(j, s.signum);
    json_decref(owner);
}

static void credit_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    size_t len;
    const uint8_t *data = flux_msg_payload(req, &len);
    struct job *j;

    if (len != WREXEC_CREDIT_SIZE)
        return;
    if ((j = hmap_get_u64(ctx->jobs, le_get64(data))))
        job_credit(j, le_get32(data + 8));
}

/* Whoever asked is gone, or (matchtag) does not want one answer any more. */
static void gone(struct ctx *ctx, const flux_msg_t *msg, uint32_t matchtag)
{
    char sender[FLUX_SENDER_MAX], theirs[FLUX_SENDER_MAX];
    size_t pos = 0;
    void *val;

    flux_msg_sender(msg, sender, sizeof(sender));
    if (ctx->root)
        root_client_gone(ctx->root, sender, matchtag);
    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        struct job *j = val;

        if (!j->rj && j->req && (!matchtag || flux_msg_matchtag(j->req) == matchtag) &&
            strcmp(flux_msg_sender(j->req, theirs, sizeof(theirs)), sender) == 0)
            job_abandon(j);
    }
}

static void disconnect_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    gone(arg, msg, 0);
}

static void cancel_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct cancel c;
    json_t *owner;

    if (flux_request_decode(h, msg, &cancel_schema, &c, &owner) < 0)
        return;
    gone(arg, msg, c.matchtag);
    json_decref(owner);
}

static void name_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->names)
        names_request(ctx->names, req);
    else
        flux_respond_error(h, req, ENOSYS, "names are kept at rank 0");
}

static bool job_runs(void *arg, uint64_t id)
{
    struct ctx *ctx = arg;

    return hmap_get_u64(ctx->jobs, id) != NULL;
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct stats st = {ctx->njobs, hmap_count(ctx->jobs), exec_pid(ctx->exec),
                       exec_started(ctx->exec)};

    flux_respond_struct(h, req, &stats_schema, &st);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "wrexec.run", root_run, 0},
    {FLUX_MSG_REQUEST, "wrexec.signal", root_signal, 0},
    {FLUX_MSG_REQUEST, "wrexec.list", root_list, 0},
    {FLUX_MSG_REQUEST, "wrexec.stdin", root_stdin, 0},
    {FLUX_MSG_REQUEST, "wrexec.credit", credit_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.start", start_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.ctl", ctl_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.disconnect", disconnect_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.cancel", cancel_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.name", name_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.stats", stats_cb, 0},
    {FLUX_MSG_EVENT, "overlay.", root_overlay_event, 0},
    FLUX_HANDLER_END,
};

/* --- from the launcher --- */

static void exec_frame(void *arg, const struct wire_frame *f)
{
    struct ctx *ctx = arg;
    struct job *j = hmap_get_u64(ctx->jobs, f->job);

    if (j)
        job_frame(j, f);
}

static void exec_lost(void *arg, const char *why)
{
    struct ctx *ctx = arg;
    size_t pos = 0;
    void *val;

    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val))
        job_launcher_lost(val, why);
}

static const struct exec_callbacks exec_callbacks = {exec_frame, exec_lost};

/* --- life --- */

static void reaper_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct list_node *n;

    while ((n = list_first(&ctx->over)))
        job_free(list_entry(n, struct job, over));
}

static void topology_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;
    struct overlay_shape s = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &overlay_shape_schema, &s, &err) == 0) {
        if (s.file[0])
            ctx->topo = topology_create_text(s.file, strlen(s.file), s.topology, s.size, &err);
        else
            ctx->topo = topology_create(s.topology, s.size, &err);
    }
    if (!ctx->topo)
        flux_log(ctx->h, LOG_ERR, "the shape of the tree is not known: %s", err.text);
    flux_future_destroy(f);
}

static void uri_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;
    const char *uri;

    if (flux_attr_future_get(f, &uri, NULL) == 0)
        exec_set_uri(ctx->exec, uri);
    flux_future_destroy(f);
}

/* Ask, and go on. */
static int ask(flux_future_t *f, flux_future_f cb, struct ctx *ctx)
{
    if (f && flux_future_then(f, -1., cb, ctx) == 0)
        return 0;
    flux_future_destroy(f);
    return -1;
}

static void wrexec_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;
    size_t pos = 0;
    void *val;

    flux_handlers_remove(ctx->handlers);
    /* First the tasks; then who waits for them. */
    exec_destroy(ctx->exec);
    ctx->exec = NULL;
    while (ctx->jobs && hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        struct job *j = val;

        if (j->req)
            flux_respond_error(h, j->req, ECONNABORTED, "the wrexec module of rank %u was unloaded",
                               ctx->rank);
        job_free(j);
    }
    root_destroy(ctx->root);
    names_destroy(ctx->names);
    hmap_destroy(ctx->jobs);
    flux_watcher_destroy(ctx->reaper);
    topology_destroy(ctx->topo);
    free(ctx);
}

static int wrexec_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx = calloc(1, sizeof(*ctx));

    if (!ctx)
        return errmsg_fail(err, ENOMEM, "the wrexec module is out of memory");
    ctx->h = h;
    ctx->rank = flux_rank(h);
    ctx->size = flux_size(h);
    list_init(&ctx->over);
    ctx->jobs = hmap_create_u64(NULL);
    ctx->reaper = flux_defer_create(flux_get_reactor(h), reaper_cb, ctx);
    ctx->exec = exec_create(h, &exec_callbacks, ctx);
    if (!ctx->jobs || !ctx->reaper || !ctx->exec ||
        (ctx->rank == 0 &&
         (!(ctx->root = root_create(ctx)) || !(ctx->names = names_create(h, job_runs, ctx)))) ||
        !(ctx->handlers = flux_handlers_add(h, handlers, ctx)) ||
        ask(flux_rpc(h, "overlay.topology", NULL, ctx->rank, 0), topology_cb, ctx) < 0 ||
        ask(flux_attr_get_async(h, "uri"), uri_cb, ctx) < 0) {
        wrexec_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "the wrexec module is out of memory");
    }
    if (ctx->rank == 0)
        flux_future_destroy(flux_event_subscribe(h, "overlay."));
    *arg = ctx;
    return 0;
}

FLUX_MODULE(wrexec, wrexec_init, wrexec_fini);
