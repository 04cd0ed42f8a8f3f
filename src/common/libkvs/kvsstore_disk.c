/* kvsstore_disk.c - which objects of the store are on disk, for the driver that writes them.
 *
 * kept object      on_disk  writing  `link` is in
 * dirty            0        0        dirty, or pending: the checkpoint will hand it out
 * being written    0        1        nothing; the object is held
 * on disk          1        0        nothing, or the content store's list (a blob that is backed)
 *
 * An object that loses its last reference and is collected leaves dirty and pending: an object that
 * lives for less than a checkpoint is never written.  While it is being written it is not on the
 * zero-reference list; kvsstore_written() puts it there.
 *
 * Loading.  Objects are loaded in any order, as kept, on disk and without references, onto the
 * zero-reference list.  Then all references are counted.  Objects that no root needs are collected
 * as usual, and so deleted on disk.
 *
 * Invariants:
 *  1. A kept object that is not on disk and not being written is in dirty or pending.
 *  2. Counts after loading are exact: a reference to a missing object is neither counted nor
 *     released.
 *  3. From the first kvsstore_load() to the end of kvsstore_load_root(), which may take many slices
 *     of time, nothing is collected, so the zero-reference list only grows at its end.
 *
 * Failure: damaged and missing objects are EIO with an error message, which names the key that
 * needs a missing object.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvsstore_private.h"
#include "libutil/strbuf.h"

void kvsstore_on_dead(kvsstore_t *s, void (*dead)(void *arg, const uint8_t *digest), void *arg)
{
    s->dead = dead;
    s->dead_arg = arg;
}

static void to_dirty(kvsstore_t *s, struct content_obj *o)
{
    list_append(&s->dirty, &o->link);
    s->st.dirty++;
    s->st.dirty_bytes += o->len;
}

static void leave_dirty(kvsstore_t *s, struct content_obj *o)
{
    list_remove(&o->link);
    s->st.dirty--;
    s->st.dirty_bytes -= o->len;
}

void kvsstore_disk_new(kvsstore_t *s, struct content_obj *o)
{
    o->on_disk = 0;
    to_dirty(s, o);
}

void kvsstore_disk_dead(kvsstore_t *s, struct content_obj *o)
{
    if (!o->on_disk) {
        leave_dirty(s, o);
        return;
    }
    o->on_disk = 0;
    if (s->dead)
        s->dead(s->dead_arg, o->digest);
}

void kvsstore_checkpoint(kvsstore_t *s)
{
    struct list_node *first = list_first(&s->dirty), *last = s->dirty.prev;
    if (!first)
        return;
    list_remove(&s->dirty);
    first->prev = s->pending.prev;
    last->next = &s->pending;
    s->pending.prev->next = first;
    s->pending.prev = last;
}

static struct content_obj *write_begin(kvsstore_t *s, struct content_obj *o)
{
    leave_dirty(s, o);
    o->writing = 1;
    s->st.writing++;
    content_hold(s->content, o);
    return o;
}

struct content_obj *kvsstore_checkpoint_next(kvsstore_t *s)
{
    struct list_node *n = list_first(&s->pending);
    return n ? write_begin(s, list_entry(n, struct content_obj, link)) : NULL;
}

struct content_obj *kvsstore_write_now(kvsstore_t *s, const uint8_t *digest)
{
    struct content_obj *o = content_find(s->content, digest);
    if (!o || !o->kept || o->on_disk || o->writing) {
        errno = o && o->kept ? EALREADY : ENOENT;
        return NULL;
    }
    return write_begin(s, o);
}

void kvsstore_written(kvsstore_t *s, struct content_obj *o, bool ok)
{
    o->writing = 0;
    s->st.writing--;
    content_release(s->content, o);
    if (ok) {
        o->on_disk = 1;
        if (treeobj_kind(o->data) == TREEOBJ_BLOB)
            content_back(s->content, o);
    } else {
        to_dirty(s, o);
    }
    if (o->refs == 0)
        kvsstore_zero_append(s, o);
}

/* --- loading --- */

int kvsstore_load(kvsstore_t *s, const uint8_t *digest, const void *data, size_t len, errmsg_t *err)
{
    char text[BLOBREF_TEXT_MAX];
    errmsg_t why;
    struct content_obj *o;
    if (data) {
        if (treeobj_check(data, len, s->make.dsize, &why) < 0)
            return errmsg_fail(err, EIO, "object %s on disk is damaged: %s",
                               blobref_format(content_blobref(s->content), digest, text), why.text);
        o = content_add(s->content, data, len);
        if (o && memcmp(o->digest, digest, s->make.dsize) != 0)
            return errmsg_fail(err, EIO,
                               "object %s on disk is damaged: its bytes have another hash",
                               blobref_format(content_blobref(s->content), digest, text));
    } else {
        if (len < CONTENT_SEPARATE || len > TREEOBJ_HEADER + TREEOBJ_CHUNK)
            return errmsg_fail(err, EINVAL, "an object of %zu bytes must be loaded with its data",
                               len);
        o = content_add_record(s->content, digest, len);
    }
    if (!o)
        return errmsg_fail(err, errno, "out of memory for an object of %zu bytes", len);
    if (o->on_disk)
        return 0;
    if (o->kept && o->data) { /* the empty root directory of a fresh store */
        leave_dirty(s, o);
    } else {
        if (data)
            content_keep(s->content, o);
        s->st.kept++;
    }
    o->on_disk = 1;
    kvsstore_reach_unknown(o);
    if (!data || treeobj_kind(data) == TREEOBJ_BLOB)
        content_back(s->content, o);
    s->loading = true;
    kvsstore_zero_append(s, o);
    return 0;
}

struct counting {
    kvsstore_t *s;
    bool missing;
};

static int count_child(const uint8_t *digest, void *arg)
{
    struct counting *x = arg;
    struct content_obj *o = content_find(x->s->content, digest);
    if (o && o->kept)
        o->refs++;
    else
        x->missing = true;
    return 0;
}

/* The search for the place where a tree is broken: depth first, each object once.  It runs only
 * when an object is missing. */
struct search {
    kvsstore_t *s;
    hmap_t *seen;
    struct step {
        struct content_obj *obj;
        uint32_t pos;
        const char *name; /* of the directory that has this object; NULL: the same as one level
                           * up */
        uint8_t namelen;
    } * step;
    size_t n, cap;
    const uint8_t *missing;
    const struct treeobj_entry *at;
};

static int search_push(struct search *x, const uint8_t *digest, const struct treeobj_entry *e)
{
    struct content_obj *o = content_find(x->s->content, digest);
    if (!o || !o->kept) {
        x->missing = digest;
        x->at = e;
        return 1;
    }
    if (!o->data || hmap_get(x->seen, digest))
        return 0;
    if (hmap_put(x->seen, digest, o) < 0)
        return -1;
    if (x->n == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 64;
        void *p = realloc(x->step, cap * sizeof(*x->step));
        if (!p)
            return -1;
        x->step = p;
        x->cap = cap;
    }
    x->step[x->n++] =
        (struct step){.obj = o, .name = e ? e->name : NULL, .namelen = e ? e->namelen : 0};
    return 0;
}

/* Follow the next reference of the object on top.  1: its object is missing, 0, -1. */
static int search_next(struct search *x, struct treeobj_entry *e)
{
    struct step *t = &x->step[x->n - 1];
    const uint8_t *data = t->obj->data, *child;
    size_t dsize = x->s->make.dsize;
    uint32_t n, i = t->pos++;
    switch (treeobj_kind(data)) {
    case TREEOBJ_LEAF:
        if (i < treeobj_count(data, dsize)) {
            treeobj_leaf_entry(data, dsize, i, e);
            return e->digest ? search_push(x, e->digest, e) : 0;
        }
        break;
    case TREEOBJ_BRANCH:
        if (i < TREEOBJ_FAN)
            return treeobj_branch_child(data, dsize, i, &child, &n) ? search_push(x, child, NULL)
                                                                    : 0;
        break;
    case TREEOBJ_INDEX:
        child = treeobj_index(data, &n);
        if (i < n)
            return search_push(x, child + i * dsize, NULL);
        break;
    case TREEOBJ_BLOB:
        break;
    }
    x->n--;
    return 0;
}

static int tell_missing(struct search *x, errmsg_t *err)
{
    char text[BLOBREF_TEXT_MAX];
    strbuf_t *path = strbuf_create(0);
    for (size_t i = 0; path && i < x->n; i++) {
        if (x->step[i].name) {
            strbuf_add(path, strbuf_len(path) ? "." : "");
            strbuf_addn(path, x->step[i].name, x->step[i].namelen);
        }
    }
    if (path && x->at) {
        strbuf_add(path, strbuf_len(path) ? "." : "");
        strbuf_addn(path, x->at->name, x->at->namelen);
    }
    const char *key = path && strbuf_len(path) ? strbuf_str(path) : ".";
    blobref_format(content_blobref(x->s->content), x->missing, text);
    errmsg_fail(err, EIO, "'%.*s' needs object %s, which is missing on disk", 120, key, text);
    strbuf_destroy(path);
    return -1;
}

static int find_missing(kvsstore_t *s, struct content_obj *root, errmsg_t *err)
{
    struct search x = {.s = s, .seen = hmap_create_bin(s->make.dsize, NULL)};
    struct treeobj_entry e;
    int rc = x.seen ? search_push(&x, root->digest, NULL) : -1;
    while (rc == 0 && x.n > 0)
        rc = search_next(&x, &e);
    if (rc > 0)
        rc = tell_missing(&x, err);
    else if (rc < 0)
        rc = errmsg_fail(err, ENOMEM, "out of memory while checking the store");
    int saved = errno;
    free(x.step);
    hmap_destroy(x.seen);
    errno = saved;
    return rc;
}

/* Count the references of all objects.  0 or KVSSTORE_MORE. */
static int count_all(kvsstore_t *s)
{
    struct counting x = {s, s->load.missing};
    int rc = 0;
    for (; s->load.at; s->load.at = s->load.at->zero_next) {
        const struct content_obj *o = s->load.at;
        if (!kvsstore_step(s)) {
            rc = KVSSTORE_MORE;
            break;
        }
        if (o->data && o->on_disk)
            (void)treeobj_refs(o->data, s->make.dsize, count_child, &x);
    }
    s->load.missing = x.missing;
    return rc;
}

/* All references are counted: does the store have every object that the root needs? */
static int check_root(kvsstore_t *s, const uint8_t *root, errmsg_t *err)
{
    char text[BLOBREF_TEXT_MAX];
    struct content_obj *o = content_find(s->content, root);
    if (!o || !o->kept)
        return errmsg_fail(err, EIO, "the root directory %s is missing on disk",
                           blobref_format(content_blobref(s->content), root, text));
    return s->load.missing ? find_missing(s, o, err) : 0;
}

int kvsstore_load_root(kvsstore_t *s, const uint8_t *root, uint64_t version, errmsg_t *err)
{
    if (s->load.state == LOAD_BEGIN) {
        s->load.at = s->zero;
        s->load.state = LOAD_COUNT;
    }
    if (s->load.state == LOAD_COUNT) {
        if (count_all(s) == KVSSTORE_MORE)
            return KVSSTORE_MORE;
        if (check_root(s, root, err) < 0)
            return -1;
        s->load.state = LOAD_REACH;
    }
    int rc = kvsstore_reach_load(s);
    if (rc == KVSSTORE_MORE)
        return rc;
    if (rc < 0)
        return errmsg_fail(err, ENOMEM, "out of memory while checking the store");
    s->load.state = LOAD_BEGIN;
    s->loading = false;
    return kvsstore_reset(s, root, version, err);
}
