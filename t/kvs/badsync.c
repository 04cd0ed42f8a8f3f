/* badsync.c - to be preloaded: a disk on which things cannot be made durable.  The file that BADSYNC
 * names says what becomes of calls to fsync() and fdatasync() of write-ahead logs:
 *
 *    fail N    so many fail with EIO, then the file is emptied; -1: all
 *    hold      they wait until the file says something else; a file of that name and ".held" is made
 *
 * Without it, or when it is empty, nothing is changed.  Of several processes one at a time may use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_log(int fd)
{
    char link[64], path[4096];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    return n > 4 && memcmp(path + n - 4, "-wal", 4) == 0;
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

static int sync_fd(long call, int fd)
{
    char text[32];
    int left = 0;

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
