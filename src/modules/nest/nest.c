/* nest.c - a session that runs as a job reports its address to the parent session.
 *
 * One instance, at the root, of a session that runs as a job of another (FLUX_JOB_ID in the
 * broker's environment; the broker does not load it otherwise).  When the session runs, it connects
 * to the parent's broker on this node and sends
 *
 *    job.memo {"id":N,"uri":"flux://HOST/PATH?rank=R"}
 *
 * to the parent's job service: PATH is the socket of this session's rank 0, HOST its host, R the
 * rank of the parent's broker there.  flux proxy and flux pstree find the session by this address.
 *
 *    nest.stats  {}  ->  {"state":"waiting|asked|told|alone","uri"}
 *
 *    state      what happens                                      left when (by)
 *    waiting    the session comes up                              overlay.run, or status "run"
 *                                                                 (begin); no memory (alone)
 *    asked      the address was sent, and is not answered         answer (memo_cb, alone)
 *    told       it knows                                          never
 *    alone      it could not be notified; the log says why        never
 *
 * The connection is closed after the answer: the parent ends its job by signals.
 *
 * Invariants:
 *  1. This module never blocks on the parent, whose broker may be stopped, or too busy to greet.
 *     It waits for the greeting in the reactor, so that this session can end meanwhile.
 *  2. The state changes by the transitions of `moves` only.
 *
 * Failure: if the parent does not respond for PARENT_PATIENCE seconds, that is logged, and the
 * address is sent as soon as the parent responds; a refusal or the end of the parent is logged.
 * The session works without the parent, but cannot be found from there.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libflux/module.h"
#include "libjob/job.h"
#include "libservice/session.h"
#include "libservice/setup.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"
#include "nest_wire.h"

#define PARENT_PATIENCE 30.
#define AGAIN 0.5 /* seconds until the next attempt when the parent's backlog is full */

enum state { WAITING, ASKED, TOLD, ALONE };

static const char *const state_names[] = {"waiting", "asked", "told", "alone"};

static const struct transition moves[] = {
    {WAITING, ASKED, "begin"},
    {WAITING, ALONE, "begin, ready"},
    {ASKED, TOLD, "memo_cb"},
    {ASKED, ALONE, "alone"},
    TRANSITION_END,
};

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    session_t *session;
    setup_t *setup;
    int fd; /* connection to the parent, until its greeting; -1: none */
    flux_watcher_t *greeting;
    flux_watcher_t *again;
    flux_watcher_t *patience;
    flux_t *parent;
    flux_future_t *memo;
    flux_watcher_t *later; /* the connection is closed outside of its own callbacks */
    enum state state;
    uint64_t id;
    char *own; /* the socket of this session */
    char uri[400];
};

static void hang_up_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    flux_future_destroy(ctx->memo);
    ctx->memo = NULL;
    flux_close(ctx->parent);
    ctx->parent = NULL;
}

static void set_state(struct ctx *ctx, enum state state)
{
    TRANSITION(2, moves, ctx->state, state);
    ctx->state = state;
}

static void alone(struct ctx *ctx, const char *why)
{
    set_state(ctx, ALONE);
    flux_watcher_stop(ctx->patience);
    flux_log(ctx->h, LOG_WARNING, "the parent session does not know where job %" PRIu64 " is: %s",
             ctx->id, why);
}

static void memo_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;

    if (flux_future_errnum(f))
        alone(ctx, flux_future_error(f));
    else
        set_state(ctx, TOLD);
    flux_watcher_stop(ctx->patience);
    flux_watcher_start(ctx->later);
}

static void tell(struct ctx *ctx)
{
    char host[256] = "";

    if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
        strcpy(host, "localhost");
    if (snprintf(ctx->uri, sizeof(ctx->uri), "flux://%s%s?rank=%u", host,
                 ctx->own + strlen("local://"), flux_rank(ctx->parent)) >= (int)sizeof(ctx->uri)) {
        alone(ctx, "its address is too long");
        return;
    }
    ctx->memo = flux_job_memo(ctx->parent, ctx->id, ctx->uri);
    if (!ctx->memo || flux_future_then(ctx->memo, -1., memo_cb, ctx) < 0)
        alone(ctx, "out of memory");
}

/* --- the connection to the parent --- */

static void hang_up(struct ctx *ctx)
{
    flux_watcher_destroy(ctx->greeting);
    ctx->greeting = NULL;
    if (ctx->fd >= 0)
        close(ctx->fd);
    ctx->fd = -1;
}

/* The greeting arrived (in one piece), or the connection is closed. */
static void greeting_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    char uri[32];
    errmsg_t err;

    snprintf(uri, sizeof(uri), "fd://%d", ctx->fd);
    flux_watcher_stop(w);
    ctx->fd = -1; /* flux_open() takes it over, or closes it */
    if (!(ctx->parent = flux_open(uri, r, &err)))
        alone(ctx, err.text);
    else
        tell(ctx);
}

static void call(struct ctx *ctx)
{
    const char *path = getenv("FLUX_URI") + strlen("local://");
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(sun.sun_path)) {
        alone(ctx, "the path of its socket is too long");
        return;
    }
    strcpy(sun.sun_path, path);
    if ((ctx->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0) {
        alone(ctx, strerror(errno));
        return;
    }
    if (connect(ctx->fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
        int errnum = errno;

        hang_up(ctx);
        if (errnum == EAGAIN || errnum == EINTR)
            flux_timer_start(ctx->again, AGAIN, 0.);
        else
            alone(ctx, strerror(errnum));
        return;
    }
    if (!(ctx->greeting = flux_fd_watcher_create(flux_get_reactor(ctx->h), ctx->fd, FLUX_POLLIN,
                                                 greeting_cb, ctx)))
        alone(ctx, "out of memory");
    else
        flux_watcher_start(ctx->greeting);
}

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    call(arg);
}

static void patience_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    flux_log(ctx->h, LOG_WARNING,
             "the parent session has not answered for %g s: job %" PRIu64
             " cannot be found from there",
             PARENT_PATIENCE, ctx->id);
}

/* Handle the start of the session. */
static void begin(void *arg)
{
    struct ctx *ctx = arg;

    if (!str_starts(ctx->own, "local://"))
        alone(ctx, "this session has no socket");
    else {
        set_state(ctx, ASKED);
        flux_timer_start(ctx->patience, PARENT_PATIENCE, 0.);
        call(ctx);
    }
}

static const struct session_ops session_ops = {.runs = begin};

static void ready(void *arg)
{
    struct ctx *ctx = arg;

    if (!(ctx->session = session_create(ctx->h, &session_ops, ctx)))
        alone(ctx, "out of memory");
}

static const struct setup_row rows[] = {
    SETUP_TEXT("uri", struct ctx, own),
    SETUP_END,
};
static const struct setup_table settings = {"nest", rows, ready, NULL};

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct nest_stats st = {state_names[ctx->state], ctx->uri[0] ? ctx->uri : NULL};

    flux_respond_struct(h, req, &nest_stats_schema, &st);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "nest.stats", stats_cb, FLUX_ROLE_OWNER},
    FLUX_HANDLER_END,
};

static void nest_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    setup_destroy(ctx->setup);
    session_destroy(ctx->session);
    flux_future_destroy(ctx->memo);
    flux_close(ctx->parent);
    hang_up(ctx);
    flux_watcher_destroy(ctx->again);
    flux_watcher_destroy(ctx->patience);
    flux_watcher_destroy(ctx->later);
    flux_handlers_remove(ctx->handlers);
    free(ctx->own);
    free(ctx);
}

static int nest_init(flux_t *h, int argc, char **argv, void **out, errmsg_t *err)
{
    const char *id = getenv("FLUX_JOB_ID");
    struct ctx *ctx;

    if (setup_root_only(h, "nest", err) < 0 || setup_no_arguments("nest", argc, argv, err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "out of memory");
    ctx->h = h;
    ctx->fd = -1;
    ctx->state = WAITING;
    if (!id || str2u64(id, &ctx->id) < 0 || !str_starts(getenv("FLUX_URI"), "local:///")) {
        free(ctx);
        return errmsg_fail(err, EINVAL,
                           "this session is not a job of another: there is nobody to tell");
    }
    if (!(ctx->handlers = flux_handlers_add(h, handlers, ctx)) ||
        !(ctx->later = flux_defer_create(flux_get_reactor(h), hang_up_cb, ctx)) ||
        !(ctx->again = flux_timer_create(flux_get_reactor(h), again_cb, ctx)) ||
        !(ctx->patience = flux_timer_create(flux_get_reactor(h), patience_cb, ctx)) ||
        !(ctx->setup = setup_create(h, &settings, ctx, 0, NULL, err))) {
        nest_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    *out = ctx;
    return 0;
}

FLUX_MODULE(nest, nest_init, nest_fini);
