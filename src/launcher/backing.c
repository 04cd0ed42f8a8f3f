/* backing.c - the directories of jobs: one per job and node.
 *
 * Format:
 *
 *    BASE/flux-UID-MARK-TOKEN/JOB  BASE: attribute wrexec.tmpdir; by default /dev/shm, unless
 *                                  programs cannot be run there, then $TMPDIR, then /tmp
 *                                  MARK: identifies the host and its last boot
 *                                  TOKEN: of the launcher
 *
 * Purpose: the directory of a job holds the files of its jobspec, the shared-memory files of MPI
 * libraries and the files of the tasks themselves (FLUX_JOB_TMPDIR).  Open MPI names its segments
 * by host, user, job and local rank, so two brokers of one host would collide without a directory
 * per node.  The directory exists from before the first task until after the last process.
 * /dev/shm is preferred because a directory there costs a tenth of a directory on a disk.
 *
 * Locks: while it runs, a launcher holds a lock on its upper directory, flux-UID-MARK-TOKEN.  After
 * a launcher has made its own, it first removes the upper directories of the same user that nobody
 * has locked: their launchers were killed.  Other programs share BASE, and so may other hosts,
 * whose locks are not visible everywhere.  So only directories with a complete name of this form
 * and the mark of this host are considered.  Between making and locking its directory, a launcher
 * may find it locked by another launcher that takes it for stale and removes it.  It waits for that
 * lock and makes the directory again.
 *
 * Removal: the successor of a lost launcher in the same broker removes the directory of the lost
 * launcher when the processes that could still make files there are gone.  The PMIx server of a job
 * removes the directory of the job when the launcher ends.
 *
 * Works: BASE may be on a file system that hangs, so a starter performs these operations.  It makes
 * names and directories of its own, which pass to the launcher or the job when the work comes back.
 * Only /dev/shm is examined by the loop itself, as a directory that cannot hang.  A job waits for
 * the removal of its directory, unless it is killed.
 *
 * Failure: a job without a directory runs, unless it brings files or needs PMIx.
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

#define LAUNCHER_TOKEN_LEN 16 /* length of the tokens that launchlink.c makes */

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

/* Open and lock a directory.  Returns -1 if the directory does not exist, belongs to another user,
 * or is locked and `wait` is false. */
static int lock_dir(const char *path, bool wait)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_uid != getuid() ||
        flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0) {
        int errnum = errno;

        close(fd);
        errno = errnum;
        return -1;
    }
    return fd;
}

/* Return "BASE/flux-UID-MARK-TOKEN", malloc'd, or NULL with ENOMEM. */
static char *dir_name(const struct launcher *l, const char *token)
{
    char mark[HOSTMARK_SIZE], *path;

    hostmark_get(mark);
    if (asprintf(&path, "%s/flux-%u-%s-%s", base_dir(l), (unsigned)getuid(), mark, token) < 0)
        return NULL;
    return path;
}

/* Returns whether this is the name of the directory of a launcher of this user, on this host, since
 * its last boot. */
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
        if (strcmp(path, own) != 0 && (fd = lock_dir(path, false)) >= 0) {
            dir_remove_tree(path);
            close(fd);
        }
        free(path);
    }
    closedir(dir);
}

bool backing_held(const struct launcher *l, const char *token)
{
    char *path = dir_name(l, token);
    int fd = path ? lock_dir(path, false) : -1;
    bool held = fd < 0 && errno == EWOULDBLOCK;

    if (fd >= 0)
        close(fd);
    free(path);
    return held;
}

/* --- making a directory --- */

struct making {
    struct work w;
    uint32_t nfiles;
    char **files; /* names and texts of the files of the job, in turn */
    bool base;    /* the upper directory is to be made as well */
    int lock;
    char *dirname; /* NULL: the upper directory could not be made */
    char *dir;     /* NULL: the directory could not be made */
};

static void making_free(struct work *w)
{
    struct making *m = (struct making *)w;

    if (m->lock >= 0)
        close(m->lock);
    free(m->dirname);
    free(m->dir);
    free(m);
}

#define MAKE_TRIES 1000 /* each try may fail because another launcher removes stale directories */

/* Make and lock the upper directory.  Returns 1 if another work of this launcher has done so.  The
 * mutex admits one work at a time: the lock of the first work is kept, and a second work that
 * waited for this lock would wait forever. */
static int base_lock(struct making *m, struct launcher *l)
{
    int rc = -1;

    pthread_mutex_lock(&l->dirmutex);
    if (l->dirheld)
        rc = 1;
    for (int i = 0; rc < 0 && i < MAKE_TRIES; i++) {
        struct stat a, b;

        if (mkdir(m->dirname, 0700) < 0 && errno != EEXIST)
            break;
        m->lock = lock_dir(m->dirname, true);
        if (m->lock < 0)
            continue;
        if (stat(m->dirname, &a) == 0 && fstat(m->lock, &b) == 0 && a.st_ino == b.st_ino) {
            l->dirheld = true;
            rc = 0;
        } else {
            close(m->lock);
            m->lock = -1;
        }
    }
    pthread_mutex_unlock(&l->dirmutex);
    return rc;
}

static int base_make(struct making *m, struct launcher *l)
{
    int rc;

    if (!(m->dirname = dir_name(l, l->token)) || (rc = base_lock(m, l)) < 0)
        return -1;
    if (rc == 0)
        remove_stale(base_dir(l), m->dirname);
    return 0;
}

static int write_file(const char *dir, const char *name, const char *text, errmsg_t *err)
{
    char path[4096];
    int fd, rc;

    if (!name[0] || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return errmsg_fail(err, EINVAL, "'%s' is not a name for a file of a job", name);
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return errmsg_fail(err, ENAMETOOLONG, "the name of a file of the job is too long");
    /* A file whose text begins like a script is made executable. */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, text[0] == '#' ? 0700 : 0600);
    rc = fd < 0 ? -1 : fd_write_all(fd, text, strlen(text));
    if (rc < 0)
        errmsg_fail(err, errno, "cannot write the job's file '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static void make(struct work *w, pid_t *pid)
{
    struct making *m = (struct making *)w;
    struct launcher *l = w->job->l;

    if ((m->base && base_make(m, l) < 0) ||
        asprintf(&m->dir, "%s/%" PRIu64, m->dirname, w->job->id) < 0) {
        m->dir = NULL;
    } else if (mkdir(m->dir, 0700) < 0 && errno != EEXIST) {
        free(m->dir);
        m->dir = NULL;
    }
    if (m->nfiles && !m->dir)
        w->failed = errmsg_fail(&w->err, ENOSPC, "the job's directory cannot be made in %s",
                                base_dir(l)) < 0;
    for (uint32_t i = 0; i < m->nfiles && !w->failed; i++)
        w->failed = write_file(m->dir, m->files[2 * i], m->files[2 * i + 1], &w->err) < 0;
}

static void made(struct work *w)
{
    struct making *m = (struct making *)w;
    struct nodejob *j = w->job;
    struct launcher *l = j->l;

    if (m->lock >= 0) {
        l->dirlock = m->lock;
        m->lock = -1;
    }
    if (m->dirname && !l->dirname) {
        l->dirname = m->dirname;
        m->dirname = NULL;
    }
    if (j->state == JOB_NEW) {
        j->dir = m->dir;
        m->dir = NULL;
        nodejob_dir_made(j, w->failed ? w->err.text : NULL);
    } else if (m->dir) {
        (void)rmdir(m->dir); /* a directory with files is removed with the upper directory */
    }
    making_free(w);
}

int backing_make(struct nodejob *j, errmsg_t *err)
{
    struct launcher *l = j->l;
    struct making *m = calloc(1, sizeof(*m));

    if (!m || (l->dirlock >= 0 && !(m->dirname = strdup(l->dirname)))) {
        free(m);
        return errmsg_fail(err, ENOMEM, "no memory for the job's directory");
    }
    m->w = (struct work){.run = make, .done = made, .drop = making_free};
    m->lock = -1;
    m->nfiles = j->heir || j->run.parent ? 0 : j->run.nfiles; /* spawned tasks: PMI pairs */
    m->files = j->files;
    m->base = l->dirlock < 0;
    nodejob_work(j, &j->first, &m->w);
    return 0;
}

/* --- removing a directory --- */

struct removing {
    struct work w;
    struct launcher *l;
    char *path;
};

static void removing_free(struct work *w)
{
    free(((struct removing *)w)->path);
    free(w);
}

static void remove_dir(struct work *w, pid_t *pid)
{
    const char *path = ((struct removing *)w)->path;

    /* In most cases the directory is empty. */
    if (rmdir(path) < 0 && errno != ENOENT)
        dir_remove_tree(path);
}

static void removed(struct work *w)
{
    if (w->job)
        w->job->removing = false;
    else
        ((struct removing *)w)->l->removing = false;
    removing_free(w);
}

/* Create the work that removes a directory, and take over `path`.  Returns NULL with ENOMEM. */
static struct work *removing_create(struct launcher *l, char *path)
{
    struct removing *r = path ? calloc(1, sizeof(*r)) : NULL;

    if (!r) {
        free(path);
        return NULL;
    }
    r->w = (struct work){.run = remove_dir, .done = removed, .drop = removing_free};
    r->l = l;
    r->path = path;
    return &r->w;
}

bool backing_remove(struct nodejob *j)
{
    struct work *w = NULL;

    if (j->shared_dir)
        return false;
    if (j->dir && !j->removing)
        w = removing_create(j->l, j->dir);
    j->dir = NULL;
    if (w) {
        j->removing = true;
        nodejob_work(j, &j->last, w);
    }
    return j->removing;
}

void backing_sweep(struct launcher *l, const char *token)
{
    struct work *w = removing_create(l, dir_name(l, token));

    if (w)
        starter_batch_add(l, &l->chores, w);
}

bool backing_leave(struct launcher *l)
{
    struct work *w = l->dirlock >= 0 ? removing_create(l, l->dirname) : NULL;

    if (l->dirlock >= 0) {
        l->dirname = NULL;
        close(l->dirlock);
        l->dirlock = -1;
    }
    if (w) {
        l->removing = true;
        starter_batch_add(l, &l->chores, w);
    }
    return l->removing;
}

void backing_fini(struct launcher *l)
{
    if (l->dirlock >= 0)
        close(l->dirlock);
    free(l->dirname);
    l->dirname = NULL;
}
