/* ptyend.c - the remote end of the terminal of flux alloc.
 *
 *    event                              action
 *    first SIZE frame                   create the pseudo-terminal, start the command
 *    DATA                               input; no frame is read while the terminal has no room
 *    SIZE                               set the size; the kernel notifies the foreground
 *    HUP, end of standard input         close the terminal: SIGHUP for the command's session
 *    SIGTERM, SIGHUP                    forward it to the command's process group
 *    the command ends                   write the remaining output of the terminal, then exit
 *
 * While the output has no reader, the terminal is not read: the command waits, but input (^C)
 * still reaches it.
 *
 * Standard input and output are pipes that are shared with the broker, so they stay in blocking
 * mode: they are polled, and written in pieces that a pipe accepts without blocking.
 */
#include "config.h"
#include "ptyend.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libsubprocess/spawn.h"
#include "libutil/fdutil.h"
#include "ptyframe.h"

#define IN_SIZE (2 * (PTYFRAME_HEAD + PTYFRAME_DATA_MAX))

struct ptyend {
    char *const *argv;
    sigset_t old; /* mask */
    int sigfd;
    int master; /* -1: not yet, or closed */
    pid_t pid;  /* 0: not yet */
    bool over;
    int status;
    bool in_open;
    uint8_t in[IN_SIZE];
    size_t in_len;
    const uint8_t *typed; /* of the current frame, within `in` */
    size_t typed_len;
    size_t frame_len;
    char out[PIPE_BUF];
    size_t out_len;
    int code; /* when nothing could be run */
};

static int fail(const char *what)
{
    int code = spawn_errno_to_code(errno);

    fprintf(stderr, "flux alloc: %s: %s\n", what, strerror(errno));
    return code;
}

static void set_size(struct ptyend *p, const struct ptyframe *f)
{
    struct winsize ws = {.ws_row = f->rows, .ws_col = f->cols};

    if (p->master >= 0)
        ioctl(p->master, TIOCSWINSZ, &ws);
}

static void hang_up(struct ptyend *p)
{
    p->in_open = false;
    p->in_len = p->typed_len = 0;
    if (p->master >= 0)
        close(p->master);
    p->master = -1;
}

/* In the child. */
static void run_command(struct ptyend *p, const char *name)
{
    int fd;

    setsid();
    if ((fd = open(name, O_RDWR)) < 0 || ioctl(fd, TIOCSCTTY, 0) < 0)
        _exit(fail(name));
    for (int i = 0; i < 3; i++)
        dup2(fd, i);
    if (fd > 2)
        close(fd);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigprocmask(SIG_SETMASK, &p->old, NULL);
    execvp(p->argv[0], p->argv);
    _exit(fail(p->argv[0]));
}

/* Make the terminal, start the command.  Waits until it has the terminal: a ^C before that would be
 * a character that nobody minds.  False: not possible. */
static bool begin(struct ptyend *p, const struct ptyframe *size)
{
    char name[64], byte;
    int started[2];

    p->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (p->master < 0 || grantpt(p->master) < 0 || unlockpt(p->master) < 0 ||
        ptsname_r(p->master, name, sizeof(name)) != 0) {
        p->code = fail("cannot create a pseudo-terminal");
        return false;
    }
    set_size(p, size);
    if (pipe2(started, O_CLOEXEC) < 0 || (p->pid = fork()) < 0) {
        p->code = fail(p->argv[0]);
        p->pid = 0;
        return false;
    }
    if (p->pid == 0)
        run_command(p, name);
    close(started[1]);
    while (read(started[0], &byte, 1) < 0 && errno == EINTR)
        ;
    close(started[0]);
    return true;
}

/* Take frames off `in` as far as the terminal has room.  False: nothing can be done any more. */
static bool take_frames(struct ptyend *p)
{
    struct ptyframe f;
    errmsg_t err;

    for (;;) {
        ssize_t n;

        if (p->typed_len > 0) {
            n = write(p->master, p->typed, p->typed_len);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0 && errno == EAGAIN)
                return true;
            if (n < 0) /* nobody has it open any more */
                n = (ssize_t)p->typed_len;
            p->typed += n;
            p->typed_len -= (size_t)n;
            if (p->typed_len > 0)
                continue;
        }
        if (p->frame_len > 0) {
            p->in_len -= p->frame_len;
            memmove(p->in, p->in + p->frame_len, p->in_len);
            p->frame_len = 0;
        }
        if ((n = ptyframe_parse(p->in, p->in_len, &f, &err)) == 0)
            return true;
        if (n < 0) {
            fprintf(stderr, "flux alloc: %s\n", err.text);
            hang_up(p);
            return true;
        }
        p->frame_len = (size_t)n;
        if (f.type == PTYFRAME_SIZE && p->pid == 0) {
            if (!begin(p, &f))
                return false;
        } else if (f.type == PTYFRAME_SIZE)
            set_size(p, &f);
        else if (f.type == PTYFRAME_HUP) {
            hang_up(p);
            return true;
        } else if (p->master >= 0) {
            p->typed = f.data;
            p->typed_len = f.len;
        }
    }
}

static bool read_frames(struct ptyend *p)
{
    ssize_t n = read(STDIN_FILENO, p->in + p->in_len, sizeof(p->in) - p->in_len);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0) {
        hang_up(p);
        return true;
    }
    p->in_len += (size_t)n;
    return take_frames(p);
}

static void read_terminal(struct ptyend *p)
{
    ssize_t n = read(p->master, p->out, sizeof(p->out));

    if (n > 0)
        p->out_len = (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(p->master); /* EIO: nobody has it open any more */
        p->master = -1;
    }
}

static void write_out(struct ptyend *p)
{
    ssize_t n = write(STDOUT_FILENO, p->out, p->out_len);

    if (n < 0 && errno != EINTR && errno != EAGAIN)
        n = (ssize_t)p->out_len; /* nobody reads it: the broker is on its way down */
    if (n > 0) {
        p->out_len -= (size_t)n;
        memmove(p->out, p->out + n, p->out_len);
    }
}

static void on_signals(struct ptyend *p)
{
    struct signalfd_siginfo info;

    while (read(p->sigfd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo != SIGCHLD && p->pid > 0) {
            kill(-p->pid, (int)info.ssi_signo);
            kill(-p->pid, SIGCONT);
        } else if (info.ssi_signo != SIGCHLD)
            hang_up(p);
    }
    if (p->pid > 0 && !p->over && waitpid(p->pid, &p->status, WNOHANG) == p->pid)
        p->over = true;
}

/* The command has ended: print the output that its terminal holds, without waiting for processes
 * that it left in the background. */
static void drain(struct ptyend *p)
{
    while (p->out_len > 0 || p->master >= 0) {
        if (p->out_len > 0 && fd_write_all(STDOUT_FILENO, p->out, p->out_len) < 0)
            return;
        p->out_len = 0;
        if (p->master < 0)
            return;
        ssize_t n = read(p->master, p->out, sizeof(p->out));
        if (n <= 0)
            return;
        p->out_len = (size_t)n;
    }
}

static void relay(struct ptyend *p)
{
    while (!p->over) {
        bool room = p->in_open && p->typed_len == 0;
        struct pollfd fds[] = {
            {p->sigfd, POLLIN, 0},
            {room ? STDIN_FILENO : -1, POLLIN, 0},
            {p->master, (short)((p->out_len == 0 ? POLLIN : 0) | (p->typed_len > 0 ? POLLOUT : 0)),
             0},
            {p->out_len > 0 ? STDOUT_FILENO : -1, POLLOUT, 0},
        };
        /* A terminal that nobody has open says POLLHUP all the time, also while what it held waits
         * to be written. */
        if (p->out_len > 0 && p->typed_len == 0)
            fds[2].fd = -1;
        if (p->pid == 0 && !p->in_open)
            return; /* nothing was ever started */
        if (poll(fds, 4, -1) < 0 && errno != EINTR)
            return;
        if (fds[0].revents)
            on_signals(p);
        if (fds[2].revents && p->master >= 0) {
            if (p->typed_len > 0 && !take_frames(p))
                return;
            if (p->out_len == 0 && p->master >= 0)
                read_terminal(p);
        }
        if (fds[3].revents)
            write_out(p);
        if (fds[1].revents && p->in_open && p->typed_len == 0 && !read_frames(p))
            return;
    }
}

int ptyend_run(char *const *argv)
{
    struct ptyend p = {.argv = argv, .master = -1, .in_open = true, .code = 1};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, &p.old);
    if ((p.sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return fail("cannot watch signals");
    relay(&p);
    if (p.over)
        drain(&p);
    if (p.master >= 0)
        close(p.master);
    close(p.sigfd);
    return p.over ? spawn_status_to_code(p.status) : p.code;
}
