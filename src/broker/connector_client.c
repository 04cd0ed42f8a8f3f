/* connector_client.c - one local client: its messages in both directions.
 *
 *    state of a client   what happens                              left when (by)
 *    open                messages pass both ways                   an error frame is sent
 *                                                                  (connector_client_close), or
 *                                                                  it has gone
 *                                                                  (connector_client_kill)
 *    paused              open, but nothing is read from it         half its output and half its
 *                                                                  requests are done
 *                                                                  (connector_client_update_pause)
 *    closing             an error frame waits to be written;       it is written, or the client has
 *                        nothing is read any more; its endpoint    gone (connector_client_kill)
 *                        is removed
 *    dead                waits to be freed, as a chore             -
 *
 * Messages from a client are decoded strictly: a client that sends anything but valid requests and
 * responses gets an error frame, and is disconnected.
 *
 * Slow readers: a client for which much output waits is not read, so a client that sends requests
 * without reading the responses blocks itself.  Events and streams cannot be held back in that way:
 * a client for which far too much output waits is disconnected.
 *
 * Output is written as in conn_local.c: the first message of a pass at once, and the others
 * together at the end of the pass.  Lazy messages (FLUX_MSGF_LAZY, and the greeting of a client
 * that has sent requests already) wait for the next message to their client, while the loop has
 * work to do.
 *
 * Invariants:
 *  1. Each pass of the reactor reads at most SCRATCH_SIZE bytes from each client, and READ_SEVERAL
 *     while several clients send, so no client starves the others.  While several clients send, one
 *     that sends more than a few messages waits for its turn (turns.c), and is not read while it
 *     waits.
 *  2. Between passes the shared scratch memory holds no client's unread bytes.
 *  3. Memory for a client's output is at most cut_bytes and one message, and for that of all
 *     clients at most all_bytes and one message; for a client's input less than one frame and
 *     SCRATCH_SIZE.
 *  4. A client's state changes by the transitions of `moves` only.
 *
 * Failure: the failure of one client never harms another client, or the broker.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connector_private.h"
#include "connector_wire.h"
#include "reserve.h"
#include "libflux/local_proto.h"
#include "libutil/invariant.h"

#define FLUSH_SIZE 65536
#define HURRY 0.0005 /* seconds */

/* --- a client's state --- */

static const struct transition moves[] = {
    {CLIENT_OPEN, CLIENT_CLOSING, "connector_client_close"},
    {CLIENT_OPEN, CLIENT_DEAD, "connector_client_kill"},
    {CLIENT_CLOSING, CLIENT_DEAD, "connector_client_kill"},
    TRANSITION_END,
};

static void set_state(struct client *cl, enum client_state state)
{
    TRANSITION(4, moves, cl->state, state);
    cl->state = state;
}

void connector_client_mark(struct client *cl)
{
    list_remove(&cl->dirty_node);
    cl->put_off = false;
    list_append(&cl->cn->dirty, &cl->dirty_node);
    flux_watcher_start(cl->cn->sweep);
}

void connector_client_set_events(struct client *cl)
{
    bool reads = cl->state == CLIENT_OPEN && !cl->paused && !turns_waits(&cl->turn);
    int events = (reads ? FLUX_POLLIN : 0) | (cl->blocked ? FLUX_POLLOUT : 0);

    flux_fd_watcher_set(cl->io, events);
}

void connector_client_remove_endpoint(struct client *cl)
{
    endpoint_t *ep = cl->ep;

    cl->ep = NULL;
    core_endpoint_remove(ep, ECONNRESET, cl->why ? cl->why : "the client has gone away");
}

void connector_client_kill(struct client *cl, const char *why)
{
    if (cl->state == CLIENT_DEAD)
        return;
    set_state(cl, CLIENT_DEAD);
    cl->cn->waiting -= cl->counted;
    cl->counted = 0;
    if (!cl->why)
        cl->why = why;
    flux_watcher_stop(cl->io);
    connector_client_mark(cl);
}

void connector_say_poor(const connector_t *cn, int fd)
{
    uint8_t buf[512];
    size_t size = flux_msg_encoded_size(cn->poor);

    if (size > sizeof(buf))
        return;
    flux_msg_encode(cn->poor, buf);
    (void)send(fd, buf, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void connector_client_starve(struct client *cl, const char *why)
{
    if (cl->state == CLIENT_OPEN && outq_flush(cl->out, cl->fd) == 0)
        connector_say_poor(cl->cn, cl->fd);
    connector_client_kill(cl, why);
}

void connector_client_update_pause(struct client *cl)
{
    const struct connector_limits *lim = &cl->cn->limits;
    unsigned inflight = cl->ep && !cl->grace ? core_endpoint_inflight(cl->ep) : 0;
    bool was = cl->paused;

    if (outq_bytes(cl->out) > lim->pause_bytes || outq_messages(cl->out) > lim->pause_messages ||
        inflight > lim->pause_inflight || (cl->ep && core_endpoint_congested(cl->ep)))
        cl->paused = true;
    else if (outq_bytes(cl->out) <= lim->pause_bytes / 2 &&
             outq_messages(cl->out) <= lim->pause_messages / 2 &&
             inflight <= lim->pause_inflight / 2) /* and not congested */
        cl->paused = false;
    if (was == cl->paused)
        return;
    connector_client_set_events(cl);
    /* Messages that were read before the pause wait in the framer, not in the socket. */
    if (!cl->paused && framer_pending(cl->in))
        connector_client_mark(cl);
    if (cl->paused && !flux_watcher_active(cl->cn->retry))
        flux_timer_start(cl->cn->retry, RETRY, 0.);
}

/* After each change of the output. */
static void count_output(struct client *cl)
{
    size_t bytes = outq_bytes(cl->out);

    cl->cn->waiting += bytes - cl->counted;
    cl->counted = bytes;
    if (bytes > cl->cn->stats.queued_max)
        cl->cn->stats.queued_max = bytes;
}

void connector_client_flush(struct client *cl)
{
    int rc = outq_flush(cl->out, cl->fd);
    bool blocked = rc == 1;

    if (cl->state != CLIENT_DEAD)
        count_output(cl);
    cl->urgent = false;
    list_remove(&cl->held);
    if (rc < 0 || (rc == 0 && cl->state == CLIENT_CLOSING)) {
        connector_client_kill(cl, "the client has gone away");
        return;
    }
    if (blocked != cl->blocked) {
        cl->blocked = blocked;
        connector_client_set_events(cl);
    }
    if (cl->paused)
        connector_client_update_pause(cl);
}

void connector_client_close(struct client *cl, int errnum, const char *text)
{
    const struct local_error e = {errnum, text};
    flux_msg_t *msg = connector_control(LOCAL_ERROR, &local_error_schema, &e);

    if (msg && outq_add(cl->out, msg) == 0) {
        set_state(cl, CLIENT_CLOSING);
        cl->why = "the client was disconnected";
        connector_client_set_events(cl);
        connector_client_mark(cl);
        connector_client_flush(cl);
    } else
        connector_client_kill(cl, "the client was disconnected");
    flux_msg_destroy(msg);
}

static void cut(struct client *cl)
{
    connector_t *cn = cl->cn;

    cn->stats.cut++;
    core_log(cn->core, LOG_ERR,
             "client %d is disconnected: it has not read the %zu bytes that wait for it",
             (int)cl->pid, outq_bytes(cl->out));
    connector_client_kill(cl, "the client did not read what was sent to it");
}

/* Clients that do not read share a bound: disconnect the client for which the most bytes wait. */
static void cut_largest(connector_t *cn)
{
    struct client *largest = NULL;

    LIST_FOREACH(it, &cn->clients)
    {
        struct client *cl = list_entry(it, struct client, node);

        if (cl->state != CLIENT_DEAD && (!largest || cl->counted > largest->counted))
            largest = cl;
    }
    if (largest)
        cut(largest);
}

/* --- to the client --- */

void connector_client_hold(struct client *cl)
{
    if (list_empty(&cl->held))
        list_append(&cl->cn->held, &cl->held);
    flux_watcher_start(cl->cn->later);
}

static bool is_answer(const flux_msg_t *msg)
{
    return flux_msg_type(msg) == FLUX_MSG_RESPONSE && !flux_msg_has_flag(msg, FLUX_MSGF_STREAMING);
}

/* Is a message to a client without queued output written in this pass, or together with later
 * messages to it?  An event may go to thousands of clients, so only a few of these messages are
 * written at once. */
static bool is_written_at_once(struct client *cl, const flux_msg_t *msg, double now)
{
    connector_t *cn = cl->cn;

    if (cl->pass == now)
        return false;
    if (is_answer(msg))
        return true;
    if (cn->pass != now) {
        cn->pass = now;
        cn->written = 0;
    }
    return cn->written++ < WRITE_FEW;
}

static void client_send(void *arg, flux_msg_t *msg)
{
    struct client *cl = arg;
    size_t queued = outq_bytes(cl->out);
    double now = flux_reactor_now(cl->cn->r);
    bool lazy = flux_msg_has_flag(msg, FLUX_MSGF_LAZY);
    int rc = 0;

    if (cl->state != CLIENT_OPEN) {
        flux_msg_destroy(msg);
        return;
    }
    if (queued > cl->cn->limits.cut_bytes) {
        flux_msg_destroy(msg);
        cut(cl);
        return;
    }
    if (queued == 0 && !lazy && is_written_at_once(cl, msg, now)) {
        cl->pass = now;
        rc = outq_send(cl->out, cl->fd, msg);
        if (rc == 0 && outq_bytes(cl->out) > 0) {
            cl->blocked = true;
            connector_client_set_events(cl);
        }
    } else if ((rc = outq_add(cl->out, msg)) == 0 && !cl->blocked) {
        cl->urgent = cl->urgent || is_answer(msg);
        if (outq_bytes(cl->out) >= FLUSH_SIZE)
            connector_client_flush(cl);
        else if (lazy && list_empty(&cl->dirty_node))
            connector_client_hold(cl);
        else if (list_empty(&cl->dirty_node) || (cl->put_off && cl->urgent))
            connector_client_mark(cl);
    }
    flux_msg_destroy(msg);
    if (cl->state != CLIENT_DEAD)
        count_output(cl);
    if (cl->cn->waiting > cl->cn->limits.all_bytes)
        cut_largest(cl->cn);
    if (rc < 0 && errno == ENOMEM)
        connector_client_starve(cl, "out of memory for a message to the client");
    else if (rc < 0)
        connector_client_kill(cl, "the client has gone away");
    else if (cl->state == CLIENT_OPEN && !cl->in_input)
        connector_client_update_pause(cl);
}

const struct endpoint_ops connector_client_ops = {.send = client_send};

/* --- from the client --- */

static void broken(struct client *cl, const char *why)
{
    cl->cn->stats.broken++;
    core_log(cl->cn->core, LOG_ERR, "client %d is disconnected: %s", (int)cl->pid, why);
    connector_client_close(cl, EPROTO, why);
}

static void refuse(struct client *cl, const flux_msg_t *req, int errnum, const char *why)
{
    core_t *core = cl->cn->core;
    flux_msg_t *resp;

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE)) {
        core_log(core, LOG_ERR, "a request of client %d is dropped: %s", (int)cl->pid, why);
        return;
    }
    if (!(resp = flux_msg_response_create(req, errnum)) || flux_msg_set_json(resp, why) < 0) {
        flux_msg_destroy(resp);
        connector_client_starve(cl, "out of memory for an answer to the client");
        return;
    }
    flux_msg_set_nodeid(resp, core_rank(core));
    client_send(cl, resp);
}

void connector_no_memory(const connector_t *cn, errmsg_t *why)
{
    errmsg_set(why,
               "the broker of rank %u is out of memory: raise its limit (ulimit -v), or end "
               "something",
               core_rank(cn->core));
}

/* The reserve is for other brokers, not for what clients start. */
static const char *no_memory(connector_t *cn, errmsg_t *why)
{
    connector_no_memory(cn, why);
    if (!cn->short_logged)
        core_log(cn->core, LOG_ERR, "%s", why->text);
    cn->short_logged = true;
    return why->text;
}

/* Check a request's size, and whether there is memory for what it may need.  False if it was
 * refused. */
static bool check_request(struct client *cl, flux_msg_t *req)
{
    errmsg_t why;

    flux_msg_route_clear(req);
    if (connector_check_json(&cl->cn->limits, req, framer_dropped(cl->in), &why) < 0)
        refuse(cl, req, EMSGSIZE, why.text);
    else if (reserve_fill() < 0)
        refuse(cl, req, ENOMEM, no_memory(cl->cn, &why));
    else
        return true;
    return false;
}

/* Pass on at most `left` of the messages that were read, while the client may be read.  Returns
 * their number. */
static unsigned handle_input(struct client *cl, unsigned left)
{
    unsigned n = 0;
    flux_msg_t *msg = NULL;
    errmsg_t err;

    cl->in_input = true;
    connector_client_update_pause(
        cl); /* other clients of its process may have used up the room since the read */
    for (; cl->state == CLIENT_OPEN && !cl->paused && n < left; n++) {
        if (!(msg = framer_next(cl->in, &err)))
            break;
        switch (flux_msg_type(msg)) {
        case FLUX_MSG_REQUEST:
            if (check_request(cl, msg))
                core_endpoint_input(cl->ep, msg);
            else
                flux_msg_destroy(msg);
            break;
        case FLUX_MSG_RESPONSE:
            core_endpoint_input(cl->ep, msg);
            break;
        default:
            flux_msg_destroy(msg);
            broken(cl, "a client may send requests and responses only");
            break;
        }
        if (cl->state == CLIENT_OPEN)
            connector_client_update_pause(cl);
    }
    cl->in_input = false;
    cl->grace = false;
    if (cl->state != CLIENT_OPEN)
        return n;
    if (!msg && !cl->paused && errno != EAGAIN)
        broken(cl, err.text);
    else if (framer_park(cl->in) < 0)
        connector_client_starve(cl, "out of memory for the client's messages");
    return n;
}

unsigned connector_client_read(struct client *cl, unsigned left)
{
    connector_t *cn = cl->cn;
    ssize_t n;

    /* Messages that were read before a pause or a turn come first, and are enough for one pass. */
    if (framer_pending(cl->in))
        return handle_input(cl, left);
    framer_set_read_max(cl->in, left < UINT_MAX ? READ_SEVERAL : 0);
    n = framer_read(cl->in, cl->fd, cn->scratch, SCRATCH_SIZE, false);
    if (n > 0)
        return handle_input(cl, left);
    if (n == 0)
        connector_client_kill(cl, "the client has gone away");
    else if (errno == ENOMEM)
        connector_client_starve(cl, "out of memory for the client's messages");
    else if (errno != EAGAIN && errno != EINTR)
        connector_client_kill(cl, "the client has gone away");
    return 0;
}

/* The remaining messages of the client wait for its turn. */
static void wait_for_turn(struct client *cl)
{
    turns_wait(cl->cn->turns, &cl->turn);
    connector_client_set_events(cl);
    chores_wake(cl->cn->chores);
}

bool connector_client_has_more(const struct client *cl)
{
    return cl->state == CLIENT_OPEN && !cl->paused && framer_pending(cl->in);
}

/* The loop hurries for a client that has sent a few messages, until modules have answered. */
static void pass_on(struct client *cl, unsigned left)
{
    unsigned n = connector_client_read(cl, left);

    turns_used(&cl->turn, n);
    if (n > 0 && n <= TURNS_FEW)
        flux_reactor_hurry(cl->cn->r, flux_reactor_clock(cl->cn->r) + HURRY);
}

void connector_client_take_input(struct client *cl)
{
    connector_t *cn = cl->cn;
    double now = flux_reactor_now(cn->r);
    unsigned left = turns_share(cn->turns, &cl->turn, now);

    core_set_several(cn->core, turns_several(cn->turns, now));
    if (left > 0)
        pass_on(cl, left);
    if (left == 0 || connector_client_has_more(cl))
        wait_for_turn(cl);
}

void connector_client_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct client *cl = arg;

    if (cl->state != CLIENT_DEAD && (revents & FLUX_POLLOUT))
        connector_client_flush(cl);
    if (cl->state == CLIENT_OPEN && (revents & (FLUX_POLLIN | FLUX_POLLERR)) && !cl->paused &&
        !turns_waits(&cl->turn))
        connector_client_take_input(cl);
    else if (cl->state == CLIENT_CLOSING && (revents & FLUX_POLLERR))
        connector_client_kill(cl, "the client has gone away");
}

/* --- the end --- */

void connector_client_free(struct client *cl)
{
    if (cl) {
        int saved = errno;
        turns_leave(cl->cn->turns, &cl->turn);
        list_remove(&cl->node);
        list_remove(&cl->dirty_node);
        list_remove(&cl->held);
        flux_watcher_destroy(cl->io);
        framer_destroy(cl->in);
        outq_destroy(cl->out);
        if (cl->fd >= 0)
            close(cl->fd);
        free(cl);
        errno = saved;
    }
}
