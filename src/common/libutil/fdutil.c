/* fdutil.c - loops over descriptors, files and directories.
 *
 * Invariants:
 *  1. EINTR and short counts never reach the caller.  A non-blocking descriptor is waited for with
 *     poll(2), without spinning.
 *  2. Every descriptor opened here is close-on-exec, and closed before return.
 *  3. A tree is removed with directory descriptors and O_NOFOLLOW: an attacker who replaces a
 *     directory by a symbolic link meanwhile cannot lead the removal outside the tree.
 *
 * Failure: -1 or NULL with the errno of the system call; nothing incomplete is left behind.
 */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fdutil.h"

#define MAX_LEVELS 128
#define SOCKET_NAME_ROOM 24 /* room for a name in a runtime directory: "/local-16777215" */

static int wait_for(int fd, short events)
{
    struct pollfd pfd = {.fd = fd, .events = events};

    while (poll(&pfd, 1, -1) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return 0;
}

static void close_keep_errno(int fd)
{
    int saved = errno;

    (void)close(fd);
    errno = saved;
}

/* read(2) that waits; returns 0 at the end of the file. */
static ssize_t read_some(int fd, void *data, size_t len)
{
    for (;;) {
        ssize_t n = read(fd, data, len);

        if (n >= 0)
            return n;
        if (errno == EAGAIN) {
            if (wait_for(fd, POLLIN) < 0)
                return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
}

int fd_read_all(int fd, size_t max, char **data, size_t *len)
{
    size_t cap = 4096;
    size_t used = 0;
    char *block = malloc(cap);
    int saved;

    if (!block)
        return -1;
    for (;;) {
        ssize_t n;

        if (used + 1 == cap) {
            char *p = cap <= SIZE_MAX / 2 ? realloc(block, cap * 2) : NULL;

            if (!p) {
                errno = ENOMEM;
                break;
            }
            block = p;
            cap *= 2;
        }
        n = read_some(fd, block + used, cap - used - 1);
        if (n < 0)
            break;
        if (n == 0) {
            block[used] = '\0';
            *data = block;
            *len = used;
            return 0;
        }
        used += (size_t)n;
        if (used > max) {
            errno = EFBIG;
            break;
        }
    }
    saved = errno;
    free(block);
    errno = saved;
    return -1;
}

int fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            if (wait_for(fd, POLLOUT) < 0)
                return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

static int change_flag(int fd, int get, int set, int flag, int on)
{
    int flags = fcntl(fd, get);
    int want = on ? flags | flag : flags & ~flag;

    if (flags < 0)
        return -1;
    return want == flags || fcntl(fd, set, want) >= 0 ? 0 : -1;
}

int fd_set_cloexec(int fd, int on)
{
    return change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_set_nonblock(int fd, int on)
{
    return change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_check_peer(int fd, const char *what, errmsg_t *err)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return errmsg_fail(err, errno, "cannot find out whose process %.200s is: %s", what,
                           strerror(errno));
    if (cred.uid == geteuid() || cred.uid == 0)
        return 0;
    return errmsg_fail(err, EPERM,
                       "%.200s runs as user %u, not as user %u or root: nothing is sent to it",
                       what, (unsigned)cred.uid, (unsigned)geteuid());
}

void fd_reserve_standard(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        /* open() returns the lowest free descriptor. */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            return;
    }
}

int file_read_all(const char *path, size_t max, char **data, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int rc;

    if (fd < 0)
        return -1;
    rc = fd_read_all(fd, max, data, len);
    close_keep_errno(fd);
    return rc;
}

/* May the runtime directory be created in `base`?  0, or an errno with the reason. */
static int check_base(const char *base, const char *prefix)
{
    struct sockaddr_un sun;
    struct stat st;

    if (base[0] != '/')
        return EINVAL;
    if (strlen(base) + strlen(prefix) + 8 + SOCKET_NAME_ROOM >= sizeof(sun.sun_path))
        return ENAMETOOLONG;
    if (stat(base, &st) < 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    return access(base, W_OK | X_OK) == 0 ? 0 : errno;
}

char *dir_create_runtime(const char *prefix, errmsg_t *err)
{
    const char *bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    int why = ENOENT;

    if (!prefix || !*prefix || strchr(prefix, '/')) {
        errmsg_fail(err, EINVAL, "a runtime directory needs a name without '/'");
        return NULL;
    }
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        char *path;

        if (!bases[i] || !*bases[i])
            continue;
        why = check_base(bases[i], prefix);
        if (why)
            continue;
        if (asprintf(&path, "%s/%s-XXXXXX", bases[i], prefix) < 0) {
            why = ENOMEM;
            break;
        }
        if (mkdtemp(path))
            return path;
        why = errno;
        free(path);
    }
    errmsg_fail(err, why,
                "cannot create a private directory in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: %s; set "
                "TMPDIR to a writable directory with a short name",
                strerror(why));
    return NULL;
}

/* A file system that cannot sync directories offers no stronger guarantee. */
static int sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int saved, rc;

    if (fd < 0)
        return errno == EACCES ? 0 : -1; /* it can be entered but not read */
    rc = fsync(fd) < 0 && errno != EINVAL && errno != EROFS ? -1 : 0;
    saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

/* Sync the directory and those above it.  This includes existing ones: their creator may have
 * failed before syncing them. */
static int sync_path(char *path)
{
    char *end = path + strlen(path);
    int rc = sync_dir(path);

    while (rc == 0 && end > path) {
        while (end > path && end[-1] == '/')
            end--;
        while (end > path && end[-1] != '/')
            end--;
        if (end == path)
            return *path == '/' ? 0 : sync_dir(".");
        char first = *end;
        *end = '\0';
        rc = sync_dir(path);
        *end = first;
    }
    return rc;
}

int file_sync_dir(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir;
    int saved, rc;

    if (!slash)
        return sync_dir(".");
    if (!(dir = strndup(path, slash == path ? 1 : (size_t)(slash - path))))
        return -1;
    rc = sync_dir(dir);
    saved = errno;
    free(dir);
    errno = saved;
    return rc;
}

int dir_create_parents(const char *path, mode_t mode)
{
    char *copy = strdup(path);
    int rc = 0;
    int saved;

    if (!copy)
        return -1;
    for (char *p = copy + (*copy == '/'); rc == 0 && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST)
            rc = -1;
        *p = '/';
    }
    if (rc == 0 && mkdir(copy, mode) < 0) {
        struct stat st;

        if (errno != EEXIST) {
            rc = -1;
        } else if (stat(copy, &st) < 0) {
            rc = -1;
        } else if (!S_ISDIR(st.st_mode)) {
            errno = ENOTDIR;
            rc = -1;
        }
    }
    if (rc == 0)
        rc = sync_path(copy);
    saved = errno;
    free(copy);
    errno = saved;
    return rc;
}

static void note(int *first_error)
{
    if (*first_error == 0)
        *first_error = errno;
}

/* A tree that is being removed. */
struct removal {
    int root;         /* descriptor of its top directory; -1 */
    dev_t dev;        /* of its top */
    unsigned renamed; /* directories below MAX_LEVELS that were moved to the top */
    int first_error;
};

static void remove_at(struct removal *r, int dirfd, const char *name, int level);

/* Remove the contents of the directory open as `fd`, and close it. */
static void remove_content(struct removal *r, int fd, int level)
{
    DIR *dir = fdopendir(fd);
    struct dirent *d;

    if (!dir) {
        note(&r->first_error);
        (void)close(fd);
        return;
    }
    while ((errno = 0, d = readdir(dir))) {
        if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
            remove_at(r, fd, d->d_name, level + 1);
    }
    if (errno)
        note(&r->first_error);
    (void)closedir(dir);
}

/* The directory is too deep for descriptors and the stack: move it to the top of the tree, to be
 * removed there later.  An existing name is not replaced, except for an empty directory of the same
 * tree. */
static void raise_up(struct removal *r, int dirfd, const char *name)
{
    char up[32];
    int rc;

    do {
        snprintf(up, sizeof(up), ".deep-%u", ++r->renamed);
        rc = renameat(dirfd, name, r->root, up);
    } while (rc < 0 && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR));
    if (rc < 0)
        note(&r->first_error);
}

/* Remove the contents of a directory of the tree. */
static void remove_dir(struct removal *r, int fd, int level)
{
    unsigned before;

    if (level > 0) {
        remove_content(r, fd, level);
        return;
    }
    r->root = fd;
    do {
        int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        before = r->renamed;
        if (again < 0)
            note(&r->first_error);
        else
            remove_content(r, again, 0);
    } while (r->renamed != before && r->first_error == 0);
    (void)close(fd);
}

static void remove_at(struct removal *r, int dirfd, const char *name, int level)
{
    struct stat st;
    int fd;

    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno != EISDIR && errno != EPERM) {
        note(&r->first_error);
        return;
    }
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        note(&r->first_error);
        return;
    }
    errno = 0;
    if (fstat(fd, &st) == 0) {
        if (level == 0)
            r->dev = st.st_dev;
        else if (st.st_dev != r->dev)
            errno = EBUSY;
    }
    if (errno || level >= MAX_LEVELS) {
        (void)close(fd);
        if (errno)
            note(&r->first_error);
        else
            raise_up(r, dirfd, name);
        return;
    }
    remove_dir(r, fd, level);
    if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        note(&r->first_error);
}

int dir_remove_tree(const char *path)
{
    struct removal r = {.root = -1};

    remove_at(&r, AT_FDCWD, path, 0);
    if (r.first_error == 0)
        return 0;
    errno = r.first_error;
    return -1;
}
