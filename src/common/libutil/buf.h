/* Growable byte queue: append at the end, consume at the front; a bound is part of it.
 * Not thread-safe. */
#ifndef UTIL_BUF_H
#define UTIL_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct buf buf_t;

/* `max`: most bytes it may hold (0: no bound).  NULL with ENOMEM. */
buf_t *buf_create(size_t max);
void buf_destroy(buf_t *b); /* NULL-safe, keeps errno */

/* Copy `len` bytes in.  -1 with ENOBUFS beyond the bound or ENOMEM; then nothing was added. */
int buf_append(buf_t *b, const void *data, size_t len);

/* Room for at least `len` bytes at the end, to be filled by the caller (read(2)), who then calls
 * buf_commit() with what it filled.  NULL with ENOBUFS or ENOMEM. */
void *buf_reserve(buf_t *b, size_t len);
void buf_commit(buf_t *b, size_t len);

/* The bytes held, contiguous, valid until the next change; and how many. */
const void *buf_data(const buf_t *b);
size_t buf_len(const buf_t *b);

/* Drop `len` bytes (at most buf_len) from the front.  An emptied large buffer gives memory back. */
void buf_consume(buf_t *b, size_t len);

#endif
