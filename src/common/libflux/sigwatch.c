/* sigwatch.c - watch several signals with one function.
 *
 * All of them come by one descriptor (signalfd), which costs three system calls to begin with and
 * two to end; a watcher of the reactor for each would make two for each signal, both times.
 *
 * Failure: ENOMEM or the errno of the kernel, and no signal is watched.
 */
#include "config.h"
#include "sigwatch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct sigwatch {
    sigwatch_f cb;
    void *arg;
    sigset_t before; /* the mask of this process, which has one thread */
    int fd;
    flux_watcher_t *w;
};

static void ready_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    sigwatch_t *s = arg;
    struct signalfd_siginfo si;

    if (read(s->fd, &si, sizeof(si)) == sizeof(si))
        s->cb((int)si.ssi_signo, s->arg);
}

sigwatch_t *sigwatch_create(flux_reactor_t *r, const int signums[], size_t n, sigwatch_f cb,
                            void *arg)
{
    sigwatch_t *s = calloc(1, sizeof(*s));
    sigset_t set;

    if (!s)
        return NULL;
    s->cb = cb;
    s->arg = arg;
    sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, signums[i]);
    sigprocmask(SIG_BLOCK, &set, &s->before);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0 || !(s->w = flux_fd_watcher_create(r, s->fd, FLUX_POLLIN, ready_cb, s))) {
        sigwatch_destroy(s);
        return NULL;
    }
    flux_watcher_start(s->w);
    return s;
}

void sigwatch_destroy(sigwatch_t *s)
{
    int saved = errno;

    if (!s)
        return;
    flux_watcher_destroy(s->w);
    if (s->fd >= 0)
        close(s->fd);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    free(s);
    errno = saved;
}
