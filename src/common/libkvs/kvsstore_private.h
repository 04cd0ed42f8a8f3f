/* Declarations that the files of the store share.  See kvsstore.c. */
#ifndef KVS_KVSSTORE_PRIVATE_H
#define KVS_KVSSTORE_PRIVATE_H

#include "kvs_pack.h"
#include "kvsdir.h"
#include "kvsstore.h"
#include "libutil/hmap.h"

struct undo {
    struct undo *prev;
    struct kvsdir *dir;
    struct kvsent ent; /* had: the former entry; else only its name counts */
    bool had;
};

/* Chunks to which a transaction referred. */
struct chunk_use {
    struct chunk_use *prev;
    const uint8_t *digests;
    size_t n;
};

/* The transaction that is being applied. */
struct applying {
    enum { APPLY_NONE, APPLY_TXN, APPLY_PACK, APPLY_UNDO } state;
    struct kvs_txn_iter txn;
    struct kvs_pack_iter pack;
    struct treeobj_entry *values; /* of the pack, in the arena */
    struct chunk_use *uses;       /* of those chunks */
    int errnum;                   /* why it is being undone */
    bool undone;                  /* an operation was undone */
};

#define KVSSTORE_UPLOAD_COST 256

struct kvsstore {
    content_t *content;
    struct kvsmaker make;
    struct content_obj *root;
    uint64_t version;
    struct content_obj *zero, **zero_end;
    unsigned made;     /* objects kept since the last collection */
    uint64_t owed;     /* objects that are still to be collected for earlier ones */
    unsigned referred; /* children counted for the object that is being kept */
    /* the current root change: */
    struct kvsdir *top;
    struct undo *journal;
    struct chunk_use *uses;
    struct applying now;
    unsigned applied;
    bool spoilt;
    bool (*more)(void *arg);
    void *more_arg;
    unsigned steps;
    bool long_keys;
    struct kvsmiss miss;
    /* uploads: */
    hmap_t *upload;
    struct list_node upload_order;
    uint64_t upload_limit; /* bytes, with KVSSTORE_UPLOAD_COST for each chunk */
    /* persistence: */
    struct list_node dirty, pending;
    void (*dead)(void *arg, const uint8_t *digest);
    void *dead_arg;
    bool loading;
    struct {
        enum { LOAD_BEGIN, LOAD_COUNT, LOAD_REACH } state;
        struct content_obj *at; /* the next on the zero list to examine */
        bool missing;           /* an object with a reference is missing */
        struct kvsstore_reach *reach;
    } load; /* kvsstore_load_root() */
    struct kvsstore_stats st;
};

/* --- kvsstore.c --- */

/* May another step be done now? */
bool kvsstore_step(kvsstore_t *s);
/* Remove one reference. */
void kvsstore_let_go(kvsstore_t *s, struct content_obj *o);
void kvsstore_zero_append(kvsstore_t *s, struct content_obj *o);
/* Find an object that is kept, or keep one again that was dropped and refers to no other. */
struct content_obj *kvsstore_keep_blob(kvsstore_t *s, const uint8_t *digest);
int kvsstore_no_memory(errmsg_t *err);

/* --- kvsstore_ops.c --- */

int kvsstore_op(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err);
/* Put a settled value (kvsvalue_settle()) to the key of a plain put. */
int kvsstore_op_put(kvsstore_t *s, const struct kvs_op *op, const struct treeobj_entry *value,
                    errmsg_t *err);

/* --- kvsstore_pack.c --- */

int kvsstore_pack_begin(kvsstore_t *s, const void *pack, size_t len, errmsg_t *err);
/* Apply the next operation of the pack.  1, 0 when there is none, -1. */
int kvsstore_pack_step(kvsstore_t *s, errmsg_t *err);

/* --- kvsstore_disk.c --- */

void kvsstore_disk_new(kvsstore_t *s, struct content_obj *o);
/* The object is about to be freed. */
void kvsstore_disk_dead(kvsstore_t *s, struct content_obj *o);

/* --- kvsstore_reach.c --- */

/* Compute the depth of an object that was created, or that came from disk after all others. */
void kvsstore_reach_made(kvsstore_t *s, struct content_obj *o);
/* The object came from disk, and its children may not be here yet. */
void kvsstore_reach_unknown(struct content_obj *o);
/* Compute the depth of all objects on the zero list, after the last one came from disk.  0;
 * KVSSTORE_MORE: call again; -1 with ENOMEM. */
int kvsstore_reach_load(kvsstore_t *s);
void kvsstore_reach_end(kvsstore_t *s); /* abandon the computation */
/* May an entry be set where the key is `bytes` long and has `names` names?  0, or -1 with
 * ENAMETOOLONG and an error message that begins with `key`. */
int kvsstore_reach_check(kvsstore_t *s, const struct treeobj_entry *e, size_t names, size_t bytes,
                         const char *key, size_t keylen, errmsg_t *err);

/* --- kvsstore_upload.c --- */

int kvsstore_upload_init(kvsstore_t *s);
void kvsstore_upload_fini(kvsstore_t *s);
void kvsstore_upload_used(kvsstore_t *s, const uint8_t *digest);

#endif
