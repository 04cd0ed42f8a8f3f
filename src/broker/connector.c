/* connector.c - connections of local clients.
 *
 *    state of a client   what happens                                left when (by)
 *    open                messages pass both ways                     see below (close_with_error,
 *                                                                    kill_client)
 *    paused              open, but nothing is read from it           half its output and half its
 *                                                                    requests are done
 *                                                                    (update_pause)
 *    closing             an error frame waits to be written;         it is written, or the client
 *                        nothing is read any more; its endpoint is   is gone (kill_client)
 *                        removed
 *    dead                waits to be freed, as a chore               -
 *
 * Admission: the kernel tells who a client is (SO_PEERCRED).  The owner of the session and root are
 * admitted; others get an error frame.  Messages from a client are decoded strictly: one that sends
 * anything but valid requests and responses gets an error frame too, and is disconnected.
 *
 * Slow readers: a client for which much waits is not read, so a client that sends requests without
 * reading the responses blocks itself.  Events and streams cannot be held back in that way: a
 * client for which far too much waits is disconnected.
 *
 * Output is written as in conn_local.c: the first message of a pass at once, and the others
 * together at the end of the pass.  Lazy ones (FLUX_MSGF_LAZY, and the greeting of a client that
 * has sent requests already) wait for the next one to their client, while the loop has work to do.
 *
 * Invariants:
 *  1. Each pass of the reactor reads at most SCRATCH_SIZE bytes from each client, and READ_SEVERAL
 *     while several clients send, so no client starves the others.  While several clients send, one
 *     that sends more than a few messages waits for its turn (turns.c), and is not read while it
 *     waits.  Chores (to accept clients, to serve those that wait, to write to many, to free dead
 *     ones) are done in portions (chores.c).
 *  2. Between passes the shared scratch memory holds no client's unread bytes.
 *  3. Memory for a client's output is at most cut_bytes and one message; for its input less than
 *     one frame and SCRATCH_SIZE.
 *  4. A client and its endpoint end only in deferrals, never inside a call of the core.
 *  5. If accepting fails for lack of descriptors, it is retried when a client has left, or after
 *     RETRY seconds, without a busy loop.
 *  6. A client's state changes by the transitions of `moves` only.
 *
 * Failure: the failure of one client never harms another client, or the broker.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chores.h"
#include "connector.h"
#include "connector_wire.h"
#include "core_private.h"
#include "libflux/framer.h"
#include "libflux/local_proto.h"
#include "libutil/invariant.h"
#include "libutil/list.h"
#include "listener.h"
#include "turns.h"

#define SCRATCH_SIZE 65536
#define FLUSH_SIZE 65536
#define READ_SEVERAL 4096
/* Connections that are accepted, and clients that are freed, in one pass.  They are few, since each
 * costs as much as several requests.  More clients may be freed than accepted, and dead ones are
 * freed in larger portions when there are many, so they do not pile up. */
#define ACCEPT_BATCH 4
#define FREE_BATCH 8
#define DEAD_MANY 64 /* from here on they are freed by ordinary portions in any case */
/* Events and parts of streams that are written at once in one pass; each takes a system call. */
#define WRITE_FEW 4
#define HURRY 0.0005 /* seconds */
#define RELIEVED 8
#define RETRY 0.25

enum client_state { CLIENT_OPEN, CLIENT_CLOSING, CLIENT_DEAD };

struct client {
    connector_t *cn;
    struct list_node node;       /* in connector.clients */
    struct list_node dirty_node; /* in connector.dirty (work after this pass), dead, or full */
    struct list_node held;       /* in connector.held */
    struct turn turn;
    int fd;
    pid_t pid;
    enum client_state state;
    bool paused;
    bool blocked; /* waiting for POLLOUT */
    bool in_input;
    bool urgent;  /* an answer is in its output */
    bool put_off; /* in connector.full */
    bool shut;    /* dead, and nothing can be sent to it any more */
    bool grace;   /* one batch may be read although many requests are unanswered */
    const char *why;
    endpoint_t *ep;
    framer_t *in;
    outq_t *out;
    flux_watcher_t *io;
    double pass; /* reactor time at which a message was last written at once */
};

struct connector {
    core_t *core;
    flux_reactor_t *r;
    listener_t *listener;  /* NULL: only adopted clients */
    flux_watcher_t *retry; /* retries accept, and wakes paused clients that nothing else wakes */
    flux_watcher_t *sweep;
    chores_t *chores;
    bool knocks; /* somebody waits to be accepted */
    struct list_node clients;
    struct list_node dirty;
    struct list_node dead;
    unsigned ndead;
    struct list_node full; /* clients with output that is written as a chore */
    struct list_node held; /* ... that is written before the loop sleeps, or with what follows */
    flux_watcher_t *later;
    double pass;      /* reactor time of the pass in which: */
    unsigned written; /* events and parts of streams were written at once */
    turns_t *turns;
    uint8_t *scratch;
    flux_msg_t *hello;
    uint64_t life; /* see local_proto.h */
    bool relief;   /* some client is no longer congested */
    bool starved;  /* no descriptors: accept has stopped */
    bool told;     /* ... which was logged; nobody was accepted since */
    bool crowded;  /* the last client was refused for lack of room, which was logged */
    struct connector_limits limits;
    struct connector_stats stats;
};

/* --- a client's state --- */

static const struct transition moves[] = {
    {CLIENT_OPEN, CLIENT_CLOSING, "close_with_error"},
    {CLIENT_OPEN, CLIENT_DEAD, "kill_client"},
    {CLIENT_CLOSING, CLIENT_DEAD, "kill_client"},
    TRANSITION_END,
};

static void set_state(struct client *cl, enum client_state state)
{
    TRANSITION(6, moves, cl->state, state);
    cl->state = state;
}

static void mark_dirty(struct client *cl)
{
    list_remove(&cl->dirty_node);
    cl->put_off = false;
    list_append(&cl->cn->dirty, &cl->dirty_node);
    flux_watcher_start(cl->cn->sweep);
}

static void set_events(struct client *cl)
{
    bool reads = cl->state == CLIENT_OPEN && !cl->paused && !turns_waits(&cl->turn);
    int events = (reads ? FLUX_POLLIN : 0) | (cl->blocked ? FLUX_POLLOUT : 0);

    flux_fd_watcher_set(cl->io, events);
}

static void remove_endpoint(struct client *cl)
{
    endpoint_t *ep = cl->ep;

    cl->ep = NULL;
    core_endpoint_remove(ep, ECONNRESET, cl->why ? cl->why : "the client has gone away");
}

/* Mark a client as dead.  `why` is a constant.  The core may be working for this very client, so
 * its endpoint is removed later. */
static void kill_client(struct client *cl, const char *why)
{
    if (cl->state == CLIENT_DEAD)
        return;
    set_state(cl, CLIENT_DEAD);
    if (!cl->why)
        cl->why = why;
    flux_watcher_stop(cl->io);
    mark_dirty(cl);
}

/* Pause a client for which much waits, or for whose requests neighbors or modules do not keep
 * up. */
static void update_pause(struct client *cl)
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
    set_events(cl);
    /* Messages that were read before the pause wait in the framer, not in the socket. */
    if (!cl->paused && framer_pending(cl->in))
        mark_dirty(cl);
    if (cl->paused && !flux_watcher_active(cl->cn->retry))
        flux_timer_start(cl->cn->retry, RETRY, 0.);
}

static void flush(struct client *cl)
{
    int rc = outq_flush(cl->out, cl->fd);
    bool blocked = rc == 1;

    cl->urgent = false;
    list_remove(&cl->held);
    if (rc < 0 || (rc == 0 && cl->state == CLIENT_CLOSING)) {
        kill_client(cl, "the client has gone away");
        return;
    }
    if (blocked != cl->blocked) {
        cl->blocked = blocked;
        set_events(cl);
    }
    if (cl->paused)
        update_pause(cl);
}

/* Send an error frame, the last message for this client, and close the connection. */
static void close_with_error(struct client *cl, int errnum, const char *text)
{
    const struct local_error e = {errnum, text};
    flux_msg_t *msg = connector_control(LOCAL_ERROR, &local_error_schema, &e);

    if (msg && outq_add(cl->out, msg) == 0) {
        set_state(cl, CLIENT_CLOSING);
        cl->why = "the client was disconnected";
        set_events(cl);
        mark_dirty(cl);
        flush(cl);
    } else
        kill_client(cl, "the client was disconnected");
    flux_msg_destroy(msg);
}

static void cut(struct client *cl)
{
    connector_t *cn = cl->cn;

    cn->stats.cut++;
    core_log(cn->core, LOG_ERR,
             "client %d is disconnected: it has not read the %zu bytes that wait for it",
             (int)cl->pid, outq_bytes(cl->out));
    kill_client(cl, "the client did not read what was sent to it");
}

/* --- to the client --- */

/* What is in the client's output need not be written before the loop sleeps. */
static void hold(struct client *cl)
{
    if (list_empty(&cl->held))
        list_append(&cl->cn->held, &cl->held);
    flux_watcher_start(cl->cn->later);
}

static void later_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
    struct list_node *n;

    if (flux_reactor_deferred(r) > 0) {
        flux_watcher_start(w); /* the loop goes on */
        return;
    }
    while ((n = list_first(&cn->held))) {
        struct client *cl = list_entry(n, struct client, held);

        list_remove(n);
        if (cl->state != CLIENT_DEAD && list_empty(&cl->dirty_node))
            mark_dirty(cl);
    }
}

static bool is_answer(const flux_msg_t *msg)
{
    return flux_msg_type(msg) == FLUX_MSG_RESPONSE && !flux_msg_has_flag(msg, FLUX_MSGF_STREAMING);
}

/* May a message to a client for which nothing waits be written in this pass, or together with what
 * else is sent to it?  An event may go to thousands of clients, so only a few of those are. */
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
            set_events(cl);
        }
    } else if ((rc = outq_add(cl->out, msg)) == 0 && !cl->blocked) {
        cl->urgent = cl->urgent || is_answer(msg);
        if (outq_bytes(cl->out) >= FLUSH_SIZE)
            flush(cl);
        else if (lazy && list_empty(&cl->dirty_node))
            hold(cl);
        else if (list_empty(&cl->dirty_node) || (cl->put_off && cl->urgent))
            mark_dirty(cl);
    }
    flux_msg_destroy(msg);
    if (rc < 0)
        kill_client(cl, errno == ENOMEM ? "out of memory for a message to the client"
                                        : "the client has gone away");
    else if (cl->state == CLIENT_OPEN && !cl->in_input)
        update_pause(cl);
}

static const struct endpoint_ops client_endpoint_ops = {.send = client_send};

/* --- from the client --- */

static void broken(struct client *cl, const char *why)
{
    cl->cn->stats.broken++;
    core_log(cl->cn->core, LOG_ERR, "client %d is disconnected: %s", (int)cl->pid, why);
    close_with_error(cl, EPROTO, why);
}

static void refuse(struct client *cl, const flux_msg_t *req, const char *why)
{
    core_t *core = cl->cn->core;
    flux_msg_t *resp;

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE)) {
        core_log(core, LOG_ERR, "a request of client %d is dropped: %s", (int)cl->pid, why);
        return;
    }
    if (!(resp = flux_msg_response_create(req, EMSGSIZE)) || flux_msg_set_json(resp, why) < 0) {
        flux_msg_destroy(resp);
        kill_client(cl, "out of memory for an answer to the client");
        return;
    }
    flux_msg_set_nodeid(resp, core_rank(core));
    client_send(cl, resp);
}

/* Check a request's size.  False if it was refused. */
static bool check_request(struct client *cl, flux_msg_t *req)
{
    errmsg_t why;

    flux_msg_route_clear(req);
    if (connector_check_json(&cl->cn->limits, req, framer_dropped(cl->in), &why) == 0)
        return true;
    refuse(cl, req, why.text);
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
    update_pause(cl); /* other clients of its process may have used up the room since the read */
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
            update_pause(cl);
    }
    cl->in_input = false;
    cl->grace = false;
    if (cl->state != CLIENT_OPEN)
        return n;
    if (!msg && !cl->paused && errno != EAGAIN)
        broken(cl, err.text);
    else if (framer_park(cl->in) < 0)
        kill_client(cl, "out of memory for the client's messages");
    return n;
}

/* Read, and pass on at most `left` messages.  Returns their number. */
static unsigned read_client(struct client *cl, unsigned left)
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
        kill_client(cl, "the client has gone away");
    else if (errno == ENOMEM)
        kill_client(cl, "out of memory for the client's messages");
    else if (errno != EAGAIN && errno != EINTR)
        kill_client(cl, "the client has gone away");
    return 0;
}

/* The remaining messages of the client wait for its turn. */
static void wait_for_turn(struct client *cl)
{
    turns_wait(cl->cn->turns, &cl->turn);
    set_events(cl);
    chores_wake(cl->cn->chores);
}

static bool has_more(const struct client *cl)
{
    return cl->state == CLIENT_OPEN && !cl->paused && framer_pending(cl->in);
}

/* The loop hurries for a client that has sent a few messages, until modules have answered. */
static void pass_on(struct client *cl, unsigned left)
{
    unsigned n = read_client(cl, left);

    turns_used(&cl->turn, n);
    if (n > 0 && n <= TURNS_FEW)
        flux_reactor_hurry(cl->cn->r, flux_reactor_clock(cl->cn->r) + HURRY);
}

/* Handle new input of a client, or what is left of earlier input. */
static void take_input(struct client *cl)
{
    connector_t *cn = cl->cn;
    double now = flux_reactor_now(cn->r);
    unsigned left = turns_share(cn->turns, &cl->turn, now);

    core_set_several(cn->core, turns_several(cn->turns, now));
    if (left > 0)
        pass_on(cl, left);
    if (left == 0 || has_more(cl))
        wait_for_turn(cl);
}

static void client_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct client *cl = arg;

    if (cl->state != CLIENT_DEAD && (revents & FLUX_POLLOUT))
        flush(cl);
    if (cl->state == CLIENT_OPEN && (revents & (FLUX_POLLIN | FLUX_POLLERR)) && !cl->paused &&
        !turns_waits(&cl->turn))
        take_input(cl);
    else if (cl->state == CLIENT_CLOSING && (revents & FLUX_POLLERR))
        kill_client(cl, "the client has gone away");
}

/* --- life of a client --- */

static void client_free(struct client *cl)
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

/* Wake a few clients at a time: the first of them may use up the room, and thousands may wait if a
 * process keeps connecting. */
static void relieve(connector_t *cn)
{
    unsigned n = 0;

    cn->relief = false;
    LIST_FOREACH(it, &cn->clients)
    {
        struct client *cl = list_entry(it, struct client, node);

        if (cl->state != CLIENT_OPEN || !cl->paused)
            continue;
        update_pause(cl);
        if (!cl->paused && ++n == RELIEVED) {
            cn->relief = true;
            flux_watcher_start(cn->sweep);
            return;
        }
    }
}

/* Write this client's output as a chore?  While the loop hurries, after the first few clients. */
static bool put_off(struct client *cl, unsigned *writes)
{
    connector_t *cn = cl->cn;

    if (cl->urgent || !flux_reactor_hurries(cn->r) || ++*writes <= WRITE_FEW)
        return false;
    list_remove(&cl->dirty_node); /* taken input may have marked it anew */
    list_append(&cn->full, &cl->dirty_node);
    cl->put_off = true;
    chores_wake(cn->chores);
    return true;
}

/* After a pass: write queued output, and continue with paused clients. */
static void sweep_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
    unsigned writes = 0;
    struct list_node now;
    struct list_node *n;

    if (cn->relief)
        relieve(cn);
    list_init(&now);
    while ((n = list_first(&cn->dirty))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        struct client *cl = list_entry(n, struct client, dirty_node);

        list_remove(n);
        if (has_more(cl) && !turns_waits(&cl->turn))
            take_input(cl);
        if (cl->state != CLIENT_DEAD && !cl->blocked && outq_bytes(cl->out) > 0 &&
            !put_off(cl, &writes))
            flush(cl);
        if (cl->state == CLIENT_CLOSING)
            remove_endpoint(cl);
        if (cl->state == CLIENT_DEAD) {
            list_remove(&cl->dirty_node);
            list_append(&cn->dead, &cl->dirty_node);
            cn->ndead++;
            chores_wake(cn->chores);
        }
    }
}

/* --- chores --- */

static void accept_some(connector_t *cn, unsigned left);

/* Throw away a portion of what a dead client has sent: to close a socket with hundreds of unread
 * messages takes as long as to serve dozens of clients.  True if there may be more. */
static bool throw_away(struct client *cl)
{
    if (!cl->shut)
        (void)shutdown(cl->fd, SHUT_RDWR);
    cl->shut = true;
    return recv(cl->fd, cl->cn->scratch, READ_SEVERAL, MSG_DONTWAIT) == READ_SEVERAL;
}

static void free_one(connector_t *cn, bool hurries)
{
    struct client *cl = list_entry(list_first(&cn->dead), struct client, dirty_node);

    remove_endpoint(cl);
    if (hurries && throw_away(cl)) {
        list_remove(&cl->dirty_node);
        list_append(&cn->dead, &cl->dirty_node);
        return;
    }
    client_free(cl);
    cn->ndead--;
    cn->stats.clients--;
    if (cn->starved) {
        cn->starved = false;
        listener_start(cn->listener);
    }
}

static bool accept_pending(void *arg)
{
    const connector_t *cn = arg;

    return cn->knocks;
}

static void accept_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;

    cn->knocks = false; /* it is set again if somebody is left */
    accept_some(cn, hurries ? 1 : ACCEPT_BATCH);
}

static bool serve_pending(void *arg)
{
    const connector_t *cn = arg;

    return turns_pending(cn->turns);
}

static void serve_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;
    bool several = turns_several(cn->turns, flux_reactor_now(cn->r));
    unsigned few = hurries ? TURNS_LEAN : several ? TURNS_FEW : TURNS_MANY;
    struct turn *turn;

    for (unsigned n = 0; n < few && (turn = turns_next(cn->turns)); n++) {
        struct client *cl = list_entry(turn, struct client, turn);

        if (cl->state == CLIENT_OPEN && !cl->paused)
            n += read_client(cl, few - n);
        if (has_more(cl))
            turns_wait(cn->turns, turn);
        else if (cl->state != CLIENT_DEAD)
            set_events(cl);
    }
}

static bool write_pending(void *arg)
{
    const connector_t *cn = arg;

    return !list_empty(&cn->full);
}

static void write_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;

    for (unsigned n = 0; write_pending(cn) && (!hurries || n < WRITE_FEW); n++) {
        struct client *cl = list_entry(list_first(&cn->full), struct client, dirty_node);

        list_remove(&cl->dirty_node);
        cl->put_off = false;
        if (!cl->blocked)
            flush(cl);
    }
}

static bool free_pending(void *arg)
{
    const connector_t *cn = arg;

    return !list_empty(&cn->dead);
}

static void free_chore(void *arg, bool hurries)
{
    connector_t *cn = arg;

    bool small = hurries && cn->ndead <= DEAD_MANY;

    for (unsigned n = small ? 1 : FREE_BATCH; n > 0 && free_pending(cn); n--)
        free_one(cn, small);
}

static const struct chore chores[] = {
    {accept_pending, accept_chore},
    {serve_pending, serve_chore},
    {write_pending, write_chore},
    {free_pending, free_chore},
};

/* A client that has sent something already does not wait for the greeting (FLUX_O_NOWAIT in
 * libflux/handle.h): it is to be woken once, by the answer, with which the greeting goes. */
static int send_hello(struct client *cl)
{
    connector_t *cn = cl->cn;
    const struct local_hello hello = {LOCAL_PROTOCOL, core_rank(cn->core), core_size(cn->core),
                                      cn->life};
    char byte;

    if (!cn->hello && /* the same for all clients */
        !(cn->hello = connector_control(LOCAL_HELLO, &local_hello_schema, &hello)))
        return -1;
    if (recv(cl->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
        return outq_add(cl->out, cn->hello) < 0 ? -1 : (hold(cl), 0);
    if (outq_send(cl->out, cl->fd, cn->hello) < 0)
        return -1;
    cl->blocked = outq_bytes(cl->out) > 0;
    return 0;
}

static int admit(struct client *cl, errmsg_t *err)
{
    connector_t *cn = cl->cn;
    struct connector_room room;
    struct ucred cred;
    socklen_t len = sizeof(cred);
    char name[32];

    if (getsockopt(cl->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return errmsg_fail(err, errno, "cannot find out who the client is: %s", strerror(errno));
    cl->pid = cred.pid;
    if (cred.uid != core_userid(cn->core) && cred.uid != 0) {
        errmsg_t why;
        errmsg_fail(&why, EPERM, "this session belongs to user %u: user %u may not use it",
                    core_userid(cn->core), cred.uid);
        cn->stats.refused++;
        core_log(cn->core, LOG_WARNING, "a client was refused: %s", why.text);
        close_with_error(cl, EPERM, why.text);
        return errmsg_fail(err, EPERM, "%s", why.text);
    }
    room = (struct connector_room){core_rank(cn->core), cn->stats.clients, cl->pid,
                                   turns_clients(cn->turns, cl->pid), cl->fd};
    if (connector_check_room(&cn->limits, &room, err) < 0) {
        int errnum = errno;
        cn->stats.refused++;
        if (!cn->crowded)
            core_log(cn->core, LOG_ERR, "a client was refused: %s", err->text);
        cn->crowded = true;
        close_with_error(cl, errnum, err->text);
        errno = EPERM; /* the client was told */
        return -1;
    }
    cn->crowded = false;
    snprintf(name, sizeof(name), "client-%d", (int)cred.pid);
    if (turns_join(cn->turns, &cl->turn, cl->pid) == 0)
        cl->ep = core_endpoint_add(cn->core, ENDPOINT_CLIENT, name, cred.uid, FLUX_ROLE_OWNER,
                                   &client_endpoint_ops, cl);
    if (!cl->ep || (cl->pid > 0 && core_endpoint_set_process(cl->ep, (uint32_t)cl->pid) < 0))
        return errmsg_fail(err, ENOMEM, "out of memory for a client");
    if (send_hello(cl) < 0)
        return errmsg_fail(err, errno, "the client has gone away");
    set_events(cl);
    update_pause(cl);
    return 0;
}

int connector_adopt(connector_t *cn, int fd, errmsg_t *err)
{
    struct client *cl = calloc(1, sizeof(*cl));
    int errnum;

    if (!cl) {
        close(fd);
        return errmsg_fail(err, ENOMEM, "out of memory for a client");
    }
    cl->cn = cn;
    cl->fd = fd;
    cl->pass = -1.;
    list_init(&cl->node);
    list_init(&cl->dirty_node);
    list_init(&cl->held);
    turns_init(&cl->turn);
    if (!(cl->in = framer_create()) || !(cl->out = outq_create()) ||
        !(cl->io = flux_fd_watcher_create(cn->r, fd, FLUX_POLLIN, client_cb, cl))) {
        errmsg_set(err, "cannot serve a client: %s", strerror(errno));
        client_free(cl);
        return -1;
    }
    framer_set_text_max(cl->in, cn->limits.json_bytes);
    list_append(&cn->clients, &cl->node);
    cn->stats.clients++;
    cn->stats.accepted++;
    flux_watcher_start(cl->io);
    if (admit(cl, err) == 0)
        return 0;
    errnum = errno;
    if (cl->state == CLIENT_OPEN)
        kill_client(cl, "the client could not be served");
    errno = errnum;
    return -1;
}

/* --- listening --- */

static void accept_some(connector_t *cn, unsigned left)
{
    while (left-- > 0) {
        int fd = listener_accept(cn->listener);
        errmsg_t err;

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                if (!cn->told)
                    core_log(cn->core, LOG_ERR,
                             "no more clients can be served (%s): raise the limit "
                             "on open files, or close connections",
                             strerror(errno));
                cn->starved = cn->told = true;
                listener_stop(cn->listener);
                flux_timer_start(cn->retry, RETRY, 0.);
            }
            return;
        }
        cn->told = false;
        if (connector_adopt(cn, fd, &err) < 0 && errno != EPERM && errno != EPIPE)
            core_log(cn->core, LOG_ERR, "a client was not served: %s", err.text);
    }
}

static void accept_cb(void *arg)
{
    connector_t *cn = arg;

    cn->knocks = true;
    chores_wake(cn->chores);
}

/* A client with thousands of requests that stay unanswered for long (because it watches many keys)
 * is read now and then: it may want to cancel some.  The core has a bound of its own.
 */
static void retry_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
    const struct connector_limits *lim = &cn->limits;
    bool again = false;

    if (cn->starved) {
        listener_start(cn->listener);
        cn->starved = false;
    }
    LIST_FOREACH(it, &cn->clients)
    {
        struct client *cl = list_entry(it, struct client, node);
        if (cl->state != CLIENT_OPEN || !cl->paused)
            continue;
        again = true;
        if (outq_bytes(cl->out) > lim->pause_bytes / 2 ||
            outq_messages(cl->out) > lim->pause_messages / 2 || core_endpoint_congested(cl->ep))
            continue;
        cl->paused = false;
        cl->grace = true;
        set_events(cl);
        if (framer_pending(cl->in))
            mark_dirty(cl);
    }
    if (again)
        flux_timer_start(cn->retry, RETRY, 0.);
}

/* Neighbors or modules accept requests again: continue with the paused clients after this pass. */
static void relief_cb(void *arg)
{
    connector_t *cn = arg;

    cn->relief = true;
    flux_watcher_start(cn->sweep);
}

int connector_relisten(connector_t *cn, errmsg_t *err)
{
    uint64_t accepted;

    if (!cn->listener || listener_has_name(cn->listener))
        return 0;
    /* Accept the clients that connected before the name was removed. */
    do {
        accepted = cn->stats.accepted;
        accept_some(cn, ACCEPT_BATCH);
    } while (cn->stats.accepted != accepted && !cn->starved);
    return listener_renew(cn->listener, err) < 0 ? -1 : 1;
}

connector_t *connector_create(core_t *core, const char *path, const struct connector_limits *limits,
                              errmsg_t *err)
{
    connector_t *cn = calloc(1, sizeof(*cn));

    if (!cn) {
        errmsg_set(err, "out of memory for the local connector");
        return NULL;
    }
    cn->core = core;
    cn->r = core_reactor(core);
    list_init(&cn->clients);
    list_init(&cn->dirty);
    list_init(&cn->dead);
    list_init(&cn->full);
    list_init(&cn->held);
    cn->limits = *limits;
    cn->life = flux_random(core_handle(core)) >> 1;
    if (!(cn->turns = turns_create()) || !(cn->scratch = malloc(SCRATCH_SIZE)) ||
        !(cn->sweep = flux_defer_create(cn->r, sweep_cb, cn)) ||
        !(cn->later = flux_defer_create(cn->r, later_cb, cn)) ||
        !(cn->chores = chores_create(cn->r, chores, sizeof(chores) / sizeof(chores[0]), cn)) ||
        !(cn->retry = flux_timer_create(cn->r, retry_cb, cn))) {
        errmsg_set(err, "cannot create the local connector: %s", strerror(errno));
        goto error;
    }
    if (path && !(cn->listener = listener_create(core, path, accept_cb, cn, err)))
        goto error;
    core_on_relief(core, relief_cb, cn);
    return cn;
error:
    connector_destroy(cn);
    return NULL;
}

void connector_ending(connector_t *cn)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, LOCAL_ENDING);

    LIST_FOREACH(it, &cn->clients)
    {
        struct client *cl = list_entry(it, struct client, node);

        if (msg && cl->state == CLIENT_OPEN && outq_add(cl->out, msg) == 0)
            mark_dirty(cl);
    }
    flux_msg_destroy(msg);
}

void connector_destroy(connector_t *cn)
{
    if (cn) {
        int saved = errno;
        struct list_node *n;

        core_on_relief(cn->core, NULL, NULL);
        flux_watcher_destroy(cn->retry);
        /* Try once more to write queued output. */
        LIST_FOREACH(it, &cn->clients)
        {
            struct client *cl = list_entry(it, struct client, node);
            if (cl->state != CLIENT_DEAD)
                (void)outq_flush(cl->out, cl->fd);
        }
        LIST_FOREACH_SAFE(it, tmp, &cn->clients)
        {
            kill_client(list_entry(it, struct client, node), "the broker is shutting down");
        }
        LIST_FOREACH(it, &cn->clients)
        {
            remove_endpoint(list_entry(it, struct client, node));
        }
        while ((n = list_first(&cn->clients)))
            client_free(list_entry(n, struct client, node));
        flux_watcher_destroy(cn->sweep);
        flux_watcher_destroy(cn->later);
        chores_destroy(cn->chores);
        listener_destroy(cn->listener);
        turns_destroy(cn->turns);
        flux_msg_destroy(cn->hello);
        free(cn->scratch);
        free(cn);
        errno = saved;
    }
}

void connector_get_stats(const connector_t *cn, struct connector_stats *st)
{
    *st = cn->stats;
    st->queued = 0;
    LIST_FOREACH(it, &cn->clients)
    st->queued += outq_bytes(list_entry(it, struct client, node)->out);
}
