/* km_driver.c - load the driver of the store in a thread, hand the driver to the module, and wait
 * for what it has executed.
 *
 * Invariants:
 *  1. The thread accesses only this object; the module reads the result after the thread has ended.
 *
 * Failure: an object is refused with an error message if another user could have written it, if it
 * cannot be loaded, or if it belongs to another version of Flux.
 */
#include "config.h"
#include "km_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/paths.h"
#include "libservice/errand.h"
#include "libutil/filetrust.h"

struct km_driver {
    void (*loaded)(void *arg, const struct kvs_storage_driver *drv, const errmsg_t *err);
    void *arg;
    char *path;
    errand_t *errand;
    /* owned by the thread until it has ended */
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
    /* The object is never unloaded, as its libraries may leave threads or handlers behind. */
    dso = dlopen(l->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    l->drv = dso ? dlsym(dso, KVS_STORAGE_SYMBOL) : NULL;
    if (!l->drv)
        return errmsg_fail(&l->err, ENOENT, "cannot load '%.80s': %.120s", l->path, dlerror());
    if (l->drv->abi == KVS_STORAGE_ABI)
        return 0;
    l->drv = NULL;
    return errmsg_fail(&l->err, ENOEXEC, "'%.150s' is of another version of Flux", l->path);
}

static void work(void *arg)
{
    km_driver_t *l = arg;

    if (load(l) < 0)
        l->errnum = errno;
}

static void done(void *arg)
{
    km_driver_t *l = arg;

    errno = l->errnum;
    l->loaded(l->arg, l->drv, &l->err);
}

char *km_driver_find(errmsg_t *err)
{
    return flux_path_module("content-sqlite", err);
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
    if (!(l->path = strdup(path)) || !(l->errand = errand_start(r, work, done, l))) {
        km_driver_destroy(l);
        return NULL;
    }
    return l;
}

void km_driver_destroy(km_driver_t *l)
{
    int saved = errno;

    if (!l)
        return;
    errand_destroy(l->errand);
    free(l->path);
    free(l);
    errno = saved;
}

flux_watcher_t *km_driver_watch(const struct kvs_storage_driver *drv, kvs_storage_t *s,
                                flux_reactor_t *r, flux_watcher_f cb, void *arg)
{
    return flux_fd_watcher_create(r, drv->fd(s), FLUX_POLLIN, cb, arg);
}

bool km_driver_wait(const struct kvs_storage_driver *drv, kvs_storage_t *s, int ms)
{
    struct pollfd p = {.fd = drv->fd(s), .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}
