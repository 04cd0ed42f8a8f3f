/* hangfs.c - to be preloaded: a file system that hangs, in the directory that HANGFS names.
 *
 *    HANGFS/CALL/...      a call of a path below hangs; CALL is chdir, open, stat, execve, mkdir or
 *                         rmdir
 *    HANGFS/any/...       a CALL of a path below hangs when HANGFS/CALL.next is there, and removes
 *                         that; so does one of a file called flux-pmixd, wherever it is; CALL may
 *                         be write, too
 *    HANGFS/CALL.pid      is written by who hangs: its process id
 *    HANGFS/CALL.open     when it is there nothing hangs any more
 *    HANGFS/immortal      holds a process id: kill(2) does not end that process, as it does not end
 *                         one that waits in the kernel where no signal is noticed
 *
 * It may be called in a child that shares its parent's memory: it makes system calls only.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int there(const char *path)
{
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

static void write_pid(const char *path)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0 && syscall(SYS_write, fd, text, (size_t)n) == n)
        close(fd);
}

static int is_below(const char *path, const char *root, const char *dir)
{
    char below[512];
    int n = snprintf(below, sizeof(below), "%s/%s/", root, dir);

    return strncmp(path, below, (size_t)n) == 0;
}

static int is_next(const char *path, const char *root, const char *call)
{
    const char *slash = strrchr(path, '/');
    char next[512];

    if (!is_below(path, root, "any") && !(slash && strcmp(slash, "/flux-pmixd") == 0))
        return 0;
    snprintf(next, sizeof(next), "%s/%s.next", root, call);
    return syscall(SYS_unlinkat, AT_FDCWD, next, 0) == 0;
}

static void maybe_hang(const char *call, const char *path)
{
    const struct timespec moment = {0, 10000000};
    const char *root = getenv("HANGFS");
    char pid[512], gate[512];

    if (!root || !path || !(is_below(path, root, call) || is_next(path, root, call)))
        return;
    snprintf(pid, sizeof(pid), "%s/%s.pid", root, call);
    snprintf(gate, sizeof(gate), "%s/%s.open", root, call);
    if (there(gate))
        return;
    write_pid(pid);
    while (!there(gate))
        nanosleep(&moment, NULL);
}

EXPORT int chdir(const char *path)
{
    maybe_hang("chdir", path);
    return (int)syscall(SYS_chdir, path);
}

EXPORT int open(const char *path, int flags, ...)
{
    mode_t mode;
    va_list ap;

    va_start(ap, flags);
    mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    maybe_hang("open", path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

EXPORT int stat(const char *restrict path, struct stat *restrict st)
{
    maybe_hang("stat", path);
    return fstatat(AT_FDCWD, path, st, 0);
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    maybe_hang("execve", path);
    return (int)syscall(SYS_execve, path, argv, envp);
}

EXPORT ssize_t write(int fd, const void *data, size_t len)
{
    const char *root = getenv("HANGFS");
    char next[512], name[64], path[512];
    ssize_t n;

    snprintf(next, sizeof(next), "%s/write.next", root ? root : "");
    if (root && there(next)) {
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        if ((n = readlink(name, path, sizeof(path) - 1)) > 0) {
            path[n] = '\0';
            maybe_hang("write", path);
        }
    }
    return syscall(SYS_write, fd, data, len);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    maybe_hang("mkdir", path);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

EXPORT int rmdir(const char *path)
{
    maybe_hang("rmdir", path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

EXPORT int kill(pid_t pid, int sig)
{
    const char *root = getenv("HANGFS");
    char path[512], text[16] = "";
    int fd;

    snprintf(path, sizeof(path), "%s/immortal", root ? root : "");
    if (root && (fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC)) >= 0) {
        ssize_t n = read(fd, text, sizeof(text) - 1);

        close(fd);
        if (n > 0 && atoi(text) == (pid < 0 ? -pid : pid))
            return 0;
    }
    return (int)syscall(SYS_kill, pid, sig);
}
