/* conn_local.c - the transport of clients: a UNIX stream socket to the local broker.
 *
 *    state      what happens                              left when
 *    (opening)  connects, waits for the broker's "hello"  hello: open; anything else: an error
 *    early      messages are sent before the "hello"      hello: open; anything else: lost
 *    open       messages pass both ways                   end of stream, "ending": away, or lost;
 *                                                         "error", bad bytes: lost
 *    away       tries to connect, with pauses that grow   connected: greeting; given up: lost
 *    greeting   waits for the "hello"                     hello: asking; end of stream: away;
 *                                                         anything else: lost, also the hello of
 *                                                         the same broker as before, unless it had
 *                                                         sent "ending": it has disconnected this
 *                                                         client
 *    asking     asks whether the session runs, and        it runs: open; end of stream: away; given
 *               asks again after each pause               up: lost
 *    lost       nothing                                   the handle is closed
 *
 * EARLY is the first state of a handle with FLUX_O_NOWAIT; the states between OPEN and LOST are
 * those of a handle with FLUX_O_RECONNECT, which may have been EARLY.  A broker accepts clients
 * before its modules have started: repeated requests wait until the session runs.
 *
 * Sending: the first message of a pass of the reactor is written at once, for latency.  Those that
 * follow in the same pass are queued for throughput, and written with one call before the reactor
 * (or a wait) sleeps, or when the queue has grown to FLUSH_SIZE.
 *
 * Receiving: a wait for a future without timeout is one blocking recv(2), without poll(2) before
 * it, since the socket is left in blocking mode.  All other calls use MSG_DONTWAIT.
 *
 * Invariants:
 *  1. At most QUEUE_MAX bytes, and one more message, wait to be written.
 *  2. The flags of an inherited descriptor are never changed: it may be shared.
 *  3. Messages are delivered in the order in which they came, even if a handler waits for a future,
 *     and so reads on while messages of the previous read are undelivered.
 *  4. A return gives up RETURN_MAX seconds after the loss, or when the session's directory is gone.
 *  5. The state changes by the transitions of `moves` only, each made by the function that is named
 *     there.
 *
 * Security: a client sends its environment, its input and its jobs to the process that listens.
 * That process must therefore run as the client's own user, or as root; this is checked before
 * anything is read or written, also at each return.
 *
 * Failure: flux_local_open() returns NULL with errno and an error message; later the handle is
 * notified once that the connection is lost.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "conn_local.h"
#include "framer.h"
#include "handle_private.h"
#include "libutil/clock.h"
#include "libutil/fdutil.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"
#include "local_proto.h"
#include "overlay_wire.h"

#define SCRATCH_SIZE 65536
#define FLUSH_SIZE 65536
#define QUEUE_MAX (64u * 1024 * 1024)
#define HELLO_TIMEOUT 60.
#define RETURN_MAX FLUX_RECONNECT_MAX
#define PAUSE_MIN 0.005
#define PAUSE_MAX 0.5

static const struct flux_field hello_fields[] = {
    FLUX_FIELD_INT(struct local_hello, protocol, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct local_hello, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct local_hello, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct local_hello, life, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema local_hello_schema = FLUX_SCHEMA(struct local_hello, hello_fields);

static const struct flux_field error_fields[] = {
    FLUX_FIELD_INT(struct local_error, errnum, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct local_error, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema local_error_schema = FLUX_SCHEMA(struct local_error, error_fields);

enum state { EARLY, OPEN, AWAY, GREETING, ASKING, LOST };

struct local {
    flux_t *h;
    flux_reactor_t *r;
    enum state state;
    char *path; /* of the socket, if the connection may return to it; else NULL */
    char *dir;  /* of the session: while it exists, the broker may return */
    flux_watcher_t *again;
    double pause, due; /* AWAY: until the next attempt; ASKING: until the next question */
    double given_up;   /* when the attempts to return end */
    bool asked;        /* ASKING: a question is outstanding */
    bool ending;       /* the broker has announced its end */
    uint64_t life;     /* of the broker of the last open connection */
    uint64_t next;     /* of the broker that has sent the last "hello" */
    int fd;
    framer_t *in;
    outq_t *out;
    uint8_t *scratch;
    flux_watcher_t *io;
    flux_watcher_t *defer;
    double pass;     /* reactor time at which a message was last written at once */
    bool blocked;    /* the socket is full: waiting for POLLOUT */
    bool out_broken; /* writing failed; reading will find the reason */
    bool nonblock;   /* an inherited socket that never sleeps in recv(2) */
};

static const struct transition moves[] = {
    {EARLY, OPEN, "handle_greeting"},
    {EARLY, LOST, "lose"},
    {OPEN, AWAY, "go_away"},
    {AWAY, GREETING, "connect_again"},
    {GREETING, AWAY, "go_away"},
    {GREETING, ASKING, "handle_hello"},
    {ASKING, AWAY, "go_away"},
    {ASKING, OPEN, "handle_status"},
    {OPEN, LOST, "lose"},
    {AWAY, LOST, "lose"},
    {GREETING, LOST, "lose"},
    {ASKING, LOST, "lose"},
    TRANSITION_END,
};

static void set_state(struct local *l, enum state state)
{
    TRANSITION(5, moves, l->state, state);
    l->state = state;
}

/* Does the connection carry messages of the handle? */
static bool is_open(const struct local *l)
{
    return l->state == OPEN || l->state == EARLY;
}

static void lose(struct local *l, const char *why)
{
    if (l->state == LOST)
        return;
    set_state(l, LOST);
    flux_watcher_stop(l->io);
    flux_watcher_stop(l->defer);
    flux_watcher_stop(l->again);
    if (l->h)
        flux_handle_lost(l->h, why);
}

static void pause_until(struct local *l, double pause)
{
    l->pause = pause > PAUSE_MAX ? PAUSE_MAX : pause;
    l->due = clock_now() + l->pause;
    flux_timer_start(l->again, l->pause, 0.);
}

/* The broker is gone.  Discard incomplete input and queued output, which belong to the old
 * connection. */
static void go_away(struct local *l, const char *why)
{
    bool was_open = l->state == OPEN;
    framer_t *in;
    outq_t *out;

    if (!l->path || l->state == EARLY) {
        lose(l, why);
        return;
    }
    in = framer_create();
    out = outq_create();
    if (!in || !out) {
        framer_destroy(in);
        outq_destroy(out);
        lose(l, "out of memory for a connection");
        return;
    }
    flux_watcher_stop(l->defer);
    flux_watcher_destroy(l->io);
    l->io = NULL;
    framer_destroy(l->in);
    outq_destroy(l->out);
    l->in = in;
    l->out = out;
    close(l->fd);
    l->fd = -1;
    l->blocked = l->out_broken = false;
    set_state(l, AWAY);
    if (was_open) {
        l->given_up = clock_now() + RETURN_MAX;
        l->pause = PAUSE_MIN / 2;
    }
    pause_until(l, 2 * l->pause);
    if (was_open)
        flux_handle_away(l->h);
}

static void set_blocked(struct local *l, bool blocked)
{
    if (l->blocked == blocked)
        return;
    l->blocked = blocked;
    flux_fd_watcher_set(l->io, blocked ? FLUX_POLLIN | FLUX_POLLOUT : FLUX_POLLIN);
}

static void flush(struct local *l)
{
    int rc = outq_flush(l->out, l->fd);

    /* The broker may have sent its reason before it closed the connection: the reader finds that,
     * or the end. */
    if (rc < 0)
        l->out_broken = true;
    set_blocked(l, rc == 1);
}

static void deliver(struct local *l);

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct local *l = arg;

    if (!l->blocked && !l->out_broken)
        flush(l);
    if (framer_pending(l->in))
        deliver(l);
}

static int local_send(void *impl, flux_msg_t *msg)
{
    struct local *l = impl;
    size_t queued = outq_bytes(l->out);
    double now = flux_reactor_now(l->r);
    int rc;

    if (l->state == EARLY && l->out_broken)
        rc = 0; /* the reader finds the reason why the broker does not serve this client */
    else if (l->state == LOST || l->out_broken)
        rc = l->state != LOST && l->path ? ECONNRESET : EPIPE;
    else if (queued > QUEUE_MAX)
        rc = ENOBUFS;
    else if (queued == 0 && l->pass != now) {
        l->pass = now;
        rc = outq_send(l->out, l->fd, msg) < 0 ? errno : 0;
        if (rc == 0)
            set_blocked(l, outq_bytes(l->out) > 0);
        else if (rc != ENOMEM && l->state == EARLY) {
            l->out_broken = true;
            rc = 0;
        } else if (rc != ENOMEM)
            rc = l->path ? ECONNRESET : EPIPE;
    } else if (outq_add(l->out, msg) < 0)
        rc = ENOMEM;
    else {
        rc = 0;
        if (!l->blocked) {
            if (outq_bytes(l->out) >= FLUSH_SIZE)
                flush(l);
            else
                flux_watcher_start(l->defer);
        }
    }
    flux_msg_destroy(msg);
    errno = rc ? rc : errno;
    return rc ? -1 : 0;
}

/* A control message after the first means that the broker ends the connection. */
static void handle_control(struct local *l, const flux_msg_t *msg)
{
    struct local_error e;
    const char *json = flux_msg_json(msg);
    json_t *obj = NULL;

    /* A handle that does not return still expects outstanding responses. */
    if (strcmp(flux_msg_topic(msg), LOCAL_ENDING) == 0) {
        l->ending = true;
        if (l->path)
            go_away(l, "the broker ends");
        return;
    }
    if (json && strcmp(flux_msg_topic(msg), LOCAL_ERROR) == 0)
        obj = flux_schema_decode(&local_error_schema, json, strlen(json), &e, NULL);
    lose(l, obj ? e.text : "the broker sent an unknown control message");
    json_decref(obj);
}

/* --- returning --- */

static int check_hello(const flux_msg_t *msg, struct local_hello *hello, errmsg_t *err);
static int check_server(int fd, const char *uri, errmsg_t *err);
static int connect_path(const char *path, bool wait, errmsg_t *err);

static void io_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg);

/* Is there still a chance that the broker returns? */
static bool may_return(struct local *l, const char *why)
{
    if (access(l->dir, F_OK) < 0)
        lose(l, "the session has ended");
    else if (clock_now() >= l->given_up)
        lose(l, why);
    else
        return true;
    return false;
}

static void connect_again(struct local *l)
{
    char uri[sizeof(((struct sockaddr_un *)0)->sun_path) + 16];
    errmsg_t err;

    if ((l->fd = connect_path(l->path, false, &err)) < 0) {
        if (may_return(l, err.text))
            pause_until(l, 2 * l->pause);
        return;
    }
    snprintf(uri, sizeof(uri), "local://%s", l->path);
    if (check_server(l->fd, uri, &err) < 0) {
        lose(l, err.text);
        return;
    }
    if (!(l->io = flux_fd_watcher_create(l->r, l->fd, FLUX_POLLIN, io_cb, l))) {
        lose(l, "out of memory for a connection");
        return;
    }
    set_state(l, GREETING);
    l->due = l->given_up;
    flux_timer_start(l->again, l->due - clock_now(), 0.);
    flux_watcher_start(l->io);
}

static void ask(struct local *l)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "overlay.status");

    if (!msg) {
        lose(l, "out of memory for a connection");
        return;
    }
    flux_msg_set_nodeid(msg, flux_rank(l->h));
    if (outq_send(l->out, l->fd, msg) < 0)
        l->out_broken = true; /* the reader finds the reason */
    set_blocked(l, outq_bytes(l->out) > 0);
    flux_msg_destroy(msg);
    l->asked = true;
    l->due = l->given_up;
    flux_timer_start(l->again, l->due - clock_now(), 0.);
}

static void handle_hello(struct local *l, const flux_msg_t *msg)
{
    struct local_hello hello;
    char text[160];
    errmsg_t err;

    if (check_hello(msg, &hello, &err) < 0) {
        lose(l, err.text);
    } else if (hello.rank != flux_rank(l->h)) {
        snprintf(text, sizeof(text), "the broker was rank %u, and has returned as rank %u",
                 flux_rank(l->h), hello.rank);
        lose(l, text);
    } else if (hello.life == l->life && !l->ending) {
        lose(l, "the broker has disconnected this program");
    } else {
        l->next = hello.life;
        set_state(l, ASKING);
        l->pause = PAUSE_MIN;
        ask(l);
    }
}

static void handle_status(struct local *l, const flux_msg_t *msg)
{
    const char *json = flux_msg_errnum(msg) ? NULL : flux_msg_json(msg);
    struct overlay_status st;
    errmsg_t err = {"the broker did not say whether its session runs"};
    json_t *obj =
        json ? flux_schema_decode(&overlay_status_schema, json, strlen(json), &st, &err) : NULL;

    l->asked = false;
    if (!obj) {
        lose(l, err.text);
    } else if (strcmp(st.state, "run") == 0) {
        set_state(l, OPEN);
        l->life = l->next;
        l->ending = false;
        flux_watcher_stop(l->again);
        flux_handle_back(l->h, st.size);
    } else if (may_return(l, "the session has not started again")) {
        pause_until(l, 2 * l->pause);
    }
    json_decref(obj);
}

static void due(struct local *l)
{
    if (l->state == AWAY)
        connect_again(l);
    else if (l->state == ASKING && !l->asked)
        ask(l);
    else if (l->state == GREETING || l->state == ASKING)
        lose(l, "the broker that has returned does not answer");
}

/* The timer counts from the beginning of a pass, which may be long ago when it is started. */
static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct local *l = arg;
    double left = l->due - clock_now();

    if (left > 0.)
        flux_timer_start(l->again, left, 0.);
    else
        due(l);
}

/* --- receiving --- */

/* Handle the "hello", for a handle that is used before it has come. */
static void handle_greeting(struct local *l, const flux_msg_t *msg)
{
    struct local_hello hello;
    errmsg_t err;

    if (check_hello(msg, &hello, &err) < 0) {
        lose(l, err.text);
    } else {
        l->life = hello.life;
        set_state(l, OPEN);
        flux_handle_greeted(l->h, hello.rank, hello.size);
    }
}

/* Deliver the messages that were read.  Meanwhile the handle may count itself as lost (renew.c). */
static void deliver(struct local *l)
{
    flux_msg_t *msg;
    errmsg_t err;

    while (l->state != LOST && (msg = framer_next(l->in, &err))) {
        bool control = flux_msg_type(msg) == FLUX_MSG_CONTROL;

        if (l->state == OPEN && !control) {
            flux_handle_deliver(l->h, msg);
        } else {
            if (l->state == EARLY)
                handle_greeting(l, msg);
            else if (l->state == GREETING)
                handle_hello(l, msg);
            else if (control)
                handle_control(l, msg);
            else if (flux_msg_type(msg) == FLUX_MSG_RESPONSE)
                handle_status(l, msg);
            flux_msg_destroy(msg);
        }
        if (flux_handle_is_lost(l->h))
            lose(l, "the handle has given up");
    }
    if (l->state != LOST && errno != EAGAIN)
        lose(l, err.text);
}

/* Read once and deliver.  `wait`: sleep until there is something to read. */
static void input(struct local *l, bool wait)
{
    ssize_t n;

    /* Messages that came together with the greeting. */
    if (framer_pending(l->in)) {
        deliver(l);
        return;
    }
    n = framer_read(l->in, l->fd, l->scratch, SCRATCH_SIZE, wait);

    if (n > 0)
        deliver(l);
    else if (n == 0)
        go_away(l, l->state == EARLY ? "the broker closed the connection at once"
                                     : "the broker closed the connection");
    else if (errno != EAGAIN && errno != EINTR)
        go_away(l, strerror(errno));
}

static void io_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct local *l = arg;

    if (revents & FLUX_POLLOUT)
        flush(l);
    if (revents & (FLUX_POLLIN | FLUX_POLLERR))
        input(l, false);
}

/* Sleep until the socket is ready, or for `timeout` seconds (< 0: no limit). */
static void wait_ready(struct local *l, double timeout)
{
    struct pollfd pfd = {.fd = l->fd, .events = l->blocked ? POLLIN | POLLOUT : POLLIN};
    struct timespec ts;

    if (timeout >= 0.) {
        ts.tv_sec = timeout > 1e9 ? 1000000000 : (time_t)timeout;
        ts.tv_nsec = timeout > 1e9 ? 0 : (long)((timeout - (double)ts.tv_sec) * 1e9);
    }
    if (ppoll(&pfd, 1, timeout >= 0. ? &ts : NULL, NULL) > 0) {
        if (pfd.revents & POLLOUT)
            flush(l);
        if (pfd.revents & (POLLIN | POLLERR | POLLHUP))
            input(l, false);
    }
}

/* The same while the connection returns: the timer of the reactor does not fire now. */
static void wait_return(struct local *l, double timeout)
{
    double left = l->due - clock_now();

    if (left > 0.)
        wait_ready(l, timeout >= 0. && timeout < left ? timeout : left);
    if (l->state != OPEN && l->state != LOST && clock_now() >= l->due)
        due(l);
}

static int local_wait(void *impl, double timeout)
{
    struct local *l = impl;

    l->pass = -1.;
    if (l->state != LOST && !l->out_broken && outq_bytes(l->out) > 0)
        flush(l);
    flux_watcher_stop(l->defer);
    /* If a handler waits, messages that were read before its call come first. */
    if (l->state != LOST && framer_pending(l->in)) {
        deliver(l);
        if (l->state != LOST)
            return 0;
    }
    if (l->state != LOST && !is_open(l))
        wait_return(l, timeout);
    else if (is_open(l) && timeout < 0. && !l->blocked && !l->nonblock)
        input(l, true);
    else if (is_open(l))
        wait_ready(l, timeout);
    if (l->state == LOST) {
        errno = EPIPE;
        return -1;
    }
    return 0;
}

static int local_pollfd(void *impl, int *events)
{
    struct local *l = impl;

    if (l->path) {
        errno = ENOTSUP;
        return -1;
    }
    *events = FLUX_POLLIN;
    if (!l->out_broken && outq_bytes(l->out) > 0)
        *events |= FLUX_POLLOUT;
    return l->fd;
}

/* Queued messages are still written, as far as the socket accepts them: a program may send without
 * expecting an answer, and exit. */
static void local_destroy(void *impl)
{
    struct local *l = impl;

    if (l) {
        int saved = errno;
        while (is_open(l) && !l->out_broken && l->out && outq_bytes(l->out) > 0) {
            struct pollfd pfd = {.fd = l->fd, .events = POLLOUT};
            if (outq_flush(l->out, l->fd) <= 0 || poll(&pfd, 1, 1000) <= 0)
                break;
        }
        flux_watcher_destroy(l->io);
        flux_watcher_destroy(l->defer);
        flux_watcher_destroy(l->again);
        framer_destroy(l->in);
        outq_destroy(l->out);
        free(l->scratch);
        if (l->fd >= 0)
            close(l->fd);
        free(l->path);
        free(l->dir);
        free(l);
        errno = saved;
    }
}

static const struct flux_handle_ops local_ops = {
    .send = local_send,
    .wait = local_wait,
    .destroy = local_destroy,
    .pollfd = local_pollfd,
};

/* --- opening --- */

/* Connect to the socket.  `wait`: wait while its backlog is full; else EAGAIN. */
static int connect_path(const char *path, bool wait, errmsg_t *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof(sun.sun_path))
        return errmsg_fail(err, ENAMETOOLONG,
                           "the path of the broker's socket is longer than %zu bytes: %s",
                           sizeof(sun.sun_path) - 1, path);
    strcpy(sun.sun_path, path);
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0)) < 0)
        return errmsg_fail(err, errno, "cannot create a socket: %s", strerror(errno));
    while (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
        int errnum = errno;
        if (errnum == EINTR)
            continue;
        close(fd);
        if (errnum == ENOENT || errnum == ECONNREFUSED)
            return errmsg_fail(err, errnum, "no broker listens at %s: the session has ended", path);
        return errmsg_fail(err, errnum, "cannot connect to the broker at %s: %s", path,
                           strerror(errnum));
    }
    if (!wait)
        (void)fcntl(fd, F_SETFL, O_RDWR);
    return fd;
}

static int inherited_fd(const char *s, errmsg_t *err)
{
    int type = 0;
    socklen_t len = sizeof(type);
    int fd;

    if (str2i32(s, &fd) < 0 || fd < 0)
        return errmsg_fail(err, EINVAL, "'fd://%.64s' is not the number of a file descriptor", s);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
        return errmsg_fail(err, errno == EBADF ? EBADF : ENOTSOCK,
                           "file descriptor %d is not a connection to a broker", fd);
    return fd;
}

static int open_fd(const char *uri, errmsg_t *err)
{
    if (str_starts(uri, "local://")) {
        if (uri[8] == '/')
            return connect_path(uri + 8, true, err);
        return errmsg_fail(err, EINVAL, "'%.128s' has no absolute path: expected local:///path",
                           uri);
    }
    if (str_starts(uri, "fd://"))
        return inherited_fd(uri + 5, err);
    return errmsg_fail(err, EINVAL,
                       "'%.128s' is not an address of a broker: expected local:///path", uri);
}

static int check_server(int fd, const char *uri, errmsg_t *err)
{
    char what[160];

    if (str_starts(uri, "local://"))
        snprintf(what, sizeof(what), "the process that listens at %s", uri + 8);
    else
        snprintf(what, sizeof(what), "the process behind %.20s", uri);
    return fd_check_peer(fd, what, err);
}

/* Read until the first message is complete. */
static flux_msg_t *read_first(struct local *l, errmsg_t *err)
{
    for (;;) {
        struct pollfd pfd = {.fd = l->fd, .events = POLLIN};
        flux_msg_t *msg = framer_next(l->in, err);
        ssize_t n;

        if (msg || errno != EAGAIN)
            return msg;
        if (poll(&pfd, 1, (int)(HELLO_TIMEOUT * 1e3)) == 0) {
            errmsg_fail(err, ETIMEDOUT, "the broker sent no greeting within %g s", HELLO_TIMEOUT);
            return NULL;
        }
        if ((n = framer_read(l->in, l->fd, l->scratch, SCRATCH_SIZE, false)) == 0) {
            errmsg_fail(err, ECONNRESET, "the broker closed the connection at once");
            return NULL;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            errmsg_set(err, "cannot read from the broker: %s", strerror(errno));
            return NULL;
        }
    }
}

static int check_hello(const flux_msg_t *msg, struct local_hello *hello, errmsg_t *err)
{
    const char *json = flux_msg_json(msg);
    bool refused = strcmp(flux_msg_topic(msg), LOCAL_ERROR) == 0;
    int rc = -1;
    struct local_error e;
    json_t *obj = NULL;
    errmsg_t why;

    if (flux_msg_type(msg) != FLUX_MSG_CONTROL || !json ||
        (!refused && strcmp(flux_msg_topic(msg), LOCAL_HELLO) != 0))
        return errmsg_fail(err, EPROTO,
                           "the process that listens there is not a broker: its greeting is wrong");
    if (refused)
        obj = flux_schema_decode(&local_error_schema, json, strlen(json), &e, &why);
    else
        obj = flux_schema_decode(&local_hello_schema, json, strlen(json), hello, &why);
    if (!obj)
        return errmsg_fail(err, EPROTO, "the broker's greeting is invalid: %s", why.text);
    if (refused)
        errmsg_fail(err, e.errnum > 0 ? e.errnum : EPROTO, "%s", e.text);
    else if (hello->protocol != LOCAL_PROTOCOL)
        errmsg_fail(err, EPROTO,
                    "the broker uses protocol %d, and this program %d: use the flux of the session",
                    hello->protocol, LOCAL_PROTOCOL);
    else if (hello->size == 0 || hello->rank >= hello->size)
        errmsg_fail(err, EPROTO, "the broker's greeting is invalid: rank %u of %u", hello->rank,
                    hello->size);
    else
        rc = 0;
    json_decref(obj);
    return rc;
}

static int greet(struct local *l, struct local_hello *hello, errmsg_t *err)
{
    flux_msg_t *msg = read_first(l, err);
    int rc = msg ? check_hello(msg, hello, err) : -1;

    flux_msg_destroy(msg);
    return rc;
}

static uint64_t random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = clock_now_us() << 24 ^ (uint64_t)getpid();
    return seed;
}

/* Store the path for a return.  The session's directory is two levels above the socket
 * (RUNDIR/RANK/local); it is removed with the session. */
static int plan_return(struct local *l, const char *path)
{
    char *slash;

    if (!(l->path = strdup(path)) || !(l->dir = strdup(path)) ||
        !(l->again = flux_timer_create(l->r, again_cb, l)))
        return -1;
    for (int i = 0; i < 2; i++) {
        if ((slash = strrchr(l->dir, '/')) && slash != l->dir)
            *slash = '\0';
    }
    return 0;
}

flux_t *flux_local_open(const char *uri, flux_reactor_t *r, unsigned flags, errmsg_t *err)
{
    struct local *l = calloc(1, sizeof(*l));
    bool early = (flags & FLUX_O_NOWAIT) != 0;
    struct local_hello hello = {0};

    if (!l) {
        errmsg_set(err, "out of memory for a connection");
        return NULL;
    }
    l->r = r;
    l->pass = -1.;
    if ((l->fd = open_fd(uri, err)) < 0 || check_server(l->fd, uri, err) < 0)
        goto error;
    l->nonblock = (fcntl(l->fd, F_GETFL) & O_NONBLOCK) != 0;
    if (!(l->scratch = malloc(SCRATCH_SIZE)) || !(l->in = framer_create()) ||
        !(l->out = outq_create()) || !(l->defer = flux_defer_create(r, defer_cb, l)) ||
        !(l->io = flux_fd_watcher_create(r, l->fd, FLUX_POLLIN, io_cb, l))) {
        errmsg_set(err, "cannot create a connection: %s", strerror(errno));
        goto error;
    }
    if ((flags & FLUX_O_RECONNECT) && str_starts(uri, "local://") && plan_return(l, uri + 8) < 0) {
        errmsg_set(err, "out of memory for a connection");
        goto error;
    }
    l->state = early ? EARLY : OPEN;
    if (!early && greet(l, &hello, err) < 0)
        goto error;
    l->life = hello.life;
    if (!(l->h = flux_handle_create(&local_ops, l, r, hello.rank, hello.size, random_seed()))) {
        errmsg_set(err, "out of memory for a connection");
        goto error;
    }
    flux_watcher_start(l->io);
    /* Messages that came together with the greeting do not make the socket readable. */
    if (framer_pending(l->in))
        flux_watcher_start(l->defer);
    return l->h;
error:
    local_destroy(l);
    return NULL;
}
