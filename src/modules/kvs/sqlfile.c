/* sqlfile.c - the file: its schema, its statements, its transactions, and the errors of SQLite.
 *
 * Format (described in doc/kvs-storage.rst):
 *
 *    meta       name, value                       'hash'; the format is PRAGMA user_version
 *    namespace  id, name, owner, removed,         version and root: the checkpoint; NULL: an empty
 *               version, root                     directory
 *    node       ns, digest, data                  leaves, branches and indexes
 *    blob       ns, digest, size, data            bytes of values
 *    journal    key = ns << 40 | version,         transactions that made root, since the checkpoint
 *               root, txns
 *
 * Nodes and blobs have separate tables, so that a restart reads all nodes in one sweep and skips
 * the blobs.  The key of the journal is one integer, so that a new row goes to the end of the rows
 * of its namespace, and a commit writes few pages.
 *
 * Invariants:
 *  1. There is one connection, which has an exclusive lock on the file as long as it is open.  The
 *     index of the write-ahead log is in memory, and no file is mapped: a full disk is an error,
 *     never a signal.
 *  2. All children of an object in the file are in the file, or precede it in the queue (the caller
 *     ensures that).
 *  3. Rows up to the checkpoint of a namespace, and all rows of a removed namespace, are obsolete.
 *     sqlfile_tidy() deletes them in bounded steps.
 *  4. The log is written back when it has WAL_FRAMES pages.
 *
 * Failure: after a failed write the whole transaction is rolled back, to the last commit.  A commit
 * whose fdatasync failed may be complete in the log, and a process that reads the log after a crash
 * would accept it.  A small durable commit is therefore written in its place.  If that commit fails
 * too, the outcome is unknown until the next durable commit, which takes the same place.
 */
#include "config.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "sqlfile_private.h"

#define APPLICATION_ID 0x464c4b56 /* FLKV */
#define FORMAT 1
#define WAL_FRAMES 1024
#define WAL_KEEP (4 * 1024 * 1024 + 256 * 1024) /* a longer log is truncated when idle */
#define BUSY_MS 3000 /* a session that was killed may hold the lock for so long */
#define SHRINK_PAGES "256"

static const char schema[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE namespace(id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner INTEGER NOT NULL,"
    "  removed INTEGER NOT NULL, version INTEGER NOT NULL, root BLOB);"
    "CREATE UNIQUE INDEX namespace_name ON namespace(name) WHERE removed = 0;"
    "CREATE TABLE node(ns INTEGER NOT NULL, digest BLOB NOT NULL, data BLOB NOT NULL,"
    "  UNIQUE(ns, digest));"
    "CREATE TABLE blob(ns INTEGER NOT NULL, digest BLOB NOT NULL, size INTEGER NOT NULL,"
    "  data BLOB NOT NULL);"
    "CREATE UNIQUE INDEX blob_key ON blob(ns, digest, size);"
    "CREATE TABLE journal(key INTEGER PRIMARY KEY, root BLOB NOT NULL, txns BLOB NOT NULL);";

static const char *const sql[Q_COUNT] = {
    [Q_BEGIN] = "BEGIN IMMEDIATE",
    [Q_COMMIT] = "COMMIT",
    [Q_ROLLBACK] = "ROLLBACK",
    [Q_NS_ALL] =
        "SELECT id, name, owner, version, root FROM namespace WHERE removed = 0 ORDER BY id",
    [Q_NS_LAST] = "SELECT max(id) FROM namespace",
    [Q_NS_CREATE] = "INSERT INTO namespace(id, name, owner, removed, version, root)"
                    " VALUES(?1, ?2, ?3, 0, ?4, ?5)",
    [Q_NS_REMOVE] = "UPDATE namespace SET removed = 1 WHERE id = ?1 AND removed = 0",
    [Q_NS_DROP] = "DELETE FROM namespace WHERE id = ?1",
    [Q_NODE_PUT] = "INSERT OR IGNORE INTO node(ns, digest, data) VALUES(?1, ?2, ?3)",
    [Q_BLOB_PUT] =
        "INSERT OR IGNORE INTO blob(ns, digest, size, data) VALUES(?1, ?2, length(?3), ?3)",
    [Q_NODE_DEL] = "DELETE FROM node WHERE ns = ?1 AND digest = ?2",
    [Q_BLOB_DEL] = "DELETE FROM blob WHERE ns = ?1 AND digest = ?2",
    [Q_NODE_GET] = "SELECT data FROM node WHERE ns = ?1 AND digest = ?2",
    [Q_BLOB_GET] = "SELECT data FROM blob WHERE ns = ?1 AND digest = ?2",
    /* The unary + keeps SQLite from using the index, and then sorting. */
    [Q_NODE_SCAN] = "SELECT rowid, digest, data FROM node WHERE +ns = ?1 AND rowid > ?2"
                    " ORDER BY rowid",
    [Q_BLOB_SCAN] = "SELECT rowid, digest, data, size FROM blob WHERE +ns = ?1 AND rowid > ?2"
                    " ORDER BY rowid",
    [Q_BLOB_LIST] = "SELECT digest, size, CASE WHEN size < ?3 THEN data END FROM blob"
                    " WHERE ns = ?1 AND digest > ?2 ORDER BY digest",
    [Q_ROW_PUT] = "INSERT INTO journal(key, root, txns) VALUES(?1, ?2, ?3)",
    [Q_ROW_SCAN] = "SELECT key, root, txns FROM journal WHERE key > ?1 AND key < ?2 ORDER BY key",
    [Q_CHECKPOINT] = "UPDATE namespace SET version = ?2, root = ?3 WHERE id = ?1 AND removed = 0",
    [Q_TIDY_FIND] =
        "SELECT n.id << 40, (n.id << 40) + iif(n.removed, (1 << 40) - 1, n.version)"
        " FROM namespace n WHERE EXISTS (SELECT 1 FROM journal WHERE key BETWEEN n.id << 40"
        "   AND (n.id << 40) + iif(n.removed, (1 << 40) - 1, n.version)) LIMIT 1",
    [Q_TIDY_LOOK] =
        "SELECT key, length(txns) FROM journal WHERE key BETWEEN ?1 AND ?2 ORDER BY key",
    [Q_TIDY_ROWS] = "DELETE FROM journal WHERE key BETWEEN ?1 AND ?2",
    [Q_TIDY_REMOVED] = "SELECT id FROM namespace WHERE removed = 1 LIMIT 1",
    [Q_TIDY_NODES] = "DELETE FROM node WHERE rowid IN"
                     " (SELECT rowid FROM node WHERE ns = ?1 LIMIT 256)",
    [Q_TIDY_BLOBS] = "DELETE FROM blob WHERE rowid IN"
                     " (SELECT rowid FROM blob WHERE ns = ?1 LIMIT 64)",
    [Q_FREE] = "PRAGMA freelist_count",
    [Q_PAGES] = "PRAGMA page_count",
};

/* --- errors --- */

static int no_room(const sqlfile_t *f, errmsg_t *err, const char *what)
{
    return errmsg_fail(err, ENOSPC, "no room on the disk to %s '%.120s': make room and try again",
                       what, f->path);
}

/* The errno of the last read or write of the file or its log.  SQLite does not store it when the
 * read or write was part of a commit. */
static int last_errno(sqlfile_t *f)
{
    sqlite3_file *wal = NULL;
    int sys = sqlite3_system_errno(f->db);

    if (!sys)
        sqlite3_file_control(f->db, "main", SQLITE_FCNTL_LAST_ERRNO, &sys);
    if (!sys && sqlite3_file_control(f->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) == 0 &&
        wal && wal->pMethods)
        wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &sys);
    return sys;
}

int sqlfile_fail(sqlfile_t *f, int rc, errmsg_t *err, const char *what)
{
    int sys = f->db && (rc & 0xff) == SQLITE_IOERR ? last_errno(f) : 0;

    if (f->db && (rc & 0xff) == SQLITE_CANTOPEN)
        sys = sqlite3_system_errno(f->db);
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return no_room(f, err, what);
    case SQLITE_NOMEM:
        return errmsg_fail(err, ENOMEM, "out of memory to %s '%.120s'", what, f->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return errmsg_fail(err, EBUSY, "'%.120s' is in use by another session, or being checked",
                           f->path);
    case SQLITE_NOTADB:
        return errmsg_fail(err, EINVAL,
                           "'%.120s' is not a store of Flux, or its beginning is damaged", f->path);
    case SQLITE_CORRUPT:
        return errmsg_fail(err, EIO, "'%.120s' is damaged: 'flux kvs fsck' tells how badly",
                           f->path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return errmsg_fail(err, EACCES, "'%.120s' may not be written to", f->path);
    case SQLITE_CANTOPEN:
        return errmsg_fail(err, sys ? sys : EIO, "cannot open '%.120s': %s", f->path,
                           strerror(sys ? sys : EIO));
    case SQLITE_IOERR:
        if (sys == ENOSPC || sys == EDQUOT || sys == EFBIG)
            return no_room(f, err, what);
        if (rc == SQLITE_IOERR_NOMEM)
            return errmsg_fail(err, ENOMEM, "out of memory to %s '%.120s'", what, f->path);
        return errmsg_fail(err, EIO, "the disk fails to %s '%.120s': %s", what, f->path,
                           strerror(sys ? sys : EIO));
    default:
        return errmsg_fail(err, EIO, "cannot %s '%.120s': %s", what, f->path, sqlite3_errstr(rc));
    }
}

int sqlfile_damaged(const sqlfile_t *f, errmsg_t *err, const char *what)
{
    return errmsg_fail(err, EIO, "'%.100s' is damaged (%s): 'flux kvs fsck' tells how badly",
                       f->path, what);
}

/* --- statements --- */

sqlite3_stmt *sqlfile_query(sqlfile_t *f, int q, errmsg_t *err)
{
    if (!f->q[q]) {
        int rc = sqlite3_prepare_v3(f->db, sql[q], -1, SQLITE_PREPARE_PERSISTENT, &f->q[q], NULL);
        if (rc != SQLITE_OK) {
            (void)sqlfile_fail(f, rc, err, "use");
            return NULL;
        }
    }
    return f->q[q];
}

/* Run a statement without rows, or whose rows are ignored. */
int sqlfile_run(sqlfile_t *f, sqlite3_stmt *s, errmsg_t *err)
{
    int rc;

    do {
        rc = sqlite3_step(s);
    } while (rc == SQLITE_ROW);
    if (rc != SQLITE_DONE)
        (void)sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "write");
    int saved = errno;
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    errno = saved;
    return rc == SQLITE_DONE ? 0 : -1;
}

static int run_query(sqlfile_t *f, int q, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, q, err);

    return s ? sqlfile_run(f, s, err) : -1;
}

static int exec(sqlfile_t *f, const char *text, errmsg_t *err)
{
    if (sqlite3_exec(f->db, text, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "use");
}

static int read_int(sqlfile_t *f, const char *text, sqlite3_int64 *value, errmsg_t *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(f->db, text, -1, &s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        *value = sqlite3_column_int64(s, 0);
    else
        (void)sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "read");
    int saved = errno;
    sqlite3_finalize(s);
    errno = saved;
    return rc == SQLITE_ROW ? 0 : -1;
}

int sqlfile_bind(sqlfile_t *f, sqlite3_stmt *s, uint32_t ns, const uint8_t *digest, errmsg_t *err)
{
    int rc = sqlite3_bind_int64(s, 1, ns);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(s, 2, digest, (int)f->dsize, SQLITE_STATIC);
    return rc == SQLITE_OK ? 0 : sqlfile_fail(f, rc, err, "write");
}

int sqlfile_first(sqlfile_t *f, int q, sqlite3_int64 *a, sqlite3_int64 *b, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, q, err);

    if (!s)
        return -1;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *a = sqlite3_column_int64(s, 0);
        if (b)
            *b = sqlite3_column_int64(s, 1);
    } else if (rc != SQLITE_DONE) {
        (void)sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "read");
    }
    int saved = errno;
    sqlite3_reset(s);
    errno = saved;
    return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -1;
}

/* --- open --- */

static int wal_cb(void *arg, sqlite3 *db, const char *name, int frames)
{
    sqlfile_t *f = arg;

    f->frames = frames;
    return SQLITE_OK;
}

static int make(sqlfile_t *f, const char *hash, errmsg_t *err)
{
    char text[160];

    assert(hash);
    if (exec(f, "BEGIN IMMEDIATE", err) < 0 || exec(f, schema, err) < 0)
        return -1;
    /* blobref_create() has accepted the name of the algorithm, so it needs no quoting. */
    snprintf(text, sizeof(text),
             "INSERT INTO meta VALUES('hash', '%s');"
             "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
             hash, APPLICATION_ID, FORMAT);
    return exec(f, text, err);
}

static int read_hash(sqlfile_t *f, errmsg_t *err)
{
    sqlite3_stmt *s = NULL;
    const char *value = NULL;
    int rc = sqlite3_prepare_v2(f->db, "SELECT value FROM meta WHERE name = 'hash'", -1, &s, NULL);

    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW)
        value = (const char *)sqlite3_column_text(s, 0);
    if (value)
        snprintf(f->hash, sizeof(f->hash), "%s", value);
    else if (rc == SQLITE_DONE || rc == SQLITE_ROW || rc == SQLITE_ERROR)
        (void)sqlfile_damaged(f, err, "it does not name its hash algorithm");
    else
        (void)sqlfile_fail(f, rc, err, "read");
    int saved = errno;
    sqlite3_finalize(s);
    errno = saved;
    return value ? 0 : -1;
}

static int identify(sqlfile_t *f, const char *hash, unsigned flags, errmsg_t *err)
{
    sqlite3_int64 id, format, tables;
    blobref_t *b;

    if (read_int(f, "PRAGMA application_id", &id, err) < 0 ||
        read_int(f, "PRAGMA user_version", &format, err) < 0 ||
        read_int(f, "PRAGMA schema_version", &tables, err) < 0)
        return -1;
    if (id == 0 && tables == 0) {
        if (!(flags & SQLFILE_MAKE))
            return errmsg_fail(err, ENODATA, "'%.120s' is empty: there is no store in it", f->path);
        if (make(f, hash, err) < 0)
            return -1;
    } else if (id != APPLICATION_ID) {
        return errmsg_fail(err, EINVAL, "'%.120s' is a database, but not a store of Flux", f->path);
    } else if (format != FORMAT) {
        return errmsg_fail(err, EINVAL,
                           "'%.120s' has format %lld; this version of Flux reads format %d",
                           f->path, (long long)format, FORMAT);
    }
    if (read_hash(f, err) < 0)
        return -1;
    if (hash && strcmp(hash, f->hash) != 0)
        return errmsg_fail(err, EINVAL,
                           "the store in '%.100s' was made with hash %s, not %s: start with "
                           "--set=content.hash=%s",
                           f->path, f->hash, hash, f->hash);
    if (!(b = blobref_create(f->hash, NULL)))
        return sqlfile_damaged(f, err, "its hash is not known");
    f->dsize = blobref_size(b);
    blobref_destroy(b);
    return 0;
}

static int set_up(sqlfile_t *f, const char *hash, unsigned flags, errmsg_t *err)
{
    static const char always[] = "PRAGMA locking_mode=EXCLUSIVE; PRAGMA mmap_size=0;"
                                 "PRAGMA cell_size_check=1; PRAGMA trusted_schema=0;";
    static const char making[] = "PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL;"
                                 "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL";

    sqlite3_extended_result_codes(f->db, 1);
    sqlite3_busy_timeout(f->db, BUSY_MS);
    sqlite3_db_config(f->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (flags & SQLFILE_LOOK)
        sqlite3_db_config(f->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (exec(f, always, err) < 0 || (!(flags & SQLFILE_LOOK) && exec(f, making, err) < 0))
        return -1;
    /* Replaces the automatic checkpoints of SQLite: sqlfile_bound_wal() writes the log back. */
    sqlite3_wal_hook(f->db, wal_cb, f);
    f->full = true;
    f->untidy = true;
    char text[64];
    snprintf(text, sizeof(text), "PRAGMA journal_size_limit=%d", WAL_KEEP);
    if (!(flags & SQLFILE_LOOK) && exec(f, text, err) < 0)
        return -1;
    return identify(f, hash, flags, err);
}

sqlfile_t *sqlfile_open(const char *path, const char *hash, unsigned flags, errmsg_t *err)
{
    sqlfile_t *f = calloc(1, sizeof(*f));
    struct stat st;
    int fd;

    if (!f || !(f->path = strdup(path))) {
        free(f);
        errmsg_fail(err, ENOMEM, "out of memory to open '%.120s'", path);
        return NULL;
    }
    if (flags & SQLFILE_MAKE) {
        /* Create the file so that no other user can read it.  An existing file is not opened here:
         * closing it would release the locks that this process may have on it. */
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST) {
            errmsg_fail(err, errno, "cannot open '%.120s': %s", path, strerror(errno));
            goto fail;
        }
        if (fd >= 0)
            close(fd);
    } else if (stat(path, &st) < 0) {
        errmsg_fail(err, errno, "cannot open '%.120s': %s", path, strerror(errno));
        goto fail;
    } else if (!S_ISREG(st.st_mode)) {
        errmsg_fail(err, EINVAL, "'%.120s' is not a file", path);
        goto fail;
    }
    int rc = sqlite3_open_v2(
        path, &f->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
    if (rc == SQLITE_OK && sqlite3_db_readonly(f->db, "main") == 1) {
        errmsg_fail(err, EROFS,
                    "'%.120s' can only be read: mount its file system for writing, or choose "
                    "another directory",
                    path);
    } else if (rc == SQLITE_OK) {
        if (set_up(f, hash, flags, err) == 0 && stat(path, &st) == 0) {
            f->dev = st.st_dev;
            f->ino = st.st_ino;
            /* So that the name of the file survives a loss of power. */
            if (!(flags & SQLFILE_MAKE) || file_sync_dir(path) == 0)
                return f;
            errmsg_fail(err, errno, "cannot make '%.120s' durable: %s", path, strerror(errno));
        }
    } else {
        (void)sqlfile_fail(f, rc, err, "open");
    }
fail:
    sqlfile_close(f);
    return NULL;
}

void sqlfile_close(sqlfile_t *f)
{
    if (!f)
        return;
    int saved = errno;
    for (int i = 0; i < Q_COUNT; i++)
        sqlite3_finalize(f->q[i]);
    sqlite3_close(f->db);
    free(f->scratch);
    free(f->path);
    free(f);
    errno = saved;
}

const char *sqlfile_hash(const sqlfile_t *f)
{
    return f->hash;
}

size_t sqlfile_dsize(const sqlfile_t *f)
{
    return f->dsize;
}

int sqlfile_check(sqlfile_t *f, errmsg_t *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(f->db, "PRAGMA integrity_check(1)", -1, &s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    int result = text && strcmp(text, "ok") == 0 ? 0 : -1;
    if (text && result < 0) {
        size_t n = strcspn(text, "\n");
        if (strncmp(text, "***", 3) == 0 && text[n])
            text += n + 1;
        errmsg_fail(err, EIO, "'%.100s' is damaged: %.*s", f->path, (int)strcspn(text, "\n"), text);
    } else if (result < 0) {
        (void)sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "read");
    }
    int saved = errno;
    sqlite3_finalize(s);
    errno = saved;
    return result;
}

/* --- transactions --- */

int sqlfile_begin(sqlfile_t *f, bool durable, errmsg_t *err)
{
    if (durable != f->full) {
        if (exec(f, durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err) < 0)
            return -1;
        f->full = durable;
    }
    return run_query(f, Q_BEGIN, err);
}

void sqlfile_rollback(sqlfile_t *f)
{
    int saved = errno;
    /* An error may have rolled back already. */
    if (!sqlite3_get_autocommit(f->db))
        (void)run_query(f, Q_ROLLBACK, NULL);
    errno = saved;
}

/* Overwrite the beginning of the transaction that was rolled back: SQLite writes the next
 * transaction to the same place of the log, and a frame of the log is valid only together with all
 * frames before it.  The PRAGMA writes the header of the file even if it does not change. */
static int void_log(sqlfile_t *f)
{
    char text[80];

    snprintf(text, sizeof(text), "BEGIN IMMEDIATE; PRAGMA user_version=%d; COMMIT", FORMAT);
    if (!f->full && exec(f, "PRAGMA synchronous=FULL", NULL) < 0)
        return -1;
    f->full = true;
    if (exec(f, text, NULL) == 0)
        return 0;
    sqlfile_rollback(f);
    return -1;
}

int sqlfile_commit(sqlfile_t *f, bool *unknown, errmsg_t *err)
{
    int rc, code, saved;

    *unknown = false;
    if ((rc = run_query(f, Q_COMMIT, err)) == 0)
        return 0;
    saved = errno;
    code = sqlite3_extended_errcode(f->db);
    sqlfile_rollback(f);
    /* After these errors the last frame of the transaction is not in the log. */
    if ((code & 0xff) != SQLITE_FULL && code != SQLITE_IOERR_WRITE)
        *unknown = void_log(f) < 0;
    errno = saved;
    return rc;
}

/* --- space --- */

int sqlfile_bound_wal(sqlfile_t *f, errmsg_t *err)
{
    if (f->frames < WAL_FRAMES)
        return 0;
    int rc = sqlite3_wal_checkpoint_v2(f->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (rc != SQLITE_OK)
        return sqlfile_fail(f, rc, err, "write");
    f->frames = 0;
    return 0;
}

static uint64_t wal_size(const sqlfile_t *f)
{
    char path[4096];
    struct stat st;

    if (snprintf(path, sizeof(path), "%s-wal", f->path) >= (int)sizeof(path) || stat(path, &st) < 0)
        return 0;
    return (uint64_t)st.st_size;
}

int sqlfile_shrink(sqlfile_t *f, errmsg_t *err)
{
    sqlite3_int64 unused;
    int rc = sqlfile_first(f, Q_FREE, &unused, NULL, err);

    if (rc < 0)
        return -1;
    if (unused > 0) {
        if (exec(f, "PRAGMA incremental_vacuum(" SHRINK_PAGES ")", err) < 0 ||
            sqlfile_bound_wal(f, err) < 0)
            return -1;
        return 1;
    }
    if (wal_size(f) <= WAL_KEEP && f->frames == 0)
        return 0;
    rc = sqlite3_wal_checkpoint_v2(f->db, NULL,
                                   wal_size(f) > WAL_KEEP ? SQLITE_CHECKPOINT_TRUNCATE
                                                          : SQLITE_CHECKPOINT_PASSIVE,
                                   NULL, NULL);
    if (rc != SQLITE_OK)
        return sqlfile_fail(f, rc, err, "write");
    f->frames = 0;
    return 0;
}

void sqlfile_sizes(sqlfile_t *f, uint64_t *file, uint64_t *wal, uint64_t *unused)
{
    sqlite3_int64 n;
    struct stat st;

    *file = stat(f->path, &st) == 0 ? (uint64_t)st.st_size : 0;
    *wal = wal_size(f);
    *unused = sqlfile_first(f, Q_FREE, &n, NULL, NULL) == 1 ? (uint64_t)n * 4096 : 0;
}
