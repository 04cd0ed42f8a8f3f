/* Content: objects by the hash of their bytes, in memory.
 *
 * An object that nobody needs here may be dropped, the least recently used first, when such objects
 * together exceed the bound, or when nobody used it for a while.  An object is needed while it is
 * held (by who works with its bytes) or kept (by a store whose root reaches it).  The bytes of a
 * kept object that can be had again from elsewhere (it is backed) may be dropped too; its record
 * stays.  Who finds an object missing waits for it; any number may wait for one object, and the
 * first is told to fetch it.
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
/* The bytes of smaller objects are one with the record, and never dropped alone. */
#define CONTENT_SEPARATE 2048u

/* Users read.  The store that keeps objects (kvsstore.c) writes the fields marked so, and owns
 * `link` of an object that is kept and not backed. */
struct content_obj {
    struct list_node link;         /* idle objects: least recently used first */
    struct content_obj *zero_next; /* the store's: its zero-reference list */
    const uint8_t *data;           /* NULL: the bytes are not here */
    uint32_t holds;
    uint32_t refs;     /* the store's */
    uint32_t len : 27; /* at most CONTENT_OBJECT_MAX */
    uint32_t kept : 1;
    uint32_t backed : 1;
    uint32_t in_zero : 1; /* on that list */
    uint32_t on_disk : 1; /* the store's */
    uint32_t writing : 1; /* the store's */
    uint32_t used;        /* content_set_clock() when it was used last */
    uint16_t low_bytes;   /* the store's: see kvsstore_reach.c */
    uint8_t low_names;    /* the store's */
    uint8_t digest[BLOBREF_DIGEST_MAX];
};

/* `b` is used, not taken over, and must live longer.  `limit`: bytes of objects that nobody needs.
 * NULL with ENOMEM. */
content_t *content_create(blobref_t *b, size_t limit);
/* NULL-safe, keeps errno.  Nobody may wait; objects are freed whoever holds them. */
void content_destroy(content_t *c);
void content_set_limit(content_t *c, size_t limit);
blobref_t *content_blobref(content_t *c);

/* Find an object whose bytes are here, and count it as used.  NULL when they are not. */
struct content_obj *content_get(content_t *c, const uint8_t *digest);
/* Find the record of an object, whose bytes may be elsewhere.  Not counted. */
struct content_obj *content_find(content_t *c, const uint8_t *digest);
/* The same for up to CONTENT_FIND_MANY at once, which takes much less time than one by one; NULL
 * for those that are not here. */
#define CONTENT_FIND_MANY 16u
void content_find_many(content_t *c, const uint8_t *const *digest, unsigned n,
                       struct content_obj **obj);
/* Add a copy of `len` bytes, or find the object that is there already (its bytes are there after
 * this).  Nothing is dropped by this: see content_trim().  NULL with ENOMEM, EMSGSIZE or EIO
 * (hash). */
struct content_obj *content_add(content_t *c, const void *data, size_t len);
/* Add a kept and backed record of an object of `len` bytes whose bytes are elsewhere, or find what
 * is there.  `len` is at least CONTENT_SEPARATE.  NULL with ENOMEM or EMSGSIZE. */
struct content_obj *content_add_record(content_t *c, const uint8_t *digest, size_t len);

/* Hold and let go.  Let go by all it may be dropped by the next content_trim(). */
void content_hold(content_t *c, struct content_obj *o);
void content_release(content_t *c, struct content_obj *o);
/* The store keeps it (it is not backed then), or forgets it: not kept, not backed.  An object that
 * is forgotten and whose bytes are not here is freed. */
void content_keep(content_t *c, struct content_obj *o);
void content_forget(content_t *c, struct content_obj *o);
/* A kept object: can its bytes be had again?  No effect on one of less than CONTENT_SEPARATE bytes. */
void content_back(content_t *c, struct content_obj *o);
/* Drop what exceeds the bound.  Pointers to objects that are neither held nor kept are void after
 * this, and so are the bytes of backed objects. */
void content_trim(content_t *c);
/* Drop what nobody needs, at most so many objects; returns their number. */
size_t content_drop(content_t *c, size_t max);

/* Give memory back to the system when much less is needed than was since the last time; to be
 * called when there is time.  That takes milliseconds, and is done only when 1 MiB and an eighth of
 * what is left were freed.  true: it was. */
bool content_tidy(content_t *c);

/* The time, in units of the caller's choice, from a beginning of the caller's choice.  Never goes
 * back. */
void content_set_clock(content_t *c, uint32_t now);
/* Drop what nobody needs and nobody used since before `before`.  The cost is that of what is
 * dropped, `max` objects at most.  Returns their number. */
size_t content_expire(content_t *c, uint32_t before, size_t max);

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
    size_t objects, bytes;           /* all whose bytes are here; with what a record costs */
    size_t free_objects, free_bytes; /* needed by nobody, or backed: what the bound is for */
    size_t absent_objects;           /* kept, bytes elsewhere */
    size_t awaited;                  /* objects that are being fetched */
    uint64_t hits, misses;
    uint64_t dropped; /* for the bound, or by content_drop() */
    uint64_t expired;
};
void content_get_stats(const content_t *c, struct content_stats *st);

#endif
