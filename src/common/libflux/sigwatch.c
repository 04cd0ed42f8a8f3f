/* sigwatch.c - watch several signals with one function.
 *
 * All signals are read from one descriptor (signalfd), which takes three system calls to create and
 * two to close; reactor watchers would take two calls for each signal, both at their start and at
 * their end. The descriptor also reports the sender of a signal, which a reactor watcher does not.
 *
 * Failure: ENOMEM or the errno of the kernel, and no signal is watched.
 */
#include "config.h"
#include "sigwatch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "libutil/strutil.h"

struct sigwatch {
    sigwatch_f cb;
    void *arg;
    sigset_t before; /* the mask of this thread */
    bool restore;
    int fd;
    flux_watcher_t *w;
};

static void ready_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    sigwatch_t *s = arg;
    struct signalfd_siginfo si;

    if (read(s->fd, &si, sizeof(si)) == sizeof(si))
        s->cb(&si, s->arg);
}

sigwatch_t *sigwatch_create(flux_reactor_t *r, const int signums[], size_t n, bool restore,
                            sigwatch_f cb, void *arg)
{
    sigwatch_t *s = calloc(1, sizeof(*s));
    sigset_t set;

    if (!s)
        return NULL;
    s->cb = cb;
    s->arg = arg;
    s->restore = restore;
    sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, signums[i]);
    pthread_sigmask(SIG_BLOCK, &set, &s->before);
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
    if (s->restore)
        pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    free(s);
    errno = saved;
}

/* --- the sender --- */

/* The command of a process; "" when it is gone. */
static void command_of(unsigned pid, char *name, size_t size)
{
    char path[40];
    FILE *f;

    name[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    if ((f = fopen(path, "re"))) {
        if (fgets(name, (int)size, f))
            name[strcspn(name, "\n")] = '\0';
        fclose(f);
    }
    str_clean(name);
}

void sigwatch_describe(const struct signalfd_siginfo *info, char *text, size_t size)
{
    char name[32];

    command_of(info->ssi_pid, name, sizeof(name));
    snprintf(text, size, "SIG%s from %s%s(process %u, user %u)", sigabbrev_np((int)info->ssi_signo),
             name, *name ? " " : "", info->ssi_pid, info->ssi_uid);
}
