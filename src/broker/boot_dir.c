/* Directories of a session.
 *
 * 1. A directory for sockets that others could write to is refused: who can replace a socket can
 *    be anybody.
 * 2. RUNDIR/RANK is locked (flock) by its broker as long as that lives. So a directory that a
 *    killed broker left can be told from one that is in use, and two sessions in one RUNDIR
 *    never remove each other's sockets.
 * 3. RUNDIR/RANK holds a mark: which host, and which start of it, the broker ran on.  A directory
 *    with files and without a mark was made by somebody else: no broker takes it, and nobody
 *    removes it.  Nor one with the mark of another host, where the file system may be shared and
 *    the lock may not.  That of an earlier start of this host is stale.  An empty mark with nothing
 *    beside it is what a broker leaves that is killed before it has written its own.
 * 4. A session that is a job of another lives in that job's own directory, when that has a name
 *    short enough: it goes with the job, also when all of the session is killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "boot_dir.h"
#include "libutil/fdutil.h"
#include "libutil/hostmark.h"

#define MARK_FILE "broker"
#define LONGEST_IN_RUNDIR "/4294967295/event"

static int check_private(const char *path, errmsg_t *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errmsg_fail(err, errno, "cannot use directory %s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return errmsg_fail(err, ENOTDIR, "%s is not a directory", path);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return errmsg_fail(err, EPERM,
                           "directory %s can be changed by others; the sockets of a session need "
                           "one that is yours alone (chmod 700)",
                           path);
    return 0;
}

/* Below the directory of the job that this session is.  1: made; 0: not such a job, or no room. */
static int make_in_job(char *buf)
{
    const char *dir = getenv("FLUX_JOB_ID") ? getenv("FLUX_JOB_TMPDIR") : NULL;

    if (!dir || dir[0] != '/' ||
        snprintf(buf, BOOT_PATH_MAX, "%s/f-XXXXXX", dir) >
            BOOT_PATH_MAX - (int)sizeof(LONGEST_IN_RUNDIR))
        return 0;
    return mkdtemp(buf) != NULL;
}

int boot_dir_session(const char *path, char *buf, bool *made, errmsg_t *err)
{
    char *fresh;

    *made = false;
    buf[0] = '\0';
    if (!path) {
        if (make_in_job(buf)) {
            *made = true;
            return 0;
        }
        buf[0] = '\0';
        if (!(fresh = dir_create_runtime("flux", err)))
            return -1;
        snprintf(buf, BOOT_PATH_MAX, "%s", fresh);
        free(fresh);
        *made = true;
        return 0;
    }
    if (path[0] != '/' || strlen(path) > BOOT_PATH_MAX - sizeof(LONGEST_IN_RUNDIR))
        return errmsg_fail(err, EINVAL,
                           "rundir=%.120s: an absolute path of at most %d characters is wanted, "
                           "since sockets cannot have longer names",
                           path, BOOT_PATH_MAX - (int)sizeof(LONGEST_IN_RUNDIR));
    if (mkdir(path, 0700) == 0)
        *made = true;
    else if (errno != EEXIST)
        return errmsg_fail(err, errno, "cannot make directory %s: %s", path, strerror(errno));
    snprintf(buf, BOOT_PATH_MAX, "%s", path);
    return check_private(path, err);
}

/* A descriptor that holds the lock. */
static int lock_dir(const char *path, errmsg_t *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errmsg_fail(err, errno, "cannot use directory %s: %s", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int saved = errno == EWOULDBLOCK ? EADDRINUSE : errno;

        close(fd);
        if (saved == EADDRINUSE)
            return errmsg_fail(err, saved,
                               "directory %s is in use: another broker runs there; choose another "
                               "rundir",
                               path);
        return errmsg_fail(err, saved, "cannot lock directory %s: %s", path, strerror(saved));
    }
    return fd;
}

struct mark {
    char text[HOSTMARK_SIZE + 1 + sizeof(((struct utsname *)0)->nodename)];
    char *host; /* in `text` */
};

/* "MARK HOST" of this host. */
static void own_mark(struct mark *m)
{
    struct utsname u;

    hostmark_get(m->text);
    m->host = m->text + strlen(m->text) + 1;
    snprintf(m->host, sizeof(m->text) - (size_t)(m->host - m->text), "%s",
             uname(&u) == 0 ? u.nodename : "");
    m->host[-1] = ' ';
}

/* Nothing but, perhaps, the mark. */
static bool holds_nothing_else(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool empty = dir != NULL;
    struct dirent *de;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while (empty && (de = readdir(dir)))
        empty = strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
                strcmp(de->d_name, MARK_FILE) == 0;
    closedir(dir);
    return empty;
}

/* Was the locked directory made by a broker of this host?  1: it was; 0: nothing is in it, or an
 * empty mark; -1 with a sentence: it is somebody else's. */
static int whose(int dirfd, const char *path, errmsg_t *err)
{
    struct mark own;
    char text[sizeof(own.text)];
    int fd = openat(dirfd, MARK_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    char *host;

    if (fd >= 0)
        close(fd);
    if ((n == 0 || (fd < 0 && errno == ENOENT)) && holds_nothing_else(dirfd))
        return 0;
    if (n <= 0)
        return errmsg_fail(err, ENOTEMPTY,
                           "directory %s holds files that were not made by a broker: choose "
                           "another rundir, or move them away",
                           path);
    text[n] = '\0';
    own_mark(&own);
    if (strcmp(text, own.text) == 0)
        return 1;
    host = strchr(text, ' ');
    if (host && strcmp(host + 1, own.host) == 0)
        return 1; /* from before this host was restarted */
    return errmsg_fail(
        err, EADDRINUSE,
        "directory %s was made by a broker on host %.64s, which may still run: choose "
        "another rundir, or remove the directory",
        path, host ? host + 1 : "?");
}

static int put_mark(int dirfd, const char *path, errmsg_t *err)
{
    struct mark own;
    int fd = openat(dirfd, MARK_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc;

    own_mark(&own);
    rc = fd < 0 ? -1 : fd_write_all(fd, own.text, strlen(own.text));
    if (rc < 0)
        errmsg_fail(err, errno, "cannot write %s/" MARK_FILE ": %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

int boot_dir_rank(const char *rundir, uint32_t rank, char *buf, errmsg_t *err)
{
    int fd;

    if (snprintf(buf, BOOT_PATH_MAX, "%s/%u", rundir, rank) >= BOOT_PATH_MAX)
        return errmsg_fail(err, EINVAL, "directory %s has too long a name", rundir);
    if (mkdir(buf, 0700) < 0 && errno != EEXIST)
        return errmsg_fail(err, errno, "cannot make directory %s: %s", buf, strerror(errno));
    if (check_private(buf, err) < 0 || (fd = lock_dir(buf, err)) < 0)
        return -1;
    if (whose(fd, buf, err) < 0 || put_mark(fd, buf, err) < 0) {
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

void boot_dir_remove_rank(const char *rundir, uint32_t rank)
{
    char path[BOOT_PATH_MAX];
    int fd, made_here;

    if (snprintf(path, sizeof(path), "%s/%u", rundir, rank) >= (int)sizeof(path) ||
        (fd = lock_dir(path, NULL)) < 0)
        return;
    made_here = whose(fd, path, NULL);
    if (made_here == 0)
        (void)unlinkat(fd, MARK_FILE, 0);
    if (made_here == 1)
        dir_remove_tree(path);
    else
        rmdir(path); /* fails where somebody's files are in it */
    close(fd);
}
