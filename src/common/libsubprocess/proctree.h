/* Who descends from whom: looking through /proc.  Thread-safe. */
#ifndef SUBPROCESS_PROCTREE_H
#define SUBPROCESS_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Called for each process; a return other than 0 ends the walk and is its result. */
typedef int (*proctree_f)(pid_t pid, void *arg);

/* The children of the calling process, also those it adopted as a subreaper.  Zombies are among
 * them.  0, what the callback returned, or -1 with errno when /proc cannot be read. */
int proctree_children(proctree_f cb, void *arg);

/* All processes that we may look into. */
int proctree_all(proctree_f cb, void *arg);

/* Did the process start with this "NAME=value" ("NAME=": any value) in its environment (its own, or
 * by fork that of an ancestor)?  1, 0, or -1 with errno when that cannot be told; EAGAIN: it has none, as is so for a
 * moment of every execve(2). */
int proctree_has_env(pid_t pid, const char *assignment);

/* Is it a zombie, or gone? */
bool proctree_dead(pid_t pid);

#endif
