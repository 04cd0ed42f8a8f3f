/* Growable byte queue with an optional limit: append at the end, consume at the front.  Not
 * thread-safe.
 */
#ifndef UTIL_BUF_H
#define UTIL_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct buf buf_t;

/* `max`: the most bytes that it may hold (0: no limit).  NULL with ENOMEM. */
buf_t *buf_create(size_t max);
void buf_destroy(buf_t *b); /* NULL-safe, keeps errno */

/* Append a copy of `len` bytes.  -1 with ENOBUFS beyond the limit, or ENOMEM; then nothing was
 * added. */
int buf_append(buf_t *b, const void *data, size_t len);

/* Room for at least `len` bytes at the end, for the caller to fill (read(2)) and then to pass their
 * number to buf_commit().  NULL with ENOBUFS or ENOMEM. */
void *buf_reserve(buf_t *b, size_t len);
void buf_commit(buf_t *b, size_t len);

/* The held bytes, contiguous and valid until the next change; and their number. */
const void *buf_data(const buf_t *b);
size_t buf_len(const buf_t *b);

/* Remove `len` bytes (at most buf_len) from the front.  A large buffer that becomes empty releases
 * memory. */
void buf_consume(buf_t *b, size_t len);

#endif
