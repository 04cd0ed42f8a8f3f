/* The file that keeps the key-value store: one SQLite database, used by one process at a time.
 *
 * The layout stands in doc/kvs-storage.rst.  All functions block; the driver calls them from its
 * thread, flux-kvs-fsck from its only one.
 *
 * Functions return 0, or -1 with errno as in kvs_storage.h and an error message.
 *
 * Thread rules: a file belongs to one thread at a time.
 */
#ifndef SQLFILE_H
#define SQLFILE_H

#include "kvs_storage.h"

typedef struct sqlfile sqlfile_t;

enum {
    SQLFILE_MAKE = 1, /* make it when it is not there */
    SQLFILE_LOOK = 2, /* change nothing: the file stays as it is byte by byte */
};
/* Open `path`.  `hash`: what it must have been made with; NULL, not with SQLFILE_MAKE: whatever it
 * says.  ENODATA: it is empty, as who was killed while making it leaves it. */
sqlfile_t *sqlfile_open(const char *path, const char *hash, unsigned flags, errmsg_t *err);
void sqlfile_close(sqlfile_t *f); /* NULL-safe, keeps errno; rolls back */
const char *sqlfile_hash(const sqlfile_t *f);
size_t sqlfile_dsize(const sqlfile_t *f); /* bytes of a digest */
/* SQLite's own check of the file's structure.  0; -1 with EIO and its first finding. */
int sqlfile_check(sqlfile_t *f, errmsg_t *err);

/* Are the file that is open, and its log, still what stands under their names?  What is written to
 * a file that was removed is gone with this process. */
bool sqlfile_is_there(sqlfile_t *f);
/* They are not: write all that was committed to a new file under that name.  Takes the file over
 * and returns the new one, or the same one with *failed, errno (EEXIST: another file stands there)
 * and an error message. */
sqlfile_t *sqlfile_write_anew(sqlfile_t *f, bool *failed, errmsg_t *err);

/* Writes stand between begin and commit.  `durable`: on disk when commit returns; else at the next
 * durable commit.  After any failure of a write: rollback. */
int sqlfile_begin(sqlfile_t *f, bool durable, errmsg_t *err);
/* -1: it was rolled back.  `unknown`: it may be there after a crash all the same. */
int sqlfile_commit(sqlfile_t *f, bool *unknown, errmsg_t *err);
void sqlfile_rollback(sqlfile_t *f);

int sqlfile_create_ns(sqlfile_t *f, const char *name, uint32_t owner, uint64_t version,
                      const uint8_t *root, uint32_t *ns, errmsg_t *err);
int sqlfile_remove_ns(sqlfile_t *f, uint32_t ns, errmsg_t *err);
int sqlfile_store(sqlfile_t *f, uint32_t ns, const struct kvs_storage_obj *o, errmsg_t *err);
int sqlfile_delete(sqlfile_t *f, uint32_t ns, const struct kvs_storage_obj *o, errmsg_t *err);
int sqlfile_journal(sqlfile_t *f, uint32_t ns, uint64_t version, const uint8_t *root,
                    const struct iovec *iov, size_t niov, errmsg_t *err);
int sqlfile_checkpoint(sqlfile_t *f, uint32_t ns, uint64_t version, const uint8_t *root,
                       errmsg_t *err);

/* Read.  The callback gets records whose pointers live until it returns; nonzero from it ends the
 * reading and is returned.  *after and `digest` say where to begin (0, zeros) and where it
 * ended. */
typedef int (*sqlfile_f)(const struct kvs_storage_rec *rec, void *arg);
int sqlfile_namespaces(sqlfile_t *f, sqlfile_f cb, void *arg, errmsg_t *err);
int sqlfile_nodes(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                  errmsg_t *err);
/* Blobs, with their bytes when these are fewer than `inline_below`. */
int sqlfile_blobs(sqlfile_t *f, uint32_t ns, size_t inline_below, uint8_t *after, sqlfile_f cb,
                  void *arg, errmsg_t *err);
/* Blobs with their bytes. */
int sqlfile_blobs_full(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                       errmsg_t *err);
/* Rows younger than the checkpoint, oldest first; *after is a version. */
int sqlfile_rows(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                 errmsg_t *err);
/* One object, malloc'd.  ENOENT when it is not there. */
int sqlfile_load(sqlfile_t *f, uint32_t ns, const struct kvs_storage_obj *o, uint8_t **data,
                 size_t *len, errmsg_t *err);

/* Do a bit of what was put off: old rows, removed namespaces.  1: there is more, 0: nothing. */
int sqlfile_tidy(sqlfile_t *f, errmsg_t *err);
/* Give a bit of unused space at the end back to the file system; and the write-ahead log when
 * nothing is left.  1: there is more, 0: nothing. */
int sqlfile_shrink(sqlfile_t *f, errmsg_t *err);
/* Write the log back into the file when it is long. */
int sqlfile_bound_wal(sqlfile_t *f, errmsg_t *err);

void sqlfile_sizes(sqlfile_t *f, uint64_t *file, uint64_t *wal, uint64_t *unused);

#endif
