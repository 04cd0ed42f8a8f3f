/* Directories of a session.
 *
 * Invariants:
 *  1. A directory to which other users can write is refused: a user who can replace a socket can
 *     impersonate any broker.
 *  2. The broker of RUNDIR/RANK holds a lock on it (flock) as long as it lives.  This distinguishes
 *     a directory that a killed broker left from one in use, and two sessions in one RUNDIR never
 *     remove each other's sockets.
 *  3. RUNDIR/RANK holds a mark: the broker's host, and the boot of that host.  A directory that
 *     holds files but no mark was not created by a broker: no broker uses or removes it.  The same
 *     holds for a directory with the mark of another host, since a shared file system may not share
 *     locks.  The mark of an earlier boot of this host is stale.  An empty mark without other files
 *     was left by a broker that was killed before it wrote its mark.  Links by which the brokers of
 *     a host elect one of them do not count: they may come before the mark of rank 0.
 *  4. A session that is a job of another session uses the job's own directory, if its name is short
 *     enough: it is removed with the job, even when the whole session is killed.
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
#include "libutil/strutil.h"

#define MARK_FILE "broker"
#define ELECTION "inventory-"
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
                           "others can write to directory %s; the sockets of a session need a "
                           "private directory (chmod 700)",
                           path);
    return 0;
}

/* Create the directory in the directory of the job in which this session runs.  1: created; 0:
 * there is no such job, or the name would be too long. */
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
                           "rundir=%.120s: expected an absolute path of at most %d characters, "
                           "since names of sockets are limited",
                           path, BOOT_PATH_MAX - (int)sizeof(LONGEST_IN_RUNDIR));
    if (mkdir(path, 0700) == 0)
        *made = true;
    else if (errno != EEXIST)
        return errmsg_fail(err, errno, "cannot create directory %s: %s", path, strerror(errno));
    snprintf(buf, BOOT_PATH_MAX, "%s", path);
    return check_private(path, err);
}

/* Returns a descriptor that holds the lock. */
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
    char *host; /* points into `text` */
};

/* Compute "MARK HOST" of this host. */
static void own_mark(struct mark *m)
{
    struct utsname u;

    hostmark_get(m->text);
    m->host = m->text + strlen(m->text) + 1;
    snprintf(m->host, sizeof(m->text) - (size_t)(m->host - m->text), "%s",
             uname(&u) == 0 ? u.nodename : "");
    m->host[-1] = ' ';
}

/* Does the directory hold nothing, except perhaps the mark, and what brokers of other ranks may
 * create in that of rank 0 before its mark is there (resrc_find.c)? */
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
                strcmp(de->d_name, MARK_FILE) == 0 || str_starts(de->d_name, ELECTION);
    closedir(dir);
    return empty;
}

/* Was the locked directory created by a broker of this host?  1: yes; 0: it is empty, or has an
 * empty mark; -1 with an error message: it belongs to somebody else. */
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
                           "directory %s contains files that no broker created: choose "
                           "another rundir, or move them away",
                           path);
    text[n] = '\0';
    own_mark(&own);
    if (strcmp(text, own.text) == 0)
        return 1;
    host = strchr(text, ' ');
    if (host && strcmp(host + 1, own.host) == 0)
        return 1; /* from before this host was rebooted */
    return errmsg_fail(
        err, EADDRINUSE,
        "directory %s was created by a broker on host %.64s, which may still run: choose "
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
        return errmsg_fail(err, EINVAL, "the name of directory %s is too long", rundir);
    if (mkdir(buf, 0700) < 0 && errno != EEXIST)
        return errmsg_fail(err, errno, "cannot create directory %s: %s", buf, strerror(errno));
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
        rmdir(path); /* fails if it holds other files */
    close(fd);
}
