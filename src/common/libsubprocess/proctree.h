/* Processes and their descendants, read from /proc.  Thread-safe. */
#ifndef SUBPROCESS_PROCTREE_H
#define SUBPROCESS_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* Called for each process; a result other than 0 ends the walk, and is its result. */
typedef int (*proctree_f)(pid_t pid, void *arg);

/* The children of the calling process, including zombies and those that it adopted as a subreaper.
 * 0, the callback's result, or -1 with errno if /proc cannot be read. */
int proctree_children(proctree_f cb, void *arg);

/* All processes that are visible to the caller. */
int proctree_all(proctree_f cb, void *arg);

/* Did the process start with this "NAME=value" ("NAME=": any value) in its environment, or fork
 * from one that did?  1, 0, or -1 with errno if that is not known; EAGAIN: it has no environment,
 * as happens briefly during every execve(2). */
int proctree_has_env(pid_t pid, const char *assignment);

/* Is it a zombie, or gone? */
bool proctree_dead(pid_t pid);

/* The id of its parent; 0 if that is not visible, -1 if there is no such process. */
pid_t proctree_parent(pid_t pid);

/* Did it start before this time of CLOCK_BOOTTIME?  Within one clock tick the answer is no; it is
 * no, too, when the process is gone. */
bool proctree_older(pid_t pid, const struct timespec *boot);

#endif
