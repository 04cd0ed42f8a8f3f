/* Directories under change: copies in memory of the parts that a root change touches.
 *
 * An open directory is changed in place any number of times and encoded once, at the end: a commit
 * of a thousand keys into one directory hashes each touched object once.
 *
 * Thread rules: those of the content store.
 */
#ifndef KVS_KVSDIR_H
#define KVS_KVSDIR_H

#include "kvsvalue.h"

struct kvsdir;

/* An entry of a directory under change.  Its pointers point at memory that lives until the flush is
 * over. */
struct kvsent {
    struct treeobj_entry e; /* TREEOBJ_VALUE may have any length: flush decides how it is kept */
    union {
        struct kvsdir *dir;          /* of a TREEOBJ_DIR under change: e.digest is ignored */
        const struct kvspiece *tail; /* of a value: bytes that are appended to the value of `e` */
    };
};

/* All functions fail with ENOMEM, or with EIO for an object that is missing or of the wrong
 * kind. */

/* Open the directory with this digest; NULL: an empty one. */
struct kvsdir *kvsdir_open(struct kvsmaker *x, const uint8_t *digest);
uint32_t kvsdir_count(const struct kvsdir *d);
/* 1 with *out, 0 when there is none, -1. */
int kvsdir_get(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *out);
/* The same for an entry that is about to be changed: the directories on its path are opened for
 * changes. */
int kvsdir_look(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
                struct kvsent *out);
/* Insert or replace; the name is e.name.  1 with *old when it replaced, 0, -1. */
int kvsdir_set(struct kvsmaker *x, struct kvsdir *d, const struct kvsent *ent, struct kvsent *old);
/* Remove an entry.  1 with *old when it existed, 0, -1. */
int kvsdir_del(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *old);
/* Open the subdirectory `name` of `d`; its changes become changes of `d`.  NULL also with
 * ENOTDIR. */
struct kvsdir *kvsdir_sub(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len);
/* As kvsdir_get(), with the entry in the form for its object: a digest for a directory under change
 * and for a large value, which are encoded now. */
int kvsdir_settle(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
                  struct kvsent *out);
/* Encode the changes since the last flush, children first.  Returns the digest of the directory, or
 * NULL; with EAGAIN when x->more() returned false: another call continues from there.  Afterwards
 * the directory may be changed again. */
const uint8_t *kvsdir_flush(struct kvsmaker *x, struct kvsdir *d);
/* Discard all encoded forms, after changes that were not made through the top directory. */
void kvsdir_forget(struct kvsmaker *x);

#endif
