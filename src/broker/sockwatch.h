/* Notice when others remove files of a broker's own directory.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_SOCKWATCH_H
#define BROKER_SOCKWATCH_H

#include "libflux/reactor.h"

typedef struct sockwatch sockwatch_t;

/* A file in the directory, or the directory itself, may have been removed or renamed: check, and
 * create missing files again.  0; -1: failed, call again later. */
typedef int (*sockwatch_f)(void *arg);

/* Watch `dir`, whose name is copied.  The callback is called from the reactor, never from here.
 * NULL with ENOMEM. */
sockwatch_t *sockwatch_create(flux_reactor_t *r, const char *dir, sockwatch_f cb, void *arg);
void sockwatch_destroy(sockwatch_t *sw); /* NULL-safe, keeps errno */

#endif
