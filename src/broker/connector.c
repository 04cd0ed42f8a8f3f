/* connector.c - the door for local clients.
 *
 *    state of a client   what happens                                  left when
 *    open                messages both ways                            see below
 *    paused              open, but nothing is read from it             its queue is half empty and
 *                                                                      half its requests answered
 *    closing             an error frame waits to be written; nothing   written, or the client gone
 *                        is read any more, and the endpoint is removed
 *    dead                waits to be freed at the end of the pass      -
 *
 * Who comes in is asked of the kernel (SO_PEERCRED): the owner of the session, or root.  Others get
 * an error frame.  What a client sends is decoded strictly; one that sends anything else than
 * requests and responses in good form gets an error frame too, and is closed.
 *
 * A client that asks and does not read is not read any more once much waits for it, so that it
 * blocks itself.  What it did not ask for just now (events, streams) cannot be held back that way:
 * when far too much waits, it is cut off.
 *
 * JSON takes up to 80 times its size in memory once it is parsed.  So a JSON request with more than
 * json_bytes is refused before it is read, one with more than json_values before any module sees it.
 *
 * A broker has a limited number of descriptors.  Clients leave RESERVED of them to the broker itself, and
 * one process gets no more than per_process; who comes beyond that is told so, and is closed.
 *
 * Writing works as in conn_local.c: the first message of a pass at once, the following ones in one
 * call at the end of the pass.
 *
 * Invariants:
 *  1. In one pass one read of at most SCRATCH_SIZE bytes is done per client: nobody starves others.  While
 *     several send, no more than FEW messages of each are passed on before all others have their turn.
 *  2. Between passes no client's unread bytes lie in the shared scratch memory.
 *  3. Memory for a client's output is at most cut_bytes and one message; for its input less than
 *     one frame and SCRATCH_SIZE.
 *  4. A client and its endpoint end only in the deferred sweep, never inside a call of the core.
 *  5. Accepting that fails for want of descriptors is tried again when a client has gone, or after
 *     RETRY seconds; it does not spin.
 *
 * Failure: of one client never harms another one, or the broker.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "connector.h"
#include "core_private.h"
#include "libflux/framer.h"
#include "libschema/jsonsize.h"
#include "libflux/local_proto.h"
#include "libutil/fdutil.h"
#include "libutil/list.h"

#define SCRATCH_SIZE 65536
#define FLUSH_SIZE 65536
#define BACKLOG 4096
#define ACCEPT_BATCH 4 /* others wait so long: a connection costs as much as several requests */
#define RELIEVED 8
#define FEW 16
#define SEVERAL 0.001 /* seconds between messages of two that send at the same time */
#define RETRY 0.25
#define RESERVED 32
#define JSON_SMALL 65536 /* has too few values in any case */

enum client_state { CLIENT_OPEN, CLIENT_CLOSING, CLIENT_DEAD };

struct client {
    connector_t *cn;
    struct list_node node;       /* in connector.clients */
    struct list_node dirty_node; /* in connector.dirty: something is to be done after this pass */
    int fd;
    pid_t pid;
    enum client_state state;
    bool paused;
    bool blocked; /* POLLOUT is waited for */
    bool in_input;
    bool grace; /* one batch may be read although many requests are open */
    const char *why;
    endpoint_t *ep;
    framer_t *in;
    outq_t *out;
    flux_watcher_t *io;
    double pass;  /* reactor's time when a message was last written at once */
    bool counted; /* in connector.processes */
};

struct connector {
    core_t *core;
    flux_reactor_t *r;
    int fd;
    char *path;
    dev_t dev; /* of the socket's name, to remove no other */
    ino_t ino;
    flux_watcher_t *accept;
    flux_watcher_t *retry; /* accepting again, and paused clients that nothing else wakes */
    flux_watcher_t *sweep;
    struct list_node clients;
    struct list_node dirty;
    hmap_t *processes; /* pid -> number of connections */
    uint8_t *scratch;
    const struct client *sender; /* who has sent last, to compare */
    double several;              /* until then several clients send at the same time */
    bool relief;                 /* some client is no longer congested */
    bool starved;                /* no descriptors: accept is stopped */
    bool crowded; /* the last client was refused for want of room: that is in the log */
    struct connector_limits limits;
    struct connector_stats stats;
};

/* --- a client's state --- */

static void mark_dirty(struct client *cl)
{
    list_remove(&cl->dirty_node);
    list_append(&cl->cn->dirty, &cl->dirty_node);
    flux_watcher_start(cl->cn->sweep);
}

static void set_events(struct client *cl)
{
    int events = (cl->state == CLIENT_OPEN && !cl->paused ? FLUX_POLLIN : 0) |
                 (cl->blocked ? FLUX_POLLOUT : 0);

    flux_fd_watcher_set(cl->io, events);
}

static void remove_endpoint(struct client *cl)
{
    endpoint_t *ep = cl->ep;

    cl->ep = NULL;
    core_endpoint_remove(ep, ECONNRESET, cl->why ? cl->why : "the client has gone away");
}

/* The end of a client.  `why` is a constant.  The core may be at work for this very client, so its
 * endpoint is removed by the sweep. */
static void kill_client(struct client *cl, const char *why)
{
    if (cl->state == CLIENT_DEAD)
        return;
    cl->state = CLIENT_DEAD;
    if (!cl->why)
        cl->why = why;
    flux_watcher_stop(cl->io);
    mark_dirty(cl);
}

/* Nothing is read from a client for which much waits, or while neighbours do not keep up. */
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
    /* What was read before the pause waits here, not in the socket. */
    if (!cl->paused && framer_pending(cl->in))
        mark_dirty(cl);
    if (cl->paused && !flux_watcher_active(cl->cn->retry))
        flux_timer_start(cl->cn->retry, RETRY, 0.);
}

static void flush(struct client *cl)
{
    int rc = outq_flush(cl->out, cl->fd);
    bool blocked = rc == 1;

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

/* The last thing a client hears. */
static void close_with_error(struct client *cl, int errnum, const char *text)
{
    struct local_error e = {errnum, text};
    char *json = flux_schema_encode(&local_error_schema, &e);
    flux_msg_t *msg = json ? flux_msg_create(FLUX_MSG_CONTROL, LOCAL_ERROR) : NULL;

    if (msg && flux_msg_set_json(msg, json) == 0 && outq_add(cl->out, msg) == 0) {
        cl->state = CLIENT_CLOSING;
        cl->why = "the client was disconnected";
        set_events(cl);
        mark_dirty(cl);
        flush(cl);
    } else
        kill_client(cl, "the client was disconnected");
    flux_msg_destroy(msg);
    free(json);
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

static void client_send(void *arg, flux_msg_t *msg)
{
    struct client *cl = arg;
    size_t queued = outq_bytes(cl->out);
    double now = flux_reactor_now(cl->cn->r);
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
    if (queued == 0 && cl->pass != now) {
        cl->pass = now;
        rc = outq_send(cl->out, cl->fd, msg);
        if (rc == 0 && outq_bytes(cl->out) > 0) {
            cl->blocked = true;
            set_events(cl);
        }
    } else if ((rc = outq_add(cl->out, msg)) == 0 && !cl->blocked) {
        if (outq_bytes(cl->out) >= FLUSH_SIZE)
            flush(cl);
        else if (list_empty(&cl->dirty_node))
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

static void refuse(struct client *cl, const flux_msg_t *req, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void refuse(struct client *cl, const flux_msg_t *req, const char *fmt, ...)
{
    core_t *core = cl->cn->core;
    flux_msg_t *resp;
    char text[320];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE)) {
        core_log(core, LOG_ERR, "a request of client %d is dropped: %s", (int)cl->pid, text);
        return;
    }
    if (!(resp = flux_msg_response_create(req, EMSGSIZE)) || flux_msg_set_json(resp, text) < 0) {
        flux_msg_destroy(resp);
        kill_client(cl, "out of memory for an answer to the client");
        return;
    }
    flux_msg_set_nodeid(resp, core_rank(core));
    client_send(cl, resp);
}

/* A request may come in: true, or it was refused. */
static bool check_request(struct client *cl, flux_msg_t *req)
{
    const struct connector_limits *lim = &cl->cn->limits;
    size_t dropped = framer_dropped(cl->in);
    size_t len;
    const char *text = flux_msg_payload(req, &len);

    flux_msg_route_clear(req);
    if (dropped > 0) {
        refuse(cl, req, "%s: a JSON payload of %zu bytes is too large, %zu are the most",
               flux_msg_topic(req), dropped, lim->json_bytes);
        return false;
    }
    if (len > JSON_SMALL && !flux_msg_has_flag(req, FLUX_MSGF_RAW) &&
        flux_json_count(text, len, lim->json_values) > lim->json_values) {
        refuse(cl, req, "%s: the JSON payload has more than %zu values", flux_msg_topic(req),
               lim->json_values);
        return false;
    }
    return true;
}

/* How many messages of this client may be passed on now: alone, it is not slowed down. */
static unsigned share(struct client *cl)
{
    connector_t *cn = cl->cn;
    double now = flux_reactor_now(cn->r);

    if (cn->sender != cl) {
        cn->several = now + SEVERAL;
        cn->sender = cl;
    }
    return now < cn->several ? FEW : UINT_MAX;
}

/* Pass on what was read, for as long as the client may be read from. */
static void handle_input(struct client *cl)
{
    unsigned left = share(cl);
    flux_msg_t *msg = NULL;
    errmsg_t err;

    cl->in_input = true;
    update_pause(cl); /* others of its process may have used up the room since it was read */
    for (; cl->state == CLIENT_OPEN && !cl->paused && left > 0; left--) {
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
        return;
    if (!msg && !cl->paused && errno != EAGAIN) {
        broken(cl, err.text);
        return;
    }
    if (framer_park(cl->in) < 0)
        kill_client(cl, "out of memory for what the client sent");
    else if (left == 0 && framer_pending(cl->in))
        mark_dirty(cl);
}

static void read_client(struct client *cl)
{
    connector_t *cn = cl->cn;
    ssize_t n;

    /* What was read before a pause comes first, and is enough for one pass. */
    if (framer_pending(cl->in)) {
        handle_input(cl);
        return;
    }
    n = framer_read(cl->in, cl->fd, cn->scratch, SCRATCH_SIZE, false);
    if (n > 0)
        handle_input(cl);
    else if (n == 0)
        kill_client(cl, "the client has gone away");
    else if (errno == ENOMEM)
        kill_client(cl, "out of memory for what the client sent");
    else if (errno != EAGAIN && errno != EINTR)
        kill_client(cl, "the client has gone away");
}

static void client_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct client *cl = arg;

    if (cl->state != CLIENT_DEAD && (revents & FLUX_POLLOUT))
        flush(cl);
    if (cl->state == CLIENT_OPEN && (revents & (FLUX_POLLIN | FLUX_POLLERR)) && !cl->paused)
        read_client(cl);
    else if (cl->state == CLIENT_CLOSING && (revents & FLUX_POLLERR))
        kill_client(cl, "the client has gone away");
}

/* --- life of a client --- */

static void count_process(struct client *cl, int by)
{
    uintptr_t n = (uintptr_t)hmap_get_u64(cl->cn->processes, (uint64_t)cl->pid) + (uintptr_t)by;

    if (n == 0)
        hmap_del_u64(cl->cn->processes, (uint64_t)cl->pid);
    else
        cl->counted = hmap_put_u64(cl->cn->processes, (uint64_t)cl->pid, (void *)n) == 0;
}

static void client_free(struct client *cl)
{
    if (cl) {
        int saved = errno;
        if (cl->counted)
            count_process(cl, -1);
        list_remove(&cl->node);
        list_remove(&cl->dirty_node);
        flux_watcher_destroy(cl->io);
        framer_destroy(cl->in);
        outq_destroy(cl->out);
        if (cl->fd >= 0)
            close(cl->fd);
        free(cl);
        errno = saved;
    }
}

/* A few at a time: the first of them may well use up the room, and thousands wait when a process connects
 * without end. */
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

/* After a pass: write what was queued, go on with clients that were paused, free dead ones. */
static void sweep_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
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
        if (cl->state == CLIENT_OPEN && !cl->paused && framer_pending(cl->in))
            handle_input(cl);
        if (cl->state != CLIENT_DEAD && !cl->blocked && outq_bytes(cl->out) > 0)
            flush(cl);
        if (cl->state != CLIENT_OPEN)
            remove_endpoint(cl);
        if (cl->state == CLIENT_DEAD) {
            client_free(cl);
            cn->stats.clients--;
            if (cn->starved) {
                cn->starved = false;
                flux_watcher_start(cn->accept);
            }
        }
    }
}

static int send_hello(struct client *cl)
{
    core_t *core = cl->cn->core;
    struct local_hello hello = {LOCAL_PROTOCOL, core_rank(core), core_size(core)};
    char *json = flux_schema_encode(&local_hello_schema, &hello);
    flux_msg_t *msg = json ? flux_msg_create(FLUX_MSG_CONTROL, LOCAL_HELLO) : NULL;
    int rc = -1;

    if (msg && flux_msg_set_json(msg, json) == 0)
        rc = outq_send(cl->out, cl->fd, msg);
    flux_msg_destroy(msg);
    free(json);
    return rc;
}

/* Is there room for one more client, and for one of this process? */
static int check_room(struct client *cl, errmsg_t *err)
{
    connector_t *cn = cl->cn;
    uint32_t rank = core_rank(cn->core);
    unsigned mine = (unsigned)(uintptr_t)hmap_get_u64(cn->processes, (uint64_t)cl->pid);
    struct rlimit files;

    if (mine >= cn->limits.per_process)
        return errmsg_fail(
            err, EMFILE,
            "process %d has %u connections to the broker of rank %u, and may have no more: "
            "close some",
            (int)cl->pid, mine, rank);
    if (cn->stats.clients > cn->limits.clients)
        return errmsg_fail(
            err, EMFILE,
            "the broker of rank %u serves %u clients, and no more at a time: try again later", rank,
            cn->limits.clients);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        (rlim_t)cl->fd + RESERVED >= files.rlim_cur)
        return errmsg_fail(
            err, EMFILE,
            "the broker of rank %u has no file descriptors for more clients: try again "
            "later, or start it with a higher limit than %lu (ulimit -n)",
            rank, (unsigned long)files.rlim_cur);
    return 0;
}

static int admit(struct client *cl, errmsg_t *err)
{
    connector_t *cn = cl->cn;
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
    if (check_room(cl, err) < 0) {
        int errnum = errno;
        cn->stats.refused++;
        if (!cn->crowded)
            core_log(cn->core, LOG_ERR, "a client was refused: %s", err->text);
        cn->crowded = true;
        close_with_error(cl, errnum, err->text);
        errno = EPERM; /* it was told */
        return -1;
    }
    cn->crowded = false;
    count_process(cl, 1);
    snprintf(name, sizeof(name), "client-%d", (int)cred.pid);
    cl->ep = core_endpoint_add(cn->core, ENDPOINT_CLIENT, name, cred.uid, FLUX_ROLE_OWNER,
                               &client_endpoint_ops, cl);
    if (!cl->ep || (cl->pid > 0 && core_endpoint_set_process(cl->ep, (uint32_t)cl->pid) < 0))
        return errmsg_fail(err, ENOMEM, "out of memory for a client");
    if (send_hello(cl) < 0)
        return errmsg_fail(err, errno, "the client has gone away");
    cl->blocked = outq_bytes(cl->out) > 0;
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
    if (fd_set_cloexec(fd, 1) < 0 || !(cl->in = framer_create()) || !(cl->out = outq_create()) ||
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

static void accept_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        int fd = accept4(cn->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        errmsg_t err;

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                if (!cn->starved)
                    core_log(cn->core, LOG_ERR,
                             "no more clients can be served (%s): raise the limit "
                             "of open files, or let some go",
                             strerror(errno));
                cn->starved = true;
                flux_watcher_stop(cn->accept);
                flux_timer_start(cn->retry, RETRY, 0.);
            }
            return;
        }
        if (connector_adopt(cn, fd, &err) < 0 && errno != EPERM && errno != EPIPE)
            core_log(cn->core, LOG_ERR, "a client was not served: %s", err.text);
    }
}

/* A client with thousands of open requests that are not answered for long (it watches so many
 * keys) gets its turn now and then: it may want to cancel some.  The core has a bound of its own.
 */
static void retry_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    connector_t *cn = arg;
    const struct connector_limits *lim = &cn->limits;
    bool again = false;

    if (cn->starved) {
        flux_watcher_start(cn->accept);
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

/* Neighbours take messages again: those who were paused for that go on after this pass. */
static void relief_cb(void *arg)
{
    connector_t *cn = arg;

    cn->relief = true;
    flux_watcher_start(cn->sweep);
}

/* Is there a living listener behind the name? */
static bool is_alive(const struct sockaddr_un *sun)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return true; /* cannot tell: leave it alone */
    rc = connect(fd, (const struct sockaddr *)sun, sizeof(*sun));
    if (rc < 0 && errno != ECONNREFUSED && errno != ENOENT)
        rc = 0; /* EAGAIN: alive and busy; anything else: not ours to remove */
    close(fd);
    return rc == 0;
}

/* Bind `fd` to the path, in place of what a dead broker left there. */
static int bind_name(connector_t *cn, int fd, const char *path, errmsg_t *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct stat st;

    if (strlen(path) >= sizeof(sun.sun_path))
        return errmsg_fail(err, ENAMETOOLONG,
                           "socket path %s has %zu bytes, %zu at most: choose a shorter rundir",
                           path, strlen(path), sizeof(sun.sun_path) - 1);
    strcpy(sun.sun_path, path);
    if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return errmsg_fail(err, errno, "cannot create socket %s: %s", path, strerror(errno));
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return errmsg_fail(err, EADDRINUSE, "%s exists and is not a socket: remove it", path);
    if (is_alive(&sun))
        return errmsg_fail(err, EADDRINUSE, "another broker listens at %s: choose another rundir",
                           path);
    if (unlink(path) < 0 && errno != ENOENT)
        return errmsg_fail(err, errno, "cannot remove the stale socket %s: %s", path,
                           strerror(errno));
    if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
        return errmsg_fail(err, errno, "cannot create socket %s: %s", path, strerror(errno));
    core_log(cn->core, LOG_INFO, "the socket of a dead broker was replaced: %s", path);
    return 0;
}

/* Listen at cn->path.  What listened before goes on until this one does. */
static int listen_at_path(connector_t *cn, errmsg_t *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    flux_watcher_t *accept = NULL;
    struct stat st;

    if (fd < 0)
        return errmsg_fail(err, errno, "cannot create a socket: %s", strerror(errno));
    if (bind_name(cn, fd, cn->path, err) < 0)
        goto error;
    if (listen(fd, BACKLOG) < 0 || lstat(cn->path, &st) < 0) {
        errmsg_fail(err, errno, "cannot listen at %s: %s", cn->path, strerror(errno));
        goto error;
    }
    if (!(accept = flux_fd_watcher_create(cn->r, fd, FLUX_POLLIN, accept_cb, cn))) {
        errmsg_fail(err, ENOMEM, "out of memory for socket %s", cn->path);
        goto error;
    }
    flux_watcher_destroy(cn->accept);
    if (cn->fd >= 0)
        close(cn->fd);
    cn->fd = fd;
    cn->dev = st.st_dev;
    cn->ino = st.st_ino;
    cn->accept = accept;
    flux_watcher_start(cn->accept);
    return 0;
error:;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int connector_relisten(connector_t *cn, errmsg_t *err)
{
    uint64_t accepted;
    struct stat st;

    if (!cn->path || (lstat(cn->path, &st) == 0 && st.st_dev == cn->dev && st.st_ino == cn->ino))
        return 0;
    /* Those who came before the name went. */
    do {
        accepted = cn->stats.accepted;
        accept_cb(cn->r, cn->accept, FLUX_POLLIN, cn);
    } while (cn->stats.accepted != accepted && !cn->starved);
    return listen_at_path(cn, err) < 0 ? -1 : 1;
}

void connector_limits_init(struct connector_limits *limits)
{
    *limits = (struct connector_limits){
        .pause_bytes = 1024 * 1024,
        .pause_messages = 8192,
        .cut_bytes = 64 * 1024 * 1024,
        .pause_inflight = 32768,
        .json_bytes = 8 * 1024 * 1024,
        .json_values = 256 * 1024,
        .clients = 65536,
        .per_process = 4096,
    };
}

connector_t *connector_create(core_t *core, const char *path, errmsg_t *err)
{
    connector_t *cn = calloc(1, sizeof(*cn));

    if (!cn) {
        errmsg_set(err, "out of memory for the local connector");
        return NULL;
    }
    cn->core = core;
    cn->r = core_reactor(core);
    cn->fd = -1;
    list_init(&cn->clients);
    list_init(&cn->dirty);
    connector_limits_init(&cn->limits);
    if (!(cn->processes = hmap_create_u64(NULL)) || !(cn->scratch = malloc(SCRATCH_SIZE)) ||
        !(cn->sweep = flux_defer_create(cn->r, sweep_cb, cn)) ||
        !(cn->retry = flux_timer_create(cn->r, retry_cb, cn))) {
        errmsg_set(err, "cannot create the local connector: %s", strerror(errno));
        goto error;
    }
    if (path && !(cn->path = strdup(path))) {
        errmsg_set(err, "out of memory for the local connector");
        goto error;
    }
    if (path && listen_at_path(cn, err) < 0)
        goto error;
    core_on_relief(core, relief_cb, cn);
    return cn;
error:
    connector_destroy(cn);
    return NULL;
}

void connector_destroy(connector_t *cn)
{
    if (cn) {
        int saved = errno;
        struct stat st;
        struct list_node *n;

        core_on_relief(cn->core, NULL, NULL);
        flux_watcher_destroy(cn->accept);
        flux_watcher_destroy(cn->retry);
        /* Answers that wait are still tried to be written, once. */
        LIST_FOREACH(it, &cn->clients)
        {
            struct client *cl = list_entry(it, struct client, node);
            if (cl->state != CLIENT_DEAD)
                (void)outq_flush(cl->out, cl->fd);
        }
        LIST_FOREACH_SAFE(it, tmp, &cn->clients)
        {
            kill_client(list_entry(it, struct client, node), "the broker is going down");
        }
        LIST_FOREACH(it, &cn->clients)
        {
            remove_endpoint(list_entry(it, struct client, node));
        }
        while ((n = list_first(&cn->clients)))
            client_free(list_entry(n, struct client, node));
        flux_watcher_destroy(cn->sweep);
        if (cn->fd >= 0) {
            close(cn->fd);
            if (lstat(cn->path, &st) == 0 && st.st_dev == cn->dev && st.st_ino == cn->ino)
                (void)unlink(cn->path);
        }
        free(cn->path);
        hmap_destroy(cn->processes);
        free(cn->scratch);
        free(cn);
        errno = saved;
    }
}

void connector_set_limits(connector_t *cn, const struct connector_limits *limits)
{
    cn->limits = *limits;
}

void connector_get_stats(const connector_t *cn, struct connector_stats *st)
{
    *st = cn->stats;
    st->queued = 0;
    LIST_FOREACH(it, &cn->clients)
    st->queued += outq_bytes(list_entry(it, struct client, node)->out);
}
