/* pmi_client.c - a PMI-1 client.
 *
 * There are two kinds of connection to the server, chosen when the client is created:
 *   socket    a stream socket, blocking or not, read into a buffer of one line's length;
 *   loopback  a pmi_server of one task inside the client, for programs without a launcher: the
 *             singleton follows the same rules as all other programs, by the same code.
 *
 * Dialog at creation:  [initack -> initack, set size, set rank, set debug]
 *                      init -> response_to_init, get_maxes -> maxes,
 *                      get_my_kvsname -> my_kvsname
 *
 * Invariants:
 *  1. One request, then its response: `in` is empty when a request is sent.
 *  2. Requests are formatted and responses parsed in buffers of PMI_WIRE_LINE_MAX bytes that belong
 *     to the client; nothing is allocated after creation.
 *  3. A response that was parsed stays valid until the next request.
 *
 * Failure: when the dialog is lost (EOF, I/O error, an unexpected line), `broken` keeps the errno
 * and all later calls fail with it at once: a desynchronized PMI dialog would return wrong values.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libpmi/pmi_client_private.h"
#include "libpmi/pmi_server.h"

int pmi_client_broken(struct pmi_client *c, errmsg_t *err, int errnum, const char *what)
{
    c->broken = errnum;
    return errmsg_fail(err, errnum,
                       "PMI: %s: %s; is the launcher that started rank %d still alive?", what,
                       strerror(errnum), c->rank);
}

static int wait_fd(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    while (poll(&p, 1, -1) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return 0;
}

static int write_all(int fd, const char *p, size_t len)
{
    while (len) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n < 0 && errno == ENOTSOCK)
            n = write(fd, p, len);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (wait_fd(fd, POLLOUT) < 0)
                return -1;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int loop_send(void *arg, size_t idx, const void *data, size_t len)
{
    struct pmi_client *c = arg;

    if (len > sizeof(c->in) - c->len)
        return -1;
    memcpy(c->in + c->len, data, len);
    c->len += len;
    return 0;
}

static void loop_barrier(void *arg, const void *blob, size_t len, size_t npairs)
{
    struct pmi_client *c = arg;

    (void)pmi_server_barrier_done(c->server, 0, NULL);
}

static const struct pmi_server_ops loop_ops = {.send = loop_send, .barrier = loop_barrier};

int pmi_client_request(struct pmi_client *c, const struct pmi_out *o, errmsg_t *err)
{
    if (c->finalized)
        return errmsg_fail(err, EINVAL, "PMI: rank %d has already finalized", c->rank);
    if (c->broken)
        return errmsg_fail(err, c->broken, "PMI: the connection of rank %d has failed earlier: %s",
                           c->rank, strerror(c->broken));
    if (o->bad)
        return errmsg_fail(err, EINVAL, "PMI: a request of rank %d does not fit in %d bytes",
                           c->rank, PMI_WIRE_LINE_MAX);
    c->len = c->used = 0;
    if (c->fd < 0) {
        if (pmi_server_input(c->server, 0, o->p, o->len) < 0)
            return pmi_client_broken(c, err, errno, "request refused");
    } else if (write_all(c->fd, o->p, o->len) < 0) {
        return pmi_client_broken(c, err, errno, "cannot send");
    }
    return 0;
}

/* Read until there is a whole line after c->used.  Returns its length without the newline. */
static ptrdiff_t read_line(struct pmi_client *c, errmsg_t *err)
{
    size_t seen = c->used;

    for (;;) {
        ptrdiff_t n = pmi_wire_line(c->in + seen, c->len - seen);
        ssize_t got;

        if (n >= 0)
            return n + (ptrdiff_t)(seen - c->used);
        seen = c->len;
        if (c->fd < 0 || c->len == sizeof(c->in))
            return pmi_client_broken(c, err, EPROTO, "the server's response has no end");
        got = read(c->fd, c->in + c->len, sizeof(c->in) - c->len);
        if (got == 0)
            return pmi_client_broken(c, err, ECONNRESET, "the server closed the connection");
        if (got > 0) {
            c->len += (size_t)got;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (wait_fd(c->fd, POLLIN) < 0)
                return pmi_client_broken(c, err, errno, "cannot wait for a response");
        } else if (errno != EINTR) {
            return pmi_client_broken(c, err, errno, "cannot receive");
        }
    }
}

int pmi_client_response(struct pmi_client *c, enum pmi_cmd want, struct pmi_msg *msg, errmsg_t *err)
{
    ptrdiff_t n = read_line(c, err);
    const char *line = c->in + c->used;

    if (n < 0)
        return -1;
    c->used += (size_t)n + 1;
    if (pmi_wire_parse(line, (size_t)n, msg) < 0 || msg->block || msg->cmd != want) {
        c->broken = EPROTO;
        return errmsg_fail(err, EPROTO, "PMI: the server sent '%.*s' instead of cmd=%s",
                           n < 80 ? (int)n : 80, line, pmi_cmd_name(want));
    }
    return 0;
}

int pmi_client_call(struct pmi_client *c, struct pmi_out *o, enum pmi_cmd want, struct pmi_msg *msg,
                    errmsg_t *err)
{
    pmi_out_end(o);
    if (pmi_client_request(c, o, err) < 0 || pmi_client_response(c, want, msg, err) < 0)
        return -1;
    if (c->used != c->len)
        return pmi_client_broken(c, err, EPROTO, "the server sent more than was requested");
    return 0;
}

int pmi_client_check_rc(struct pmi_client *c, const struct pmi_msg *msg, const char *doing,
                        errmsg_t *err)
{
    struct pmi_slice text;
    int rc = 0;

    if (pmi_msg_get_int(msg, "rc", INT32_MIN, INT32_MAX, &rc) < 0 && errno == EPROTO)
        rc = -1;
    if (rc == 0 && pmi_msg_get(msg, "info", &text) && !pmi_slice_eq(text, "ok"))
        rc = -1;
    if (rc == 0)
        return 0;
    pmi_msg_get(msg, "msg", &text);
    return errmsg_fail(err, EREMOTEIO, "PMI: %s of rank %d failed: rc=%d %.*s", doing, c->rank, rc,
                       text.len < 120 ? (int)text.len : 120, text.p);
}

int pmi_client_simple_call(struct pmi_client *c, enum pmi_cmd cmd, struct pmi_msg *msg,
                           errmsg_t *err)
{
    struct pmi_out o;

    pmi_out_init(&o, c->out, sizeof(c->out));
    pmi_out_cmd(&o, cmd);
    if (pmi_client_call(c, &o, pmi_cmd_response(cmd), msg, err) < 0)
        return -1;
    return pmi_client_check_rc(c, msg, pmi_cmd_name(cmd), err);
}

static int port_dialog(struct pmi_client *c, errmsg_t *err)
{
    struct pmi_msg msg;
    struct pmi_out o;
    int n;

    pmi_out_init(&o, c->out, sizeof(c->out));
    pmi_out_cmd(&o, PMI_CMD_INITACK);
    pmi_out_int(&o, "pmiid", c->rank);
    pmi_out_end(&o);
    if (pmi_client_request(c, &o, err) < 0 ||
        pmi_client_response(c, PMI_CMD_INITACK, &msg, err) < 0 ||
        pmi_client_check_rc(c, &msg, "initack", err) < 0)
        return -1;
    c->size = -1;
    for (int i = 0; i < 3; i++) {
        if (pmi_client_response(c, PMI_CMD_SET, &msg, err) < 0)
            return -1;
        if (pmi_msg_get_int(&msg, "size", 1, INT32_MAX, &n) == 0)
            c->size = n;
        if (pmi_msg_get_int(&msg, "rank", 0, INT32_MAX, &n) == 0)
            c->rank = n;
    }
    if (c->size < 1 || c->rank >= c->size)
        return pmi_client_broken(c, err, EPROTO, "the server did not send a valid rank and size");
    return 0;
}

static int init_dialog(struct pmi_client *c, errmsg_t *err)
{
    struct pmi_slice s;
    struct pmi_msg msg;
    struct pmi_out o;
    int name, key, value;

    pmi_out_init(&o, c->out, sizeof(c->out));
    pmi_out_cmd(&o, PMI_CMD_INIT);
    pmi_out_int(&o, "pmi_version", 1);
    pmi_out_int(&o, "pmi_subversion", 1);
    if (pmi_client_call(c, &o, PMI_CMD_RESPONSE_TO_INIT, &msg, err) < 0 ||
        pmi_client_check_rc(c, &msg, "init", err) < 0 ||
        pmi_client_simple_call(c, PMI_CMD_GET_MAXES, &msg, err) < 0)
        return -1;
    if (pmi_msg_get_int(&msg, "kvsname_max", 1, PMI_CLIENT_NAME_MAX, &name) < 0 ||
        pmi_msg_get_int(&msg, "keylen_max", 1, PMI_WIRE_LINE_MAX, &key) < 0 ||
        pmi_msg_get_int(&msg, "vallen_max", 1, INT32_MAX, &value) < 0)
        return pmi_client_broken(c, err, EPROTO, "the server did not send valid limits");
    pmi_msg_get_int(&msg, "wide_vallen_max", value, PMI_WIRE_LINE_MAX / 2, &value);
    if (value > PMI_WIRE_LINE_MAX / 2)
        value = PMI_WIRE_LINE_MAX / 2;
    c->name_max = (size_t)name;
    c->key_max = (size_t)key < PMI_CLIENT_NAME_MAX ? (size_t)key : PMI_CLIENT_NAME_MAX;
    c->value_max = (size_t)value;
    if (pmi_client_simple_call(c, PMI_CMD_GET_MY_KVSNAME, &msg, err) < 0)
        return -1;
    if (!pmi_msg_get(&msg, "kvsname", &s) || s.len == 0 || s.len > PMI_CLIENT_NAME_MAX)
        return pmi_client_broken(c, err, EPROTO, "the server did not send a valid kvsname");
    memcpy(c->kvsname, s.p, s.len);
    c->kvsname[s.len] = '\0';
    return 0;
}

static struct pmi_client *client_alloc(int fd, int rank, int size, errmsg_t *err)
{
    struct pmi_client *c = malloc(sizeof(*c));

    if (!c) {
        errmsg_fail(err, ENOMEM, "PMI: out of memory for a client");
        return NULL;
    }
    /* the line buffers are not cleared: they are large and used from the front */
    memset(c, 0, offsetof(struct pmi_client, in));
    c->fd = fd;
    c->rank = rank;
    c->size = size;
    return c;
}

static struct pmi_client *finish(struct pmi_client *c, int rc)
{
    if (rc == 0)
        return c;
    pmi_client_destroy(c);
    return NULL;
}

struct pmi_client *pmi_client_create_fd(int fd, int rank, int size, errmsg_t *err)
{
    struct pmi_client *c;

    if (fd < 0 || size < 1 || rank < 0 || rank >= size) {
        errmsg_fail(err, EINVAL, "PMI: the combination of fd %d and rank %d of %d is invalid", fd,
                    rank, size);
        return NULL;
    }
    c = client_alloc(fd, rank, size, err);
    if (!c)
        return NULL;
    /* a child process that keeps the socket open would hide the death of this one */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return finish(c, init_dialog(c, err));
}

struct pmi_client *pmi_client_create_singleton(errmsg_t *err)
{
    static const uint32_t ranks[1] = {0};
    struct pmi_client *c = client_alloc(-1, 0, 1, err);
    struct pmi_server_params p = {.size = 1, .nlocal = 1, .ranks = ranks};
    char name[64];

    if (!c)
        return NULL;
    snprintf(name, sizeof(name), "singleton_%ld_0", (long)getpid());
    p.kvsname = name;
    c->server = pmi_server_create(&loop_ops, c, &p, err);
    if (!c->server)
        return finish(c, -1);
    if (pmi_server_preset(c->server, "PMI_process_mapping", "(vector,(0,1,1))") < 0) {
        errmsg_fail(err, errno, "PMI: out of memory for a client");
        return finish(c, -1);
    }
    return finish(c, init_dialog(c, err));
}

/* "host:port" to a connected socket, or -1. */
static int connect_port(const char *where, errmsg_t *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list, *a;
    const char *colon = strrchr(where, ':');
    char host[256];
    int fd = -1, one = 1, rc, saved;

    if (!colon || colon == where || (size_t)(colon - where) >= sizeof(host))
        return errmsg_fail(err, EINVAL, "PMI: PMI_PORT=%s is not HOST:PORT", where);
    memcpy(host, where, (size_t)(colon - where));
    host[colon - where] = '\0';
    rc = getaddrinfo(host, colon + 1, &hints, &list);
    if (rc != 0)
        return errmsg_fail(err, EINVAL, "PMI: PMI_PORT=%s: %s", where, gai_strerror(rc));
    errno = ECONNREFUSED;
    for (a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            saved = errno;
            close(fd);
            errno = saved;
            fd = -1;
        }
    }
    saved = errno;
    freeaddrinfo(list);
    if (fd < 0)
        return errmsg_fail(err, saved, "PMI: cannot connect to PMI_PORT=%s: %s", where,
                           strerror(saved));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* A number from the environment; -1 with an error message when missing or malformed. */
static int env_int(const char *name, int lo, const char *because, int *value, errmsg_t *err)
{
    const char *s = getenv(name);

    if (s && pmi_slice_int((struct pmi_slice){s, strlen(s)}, lo, INT32_MAX, value) == 0)
        return 0;
    return errmsg_fail(err, EINVAL, "PMI: %s is set, but %s is %s%s; the launcher must set both",
                       because, name, s ? "not a valid number: " : "missing", s ? s : "");
}

static struct pmi_client *create_port(const char *port, errmsg_t *err)
{
    struct pmi_client *c;
    int id, fd;

    if (env_int("PMI_ID", 0, "PMI_PORT", &id, err) < 0)
        return NULL;
    fd = connect_port(port, err);
    if (fd < 0)
        return NULL;
    c = client_alloc(fd, id, -1, err);
    if (!c) {
        close(fd);
        return NULL;
    }
    return finish(c, port_dialog(c, err) < 0 ? -1 : init_dialog(c, err));
}

struct pmi_client *pmi_client_create_env(errmsg_t *err)
{
    int fd, rank, size;

    if (getenv("PMI_FD")) {
        if (env_int("PMI_FD", 0, "PMI_FD", &fd, err) < 0 ||
            env_int("PMI_RANK", 0, "PMI_FD", &rank, err) < 0 ||
            env_int("PMI_SIZE", 1, "PMI_FD", &size, err) < 0)
            return NULL;
        return pmi_client_create_fd(fd, rank, size, err);
    }
    if (getenv("PMI_PORT"))
        return create_port(getenv("PMI_PORT"), err);
    return pmi_client_create_singleton(err);
}

void pmi_client_destroy(struct pmi_client *c)
{
    int saved = errno;

    if (c) {
        if (c->fd >= 0)
            close(c->fd);
        pmi_server_destroy(c->server);
        free(c);
    }
    errno = saved;
}
