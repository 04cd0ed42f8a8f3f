/* Preloading the files of modules, in the process that forks brokers: they are loaded only once,
 * and the brokers share the memory.
 *
 * Thread rules: before there is any thread, or in the broker's main thread.
 */
#ifndef BROKER_PRELOAD_H
#define BROKER_PRELOAD_H

#include "libutil/strvec.h"

typedef struct preload preload_t;

/* Load the files of these modules, as far as possible.  NULL with ENOMEM. */
preload_t *preload_create(const strvec_t *names);
/* Leave the files to the modules that have been started meanwhile.  NULL-safe, keeps errno. */
void preload_destroy(preload_t *p);

#endif
