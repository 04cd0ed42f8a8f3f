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
        struct kvsdir *dir;          /* TREEOBJ_DIR under change: e.digest is ignored */
        const struct kvspiece *tail; /* of a value: what was appended to what `e` says */
    };
};

/* All fail with ENOMEM, or EIO for an object that is missing or is not what it should be. */

/* Open the directory with this digest; NULL: an empty one. */
struct kvsdir *kvsdir_open(struct kvsmaker *x, const uint8_t *digest);
uint32_t kvsdir_count(const struct kvsdir *d);
/* 1 with *out, 0 when there is none, -1. */
int kvsdir_get(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *out);
/* The same for an entry that is about to be changed: what is on the way to it is opened for
 * that. */
int kvsdir_look(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
                struct kvsent *out);
/* Insert or replace; the name is e.name.  1 with *old when it replaced, 0, -1. */
int kvsdir_set(struct kvsmaker *x, struct kvsdir *d, const struct kvsent *ent, struct kvsent *old);
/* 1 with *old when it was there, 0, -1. */
int kvsdir_del(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *old);
/* Open the directory that entry `name` of `d` is, for changes that become changes of `d`.  NULL
 * also with ENOTDIR. */
struct kvsdir *kvsdir_sub(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len);
/* As kvsdir_get(), with what the entry will be in its object: a digest for a directory under change
 * and for a large value, which are encoded now. */
int kvsdir_settle(struct kvsmaker *x, struct kvsdir *d, const char *name, size_t len,
                  struct kvsent *out);
/* Encode what was changed since the last flush, children first.  The digest of the directory, or
 * NULL; with EAGAIN when x->more() said no: another call goes on from there.  It may be changed
 * again after this. */
const uint8_t *kvsdir_flush(struct kvsmaker *x, struct kvsdir *d);
/* Changes were made otherwise than by way of the top directory: forget what was encoded. */
void kvsdir_forget(struct kvsmaker *x);

#endif
