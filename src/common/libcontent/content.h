/* Content: objects by the hash of their bytes, in memory.
 *
 * An object is needed while it is held (code uses its bytes) or kept (the root of a store reaches
 * it).  Other objects may be dropped, the least recently used first, when together they exceed the
 * limit, or when they have not been used for a while.  The bytes of a kept object that is backed
 * (available elsewhere) may be dropped too; its record stays.  Any number of callers may wait for a
 * missing object; the return value asks the first caller to fetch it.
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
/* The bytes of smaller objects are part of the record, and never dropped alone. */
#define CONTENT_SEPARATE 2048u

/* Users only read these fields.  The store that keeps objects (kvsstore.c) writes the fields that
 * are marked as its own, and owns `link` of an object that is kept and not backed. */
struct content_obj {
    struct list_node link;         /* idle objects: least recently used first */
    struct content_obj *zero_next; /* the store's: its zero-reference list */
    const uint8_t *data;           /* NULL: the bytes are elsewhere */
    uint32_t holds;
    uint32_t refs;     /* the store's */
    uint32_t len : 27; /* at most CONTENT_OBJECT_MAX */
    uint32_t kept : 1;
    uint32_t backed : 1;
    uint32_t in_zero : 1; /* the object is on that list */
    uint32_t on_disk : 1; /* the store's */
    uint32_t writing : 1; /* the store's */
    uint32_t used;        /* content_set_clock() at the last use */
    uint16_t low_bytes;   /* the store's: see kvsstore_reach.c */
    uint8_t low_names;    /* the store's */
    uint8_t digest[BLOBREF_DIGEST_MAX];
};

/* `b` is not taken over and must outlive the result.  `limit`: bytes of objects that are not
 * needed. NULL with ENOMEM. */
content_t *content_create(blobref_t *b, size_t limit);
/* NULL-safe, keeps errno.  There must be no waiters; objects are freed even if held. */
void content_destroy(content_t *c);
void content_set_limit(content_t *c, size_t limit);
blobref_t *content_blobref(content_t *c);

/* Find an object whose bytes are here, and record the use.  NULL if they are not. */
struct content_obj *content_get(content_t *c, const uint8_t *digest);
/* Find the record of an object, whose bytes may be elsewhere.  Does not record a use. */
struct content_obj *content_find(content_t *c, const uint8_t *digest);
/* The same for up to CONTENT_FIND_MANY objects at once, which is much faster than one by one; NULL
 * for those that are not here. */
#define CONTENT_FIND_MANY 16u
void content_find_many(content_t *c, const uint8_t *const *digest, unsigned n,
                       struct content_obj **obj);
/* Add a copy of `len` bytes, or find the existing object (whose bytes are here afterwards). Drops
 * nothing: see content_trim().  NULL with ENOMEM, EMSGSIZE or EIO (hash). */
struct content_obj *content_add(content_t *c, const void *data, size_t len);
/* Add a kept and backed record of an object of `len` bytes whose bytes are elsewhere, or find the
 * existing one.  `len` is at least CONTENT_SEPARATE.  NULL with ENOMEM or EMSGSIZE. */
struct content_obj *content_add_record(content_t *c, const uint8_t *digest, size_t len);

/* Hold and release.  After the last release, the next content_trim() may drop the object. */
void content_hold(content_t *c, struct content_obj *o);
void content_release(content_t *c, struct content_obj *o);
/* The store keeps the object (which is then not backed), or forgets it (neither kept nor backed). A
 * forgotten object whose bytes are elsewhere is freed. */
void content_keep(content_t *c, struct content_obj *o);
void content_forget(content_t *c, struct content_obj *o);
/* The bytes of this kept object are available elsewhere.  No effect on objects smaller than
 * CONTENT_SEPARATE. */
void content_back(content_t *c, struct content_obj *o);
/* Drop what exceeds the limit.  This invalidates pointers to objects that are neither held nor
 * kept, and to the bytes of backed objects. */
void content_trim(content_t *c);
/* Drop at most `max` objects that are not needed.  Returns their number. */
size_t content_drop(content_t *c, size_t max);

/* Return the memory of objects of more than SLAB_LARGEST bytes (libutil/slab.h) to the system, if
 * such objects need much less memory now than at their last maximum; the memory of smaller objects
 * is returned when they are freed.  Takes milliseconds, so call it when the program is idle; it
 * acts only if objects of at least 1 MiB plus an eighth of the remaining bytes were freed since
 * then.  True if it returned memory. */
bool content_tidy(content_t *c);

/* While the content is frozen, nothing is dropped: content_trim(), content_drop() and
 * content_expire() do nothing (and return 0). */
void content_freeze(content_t *c, bool frozen);

/* The time, in units and from an origin of the caller's choice.  Must not go back. */
void content_set_clock(content_t *c, uint32_t now);
/* Drop at most `max` objects that are not needed and were last used before `before`.  The cost is
 * proportional to what is dropped.  Returns their number. */
size_t content_expire(content_t *c, uint32_t before, size_t max);

/* --- waiting for objects that are elsewhere --- */

struct content_waiter;
/* The object is here, or `errnum` != 0 with an error message.  The waiter may be reused. */
typedef void (*content_wait_f)(struct content_waiter *w, int errnum, const char *error);
struct content_waiter { /* a member of the object that waits; its fields are private */
    struct list_node link;
    content_wait_f cb;
};
/* Wait for an object.  1: this is the first waiter, so the caller must fetch the object and end the
 * wait with content_supply() or content_deny().  0: the object is being fetched already.  -1 with
 * ENOMEM. */
int content_wait(content_t *c, const uint8_t *digest, struct content_waiter *w, content_wait_f cb);
/* Stop waiting.  The fetch continues. */
void content_waiter_cancel(struct content_waiter *w);
/* Supply the bytes of an object, which have arrived: check them against the digest, add the object,
 * and call the waiters (with EPROTO if the bytes do not match).  0, or -1 with EPROTO or ENOMEM;
 * the waiters are called in any case. */
int content_supply(content_t *c, const uint8_t *digest, const void *data, size_t len);
/* Report that the bytes of an object will not arrive. */
void content_deny(content_t *c, const uint8_t *digest, int errnum, const char *error);
/* Deny all awaited objects. */
void content_deny_all(content_t *c, int errnum, const char *error);

struct content_stats {
    size_t objects, bytes; /* all objects whose bytes are here; their bytes, including the cost of
                            * records */
    size_t free_objects, free_bytes; /* objects that are not needed, or are backed: the limit
                                      * applies to them */
    size_t absent_objects;           /* kept, bytes elsewhere */
    size_t awaited;                  /* objects that are being fetched */
    uint64_t hits, misses;
    uint64_t dropped; /* because of the limit, or by content_drop() */
    uint64_t expired;
};
void content_get_stats(const content_t *c, struct content_stats *st);

#endif
