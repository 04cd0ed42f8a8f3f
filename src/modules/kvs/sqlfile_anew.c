/* sqlfile_anew.c - check whether the file is still under its name, and write it anew if it is not.
 *
 * Purpose: clean-up programs remove files of a session that has run for days.  SQLite does not
 * notice that, and goes on with the open file, whose contents would be lost with the process.
 *
 * Invariants:
 *  1. A file that has taken the place of the open one is not touched.
 *  2. At any time the name is absent or belongs to a complete file: the copy is made beside it,
 *     synced, and then renamed.
 *
 * Failure: see sqlfile_write_anew(); the open file stays in use.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "sqlfile_private.h"

static int sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    int rc = fsync(fd);
    int saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

/* The i-node of the file with this suffix; 0: there is no such file, or it is on another device. */
static ino_t inode_at(const sqlfile_t *f, const char *suffix)
{
    char path[4096];
    struct stat st;

    if (snprintf(path, sizeof(path), "%s%s", f->path, suffix) >= (int)sizeof(path) ||
        lstat(path, &st) < 0 || (f->ino && st.st_dev != f->dev))
        return 0;
    return st.st_ino;
}

bool sqlfile_is_there(sqlfile_t *f)
{
    if (inode_at(f, "") != f->ino)
        return false;
    ino_t wal = inode_at(f, "-wal");
    /* From the first write on, SQLite keeps its log open and never replaces it. */
    if (f->wal_ino == 0)
        f->wal_ino = wal;
    return wal == f->wal_ino;
}

/* Copy all contents to a new file `to`. */
static int copy_to(sqlfile_t *f, const char *to, errmsg_t *err)
{
    sqlite3_stmt *s = NULL;
    int fd;

    (void)unlink(to);
    fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errmsg_fail(err, errno, "cannot make '%.120s': %s", to, strerror(errno));
    close(fd);
    int rc = sqlite3_prepare_v2(f->db, "VACUUM INTO ?1", -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(s, 1, to, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc != SQLITE_DONE)
        (void)sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "write anew");
    int saved = errno;
    sqlite3_finalize(s);
    errno = saved;
    if (rc != SQLITE_DONE)
        return -1;
    if (sync_file(to) < 0)
        return errmsg_fail(err, errno, "cannot write '%.120s': %s", to, strerror(errno));
    return 0;
}

/* Give the copy the name of the file.  A log under its name belongs to the file that was
 * removed. */
static int put_in_place(sqlfile_t *f, const char *from, errmsg_t *err)
{
    char wal[4096];

    snprintf(wal, sizeof(wal), "%s-wal", f->path);
    if ((unlink(wal) < 0 && errno != ENOENT) || rename(from, f->path) < 0 ||
        file_sync_dir(f->path) < 0)
        return errmsg_fail(err, errno, "cannot make '%.120s' again: %s", f->path, strerror(errno));
    return 0;
}

sqlfile_t *sqlfile_write_anew(sqlfile_t *f, bool *failed, errmsg_t *err)
{
    char fresh[4096];
    ino_t now = inode_at(f, "");
    sqlfile_t *g = NULL;

    *failed = true;
    if (now && now != f->ino) {
        errmsg_fail(err, EEXIST,
                    "another file has taken the place of '%.120s' under the session: move it away",
                    f->path);
        return f;
    }
    if (snprintf(fresh, sizeof(fresh), "%s.new", f->path) >= (int)sizeof(fresh) - 8) {
        errmsg_fail(err, ENAMETOOLONG, "the name '%.100s' is too long", f->path);
        return f;
    }
    if (copy_to(f, fresh, err) < 0 || put_in_place(f, fresh, err) < 0) {
        int saved = errno;
        (void)unlink(fresh);
        errno = saved;
        return f;
    }
    if (!(g = sqlfile_open(f->path, f->hash, 0, err)))
        return f;
    *failed = false;
    /* Otherwise the close would remove the log, which is that of the new file. */
    sqlite3_db_config(f->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlfile_close(f);
    return g;
}
