/* The circular log buffer: bounded in entries and in bytes; the oldest entries are removed first.
 * Not thread-safe. */
#ifndef LOG_RING_H
#define LOG_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libflux/log_wire.h"

typedef struct ring ring_t;

/* At most `entries` (>= 1) entries and `bytes` of text.  NULL with ENOMEM. */
ring_t *ring_create(size_t entries, size_t bytes);
void ring_destroy(ring_t *r); /* NULL-safe, keeps errno */

/* Change the bounds; entries beyond them are removed.  -1 with ENOMEM; then nothing changed. */
int ring_resize(ring_t *r, size_t entries, size_t bytes);

/* Append a copy with the next number; `e->seq` is ignored.  Returns the number, or 0 with
 * ENOMEM. */
uint64_t ring_append(ring_t *r, const struct log_entry *e);
/* Remove all entries.  Their memory is freed one by one, by ring_sweep(), or when it is needed for
 * new entries. */
void ring_clear(ring_t *r);
/* Free one of the entries that were cleared.  True: there are more. */
bool ring_sweep(ring_t *r);
/* Remove the oldest entry; no effect when there is none. */
void ring_pop(ring_t *r);

/* Entry number i from the oldest, NULL beyond the last; valid until the next change. */
const struct log_entry *ring_at(const ring_t *r, size_t i);
size_t ring_count(const ring_t *r);
size_t ring_bytes(const ring_t *r);
uint64_t ring_last_seq(const ring_t *r);
/* Number of entries that were removed to make room for others. */
uint64_t ring_dropped(const ring_t *r);

#endif
