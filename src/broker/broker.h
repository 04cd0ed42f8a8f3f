/* The broker: one per node; its main thread routes and does nothing else. */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>

#include "attrs.h"

/* Fewer file descriptors are not enough for a broker's own sockets and modules, and some clients. */
#define BROKER_NOFILE_MIN 96
#include "libutil/errmsg.h"

/* Be a broker until the session ends.  `attrs` holds what the command line set, and is filled in;
 * see boot.h and broker.c for the names.  `argv` is the initial program (NULL-terminated, maybe
 * empty), run by rank 0.  Returns the exit code for the process; what went wrong was written to
 * standard error. */
int broker_run(attrs_t *attrs, char *const argv[], bool verbose);

#endif
