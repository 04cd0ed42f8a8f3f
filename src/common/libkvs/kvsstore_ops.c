/* kvsstore_ops.c - the operations of a transaction.
 *
 * operation   at the end of its key, a link is   an existing entry is
 * put         followed                           replaced; EISDIR
 * append      followed                           extended; EISDIR
 * putchunks   followed                           replaced; EISDIR
 * mkdir       followed                           accepted if a directory; EEXIST
 * symlink     the entry                          replaced; EISDIR
 * unlink      the entry                          removed; ENOTEMPTY
 * copy, move  the entry (on both sides)          replaced if neither entry is a directory; EEXIST,
 *                                                EISDIR
 * guard       followed, but for a link's tag     compared; EAGAIN
 *
 * Links before the end are followed, at most 16 of them.  Operations that write create the missing
 * directories of their key.
 *
 * Invariants:
 *  1. An operation sees the effects of all preceding operations of its transaction, and of the
 *     preceding transactions of the same root change.
 *  2. Each change of an entry is in the undo journal before the next operation begins.
 *  3. Copying and moving cost the same for a value of one byte and a directory of a million keys:
 *     the target entry gets the digest of the source; changes of this root change below the source
 *     are encoded once, then or at the end.
 *  4. No operation creates a key that exceeds the limits of keys, whatever directory it places, and
 *     through whatever links.  So directories under change are nested at most 64 deep, and
 *     functions that walk them, such as the flush, may recurse.
 *
 * Failure: an error message that names the key.  The caller undoes the preceding operations.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "kvsstore_private.h"

#define LINKS_MAX 16

static int note(kvsstore_t *s, struct kvsdir *dir, const struct kvsent *ent, bool had)
{
    struct undo *u = arena_alloc(s->make.arena, sizeof(*u));
    if (!u)
        return -1;
    u->prev = s->journal;
    u->dir = dir;
    u->ent = *ent;
    u->had = had;
    s->journal = u;
    return 0;
}

static int set(kvsstore_t *s, struct kvsdir *dir, const struct kvsent *ent, errmsg_t *err)
{
    struct kvsent old;
    int rc = kvsdir_set(&s->make, dir, ent, &old);
    if (rc < 0)
        return kvsstore_no_memory(err);
    if (note(s, dir, rc ? &old : ent, rc == 1) < 0) {
        s->spoilt = true;
        return kvsstore_no_memory(err);
    }
    return 0;
}

/* The place at which an operation works. */
struct place {
    struct kvsdir *dir; /* NULL: a directory on the path does not exist */
    const char *name;
    size_t len;
    size_t names, bytes; /* of the key that is left when all links are resolved */
    int has;             /* `ent` exists */
    struct kvsent ent;
    unsigned links;             /* followed so far */
    const struct kvsdir *avoid; /* fail with EINVAL when the path leads through this directory */
};

static int fail_key(errmsg_t *err, int errnum, const char *key, size_t len, const char *what)
{
    return errmsg_fail(err, errnum, "'%.*s': %s", len > 120 ? 120 : (int)len, key, what);
}

static int fail_op(const struct kvs_op *op, errmsg_t *err, int errnum, const char *what)
{
    return fail_key(err, errnum, op->key, op->keylen, what);
}

/* Replace the key by `target`, followed by "." and the part behind the link, if there is one. */
static int follow(kvsstore_t *s, const struct treeobj_entry *link, const char **key, size_t *len,
                  const char *rest, size_t restlen, unsigned *links, errmsg_t *err)
{
    if (++*links > LINKS_MAX)
        return fail_key(err, ELOOP, *key, *len, "too many symbolic links on the path");
    size_t n = link->len + (rest ? 1 + restlen : 0);
    if (n > KVS_KEY_MAX)
        return fail_key(err, ENAMETOOLONG, *key, *len,
                        "symbolic links lead to a key that is too long");
    char *fresh = arena_alloc(s->make.arena, n);
    if (!fresh)
        return kvsstore_no_memory(err);
    memcpy(fresh, link->data, link->len);
    if (rest) {
        fresh[link->len] = '.';
        memcpy(fresh + link->len + 1, rest, restlen);
    }
    *key = fresh;
    *len = n;
    return 0;
}

enum { MAKE = 1, THROUGH = 2 };

/* Find the place at which an operation works; MAKE creates missing directories, THROUGH follows a
 * link at the end. */
static int find_place(kvsstore_t *s, const char *key, size_t keylen, unsigned how, struct place *p,
                      errmsg_t *err)
{
    size_t left;
again:
    p->dir = s->top;
    p->names = 0;
    p->bytes = left = keylen;
    for (const char *k = key;;) {
        const char *rest;
        size_t restlen;
        p->name = k;
        p->len = kvs_key_name(k, left, &rest, &restlen);
        if (++p->names > KVS_DEPTH_MAX && how & MAKE && !s->long_keys)
            return fail_key(err, ENAMETOOLONG, key, keylen,
                            "symbolic links lead to a key of more than 64 names");
        p->has =
            (how & MAKE ? kvsdir_look : kvsdir_get)(&s->make, p->dir, p->name, p->len, &p->ent);
        if (p->has < 0)
            return kvsstore_no_memory(err);
        if (p->has && p->ent.e.type == TREEOBJ_LINK && (rest || how & THROUGH)) {
            if (follow(s, &p->ent.e, &key, &keylen, rest, restlen, &p->links, err) < 0)
                return -1;
            goto again;
        }
        if (!rest)
            return 0;
        if (!p->has) {
            if (!(how & MAKE)) {
                p->dir = NULL;
                return 0;
            }
            struct kvsent dir = {
                .e = {.name = p->name, .namelen = (uint8_t)p->len, .type = TREEOBJ_DIR}};
            if (!(dir.dir = kvsdir_open(&s->make, NULL)))
                return kvsstore_no_memory(err);
            if (set(s, p->dir, &dir, err) < 0)
                return -1;
            p->dir = dir.dir;
        } else if (p->ent.e.type != TREEOBJ_DIR) {
            return fail_key(err, ENOTDIR, key, keylen,
                            "a name on the path is a value, not a directory");
        } else if (!(p->dir = kvsdir_sub(&s->make, p->dir, p->name, p->len))) {
            return kvsstore_no_memory(err);
        }
        if (p->dir == p->avoid)
            return fail_key(err, EINVAL, key, keylen, "a directory cannot be moved into itself");
        k = rest;
        left = restlen;
    }
}

/* An entry of this type, with the name of this place. */
static struct kvsent entry_at(const struct place *p, enum treeobj_type type)
{
    return (struct kvsent){
        .e = {.name = p->name, .namelen = (uint8_t)p->len, .type = (uint8_t)type}};
}

/* Find the place for a value. */
static int value_place(kvsstore_t *s, const struct kvs_op *op, struct place *p, errmsg_t *err)
{
    if (find_place(s, op->key, op->keylen, MAKE | THROUGH, p, err) < 0)
        return -1;
    if (p->has && p->ent.e.type == TREEOBJ_DIR)
        return fail_op(op, err, EISDIR, "it is a directory: unlink it first");
    return 0;
}

static int op_put(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (value_place(s, op, &p, err) < 0)
        return -1;
    struct kvsent ent = entry_at(&p, TREEOBJ_VALUE);
    ent.e.len = op->len;
    ent.e.data = op->value;
    return set(s, p.dir, &ent, err);
}

int kvsstore_op_put(kvsstore_t *s, const struct kvs_op *op, const struct treeobj_entry *value,
                    errmsg_t *err)
{
    struct place p = {.links = 0};
    if (value_place(s, op, &p, err) < 0)
        return -1;
    struct kvsent ent = entry_at(&p, value->type);
    ent.e.len = value->len;
    ent.e.data = value->data;
    ent.e.digest = value->digest;
    return set(s, p.dir, &ent, err);
}

static int op_append(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (value_place(s, op, &p, err) < 0)
        return -1;
    if (!p.has) {
        struct kvsent ent = entry_at(&p, TREEOBJ_VALUE);
        ent.e.len = op->len;
        ent.e.data = op->value;
        return set(s, p.dir, &ent, err);
    }
    uint64_t has = p.ent.tail ? p.ent.tail->total : p.ent.e.len;
    if (op->len > KVS_SIZE_MAX - has)
        return fail_op(op, err, EFBIG, "the value would be longer than 1 TiB");
    if (!p.ent.tail && kvsvalue_can_append(s->content, &p.ent.e, &s->miss, err) < 0) {
        if (errno == EAGAIN)
            return fail_op(op, err, ENODATA, "the end of its value must first be read from disk");
        return -1;
    }
    struct kvspiece *piece = arena_alloc(s->make.arena, sizeof(*piece));
    if (!piece)
        return kvsstore_no_memory(err);
    *piece = (struct kvspiece){
        .prev = p.ent.tail, .data = op->value, .len = op->len, .total = has + op->len};
    p.ent.tail = piece;
    return set(s, p.dir, &p.ent, err);
}

static int check_chunk(kvsstore_t *s, const struct kvs_op *op, const uint8_t *digest, uint64_t size,
                       errmsg_t *err)
{
    struct content_obj *o = kvsstore_keep_blob(s, digest);
    if (!o)
        return fail_op(
            op, err, ENOENT,
            "a chunk of its value is not in the store: it has expired, or was never sent");
    if (o->len != TREEOBJ_HEADER + size)
        return fail_op(op, err, EINVAL, "a chunk of its value has the wrong size");
    return 0;
}

static int op_putchunks(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    struct kvs_op_chunks ch;
    kvs_op_get_chunks(op, &ch);
    if (ch.dsize != s->make.dsize)
        return fail_op(op, err, EINVAL,
                       "its chunks are named by a different hash function than that of this store");
    for (size_t i = 0; i < ch.n; i++) {
        uint64_t left = ch.size - i * TREEOBJ_CHUNK;
        if (check_chunk(s, op, ch.digests + i * ch.dsize,
                        left < TREEOBJ_CHUNK ? left : TREEOBJ_CHUNK, err) < 0)
            return -1;
    }
    if (ch.size <= TREEOBJ_INLINE_MAX && !kvsmiss_get(s->content, ch.digests, &s->miss))
        return fail_op(op, err, ENODATA, "its value must first be read from disk");
    if (value_place(s, op, &p, err) < 0)
        return -1;
    struct kvsent ent = entry_at(&p, TREEOBJ_VALUE);
    struct chunk_use *use = arena_alloc(s->make.arena, sizeof(*use));
    if (!use || kvsvalue_index(&s->make, ch.digests, ch.n, ch.size, &ent.e) < 0)
        return kvsstore_no_memory(err);
    *use = (struct chunk_use){.prev = s->uses, .digests = ch.digests, .n = ch.n};
    s->uses = use;
    return set(s, p.dir, &ent, err);
}

static int op_mkdir(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (find_place(s, op->key, op->keylen, MAKE | THROUGH, &p, err) < 0)
        return -1;
    if (p.has && p.ent.e.type == TREEOBJ_DIR)
        return 0;
    if (p.has)
        return fail_op(op, err, EEXIST, "it exists and is not a directory");
    struct kvsent ent = entry_at(&p, TREEOBJ_DIR);
    if (!(ent.dir = kvsdir_open(&s->make, NULL)))
        return kvsstore_no_memory(err);
    return set(s, p.dir, &ent, err);
}

static int op_symlink(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (find_place(s, op->key, op->keylen, MAKE, &p, err) < 0)
        return -1;
    if (p.has && p.ent.e.type == TREEOBJ_DIR)
        return fail_op(op, err, EISDIR, "it is a directory: unlink it first");
    struct kvsent ent = entry_at(&p, TREEOBJ_LINK);
    ent.e.len = op->len;
    ent.e.data = op->value;
    return set(s, p.dir, &ent, err);
}

static int remove_at(kvsstore_t *s, const struct place *p, errmsg_t *err)
{
    struct kvsent old;
    if (kvsdir_del(&s->make, p->dir, p->name, p->len, &old) < 0)
        return kvsstore_no_memory(err);
    if (note(s, p->dir, &old, true) < 0) {
        s->spoilt = true;
        return kvsstore_no_memory(err);
    }
    return 0;
}

static int op_unlink(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (find_place(s, op->key, op->keylen, 0, &p, err) < 0)
        return -1;
    if (!p.dir || !p.has) {
        if (op->flags & KVS_OP_MUST)
            return fail_op(op, err, ENOENT, "no such key");
        return 0;
    }
    if (p.ent.e.type == TREEOBJ_DIR && !(op->flags & KVS_OP_RECURSIVE)) {
        struct kvsdir *d = kvsdir_sub(&s->make, p.dir, p.name, p.len);
        if (!d)
            return kvsstore_no_memory(err);
        if (kvsdir_count(d) > 0)
            return fail_op(op, err, ENOTEMPTY, "the directory is not empty: unlink it recursively");
    }
    return remove_at(s, &p, err);
}

/* --- by reference --- */

/* Find the entry that is copied or moved. */
static int find_source(kvsstore_t *s, const struct kvs_op *op, struct place *from, errmsg_t *err)
{
    const char *key = (const char *)op->value;
    if (find_place(s, key, op->len, 0, from, err) < 0)
        return -1;
    return from->dir && from->has ? 0 : fail_key(err, ENOENT, key, op->len, "no such key");
}

/* May this settled entry be put at `to`? */
static int check_target(kvsstore_t *s, const struct kvs_op *op, const struct place *to,
                        const struct treeobj_entry *e, errmsg_t *err)
{
    if (to->has && to->ent.e.type == TREEOBJ_DIR)
        return fail_op(op, err, EISDIR, "it is a directory: unlink it first");
    if (to->has && e->type == TREEOBJ_DIR)
        return fail_op(op, err, EEXIST, "it exists and is not a directory");
    return kvsstore_reach_check(s, e, to->names, to->bytes, op->key, op->keylen, err);
}

static int op_copy(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place from = {.links = 0}, to = {.links = 0};
    struct kvsent ent = {.e = {.type = TREEOBJ_DIR}};
    if (kvs_key_is_root((const char *)op->value, op->len)) {
        if (!(ent.e.digest = kvsdir_flush(&s->make, s->top)))
            return kvsstore_no_memory(err);
    } else {
        if (find_source(s, op, &from, err) < 0)
            return -1;
        if (kvsdir_settle(&s->make, from.dir, from.name, from.len, &ent) < 0)
            return kvsstore_no_memory(err);
    }
    ent.dir = NULL;
    if (find_place(s, op->key, op->keylen, MAKE, &to, err) < 0 ||
        check_target(s, op, &to, &ent.e, err) < 0)
        return -1;
    ent.e.name = to.name;
    ent.e.namelen = (uint8_t)to.len;
    return set(s, to.dir, &ent, err);
}

static int op_move(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place from = {.links = 0}, to = {.links = 0};
    if (find_source(s, op, &from, err) < 0)
        return -1;
    if (from.ent.e.type == TREEOBJ_DIR) {
        to.avoid = kvsdir_sub(&s->make, from.dir, from.name, from.len);
        if (!to.avoid || kvsdir_settle(&s->make, from.dir, from.name, from.len, &from.ent) < 0)
            return kvsstore_no_memory(err);
    }
    if (find_place(s, op->key, op->keylen, MAKE, &to, err) < 0)
        return -1;
    if (to.dir == from.dir && to.len == from.len && memcmp(to.name, from.name, to.len) == 0)
        return 0;
    if (check_target(s, op, &to, &from.ent.e, err) < 0 || remove_at(s, &from, err) < 0)
        return -1;
    struct kvsent ent = s->journal->ent; /* the removed entry */
    ent.e.name = to.name;
    ent.e.namelen = (uint8_t)to.len;
    return set(s, to.dir, &ent, err);
}

static int op_guard(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    uint8_t tag[KVS_TAG_SIZE];
    bool absent = op->flags & KVS_OP_ABSENT;
    bool link = !absent && op->value[0] == KVS_TAG_LINK;
    if (find_place(s, op->key, op->keylen, link ? 0 : THROUGH, &p, err) < 0) {
        if (errno != ENOTDIR)
            return -1;
        p.has = 0; /* as after a look-up */
    }
    if (!p.dir || !p.has)
        return absent ? 0 : fail_op(op, err, EAGAIN, "it does not exist, and a guard requires it");
    if (absent)
        return fail_op(op, err, EAGAIN, "it exists, and a guard requires it not to exist");
    if (kvsdir_settle(&s->make, p.dir, p.name, p.len, &p.ent) < 0 ||
        kvsvalue_tag(content_blobref(s->content), &p.ent.e, tag) < 0)
        return kvsstore_no_memory(err);
    if (memcmp(tag, op->value, KVS_TAG_SIZE) != 0)
        return fail_op(op, err, EAGAIN, "its version differs from the one that a guard requires");
    return 0;
}

int kvsstore_op(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    static int (*const ops[])(kvsstore_t *, const struct kvs_op *, errmsg_t *) = {
        [KVS_OP_PUT] = op_put,
        [KVS_OP_UNLINK] = op_unlink,
        [KVS_OP_MKDIR] = op_mkdir,
        [KVS_OP_SYMLINK] = op_symlink,
        [KVS_OP_APPEND] = op_append,
        [KVS_OP_GUARD] = op_guard,
        [KVS_OP_COPY] = op_copy,
        [KVS_OP_MOVE] = op_move,
        [KVS_OP_PUTCHUNKS] = op_putchunks,
    };
    return ops[op->type](s, op, err);
}
