/* kvsstore.c - the store: transactions make a new root, and objects that no root needs are
 * reclaimed.
 *
 * state of an object  kept  refs                 on the zero list                  entered by
 * referred to         1     number of referrers  until it was examined after its   child_refer
 *                                                creation
 * not referred to     1     0                    yes, unless it is being written   kvsstore_let_go
 *                                                to disk
 * left over           0     0                    no: content.c may drop it any     kvsstore_collect
 *                                                time
 *
 * Garbage.  References are counted exactly: a kept object refers to its children; the store refers
 * to the root, to roots that are held and to uploads.  An object whose count falls to zero is
 * put on the zero-reference list; kvsstore_collect() takes objects from this list, releases their
 * children, and leaves them to the content store, which keeps them for a while within its bound, so
 * that a reader that is one root behind still finds them.  Each step is short, and there is never
 * a mark-and-sweep pause.
 *
 * Other files: kvsstore_ops.c has the operations, kvsstore_upload.c the uploads, kvsstore_disk.c
 * the persistence, and kvsstore_reach.c the depth of directories.
 *
 * Invariants:
 *  1. Every object that the root, a held root or an upload reaches is kept.
 *  2. A left-over object that comes up again (equal contents) is kept anew, with its children: they
 *     are kept, because flush makes children before parents and a parent refers only to those.
 *  3. Between begin() and end() nothing is collected or dropped, however many slices of time lie
 *     between them.
 *  4. A transaction that fails is undone by its journal, without an effect on other transactions in
 *     the same root change.
 *  5. A root change does not end while a transaction is applied in part.
 *
 * Failure: when out of memory, the root change fails as a whole, and the old root is kept.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvsstore_private.h"
#include "libutil/invariant.h"

#define STEPS_LOOK 8 /* steps between two readings of the clock */
#define OWED_MAX 65536

/* --- keeping and releasing --- */

void kvsstore_zero_append(kvsstore_t *s, struct content_obj *o)
{
    if (o->in_zero || o->writing)
        return;
    o->in_zero = 1;
    o->zero_next = NULL;
    *s->zero_end = o;
    s->zero_end = &o->zero_next;
}

void kvsstore_let_go(kvsstore_t *s, struct content_obj *o)
{
    if (--o->refs == 0)
        kvsstore_zero_append(s, o);
}

/* Call back for the children of an object, in batches of sixteen look-ups; NULL for a child that is
 * not here. */
struct children {
    kvsstore_t *s;
    int (*cb)(kvsstore_t *s, struct content_obj *o);
    unsigned n;
    const uint8_t *digest[CONTENT_FIND_MANY];
};

static int children_now(struct children *x)
{
    struct content_obj *o[CONTENT_FIND_MANY];
    int rc = 0;
    content_find_many(x->s->content, x->digest, x->n, o);
    for (unsigned i = 0; i < x->n && rc == 0; i++)
        rc = x->cb(x->s, o[i]);
    x->n = 0;
    return rc;
}

static int children_gather(const uint8_t *digest, void *arg)
{
    struct children *x = arg;
    x->digest[x->n++] = digest;
    return x->n == CONTENT_FIND_MANY ? children_now(x) : 0;
}

static int each_child(kvsstore_t *s, const void *data,
                      int (*cb)(kvsstore_t *s, struct content_obj *o))
{
    struct children x = {.s = s, .cb = cb, .n = 0};
    int rc = treeobj_refs(data, s->make.dsize, children_gather, &x);
    return rc ? rc : children_now(&x);
}

static int child_refer(kvsstore_t *s, struct content_obj *o)
{
    if (!o || !o->kept)
        return 1;
    o->refs++;
    s->referred++;
    return 0;
}

static int child_refer_not(kvsstore_t *s, struct content_obj *o)
{
    if (s->referred == 0)
        return 1;
    s->referred--;
    kvsstore_let_go(s, o);
    return 0;
}

static void keep_anew(kvsstore_t *s, struct content_obj *o)
{
    content_keep(s->content, o);
    s->made++;
    s->st.kept++;
    kvsstore_disk_new(s, o);
    kvsstore_zero_append(s, o);
}

static struct content_obj *keep(void *arg, const void *data, size_t len)
{
    kvsstore_t *s = arg;
    struct content_obj *o = content_add(s->content, data, len);
    if (!o || o->kept)
        return o;
    s->referred = 0;
    if (each_child(s, o->data, child_refer)) {
        (void)each_child(s, o->data, child_refer_not);
        errno = EIO;
        return NULL;
    }
    kvsstore_reach_made(s, o);
    keep_anew(s, o);
    return o;
}

struct content_obj *kvsstore_keep_blob(kvsstore_t *s, const uint8_t *digest)
{
    struct content_obj *o = content_find(s->content, digest);
    if (!o || (o->data && treeobj_kind(o->data) != TREEOBJ_BLOB))
        return NULL;
    if (!o->kept)
        keep_anew(s, o);
    return o;
}

static int child_let_go(kvsstore_t *s, struct content_obj *o)
{
    if (o)
        kvsstore_let_go(s, o);
    return 0;
}

bool kvsstore_step(kvsstore_t *s)
{
    return !s->more || s->steps++ % STEPS_LOOK != 0 || s->more(s->more_arg);
}

bool kvsstore_collect(kvsstore_t *s, unsigned budget)
{
    if (s->top || s->loading)
        return false; /* invariant 3 */
    /* Each object is on the zero list once after its creation and once when its references are
     * gone.  With this factor, the objects to be released cannot accumulate, however large the root
     * changes are. */
    s->owed += 3 * (uint64_t)s->made;
    s->made = 0;
    while ((budget > 0 || s->owed > 0) && s->zero && kvsstore_step(s)) {
        struct content_obj *o = s->zero;
        s->zero = o->zero_next;
        if (!s->zero)
            s->zero_end = &s->zero;
        o->in_zero = 0;
        if (budget > 0)
            budget--;
        else
            s->owed--;
        if (o->refs > 0 || o->writing)
            continue;
        /* Only the bytes of a blob may be elsewhere, and a blob has no children. */
        if (o->data)
            (void)each_child(s, o->data, child_let_go);
        kvsstore_disk_dead(s, o);
        s->st.kept--;
        s->st.collected++;
        content_forget(s->content, o);
    }
    content_trim(s->content);
    if (!s->zero) {
        s->owed = 0;
        content_tidy(s->content);
    }
    return s->zero != NULL;
}

/* --- life --- */

bool kvsstore_collect_first(const kvsstore_t *s)
{
    return s->owed > OWED_MAX;
}

kvsstore_t *kvsstore_create(content_t *c)
{
    kvsstore_t *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->content = c;
    s->zero_end = &s->zero;
    list_init(&s->dirty);
    list_init(&s->pending);
    s->make.content = c;
    s->make.dsize = blobref_size(content_blobref(c));
    s->make.keep = keep;
    s->make.arg = s;
    s->make.arena = arena_create();
    if (!s->make.arena || kvsstore_upload_init(s) < 0)
        goto fail;
    struct kvsdir *empty = kvsdir_open(&s->make, NULL);
    const uint8_t *digest = empty ? kvsdir_flush(&s->make, empty) : NULL;
    if (!digest)
        goto fail;
    s->root = content_find(c, digest);
    s->root->refs++;
    arena_reset(s->make.arena);
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
    kvsstore_cancel(s);
    kvsstore_upload_fini(s);
    kvsstore_reach_end(s);
    arena_destroy(s->make.arena);
    free(s->make.scratch);
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

void kvsstore_get_stats(const kvsstore_t *s, struct kvsstore_stats *st)
{
    *st = s->st;
    st->uploads = hmap_count(s->upload);
}

/* --- snapshots --- */

static struct content_obj *kept_root(kvsstore_t *s, const uint8_t *digest, errmsg_t *err)
{
    struct content_obj *o = content_find(s->content, digest);
    if (o && o->kept && o->data && treeobj_depth(o->data) == 0 &&
        (treeobj_kind(o->data) == TREEOBJ_LEAF || treeobj_kind(o->data) == TREEOBJ_BRANCH))
        return o;
    errmsg_fail(err, ENOENT, "the root is no longer available (or never existed): use a newer one");
    return NULL;
}

int kvsstore_hold_root(kvsstore_t *s, const uint8_t *digest, errmsg_t *err)
{
    struct content_obj *o = kept_root(s, digest, err);
    if (!o)
        return -1;
    o->refs++;
    s->st.held++;
    return 0;
}

void kvsstore_release_root(kvsstore_t *s, const uint8_t *digest)
{
    struct content_obj *o = content_find(s->content, digest);
    if (o && o->refs > 0 && s->st.held > 0) {
        s->st.held--;
        kvsstore_let_go(s, o);
    }
}

int kvsstore_reset(kvsstore_t *s, const uint8_t *root, uint64_t version, errmsg_t *err)
{
    struct content_obj *o = kept_root(s, root, err), *old = s->root;
    if (!o)
        return -1;
    o->refs++;
    s->root = o;
    s->version = version;
    kvsstore_let_go(s, old);
    return 0;
}

/* --- transactions --- */

int kvsstore_no_memory(errmsg_t *err)
{
    int errnum = errno ? errno : ENOMEM;
    if (errnum == EIO)
        return errmsg_fail(err, EIO, "a tree object of the store is missing or damaged");
    return errmsg_fail(err, errnum, "out of memory for a change of the store");
}

int kvsstore_begin(kvsstore_t *s)
{
    s->journal = NULL;
    s->uses = NULL;
    s->applied = 0;
    s->spoilt = false;
    if (!(s->top = kvsdir_open(&s->make, s->root->digest)))
        return -1;
    content_freeze(s->content, true);
    return 0;
}

void kvsstore_pace(kvsstore_t *s, bool (*more)(void *arg), void *arg)
{
    s->more = more;
    s->more_arg = arg;
}

/* May another object be created now? */
static bool more_objects(void *arg)
{
    kvsstore_t *s = arg;
    return s->more(s->more_arg);
}

/* Close the iterator of the transaction; keeps errno. */
static void apply_close(kvsstore_t *s)
{
    if (s->now.state == APPLY_PACK)
        kvs_pack_close(&s->now.pack);
    s->now.state = APPLY_NONE;
}

static int apply_begin(kvsstore_t *s, const void *txn, size_t len, errmsg_t *err)
{
    s->journal = NULL;
    s->miss.n = 0;
    s->now.uses = s->uses;
    s->now.undone = false;
    if (kvs_pack_is(txn, len)) {
        if (kvsstore_pack_begin(s, txn, len, err) < 0)
            return -1;
        s->now.state = APPLY_PACK;
    } else {
        if (kvs_txn_open(&s->now.txn, txn, len, NULL, err) < 0)
            return -1;
        s->now.state = APPLY_TXN;
    }
    return 0;
}

/* Apply the next operation: 1, 0 when there is none, -1. */
static int apply_step(kvsstore_t *s, errmsg_t *err)
{
    struct kvs_op op;
    if (s->now.state == APPLY_PACK)
        return kvsstore_pack_step(s, err);
    int rc = kvs_txn_next(&s->now.txn, &op, err);
    if (rc == 1 && kvsstore_op(s, &op, err) < 0)
        rc = -1;
    return rc;
}

static int undo(kvsstore_t *s)
{
    struct kvsent old;
    for (struct undo *u; (u = s->journal) && !s->spoilt; s->journal = u->prev) {
        if (!kvsstore_step(s))
            return KVSSTORE_MORE;
        s->now.undone = true;
        int rc = u->had ? kvsdir_set(&s->make, u->dir, &u->ent, &old)
                        : kvsdir_del(&s->make, u->dir, u->ent.e.name, u->ent.e.namelen, &old);
        if (rc < 0)
            s->spoilt = true;
    }
    if (s->now.undone)
        kvsdir_forget(&s->make);
    s->now.state = APPLY_NONE;
    errno = s->now.errnum;
    return -1;
}

int kvsstore_apply(kvsstore_t *s, const void *txn, size_t len, errmsg_t *err)
{
    if (s->now.state == APPLY_UNDO)
        return undo(s);
    if (s->spoilt) {
        errno = ENOMEM;
        return kvsstore_no_memory(err);
    }
    int rc = 1;
    if (s->now.state == APPLY_NONE)
        rc = apply_begin(s, txn, len, err) < 0 ? -1 : 1;
    while (rc == 1) {
        if (!kvsstore_step(s))
            return KVSSTORE_MORE;
        rc = apply_step(s, err);
    }
    apply_close(s);
    if (rc < 0) {
        s->now.errnum = errno;
        s->now.state = APPLY_UNDO;
        s->uses = s->now.uses;
        return undo(s);
    }
    s->applied++;
    return 0;
}

const struct kvsmiss *kvsstore_missing(const kvsstore_t *s)
{
    return &s->miss;
}

static void new_root(kvsstore_t *s, struct content_obj *root)
{
    struct content_obj *old = s->root;
    root->refs++;
    s->root = root;
    s->version++;
    kvsstore_let_go(s, old);
    for (const struct chunk_use *u = s->uses; u; u = u->prev) {
        for (size_t i = 0; i < u->n; i++)
            kvsstore_upload_used(s, u->digests + i * s->make.dsize);
    }
}

/* End the root change, whatever its outcome.  Keeps errno. */
static void over(kvsstore_t *s)
{
    int saved = errno;
    apply_close(s);
    s->top = NULL;
    s->journal = NULL;
    s->uses = NULL;
    arena_reset(s->make.arena);
    if (s->make.scratch_size > 65536) {
        free(s->make.scratch);
        s->make.scratch = NULL;
        s->make.scratch_size = 0;
    }
    content_freeze(s->content, false);
    errno = saved;
}

void kvsstore_cancel(kvsstore_t *s)
{
    if (s->top)
        over(s);
}

int kvsstore_end(kvsstore_t *s, errmsg_t *err)
{
    const uint8_t *digest = NULL;
    int rc = 0;
    INVARIANT(5, s->now.state == APPLY_NONE);
    if (s->spoilt) {
        errno = ENOMEM;
        rc = kvsstore_no_memory(err);
    } else if (s->applied > 0) {
        s->make.more = s->more ? more_objects : NULL;
        digest = kvsdir_flush(&s->make, s->top);
        bool paused = !digest && errno == EAGAIN && s->make.more;
        s->make.more = NULL;
        if (paused)
            return KVSSTORE_MORE;
        if (!digest)
            rc = kvsstore_no_memory(err);
    }
    if (digest) {
        new_root(s, content_find(s->content, digest));
        rc = 1;
    }
    over(s);
    return rc;
}
