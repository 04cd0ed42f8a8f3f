/* km_driver.h - load the driver of the store, and wait for it.  A thread loads it, since loading a
 * library with all its dependencies takes longer than a turn of the broker's loop may take.
 *
 * The simulator has these functions, too (t/sim/storage.c).
 *
 * Thread rules: all functions belong to the module's thread, which gets the result from its
 * reactor.
 */
#ifndef KM_DRIVER_H
#define KM_DRIVER_H

#include "kvs_storage.h"
#include "libflux/reactor.h"

typedef struct km_driver km_driver_t;

/* The path of the driver, to be freed.  NULL with errno and an error message. */
char *km_driver_find(errmsg_t *err);
/* Load the shared object at `path`.  loaded() is called once, unless the object is destroyed
 * before: with the driver, or with NULL, errno and an error message.  Returns NULL with errno. */
km_driver_t *km_driver_load(flux_reactor_t *r, const char *path,
                            void (*loaded)(void *arg, const struct kvs_storage_driver *drv,
                                           const errmsg_t *err),
                            void *arg);
/* NULL-safe, keeps errno; must not be called from loaded().  Waits for the thread.  The shared
 * object stays loaded.
 */
void km_driver_destroy(km_driver_t *l);

/* A watcher, not yet started, that calls cb() while the storage has executed requests, which
 * dispatch() is to hand over.  To be destroyed before the storage.  NULL with errno. */
flux_watcher_t *km_driver_watch(const struct kvs_storage_driver *drv, kvs_storage_t *s,
                                flux_reactor_t *r, flux_watcher_f cb, void *arg);
/* Wait for executed requests without the reactor.  False: there were none within `ms`
 * milliseconds. */
bool km_driver_wait(const struct kvs_storage_driver *drv, kvs_storage_t *s, int ms);

#endif
