/* sqlfile_rows.c - the rows of the file: write and read rows, and delete obsolete ones.
 *
 * Invariants:
 *  1. A scan proceeds by rowid, digest or version, so it can continue in another transaction, no
 *     matter which rows were added or deleted meanwhile.
 *  2. A row is checked before it is returned: a digest has the right size, and a namespace a name.
 *     The reader checks the bytes of an object.
 *
 * Failure: as in sqlfile.c.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sqlfile_private.h"

#define SCRATCH_KEEP 65536
#define TIDY_BYTES (1024 * 1024)
#define TIDY_ROWS 256

/* --- writes --- */

static int bind_root(sqlfile_t *f, sqlite3_stmt *s, int i, const uint8_t *root)
{
    return root ? sqlite3_bind_blob(s, i, root, (int)f->dsize, SQLITE_STATIC)
                : sqlite3_bind_null(s, i);
}

int sqlfile_create_ns(sqlfile_t *f, const char *name, uint32_t owner, uint64_t version,
                      const uint8_t *root, uint32_t *ns, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, Q_NS_LAST, err);
    sqlite3_int64 id;

    if (!s)
        return -1;
    if (sqlite3_step(s) != SQLITE_ROW) {
        (void)sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "read");
        sqlite3_reset(s);
        return -1;
    }
    id = sqlite3_column_int64(s, 0) + 1;
    sqlite3_reset(s);
    if (id > (sqlite3_int64)KVS_STORAGE_NS_MAX)
        return errmsg_fail(err, ENOSPC, "too many namespaces were created in '%.120s'", f->path);
    if (!(s = sqlfile_query(f, Q_NS_CREATE, err)))
        return -1;
    int rc = sqlite3_bind_int64(s, 1, id);
    rc = rc ? rc : sqlite3_bind_text(s, 2, name, -1, SQLITE_STATIC);
    rc = rc ? rc : sqlite3_bind_int64(s, 3, owner);
    rc = rc ? rc : sqlite3_bind_int64(s, 4, (sqlite3_int64)version);
    rc = rc ? rc : bind_root(f, s, 5, root);
    if (rc)
        return sqlfile_fail(f, rc, err, "write");
    *ns = (uint32_t)id;
    return sqlfile_run(f, s, err);
}

int sqlfile_remove_ns(sqlfile_t *f, uint32_t ns, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, Q_NS_REMOVE, err);

    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, ns);
    f->untidy = true;
    return sqlfile_run(f, s, err);
}

int sqlfile_store(sqlfile_t *f, uint32_t ns, const struct kvs_storage_obj *o, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, o->blob ? Q_BLOB_PUT : Q_NODE_PUT, err);

    if (!s || sqlfile_bind(f, s, ns, o->digest, err) < 0)
        return -1;
    int rc = sqlite3_bind_blob64(s, 3, o->data, o->len, SQLITE_STATIC);
    return rc ? sqlfile_fail(f, rc, err, "write") : sqlfile_run(f, s, err);
}

int sqlfile_delete(sqlfile_t *f, uint32_t ns, const struct kvs_storage_obj *o, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, Q_NODE_DEL, err);

    if (!s || sqlfile_bind(f, s, ns, o->digest, err) < 0 || sqlfile_run(f, s, err) < 0)
        return -1;
    if (sqlite3_changes(f->db) > 0)
        return 0;
    s = sqlfile_query(f, Q_BLOB_DEL, err);
    return s && sqlfile_bind(f, s, ns, o->digest, err) == 0 ? sqlfile_run(f, s, err) : -1;
}

/* Join the pieces of a row. */
static const void *join(sqlfile_t *f, const struct iovec *iov, size_t niov, size_t *len)
{
    if (niov == 1) {
        *len = iov[0].iov_len;
        return iov[0].iov_base;
    }
    *len = 0;
    for (size_t i = 0; i < niov; i++)
        *len += iov[i].iov_len;
    if (*len > f->scratch_size || !f->scratch) {
        uint8_t *p = realloc(f->scratch, *len + 1);
        if (!p)
            return NULL;
        f->scratch = p;
        f->scratch_size = *len + 1;
    }
    uint8_t *to = f->scratch;
    for (size_t i = 0; i < niov; i++) {
        if (iov[i].iov_len)
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
    return f->scratch;
}

int sqlfile_journal(sqlfile_t *f, uint32_t ns, uint64_t version, const uint8_t *root,
                    const struct iovec *iov, size_t niov, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, Q_ROW_PUT, err);
    size_t len;
    const void *row;

    if (!s)
        return -1;
    if (!(row = join(f, iov, niov, &len)))
        return sqlfile_fail(f, SQLITE_NOMEM, err, "write");
    int rc = sqlite3_bind_int64(s, 1, SQLFILE_KEY(ns, version));
    rc = rc ? rc : bind_root(f, s, 2, root);
    rc = rc ? rc : sqlite3_bind_blob64(s, 3, row, len, SQLITE_STATIC);
    int result = rc ? sqlfile_fail(f, rc, err, "write") : sqlfile_run(f, s, err);
    if (f->scratch_size > SCRATCH_KEEP) {
        free(f->scratch);
        f->scratch = NULL;
        f->scratch_size = 0;
    }
    return result;
}

int sqlfile_checkpoint(sqlfile_t *f, uint32_t ns, uint64_t version, const uint8_t *root,
                       errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, Q_CHECKPOINT, err);

    if (!s)
        return -1;
    int rc = sqlite3_bind_int64(s, 1, ns);
    rc = rc ? rc : sqlite3_bind_int64(s, 2, (sqlite3_int64)version);
    rc = rc ? rc : bind_root(f, s, 3, root);
    f->untidy = true;
    return rc ? sqlfile_fail(f, rc, err, "write") : sqlfile_run(f, s, err);
}

/* --- reads --- */

/* A column that contains a digest; NULL if it is not a blob of that size. */
static const uint8_t *column_digest(sqlfile_t *f, sqlite3_stmt *s, int i)
{
    return sqlite3_column_type(s, i) == SQLITE_BLOB &&
                   (size_t)sqlite3_column_bytes(s, i) == f->dsize
               ? sqlite3_column_blob(s, i)
               : NULL;
}

static void column_data(sqlite3_stmt *s, int i, struct kvs_storage_rec *rec)
{
    rec->data = sqlite3_column_blob(s, i);
    rec->len = rec->data ? (size_t)sqlite3_column_bytes(s, i) : 0;
    if (!rec->data)
        rec->data = (const uint8_t *)"";
}

struct scan {
    /* Fill in the record; -1 if the row is damaged. */
    int (*row)(sqlfile_t *f, sqlite3_stmt *s, struct kvs_storage_rec *rec, void *after);
    const char *bad;
};

static int scan(sqlfile_t *f, sqlite3_stmt *s, const struct scan *how, void *after, sqlfile_f cb,
                void *arg, errmsg_t *err)
{
    int rc, result = 0;

    while (result == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct kvs_storage_rec rec = {0};
        if (how->row(f, s, &rec, after) < 0)
            result = sqlfile_damaged(f, err, how->bad);
        else
            result = cb(&rec, arg);
    }
    if (result == 0 && rc != SQLITE_DONE)
        result = sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "read");
    int saved = errno;
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    errno = saved;
    return result;
}

static int ns_row(sqlfile_t *f, sqlite3_stmt *s, struct kvs_storage_rec *rec, void *after)
{
    sqlite3_int64 id = sqlite3_column_int64(s, 0);
    sqlite3_int64 version = sqlite3_column_int64(s, 3);

    rec->data = (const uint8_t *)sqlite3_column_text(s, 1);
    rec->len = rec->data ? (size_t)sqlite3_column_bytes(s, 1) : 0;
    rec->ns = (uint32_t)id;
    rec->owner = (uint32_t)sqlite3_column_int64(s, 2);
    rec->version = (uint64_t)version;
    rec->root = column_digest(f, s, 4);
    return id > 0 && id <= (sqlite3_int64)KVS_STORAGE_NS_MAX && version >= 0 &&
                   version <= (sqlite3_int64)KVS_STORAGE_VERSION_MAX && rec->len > 0 &&
                   (rec->root || sqlite3_column_type(s, 4) == SQLITE_NULL)
               ? 0
               : -1;
}

int sqlfile_namespaces(sqlfile_t *f, sqlfile_f cb, void *arg, errmsg_t *err)
{
    static const struct scan how = {ns_row, "the row of a namespace is not valid"};
    sqlite3_stmt *s = sqlfile_query(f, Q_NS_ALL, err);

    return s ? scan(f, s, &how, NULL, cb, arg, err) : -1;
}

static int obj_row(sqlfile_t *f, sqlite3_stmt *s, struct kvs_storage_rec *rec, void *after)
{
    *(uint64_t *)after = (uint64_t)sqlite3_column_int64(s, 0);
    rec->root = column_digest(f, s, 1);
    column_data(s, 2, rec);
    rec->version = sqlite3_column_count(s) > 3 ? (uint64_t)sqlite3_column_int64(s, 3) : rec->len;
    return rec->root ? 0 : -1;
}

static int objects(sqlfile_t *f, int q, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                   errmsg_t *err)
{
    static const struct scan how = {obj_row, "an object's name is not a hash"};
    sqlite3_stmt *s = sqlfile_query(f, q, err);

    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, ns);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)*after);
    return scan(f, s, &how, after, cb, arg, err);
}

int sqlfile_nodes(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                  errmsg_t *err)
{
    return objects(f, Q_NODE_SCAN, ns, after, cb, arg, err);
}

int sqlfile_blobs_full(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                       errmsg_t *err)
{
    return objects(f, Q_BLOB_SCAN, ns, after, cb, arg, err);
}

static int digest_row(sqlfile_t *f, sqlite3_stmt *s, struct kvs_storage_rec *rec, void *after)
{
    rec->root = column_digest(f, s, 0);
    if (!rec->root)
        return -1;
    memcpy(after, rec->root, f->dsize);
    rec->version = (uint64_t)sqlite3_column_int64(s, 1);
    if (sqlite3_column_type(s, 2) != SQLITE_NULL)
        column_data(s, 2, rec);
    return 0;
}

int sqlfile_blobs(sqlfile_t *f, uint32_t ns, size_t inline_below, uint8_t *after, sqlfile_f cb,
                  void *arg, errmsg_t *err)
{
    static const struct scan how = {digest_row, "an object's name is not a hash"};
    sqlite3_stmt *s = sqlfile_query(f, Q_BLOB_LIST, err);

    if (!s || sqlfile_bind(f, s, ns, after, err) < 0)
        return -1;
    /* The first page begins after the empty blob, which precedes the digest of zeros. */
    static const uint8_t zeros[BLOBREF_DIGEST_MAX];
    if (memcmp(after, zeros, f->dsize) == 0)
        sqlite3_bind_zeroblob(s, 2, 0);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)inline_below);
    return scan(f, s, &how, after, cb, arg, err);
}

static int row_row(sqlfile_t *f, sqlite3_stmt *s, struct kvs_storage_rec *rec, void *after)
{
    sqlite3_int64 key = sqlite3_column_int64(s, 0);

    rec->ns = (uint32_t)(key >> 40);
    rec->version = (uint64_t)key & KVS_STORAGE_VERSION_MAX;
    *(uint64_t *)after = rec->version;
    rec->root = column_digest(f, s, 1);
    column_data(s, 2, rec);
    return rec->root ? 0 : -1;
}

struct checkpoint_of {
    uint32_t ns;
    uint64_t version;
};

static int find_checkpoint(const struct kvs_storage_rec *rec, void *arg)
{
    struct checkpoint_of *c = arg;

    if (rec->ns != c->ns)
        return 0;
    c->version = rec->version;
    return 1;
}

int sqlfile_rows(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg, errmsg_t *err)
{
    static const struct scan how = {row_row, "a row of the journal has no root"};
    struct checkpoint_of c = {ns, 0};
    sqlite3_stmt *s;

    int rc = sqlfile_namespaces(f, find_checkpoint, &c, err);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return errmsg_fail(err, ENOENT, "'%.120s' has no such namespace", f->path);
    if (*after < c.version)
        *after = c.version;
    if (!(s = sqlfile_query(f, Q_ROW_SCAN, err)))
        return -1;
    sqlite3_bind_int64(s, 1, SQLFILE_KEY(ns, *after));
    sqlite3_bind_int64(s, 2, SQLFILE_KEY(ns + 1, 0));
    return scan(f, s, &how, after, cb, arg, err);
}

int sqlfile_load(sqlfile_t *f, uint32_t ns, const struct kvs_storage_obj *o, uint8_t **data,
                 size_t *len, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, o->blob ? Q_BLOB_GET : Q_NODE_GET, err);
    struct kvs_storage_rec rec = {0};
    int result = -1;

    if (!s || sqlfile_bind(f, s, ns, o->digest, err) < 0)
        return -1;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        column_data(s, 0, &rec);
        *len = rec.len;
        if ((*data = malloc(rec.len + 1))) {
            memcpy(*data, rec.data, rec.len);
            result = 0;
        } else {
            (void)sqlfile_fail(f, SQLITE_NOMEM, err, "read");
        }
    } else if (rc == SQLITE_DONE) {
        errmsg_fail(err, ENOENT, "an object that is needed is not in '%.120s'", f->path);
    } else {
        (void)sqlfile_fail(f, sqlite3_extended_errcode(f->db), err, "read");
    }
    int saved = errno;
    sqlite3_reset(s);
    errno = saved;
    return result;
}

/* --- tidying --- */

static int tidy_rows(sqlfile_t *f, sqlite3_int64 from, sqlite3_int64 to, errmsg_t *err)
{
    sqlite3_stmt *s = sqlfile_query(f, Q_TIDY_LOOK, err);
    sqlite3_int64 last = from;
    size_t bytes = 0;
    int rows = 0, rc;

    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, from);
    sqlite3_bind_int64(s, 2, to);
    while (rows < TIDY_ROWS && bytes < TIDY_BYTES && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        last = sqlite3_column_int64(s, 0);
        bytes += (size_t)sqlite3_column_int64(s, 1);
        rows++;
    }
    sqlite3_reset(s);
    if (!(s = sqlfile_query(f, Q_TIDY_ROWS, err)))
        return -1;
    sqlite3_bind_int64(s, 1, from);
    sqlite3_bind_int64(s, 2, last);
    return sqlfile_run(f, s, err) < 0 ? -1 : 1;
}

static int tidy_removed(sqlfile_t *f, sqlite3_int64 ns, errmsg_t *err)
{
    static const int queries[] = {Q_TIDY_NODES, Q_TIDY_BLOBS, Q_NS_DROP};

    for (size_t i = 0; i < sizeof(queries) / sizeof(*queries); i++) {
        sqlite3_stmt *s = sqlfile_query(f, queries[i], err);
        if (!s)
            return -1;
        sqlite3_bind_int64(s, 1, ns);
        if (sqlfile_run(f, s, err) < 0)
            return -1;
        if (sqlite3_changes(f->db) > 0)
            break;
    }
    return 1;
}

int sqlfile_tidy(sqlfile_t *f, errmsg_t *err)
{
    sqlite3_int64 a, b;
    bool unknown;
    int rc;

    if (!f->untidy)
        return 0;
    if (sqlfile_begin(f, false, err) < 0)
        return -1;
    if ((rc = sqlfile_first(f, Q_TIDY_FIND, &a, &b, err)) == 1)
        rc = tidy_rows(f, a, b, err);
    else if (rc == 0 && (rc = sqlfile_first(f, Q_TIDY_REMOVED, &a, NULL, err)) == 1)
        rc = tidy_removed(f, a, err);
    if (rc < 0 || sqlfile_commit(f, &unknown, err) < 0) { /* obsolete rows may reappear */
        sqlfile_rollback(f);
        return -1;
    }
    f->untidy = rc > 0;
    return rc;
}
