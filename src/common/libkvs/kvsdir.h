/* Directories while they are changed: a copy in memory of the parts that a root change touches.
 *
 * A directory opened here is changed in place any number of times and encoded once, at the end: a
 * commit of a thousand keys into one directory hashes each touched object once.
 *
 * Thread rules: those of the content store.
 */
#ifndef KVS_KVSDIR_H
#define KVS_KVSDIR_H

#include "arena.h"
#include "libcontent/content.h"
#include "treeobj.h"

struct kvsdir;

/* An entry of a directory under change.  `e.data`, `e.name` and `e.digest` point at memory that
 * lives until the flush. */
struct kvsent {
    struct treeobj_entry
        e;              /* type TREEOBJ_VALUE may have any length: flush decides how it is kept */
    struct kvsdir *dir; /* TREEOBJ_DIR under change: then e.digest is not looked at */
};

/* What the functions work with; filled in by the owner. */
struct kvsdir_ctx {
    content_t *content;
    arena_t *arena;
    size_t dsize;
    /* Keep these bytes as an object (whose children are kept).  NULL with errno. */
    struct content_obj *(*keep)(void *arg, const void *data, size_t len);
    void *arg;
    uint8_t *scratch; /* malloc'd by flush, freed by the owner */
    size_t scratch_size;
};

/* All fail with ENOMEM, or EIO for an object that is missing or is not what it should be. */

/* Open the directory with this digest; NULL: an empty one. */
struct kvsdir *kvsdir_open(struct kvsdir_ctx *x, const uint8_t *digest);
uint32_t kvsdir_count(const struct kvsdir *d);
/* 1 with *out, 0 when there is none, -1. */
int kvsdir_get(struct kvsdir_ctx *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *out);
/* Insert or replace; the name is e.name.  1 with *old when it replaced, 0, -1. */
int kvsdir_set(struct kvsdir_ctx *x, struct kvsdir *d, const struct kvsent *ent,
               struct kvsent *old);
/* 1 with *old when it was there, 0, -1. */
int kvsdir_del(struct kvsdir_ctx *x, struct kvsdir *d, const char *name, size_t len,
               struct kvsent *old);
/* Open the directory that entry `name` of `d` is, for changes that become changes of `d`.  NULL
 * also with ENOTDIR. */
struct kvsdir *kvsdir_sub(struct kvsdir_ctx *x, struct kvsdir *d, const char *name, size_t len);
/* Encode what was changed, children first.  The object of the directory, or NULL. */
struct content_obj *kvsdir_flush(struct kvsdir_ctx *x, struct kvsdir *d);

#endif
