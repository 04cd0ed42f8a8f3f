/* module_bad.c - a module that does wrong what a module can do wrong, for t/fault-module.t.
 *
 * Its first argument says what:
 *    init-fails         init returns an error with a sentence
 *    init-silent        init returns an error without one
 *    init-exits         init ends the thread
 *    late-error         the reactor is stopped with an error and a sentence, 50 ms after init
 *    late-silent        likewise, without a sentence
 *    late-exit          the thread is ended with pthread_exit(), 50 ms after init
 *    stuck              it never returns from a C function, 50 ms after init, and makes the file
 *                       BAD_MODULE_STUCK when it is about to
 *    late-end           the reactor is stopped without an error
 *    ends-late          told to end, it waits until the file "bad.hold" is gone (see below)
 *    leaves-timer       it answers as "good" does, and its end leaves a timer behind
 *    none, or "good"    nothing: it answers "bad.echo", and keeps "bad.wait" without an answer
 * "bad.slow" blocks for SLOW_MS; "bad.slow-timer" and "bad.slow-defer" are answered by a timer and
 * a deferral that block so long.  "bad.exit" makes it end its thread while it handles a request.
 * "bad.flood" sends FLOOD requests to "sink.drop", and then makes the file BAD_MODULE_DONE.
 * "bad.fail" makes it fail, once the file "bad.hold" is gone from its broker's working directory.
 * When it is loaded by a name from the list of modules, without arguments, it waits in init until
 * the file is there whose name is in BAD_MODULE_WAIT.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/module.h"

#define LATE 0.05
#define SLOW_MS 30
#define KEPT_MAX 64
#define FLOOD 200000

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    flux_watcher_t *timer, *ending, *slow_timer, *slow_defer;
    const char *what;
    flux_msg_t *kept[KEPT_MAX];
    size_t nkept;
    unsigned lefts; /* calls of the timer that is left */
};

static void echo_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    flux_respond(h, req, "{}");
}

static void wait_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->nkept < KEPT_MAX)
        ctx->kept[ctx->nkept++] = flux_msg_incref(req);
    else
        flux_respond_error(h, req, EAGAIN, "too many wait");
}

static void slow_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    (void)poll(NULL, 0, SLOW_MS);
    flux_respond(h, req, "{}");
}

static void slow_timer_req_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    wait_cb(h, req, ctx);
    flux_timer_start(ctx->slow_timer, 0., 0.);
}

static void slow_defer_req_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    wait_cb(h, req, ctx);
    flux_watcher_start(ctx->slow_defer);
}

static void slow_watcher_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    (void)poll(NULL, 0, SLOW_MS);
    while (ctx->nkept > 0) {
        flux_respond(ctx->h, ctx->kept[--ctx->nkept], "{}");
        flux_msg_destroy(ctx->kept[ctx->nkept]);
    }
}

static void exit_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    pthread_exit(NULL);
}

/* Many messages at once. */
static void flood_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    const char *path = getenv("BAD_MODULE_DONE");
    int fd;

    for (uint32_t i = 1; i <= FLOOD; i++) {
        flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "sink.drop");

        flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
        flux_msg_set_matchtag(msg, i);
        (void)flux_send(h, msg);
    }
    if (path && (fd = open(path, O_WRONLY | O_CREAT, 0600)) >= 0)
        close(fd);
    flux_respond(h, req, "{}");
}

static void fail_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    while (access("bad.hold", F_OK) == 0)
        poll(NULL, 0, 10);
    flux_module_fail(h, EIO, "it was told to fail");
    errno = EIO;
    flux_reactor_stop(flux_get_reactor(h), -1);
}

static void late_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    if (strcmp(ctx->what, "stuck") == 0) {
        const char *path = getenv("BAD_MODULE_STUCK");
        int fd = path ? open(path, O_WRONLY | O_CREAT, 0600) : -1;

        if (fd >= 0)
            close(fd);
        for (;;)
            poll(NULL, 0, 1000);
    }
    if (strcmp(ctx->what, "late-exit") == 0)
        pthread_exit(NULL);
    if (strcmp(ctx->what, "late-error") == 0)
        flux_module_fail(ctx->h, EIO, "it was told to fail late");
    errno = EIO;
    flux_reactor_stop(r, strcmp(ctx->what, "late-end") == 0 ? 0 : -1);
}

static void end_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    if (access("bad.hold", F_OK) < 0)
        flux_reactor_stop(r, 0);
}

static bool bad_stop(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;
    bool late = strcmp(ctx->what, "ends-late") == 0;

    if (late)
        flux_timer_start(ctx->ending, 0., 0.01);
    return !late;
}

/* Counts how often it was called in this process. */
static void bad_prepare(void)
{
    const char *before = getenv("BAD_MODULE_PREPARED");
    char count[16];

    snprintf(count, sizeof(count), "%d", before ? atoi(before) + 1 : 1);
    setenv("BAD_MODULE_PREPARED", count, 1);
}

static void left_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;

    ctx->lefts++;
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "bad.echo", echo_cb, 0},
    {FLUX_MSG_REQUEST, "bad.wait", wait_cb, 0},
    {FLUX_MSG_REQUEST, "bad.exit", exit_cb, 0},
    {FLUX_MSG_REQUEST, "bad.slow", slow_cb, 0},
    {FLUX_MSG_REQUEST, "bad.slow-timer", slow_timer_req_cb, 0},
    {FLUX_MSG_REQUEST, "bad.slow-defer", slow_defer_req_cb, 0},
    {FLUX_MSG_REQUEST, "bad.fail", fail_cb, 0},
    {FLUX_MSG_REQUEST, "bad.flood", flood_cb, 0},
    FLUX_HANDLER_END,
};

static void bad_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    flux_handlers_remove(ctx->handlers);
    flux_watcher_destroy(ctx->timer);
    flux_watcher_destroy(ctx->ending);
    flux_watcher_destroy(ctx->slow_timer);
    flux_watcher_destroy(ctx->slow_defer);
    for (size_t i = 0; i < ctx->nkept; i++)
        flux_msg_destroy(ctx->kept[i]);
    free(ctx);
}

static int bad_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    const char *what = argc > 0 ? argv[0] : "";
    const char *file = getenv("BAD_MODULE_WAIT");
    struct ctx *ctx;

    while (argc == 0 && file && access(file, F_OK) < 0)
        poll(NULL, 0, 10);
    if (strcmp(what, "init-fails") == 0)
        return errmsg_fail(err, EINVAL, "it was told to fail at once");
    if (strcmp(what, "init-silent") == 0) {
        errno = ENOENT;
        return -1;
    }
    if (strcmp(what, "init-exits") == 0)
        pthread_exit(NULL);
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "out of memory");
    ctx->h = h;
    ctx->what = what;
    if (!(ctx->handlers = flux_handlers_add(h, handlers, ctx)) ||
        !(ctx->timer = flux_timer_create(flux_get_reactor(h), late_cb, ctx)) ||
        !(ctx->ending = flux_timer_create(flux_get_reactor(h), end_cb, ctx)) ||
        !(ctx->slow_timer = flux_timer_create(flux_get_reactor(h), slow_watcher_cb, ctx)) ||
        !(ctx->slow_defer = flux_defer_create(flux_get_reactor(h), slow_watcher_cb, ctx))) {
        bad_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    if (strcmp(what, "leaves-timer") == 0)
        flux_timer_start(flux_timer_create(flux_get_reactor(h), left_cb, ctx), 0., LATE);
    if (strncmp(what, "late-", 5) == 0 || strcmp(what, "stuck") == 0)
        flux_timer_start(ctx->timer, LATE, 0.);
    *arg = ctx;
    return 0;
}

FLUX_MODULE(bad, bad_init, bad_fini, .stop = bad_stop, .prepare = bad_prepare);

/* The same file under other names: of another version, and with a description of another module. */
const struct flux_module flux_module_oldabi = {
    .abi = FLUX_MODULE_ABI - 1, .name = "oldabi", .init = bad_init, .fini = bad_fini};
const struct flux_module flux_module_misnamed = {
    .abi = FLUX_MODULE_ABI, .name = "other", .init = bad_init, .fini = bad_fini};
