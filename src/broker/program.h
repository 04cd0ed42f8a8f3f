/* The initial program, for which a session is started.  Rank 0 runs it once all ranks are up.
 *
 * Thread rules: belongs to the broker's main thread, whose reactor must watch children.
 */
#ifndef BROKER_PROGRAM_H
#define BROKER_PROGRAM_H

#include "libflux/reactor.h"
#include "libutil/errmsg.h"

typedef struct program program_t;

/* `code`: exit code, or 128 + signal. */
typedef void (*program_done_f)(program_t *p, int code, void *arg);

/* Start `argv` (NULL-terminated; looked up in PATH), or a shell if argv[0] is NULL.  Its
 * environment is the broker's, without the variables of the broker's own launcher (except the
 * number, size and expiration of the job in which the session runs), with FLUX_URI set and the
 * directory of `flux` first in PATH.  NULL with errno and an error message. */
program_t *program_start(flux_reactor_t *r, char *const argv[], const char *uri,
                         program_done_f done, void *arg, errmsg_t *err);
void program_destroy(program_t *p); /* NULL-safe, keeps errno; kills a program that still runs */

/* Send a signal to the program if it still runs.  Once it has ended after that, all its descendants
 * are killed.  SIGKILL: kill all of them now. */
void program_signal(program_t *p, int signum);

#endif
