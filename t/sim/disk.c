/* disk.c - the disk of a simulated host: what was not synced is lost with the power.
 *
 * A VFS of SQLite that passes everything on to the system's and writes it down.  For each file of
 * the directory there is an image: what the disk surely has; and there is one log of all that has
 * been done to files since, in its order:
 *
 *    in the log          after a sync of the same file      without one, when the power fails
 *    a write             it is in the image                 it is there, or not, or some of its
 *                                                           sectors from the first on are
 *    a change of size    the same                           it was made, or not
 *    a removal           the same, also with a sync of the  the same
 *                        directory
 *
 * The power fails at a place of the log that the seed chooses, but not before that at which
 * somebody was told of what had been done.  What follows it was never written.
 *
 * Invariants:
 *  1. What precedes the last sync of its file, and disk_told(), is in the image and not in the log.
 *  2. While the power is off nothing is written down.
 *
 * Failure: the process ends when memory is out.
 */
#include "config.h"
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/fdutil.h"

#define NAME "flux-sim-disk"
#define SECTOR 512
#define FILES_MAX 8

enum op_kind { OP_WRITE, OP_SIZE, OP_REMOVE, OP_SYNC, OP_SYNC_DIR };

struct op {
    enum op_kind kind;
    unsigned file;
    int64_t at; /* OP_WRITE: where; OP_SIZE: the size */
    size_t len;
    uint8_t *data;
};

struct image {
    char name[64];
    bool there;
    uint8_t *data;
    size_t len;
};

struct disk {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    char dir[200];
    struct rng *rng;
    void *user;
    bool lies, off;
    struct image files[FILES_MAX];
    unsigned nfiles;
    struct op *log;
    size_t nlog, cap;
    size_t told; /* operations that cannot be undone */
    struct disk_stats st;
};

struct handle {
    sqlite3_file base;
    disk_t *disk;
    int file; /* < 0: of another directory */
    sqlite3_file *real;
};

static void *must(void *p)
{
    if (!p) {
        fputs("sim: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

/* --- the log --- */

/* The number of a file, which may be new; -1: it is not in the directory. */
static int file_of(disk_t *d, const char *path)
{
    size_t n = strlen(d->dir);
    const char *name;

    if (!path || strncmp(path, d->dir, n) != 0 || path[n] != '/')
        return -1;
    name = path + n + 1;
    for (unsigned i = 0; i < d->nfiles; i++) {
        if (strcmp(d->files[i].name, name) == 0)
            return (int)i;
    }
    if (d->nfiles == FILES_MAX)
        return -1;
    snprintf(d->files[d->nfiles].name, sizeof(d->files[0].name), "%s", name);
    return (int)d->nfiles++;
}

static void note(disk_t *d, enum op_kind kind, int file, int64_t at, const void *data, size_t len)
{
    struct op *op;

    if (file < 0 || d->off || (d->lies && (kind == OP_SYNC || kind == OP_SYNC_DIR)))
        return;
    if (d->nlog == d->cap) {
        d->cap = d->cap ? 2 * d->cap : 64;
        d->log = must(realloc(d->log, d->cap * sizeof(*d->log)));
    }
    op = &d->log[d->nlog++];
    *op = (struct op){kind, (unsigned)file, at, len, NULL};
    if (len > 0)
        op->data = memcpy(must(malloc(len)), data, len);
    d->st.writes += kind == OP_WRITE;
    d->st.syncs += kind == OP_SYNC;
}

static void resize(struct image *f, size_t len)
{
    f->data = must(realloc(f->data, len + 1));
    if (len > f->len)
        memset(f->data + f->len, 0, len - f->len);
    f->len = len;
    f->there = true;
}

/* Of a write, the first `len` bytes. */
static void apply(disk_t *d, const struct op *op, size_t len)
{
    struct image *f = &d->files[op->file];

    if (op->kind == OP_REMOVE) {
        f->there = false;
        f->len = 0;
    } else if (op->kind == OP_SYNC) {
        f->there = true;
    } else if (op->kind == OP_SIZE) {
        resize(f, (size_t)op->at);
    } else if (op->kind == OP_WRITE) {
        if (f->len < (size_t)op->at + len)
            resize(f, (size_t)op->at + len);
        memcpy(f->data + op->at, op->data, len);
    }
}

/* Bring what was synced among the first `n` operations into the images; the others stay. */
static void settle(disk_t *d, size_t n)
{
    size_t synced[FILES_MAX] = {0}, removed[FILES_MAX] = {0}, left = 0;

    for (size_t i = 0; i < n; i++) {
        const struct op *op = &d->log[i];

        if (op->kind == OP_REMOVE)
            removed[op->file] = i + 1;
        for (unsigned f = 0; f < d->nfiles && op->kind == OP_SYNC_DIR; f++)
            synced[f] = removed[f] > synced[f] ? removed[f] : synced[f];
        if (op->kind == OP_SYNC)
            synced[op->file] = i + 1;
    }
    for (size_t i = 0; i < d->nlog; i++) {
        bool dir = d->log[i].kind == OP_SYNC_DIR;

        if (i >= n || (!dir && i >= synced[d->log[i].file])) {
            d->log[left++] = d->log[i];
            continue;
        }
        apply(d, &d->log[i], d->log[i].len);
        free(d->log[i].data);
    }
    d->told = n - (d->nlog - left);
    d->nlog = left;
}

void disk_sync_dir(disk_t *d)
{
    note(d, OP_SYNC_DIR, 0, 0, NULL, 0);
}

void disk_told(disk_t *d)
{
    settle(d, d->nlog);
}

/* The disk has done this or not; now and then the power has failed meanwhile.  What was done to a
 * new file is lost if the file of that name before it is still there. */
static void perhaps(disk_t *d, const struct op *op, double chance, bool stays[FILES_MAX])
{
    if (stays[op->file] || !rng_chance(d->rng, chance)) {
        stays[op->file] |= op->kind == OP_REMOVE;
        d->st.lost += op->kind == OP_WRITE;
    } else if (op->kind == OP_WRITE && op->len > SECTOR && rng_chance(d->rng, 0.3)) {
        apply(d, op, SECTOR * rng_below(d->rng, (uint32_t)(op->len / SECTOR)));
        d->st.torn++;
    } else {
        apply(d, op, op->len);
    }
}

void disk_power_off(disk_t *d)
{
    static const double chances[] = {0., 0.3, 0.7, 1.};
    double chance = chances[rng_below(d->rng, 4)];
    bool stays[FILES_MAX] = {false};
    size_t n = d->told + rng_below(d->rng, (uint32_t)(d->nlog - d->told) + 1);

    if (d->off)
        return;
    d->off = true;
    for (size_t i = n; i < d->nlog; i++)
        free(d->log[i].data);
    d->nlog = n;
    settle(d, n);
    for (size_t i = 0; i < d->nlog; i++) {
        perhaps(d, &d->log[i], chance, stays);
        free(d->log[i].data);
    }
    d->nlog = d->told = 0;
}

int disk_power_on(disk_t *d)
{
    int rc = 0;

    for (unsigned i = 0; i < d->nfiles && rc == 0; i++) {
        struct image *f = &d->files[i];
        char path[300];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", d->dir, f->name);
        if (!f->there) {
            (void)unlink(path);
            continue;
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || fd_write_all(fd, f->data, f->len) < 0)
            rc = -1;
        if (fd >= 0)
            close(fd);
    }
    d->off = false;
    return rc;
}

const struct disk_stats *disk_stats(const disk_t *d)
{
    return &d->st;
}

/* --- what SQLite calls --- */

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((struct handle *)f)->real;
}

static int x_close(sqlite3_file *f)
{
    sqlite3_file *real = real_of(f);

    return real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int x_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 at)
{
    return real_of(f)->pMethods->xRead(real_of(f), buf, n, at);
}

static int x_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 at)
{
    struct handle *h = (struct handle *)f;

    note(h->disk, OP_WRITE, h->file, at, buf, (size_t)n);
    return real_of(f)->pMethods->xWrite(real_of(f), buf, n, at);
}

static int x_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct handle *h = (struct handle *)f;

    note(h->disk, OP_SIZE, h->file, size, NULL, 0);
    return real_of(f)->pMethods->xTruncate(real_of(f), size);
}

/* The system's disk need not do it. */
static int x_sync(sqlite3_file *f, int flags)
{
    struct handle *h = (struct handle *)f;

    note(h->disk, OP_SYNC, h->file, 0, NULL, 0);
    return SQLITE_OK;
}

static int x_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), size);
}

static int x_lock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int x_unlock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int x_reserved(sqlite3_file *f, int *out)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int x_control(sqlite3_file *f, int op, void *arg)
{
    return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int x_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int x_traits(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

/* Version 1: no shared memory, which the store does without. */
static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = x_close,
    .xRead = x_read,
    .xWrite = x_write,
    .xTruncate = x_truncate,
    .xSync = x_sync,
    .xFileSize = x_size,
    .xLock = x_lock,
    .xUnlock = x_unlock,
    .xCheckReservedLock = x_reserved,
    .xFileControl = x_control,
    .xSectorSize = x_sector,
    .xDeviceCharacteristics = x_traits,
};

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct handle *h = (struct handle *)f;
    int rc;

    h->disk = v->pAppData;
    h->real = (sqlite3_file *)(h + 1);
    h->file = file_of(h->disk, name);
    rc = h->disk->real->xOpen(h->disk->real, name, h->real, flags, out);
    h->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
    return rc;
}

static int v_delete(sqlite3_vfs *v, const char *name, int sync)
{
    disk_t *d = v->pAppData;
    int file = file_of(d, name);

    note(d, OP_REMOVE, file, 0, NULL, 0);
    return d->real->xDelete(d->real, name, 0);
}

static int v_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
    disk_t *d = v->pAppData;

    return d->real->xAccess(d->real, name, flags, out);
}

static int v_full(sqlite3_vfs *v, const char *name, int n, char *out)
{
    disk_t *d = v->pAppData;

    return d->real->xFullPathname(d->real, name, n, out);
}

/* --- life --- */

static bool plug_in(disk_t *d)
{
    if (!(d->real = sqlite3_vfs_find(NULL)))
        return false;
    d->vfs = *d->real;
    d->vfs.pNext = NULL;
    d->vfs.zName = NAME;
    d->vfs.szOsFile = (int)sizeof(struct handle) + d->real->szOsFile;
    d->vfs.pAppData = d;
    d->vfs.xOpen = v_open;
    d->vfs.xDelete = v_delete;
    d->vfs.xAccess = v_access;
    d->vfs.xFullPathname = v_full;
    return sqlite3_vfs_register(&d->vfs, 1) == SQLITE_OK;
}

disk_t *disk_create(struct rng *rng, errmsg_t *err)
{
    const char *tmp = getenv("TMPDIR");
    disk_t *d = must(calloc(1, sizeof(*d)));

    d->rng = rng;
    if (snprintf(d->dir, sizeof(d->dir), "%s/sim-disk-XXXXXX", tmp ? tmp : "/tmp") >=
            (int)sizeof(d->dir) ||
        !mkdtemp(d->dir)) {
        errmsg_set(err, "cannot make a directory in '%.100s': %s", tmp ? tmp : "/tmp",
                   strerror(errno));
        free(d);
        return NULL;
    }
    if (plug_in(d))
        return d;
    errmsg_set(err, "SQLite takes no disk");
    disk_destroy(d);
    return NULL;
}

void disk_destroy(disk_t *d)
{
    char path[300];

    if (!d)
        return;
    sqlite3_vfs_unregister(&d->vfs);
    for (unsigned i = 0; i < d->nfiles; i++) {
        snprintf(path, sizeof(path), "%s/%s", d->dir, d->files[i].name);
        (void)unlink(path);
        free(d->files[i].data);
    }
    (void)rmdir(d->dir);
    for (size_t i = 0; i < d->nlog; i++)
        free(d->log[i].data);
    free(d->log);
    free(d);
}

disk_t *disk_find(void)
{
    sqlite3_vfs *v = sqlite3_vfs_find(NAME);

    return v ? v->pAppData : NULL;
}

const char *disk_dir(const disk_t *d)
{
    return d->dir;
}

void disk_set_user(disk_t *d, void *user)
{
    d->user = user;
}

void *disk_user(const disk_t *d)
{
    return d->user;
}

void disk_set_lies(disk_t *d, bool lies)
{
    d->lies = lies;
}
