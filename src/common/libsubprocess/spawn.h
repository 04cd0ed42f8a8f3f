/* Start a program in a child process: fast, clean, and with the reason when it fails.
 *
 * The child shares the caller's memory until it has called execve(2), as with vfork(2): a large
 * caller pays nothing for its size, and what went wrong in the child is known here at once, without
 * a pipe.  The child starts with default signal handlers, an empty signal mask, and no descriptor
 * open but those listed.
 *
 * What may hang in the kernel, as everything does that touches a file system which is not there, is
 * done by the child alone: it enters the directory, searches for the program, and opens the files.
 * The calling thread waits for it where SIGKILL wakes both of them, unless the file system is of
 * those that nothing interrupts.
 *
 * Thread rules: every function may be called from any thread; the calling thread alone waits until
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

/* A file that the child opens, as its descriptor `dst`; without waiting for a reader of a fifo. */
struct spawn_file {
    const char *path;
    const char *name; /* what to call it in a sentence */
    int flags;        /* of open(2) */
    int dst;
};

#define SPAWN_FILES_MAX 3

enum {
    SPAWN_PGRP = 1,    /* lead a process group of its own */
    SPAWN_SESSION = 2, /* lead a session of its own (and so a group) */
    /* The caller has no signal handlers and ignores nothing but SIGPIPE: that saves resetting all
     * of them. */
    SPAWN_PLAIN_SIGNALS = 4,
};

/* A limit to set in the child. */
struct spawn_limit {
    int resource; /* RLIMIT_* */
    const struct rlimit *limit;
};

/* Zeros mean: nothing of the kind. */
struct spawn_params {
    const char *path; /* the program's file */
    /* The value of PATH: `path` is a command name.  It means itself when it has a slash, else the
     * first executable file of that name in these directories; relative ones start at the working
     * directory.  ENOENT, or EACCES when one was found that is not executable. */
    const char *search;
    char *const *argv;          /* NULL-terminated */
    char *const *envp;          /* NULL-terminated */
    const char *cwd;            /* working directory; NULL: the caller's */
    const struct spawn_fd *fds; /* everything the child has open; `dst` at most once each */
    size_t nfds;                /* at most SPAWN_FDS_MAX */
    const struct spawn_file *files;
    size_t nfiles; /* at most SPAWN_FILES_MAX */
    unsigned mask; /* 1 + umask */
    unsigned flags;
    int pdeathsig; /* signal for the child when the calling *thread* ends */
    const struct spawn_limit *limits;
    size_t nlimits;
    const cpu_set_t *cpus; /* processors it may use */
    const int *cgroup;     /* a cgroup.procs that it enters */
    int *pidfd;            /* receives a descriptor of the child (close-on-exec) */
    /* Receives the number of the child before that runs, and 0 before a failed one is reaped: for
     * other threads; not together with `pidfd`. */
    pid_t *pid;
    /* With `search`, both may be NULL: the file that was found, to be freed, or NULL; and whether
     * finding none is what failed. */
    char **found;
    bool *lost;
};

/* Start it.  The process id; or -1 with errno and a sentence, and no child is left: ENOENT, EACCES,
 * ... as of execve(2), ENOTDIR and the like of chdir(2), EAGAIN or ENOMEM (no more processes),
 * EINVAL. A file that is not a program the kernel knows is given to /bin/sh, as execvp(3) does. */
pid_t spawn_process(const struct spawn_params *p, errmsg_t *err);

/* What a shell would report: 127 for a program not found, 126 for one that cannot be run. */
int spawn_errno_to_code(int errnum);
/* wait(2) status to exit code: that of exit(2), or 128 + signal. */
int spawn_status_to_code(int status);
/* The status in words: "exit code 3", "signal 11 (Segmentation fault), core dumped".  Returns buf.
 */
char *spawn_status_text(int status, char *buf, size_t size);

#endif
