/* Values of any size in bounded memory.
 *
 *    flux_kvs_writer_t *w = flux_kvs_writer_create(h, NULL);
 *    while ((n = read(fd, buf, sizeof(buf))) > 0)
 *        flux_kvs_writer_write(w, buf, n, &err);
 *    flux_kvs_writer_put(w, txn, "a.large", &err);       then flux_kvs_commit(h, NULL, txn)
 *    flux_kvs_writer_destroy(w);
 *
 *    flux_kvs_reader_t *r = flux_kvs_reader_create(h, NULL, "a.large", NULL, &err);
 *    while ((n = flux_kvs_reader_next(r, &data, &err)) > 0)
 *        fwrite(data, 1, n, stdout);
 *    flux_kvs_reader_destroy(r);
 *
 * Several pieces of FLUX_KVS_STORE_MAX bytes are transferred at a time.  The memory in use is that
 * of these pieces, plus 32 bytes for each FLUX_KVS_CHUNK bytes of a value that is written.
 *
 * These calls wait for the broker, so they are for programs: inside a module they fail with
 * EDEADLK. Thread rules: those of the handle.
 */
#ifndef FLUX_KVS_STREAM_H
#define FLUX_KVS_STREAM_H

#include "libkvs/kvs.h"

typedef struct flux_kvs_writer flux_kvs_writer_t;
typedef struct flux_kvs_reader flux_kvs_reader_t;

/* Begin to write a value in namespace `ns` (NULL: "primary"; copied).  Nothing is sent yet.  NULL
 * with ENOMEM, or EINVAL for a bad name. */
flux_kvs_writer_t *flux_kvs_writer_create(flux_t *h, const char *ns);
void flux_kvs_writer_destroy(flux_kvs_writer_t *w); /* NULL-safe, keeps errno */

/* Add bytes to the value; they are copied.  Waits while too many pieces are outstanding.  0; -1
 * with an error message and EFBIG (more than 62 GiB), ENOMEM, EPIPE (the broker is gone), EAGAIN
 * (for a minute the master had no room for chunks: 2 GiB of them may wait there for commits; append
 * to a value that is longer), or an error of the service.  After an error, only destroy() may be
 * called. */
int flux_kvs_writer_write(flux_kvs_writer_t *w, const void *data, size_t len, errmsg_t *err);
/* Bytes so far. */
uint64_t flux_kvs_writer_size(const flux_kvs_writer_t *w);

/* End the value: wait until all of it is at the master, and add to `txn` the operation that puts it
 * at `key`.  For a value of at most FLUX_KVS_STORE_MAX bytes, which was not sent before, the
 * operation has the bytes themselves.  Commit soon: the master keeps chunks for ten minutes (then
 * the commit fails with ENOENT).  Afterwards the writer is empty, ready for the next value.
 * Errors: as above, and those of flux_kvs_txn_put_raw(). */
int flux_kvs_writer_put(flux_kvs_writer_t *w, flux_kvs_txn_t *txn, const char *key, errmsg_t *err);

/* Begin to read the value at `key`, at the root `rootref` (NULL: now).  A value of more than
 * FLUX_KVS_STORE_MAX bytes is read at a snapshot, so later changes of the key have no effect.  NULL
 * with an error message and the errors of flux_kvs_lookup(), EISDIR for a directory.
 */
flux_kvs_reader_t *flux_kvs_reader_create(flux_t *h, const char *ns, const char *key,
                                          const char *rootref, errmsg_t *err);
void flux_kvs_reader_destroy(flux_kvs_reader_t *r); /* NULL-safe, keeps errno */
/* Bytes of the whole value. */
uint64_t flux_kvs_reader_size(const flux_kvs_reader_t *r);

/* The next piece: its length, which is at most FLUX_KVS_STORE_MAX, with *data, which is valid until
 * the next call; 0 at the end; -1 with an error message. */
ssize_t flux_kvs_reader_next(flux_kvs_reader_t *r, const char **data, errmsg_t *err);

#endif
