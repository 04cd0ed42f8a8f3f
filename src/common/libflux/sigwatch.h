/* Several signals, one function, which learns who sent them.
 *
 * Thread rules: belongs to the thread of the reactor.
 */
#ifndef FLUX_SIGWATCH_H
#define FLUX_SIGWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/signalfd.h>

#include "libflux/reactor.h"

typedef struct sigwatch sigwatch_t;
typedef void (*sigwatch_f)(const struct signalfd_siginfo *info, void *arg);

/* Block these signals in the calling thread, and in the threads that it starts later, and call `cb`
 * from the loop for each that comes.  `restore`: sigwatch_destroy() sets the signal mask of before
 * again; otherwise they stay blocked.  NULL with errno. */
sigwatch_t *sigwatch_create(flux_reactor_t *r, const int signums[], size_t n, bool restore,
                            sigwatch_f cb, void *arg);
void sigwatch_destroy(sigwatch_t *s); /* NULL-safe, keeps errno */

/* A phrase that says which signal came from whom: "SIGTERM from systemd (process 1, user 0)".  The
 * name is missing if that process has ended. */
void sigwatch_describe(const struct signalfd_siginfo *info, char *text, size_t size);

#endif
