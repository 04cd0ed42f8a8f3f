/* Spawning processes by clone(CLONE_VM | CLONE_VFORK), with a part of the caller's stack as the
 * child's.
 *
 * Invariants:
 *  1. All signals are blocked around the clone, so no handler of the caller runs in the child,
 *     which shares its memory.  The child resets all handlers before it unblocks signals.
 *  2. Between clone and execve the child only makes system calls: it allocates nothing, takes no
 *     lock, and the caller's errno is saved.
 *  3. A step that fails in the child is recorded in struct outcome, which the caller sees when it
 *     wakes up.  The child has then ended and is reaped here.
 *  4. Descriptors: sources that are also targets are first moved above the targets, so the order of
 *     the map does not matter.  close_range(2) closes all other descriptors, whoever opened them.
 *     The child has a descriptor table of its own.
 *  5. PR_SET_PDEATHSIG is effective only once it is set: if the parent died before, the parent
 *     id has changed.
 *  6. Steps that can hang come after that.  A child that hangs thus keeps no descriptor open whose
 *     closing others await, and dies with its parent.  The caller itself accesses no path.
 *
 * Built with the thread sanitizer, a child has a copy of the memory, and shares the outcome alone
 * (outcome_share()): the sanitizer would attribute the actions of the child to the caller's thread.
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define CHILD_COPIES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_COPIES 1
#endif
#endif

#define CHILD_STACK 32768

enum step {
    STEP_NONE,
    STEP_ORPHAN,
    STEP_GROUP,
    STEP_CGROUP,
    STEP_FDS,
    STEP_CHDIR,
    STEP_FIND,
    STEP_OPEN,
    STEP_LIMIT,
    STEP_CPUS,
    STEP_EXEC,
};

struct outcome {
    const struct spawn_params *p;
    pid_t parent;
    enum step step;
    size_t file; /* in STEP_OPEN: index of the file */
    int errnum;
    bool there;           /* execve(2) failed with ENOENT, although the file exists */
    char found[PATH_MAX]; /* the program; "": no search */
};

/* The sanitizer must not mark the stack frames of a child that never returns, because they are part
 * of the caller's frame.
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
    return (int)syscall(SYS_close_range, (unsigned)(top + 1), UINT_MAX, 0);
}

CHILD_FN static int open_files(struct outcome *o)
{
    const struct spawn_params *p = o->p;

    for (o->file = 0; o->file < p->nfiles; o->file++) {
        const struct spawn_file *f = &p->files[o->file];
        int fd = open(f->path, f->flags | O_NOCTTY | O_NONBLOCK, 0666);

        if (fd < 0 || fcntl(fd, F_SETFL, f->flags & O_APPEND) < 0)
            return -1;
        if (fd != f->dst && (dup2(fd, f->dst) < 0 || close(fd) < 0))
            return -1;
    }
    return 0;
}

CHILD_FN static int runnable_here(const char *file)
{
    struct stat st;

    if (stat(file, &st) < 0)
        return -1;
    errno = EACCES;
    if (!S_ISREG(st.st_mode))
        return -1;
    return faccessat(AT_FDCWD, file, X_OK, AT_EACCESS);
}

/* Write "DIR/NAME" to `file`.  False: too long. */
CHILD_FN static bool join(char *file, const char *dir, size_t len, const char *name)
{
    size_t n = 0;

    if (len >= PATH_MAX - 2)
        return false;
    for (size_t i = 0; i < len; i++)
        file[n++] = dir[i];
    if (len == 0)
        file[n++] = '.';
    file[n++] = '/';
    for (; *name && n < PATH_MAX; name++)
        file[n++] = *name;
    if (n == PATH_MAX)
        return false;
    file[n] = '\0';
    return true;
}

/* Find the program, relative to the working directory. */
CHILD_FN static int find(struct outcome *o)
{
    const char *dir = o->p->search, *name = o->p->path;
    bool denied = false;

    if (strchr(name, '/')) {
        errno = ENAMETOOLONG;
        return strlen(name) < PATH_MAX && runnable_here(name) == 0 ? (strcpy(o->found, name), 0)
                                                                   : -1;
    }
    for (;;) {
        size_t len = strcspn(dir, ":");

        if (join(o->found, dir, len, name)) {
            if (runnable_here(o->found) == 0)
                return 0;
            denied |= (errno == EACCES);
        }
        if (!dir[len])
            break;
        dir += len + 1;
    }
    o->found[0] = '\0';
    errno = denied ? EACCES : ENOENT;
    return -1;
}

/* By system call: the library does not let its own two signals (32 and 33) be reset, which a parent
 * may have ignored.  All zeros mean SIG_DFL, no flags and an empty mask on every machine.
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

CHILD_FN static int stay_with(pid_t parent, int sig)
{
    if (prctl(PR_SET_PDEATHSIG, (unsigned long)sig, 0, 0, 0) < 0)
        return -1;
    errno = ESRCH;
    return getppid() == parent ? 0 : -1;
}

CHILD_FN static int lead(const struct spawn_params *p)
{
    if (p->flags & SPAWN_SESSION)
        return setsid() < 0 ? -1 : 0;
    return p->flags & SPAWN_PGRP ? setpgid(0, 0) : 0;
}

CHILD_FN static int set_limits(const struct spawn_params *p)
{
    for (size_t i = 0; i < p->nlimits; i++)
        if (syscall(SYS_prlimit64, 0, p->limits[i].resource, p->limits[i].limit, NULL) < 0)
            return -1;
    return 0;
}

CHILD_FN static int child(void *arg)
{
    struct outcome *o = arg;
    const struct spawn_params *p = o->p;
    const char *path;
    sigset_t none;

    default_handlers((p->flags & SPAWN_PLAIN_SIGNALS) != 0);
    o->step = STEP_ORPHAN;
    if (p->pdeathsig && stay_with(o->parent, p->pdeathsig) < 0)
        goto fail;
    o->step = STEP_GROUP;
    if (lead(p) < 0)
        goto fail;
    o->step = STEP_CGROUP;
    if (p->cgroup && write(*p->cgroup, "0", 1) < 0)
        goto fail;
    o->step = STEP_FDS;
    if (wire_fds(p) < 0)
        goto fail;
    o->step = STEP_CHDIR;
    if (p->cwd && chdir(p->cwd) < 0)
        goto fail;
    o->step = STEP_FIND;
    if (p->search && find(o) < 0)
        goto fail;
    o->step = STEP_OPEN;
    if (p->mask)
        umask((mode_t)(p->mask - 1) & 0777);
    if (open_files(o) < 0)
        goto fail;
    o->step = STEP_LIMIT;
    if (set_limits(p) < 0)
        goto fail;
    o->step = STEP_CPUS;
    if (p->cpus && sched_setaffinity(0, sizeof(*p->cpus), p->cpus) < 0)
        goto fail;
    o->step = STEP_EXEC;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    path = o->found[0] ? o->found : p->path;
    execve(path, p->argv, p->envp);
    o->errnum = errno;
    o->there = (o->errnum == ENOENT && access(path, F_OK) == 0);
    _exit(127);
fail:
    o->errnum = errno;
    _exit(127);
}

static void explain_find(const char *name, int errnum, errmsg_t *err)
{
    if (strchr(name, '/'))
        errmsg_set(err, "cannot run '%s': %s", name, strerror(errnum));
    else if (errnum == EACCES)
        errmsg_set(err, "cannot run '%s': it was found in PATH, but is not executable", name);
    else
        errmsg_set(err, "cannot run '%s': no such program in PATH", name);
}

static void explain(const struct outcome *o, errmsg_t *err)
{
    const char *why = strerror(o->errnum), *path = o->found[0] ? o->found : o->p->path;

    switch (o->step) {
    case STEP_CHDIR:
        errmsg_set(err, "cannot enter the working directory '%s': %s", o->p->cwd, why);
        break;
    case STEP_FIND:
        explain_find(o->p->path, o->errnum, err);
        break;
    case STEP_OPEN:
        errmsg_set(err, "cannot open '%s': %s", o->p->files[o->file].name,
                   o->errnum == ENXIO ? "it has no reader" : why);
        break;
    case STEP_EXEC:
        errmsg_set(err, "cannot run '%s': %s", path,
                   o->there ? "its interpreter does not exist" : why);
        break;
    case STEP_FDS:
        errmsg_set(err, "cannot arrange the open files of '%s': %s", path, why);
        break;
    case STEP_CGROUP:
        errmsg_set(err, "cannot limit the memory of '%s': %s", o->p->path, why);
        break;
    case STEP_LIMIT:
        errmsg_set(err, "cannot set the resource limits of '%s': %s", path, why);
        break;
    case STEP_CPUS:
        errmsg_set(err, "cannot bind '%s' to its cores: %s", path, why);
        break;
    case STEP_ORPHAN:
        errmsg_set(err, "cannot start '%s': its parent has ended: %s", path, why);
        break;
    default:
        errmsg_set(err, "cannot start '%s': %s", path, why);
    }
}

static void forget(const struct spawn_params *p, pid_t pid)
{
    if (p->pid)
        __atomic_store_n(p->pid, 0, __ATOMIC_SEQ_CST);
    /* Another thread may have reaped it, and a third may have a child with the same number. */
    while (waitpid(pid, NULL, __WNOTHREAD) < 0 && errno == EINTR)
        ;
}

#ifdef CHILD_COPIES
#define CLONE_MEMORY 0

static struct outcome *outcome_share(struct outcome *o)
{
    struct outcome *shared =
        mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return NULL;
    *shared = *o;
    return shared;
}

static void outcome_take(struct outcome *o, struct outcome *shared)
{
    *o = *shared;
    munmap(shared, sizeof(*o));
}
#else
#define CLONE_MEMORY CLONE_VM

static struct outcome *outcome_share(struct outcome *o)
{
    return o;
}

static void outcome_take(struct outcome *o, struct outcome *shared)
{
}
#endif

static pid_t start(const struct spawn_params *p, struct outcome *o, errmsg_t *err)
{
    char stack[CHILD_STACK] __attribute__((aligned(64)));
    int flags = CLONE_MEMORY | CLONE_VFORK | SIGCHLD;
    struct outcome *shared;
    sigset_t all, old;
    pid_t pid;
    int pidfd = -1, errnum;

    *o = (struct outcome){.p = p, .parent = getpid(), .step = STEP_NONE};
    if (!(shared = outcome_share(o)))
        return errmsg_fail(err, ENOMEM, "out of memory to run '%s'", p->path);
    flags |= p->pidfd ? CLONE_PIDFD : p->pid ? CLONE_PARENT_SETTID : 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = clone(child, stack + sizeof(stack), flags, shared, p->pidfd ? (pid_t *)&pidfd : p->pid);
    errnum = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    outcome_take(o, shared);
    if (pid < 0) {
        errmsg_set(err, "cannot create a process for '%s': %s", p->path, strerror(errnum));
        errno = errnum;
        return -1;
    }
    if (o->errnum) {
        forget(p, pid);
        if (pidfd >= 0)
            close(pidfd);
        explain(o, err);
        errno = o->errnum;
        return -1;
    }
    if (p->pidfd)
        *p->pidfd = pidfd;
    return pid;
}

/* Run a script without a "#!" line in a shell. */
static pid_t start_shell(const struct spawn_params *p, const char *file, errmsg_t *err)
{
    struct spawn_params q = *p;
    struct outcome o;
    size_t argc = 0;
    char **argv;
    pid_t pid;
    int errnum;

    while (p->argv[argc])
        argc++;
    argv = calloc(argc + 3, sizeof(*argv));
    if (!argv) {
        errmsg_fail(err, ENOMEM, "out of memory to run '%s' in a shell", file);
        return -1;
    }
    argv[0] = (char *)"sh";
    argv[1] = (char *)file;
    for (size_t i = 1; i < argc; i++)
        argv[i + 1] = p->argv[i];
    q.path = "/bin/sh";
    q.search = NULL;
    q.argv = argv;
    pid = start(&q, &o, err);
    errnum = errno;
    free(argv);
    errno = errnum;
    return pid;
}

pid_t spawn_process(const struct spawn_params *p, errmsg_t *err)
{
    struct outcome o;
    pid_t pid;

    if (!p || !p->path || !p->path[0] || !p->argv || !p->argv[0] || !p->envp ||
        p->nfds > SPAWN_FDS_MAX || p->nfiles > SPAWN_FILES_MAX || (p->pid && p->pidfd))
        return errmsg_fail(err, EINVAL, "no program was named");
    pid = start(p, &o, err);
    if (p->lost)
        *p->lost = (pid < 0 && o.errnum && o.step == STEP_FIND);
    if (pid < 0 && errno == ENOEXEC)
        pid = start_shell(p, o.found[0] ? o.found : p->path, err);
    if (p->found)
        *p->found = pid > 0 && o.found[0] ? strdup(o.found) : NULL;
    return pid;
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
