/* The broker: one per node.
 *
 * Its main thread routes messages, and runs the modules that are on its loop; other modules have
 * threads of their own.
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>

#include "attrs.h"
#include "preload.h"

#include "libutil/errmsg.h"

/* Minimum number of descriptors for a broker: for its sockets, its modules and some clients. */
#define BROKER_NOFILE_MIN 96

/* Run a broker until the session ends.  `attrs` has the attributes of the command line, and is
 * completed here; boot.h and broker.c list the names.  `argv` is the initial program
 * (NULL-terminated, may be empty), which rank 0 runs.  `restart`: a broker of this session that
 * fails is started again. `preload` is taken over; NULL: no files were preloaded.  Returns the exit
 * code of the process.  Errors are printed to standard error. */
int broker_run(attrs_t *attrs, char *const argv[], bool verbose, bool restart, preload_t *preload);

/* Load the modules that brokers of all ranks load, before the brokers are forked.  NULL with
 * ENOMEM. */
preload_t *broker_preload(const attrs_t *attrs);

#endif
