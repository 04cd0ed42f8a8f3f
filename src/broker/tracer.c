/* tracer.c - the service "trace", and the file of flux start --trace.
 *
 * Purpose: show which messages pass through a broker.  The core reports each one (core_set_trace())
 * while there is a listener: a client with a stream trace.watch, or a file.  A report is copied
 * into a queue, and the queue is written in the next pass of the broker's loop, so that nothing is
 * sent from inside the core's routing.
 *
 * Format: trace_wire.h describes the responses.  The file has one line of text for each message,
 * in the form of trace_line_format(); a line is written by one write() with O_APPEND, so brokers
 * may share the file.
 *
 * Invariants:
 *  1. The core has an observer only while there is a stream or a file.
 *  2. At most QUEUE_MAX reports wait.  Reports that find no room are counted, and the count is part
 *     of the next line.
 *  3. A stream ends with trace.cancel, or when its client has left: the endpoint of this service
 *     gets trace.disconnect.
 *
 * Failure: a file that can no longer be written is closed, with a message in the log.  A report for
 * which memory is short counts as one without room.  The connector disconnects a client that does
 * not read.
 */
#include "config.h"
#include "tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/cancel_wire.h"
#include "libflux/dispatch.h"
#include "libflux/log.h"
#include "libflux/trace_wire.h"
#include "libutil/invariant.h"
#include "libutil/list.h"

#define QUEUE_MAX 16384
#define STREAMS_MAX 64
#define LINE_MAX_BYTES 1024

struct report {
    struct list_node node;
    struct trace_line line;
    struct core_end from;
    struct core_end to;
    char topic[];
};

struct stream {
    struct list_node node;
    flux_msg_t *req;
    json_t *owner;
    struct trace_choice choice;
};

struct tracer {
    core_t *core;
    flux_t *h;
    endpoint_t *ep;
    flux_handlers_t *handlers;
    flux_watcher_t *flush;
    int fd; /* -1: no file */
    char *path;
    struct list_node streams;
    size_t nstreams;
    struct list_node queue; /* struct report */
    size_t queued;
    uint64_t missed;
};

/* --- reports --- */

static const char *type_name(const flux_msg_t *msg)
{
    switch (flux_msg_type(msg)) {
    case FLUX_MSG_REQUEST:
        return "request";
    case FLUX_MSG_RESPONSE:
        return "response";
    default:
        return "event";
    }
}

static double sight_cb(void *arg, const struct core_sight *s)
{
    tracer_t *t = arg;
    const char *topic = flux_msg_topic(s->msg);
    flux_reactor_t *r = core_reactor(t->core);
    double now = flux_reactor_clock(r);
    size_t len = strlen(topic);
    struct report *rep;

    if (t->queued >= QUEUE_MAX || !(rep = malloc(sizeof(*rep) + len + 1))) {
        t->missed++;
        return now;
    }
    memcpy(rep->topic, topic, len + 1);
    rep->from = s->from;
    rep->to = s->to;
    rep->from.module = s->from.module ? rep->from.name + strlen("module ") : NULL;
    rep->to.module = s->to.module ? rep->to.name + strlen("module ") : NULL;
    rep->line = (struct trace_line){
        .time = flux_reactor_wall(r),
        .rank = core_rank(t->core),
        .type = type_name(s->msg),
        .topic = rep->topic,
        .from = rep->from.name,
        .to = rep->to.name,
        .size = flux_msg_encoded_size(s->msg),
        .errnum = flux_msg_type(s->msg) == FLUX_MSG_RESPONSE ? flux_msg_errnum(s->msg) : 0,
        .latency = s->asked > 0. ? now - s->asked : -1.,
        .missed = t->missed,
    };
    t->missed = 0;
    list_append(&t->queue, &rep->node);
    if (t->queued++ == 0)
        flux_watcher_start(t->flush);
    INVARIANT(2, t->queued <= QUEUE_MAX);
    return now;
}

static void observe(tracer_t *t)
{
    core_set_trace(t->core, t->fd >= 0 || t->nstreams > 0 ? sight_cb : NULL, t);
}

/* Is the module one of the names, which have commas between them? */
static bool is_named(const char *names, const char *module)
{
    size_t len = module ? strlen(module) : 0;

    for (const char *p = names; module && *p; p += strcspn(p, ","), p += *p == ',') {
        if (strcspn(p, ",") == len && strncmp(p, module, len) == 0)
            return true;
    }
    return false;
}

static bool chosen(const struct trace_choice *choice, const struct report *rep)
{
    return flux_topic_prefix(rep->topic, choice->prefix) &&
           (!choice->modules[0] || is_named(choice->modules, rep->from.module) ||
            is_named(choice->modules, rep->to.module));
}

static void write_line(tracer_t *t, const struct report *rep)
{
    char text[LINE_MAX_BYTES];
    int len = trace_line_format(&rep->line, text, sizeof(text) - 1);

    if (len >= (int)sizeof(text) - 1)
        len = (int)sizeof(text) - 2;
    text[len++] = '\n';
    if (write(t->fd, text, (size_t)len) == len)
        return;
    flux_log(core_handle(t->core), LOG_ERR,
             "%s cannot be written any more: %s; this rank stops its trace", t->path,
             strerror(errno));
    close(t->fd);
    t->fd = -1;
    observe(t);
}

static void tell_streams(tracer_t *t, const struct report *rep)
{
    char *json = NULL;

    LIST_FOREACH_SAFE(it, tmp, &t->streams)
    {
        struct stream *st = list_entry(it, struct stream, node);

        if (!chosen(&st->choice, rep))
            continue;
        if (!json && !(json = flux_schema_encode(&trace_line_schema, &rep->line)))
            return;
        flux_respond_more(t->h, st->req, json);
    }
    free(json);
}

static void flush_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    tracer_t *t = arg;
    struct list_node *n;

    flux_watcher_stop(w);
    /* Sending a response causes no report (core_trace.c), but may end in a disconnect of its
     * client, whose other requests are then reported: those reports wait for the next time. */
    for (size_t left = t->queued; left > 0 && (n = list_first(&t->queue)); left--) {
        struct report *rep = list_entry(n, struct report, node);

        list_remove(n);
        t->queued--;
        if (t->fd >= 0)
            write_line(t, rep);
        tell_streams(t, rep);
        free(rep);
    }
    if (t->queued > 0)
        flux_watcher_start(w);
}

/* --- the service --- */

static void stream_free(tracer_t *t, struct stream *st)
{
    list_remove(&st->node);
    t->nstreams--;
    flux_msg_destroy(st->req);
    json_decref(st->owner);
    free(st);
}

static void watch_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    tracer_t *t = arg;
    struct stream *st;

    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        flux_respond_error(h, req, EPROTO,
                           "trace.watch answers with a stream: set the flag STREAMING");
        return;
    }
    if (t->nstreams >= STREAMS_MAX) {
        flux_respond_error(h, req, EAGAIN, "rank %u has %d traces already: end one of them",
                           core_rank(t->core), STREAMS_MAX);
        return;
    }
    if (!(st = calloc(1, sizeof(*st)))) {
        flux_respond_error(h, req, ENOMEM, "rank %u is out of memory for a trace",
                           core_rank(t->core));
        return;
    }
    if (flux_request_decode(h, req, &trace_choice_schema, &st->choice, &st->owner) < 0) {
        free(st);
        return;
    }
    st->req = flux_msg_incref(req);
    list_append(&t->streams, &st->node);
    t->nstreams++;
    observe(t);
}

/* End the streams of the sender of `req`: all that ended with what it says, or the one with this
 * match tag. */
static void end_streams(tracer_t *t, const flux_msg_t *req, const uint32_t *matchtag)
{
    LIST_FOREACH_SAFE(it, tmp, &t->streams)
    {
        struct stream *st = list_entry(it, struct stream, node);

        if ((!matchtag || flux_msg_matchtag(st->req) == *matchtag) &&
            flux_request_ended(st->req, req))
            stream_free(t, st);
    }
    observe(t);
}

static void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    (void)h;
    end_streams(arg, req, NULL);
}

static void cancel_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    uint32_t matchtag;

    if (cancel_decode(h, req, &matchtag) < 0)
        return;
    end_streams(arg, req, &matchtag);
    flux_respond(h, req, NULL);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "trace.watch", watch_cb, 0},
    {FLUX_MSG_REQUEST, "trace.cancel", cancel_cb, 0},
    {FLUX_MSG_REQUEST, "trace.disconnect", disconnect_cb, FLUX_ROLE_BROKER},
    FLUX_HANDLER_END,
};

/* --- the endpoint: trace.disconnect is sent only to endpoints other than the core's own --- */

static int handle_send(void *impl, flux_msg_t *msg)
{
    tracer_t *t = impl;

    core_endpoint_input(t->ep, msg);
    return 0;
}

static const struct flux_handle_ops handle_ops = {.send = handle_send};

static void endpoint_send(void *arg, flux_msg_t *msg)
{
    tracer_t *t = arg;

    flux_handle_deliver(t->h, msg);
}

static const struct endpoint_ops endpoint_ops = {.send = endpoint_send};

static int open_file(tracer_t *t, const char *path, errmsg_t *err)
{
    if (!(t->path = strdup(path)))
        return errmsg_fail(err, ENOMEM, "out of memory for the trace");
    if ((t->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) < 0)
        return errmsg_fail(err, errno, "the trace cannot be written to %s: %s", path,
                           strerror(errno));
    return 0;
}

tracer_t *tracer_create(core_t *core, const char *path, errmsg_t *err)
{
    flux_reactor_t *r = core_reactor(core);
    tracer_t *t = calloc(1, sizeof(*t));

    if (!t) {
        errmsg_fail(err, ENOMEM, "out of memory for the trace");
        return NULL;
    }
    t->core = core;
    t->fd = -1;
    list_init(&t->streams);
    list_init(&t->queue);
    if (path && open_file(t, path, err) < 0) {
        tracer_destroy(t);
        return NULL;
    }
    if (!(t->h = flux_handle_create(&handle_ops, t, r, core_rank(core), core_size(core), 0)) ||
        !(t->ep = core_endpoint_add(core, ENDPOINT_BROKER, "trace", core_userid(core),
                                    FLUX_ROLE_OWNER | FLUX_ROLE_BROKER, &endpoint_ops, t)) ||
        !(t->handlers = flux_handlers_add(t->h, handlers, t)) ||
        !(t->flush = flux_defer_create(r, flush_cb, t)) ||
        core_service_add(core, "trace", t->ep) < 0) {
        errmsg_fail(err, errno, "the service trace cannot be set up: %s", strerror(errno));
        tracer_destroy(t);
        return NULL;
    }
    observe(t);
    return t;
}

void tracer_destroy(tracer_t *t)
{
    if (t) {
        int saved = errno;
        struct list_node *n;

        core_set_trace(t->core, NULL, NULL);
        while ((n = list_first(&t->streams)))
            stream_free(t, list_entry(n, struct stream, node));
        while ((n = list_first(&t->queue))) {
            list_remove(n);
            free(list_entry(n, struct report, node));
        }
        flux_watcher_destroy(t->flush);
        core_endpoint_remove(t->ep, ENOSYS, "the broker is ending");
        flux_handlers_remove(t->handlers);
        flux_close(t->h);
        if (t->fd >= 0)
            close(t->fd);
        free(t->path);
        free(t);
        errno = saved;
    }
}
