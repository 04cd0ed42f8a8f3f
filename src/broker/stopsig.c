/* stopsig.c - the signals that end a broker, and who sent them.
 *
 * A signalfd tells the sender, which a handler of libev does not.  So the signals stay blocked in
 * all threads of the broker; programs that it starts get an empty mask (program.c, spawn.c).
 *
 * The name of the sender is that of its process, if this is still there, and of its user.
 */
#include "config.h"
#include "stopsig.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "libutil/strutil.h"

struct stopsig {
    int fd;
    flux_watcher_t *w;
    stopsig_f cb;
    void *arg;
};

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

static void describe(const struct signalfd_siginfo *info, char *text, size_t size)
{
    char name[32];

    command_of(info->ssi_pid, name, sizeof(name));
    snprintf(text, size, "SIG%s from %s%s(process %u, user %u)", sigabbrev_np((int)info->ssi_signo),
             name, *name ? " " : "", info->ssi_pid, info->ssi_uid);
}

static void fd_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    stopsig_t *s = arg;
    struct signalfd_siginfo info;
    char text[128];

    if (read(s->fd, &info, sizeof(info)) != sizeof(info))
        return;
    describe(&info, text, sizeof(text));
    s->cb(s->arg, (int)info.ssi_signo, text);
}

stopsig_t *stopsig_create(flux_reactor_t *r, stopsig_f cb, void *arg)
{
    stopsig_t *s = calloc(1, sizeof(*s));
    sigset_t set;

    if (!s)
        return NULL;
    s->cb = cb;
    s->arg = arg;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0 || !(s->w = flux_fd_watcher_create(r, s->fd, FLUX_POLLIN, fd_cb, s))) {
        stopsig_destroy(s);
        return NULL;
    }
    flux_watcher_start(s->w);
    return s;
}

void stopsig_destroy(stopsig_t *s)
{
    int saved = errno;

    if (!s)
        return;
    flux_watcher_destroy(s->w);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
    errno = saved;
}
