/* Directories of jobs, one per job and node:
 *
 *    BASE/flux-UID-MARK-TOKEN/JOB  BASE: attribute wrexec.tmpdir, else /dev/shm unless programs
 *                                  cannot be run there, else $TMPDIR, else /tmp
 *                                  MARK: of the host and its last start; TOKEN: of the launcher
 *
 * It holds the files that the jobspec brought along, the shared-memory files of MPI libraries (Open
 * MPI names its segments by host, user, job and local rank, so that two brokers on one host collide
 * unless each job has a place per node), and whatever the tasks put there (FLUX_JOB_TMPDIR).  It is
 * made before the first task and removed after the last process.  /dev/shm comes first since a
 * directory there costs a tenth of one on a disk.
 *
 * The launcher holds a lock on the upper directory while it lives; the first thing a launcher does
 * after making its own is to remove those of the same user that nobody has locked: their launcher
 * was killed.  BASE is shared with other programs, and may be shared with other hosts, whose locks
 * cannot be seen everywhere: so only directories whose whole name is of the form above, with the
 * mark of this host, are looked at.  A launcher that follows one that was lost in the same broker
 * removes that one's when its processes are gone, which could make files until then; and the PMIx
 * server of a job, which sees the end of its launcher, that of its job.
 */
#include "config.h"
#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/hostmark.h"
#include "libutil/strutil.h"

#define LAUNCHER_TOKEN_LEN 16 /* as exec.c makes them */

static bool usable(const char *dir)
{
    struct statvfs st;

    return access(dir, W_OK | X_OK) == 0 && statvfs(dir, &st) == 0 && !(st.f_flag & ST_NOEXEC);
}

static const char *base_dir(const struct launcher *l)
{
    const char *tmp = getenv("TMPDIR");

    if (l->tmpdir)
        return l->tmpdir;
    if (usable("/dev/shm"))
        return "/dev/shm";
    return tmp && usable(tmp) ? tmp : "/tmp";
}

/* Open and lock.  -1 when it is not there, not ours, or locked. */
static int lock_dir(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_uid != getuid() || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int errnum = errno;

        close(fd);
        errno = errnum;
        return -1;
    }
    return fd;
}

/* "BASE/flux-UID-MARK-TOKEN", malloc'd; NULL without memory. */
static char *dir_name(const struct launcher *l, const char *token)
{
    char mark[HOSTMARK_SIZE], *path;

    hostmark_get(mark);
    if (asprintf(&path, "%s/flux-%u-%s-%s", base_dir(l), (unsigned)getuid(), mark, token) < 0)
        return NULL;
    return path;
}

/* Is it what some launcher of this user on this host, since it was started, calls its own? */
static bool is_launchers(const char *name, const char *prefix)
{
    const char *token = name + strlen(prefix);

    return str_starts(name, prefix) && strlen(token) == LAUNCHER_TOKEN_LEN &&
           strspn(token, "0123456789abcdef") == LAUNCHER_TOKEN_LEN;
}

static void remove_stale(const char *base, const char *own)
{
    char mark[HOSTMARK_SIZE], prefix[48], *path;
    struct dirent *de;
    DIR *dir = opendir(base);
    int fd;

    if (!dir)
        return;
    hostmark_get(mark);
    snprintf(prefix, sizeof(prefix), "flux-%u-%s-", (unsigned)getuid(), mark);
    while ((de = readdir(dir))) {
        if (!is_launchers(de->d_name, prefix) || asprintf(&path, "%s/%s", base, de->d_name) < 0)
            continue;
        if (strcmp(path, own) != 0 && (fd = lock_dir(path)) >= 0) {
            dir_remove_tree(path);
            close(fd);
        }
        free(path);
    }
    closedir(dir);
}

void backing_sweep(const struct launcher *l, const char *token)
{
    char *path = dir_name(l, token);

    if (path)
        dir_remove_tree(path);
    free(path);
}

bool backing_held(const struct launcher *l, const char *token)
{
    char *path = dir_name(l, token);
    int fd = path ? lock_dir(path) : -1;
    bool held = fd < 0 && errno == EWOULDBLOCK;

    if (fd >= 0)
        close(fd);
    free(path);
    return held;
}

/* The upper directory, locked. */
static int base_make(struct launcher *l)
{
    const char *base = base_dir(l);

    if (!l->dirname && !(l->dirname = dir_name(l, l->token)))
        return -1;
    /* Between mkdir and lock another launcher may take it for stale; then make it again. */
    for (int i = 0; i < 10 && l->dirlock < 0; i++) {
        struct stat a, b;

        if (mkdir(l->dirname, 0700) < 0 && errno != EEXIST)
            return -1;
        l->dirlock = lock_dir(l->dirname);
        if (l->dirlock >= 0 &&
            (stat(l->dirname, &a) < 0 || fstat(l->dirlock, &b) < 0 || a.st_ino != b.st_ino)) {
            close(l->dirlock);
            l->dirlock = -1;
        }
    }
    if (l->dirlock < 0)
        return -1;
    remove_stale(base, l->dirname);
    return 0;
}

void backing_make(struct job *j)
{
    struct launcher *l = j->l;

    if (j->dir || (l->dirlock < 0 && base_make(l) < 0))
        return;
    if (asprintf(&j->dir, "%s/%" PRIu64, l->dirname, j->id) < 0) {
        j->dir = NULL;
    } else if (mkdir(j->dir, 0700) < 0 && errno != EEXIST) {
        free(j->dir);
        j->dir = NULL;
    }
}

static int write_file(struct job *j, const char *name, const char *text, errmsg_t *err)
{
    char path[4096];
    int fd, rc;

    if (!name[0] || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return errmsg_fail(err, EINVAL, "'%s' is no name for a file of a job", name);
    if (snprintf(path, sizeof(path), "%s/%s", j->dir, name) >= (int)sizeof(path))
        return errmsg_fail(err, ENAMETOOLONG, "the name of a file of the job is too long");
    /* One that begins like a script is to be run. */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, text[0] == '#' ? 0700 : 0600);
    rc = fd < 0 ? -1 : fd_write_all(fd, text, strlen(text));
    if (rc < 0)
        errmsg_fail(err, errno, "cannot write the job's file '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

int backing_files(struct job *j, errmsg_t *err)
{
    if (j->run.nfiles && !j->run.parent && !j->dir)
        return errmsg_fail(err, ENOSPC, "the job's directory cannot be made in %s", base_dir(j->l));
    for (uint32_t i = 0; !j->run.parent && i < j->run.nfiles; i++)
        if (write_file(j, j->files[2 * i], j->files[2 * i + 1], err) < 0)
            return -1;
    return 0;
}

void backing_remove(struct job *j)
{
    if (!j->dir)
        return;
    /* Mostly it is empty. */
    if (!j->shared_dir && rmdir(j->dir) < 0 && errno != ENOENT)
        dir_remove_tree(j->dir);
    free(j->dir);
    j->dir = NULL;
}

void backing_fini(struct launcher *l)
{
    if (l->dirlock >= 0) {
        dir_remove_tree(l->dirname);
        close(l->dirlock);
    }
    free(l->dirname);
    l->dirname = NULL;
}
