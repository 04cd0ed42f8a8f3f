/* sqlfile_private.h - the structure and the functions that the files sqlfile*.c share. */
#ifndef SQLFILE_PRIVATE_H
#define SQLFILE_PRIVATE_H

#include <sqlite3.h>
#include <sys/types.h>

#include "sqlfile.h"

/* The key of a row of the journal. */
#define SQLFILE_KEY(ns, version) ((sqlite3_int64)(ns) << 40 | (sqlite3_int64)(version))

/* Statements; their text is in sqlfile.c. */
enum {
    Q_BEGIN,
    Q_COMMIT,
    Q_ROLLBACK,
    Q_NS_ALL,
    Q_NS_LAST,
    Q_NS_CREATE,
    Q_NS_REMOVE,
    Q_NS_DROP,
    Q_NODE_PUT,
    Q_BLOB_PUT,
    Q_NODE_DEL,
    Q_BLOB_DEL,
    Q_NODE_GET,
    Q_BLOB_GET,
    Q_NODE_SCAN,
    Q_BLOB_SCAN,
    Q_BLOB_LIST,
    Q_ROW_PUT,
    Q_ROW_SCAN,
    Q_CHECKPOINT,
    Q_TIDY_FIND,
    Q_TIDY_LOOK,
    Q_TIDY_ROWS,
    Q_TIDY_REMOVED,
    Q_TIDY_NODES,
    Q_TIDY_BLOBS,
    Q_FREE,
    Q_PAGES,
    Q_COUNT
};

struct sqlfile {
    sqlite3 *db;
    char *path;
    char hash[16];
    size_t dsize;
    bool full; /* synchronous = FULL */
    bool untidy;
    int frames; /* pages in the log that were not written back */
    /* Identity of the open file and of its log (wal_ino 0: no log was seen yet). */
    dev_t dev;
    ino_t ino, wal_ino;
    uint8_t *scratch;
    size_t scratch_size;
    sqlite3_stmt *q[Q_COUNT];
};

/* Set errno and an error message for an error of SQLite.  `what`: a verb before the name of the
 * file, such as "write".  Return -1. */
int sqlfile_fail(sqlfile_t *f, int rc, errmsg_t *err, const char *what);
int sqlfile_damaged(const sqlfile_t *f, errmsg_t *err, const char *what);
/* A statement, ready to be bound; NULL with errno and an error message. */
sqlite3_stmt *sqlfile_query(sqlfile_t *f, int q, errmsg_t *err);
/* Run a statement without rows, or whose rows are ignored. */
int sqlfile_run(sqlfile_t *f, sqlite3_stmt *s, errmsg_t *err);
/* Read the first row of a query of integers.  1: it is in *a and *b; 0: there is no row; -1. */
int sqlfile_first(sqlfile_t *f, int q, sqlite3_int64 *a, sqlite3_int64 *b, errmsg_t *err);
/* Bind the first two parameters: namespace and digest. */
int sqlfile_bind(sqlfile_t *f, sqlite3_stmt *s, uint32_t ns, const uint8_t *digest, errmsg_t *err);

#endif
