/* sqlfile.h - the file that contains the key-value store: one SQLite database, used by one process
 * at a time.
 *
 * doc/kvs-storage.rst describes the layout.  All functions block: the driver calls them from its
 * thread, and flux-kvs-fsck from its only thread.
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
    SQLFILE_MAKE = 1, /* create the file if it is absent */
    SQLFILE_LOOK = 2, /* change no byte of the file */
};
/* Open `path`.  `hash`: the algorithm with which the file must have been created; NULL (not with
 * SQLFILE_MAKE): any.  ENODATA: the file is empty, because its creator was killed. */
sqlfile_t *sqlfile_open(const char *path, const char *hash, unsigned flags, errmsg_t *err);
void sqlfile_close(sqlfile_t *f); /* NULL-safe, keeps errno; rolls back */
const char *sqlfile_hash(const sqlfile_t *f);
size_t sqlfile_dsize(const sqlfile_t *f); /* bytes of a digest */
/* SQLite's own check of the file's structure.  0; -1 with EIO and its first finding. */
int sqlfile_check(sqlfile_t *f, errmsg_t *err);

/* Do the open file and its log still have their names?  If not, later writes are lost when this
 * process ends. */
bool sqlfile_is_there(sqlfile_t *f);
/* If they have not: write all committed contents to a new file under that name.  Takes the open
 * file over and returns the new one; or returns the open file, with *failed, errno (EEXIST: another
 * file has its name) and an error message. */
sqlfile_t *sqlfile_write_anew(sqlfile_t *f, bool *failed, errmsg_t *err);

/* Writes are made between begin and commit.  `durable`: they are durable when commit returns; else
 * at the next durable commit.  After a write has failed: rollback. */
int sqlfile_begin(sqlfile_t *f, bool durable, errmsg_t *err);
/* -1: the transaction was rolled back.  `unknown`: the file may contain it after a crash all the
 * same. */
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

/* Reading.  The callback gets records whose pointers are valid until it returns; nonzero from it
 * ends the reading and is returned.  *after (of sqlfile_blobs(): a digest) is the position after
 * which the reading begins (0 or zeros: at the first record), and is set to the last record. */
typedef int (*sqlfile_f)(const struct kvs_storage_rec *rec, void *arg);
int sqlfile_namespaces(sqlfile_t *f, sqlfile_f cb, void *arg, errmsg_t *err);
int sqlfile_nodes(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                  errmsg_t *err);
/* Blobs; a blob smaller than `inline_below` with its bytes. */
int sqlfile_blobs(sqlfile_t *f, uint32_t ns, size_t inline_below, uint8_t *after, sqlfile_f cb,
                  void *arg, errmsg_t *err);
/* Blobs with their bytes. */
int sqlfile_blobs_full(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                       errmsg_t *err);
/* Rows younger than the checkpoint, oldest first; *after is a version. */
int sqlfile_rows(sqlfile_t *f, uint32_t ns, uint64_t *after, sqlfile_f cb, void *arg,
                 errmsg_t *err);
/* One object, malloc'd.  ENOENT: there is no such object. */
int sqlfile_load(sqlfile_t *f, uint32_t ns, const struct kvs_storage_obj *o, uint8_t **data,
                 size_t *len, errmsg_t *err);

/* Delete some obsolete rows, and some objects of removed namespaces.  1: there are more, 0: there
 * are none. */
int sqlfile_tidy(sqlfile_t *f, errmsg_t *err);
/* Return some unused space at the end of the file to the file system; if there is none, write the
 * log back, and truncate a long one.  1: there is more to be done, 0: there is not. */
int sqlfile_shrink(sqlfile_t *f, errmsg_t *err);
/* Write the write-ahead log back into the file if it is long. */
int sqlfile_bound_wal(sqlfile_t *f, errmsg_t *err);

void sqlfile_sizes(sqlfile_t *f, uint64_t *file, uint64_t *wal, uint64_t *unused);

#endif
