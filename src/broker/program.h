/* The initial program: what a session is started for.  Run by rank 0 once everybody is there.
 *
 * Thread rules: belongs to the broker's main thread; its reactor must watch children.
 */
#ifndef BROKER_PROGRAM_H
#define BROKER_PROGRAM_H

#include "libflux/reactor.h"
#include "libutil/errmsg.h"

typedef struct program program_t;

/* `code`: exit code, or 128 + signal. */
typedef void (*program_done_f)(program_t *p, int code, void *arg);

/* Start `argv` (NULL-terminated; looked up in PATH), or a shell when argv[0] is NULL.  The
 * environment is the broker's, without what its own launcher left there (but for the number, size and end of the
 * job that the session is), with FLUX_URI set and the
 * directory of `flux` first in PATH.  NULL with errno and a sentence. */
program_t *program_start(flux_reactor_t *r, char *const argv[], const char *uri,
                         program_done_f done, void *arg, errmsg_t *err);
void program_destroy(program_t *p); /* NULL-safe, keeps errno; ends a program that still runs */

/* Send a signal to the program if it still runs; when it has ended after that, all that descends from it is
 * killed.  SIGKILL: kill all of it now. */
void program_signal(program_t *p, int signum);

#endif
