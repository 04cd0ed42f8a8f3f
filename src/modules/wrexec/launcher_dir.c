/* Directories for the shared-memory files of MPI libraries, one per job and node.
 *
 * Open MPI names its segments by host, user, job and local rank, so that two brokers on one host
 * collide unless each job has a place per node; and a crashed rank leaves its segment.  So there is
 *
 *    BASE/flux-UID-TOKEN/JOB       BASE: /dev/shm, else $TMPDIR, else /tmp
 *
 * made when the first task of a job speaks PMI, removed when the job ends.  The launcher holds a
 * lock on the upper directory while it lives; the first thing a launcher does after making its own
 * is to remove those of the same user that nobody has locked: their launcher was killed.  A launcher
 * that follows one that was lost in the same broker removes that one's at once; and the PMIx server
 * of a job, which sees the end of its launcher, that of its job.
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
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/strutil.h"

static const char *base_dir(void)
{
    const char *tmp = getenv("TMPDIR");

    if (access("/dev/shm", W_OK | X_OK) == 0)
        return "/dev/shm";
    if (tmp && access(tmp, W_OK | X_OK) == 0)
        return tmp;
    return "/tmp";
}

int backing_init(struct launcher *l)
{
    l->dirlock = -1;
    if (asprintf(&l->dirname, "%s/flux-%u-%s", base_dir(), (unsigned)getuid(), l->token) < 0) {
        l->dirname = NULL;
        return -1;
    }
    return 0;
}

char *backing_path(struct launcher *l, uint64_t job)
{
    char *path;

    return asprintf(&path, "%s/%" PRIu64, l->dirname, job) < 0 ? NULL : path;
}

/* Open and lock.  -1 when it is not there, not ours, or locked. */
static int lock_dir(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_uid != getuid() || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void remove_stale(const char *own)
{
    char prefix[32], *path;
    const char *base = base_dir();
    struct dirent *de;
    DIR *dir = opendir(base);
    int fd;

    if (!dir)
        return;
    snprintf(prefix, sizeof(prefix), "flux-%u-", (unsigned)getuid());
    while ((de = readdir(dir))) {
        if (!str_starts(de->d_name, prefix) || asprintf(&path, "%s/%s", base, de->d_name) < 0)
            continue;
        if (strcmp(path, own) != 0 && (fd = lock_dir(path)) >= 0) {
            dir_remove_tree(path);
            close(fd);
        }
        free(path);
    }
    closedir(dir);
}

void backing_sweep(const char *token)
{
    char *path;

    if (asprintf(&path, "%s/flux-%u-%s", base_dir(), (unsigned)getuid(), token) < 0)
        return;
    dir_remove_tree(path);
    free(path);
}

void backing_make(struct job *j)
{
    struct launcher *l = j->l;

    if (j->dir)
        return;
    if (l->dirlock < 0) {
        /* Between mkdir and lock another launcher may take it for stale; then make it again. */
        for (int i = 0; i < 10 && l->dirlock < 0; i++) {
            struct stat a, b;

            if (mkdir(l->dirname, 0700) < 0 && errno != EEXIST)
                return;
            l->dirlock = lock_dir(l->dirname);
            if (l->dirlock >= 0 &&
                (stat(l->dirname, &a) < 0 || fstat(l->dirlock, &b) < 0 || a.st_ino != b.st_ino)) {
                close(l->dirlock);
                l->dirlock = -1;
            }
        }
        if (l->dirlock < 0)
            return;
        remove_stale(l->dirname);
    }
    j->dir = backing_path(l, j->id);
    if (j->dir && mkdir(j->dir, 0700) < 0 && errno != EEXIST) {
        free(j->dir);
        j->dir = NULL;
    }
}

void backing_remove(struct job *j)
{
    if (!j->dir)
        return;
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
