/* launchlink.c - the module's end of the connection to its launcher.
 *
 *     state     meaning             left when (by)
 *     none      fd < 0              a job or a sweep needs a launcher (start); a launcher that was
 *                                   left behind is found (launchlink_sweep): ending
 *     starting  fd, and an errand   a thread has started the process, or could not: lost
 *                                   (start_done)
 *     running   fd and pidfd        end of file, an error, a malformed frame, or a full `out`: none
 *                                   (lost); the module is to end (launchlink_end): ending
 *     ending    pidfd, and `ended`  the launcher has ended (end_cb), or END_TIMEOUT seconds have
 *                                   passed (patience_cb)
 *
 * The start of a process may take many milliseconds, because the program has to be read from its
 * file, so a thread does it.  Frames that are sent during the start wait in the socket.
 *
 * Invariants:
 *  1. The launcher is reaped by its process descriptor, so it does not matter if the loop of the
 *     broker, which also waits for children, reaps it first.
 *  2. Bytes that the socket does not accept wait in `out`, at most OUT_MAX.  A launcher for which
 *     `out` is full does not read, and counts as lost; only launchlink_run() and
 *     launchlink_try_send() report an error instead.
 *  3. A reload does not disturb the launcher: its socket, its process descriptor, the bytes of an
 *     incomplete frame, and the unwritten bytes pass to the next instance.
 *  4. The successor of a lost launcher ends the processes that the lost launcher left behind
 *     (--sweep).  If the lost launcher had run a program, the successor starts once it is dead;
 *     otherwise with the next job.
 *  5. The file RUNDIR/RANK/launcher names the process and the token of the launcher, as long as it
 *     may have tasks.  If a broker is killed together with its launcher, the next broker of the
 *     rank reads the file and ends the launcher, if it still runs, and then the processes that the
 *     launcher left.  The file is removed only when all of these have ended, even if the module is
 *     unloaded before, or the launcher hangs.
 *
 * Failure: without that file, a broker knows nothing of an earlier launcher; a failure to write the
 * file is logged.
 */
#include "config.h"
#include "launchlink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "libservice/errand.h"
#include "libsubprocess/spawn.h"
#include "libutil/buf.h"
#include "libutil/fdutil.h"

#define OUT_MAX (256u << 20)
#define READ_SIZE 131072
#define FLUSH_SIZE (1u << 20)
#define NOTE_MAX 64
#define END_TIMEOUT 5. /* seconds after which a launcher that is to end counts as hanging */

extern char **environ;

/* The start of a launcher: input and result of the thread. */
struct start {
    char *program;
    char rank[32], token[32], sweep[40];
    char *argv[6];
    int fd, nullfd; /* descriptors of the launcher */
    pid_t pid;      /* -1: it was not started */
    int pidfd;
    errmsg_t err;
};

struct launchlink {
    flux_t *h;
    const struct launchlink_callbacks *cbs;
    void *arg;
    char *config[WIRE_CONFIG_STRINGS];
    flux_watcher_t *flusher;
    struct start *start; /* the present start, with its errand; NULL: none */
    errand_t *errand;
    void (*ended)(void *arg); /* called when a launcher that is ending has ended */
    void *ended_arg;
    flux_watcher_t *patience; /* limits the wait for the end of a launcher */
    int fd;
    int pidfd;
    pid_t pid;
    unsigned started;
    char token[17];
    char last[17];  /* token of the last lost launcher */
    char swept[17]; /* token of the launcher whose processes are to be ended; "": none */
    flux_watcher_t *io;
    flux_watcher_t *end;
    bool writing; /* the watcher waits until the socket is writable */
    bool broken;
    bool ending; /* no other launcher is started */
    bool used;   /* this launcher has run a program */
    bool follow; /* it was lost after that: a successor must end its processes */
    bool noted;  /* the file names this launcher */
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
    if (x->patience)
        flux_watcher_stop(x->patience);
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

/* --- the file for the next broker of this rank --- */

/* Return the path of the file, malloc'd, or NULL if there is no directory for it. */
static char *note_path(const launchlink_t *x)
{
    const char *uri = x->config[WIRE_C_URI], *path = uri ? strchr(uri, '/') : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    char *name = NULL;

    while (path && path[0] == '/' && path[1] == '/')
        path++;
    if (!slash || slash <= path || asprintf(&name, "%.*s/launcher", (int)(slash - path), path) < 0)
        return NULL;
    return name;
}

static void note_launcher(launchlink_t *x, const char *token)
{
    char text[NOTE_MAX], *path = note_path(x);
    int n = snprintf(text, sizeof(text), "%d %s\n", (int)x->pid, token);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;

    x->noted = fd >= 0 && fd_write_all(fd, text, (size_t)n) == 0;
    if (path && !x->noted)
        flux_log(x->h, LOG_WARNING, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(path);
}

static void note_nothing(launchlink_t *x)
{
    char *path = x->noted ? note_path(x) : NULL;

    if (path)
        (void)unlink(path);
    x->noted = false;
    free(path);
}

/* Read the process and the token that an earlier broker has noted.  Returns 0, or -1 if there are
 * none. */
static int read_note(launchlink_t *x, pid_t *pid)
{
    char *path = note_path(x), *data = NULL;
    size_t len;
    int rc = -1;

    if (path && file_read_all(path, NOTE_MAX, &data, &len) == 0 &&
        sscanf(data, "%d %16[0-9a-f]", pid, x->last) == 2 && *pid > 1 && strlen(x->last) == 16)
        rc = 0;
    else
        x->last[0] = '\0';
    free(data);
    free(path);
    return rc;
}

/* Return a descriptor of this process if it is the launcher with that token, or -1. */
static int open_launcher(pid_t pid, const char *token)
{
    char path[40], want[32], *data = NULL;
    size_t len = 0;
    int fd = pidfd_open(pid, 0);
    bool same;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    snprintf(want, sizeof(want), "--token=%s", token);
    same = fd >= 0 && file_read_all(path, 65536, &data, &len) == 0 &&
           memmem(data, len, want, strlen(want));
    free(data);
    if (fd >= 0 && !same) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int start(launchlink_t *x, errmsg_t *err);
static void take_start(launchlink_t *x);

static void follow(launchlink_t *x)
{
    errmsg_t err;

    if (x->follow && x->fd < 0 && start(x, &err) < 0)
        flux_log(x->h, LOG_ERR, "processes of the lost launcher may be left: %s", err.text);
    x->follow = false;
}

static void lost(launchlink_t *x, const char *why)
{
    pid_t pid;

    if (x->start)
        take_start(x);
    pid = x->pid;
    /* A launcher that misbehaves may still run, but its tasks are about to be reported as dead. */
    if (x->pidfd >= 0)
        pidfd_send_signal(x->pidfd, SIGKILL, NULL, 0);
    memcpy(x->last, x->token, sizeof(x->last));
    x->swept[0] = '\0';
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
        if (f.type == WIRE_SWEPT) {
            x->swept[0] = '\0';
            x->cbs->swept(x->arg, exec_wire_u32(f.payload));
        } else {
            x->cbs->frame(x->arg, &f);
        }
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
    launchlink_t *x = arg;

    reap(x);
    if (x->ended) {
        note_nothing(x);
        x->ended(x->ended_arg);
    } else {
        follow(x);
    }
}

static void patience_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    launchlink_t *x = arg;

    if (!x->ended) { /* it may still die: then another launcher follows */
        x->cbs->swept(x->arg, 1);
        return;
    }
    x->noted = false; /* the file stays, because the launcher runs */
    reap(x);
    x->ended(x->ended_arg);
}

/* Start the limit of the wait.  Returns false with ENOMEM. */
static bool begin_patience(launchlink_t *x)
{
    if (!x->patience && !(x->patience = flux_timer_create(flux_get_reactor(x->h), patience_cb, x)))
        return false;
    flux_timer_start(x->patience, END_TIMEOUT, 0.);
    return true;
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

/* The end of the connection makes the launcher end all processes. */
bool launchlink_end(launchlink_t *x, void (*ended)(void *arg), void *arg)
{
    x->ending = true;
    if (x->follow)
        x->noted = false; /* the file stays, because nobody has ended the processes that it names */
    x->follow = false;
    launchlink_settle(x);
    if (x->swept[0]) {
        note_launcher(x, x->swept);
        x->noted = false;
    }
    cut(x);
    if (x->pidfd < 0 || !x->end || !begin_patience(x))
        return false;
    x->ended = ended;
    x->ended_arg = arg;
    return true;
}

void launchlink_destroy(launchlink_t *x)
{
    int errnum = errno;

    if (!x)
        return;
    if (x->start)
        take_start(x);
    if (x->in && x->out)
        cut(x);
    if (x->pidfd < 0 && x->in)
        note_nothing(x);
    reap(x);
    flux_watcher_destroy(x->patience);
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

static void start_free(struct start *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->nullfd >= 0)
        close(s->nullfd);
    free(s->program);
    free(s);
}

/* Prepare the start of a launcher. */
static struct start *start_create(launchlink_t *x, int fd, errmsg_t *err)
{
    struct start *s = calloc(1, sizeof(*s));
    int argc = 0;

    if (!s) {
        close(fd);
        errmsg_fail(err, ENOMEM, "out of memory for a launcher");
        return NULL;
    }
    s->fd = fd;
    s->pidfd = s->pid = -1;
    if ((s->nullfd = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0 ||
        !(s->program = flux_path_exec("flux-launcher", err))) {
        if (s->nullfd < 0)
            errmsg_set(err, "cannot start the launcher: %s", strerror(errno));
        start_free(s);
        return NULL;
    }
    snprintf(x->token, sizeof(x->token), "%016" PRIx64, flux_random(x->h));
    snprintf(s->rank, sizeof(s->rank), "--rank=%u", flux_rank(x->h));
    snprintf(s->token, sizeof(s->token), "--token=%s", x->token);
    snprintf(s->sweep, sizeof(s->sweep), "--sweep=%s", x->last);
    s->argv[argc++] = (char *)"flux-launcher";
    s->argv[argc++] = (char *)"--fd=3";
    s->argv[argc++] = s->rank;
    s->argv[argc++] = s->token;
    if (x->last[0])
        s->argv[argc++] = s->sweep;
    memcpy(x->swept, x->last, sizeof(x->swept));
    x->last[0] = '\0';
    return s;
}

/* Start the launcher, in the thread. */
static void start_work(void *arg)
{
    struct start *s = ((launchlink_t *)arg)->start;
    bool has_stderr = fcntl(2, F_GETFD) >= 0;
    struct spawn_fd fds[4] = {{s->nullfd, 0},
                              {has_stderr ? 2 : s->nullfd, 1},
                              {has_stderr ? 2 : s->nullfd, 2},
                              {s->fd, 3}};
    struct spawn_params sp = {.path = s->program,
                              .argv = s->argv,
                              .envp = environ,
                              .cwd = "/",
                              .fds = fds,
                              .nfds = 4,
                              /* Not a session: tasks that yield to tasks of other brokers of this
                               * host must be in one session with them (src/launcher/task.c). */
                              .flags = SPAWN_PGRP,
                              .pidfd = &s->pidfd};

    s->pid = spawn_process(&sp, &s->err);
}

/* Without this watcher the launcher is reaped later. */
static void watch_end(launchlink_t *x)
{
    x->end = flux_fd_watcher_create(flux_get_reactor(x->h), x->pidfd, FLUX_POLLIN, end_cb, x);
    if (x->end)
        flux_watcher_start(x->end);
}

/* Take the result of the start.  Waits for the thread if it is not done. */
static void take_start(launchlink_t *x)
{
    errand_destroy(x->errand);
    x->errand = NULL;
    x->pid = x->start->pid > 0 ? x->start->pid : 0;
    x->pidfd = x->start->pidfd;
    if (x->pid > 0)
        note_launcher(x, x->token);
    if (x->pidfd >= 0)
        watch_end(x);
    start_free(x->start); /* closes the launcher's end: it now detects the end of ours */
    x->start = NULL;
}

static void start_done(void *arg)
{
    launchlink_t *x = arg;
    errmsg_t err = x->start->err;

    take_start(x);
    if (x->pid == 0)
        lost(x, err.text);
}

void launchlink_settle(launchlink_t *x)
{
    if (x->start)
        start_done(x);
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

/* Without memory for this frame, tasks run with default settings, which is not an error. */
static void send_config(launchlink_t *x)
{
    struct iovec iov[WIRE_CONFIG_STRINGS];

    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++) {
        iov[i].iov_base = x->config[i] ? x->config[i] : (char *)"";
        iov[i].iov_len = strlen(iov[i].iov_base) + 1;
    }
    (void)put(x, WIRE_CONFIG, 0, iov, WIRE_CONFIG_STRINGS);
}

bool launchlink_sweep(launchlink_t *x)
{
    pid_t pid;

    if (x->fd >= 0 || x->pidfd >= 0 || read_note(x, &pid) < 0)
        return false;
    x->noted = x->follow = true;
    if ((x->pidfd = open_launcher(pid, x->last)) >= 0) {
        pidfd_send_signal(x->pidfd, SIGKILL, NULL, 0);
        watch_end(x); /* continues when it is dead */
        if (x->end)
            (void)begin_patience(x); /* without memory, the wait has no limit */
    }
    if (!x->end)
        follow(x);
    return x->end || x->fd >= 0;
}

static int start(launchlink_t *x, errmsg_t *err)
{
    flux_reactor_t *r = flux_get_reactor(x->h);
    int sv[2];

    if (x->ending)
        return errmsg_fail(err, ESHUTDOWN, "the wrexec module of rank %u is being unloaded",
                           flux_rank(x->h));
    reap(x);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return errmsg_fail(err, errno, "cannot start the launcher: %s", strerror(errno));
    if (!(x->start = start_create(x, sv[1], err))) {
        close(sv[0]);
        return -1;
    }
    if (!(x->io = flux_fd_watcher_create(r, sv[0], FLUX_POLLIN, io_cb, x)) ||
        !(x->errand = errand_start(r, start_work, start_done, x))) {
        errmsg_set(err, "tasks cannot be run here: %s", strerror(errno));
        flux_watcher_destroy(x->io);
        x->io = NULL;
        start_free(x->start);
        x->start = NULL;
        close(sv[0]);
        return -1;
    }
    x->fd = sv[0];
    x->started++;
    flux_watcher_start(x->io);
    send_config(x);
    return 0;
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
    /* io_cb() reports the loss, because the callers of this function cannot handle it. */
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

/* --- reload --- */

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
    flux_handover_put_str(o, x->swept);
    flux_handover_put(o, x->used);
    flux_handover_put(o, x->follow);
    flux_handover_put(o, x->noted);
    flux_handover_put_data(o, buf_data(x->in), buf_len(x->in));
    flux_handover_put_data(o, buf_data(x->out), buf_len(x->out));
}

void launchlink_leave(launchlink_t *x)
{
    cut(x);
    x->noted = false; /* the launcher continues */
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
    load_token(x->swept, o);
    x->used = flux_handover_get(o, 1);
    x->follow = flux_handover_get(o, 1);
    x->noted = flux_handover_get(o, 1);
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
