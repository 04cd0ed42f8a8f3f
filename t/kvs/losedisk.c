/* losedisk.c - to be preloaded: a disk that loses what was not synced when the power fails.
 *
 * What a process writes to files of the store is there at once for itself.  In the directory that
 * LOSEDISK names, files of the same names contain what would be on the disk after a loss of power:
 *
 *    fsync(), fdatasync()    all writes to the file before it, and the removal of files
 *    a write                 now and then at once, as a whole or its first sectors: a disk writes
 *                            in the order it likes
 *
 * LOSEDISK_SEED determines which writes these are.  With LOSEDISK_LIES set, the disk says that it
 * has synced, and nothing reaches it.
 *
 * To lose the power, kill the process with SIGKILL and copy the files back.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECTOR 512
#define SOON 4 /* one in this number of writes reaches the disk at once */

/* A write that is not synced; size: -1: of data, else the file was cut to this size. */
struct later {
    struct later *next;
    off64_t at, size;
    size_t n;
    char data[];
};

struct file {
    struct file *next;
    char name[256];
    bool removed; /* ... which has not been synced */
    struct later *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;
static uint64_t chance;

/* The name of this file of the store in its directory. */
static bool name_of(int fd, char *name, size_t size)
{
    char link[64], path[4096];
    ssize_t n;
    const char *base;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    base = strrchr(path, '/');
    if (!getenv("LOSEDISK") || !base || !strstr(base, "content.sqlite") || strstr(base, "-shm"))
        return false;
    snprintf(name, size, "%s", base + 1);
    return true;
}

static struct file *file_of(const char *name)
{
    struct file *f = files;

    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    if (!f && (f = calloc(1, sizeof(*f)))) {
        snprintf(f->name, sizeof(f->name), "%s", name);
        f->last = &f->first;
        f->next = files;
        files = f;
    }
    return f;
}

static void forget(struct file *f)
{
    struct later *l;

    while ((l = f->first)) {
        f->first = l->next;
        free(l);
    }
    f->last = &f->first;
}

static void path_below(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", getenv("LOSEDISK"), name);
}

/* The removal of files reaches the disk. */
static void remove_below(void)
{
    char path[4600];

    for (struct file *f = files; f; f = f->next) {
        if (f->removed) {
            path_below(f->name, path, sizeof(path));
            (void)syscall(SYS_unlink, path);
        }
        f->removed = false;
    }
}

static uint32_t draw(uint32_t below)
{
    const char *seed = getenv("LOSEDISK_SEED");

    if (chance == 0)
        chance = strtoull(seed ? seed : "1", NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (uint32_t)(chance >> 33) % below;
}

/* Open it on the disk. */
static int open_below(const char *name)
{
    char path[4600];

    path_below(name, path, sizeof(path));
    return open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

static void reach(int fd, const struct later *l, size_t n)
{
    long rc = l->size >= 0 ? syscall(SYS_ftruncate, fd, l->size)
                           : syscall(SYS_pwrite64, fd, l->data, n, l->at);

    if (rc < 0)
        abort(); /* the test would prove nothing */
}

static void note(int fd, const void *buf, size_t n, off64_t at, off64_t size)
{
    char name[256];
    struct later *l;
    struct file *f;
    int below;

    if (!name_of(fd, name, sizeof(name)))
        return;
    pthread_mutex_lock(&lock);
    if (!(f = file_of(name)) || !(l = malloc(sizeof(*l) + n)))
        abort();
    *l = (struct later){.at = at, .size = size, .n = n};
    if (n > 0)
        memcpy(l->data, buf, n);
    if (f->removed) /* there is another file of that name */
        remove_below();
    *f->last = l;
    f->last = &l->next;
    if (size < 0 && !getenv("LOSEDISK_LIES") && draw(SOON) == 0 &&
        (below = open_below(name)) >= 0) {
        bool torn = n > SECTOR && draw(2) == 0;

        reach(below, l, torn ? SECTOR * (1 + draw((uint32_t)(n / SECTOR))) : n);
        close(below);
    }
    pthread_mutex_unlock(&lock);
}

static void synced(int fd)
{
    char name[256];
    struct later *l;
    struct file *f;
    int below;

    if (!getenv("LOSEDISK") || getenv("LOSEDISK_LIES"))
        return;
    pthread_mutex_lock(&lock);
    remove_below();
    if (name_of(fd, name, sizeof(name))) {
        if (!(f = file_of(name)) || (below = open_below(name)) < 0)
            abort();
        for (l = f->first; l; l = l->next)
            reach(below, l, l->n);
        forget(f);
        close(below);
    }
    pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    synced(fd);
    return 0;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    synced(fd);
    return 0;
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *buf, size_t n,
                                                        off64_t at)
{
    ssize_t rc = syscall(SYS_pwrite64, fd, buf, n, at);

    if (rc > 0)
        note(fd, buf, (size_t)rc, at, -1);
    return rc;
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return pwrite64(fd, buf, n, at);
}

__attribute__((visibility("default"))) int ftruncate64(int fd, off64_t size)
{
    int rc = (int)syscall(SYS_ftruncate, fd, size);

    if (rc == 0)
        note(fd, NULL, 0, 0, size);
    return rc;
}

__attribute__((visibility("default"))) int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

__attribute__((visibility("default"))) int unlink(const char *path)
{
    const char *base = strrchr(path, '/');
    int rc = (int)syscall(SYS_unlink, path);
    struct file *f;

    if (rc < 0 || !base || !strstr(base, "content.sqlite"))
        return rc;
    pthread_mutex_lock(&lock);
    if ((f = file_of(base + 1))) {
        forget(f);
        f->removed = true;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}
