/* The module host: loads comms modules, each with a thread of its own, and carries their messages.
 *
 * Thread rules: belongs to the broker's main thread; the modules' threads stay inside.
 */
#ifndef BROKER_MODHOST_H
#define BROKER_MODHOST_H

#include "core.h"

typedef struct modhost modhost_t;

/* Serves module.load, module.unload, module.reload, module.list and module.stats on the core's
 * handle.  NULL with errno. */
modhost_t *modhost_create(core_t *core);
/* All modules must be gone: see modhost_stop().  NULL-safe, keeps errno. */
void modhost_destroy(modhost_t *mh);

/* Load the modules named in `names` (comma-separated) side by side; `done` is called when all are
 * running, or with the first sentence of failure.  -1 with errno when it cannot even begin. */
typedef void (*modhost_done_f)(modhost_t *mh, const char *error, void *arg);
int modhost_start(modhost_t *mh, const char *names, modhost_done_f done, void *arg);

/* Stop all modules side by side, then call `done`. */
void modhost_stop(modhost_t *mh, modhost_done_f done, void *arg);

/* Names of the modules whose threads have not ended, with commas, malloc'd; NULL: out of memory. */
char *modhost_running(const modhost_t *mh);

#endif
