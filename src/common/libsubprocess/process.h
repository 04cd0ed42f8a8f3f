/* A child process with pipes for its standard streams, as an object.
 *
 *    struct process_params pp = {.spawn = {...}, .pipes = PROCESS_STDOUT | PROCESS_STDERR};
 *    process_t *p = process_create(&pp, &err);
 *    ... read process_fd(p, 1) ...
 *    if (process_reap(p, &status) == 1) ...
 *
 * It does not wait and has no loop: the caller watches the descriptors.  Not thread-safe.
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
    struct spawn_params spawn; /* its `fds`: further descriptors, or 0-2 where there is no pipe */
    unsigned pipes;            /* streams to be joined to the caller by pipes */
};

typedef struct process process_t;

/* Start.  NULL with the errno and sentence of spawn_process(), or EMFILE, ENFILE. */
process_t *process_create(const struct process_params *pp, errmsg_t *err);
/* Close our ends, kill the process (its group where it leads one) if it still runs, and reap it.
 * NULL-safe, keeps errno. */
void process_destroy(process_t *p);

pid_t process_pid(const process_t *p);
/* A descriptor that becomes readable when the process ends. */
int process_pidfd(const process_t *p);
/* Our end of a standard stream, non-blocking and close-on-exec; -1: none.  And close it. */
int process_fd(const process_t *p, int stream);
void process_close(process_t *p, int stream);

/* Send a signal to it, or to its group where it leads one.  0, or -1 with ESRCH, EPERM, EINVAL. */
int process_kill(process_t *p, int signum);
/* 1 with the wait(2) status when it has ended, 0 while it runs, -1 with ECHILD when somebody else
 * reaped it. */
int process_reap(process_t *p, int *status);

#endif
