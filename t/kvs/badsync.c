/* badsync.c - to be preloaded: a disk on which things cannot be made durable.  The file that
 * BADSYNC names says what becomes of calls to fsync() and fdatasync() of write-ahead logs:
 *
 *    fail N    this many fail with EIO, then the file is emptied; -1: all
 *    hold      they wait until the file says something else; meanwhile there is a file of that name
 *              with ".held"
 *
 * or of fsync() of directories:
 *
 *    dirs      all fail with EIO
 *
 * or of those that write to the store's files:
 *
 *    readonly  all fail with EROFS, as on a file system that has become read-only
 *
 * Without it, or when it is empty, nothing is changed.  Of several processes one at a time may use
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t path_of(int fd, char *path, size_t size)
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    return n;
}

static bool is_log(int fd)
{
    char path[4096];
    ssize_t n = path_of(fd, path, sizeof(path));

    return n > 4 && memcmp(path + n - 4, "-wal", 4) == 0;
}

static bool is_store(int fd)
{
    char path[4096];

    return path_of(fd, path, sizeof(path)) > 0 && strstr(path, "/content.sqlite");
}

static bool is_dir(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static void read_order(char *text, size_t size)
{
    const char *path = getenv("BADSYNC");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;

    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static void write_order(int left)
{
    char text[32];
    int n = left ? snprintf(text, sizeof(text), "fail %d\n", left) : 0;
    int fd = open(getenv("BADSYNC"), O_WRONLY | O_TRUNC | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, text, (size_t)n);
        close(fd);
    }
}

static void tell_held(void)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s.held", getenv("BADSYNC"));
    if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) >= 0)
        close(fd);
}

/* May this be written to?  false with EROFS. */
static bool writable(int fd)
{
    char text[32];

    if (!is_store(fd))
        return true;
    read_order(text, sizeof(text));
    if (strcmp(text, "readonly\n") != 0)
        return true;
    errno = EROFS;
    return false;
}

static int sync_fd(long call, int fd)
{
    char text[32];
    int left = 0;

    if (is_dir(fd)) {
        read_order(text, sizeof(text));
        if (strcmp(text, "dirs\n") != 0)
            return (int)syscall(call, fd);
        errno = EIO;
        return -1;
    }
    if (!is_log(fd))
        return (int)syscall(call, fd);
    for (read_order(text, sizeof(text)); strcmp(text, "hold\n") == 0;
         read_order(text, sizeof(text))) {
        tell_held();
        usleep(10000);
    }
    if (sscanf(text, "fail %d", &left) != 1 || left == 0)
        return (int)syscall(call, fd);
    if (left > 0)
        write_order(left - 1);
    errno = EIO;
    return -1;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return sync_fd(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return sync_fd(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *buf, size_t n,
                                                        off64_t at)
{
    return writable(fd) ? syscall(SYS_pwrite64, fd, buf, n, at) : -1;
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return pwrite64(fd, buf, n, at);
}

__attribute__((visibility("default"))) int ftruncate64(int fd, off64_t size)
{
    return writable(fd) ? (int)syscall(SYS_ftruncate, fd, size) : -1;
}

__attribute__((visibility("default"))) int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}
