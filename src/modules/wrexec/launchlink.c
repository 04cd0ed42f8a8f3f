/* launchlink.c - the module's end of the connection to its launcher.
 *
 *     state     meaning           left when
 *     none      fd < 0            launchlink_run() starts a launcher
 *     running   fd and pidfd      end of file, an error, a malformed frame, or a full `out`
 *
 * Invariants:
 *  1. The launcher is reaped by its process descriptor, so it does not matter if the broker's own
 *     loop, which also waits for children, reaps it first.
 *  2. Bytes that the socket does not accept wait in `out`, at most OUT_MAX.  A launcher for which
 *     `out` is full does not read, and counts as lost; only launchlink_run() and
 *     launchlink_try_send() report an error instead.
 *  3. A reload does not disturb the launcher: its socket, its process descriptor, the bytes of an
 *     incomplete frame, and the unwritten bytes pass to the next instance.
 *  4. The successor of a lost launcher ends the processes that this one left behind (--sweep).  It
 *     starts once the lost one is dead if that had run anything, otherwise with the next job.
 */
#include "config.h"
#include "launchlink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libflux/log.h"
#include "libflux/paths.h"
#include "libsubprocess/spawn.h"
#include "libutil/buf.h"
#include "libutil/fdutil.h"

#define OUT_MAX (256u << 20)
#define READ_SIZE 131072
#define FLUSH_SIZE (1u << 20)
#define END_TIMEOUT_MS 5000

extern char **environ;

struct launchlink {
    flux_t *h;
    const struct launchlink_callbacks *cbs;
    void *arg;
    char *config[WIRE_CONFIG_STRINGS];
    flux_watcher_t *flusher;
    int fd;
    int pidfd;
    pid_t pid;
    unsigned started;
    char token[17];
    char last[17]; /* token of the launcher that was lost last */
    flux_watcher_t *io;
    flux_watcher_t *end;
    bool writing; /* the watcher waits until the socket is writable */
    bool broken;
    bool used;   /* this launcher has run something */
    bool follow; /* it was lost after that: a successor must end what it has left */
    buf_t *in;
    buf_t *out;
};

static void reap(launchlink_t *x)
{
    siginfo_t si;

    if (x->pidfd < 0)
        return;
    flux_watcher_destroy(x->end);
    x->end = NULL;
    waitid(P_PIDFD, (id_t)x->pidfd, &si, WEXITED | WNOHANG);
    close(x->pidfd);
    x->pidfd = -1;
}

static void cut(launchlink_t *x)
{
    flux_watcher_destroy(x->io);
    x->io = NULL;
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
    x->pid = 0;
    x->writing = false;
    x->broken = false;
    buf_consume(x->in, buf_len(x->in));
    buf_consume(x->out, buf_len(x->out));
}

static int start(launchlink_t *x, errmsg_t *err);

static void follow(launchlink_t *x)
{
    errmsg_t err;

    if (x->follow && x->fd < 0 && start(x, &err) < 0)
        flux_log(x->h, LOG_ERR, "what the last launcher left behind stays: %s", err.text);
    x->follow = false;
}

static void lost(launchlink_t *x, const char *why)
{
    pid_t pid = x->pid;

    /* A launcher that misbehaves may be alive, but its tasks are about to be reported as dead. */
    if (x->pidfd >= 0)
        pidfd_send_signal(x->pidfd, SIGKILL, NULL, 0);
    memcpy(x->last, x->token, sizeof(x->last));
    cut(x);
    x->follow = x->used;
    x->used = false;
    flux_log(x->h, LOG_ERR, "the launcher (process %d) is gone: %s", (int)pid, why);
    x->cbs->lost(x->arg, why);
    if (x->pidfd < 0) /* otherwise end_cb() does that, when the launcher is dead */
        follow(x);
}

static void flush(launchlink_t *x)
{
    while (x->fd >= 0 && buf_len(x->out) > 0) {
        ssize_t n = send(x->fd, buf_data(x->out), buf_len(x->out), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            buf_consume(x->out, (size_t)n);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            return; /* the next read finds the end of the connection */
    }
    if (x->writing != (buf_len(x->out) > 0)) {
        x->writing = !x->writing;
        flux_fd_watcher_set(x->io, FLUX_POLLIN | (x->writing ? FLUX_POLLOUT : 0));
    }
}

static void io_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    launchlink_t *x = arg;
    struct wire_frame f;
    ptrdiff_t used = 0;
    size_t done = 0;
    errmsg_t err;
    void *p;
    ssize_t n;

    if (revents & FLUX_POLLOUT)
        flush(x);
    p = buf_reserve(x->in, READ_SIZE);
    n = p ? recv(x->fd, p, READ_SIZE, MSG_DONTWAIT) : -1;
    if (n > 0)
        buf_commit(x->in, (size_t)n);
    else if (n == 0 || !p || (errno != EAGAIN && errno != EINTR)) {
        lost(x, n == 0 ? "it ended" : p ? strerror(errno) : "no memory");
        return;
    }
    while (!x->broken && (used = exec_wire_parse((const uint8_t *)buf_data(x->in) + done,
                                                 buf_len(x->in) - done, &f, &err)) > 0) {
        x->cbs->frame(x->arg, &f);
        done += (size_t)used;
    }
    buf_consume(x->in, done);
    if (used < 0)
        lost(x, err.text);
    else if (x->broken)
        lost(x, "it does not read its messages");
}

static void end_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    reap(arg);
    follow(arg);
}

static void flusher_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flush(arg);
}

launchlink_t *launchlink_create(flux_t *h, const struct launchlink_callbacks *cbs, void *arg)
{
    launchlink_t *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->h = h;
    x->cbs = cbs;
    x->arg = arg;
    x->fd = x->pidfd = -1;
    x->in = buf_create(0);
    x->out = buf_create(OUT_MAX);
    x->flusher = flux_defer_create(flux_get_reactor(h), flusher_cb, x);
    if (!x->in || !x->out || !x->flusher) {
        launchlink_destroy(x);
        errno = ENOMEM;
        return NULL;
    }
    return x;
}

void launchlink_destroy(launchlink_t *x)
{
    int errnum = errno;

    if (!x)
        return;
    if (x->in && x->out)
        cut(x);
    if (x->pidfd >= 0) {
        struct pollfd pfd = {x->pidfd, POLLIN, 0};

        /* The end of the connection tells the launcher to end everything.  If it does not exit in
         * this time, it hangs. */
        poll(&pfd, 1, END_TIMEOUT_MS);
        reap(x);
    }
    buf_destroy(x->in);
    buf_destroy(x->out);
    flux_watcher_destroy(x->flusher);
    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++)
        free(x->config[i]);
    free(x);
    errno = errnum;
}

int launchlink_config(launchlink_t *x, enum wire_config what, const char *value)
{
    char *copy = value ? strdup(value) : NULL;

    if (value && !copy)
        return -1;
    free(x->config[what]);
    x->config[what] = copy;
    return 0;
}

static int spawn_launcher(launchlink_t *x, const char *program, int fd, int nullfd, errmsg_t *err)
{
    char rank[32], token[32], sweep[40];
    char *argv[6] = {(char *)"flux-launcher", (char *)"--fd=3", rank, token};
    struct spawn_fd fds[4] = {{nullfd, 0}, {2, 1}, {2, 2}, {fd, 3}};
    struct spawn_params sp = {.path = program,
                              .argv = argv,
                              .envp = environ,
                              .cwd = "/",
                              .fds = fds,
                              .nfds = 4,
                              /* Not a session: tasks that yield to those of other brokers of this
                               * host must be in one session with them (src/launcher/task.c). */
                              .flags = SPAWN_PGRP,
                              .pidfd = &x->pidfd};
    int argc = 4;
    pid_t pid;

    if (fcntl(2, F_GETFD) < 0)
        fds[1].src = fds[2].src = nullfd;
    snprintf(x->token, sizeof(x->token), "%016" PRIx64, flux_random(x->h));
    snprintf(rank, sizeof(rank), "--rank=%u", flux_rank(x->h));
    snprintf(token, sizeof(token), "--token=%s", x->token);
    if (x->last[0]) {
        snprintf(sweep, sizeof(sweep), "--sweep=%s", x->last);
        argv[argc++] = sweep;
    }
    pid = spawn_process(&sp, err);
    x->pid = pid > 0 ? pid : 0;
    x->last[0] = '\0';
    return pid > 0 ? 0 : -1;
}

static int put(launchlink_t *x, enum wire_type type, uint64_t job, const struct iovec *iov, int n)
{
    if (exec_wire_put(x->out, type, job, iov, n) < 0)
        return -1;
    /* One system call sends all frames of a pass. */
    if (buf_len(x->out) >= FLUSH_SIZE)
        flush(x);
    else
        flux_watcher_start(x->flusher);
    return 0;
}

/* Without memory for this frame, tasks run with default settings; nothing else goes wrong. */
static void send_config(launchlink_t *x)
{
    struct iovec iov[WIRE_CONFIG_STRINGS];

    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++) {
        iov[i].iov_base = x->config[i] ? x->config[i] : (char *)"";
        iov[i].iov_len = strlen(iov[i].iov_base) + 1;
    }
    (void)put(x, WIRE_CONFIG, 0, iov, WIRE_CONFIG_STRINGS);
}

/* Without this watcher the launcher is reaped later. */
static void watch_end(launchlink_t *x)
{
    x->end = flux_fd_watcher_create(flux_get_reactor(x->h), x->pidfd, FLUX_POLLIN, end_cb, x);
    if (x->end)
        flux_watcher_start(x->end);
}

static int start(launchlink_t *x, errmsg_t *err)
{
    flux_reactor_t *r = flux_get_reactor(x->h);
    char *program = flux_path_exec("flux-launcher", err);
    int sv[2] = {-1, -1}, nullfd = -1, rc = -1, errnum;

    if (!program)
        return -1;
    reap(x);
    nullfd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nullfd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0) {
        errmsg_set(err, "cannot start the launcher: %s", strerror(errno));
        goto out;
    }
    if (!(x->io = flux_fd_watcher_create(r, sv[0], FLUX_POLLIN, io_cb, x))) {
        errmsg_set(err, "tasks cannot be run here: %s", strerror(errno));
        goto out;
    }
    if (spawn_launcher(x, program, sv[1], nullfd, err) < 0)
        goto out;
    x->fd = sv[0];
    sv[0] = -1;
    x->started++;
    flux_watcher_start(x->io);
    watch_end(x);
    send_config(x);
    rc = 0;
out:
    errnum = errno;
    if (rc < 0) {
        flux_watcher_destroy(x->io);
        x->io = NULL;
    }
    for (int i = 0; i < 2; i++)
        if (sv[i] >= 0)
            close(sv[i]);
    if (nullfd >= 0)
        close(nullfd);
    free(program);
    errno = errnum;
    return rc;
}

int launchlink_run(launchlink_t *x, uint64_t job, struct wire_run *run,
                   const char *const strings[WIRE_NODE_STRINGS], const struct launchrec *rec,
                   errmsg_t *err)
{
    uint8_t fixed[WIRE_RUN_FIXED];
    struct iovec iov[6 + WIRE_NODE_STRINGS];
    int n = 0;

    if (x->fd < 0 && start(x, err) < 0)
        return -1;
    x->used = true;
    run->argc = rec->argc;
    run->envc = rec->envc;
    run->nfiles = rec->nfiles;
    exec_wire_run_put(fixed, run);
    iov[n++] = (struct iovec){fixed, sizeof(fixed)};
    iov[n++] = (struct iovec){(void *)run->runs, run->nruns * sizeof(struct layout_run)};
    iov[n++] = (struct iovec){(void *)run->limits, run->nlimits * sizeof(struct wire_limit)};
    iov[n++] = (struct iovec){(void *)run->commands, run->ncommands * sizeof(struct wire_command)};
    for (int i = 0; i < WIRE_NODE_STRINGS; i++)
        iov[n++] = (struct iovec){(void *)strings[i], strlen(strings[i]) + 1};
    iov[n++] = (struct iovec){(void *)rec->strings, rec->strings_len};
    iov[n++] = (struct iovec){(void *)rec->env, rec->env_len};
    if (put(x, WIRE_RUN, job, iov, n) < 0)
        return errmsg_fail(err, errno, "cannot send the tasks to the launcher: %s",
                           strerror(errno));
    return 0;
}

void launchlink_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                     size_t fixedlen, const void *data, size_t len)
{
    struct iovec iov[2] = {{(void *)fixed, fixedlen}, {(void *)data, len}};

    if (x->fd < 0 || x->broken)
        return;
    /* io_cb() reports the loss: the callers of this function are not prepared for it. */
    if (put(x, type, job, iov, 2) < 0) {
        x->broken = true;
        shutdown(x->fd, SHUT_RDWR);
    }
}

int launchlink_try_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                        size_t fixedlen, const void *data, size_t len)
{
    struct iovec iov[2] = {{(void *)fixed, fixedlen}, {(void *)data, len}};

    if (x->fd < 0 || x->broken)
        return 0;
    return put(x, type, job, iov, 2);
}

int launchlink_pid(const launchlink_t *x)
{
    return x->fd >= 0 ? (int)x->pid : 0;
}

unsigned launchlink_started(const launchlink_t *x)
{
    return x->started;
}

/* --- from one instance to the next --- */

void launchlink_save(const launchlink_t *x, flux_handover_t *o)
{
    flux_handover_put_mark(o, "launcher");
    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++)
        flux_handover_put_str(o, x->config[i]);
    flux_handover_put_fd(o, x->fd);
    flux_handover_put_fd(o, x->pidfd);
    flux_handover_put(o, (uint64_t)x->pid);
    flux_handover_put(o, x->started);
    flux_handover_put_str(o, x->token);
    flux_handover_put_str(o, x->last);
    flux_handover_put(o, x->used);
    flux_handover_put(o, x->follow);
    flux_handover_put_data(o, buf_data(x->in), buf_len(x->in));
    flux_handover_put_data(o, buf_data(x->out), buf_len(x->out));
}

void launchlink_leave(launchlink_t *x)
{
    cut(x);
    flux_watcher_stop(x->flusher);
    flux_watcher_destroy(x->end);
    x->end = NULL;
    if (x->pidfd >= 0)
        close(x->pidfd);
    x->pidfd = -1;
}

static void load_token(char token[17], flux_handover_t *o)
{
    const char *s = flux_handover_get_str(o);

    if (!s || strlen(s) > 16)
        flux_handover_fail(o, EPROTO);
    else
        snprintf(token, 17, "%s", s);
}

static void load_bytes(buf_t *b, flux_handover_t *o)
{
    size_t len;
    const void *data = flux_handover_get_data(o, &len);

    if (buf_append(b, data, len) < 0)
        flux_handover_fail(o, ENOMEM);
}

void launchlink_load(launchlink_t *x, flux_handover_t *o)
{
    flux_handover_get_mark(o, "launcher");
    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++) {
        const char *s = flux_handover_get_str(o);

        if (launchlink_config(x, (enum wire_config)i, s) < 0)
            flux_handover_fail(o, ENOMEM);
    }
    x->fd = flux_handover_get_fd(o);
    x->pidfd = flux_handover_get_fd(o);
    x->pid = (pid_t)flux_handover_get(o, INT32_MAX);
    x->started = (unsigned)flux_handover_get(o, UINT32_MAX);
    load_token(x->token, o);
    load_token(x->last, o);
    x->used = flux_handover_get(o, 1);
    x->follow = flux_handover_get(o, 1);
    load_bytes(x->in, o);
    load_bytes(x->out, o);
    if (x->pidfd >= 0)
        watch_end(x);
    if (x->fd < 0)
        return;
    if (!(x->io = flux_fd_watcher_create(flux_get_reactor(x->h), x->fd, FLUX_POLLIN, io_cb, x))) {
        flux_handover_fail(o, ENOMEM);
        return;
    }
    flux_watcher_start(x->io);
    flux_watcher_start(x->flusher);
}
