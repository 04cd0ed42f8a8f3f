/* conn_local.c - the transport of clients: a UNIX stream socket to the local broker.
 *
 *    state        what happens                              left when
 *    connecting   connects, waits for the broker's "hello"  hello: open; anything else: an error
 *    open         messages pass both ways                   end of stream, "error", bad bytes: lost
 *    lost         nothing                                   the handle is closed
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
 *  2. The descriptor's flags are never changed: an inherited descriptor may be shared.
 *  3. Messages are delivered in the order in which they came, even if a handler waits for a future,
 *     and so reads on while messages of the previous read are undelivered.
 *
 * Security: a client sends its environment, its input and its jobs to whoever listens.  The process
 * at the other end must therefore run as the client's own user, or as root; nothing is read or
 * written before that is checked.
 *
 * Failure: flux_local_open() returns NULL with errno and an error message; later the handle is told
 * once that the connection is lost.
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
#include "libutil/fdutil.h"
#include "libutil/strutil.h"
#include "local_proto.h"

#define SCRATCH_SIZE 65536
#define FLUSH_SIZE 65536
#define QUEUE_MAX (64u * 1024 * 1024)
#define HELLO_TIMEOUT 60.

static const struct flux_field hello_fields[] = {
    FLUX_FIELD_INT(struct local_hello, protocol, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct local_hello, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct local_hello, size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema local_hello_schema = FLUX_SCHEMA(struct local_hello, hello_fields);

static const struct flux_field error_fields[] = {
    FLUX_FIELD_INT(struct local_error, errnum, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct local_error, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema local_error_schema = FLUX_SCHEMA(struct local_error, error_fields);

struct local {
    flux_t *h;
    flux_reactor_t *r;
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
    bool lost;
};

static void lose(struct local *l, const char *why)
{
    if (l->lost)
        return;
    l->lost = true;
    flux_watcher_stop(l->io);
    flux_watcher_stop(l->defer);
    if (l->h)
        flux_handle_lost(l->h, why);
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

    /* The broker may have sent the reason before it closed: the reader finds that, or the end. */
    if (rc < 0)
        l->out_broken = true;
    set_blocked(l, rc == 1);
}

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct local *l = arg;

    if (!l->blocked && !l->out_broken)
        flush(l);
}

static int local_send(void *impl, flux_msg_t *msg)
{
    struct local *l = impl;
    size_t queued = outq_bytes(l->out);
    double now = flux_reactor_now(l->r);
    int rc;

    if (l->lost || l->out_broken)
        rc = EPIPE;
    else if (queued > QUEUE_MAX)
        rc = ENOBUFS;
    else if (queued == 0 && l->pass != now) {
        l->pass = now;
        rc = outq_send(l->out, l->fd, msg) < 0 ? errno : 0;
        if (rc == 0)
            set_blocked(l, outq_bytes(l->out) > 0);
        else if (rc != ENOMEM)
            rc = EPIPE;
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

    if (json && strcmp(flux_msg_topic(msg), LOCAL_ERROR) == 0)
        obj = flux_schema_decode(&local_error_schema, json, strlen(json), &e, NULL);
    lose(l, obj ? e.text : "the broker sent an unknown control message");
    json_decref(obj);
}

/* Deliver what was read. */
static void deliver(struct local *l)
{
    flux_msg_t *msg;
    errmsg_t err;

    while (!l->lost && (msg = framer_next(l->in, &err))) {
        if (flux_msg_type(msg) == FLUX_MSG_CONTROL) {
            handle_control(l, msg);
            flux_msg_destroy(msg);
        } else
            flux_handle_deliver(l->h, msg);
    }
    if (!l->lost && errno != EAGAIN)
        lose(l, err.text);
}

/* Read once and deliver.  `wait`: sleep until there is something to read. */
static void input(struct local *l, bool wait)
{
    ssize_t n = framer_read(l->in, l->fd, l->scratch, SCRATCH_SIZE, wait);

    if (n > 0)
        deliver(l);
    else if (n == 0)
        lose(l, "the broker closed the connection");
    else if (errno != EAGAIN && errno != EINTR)
        lose(l, strerror(errno));
}

static void io_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct local *l = arg;

    if (revents & FLUX_POLLOUT)
        flush(l);
    if (revents & (FLUX_POLLIN | FLUX_POLLERR))
        input(l, false);
}

static int local_wait(void *impl, double timeout)
{
    struct local *l = impl;
    struct pollfd pfd = {.fd = l->fd, .events = POLLIN};

    l->pass = -1.;
    if (!l->lost && !l->out_broken && outq_bytes(l->out) > 0)
        flush(l);
    flux_watcher_stop(l->defer);
    /* If a handler waits, messages that were read before its call come first. */
    if (!l->lost && framer_pending(l->in)) {
        deliver(l);
        if (!l->lost)
            return 0;
    }
    if (!l->lost) {
        if (timeout < 0. && !l->blocked && !l->nonblock)
            input(l, true);
        else {
            struct timespec ts;
            if (timeout >= 0.) {
                ts.tv_sec = timeout > 1e9 ? 1000000000 : (time_t)timeout;
                ts.tv_nsec = timeout > 1e9 ? 0 : (long)((timeout - (double)ts.tv_sec) * 1e9);
            }
            if (l->blocked)
                pfd.events |= POLLOUT;
            if (ppoll(&pfd, 1, timeout >= 0. ? &ts : NULL, NULL) > 0) {
                if (pfd.revents & POLLOUT)
                    flush(l);
                if (pfd.revents & (POLLIN | POLLERR | POLLHUP))
                    input(l, false);
            }
        }
    }
    if (l->lost) {
        errno = EPIPE;
        return -1;
    }
    return 0;
}

static int local_pollfd(void *impl, int *events)
{
    struct local *l = impl;

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
        while (!l->lost && !l->out_broken && l->out && outq_bytes(l->out) > 0) {
            struct pollfd pfd = {.fd = l->fd, .events = POLLOUT};
            if (outq_flush(l->out, l->fd) <= 0 || poll(&pfd, 1, 1000) <= 0)
                break;
        }
        flux_watcher_destroy(l->io);
        flux_watcher_destroy(l->defer);
        framer_destroy(l->in);
        outq_destroy(l->out);
        free(l->scratch);
        if (l->fd >= 0)
            close(l->fd);
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

static int connect_path(const char *path, errmsg_t *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof(sun.sun_path))
        return errmsg_fail(err, ENAMETOOLONG,
                           "the path of the broker's socket is longer than %zu bytes: %s",
                           sizeof(sun.sun_path) - 1, path);
    strcpy(sun.sun_path, path);
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
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
            return connect_path(uri + 8, err);
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

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        seed = (uint64_t)ts.tv_nsec << 32 ^ (uint64_t)getpid() ^ (uint64_t)ts.tv_sec;
    }
    return seed;
}

flux_t *flux_local_open(const char *uri, flux_reactor_t *r, errmsg_t *err)
{
    struct local *l = calloc(1, sizeof(*l));
    struct local_hello hello;

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
    if (greet(l, &hello, err) < 0)
        goto error;
    if (!(l->h = flux_handle_create(&local_ops, l, r, hello.rank, hello.size, random_seed()))) {
        errmsg_set(err, "out of memory for a connection");
        goto error;
    }
    flux_watcher_start(l->io);
    return l->h;
error:
    local_destroy(l);
    return NULL;
}
