/* Several signals, one function: who runs a job attached passes them on.  Not thread-safe. */
#ifndef FLUX_SIGWATCH_H
#define FLUX_SIGWATCH_H

#include <stddef.h>

#include "libflux/reactor.h"

typedef struct sigwatch sigwatch_t;
typedef void (*sigwatch_f)(int signum, void *arg);

/* Call cb(signum, arg) from the loop for each of these signals, until it is destroyed: then they do
 * again what they did before.  NULL with errno. */
sigwatch_t *sigwatch_create(flux_reactor_t *r, const int signums[], size_t n, sigwatch_f cb,
                            void *arg);
void sigwatch_destroy(sigwatch_t *s); /* NULL-safe, keeps errno */

#endif
