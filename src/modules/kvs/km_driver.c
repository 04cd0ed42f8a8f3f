/* km_driver.c - load the driver of the store in a thread, and hand it to the module.
 *
 * Invariants:
 *  1. The thread touches only what it was given; its end is what makes the descriptor readable, and
 *     the module reads the result after it has joined the thread.
 *
 * Failure: an object that others could have written, that cannot be loaded, or that is of another
 * version of Flux is reported with an error message.
 */
#include "config.h"
#include "km_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libutil/filetrust.h"

struct km_driver {
    void (*loaded)(void *arg, const struct kvs_storage_driver *drv, const errmsg_t *err);
    void *arg;
    char *path;
    int fd; /* eventfd: the thread is done */
    flux_watcher_t *w;
    pthread_t thread;
    bool started;
    /* the thread's, until it was joined */
    const struct kvs_storage_driver *drv;
    int errnum;
    errmsg_t err;
};

static int load(km_driver_t *l)
{
    errmsg_t why;
    void *dso;

    if (!file_is_trusted(l->path, &why))
        return errmsg_fail(&l->err, errno, "the driver of the store, %s", why.text);
    /* Never unloaded: nothing has to be known about what its libraries leave behind. */
    dso = dlopen(l->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    l->drv = dso ? dlsym(dso, KVS_STORAGE_SYMBOL) : NULL;
    if (!l->drv)
        return errmsg_fail(&l->err, ENOENT, "cannot load '%.80s': %.120s", l->path, dlerror());
    if (l->drv->abi == KVS_STORAGE_ABI)
        return 0;
    l->drv = NULL;
    return errmsg_fail(&l->err, ENOEXEC, "'%.150s' is of another version of Flux", l->path);
}

static void *load_main(void *arg)
{
    static const uint64_t one = 1;
    km_driver_t *l = arg;
    ssize_t n;

    if (load(l) < 0)
        l->errnum = errno;
    do
        n = write(l->fd, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
    return NULL;
}

static void join(km_driver_t *l)
{
    if (l->started)
        pthread_join(l->thread, NULL);
    l->started = false;
}

static void done_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    km_driver_t *l = arg;

    flux_watcher_stop(w);
    join(l);
    errno = l->errnum;
    l->loaded(l->arg, l->drv, &l->err);
}

static int start(km_driver_t *l)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&l->thread, NULL, load_main, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    l->started = rc == 0;
    errno = rc;
    return rc == 0 ? 0 : -1;
}

km_driver_t *km_driver_load(flux_reactor_t *r, const char *path,
                            void (*loaded)(void *arg, const struct kvs_storage_driver *drv,
                                           const errmsg_t *err),
                            void *arg)
{
    km_driver_t *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->loaded = loaded;
    l->arg = arg;
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->fd < 0 || !(l->path = strdup(path)) ||
        !(l->w = flux_fd_watcher_create(r, l->fd, FLUX_POLLIN, done_cb, l)) || start(l) < 0) {
        km_driver_destroy(l);
        return NULL;
    }
    flux_watcher_start(l->w);
    return l;
}

void km_driver_destroy(km_driver_t *l)
{
    int saved = errno;

    if (!l)
        return;
    join(l);
    flux_watcher_destroy(l->w);
    if (l->fd >= 0)
        close(l->fd);
    free(l->path);
    free(l);
    errno = saved;
}
