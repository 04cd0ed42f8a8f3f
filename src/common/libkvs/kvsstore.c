/* kvsstore.c - the store: transactions make a new root, and what no root needs is given back.
 *
 * state of an object    mark  holds                    in limbo
 * kept, referred to     1     1 + number of referrers  after it was made, until looked at
 * kept, not referred to 1     1                        yes
 * left over             0     0                        no: content.c drops it when it likes
 *
 * Garbage.  References are counted exactly: a kept object holds its children, and the store holds
 * the root.  An object whose count falls to its own hold goes to `limbo`; kvsstore_collect() takes
 * objects from there, lets go of their children, and leaves them to the content store, where they
 * stay for a while within its bound, so that a reader that is one root behind still finds them.
 * Each step is short, and there is never a mark-and-sweep pause.
 *
 * Invariants:
 *  1. All that the root reaches is kept.
 *  2. A left-over object that comes up again (equal contents) is kept anew, with its children: they
 * are there, because flush makes children before parents and a parent refers only to what it was
 * just given.
 *  3. Between begin() and end() nothing is collected or dropped.
 *  4. A transaction that fails is undone by its journal, so that others in the same root change are
 *     not touched.
 *
 * Failure: when memory is out the root change fails as a whole and the old root stands.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_pack.h"
#include "kvsdir.h"
#include "kvsstore.h"

#define LINKS_MAX 16

struct undo {
    struct undo *prev;
    struct kvsdir *dir;
    struct kvsent ent; /* had: as it was; else only its name counts */
    bool had;
};

struct kvsstore {
    content_t *content;
    struct kvsdir_ctx ctx;
    struct content_obj *root;
    uint64_t version;
    struct list_node limbo;
    unsigned made; /* objects kept since the last collection */
    /* the root change under way */
    struct kvsdir *top;
    struct undo *journal;
    unsigned applied;
    bool spoilt;
};

/* --- keeping and giving back --- */

static void to_limbo(kvsstore_t *s, struct content_obj *o)
{
    if (list_empty(&o->link))
        list_append(&s->limbo, &o->link);
}

static int child_there(const uint8_t *digest, void *arg)
{
    kvsstore_t *s = arg;
    return content_get(s->content, digest) ? 0 : 1;
}

static int child_hold(const uint8_t *digest, void *arg)
{
    kvsstore_t *s = arg;
    content_hold(s->content, content_get(s->content, digest));
    return 0;
}

static struct content_obj *keep(void *arg, const void *data, size_t len)
{
    kvsstore_t *s = arg;
    struct content_obj *o = content_add(s->content, data, len);
    if (!o || o->mark)
        return o;
    if (treeobj_refs(o->data, s->ctx.dsize, child_there, s)) {
        errno = EIO;
        return NULL;
    }
    content_hold(s->content, o);
    o->mark = 1;
    s->made++;
    (void)treeobj_refs(o->data, s->ctx.dsize, child_hold, s);
    to_limbo(s, o);
    return o;
}

/* One referrer less. */
static void let_go(kvsstore_t *s, struct content_obj *o)
{
    content_release(s->content, o);
    if (o->holds == 1)
        to_limbo(s, o);
}

static int child_let_go(const uint8_t *digest, void *arg)
{
    kvsstore_t *s = arg;
    struct content_obj *o = content_get(s->content, digest);
    if (o)
        let_go(s, o);
    return 0;
}

bool kvsstore_collect(kvsstore_t *s, unsigned budget)
{
    struct list_node *n;
    /* Each object comes to limbo once after it was made and once when it dies: with this much, what
     * is to be given back cannot pile up however large the root changes are. */
    budget += 3 * s->made;
    s->made = 0;
    while (budget > 0 && (n = list_first(&s->limbo))) {
        struct content_obj *o = list_entry(n, struct content_obj, link);
        list_remove(n);
        budget--;
        if (o->holds > 1)
            continue;
        (void)treeobj_refs(o->data, s->ctx.dsize, child_let_go, s);
        o->mark = 0;
        content_release(s->content, o);
    }
    content_trim(s->content);
    return !list_empty(&s->limbo);
}

/* --- life --- */

kvsstore_t *kvsstore_create(content_t *c)
{
    kvsstore_t *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->content = c;
    list_init(&s->limbo);
    s->ctx.content = c;
    s->ctx.dsize = blobref_size(content_blobref(c));
    s->ctx.keep = keep;
    s->ctx.arg = s;
    s->ctx.arena = arena_create();
    if (!s->ctx.arena)
        goto fail;
    struct kvsdir *empty = kvsdir_open(&s->ctx, NULL);
    s->root = empty ? kvsdir_flush(&s->ctx, empty) : NULL;
    if (!s->root)
        goto fail;
    content_hold(c, s->root);
    arena_reset(s->ctx.arena);
    return s;
fail:
    kvsstore_destroy(s);
    return NULL;
}

void kvsstore_destroy(kvsstore_t *s)
{
    if (!s)
        return;
    int saved = errno;
    arena_destroy(s->ctx.arena);
    free(s->ctx.scratch);
    free(s);
    errno = saved;
}

const uint8_t *kvsstore_root(const kvsstore_t *s)
{
    return s->root->digest;
}

uint64_t kvsstore_version(const kvsstore_t *s)
{
    return s->version;
}

/* --- one operation --- */

static int out_of_memory(errmsg_t *err)
{
    int errnum = errno ? errno : ENOMEM;
    if (errnum == EIO)
        return errmsg_fail(err, EIO, "a tree object of the store is missing or damaged");
    return errmsg_fail(err, errnum, "the store could not get memory for a change");
}

static int note(kvsstore_t *s, struct kvsdir *dir, const struct kvsent *ent, bool had)
{
    struct undo *u = arena_alloc(s->ctx.arena, sizeof(*u));
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
    int rc = kvsdir_set(&s->ctx, dir, ent, &old);
    if (rc < 0)
        return out_of_memory(err);
    if (note(s, dir, rc ? &old : ent, rc == 1) < 0) {
        s->spoilt = true;
        return out_of_memory(err);
    }
    return 0;
}

/* Where an operation works. */
struct place {
    struct kvsdir *dir; /* NULL: a directory on the way is not there */
    const char *name;
    size_t len;
    int has; /* `ent` is there */
    struct kvsent ent;
    unsigned links; /* followed so far */
};

static int fail_op(const struct kvs_op *op, errmsg_t *err, int errnum, const char *what)
{
    return errmsg_fail(err, errnum, "'%.*s': %s", op->keylen > 120 ? 120 : op->keylen, op->key,
                       what);
}

/* Replace key by `target` and, when there is one, "." and what follows the link. */
static int follow(kvsstore_t *s, const struct kvs_op *op, const struct treeobj_entry *link,
                  const char **key, size_t *len, const char *rest, size_t restlen, unsigned *links,
                  errmsg_t *err)
{
    if (++*links > LINKS_MAX)
        return fail_op(op, err, ELOOP, "too many symbolic links on the way");
    size_t n = link->len + (rest ? 1 + restlen : 0);
    if (n > KVS_KEY_MAX)
        return fail_op(op, err, ENAMETOOLONG, "symbolic links lead to a key that is too long");
    char *fresh = arena_alloc(s->ctx.arena, n);
    if (!fresh)
        return out_of_memory(err);
    memcpy(fresh, link->data, link->len);
    if (rest) {
        fresh[link->len] = '.';
        memcpy(fresh + link->len + 1, rest, restlen);
    }
    *key = fresh;
    *len = n;
    return 0;
}

/* Find where the operation works, making directories when `make`, following a link at the end
 * when `through`. */
static int find_place(kvsstore_t *s, const struct kvs_op *op, bool make, bool through,
                      struct place *p, errmsg_t *err)
{
    const char *key = op->key;
    size_t keylen = op->keylen;
again:
    p->dir = s->top;
    for (const char *k = key;;) {
        const char *rest;
        size_t restlen;
        p->name = k;
        p->len = kvs_key_name(k, keylen, &rest, &restlen);
        p->has = kvsdir_get(&s->ctx, p->dir, p->name, p->len, &p->ent);
        if (p->has < 0)
            return out_of_memory(err);
        if (p->has && p->ent.e.type == TREEOBJ_LINK && (rest || through)) {
            if (follow(s, op, &p->ent.e, &key, &keylen, rest, restlen, &p->links, err) < 0)
                return -1;
            goto again;
        }
        if (!rest)
            return 0;
        if (!p->has) {
            if (!make) {
                p->dir = NULL;
                return 0;
            }
            struct kvsent dir = {
                .e = {.name = p->name, .namelen = (uint8_t)p->len, .type = TREEOBJ_DIR}};
            if (!(dir.dir = kvsdir_open(&s->ctx, NULL)))
                return out_of_memory(err);
            if (set(s, p->dir, &dir, err) < 0)
                return -1;
            p->dir = dir.dir;
        } else if (p->ent.e.type != TREEOBJ_DIR) {
            return fail_op(op, err, ENOTDIR, "a name on the way is a value, not a directory");
        } else if (!(p->dir = kvsdir_sub(&s->ctx, p->dir, p->name, p->len))) {
            return out_of_memory(err);
        }
        k = rest;
        keylen = restlen;
    }
}

static int op_put(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (find_place(s, op, true, true, &p, err) < 0)
        return -1;
    if (p.has && p.ent.e.type == TREEOBJ_DIR)
        return fail_op(op, err, EISDIR, "it is a directory: unlink it first");
    struct kvsent ent = {.e = {.name = p.name,
                               .namelen = (uint8_t)p.len,
                               .type = TREEOBJ_VALUE,
                               .len = op->len,
                               .data = op->value}};
    return set(s, p.dir, &ent, err);
}

static int op_mkdir(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (find_place(s, op, true, true, &p, err) < 0)
        return -1;
    if (p.has && p.ent.e.type == TREEOBJ_DIR)
        return 0;
    if (p.has)
        return fail_op(op, err, EEXIST, "it is there and is no directory");
    struct kvsent ent = {.e = {.name = p.name, .namelen = (uint8_t)p.len, .type = TREEOBJ_DIR}};
    if (!(ent.dir = kvsdir_open(&s->ctx, NULL)))
        return out_of_memory(err);
    return set(s, p.dir, &ent, err);
}

static int op_symlink(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (find_place(s, op, true, false, &p, err) < 0)
        return -1;
    if (p.has && p.ent.e.type == TREEOBJ_DIR)
        return fail_op(op, err, EISDIR, "it is a directory: unlink it first");
    struct kvsent ent = {.e = {.name = p.name,
                               .namelen = (uint8_t)p.len,
                               .type = TREEOBJ_LINK,
                               .len = op->len,
                               .data = op->value}};
    return set(s, p.dir, &ent, err);
}

static int op_unlink(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    struct place p = {.links = 0};
    if (find_place(s, op, false, false, &p, err) < 0)
        return -1;
    if (!p.dir || !p.has) {
        if (op->flags & KVS_OP_MUST)
            return fail_op(op, err, ENOENT, "no such key");
        return 0;
    }
    if (p.ent.e.type == TREEOBJ_DIR && !(op->flags & KVS_OP_RECURSIVE)) {
        struct kvsdir *d = kvsdir_sub(&s->ctx, p.dir, p.name, p.len);
        if (!d)
            return out_of_memory(err);
        if (kvsdir_count(d) > 0)
            return fail_op(op, err, ENOTEMPTY, "the directory is not empty: unlink it recursively");
    }
    struct kvsent old;
    if (kvsdir_del(&s->ctx, p.dir, p.name, p.len, &old) < 0)
        return out_of_memory(err);
    if (note(s, p.dir, &old, true) < 0) {
        s->spoilt = true;
        return out_of_memory(err);
    }
    return 0;
}

/* --- transactions --- */

int kvsstore_begin(kvsstore_t *s)
{
    s->journal = NULL;
    s->applied = 0;
    s->spoilt = false;
    s->top = kvsdir_open(&s->ctx, s->root->digest);
    return s->top ? 0 : -1;
}

static void undo(kvsstore_t *s)
{
    struct kvsent old;
    for (struct undo *u = s->journal; u && !s->spoilt; u = u->prev) {
        int rc = u->had ? kvsdir_set(&s->ctx, u->dir, &u->ent, &old)
                        : kvsdir_del(&s->ctx, u->dir, u->ent.e.name, u->ent.e.namelen, &old);
        if (rc < 0)
            s->spoilt = true;
    }
}

static int apply_op(kvsstore_t *s, const struct kvs_op *op, errmsg_t *err)
{
    static int (*const ops[])(kvsstore_t *, const struct kvs_op *, errmsg_t *) = {
        [KVS_OP_PUT] = op_put,
        [KVS_OP_UNLINK] = op_unlink,
        [KVS_OP_MKDIR] = op_mkdir,
        [KVS_OP_SYMLINK] = op_symlink,
    };
    if (op->type >= sizeof(ops) / sizeof(ops[0]))
        return fail_op(op, err, ENOSYS, "this operation is not one of this version of the store");
    return ops[op->type](s, op, err);
}

static int apply_txn(kvsstore_t *s, const void *txn, size_t len, errmsg_t *err)
{
    struct kvs_txn_iter it;
    struct kvs_op op;
    int rc = kvs_txn_open(&it, txn, len, NULL, err);
    while (rc >= 0 && (rc = kvs_txn_next(&it, &op, err)) == 1)
        rc = apply_op(s, &op, err);
    return rc;
}

/* Keys of a pack live until the next one only; entries keep their names until the end. */
static int apply_pack(kvsstore_t *s, const void *txn, size_t len, errmsg_t *err)
{
    struct kvs_pack_iter it;
    struct kvs_op op;
    uint32_t value;
    int rc = kvs_pack_open(&it, txn, len, NULL, err);
    if (rc < 0)
        return -1;
    while (rc >= 0 && (rc = kvs_pack_next(&it, &op, &value, err)) == 1) {
        char *key = arena_alloc(s->ctx.arena, op.keylen);
        if (!key) {
            rc = out_of_memory(err);
            break;
        }
        memcpy(key, op.key, op.keylen);
        op.key = key;
        rc = apply_op(s, &op, err);
    }
    kvs_pack_close(&it);
    return rc;
}

int kvsstore_apply(kvsstore_t *s, const void *txn, size_t len, errmsg_t *err)
{
    int rc;
    if (s->spoilt) {
        errno = ENOMEM;
        return out_of_memory(err);
    }
    s->journal = NULL;
    rc = kvs_pack_is(txn, len) ? apply_pack(s, txn, len, err) : apply_txn(s, txn, len, err);
    if (rc < 0) {
        int saved = errno;
        undo(s);
        errno = saved;
        return -1;
    }
    s->applied++;
    return 0;
}

int kvsstore_end(kvsstore_t *s, errmsg_t *err)
{
    struct content_obj *root = NULL;
    int rc = 0;
    if (s->spoilt) {
        errno = ENOMEM;
        rc = out_of_memory(err);
    } else if (s->applied > 0) {
        root = kvsdir_flush(&s->ctx, s->top);
        if (!root)
            rc = out_of_memory(err);
    }
    if (root) {
        struct content_obj *old = s->root;
        content_hold(s->content, root);
        s->root = root;
        s->version++;
        let_go(s, old);
        rc = 1;
    }
    int saved = errno;
    s->top = NULL;
    s->journal = NULL;
    arena_reset(s->ctx.arena);
    if (s->ctx.scratch_size > 65536) {
        free(s->ctx.scratch);
        s->ctx.scratch = NULL;
        s->ctx.scratch_size = 0;
    }
    errno = saved;
    return rc;
}
