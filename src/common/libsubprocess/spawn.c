/* Spawning.
 *
 * clone(CLONE_VM | CLONE_VFORK) with a piece of this function's stack as the child's.  Rules:
 *
 *  1. All signals are blocked around the clone, so that no handler of the caller runs in the child,
 *     which shares its memory.  The child sets every handler to default before it unblocks.
 *  2. Between clone and execve the child makes system calls only: no allocation, no lock, no errno
 * of the caller's thread that matters (it is saved).
 *  3. A step that fails in the child is written to struct outcome, in memory that the caller sees
 *     when it wakes up; the child has then ended and is reaped here.
 *  4. Descriptors: sources that lie among the targets are first moved above them, so that the order
 *     of the map does not matter.  Everything else gets close-on-exec by close_range(2), whoever
 *     opened it.  The descriptor table of the child is its own.
 *  5. PR_SET_PDEATHSIG counts only from when it is set: a parent that went before is noticed by the
 *     changed parent id.
 */
#include "libsubprocess/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_STACK 16384
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

enum step {
    STEP_NONE,
    STEP_FDS,
    STEP_GROUP,
    STEP_CGROUP,
    STEP_LIMIT,
    STEP_CPUS,
    STEP_CHDIR,
    STEP_ORPHAN,
    STEP_EXEC,
};

struct outcome {
    const struct spawn_params *p;
    pid_t parent;
    enum step step;
    int errnum;
};

/* The sanitizer must not mark the frames of a child that never returns: they lie in the caller's.
 */
#define CHILD_FN __attribute__((no_sanitize("address", "undefined"), noinline))

CHILD_FN static int wire_fds(const struct spawn_params *p)
{
    int from[SPAWN_FDS_MAX], top = -1;

    for (size_t i = 0; i < p->nfds; i++)
        if (p->fds[i].dst > top)
            top = p->fds[i].dst;
    for (size_t i = 0; i < p->nfds; i++) {
        from[i] = p->fds[i].src;
        if (from[i] <= top && (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, top + 1)) < 0)
            return -1;
    }
    for (size_t i = 0; i < p->nfds; i++)
        if (dup2(from[i], p->fds[i].dst) < 0)
            return -1;
    /* Targets need not be adjacent: close the gaps too. */
    for (int fd = 0; fd < top; fd++) {
        bool used = false;

        for (size_t i = 0; i < p->nfds; i++)
            used |= (p->fds[i].dst == fd);
        if (!used)
            close(fd);
    }
    return (int)syscall(SYS_close_range, (unsigned)(top + 1), UINT_MAX, CLOSE_RANGE_CLOEXEC);
}

/* By the system call: the library does not let its own two signals (32 and 33) be reset, which a
 * parent may have left ignored.  All zero is SIG_DFL, no flags and an empty mask on every machine.
 */
CHILD_FN static void default_handlers(bool plain)
{
    static const unsigned long dfl[8];

    if (plain) {
        syscall(SYS_rt_sigaction, SIGPIPE, dfl, NULL, _NSIG / 8);
        return;
    }
    for (int sig = 1; sig < _NSIG; sig++)
        syscall(SYS_rt_sigaction, sig, dfl, NULL, _NSIG / 8);
}

CHILD_FN static int child(void *arg)
{
    struct outcome *o = arg;
    const struct spawn_params *p = o->p;
    sigset_t none;

    default_handlers((p->flags & SPAWN_PLAIN_SIGNALS) != 0);
    o->step = STEP_GROUP;
    if ((p->flags & SPAWN_SESSION) && setsid() < 0)
        goto fail;
    if ((p->flags & SPAWN_PGRP) && !(p->flags & SPAWN_SESSION) && setpgid(0, 0) < 0)
        goto fail;
    o->step = STEP_CGROUP;
    if (p->cgroup && write(*p->cgroup, "0", 1) < 0)
        goto fail;
    o->step = STEP_FDS;
    if (wire_fds(p) < 0)
        goto fail;
    o->step = STEP_LIMIT;
    for (size_t i = 0; i < p->nlimits; i++)
        if (syscall(SYS_prlimit64, 0, p->limits[i].resource, p->limits[i].limit, NULL) < 0)
            goto fail;
    o->step = STEP_CPUS;
    if (p->cpus && sched_setaffinity(0, sizeof(*p->cpus), p->cpus) < 0)
        goto fail;
    o->step = STEP_CHDIR;
    if (p->cwd && chdir(p->cwd) < 0)
        goto fail;
    o->step = STEP_ORPHAN;
    if (p->pdeathsig) {
        if (prctl(PR_SET_PDEATHSIG, (unsigned long)p->pdeathsig, 0, 0, 0) < 0)
            goto fail;
        errno = ESRCH;
        if (getppid() != o->parent)
            goto fail;
    }
    o->step = STEP_EXEC;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(p->path, p->argv, p->envp);
fail:
    o->errnum = errno;
    _exit(127);
}

static void explain(const struct outcome *o, errmsg_t *err)
{
    const char *why = strerror(o->errnum);

    switch (o->step) {
    case STEP_CHDIR:
        errmsg_set(err, "cannot enter the working directory '%s': %s", o->p->cwd, why);
        break;
    case STEP_EXEC:
        errmsg_set(err, "cannot run '%s': %s", o->p->path,
                   o->errnum == ENOENT && access(o->p->path, F_OK) == 0
                       ? "its interpreter does not exist"
                       : why);
        break;
    case STEP_FDS:
        errmsg_set(err, "cannot arrange the open files of '%s': %s", o->p->path, why);
        break;
    case STEP_CGROUP:
        errmsg_set(err, "cannot limit the memory of '%s': %s", o->p->path, why);
        break;
    case STEP_LIMIT:
        errmsg_set(err, "cannot set the resource limits of '%s': %s", o->p->path, why);
        break;
    case STEP_CPUS:
        errmsg_set(err, "cannot bind '%s' to its cores: %s", o->p->path, why);
        break;
    case STEP_ORPHAN:
        errmsg_set(err, "cannot tie '%s' to its parent: %s", o->p->path, why);
        break;
    default:
        errmsg_set(err, "cannot start '%s': %s", o->p->path, why);
    }
}

static pid_t start(const struct spawn_params *p, errmsg_t *err)
{
    char stack[CHILD_STACK] __attribute__((aligned(64)));
    struct outcome o = {.p = p, .parent = getpid(), .step = STEP_NONE};
    int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (p->pidfd ? CLONE_PIDFD : 0);
    sigset_t all, old;
    pid_t pid;
    int pidfd = -1, errnum;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = clone(child, stack + sizeof(stack), flags, &o, &pidfd);
    errnum = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0) {
        errmsg_set(err, "cannot create a process for '%s': %s", p->path, strerror(errnum));
        errno = errnum;
        return -1;
    }
    if (o.errnum) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        if (pidfd >= 0)
            close(pidfd);
        explain(&o, err);
        errno = o.errnum;
        return -1;
    }
    if (p->pidfd)
        *p->pidfd = pidfd;
    return pid;
}

/* A script without a "#!" line. */
static pid_t start_shell(const struct spawn_params *p, errmsg_t *err)
{
    struct spawn_params q = *p;
    size_t argc = 0;
    char **argv;
    pid_t pid;
    int errnum;

    while (p->argv[argc])
        argc++;
    argv = calloc(argc + 3, sizeof(*argv));
    if (!argv) {
        errmsg_fail(err, ENOMEM, "no memory to run '%s' by a shell", p->path);
        return -1;
    }
    argv[0] = (char *)"sh";
    argv[1] = (char *)p->path;
    for (size_t i = 1; i < argc; i++)
        argv[i + 1] = p->argv[i];
    q.path = "/bin/sh";
    q.argv = argv;
    pid = start(&q, err);
    errnum = errno;
    free(argv);
    errno = errnum;
    return pid;
}

pid_t spawn_process(const struct spawn_params *p, errmsg_t *err)
{
    pid_t pid;

    if (!p || !p->path || !p->path[0] || !p->argv || !p->argv[0] || !p->envp ||
        p->nfds > SPAWN_FDS_MAX)
        return errmsg_fail(err, EINVAL, "no program was named");
    pid = start(p, err);
    if (pid < 0 && errno == ENOEXEC)
        pid = start_shell(p, err);
    return pid;
}

/* 0 when it is an executable file. */
static int runnable(const char *file, const char *cwd)
{
    char full[PATH_MAX];
    struct stat st;

    if (file[0] != '/' && cwd) {
        if ((size_t)snprintf(full, sizeof(full), "%s/%s", cwd, file) >= sizeof(full)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        file = full;
    }
    if (stat(file, &st) < 0)
        return -1;
    errno = EACCES;
    if (!S_ISREG(st.st_mode))
        return -1;
    return faccessat(AT_FDCWD, file, X_OK, AT_EACCESS);
}

char *spawn_find_program(const char *name, const char *path, const char *cwd, errmsg_t *err)
{
    char file[PATH_MAX], *res;
    bool denied = false;

    if (!name || !name[0]) {
        errmsg_fail(err, ENOENT, "the command is an empty word");
        return NULL;
    }
    if (strchr(name, '/')) {
        if (runnable(name, cwd) < 0) {
            errmsg_set(err, "cannot run '%s': %s", name, strerror(errno));
            return NULL;
        }
        snprintf(file, sizeof(file), "%s", name);
        goto found;
    }
    for (const char *dir = path ? path : DEFAULT_PATH, *end; dir; dir = *end ? end + 1 : NULL) {
        end = strchrnul(dir, ':');
        if ((size_t)snprintf(file, sizeof(file), "%.*s%s%s", (int)(end - dir), dir,
                             end == dir ? "./" : "/", name) >= sizeof(file))
            continue;
        if (runnable(file, cwd) == 0)
            goto found;
        denied |= (errno == EACCES);
    }
    if (denied)
        errmsg_fail(err, EACCES, "cannot run '%s': it was found in PATH, but is not executable",
                    name);
    else
        errmsg_fail(err, ENOENT, "cannot run '%s': no such program in PATH", name);
    return NULL;
found:
    res = strdup(file);
    if (!res)
        errmsg_fail(err, ENOMEM, "no memory to look for '%s'", name);
    return res;
}

int spawn_errno_to_code(int errnum)
{
    return errnum == ENOENT ? 127 : 126;
}

int spawn_status_to_code(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return 1;
}

char *spawn_status_text(int status, char *buf, size_t size)
{
    if (WIFSIGNALED(status)) {
        const char *text = sigdescr_np(WTERMSIG(status));

        snprintf(buf, size, "signal %d (%s)%s", WTERMSIG(status), text ? text : "unknown",
                 WCOREDUMP(status) ? ", core dumped" : "");
    } else {
        snprintf(buf, size, "exit code %d", spawn_status_to_code(status));
    }
    return buf;
}
