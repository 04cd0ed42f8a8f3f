/* errand.c - work of a module in a thread (interface: errand.h).
 *
 * Invariants:
 *  1. The descriptor becomes readable at the end of the thread's work, and the thread is joined
 *     before the owner reads the result.
 *  2. The thread handles no signals: these are for the main thread.
 *
 * Failure: if a thread, a descriptor or memory cannot be had, the work does not begin.
 */
#include "config.h"
#include "errand.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct errand {
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
    int fd; /* eventfd: readable when the work is done */
    flux_watcher_t *w;
    pthread_t thread;
    bool started;
};

static void *errand_main(void *arg)
{
    static const uint64_t one = 1;
    errand_t *e = arg;
    ssize_t n;

    e->work(e->arg);
    do
        n = write(e->fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
    return NULL;
}

static void join(errand_t *e)
{
    if (e->started)
        pthread_join(e->thread, NULL);
    e->started = false;
}

static void done_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    errand_t *e = arg;

    flux_watcher_stop(w);
    join(e);
    e->done(e->arg);
}

static int start_thread(errand_t *e)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&e->thread, NULL, errand_main, e);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    e->started = rc == 0;
    errno = rc;
    return rc == 0 ? 0 : -1;
}

errand_t *errand_start(flux_reactor_t *r, void (*work)(void *arg), void (*done)(void *arg),
                       void *arg)
{
    errand_t *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->work = work;
    e->done = done;
    e->arg = arg;
    e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->fd < 0 || !(e->w = flux_fd_watcher_create(r, e->fd, FLUX_POLLIN, done_cb, e)) ||
        start_thread(e) < 0) {
        errand_destroy(e);
        return NULL;
    }
    flux_watcher_start(e->w);
    return e;
}

void errand_destroy(errand_t *e)
{
    int saved = errno;

    if (!e)
        return;
    join(e);
    flux_watcher_destroy(e->w);
    if (e->fd >= 0)
        close(e->fd);
    free(e);
    errno = saved;
}
