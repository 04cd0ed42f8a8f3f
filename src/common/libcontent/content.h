/* Content: objects by the hash of their bytes, in memory.
 *
 * An object that nobody holds may be dropped, the least recently used first, when such objects
 * together exceed the bound; an object that is held never is.  Who finds an object missing waits
 * for it; any number may wait for one object, and the first is told to fetch it.
 *
 * Digests are binary, blobref_size() bytes.
 *
 * Thread rules: a content store belongs to one thread.
 */
#ifndef CONTENT_CONTENT_H
#define CONTENT_CONTENT_H

#include <stdbool.h>

#include "blobref.h"
#include "libutil/list.h"

typedef struct content content_t;

/* Largest object in bytes. */
#define CONTENT_OBJECT_MAX (64u * 1024 * 1024)

/* Users read; only `mark`, and `link` while they hold the object, are theirs to write. */
struct content_obj {
    struct list_node link;
    uint32_t holds;
    uint32_t mark; /* 0 in a new object; objects of mark != 0 must be held */
    uint32_t len;
    uint8_t digest[BLOBREF_DIGEST_MAX];
    uint8_t data[];
};

/* `b` is used, not taken over, and must live longer.  `limit`: bytes of objects that nobody holds.
 * NULL with ENOMEM. */
content_t *content_create(blobref_t *b, size_t limit);
/* NULL-safe, keeps errno.  Nobody may wait; objects are freed whoever holds them. */
void content_destroy(content_t *c);
void content_set_limit(content_t *c, size_t limit);
blobref_t *content_blobref(content_t *c);

/* Find, and count it as used.  NULL when it is not here. */
struct content_obj *content_get(content_t *c, const uint8_t *digest);
/* Add a copy of `len` bytes, or find the object that is there already.  Nothing is dropped by this:
 * see content_trim().  NULL with ENOMEM, EMSGSIZE or EIO (hash). */
struct content_obj *content_add(content_t *c, const void *data, size_t len);

/* Hold and let go.  Let go by all it may be dropped by the next content_trim(). */
void content_hold(content_t *c, struct content_obj *o);
void content_release(content_t *c, struct content_obj *o);
/* Drop what exceeds the bound.  Pointers to objects that are not held are void after this. */
void content_trim(content_t *c);
/* Drop all that nobody holds; returns the number of objects dropped. */
size_t content_drop(content_t *c);

/* --- waiting for objects that are elsewhere --- */

struct content_waiter;
/* The object is here, or `errnum` != 0 and a sentence.  The waiter is free again (may be reused).
 */
typedef void (*content_wait_f)(struct content_waiter *w, int errnum, const char *error);
struct content_waiter { /* part of the waiting thing; fields are private */
    struct list_node link;
    content_wait_f cb;
};
/* Wait.  1: the first one waits, so the caller has to fetch it and end with content_supply() or
 * content_deny(); 0: joined those who wait; -1 with ENOMEM. */
int content_wait(content_t *c, const uint8_t *digest, struct content_waiter *w, content_wait_f cb);
/* Wait no more.  The fetch goes on. */
void content_waiter_cancel(struct content_waiter *w);
/* The bytes are here: check them against the digest, add, wake who waits (with EPROTO when they do
 * not fit).  0, or -1 with EPROTO or ENOMEM; those who wait are told in any case. */
int content_supply(content_t *c, const uint8_t *digest, const void *data, size_t len);
/* They will not come. */
void content_deny(content_t *c, const uint8_t *digest, int errnum, const char *error);
/* Deny everything that is awaited. */
void content_deny_all(content_t *c, int errnum, const char *error);

struct content_stats {
    size_t objects, bytes;           /* all */
    size_t free_objects, free_bytes; /* held by nobody */
    size_t awaited;                  /* objects that are being fetched */
    uint64_t hits, misses, dropped;
};
void content_get_stats(const content_t *c, struct content_stats *st);

#endif
