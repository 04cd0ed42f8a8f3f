/* termraw.c - see termraw.h.
 *
 * The guard is a process that holds the settings of the terminal and the read end of a pipe.  A
 * byte on the pipe tells it to exit.  If the pipe is closed without a byte, the program was
 * killed, and the guard restores the settings.  It has a process group of its own, so that signals
 * of the terminal do not reach it; SIGTTOU, which it would get for changing the terminal, is
 * ignored.
 */
#include "config.h"
#include "termraw.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

struct termraw {
    int fd;
    struct termios was;
    pid_t guard;
    int pipe;
};

static void guard(const termraw_t *t, int pipefd)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTOU, SIGPIPE};
    int lo, hi;
    char byte;

    setpgid(0, 0);
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    lo = t->fd < pipefd ? t->fd : pipefd;
    hi = t->fd < pipefd ? pipefd : t->fd;
    if (lo > 0)
        syscall(SYS_close_range, 0u, (unsigned)lo - 1, 0u);
    if (hi > lo + 1)
        syscall(SYS_close_range, (unsigned)lo + 1, (unsigned)hi - 1, 0u);
    syscall(SYS_close_range, (unsigned)hi + 1, ~0u, 0u);
    if (read(pipefd, &byte, 1) != 1)
        tcsetattr(t->fd, TCSADRAIN, &t->was);
    _exit(0);
}

static int set_raw(const termraw_t *t)
{
    struct termios raw = t->was;

    cfmakeraw(&raw);
    return tcsetattr(t->fd, TCSADRAIN, &raw);
}

termraw_t *termraw_start(int fd, errmsg_t *err)
{
    termraw_t *t = calloc(1, sizeof(*t));
    int fds[2] = {-1, -1};

    if (!t) {
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    t->fd = fd;
    if (tcgetattr(fd, &t->was) < 0 || pipe2(fds, O_CLOEXEC) < 0 || (t->guard = fork()) < 0)
        goto error;
    if (t->guard == 0)
        guard(t, fds[0]);
    close(fds[0]);
    fds[0] = -1;
    t->pipe = fds[1];
    if (set_raw(t) == 0)
        return t;
    errmsg_fail(err, errno, "cannot change the terminal: %s", strerror(errno));
    termraw_stop(t);
    return NULL;
error:
    errmsg_fail(err, errno, "cannot change the terminal: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(t);
    return NULL;
}

void termraw_again(termraw_t *t)
{
    if (t)
        set_raw(t);
}

void termraw_stop(termraw_t *t)
{
    if (t) {
        int saved = errno;
        tcsetattr(t->fd, TCSADRAIN, &t->was);
        if (write(t->pipe, "", 1) < 0)
            errno = 0; /* the guard is gone, and was not needed */
        close(t->pipe);
        while (waitpid(t->guard, NULL, 0) < 0 && errno == EINTR)
            ;
        free(t);
        errno = saved;
    }
}
