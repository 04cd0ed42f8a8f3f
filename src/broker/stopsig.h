/* The signals that end a broker, SIGTERM and SIGHUP, and who sent them.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_STOPSIG_H
#define BROKER_STOPSIG_H

#include "libflux/reactor.h"

typedef struct stopsig stopsig_t;

/* `from`: a phrase that says what came from whom, "SIGTERM from systemd (process 1, user 0)". */
typedef void (*stopsig_f)(void *arg, int signum, const char *from);

/* Block these signals in the calling thread, and in the threads that it starts later, and call
 * `cb` for each that comes.  NULL with errno. */
stopsig_t *stopsig_create(flux_reactor_t *r, stopsig_f cb, void *arg);
void stopsig_destroy(stopsig_t *s); /* NULL-safe, keeps errno */

#endif
