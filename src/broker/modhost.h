/* The module host: loads comms modules, in threads of their own or on the broker's loop, and
 * carries their messages.
 *
 * Thread rules: belongs to the broker's main thread; modules' threads stay inside.
 */
#ifndef BROKER_MODHOST_H
#define BROKER_MODHOST_H

#include "core.h"

typedef struct modhost modhost_t;

struct modhost_config {
    const char *places; /* "declared", "loop", "thread", or "NAME:loop,NAME:thread..."; NULL: as the
                           modules declare */
    /* The i-th module that exists, for suggestions; NULL beyond the last.  May be NULL. */
    const char *(*known)(size_t i);
    const char *modules; /* the initial modules, comma-separated; NULL: the default ones */
    double turn_max;     /* seconds of a turn, after which it is logged; 0: never */
    /* A module is about to be loaded.  May be NULL. */
    void (*loads)(void *arg, const char *name);
    void *arg;
};

/* Serves module.load, module.unload, module.reload, module.list and module.stats on the core's
 * handle.  NULL with errno and an error message. */
modhost_t *modhost_create(core_t *core, const struct modhost_config *cfg, errmsg_t *err);
/* All modules must have ended: see modhost_stop().  NULL-safe, keeps errno. */
void modhost_destroy(modhost_t *mh);

/* Load the modules named in `names` (comma-separated) in parallel.  `done` is called when all are
 * running, or with the first error message.  -1 with errno if it cannot start. */
typedef void (*modhost_done_f)(modhost_t *mh, const char *error, void *arg);
int modhost_start(modhost_t *mh, const char *names, modhost_done_f done, void *arg);

/* Stop all modules in parallel, then call `done`. */
void modhost_stop(modhost_t *mh, modhost_done_f done, void *arg);

/* Names of the modules whose threads have not ended, separated by commas, malloc'd.  NULL with
 * ENOMEM. */
char *modhost_running(const modhost_t *mh);

#endif
