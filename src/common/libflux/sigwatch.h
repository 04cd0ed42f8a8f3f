/* Watch several signals with one function, which also learns their senders.
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
 * from the loop for each signal that arrives.  `restore`: sigwatch_destroy() restores the signal
 * mask; otherwise the signals stay blocked.  NULL with errno. */
sigwatch_t *sigwatch_create(flux_reactor_t *r, const int signums[], size_t n, bool restore,
                            sigwatch_f cb, void *arg);
void sigwatch_destroy(sigwatch_t *s); /* NULL-safe, keeps errno */

/* A phrase with the signal and its sender: "SIGTERM from systemd (process 1, user 0)".  The name is
 * omitted if that process has ended. */
void sigwatch_describe(const struct signalfd_siginfo *info, char *text, size_t size);

#endif
