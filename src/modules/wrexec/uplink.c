/* uplink.c - the connections of an instance to its parents (interface: uplink.h).
 *
 * Invariants:
 *  1. A parent has one stream: another one with the same sender takes the place of the first.
 *  2. A parent has one request "wrexec.down" under way.  Its frames are handled in slices
 *     (libflux/slice.h); then it is answered.  A request that arrives before this instance is ready
 *     waits.
 *  3. Frames to a parent leave at the end of the pass, or once BATCH bytes wait.
 *  4. A stream that breaks while frames are handled (no memory, bad frames) is ended at the end of
 *     the pass, so the callers of uplink_send() keep their parent.
 *
 * Failure: a parent whose stream has ended on purpose learns it by an error, which ends the jobs
 * that it has sent here.
 */
#include "config.h"
#include "uplink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/slice.h"
#include "libreduce/window.h"
#include "libutil/buf.h"
#include "libutil/list.h"

#define BATCH (1u << 20)

struct uplink {
    struct list_node node;
    uplinks_t *all;
    flux_msg_t *req; /* wrexec.tree; NULL: the stream has broken */
    char sender[FLUX_SENDER_MAX];
    buf_t *out;
    struct window window;
    flux_msg_t *rest; /* request that is not handled completely */
    size_t pos;       /* place of the next frame in its payload */
};

struct uplinks {
    flux_t *h;
    const struct uplink_callbacks *cbs;
    void *arg;
    struct list_node list;
    flux_watcher_t *flusher;
    flux_watcher_t *more; /* handles the rest of requests */
    bool ready;
};

static void forget_rest(uplink_t *u)
{
    flux_msg_t *msg = u->rest;

    u->rest = NULL;
    u->pos = 0;
    flux_msg_destroy(msg);
}

/* Refuse the rest of the request while its sender lives: the broker of the sender would keep an
 * unanswered request forever. */
static void cancel_rest(uplink_t *u)
{
    if (u->rest)
        flux_respond_error(u->all->h, u->rest, ECANCELED, "the stream to rank %u has ended",
                           flux_rank(u->all->h));
    forget_rest(u);
}

static void uplink_free(uplink_t *u)
{
    if (!u)
        return;
    list_remove(&u->node);
    flux_msg_destroy(u->req);
    forget_rest(u);
    buf_destroy(u->out);
    free(u);
}

static void over(uplink_t *u, bool on_purpose)
{
    u->all->cbs->lost(u->all->arg, u, on_purpose);
    uplink_free(u);
}

static uplink_t *find(const uplinks_t *us, const char *sender)
{
    LIST_FOREACH(it, &us->list)
    {
        uplink_t *u = list_entry(it, uplink_t, node);

        if (strcmp(u->sender, sender) == 0)
            return u;
    }
    return NULL;
}

/* --- frames to a parent --- */

static void flush(uplink_t *u)
{
    size_t len = buf_len(u->out);

    if (len > 0 && u->req)
        flux_respond_more_raw(u->all->h, u->req, buf_data(u->out), len);
    buf_consume(u->out, len);
    window_reset(&u->window);
}

/* End the stream with this error, at the end of the pass. */
static void break_off(uplink_t *u, int errnum, const char *text)
{
    if (u->req)
        flux_respond_error(u->all->h, u->req, errnum, "rank %u %s", flux_rank(u->all->h), text);
    flux_msg_destroy(u->req);
    u->req = NULL;
    buf_consume(u->out, buf_len(u->out));
    flux_watcher_start(u->all->flusher);
}

void uplink_send(uplink_t *u, enum wire_type type, uint64_t job, const struct iovec *iov, int n)
{
    size_t before;

    if (!u || !u->req)
        return;
    before = buf_len(u->out);
    if (exec_wire_put(u->out, type, job, iov, n) < 0)
        break_off(u, ENOMEM, "has no memory for its answers"); /* else the parent waits forever */
    else if (window_add(&u->window, buf_len(u->out) - before))
        flush(u);
    else
        flux_watcher_start(u->all->flusher);
}

void uplinks_flush(uplinks_t *us)
{
    LIST_FOREACH_SAFE(it, tmp, &us->list)
    {
        uplink_t *u = list_entry(it, uplink_t, node);

        flush(u);
        if (!u->req)
            over(u, true);
    }
}

static void flusher_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    uplinks_flush(arg);
}

/* --- frames from a parent --- */

static void refuse_rest(uplink_t *u, const char *why)
{
    flux_t *h = u->all->h;
    char text[300];

    flux_log(h, LOG_ERR, "the instance above sent %s", why);
    flux_respond_error(h, u->rest, EPROTO, "rank %u was sent %s", flux_rank(h), why);
    forget_rest(u);
    snprintf(text, sizeof(text), "was sent %s", why);
    break_off(u, EPROTO, text);
}

/* Handle frames of the request of a parent for a slice of time. */
static void down(uplink_t *u)
{
    uplinks_t *us = u->all;
    struct flux_slice slice;
    struct wire_frame f;
    const uint8_t *data;
    ptrdiff_t used;
    errmsg_t err;
    size_t len;

    data = flux_msg_payload(u->rest, &len);
    flux_slice_begin(&slice, flux_get_reactor(us->h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while (u->pos < len && flux_slice_more(&slice)) {
        used = exec_wire_parse(data + u->pos, len - u->pos, &f, &err);
        if (used <= 0) {
            refuse_rest(u, used < 0 ? err.text : "a frame that is cut off");
            return;
        }
        us->cbs->frame(us->arg, u, &f);
        u->pos += (size_t)used;
    }
    if (u->pos < len) {
        flux_watcher_start(us->more);
        return;
    }
    flux_respond(us->h, u->rest, NULL);
    forget_rest(u);
}

static void more_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    uplinks_t *us = arg;

    flux_watcher_stop(us->more);
    LIST_FOREACH_SAFE(it, tmp, &us->list)
    {
        uplink_t *u = list_entry(it, uplink_t, node);

        if (u->rest)
            down(u);
    }
}

void uplinks_down(uplinks_t *us, const flux_msg_t *msg)
{
    char sender[FLUX_SENDER_MAX];
    uplink_t *u = find(us, flux_msg_sender(msg, sender, sizeof(sender)));

    /* The sender does not have a stream: the stream was lost or has ended. */
    if (!u || !u->req) {
        flux_respond_error(us->h, msg, ENOTCONN, "rank %u has no stream to this instance",
                           flux_rank(us->h));
    } else if (u->rest) {
        flux_respond_error(us->h, msg, EAGAIN, "rank %u is not done with the last request",
                           flux_rank(us->h));
    } else {
        u->rest = flux_msg_incref(msg);
        if (us->ready)
            down(u);
    }
}

void uplinks_ready(uplinks_t *us)
{
    us->ready = true;
    more_cb(NULL, NULL, 0, us);
}

/* --- streams --- */

static uplink_t *uplink_create(uplinks_t *us, const char *sender)
{
    uplink_t *u = calloc(1, sizeof(*u));

    if (!u || !(u->out = buf_create(0))) {
        free(u);
        return NULL;
    }
    u->all = us;
    snprintf(u->sender, sizeof(u->sender), "%s", sender);
    window_init(&u->window, (struct window_limits){.bytes = BATCH});
    list_init(&u->node);
    list_append(&us->list, &u->node);
    return u;
}

void uplinks_tree(uplinks_t *us, const flux_msg_t *req)
{
    char sender[FLUX_SENDER_MAX];
    uplink_t *u;

    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        flux_respond_error(us->h, req, EPROTO, "wrexec.tree has to be a streaming request");
        return;
    }
    if ((u = find(us, flux_msg_sender(req, sender, sizeof(sender))))) {
        if (u->req)
            flux_respond_error(us->h, u->req, ENODATA, "another has taken over");
        cancel_rest(u);
        over(u, false);
    }
    if (!(u = uplink_create(us, sender))) {
        flux_respond_error(us->h, req, ENOMEM, "rank %u has no memory for a stream",
                           flux_rank(us->h));
        return;
    }
    u->req = flux_msg_incref(req);
    /* An empty response tells the parent that the stream is open. */
    flux_respond_more_raw(us->h, req, "", 0);
}

void uplinks_gone(uplinks_t *us, const char *sender, uint32_t matchtag)
{
    uplink_t *u = find(us, sender);

    if (!u || (matchtag && (!u->req || flux_msg_matchtag(u->req) != matchtag)))
        return;
    if (matchtag) {
        flux_respond_error(us->h, u->req, ENODATA, "canceled");
        cancel_rest(u);
    }
    over(u, matchtag != 0);
}

/* --- start and end --- */

uplinks_t *uplinks_create(flux_t *h, const struct uplink_callbacks *cbs, void *arg)
{
    uplinks_t *us = calloc(1, sizeof(*us));

    if (!us)
        return NULL;
    us->h = h;
    us->cbs = cbs;
    us->arg = arg;
    list_init(&us->list);
    us->flusher = flux_defer_create(flux_get_reactor(h), flusher_cb, us);
    us->more = flux_defer_create(flux_get_reactor(h), more_cb, us);
    if (!us->flusher || !us->more) {
        uplinks_destroy(us);
        errno = ENOMEM;
        return NULL;
    }
    return us;
}

void uplinks_destroy(uplinks_t *us)
{
    int errnum = errno;
    struct list_node *n;

    if (!us)
        return;
    while ((n = list_first(&us->list))) {
        uplink_t *u = list_entry(n, uplink_t, node);

        if (u->req)
            flux_respond_error(us->h, u->req, ECONNABORTED,
                               "the wrexec module of rank %u was unloaded", flux_rank(us->h));
        uplink_free(u);
    }
    flux_watcher_destroy(us->flusher);
    flux_watcher_destroy(us->more);
    free(us);
    errno = errnum;
}

/* --- reload --- */

void uplinks_save(const uplinks_t *us, flux_handover_t *o)
{
    flux_handover_put_mark(o, "uplinks");
    LIST_FOREACH(it, &us->list)
    {
        const uplink_t *u = list_entry(it, uplink_t, node);

        flux_handover_put(o, 1);
        flux_handover_put_str(o, u->sender);
        flux_handover_put_msg(o, u->req);
        flux_handover_put_msg(o, u->rest);
        flux_handover_put(o, u->pos);
    }
    flux_handover_put(o, 0);
}

void uplinks_load(uplinks_t *us, flux_handover_t *o)
{
    flux_handover_get_mark(o, "uplinks");
    while (flux_handover_get(o, 1) == 1) {
        const char *sender = flux_handover_get_str(o);
        uplink_t *u = sender && strlen(sender) < FLUX_SENDER_MAX ? uplink_create(us, sender) : NULL;

        if (!u) {
            flux_handover_fail(o, sender ? ENOMEM : EPROTO);
            return;
        }
        u->req = flux_handover_get_msg(o);
        u->rest = flux_handover_get_msg(o);
        u->pos = flux_handover_get(o, SIZE_MAX);
    }
}

uint32_t uplink_number(const uplink_t *u)
{
    uint32_t n = 1;

    if (!u)
        return 0;
    LIST_FOREACH(it, &u->all->list)
    {
        if (it == &u->node)
            break;
        n++;
    }
    return n;
}

uplink_t *uplinks_numbered(uplinks_t *us, uint32_t number)
{
    uint32_t n = 1;

    LIST_FOREACH(it, &us->list)
    {
        if (n++ == number)
            return list_entry(it, uplink_t, node);
    }
    return NULL;
}
