/* flux-broker --remote: the parent of a broker that `flux start --hosts` has started on this host.
 *
 * Purpose: it carries the PMI dialog of the broker over the ssh connection, passes signals to it,
 * and hands its exit code back: to the nursery at the other end (boot_ssh.c), the broker is like
 * one on its own host.
 *
 * Invariants:
 *  1. Nothing but frames and the greeting is written to standard output: the broker's standard
 *     output is its standard error.
 *  2. If the connection is lost before the broker has finished PMI, the broker is killed: the
 *     session will not start with it.  Afterwards the broker needs the connection no more: it ends
 *     with its session, as if it were started by hand.
 *  3. The broker gets SIGTERM when this process dies.
 *  4. When the broker is gone, what it left in its directory is removed.
 *
 * Failure: an error message on standard error, which ssh carries.  The exit code is never 255,
 * which ssh uses itself.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_private.h"
#include "boot_remote.h"
#include "libutil/buf.h"
#include "libutil/fdutil.h"

#define READ_SIZE 4096

struct remote {
    buf_t *in;
    pid_t pid; /* 0: it has ended */
    int pmi;   /* our end of the PMI socket; -1: closed */
    int sigfd;
    bool linked; /* to the starter */
    int exit_code;
};

/* Read a part of standard input.  0 at its end. */
static int read_more(buf_t *in)
{
    void *p = buf_reserve(in, READ_SIZE);
    ssize_t n;

    if (!p)
        return -1;
    while ((n = read(STDIN_FILENO, p, READ_SIZE)) < 0 && errno == EINTR)
        ;
    if (n > 0)
        buf_commit(in, (size_t)n);
    return n < 0 ? -1 : n > 0;
}

int boot_remote_open(struct boot_remote_args *a, errmsg_t *err)
{
    buf_t *in = buf_create(0);
    struct boot_frame f = {0};
    size_t used = 0;
    int rc = in ? fd_write_all(STDOUT_FILENO, boot_greeting(), strlen(boot_greeting())) : -1;

    while (rc == 0 && (rc = boot_frame_first(buf_data(in), buf_len(in), &f, &used)) == 0) {
        if ((rc = read_more(in)) == 0) {
            errno = ECONNRESET;
            rc = -1;
        }
        rc = rc > 0 ? 0 : rc;
    }
    if (rc == 1 && (f.type != BOOT_FRAME_ARGS || used < buf_len(in))) {
        errno = EPROTO;
        rc = -1;
    }
    if (rc == 1)
        rc = boot_remote_args_decode(f.data, f.len, a);
    if (rc == 0) {
        (void)!chdir(a->dir); /* if it fails, this remains the home directory */
        a->dir = NULL;
    } else
        errmsg_fail(err, errno,
                    "--remote: flux start at the other end of the connection does not "
                    "send its settings: %s",
                    strerror(errno));
    buf_destroy(in);
    return rc;
}

static int become_broker(const struct boot_remote_args *a, int pmi, pid_t parent,
                         const sigset_t *mask)
{
    char text[16];
    int null;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        return -1;
    sigprocmask(SIG_SETMASK, mask, NULL);
    setpgid(0, 0);
    if ((null = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return -1;
    snprintf(text, sizeof(text), "%d", pmi);
    setenv("PMI_FD", text, 1);
    snprintf(text, sizeof(text), "%u", a->rank);
    setenv("PMI_RANK", text, 1);
    snprintf(text, sizeof(text), "%u", a->size);
    setenv("PMI_SIZE", text, 1);
    if (a->again)
        setenv(BOOT_AGAIN, "1", 1);
    return 0;
}

static int send_frame(struct remote *r, char type, const void *data, size_t len)
{
    char frame[BOOT_FRAME_HEADER + READ_SIZE];

    boot_frame_header(frame, type, len);
    memcpy(frame + BOOT_FRAME_HEADER, data, len);
    return fd_write_all(STDOUT_FILENO, frame, BOOT_FRAME_HEADER + len);
}

static void unlinked(struct remote *r)
{
    r->linked = false;
    if (r->pmi >= 0 && r->pid > 0)
        kill(r->pid, SIGKILL);
}

static void from_broker(struct remote *r)
{
    char data[READ_SIZE];
    ssize_t n = read(r->pmi, data, sizeof(data));

    if (n < 0 && errno == EINTR)
        return;
    if (n > 0) {
        if (send_frame(r, BOOT_FRAME_PMI, data, (size_t)n) < 0)
            unlinked(r);
        return;
    }
    close(r->pmi);
    r->pmi = -1;
    if (r->linked && send_frame(r, BOOT_FRAME_PMI_END, "", 0) < 0)
        unlinked(r);
}

static int handle(struct remote *r, const struct boot_frame *f)
{
    if (f->type == BOOT_FRAME_SIGNAL && f->len == 1) {
        if (r->pid > 0)
            kill(r->pid, f->data[0]);
        return 0;
    }
    if (f->type != BOOT_FRAME_PMI)
        return -1;
    if (r->pmi >= 0 && send(r->pmi, f->data, f->len, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        return -1;
    return 0;
}

static void from_starter(struct remote *r)
{
    struct boot_frame f;
    size_t used;
    int rc = read_more(r->in) > 0 ? 0 : -1;

    while (rc == 0 && (rc = boot_frame_first(buf_data(r->in), buf_len(r->in), &f, &used)) == 1) {
        rc = handle(r, &f);
        buf_consume(r->in, used);
    }
    if (rc < 0)
        unlinked(r);
}

static void take_signals(struct remote *r)
{
    struct signalfd_siginfo info;
    int status;

    while (read(r->sigfd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD && r->pid > 0 && waitpid(r->pid, &status, WNOHANG) > 0) {
            r->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            r->pid = 0;
        } else if (info.ssi_signo != SIGCHLD && r->pid > 0)
            kill(r->pid, SIGTERM);
    }
}

static void serve(struct remote *r)
{
    struct pollfd p[3] = {{.events = POLLIN}, {.events = POLLIN}, {.events = POLLIN}};

    while (r->pid > 0) {
        p[0].fd = r->sigfd;
        p[1].fd = r->pmi;
        p[2].fd = r->linked ? STDIN_FILENO : -1;
        if (poll(p, 3, -1) < 0)
            continue;
        if (p[0].revents)
            take_signals(r);
        if (r->pmi >= 0 && p[1].revents)
            from_broker(r);
        if (r->linked && p[2].revents)
            from_starter(r);
    }
}

static void remove_dirs(const char *rundir, uint32_t rank)
{
    if (!rundir[0])
        return;
    boot_dir_remove_rank(rundir, rank);
    rmdir(rundir);
}

int boot_remote_run(const struct boot_remote_args *a, const char *rundir,
                    struct boot_remote_place *place, errmsg_t *err)
{
    struct remote r = {.linked = true, .pmi = -1, .sigfd = -1, .in = buf_create(0)};
    pid_t parent = getpid();
    sigset_t signals, mask;
    int fds[2];
    bool made;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGINT);
    if (!r.in || sigprocmask(SIG_BLOCK, &signals, &mask) < 0 ||
        (r.sigfd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        buf_destroy(r.in);
        return errmsg_fail(err, errno, "cannot start the broker: %s", strerror(errno));
    }
    if (boot_dir_session(rundir, place->rundir, &made, err) < 0) {
        buf_destroy(r.in);
        return -1;
    }
    r.pmi = fds[0];
    if ((r.pid = fork()) == 0) {
        if (become_broker(a, fds[1], parent, &mask) < 0)
            _exit(1);
        close(fds[0]);
        close(r.sigfd);
        buf_destroy(r.in);
        return 1;
    }
    close(fds[1]);
    if (r.pid < 0)
        errmsg_fail(err, errno, "cannot start the broker: %s", strerror(errno));
    else
        serve(&r);
    if (r.pmi >= 0)
        close(r.pmi);
    buf_destroy(r.in);
    remove_dirs(place->rundir, a->rank);
    place->exit_code = r.exit_code == 255 ? 1 : r.exit_code;
    return r.pid < 0 ? -1 : 0;
}
