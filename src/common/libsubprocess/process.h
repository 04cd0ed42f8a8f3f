/* A child process with pipes for its standard streams, as an object.
 *
 *    struct process_params pp = {.spawn = {...}, .pipes = PROCESS_STDOUT | PROCESS_STDERR};
 *    process_t *p = process_create(&pp, &err);
 *    ... read process_fd(p, 1) ...
 *    if (process_reap(p, &status) == 1) ...
 *
 * It neither waits nor has a loop: the caller watches the descriptors.  Not thread-safe.
 */
#ifndef SUBPROCESS_PROCESS_H
#define SUBPROCESS_PROCESS_H

#include "libsubprocess/spawn.h"

enum {
    PROCESS_STDIN = 1,
    PROCESS_STDOUT = 2,
    PROCESS_STDERR = 4,
};

struct process_params {
    struct spawn_params spawn; /* its `fds`: further descriptors, or 0-2 for streams without a
                                  pipe */
    unsigned pipes;            /* streams to connect to the caller by pipes */
};

typedef struct process process_t;

/* Start a process.  NULL with errno and error message of spawn_process(), or EMFILE, ENFILE. */
process_t *process_create(const struct process_params *pp, errmsg_t *err);
/* Close the pipes of the caller, kill the process (or the group that it leads) if it still runs,
 * and reap it. NULL-safe, keeps errno. */
void process_destroy(process_t *p);

/* A descriptor that becomes readable when the process ends. */
int process_pidfd(const process_t *p);
/* The caller's end of a standard stream, non-blocking and close-on-exec; -1: none.  process_close()
 * closes it. */
int process_fd(const process_t *p, int stream);
void process_close(process_t *p, int stream);

/* Send a signal to the process, or to the group that it leads.  0, or -1 with ESRCH, EPERM,
 * EINVAL. */
int process_kill(process_t *p, int signum);
/* 1 with the wait(2) status if the process has ended, 0 while it runs, -1 with ECHILD if another
 * caller reaped it. */
int process_reap(process_t *p, int *status);

#endif
