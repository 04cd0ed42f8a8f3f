/* Hash map with string, integer or fixed-size binary keys and pointer values.
 *
 * Average constant time for every operation; memory shrinks again after a burst.
 * Iteration order is unspecified.  Not thread-safe.
 */
#ifndef UTIL_HMAP_H
#define UTIL_HMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hmap hmap_t;
typedef void (*hmap_free_f)(void *val);

/* Create an empty map whose keys are NUL-terminated strings (copied in). `free_fn`, which may be
 * NULL, is called for a value that is overwritten, deleted or left at destruction.
 * Returns NULL with ENOMEM. */
hmap_t *hmap_create_str(hmap_free_f free_fn);

/* The same with 64-bit integer keys. */
hmap_t *hmap_create_u64(hmap_free_f free_fn);

/* The same with binary keys of exactly `keylen` bytes (1..64), copied in. */
hmap_t *hmap_create_bin(size_t keylen, hmap_free_f free_fn);

/* NULL-safe; keeps errno. */
void hmap_destroy(hmap_t *m);

/* Number of entries. */
size_t hmap_count(const hmap_t *m);

/* Insert or overwrite.  `val` must not be NULL.  0, or -1 with ENOMEM (map unchanged). */
int hmap_put(hmap_t *m, const void *key, void *val);
int hmap_put_u64(hmap_t *m, uint64_t key, void *val);

/* Look up: the value, or NULL (errno is not touched). */
void *hmap_get(const hmap_t *m, const void *key);
void *hmap_get_u64(const hmap_t *m, uint64_t key);

/* Delete with free_fn.  true when the key was there. */
bool hmap_del(hmap_t *m, const void *key);
bool hmap_del_u64(hmap_t *m, uint64_t key);

/* Remove an entry and return its value without free_fn; NULL if the key does not exist. */
void *hmap_take(hmap_t *m, const void *key);
void *hmap_take_u64(hmap_t *m, uint64_t key);

/* Iterate: start with *pos = 0; returns false at the end.  `key` (which may be NULL) receives the
 * string or binary key pointer, `ikey` the integer one.  The current entry may be deleted during
 * iteration; nothing may be inserted. */
bool hmap_next(const hmap_t *m, size_t *pos, const void **key, uint64_t *ikey, void **val);

#endif
