/* Notice when files of a broker's own directory are removed by somebody else.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_SOCKWATCH_H
#define BROKER_SOCKWATCH_H

#include "libflux/reactor.h"

typedef struct sockwatch sockwatch_t;

/* Something in the directory, or the directory itself, was removed or renamed (or may have been):
 * look, and make it again where that is needed.  0; -1: it could not be made, call again later. */
typedef int (*sockwatch_f)(void *arg);

/* Watch `dir`, whose name is copied.  The callback is called from the reactor, never from here.
 * NULL with ENOMEM. */
sockwatch_t *sockwatch_create(flux_reactor_t *r, const char *dir, sockwatch_f cb, void *arg);
void sockwatch_destroy(sockwatch_t *sw); /* NULL-safe, keeps errno */

#endif
