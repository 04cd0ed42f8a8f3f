/* relay.c - the relay of flux proxy, both ends.
 *
 * A connection of the near end:
 *    state      action                                     left when (by)
 *    asked      wrexec.run was sent; nothing is read       first notice: the far end runs
 *                                                          (notice)
 *    open       bytes are copied both ways                 client's end of file (in_cb), or result
 *    half       the client's end of file was sent to the   result (response_cb)
 *               far end
 *    closing    the far end has ended; its data is         all is written (flush), or the client
 *               written                                    has ended (out_cb)
 *
 * Flow control: at most WIRE_STDIN_WINDOW bytes that the far end has not acknowledged are read
 * from the client; the far end sends at most WINDOW bytes that the client has not accepted.
 *
 * The near end removes its socket and directory when it ends.  It ends when the descriptor that it
 * shares with its starter is closed, so that it also ends when the starter is killed.
 *
 * Both ends ask the kernel for the owner of their peer: the near end serves only this user and
 * root, and the far end connects only to a socket of theirs.
 *
 * The stream goes on when a broker on the way dies (job_stream.c).
 *
 * Failure: messages of the far end on standard error are printed here; the client sees the end of
 * its connection.
 */
#include "config.h"
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libflux/paths.h"
#include "libutil/buf.h"
#include "libutil/fdutil.h"
#include "libutil/list.h"
#include "libexec/wrexec_wire.h"
#include "../job/job_stream.h"

#define WINDOW (256u << 10)
#define PIECE 65536
#define CONNS_MAX 256

extern char **environ;

struct relay {
    pid_t pid;
    int ctl;
    char *dir;
    char uri[160];
};

struct server {
    flux_t *h;
    flux_reactor_t *r;
    const char *path; /* at the far end */
    char ranks[16];
    char *flux; /* the command's file, here and there */
    int listenfd;
    flux_watcher_t *accept;
    struct list_node conns;
    unsigned nconns;
};

struct conn {
    struct list_node node;
    struct server *s;
    int fd;
    job_stream_t *stream;
    bool open, closing;
    bool eof; /* the client sends no more */
    size_t room;
    buf_t *out;
    flux_watcher_t *in_w, *out_w;
};

/* --- the near end --- */

static void accept_more(struct server *s)
{
    if (s->nconns < CONNS_MAX)
        flux_watcher_start(s->accept);
    else
        flux_watcher_stop(s->accept);
}

static void conn_destroy(struct conn *c)
{
    list_remove(&c->node);
    c->s->nconns--;
    flux_watcher_destroy(c->in_w);
    flux_watcher_destroy(c->out_w);
    job_stream_destroy(c->stream); /* tells the service, which ends the far end */
    close(c->fd);
    buf_destroy(c->out);
    accept_more(c->s);
    free(c);
}

static void in_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct conn *c = arg;
    char data[PIECE];
    ssize_t n = read(c->fd, data, c->room < sizeof(data) ? c->room : sizeof(data));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        flux_watcher_stop(w);
        c->eof = true;
        if (job_stream_input(c->stream, NULL, 0, NULL, 0) < 0)
            conn_destroy(c);
        return;
    }
    if (job_stream_input(c->stream, NULL, 0, data, (size_t)n) < 0) {
        conn_destroy(c);
        return;
    }
    c->room -= (size_t)n;
    if (c->room == 0)
        flux_watcher_stop(w);
}

/* True when the connection is closed. */
static bool flush(struct conn *c)
{
    while (buf_len(c->out) > 0) {
        ssize_t n = send(c->fd, buf_data(c->out), buf_len(c->out), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            conn_destroy(c);
            return true;
        }
        buf_consume(c->out, (size_t)n);
    }
    if (buf_len(c->out) > 0)
        flux_watcher_start(c->out_w);
    else {
        flux_watcher_stop(c->out_w);
        if (c->closing) {
            conn_destroy(c);
            return true;
        }
    }
    job_stream_pay(c->stream, buf_len(c->out));
    return false;
}

static void out_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flush(arg);
}

static void on_output(void *arg, const void *data, size_t len)
{
    struct conn *c = arg;
    struct wire_record rec;
    int ok;

    while ((ok = exec_wire_record_next(&data, &len, &rec)) == 1) {
        if (rec.stream == 1)
            ok = buf_append(c->out, rec.data, rec.len);
        else
            ok = fd_write_all(STDERR_FILENO, rec.data, rec.len);
        if (rec.stream == 1 && ok < 0)
            break;
    }
    if (ok < 0)
        conn_destroy(c);
    else
        flush(c);
}

static void on_notice(void *arg, const struct wrexec_notice *n)
{
    struct conn *c = arg;

    if (n->text)
        fprintf(stderr, "flux proxy: %s\n", n->text);
    if (!c->open) {
        c->open = true;
        c->room = WIRE_STDIN_WINDOW;
        flux_watcher_start(c->in_w);
    } else if (n->taken && !c->eof) {
        c->room += n->taken;
        flux_watcher_start(c->in_w);
    }
}

static void on_result(void *arg, const char *json, size_t len)
{
    struct conn *c = arg;

    c->closing = true;
    flux_watcher_stop(c->in_w);
    shutdown(c->fd, SHUT_RD);
    flush(c);
}

static void on_failure(void *arg, int errnum, const char *why)
{
    struct conn *c = arg;

    fprintf(stderr, "flux proxy: %s\n", why);
    conn_destroy(c);
}

static const struct job_stream_cb stream_cb = {on_notice, on_output, on_result, on_failure};

static int run_far_end(struct conn *c)
{
    struct wrexec_run run = {.ranks = c->s->ranks, .input = "first", .window = WINDOW};
    const char *fixed[WIRE_STRINGS] = {[WIRE_S_CWD] = "/"};
    char option[200];
    char *argv[] = {c->s->flux, (char *)"proxy", option, NULL};
    struct jobreq req = {0};
    char *json = flux_schema_encode(&wrexec_run_schema, &run);
    void *payload = NULL;
    char *strings;
    size_t len;

    snprintf(option, sizeof(option), "--connect=%s", c->s->path);
    strings = wrexec_jobreq_strings(fixed, argv, environ, &req);
    if (json && strings) {
        req.json = json;
        req.json_len = strlen(json);
        payload = wrexec_jobreq_encode(&req, &len);
    }
    if (payload)
        c->stream = job_stream_run(c->s->h, payload, len, WINDOW, &stream_cb, c);
    free(payload);
    free(strings);
    free(json);
    return c->stream ? 0 : -1;
}

static void accept_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct server *s = arg;
    int fd = accept4(s->listenfd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct conn *c;
    errmsg_t err;

    if (fd < 0)
        return;
    if (fd_check_peer(fd, "a client of the relay", &err) < 0) {
        fprintf(stderr, "flux proxy: %s\n", err.text);
        close(fd);
        return;
    }
    if (!(c = calloc(1, sizeof(*c)))) {
        close(fd);
        return;
    }
    c->s = s;
    c->fd = fd;
    list_append(&s->conns, &c->node);
    s->nconns++;
    c->out = buf_create(0); /* bounded by the credit */
    c->in_w = flux_fd_watcher_create(r, fd, FLUX_POLLIN, in_cb, c);
    c->out_w = flux_fd_watcher_create(r, fd, FLUX_POLLOUT, out_cb, c);
    if (!c->out || !c->in_w || !c->out_w || run_far_end(c) < 0)
        conn_destroy(c);
    else
        accept_more(s);
}

static void ctl_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static void lost_cb(flux_t *h, void *arg)
{
    flux_reactor_stop(flux_get_reactor(h), 1);
}

static void serve(struct server *s, const char *uri, int ctl)
{
    flux_watcher_t *ctl_w;
    errmsg_t err;

    list_init(&s->conns);
    if (!(s->r = flux_reactor_create(false)) || !(s->h = flux_open(uri, s->r, &err))) {
        if (!s->r)
            snprintf(err.text, sizeof(err.text), "cannot create an event loop");
        fd_write_all(ctl, err.text, strlen(err.text));
        return;
    }
    flux_set_lost_handler(s->h, lost_cb, s);
    s->accept = flux_fd_watcher_create(s->r, s->listenfd, FLUX_POLLIN, accept_cb, s);
    ctl_w = flux_fd_watcher_create(s->r, ctl, FLUX_POLLIN, ctl_cb, s);
    if (s->accept && ctl_w && fd_write_all(ctl, "", 1) == 0) {
        flux_watcher_start(s->accept);
        flux_watcher_start(ctl_w);
        flux_reactor_run(s->r);
    }
    LIST_FOREACH_SAFE(it, tmp, &s->conns)
    {
        conn_destroy(list_entry(it, struct conn, node));
    }
    flux_watcher_destroy(ctl_w);
    flux_watcher_destroy(s->accept);
    flux_close(s->h);
    flux_reactor_destroy(s->r);
}

/* In the child: keep the two descriptors and the standard ones. */
static void close_others(int a, int b)
{
    int lo = a < b ? a : b, hi = a < b ? b : a;

    if (lo > 3)
        syscall(SYS_close_range, 3u, (unsigned)lo - 1, 0u);
    if (hi > lo + 1)
        syscall(SYS_close_range, (unsigned)lo + 1, (unsigned)hi - 1, 0u);
    syscall(SYS_close_range, (unsigned)hi + 1, ~0u, 0u);
}

static int listen_at(const char *dir, char *uri, size_t size, errmsg_t *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd;

    if (snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/local", dir) >= (int)sizeof(sun.sun_path))
        return errmsg_fail(err, ENAMETOOLONG, "the path %s is too long for a socket", dir);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 || listen(fd, 128) < 0) {
        errmsg_fail(err, errno, "cannot listen at %s: %s", sun.sun_path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    snprintf(uri, size, "local://%s", sun.sun_path);
    return fd;
}

static void child(struct server *s, const char *uri, int ctl, const char *dir)
{
    setpgid(0, 0); /* the terminal's ^C is not for it */
    signal(SIGPIPE, SIG_IGN);
    close_others(ctl, s->listenfd);
    serve(s, uri, ctl);
    dir_remove_tree(dir);
    _exit(0);
}

/* "" when the relay is up; else its error message. */
static int wait_up(relay_t *r, errmsg_t *err)
{
    size_t len = 0;
    char text[sizeof(err->text)];
    ssize_t n;

    while (len < sizeof(text) - 1) {
        n = read(r->ctl, text + len, sizeof(text) - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
        if (text[0] == '\0')
            return 0;
    }
    text[len] = '\0';
    return errmsg_fail(err, ECONNREFUSED, "%s", len ? text : "the relay has ended unexpectedly");
}

relay_t *relay_start(const char *uri, uint32_t rank, const char *path, errmsg_t *err)
{
    struct server s = {.listenfd = -1, .path = path};
    relay_t *r = calloc(1, sizeof(*r));
    int sv[2] = {-1, -1};

    snprintf(s.ranks, sizeof(s.ranks), "%u", rank);
    if (!r) {
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    r->ctl = -1;
    if (!(s.flux = flux_path_exec("flux", err)) ||
        !(r->dir = dir_create_runtime("flux-relay", err)) ||
        (s.listenfd = listen_at(r->dir, r->uri, sizeof(r->uri), err)) < 0)
        goto error;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0 || (r->pid = fork()) < 0) {
        errmsg_fail(err, errno, "cannot start a relay: %s", strerror(errno));
        goto error;
    }
    if (r->pid == 0)
        child(&s, uri, sv[1], r->dir);
    close(s.listenfd);
    close(sv[1]);
    s.listenfd = sv[1] = -1;
    r->ctl = sv[0];
    free(s.flux);
    s.flux = NULL;
    if (wait_up(r, err) == 0)
        return r;
    sv[0] = -1;
error:
    free(s.flux);
    if (s.listenfd >= 0)
        close(s.listenfd);
    for (int i = 0; i < 2; i++)
        if (sv[i] >= 0)
            close(sv[i]);
    relay_stop(r);
    return NULL;
}

void relay_stop(relay_t *r)
{
    if (r) {
        int saved = errno;
        if (r->ctl >= 0)
            close(r->ctl);
        while (r->pid > 0 && waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        if (r->dir)
            dir_remove_tree(r->dir);
        free(r->dir);
        free(r);
        errno = saved;
    }
}

const char *relay_uri(const relay_t *r)
{
    return r->uri;
}

/* --- the far end --- */

struct pipe_dir {
    int from, to;
    bool open;
    size_t len, pos;
    char data[PIECE];
};

/* One step of one direction.  -1: over. */
static int step(struct pipe_dir *d, bool readable, bool writable)
{
    ssize_t n;

    if (d->len > d->pos && writable) {
        n = write(d->to, d->data + d->pos, d->len - d->pos);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        d->pos += (size_t)n;
    } else if (d->len == d->pos && readable) {
        n = read(d->from, d->data, sizeof(d->data));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0)
            return -1;
        d->len = (size_t)n;
        d->pos = 0;
    }
    return 0;
}

static void copy(int sock)
{
    struct pipe_dir dirs[2] = {{.from = STDIN_FILENO, .to = sock, .open = true},
                               {.from = sock, .to = STDOUT_FILENO, .open = true}};

    /* The socket's end is the end: nobody is there for what is still being typed. */
    while (dirs[1].open) {
        struct pollfd fds[4];

        for (int i = 0; i < 2; i++) {
            bool full = dirs[i].len > dirs[i].pos;
            fds[2 * i] = (struct pollfd){dirs[i].open && !full ? dirs[i].from : -1, POLLIN, 0};
            fds[2 * i + 1] = (struct pollfd){dirs[i].open && full ? dirs[i].to : -1, POLLOUT, 0};
        }
        if (poll(fds, 4, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++) {
            if (dirs[i].open &&
                step(&dirs[i], fds[2 * i].revents != 0, fds[2 * i + 1].revents != 0) < 0) {
                dirs[i].open = false;
                if (i == 0)
                    shutdown(sock, SHUT_WR);
            }
        }
    }
}

int relay_connect(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    char what[160];
    errmsg_t err;
    int fd;

    signal(SIGPIPE, SIG_IGN);
    if (strlen(path) >= sizeof(sun.sun_path)) {
        fprintf(stderr, "flux proxy: --connect=%.200s: the path is too long for a socket\n", path);
        return 1;
    }
    strcpy(sun.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
        fprintf(stderr, "flux proxy: no broker listens at %s: the session has ended (%s)\n", path,
                strerror(errno));
        if (fd >= 0)
            close(fd);
        return 1;
    }
    snprintf(what, sizeof(what), "the process that listens at %s", path);
    if (fd_check_peer(fd, what, &err) < 0) {
        fprintf(stderr, "flux proxy: %s\n", err.text);
        close(fd);
        return 1;
    }
    if (fd_set_nonblock(fd, 1) == 0)
        copy(fd);
    close(fd);
    return 0;
}
