/* Start a program in a child process: fast, clean, and with the reason if it fails.
 *
 * The child shares the caller's memory until execve(2), as with vfork(2): a large caller pays
 * nothing for its size, and learns without a pipe what failed in the child.  The child starts with
 * default signal handlers, an empty signal mask, and only the listed descriptors.
 *
 * The child alone performs steps that can hang in the kernel, as every access to an unavailable
 * file system does: it enters the directory, searches for the program, and opens the files.  The
 * calling thread waits for it in a state in which SIGKILL wakes both, unless the file system cannot
 * be interrupted at all.
 *
 * Thread rules: every function may be called from any thread; only the calling thread waits until
 * the child has called execve(2).
 */
#ifndef SUBPROCESS_SPAWN_H
#define SUBPROCESS_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "libutil/errmsg.h"

/* Descriptor `src` of the caller becomes `dst` in the child. */
struct spawn_fd {
    int src;
    int dst;
};

#define SPAWN_FDS_MAX 16
#define SPAWN_DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* A file that the child opens as its descriptor `dst`, without waiting for the reader of a FIFO. */
struct spawn_file {
    const char *path;
    const char *name; /* its name in error messages */
    int flags;        /* of open(2) */
    int dst;
};

#define SPAWN_FILES_MAX 3

enum {
    SPAWN_PGRP = 1,    /* lead a new process group */
    SPAWN_SESSION = 2, /* lead a new session (and so a group) */
    /* The caller has no signal handlers and ignores no signal but SIGPIPE, so the others need not
     * be reset. */
    SPAWN_PLAIN_SIGNALS = 4,
};

/* A limit to set in the child. */
struct spawn_limit {
    int resource; /* RLIMIT_* */
    const struct rlimit *limit;
};

/* Zeros mean that the feature is not used. */
struct spawn_params {
    const char *path; /* the program's file */
    /* The value of PATH: `path` is a command name.  With a slash it is a path, otherwise the first
     * executable file of that name in these directories; relative ones start at the working
     * directory. ENOENT, or EACCES if only files that are not executable were found. */
    const char *search;
    char *const *argv;          /* NULL-terminated */
    char *const *envp;          /* NULL-terminated */
    const char *cwd;            /* working directory; NULL: the caller's */
    const struct spawn_fd *fds; /* all descriptors of the child; each `dst` at most once */
    size_t nfds;                /* at most SPAWN_FDS_MAX */
    const struct spawn_file *files;
    size_t nfiles; /* at most SPAWN_FILES_MAX */
    unsigned mask; /* 1 + umask */
    unsigned flags;
    int pdeathsig; /* signal for the child when the calling *thread* ends */
    const struct spawn_limit *limits;
    size_t nlimits;
    const cpu_set_t *cpus; /* processors it may use */
    const int *cgroup;     /* the cgroup.procs file of a cgroup to enter */
    int *pidfd;            /* receives a descriptor of the child (close-on-exec) */
    /* Receives the process id before the child runs, and 0 before a failed child is reaped, for
     * other threads.  Not together with `pidfd`. */
    pid_t *pid;
    /* With `search`; both may be NULL.  Receive the file that was found, to be freed, or NULL; and
     * whether the search failed. */
    char **found;
    bool *lost;
};

/* Start the process.  Returns the process id; or -1 with errno and an error message, and no child
 * is left: ENOENT, EACCES, ... as for execve(2), ENOTDIR and others as for chdir(2), EAGAIN or
 * ENOMEM (no more processes), EINVAL.  A file that the kernel cannot execute is run by /bin/sh, as
 * in execvp(3). */
pid_t spawn_process(const struct spawn_params *p, errmsg_t *err);

/* The exit code of a shell: 127 for a program not found, 126 for one that cannot be run. */
int spawn_errno_to_code(int errnum);
/* wait(2) status to exit code: that of exit(2), or 128 + signal. */
int spawn_status_to_code(int status);
/* The status in words: "exit code 3", "signal 11 (Segmentation fault), core dumped".  Returns buf.
 */
char *spawn_status_text(int status, char *buf, size_t size);

#endif
