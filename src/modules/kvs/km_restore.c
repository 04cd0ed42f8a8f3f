/* km_restore.c - restore the namespaces from disk, when the instance at rank 0 starts.
 *
 * Namespaces are restored one after the other:
 *
 *    state     what the driver returns      what happens to it                       next (by)
 *    NODES     directories and indexes, in  each is checked against its hash and     BLOBS
 *              pages                        stored                                   (load_page)
 *    BLOBS     digests and sizes of large   likewise; the bytes of large values      ROWS
 *              values; small values         stay on disk                             (take_root)
 *    ROWS      the journal since the        each row is applied, beginning with the  LOADING
 *              checkpoint                   root of the checkpoint, and must result  (load_next);
 *                                           in the root that the row names           next namespace
 *                                                                                    (space_done)
 *    LOADING   bytes that a row needs       the bytes are held until the row is      ROWS (load_cb)
 *              (append)                     applied
 *
 * When all namespaces are restored, they are opened, the primary last.  Requests wait until then.
 *
 * Slices: the work for a page, for the root and for a row continues in the next pass of the reactor
 * when a slice of time is over, since the reactor is that of the broker, which has other requests
 * to handle.
 *
 * Invariants:
 *  1. The driver has one request at a time, and none while there is work for the next pass.
 *  2. No garbage is collected before the journal is replayed: its rows may need objects that no
 *     root contains.
 *  3. A file without namespaces is new: the primary is created.
 *
 * Failure: the start fails with an error message, and the contents of the file stay unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_disk.h"
#include "libflux/slice.h"
#include "libkvs/kvsdisk.h"

#define TURN_STEPS 512 /* steps of a turn, if the clock is virtual */

struct space {
    struct list_node node;
    struct km_ns *ns;
    uint32_t id, owner;
    bool has_root;
    uint64_t version;
    uint8_t root[BLOBREF_DIGEST_MAX]; /* root of the checkpoint, held after take_root() */
    uint64_t bytes;                   /* length of its journal */
    char name[KVS_NS_MAX + 1];
};

struct km_restore {
    struct km_disk *d;
    struct list_node todo, done; /* struct space */
    struct km_disk_req r;
    bool out; /* the driver has r */
    bool primary;
    /* turns */
    void (*work)(struct km_restore *x);
    flux_watcher_t *again;
    struct flux_slice slice;
    /* a page: objects, or rows */
    struct kvs_storage_req page;
    size_t pos;
    struct kvs_storage_rec rec;
    bool blobs;
    /* a row */
    bool begun;
    struct kvsdisk_replay replay;
    /* the bytes that a row needs */
    struct kvsmiss miss;
    unsigned nloaded;
    struct kvs_storage_obj obj;
};

static void next_space(struct km_restore *x);

static struct space *current(struct km_restore *x)
{
    return list_entry(list_first(&x->todo), struct space, node);
}

static void fail(struct km_restore *x, const errmsg_t *why)
{
    struct km_disk *d = x->d;
    errmsg_t err;
    int errnum = errno ? errno : EIO;

    if (list_empty(&x->todo))
        errmsg_set(&err, "the store in '%.80s' cannot be restored: %.150s", d->dir, why->text);
    else
        errmsg_set(&err, "namespace '%s' cannot be restored from '%.60s': %.140s", current(x)->name,
                   d->dir, why->text);
    d->started(d->k, errnum, err.text);
}

static void fail_memory(struct km_restore *x)
{
    errmsg_t err;

    errmsg_fail(&err, ENOMEM, "out of memory");
    fail(x, &err);
}

static void ask(struct km_restore *x, enum kvs_storage_op op, void (*done)(struct km_disk_req *r),
                bool more)
{
    if (!more) {
        memset(&x->r, 0, sizeof(x->r));
        x->r.req.inline_below = CONTENT_SEPARATE;
    }
    x->r.req.op = op;
    x->r.req.ns = list_empty(&x->todo) ? 0 : current(x)->id;
    x->r.done = done;
    x->out = true;
    km_disk_submit(x->d, &x->r);
}

/* The driver has executed r.  -1: it failed, or the module is stopped. */
static int answered(struct km_restore *x)
{
    x->out = false;
    if (x->d->stopping)
        return -1;
    if (x->r.req.errnum == 0)
        return 0;
    errno = x->r.req.errnum;
    fail(x, &x->r.req.err);
    return -1;
}

/* --- turns --- */

static bool more_time(void *arg)
{
    return flux_slice_more(arg);
}

/* Do `work` for a slice of time; it calls again() when there is more to do. */
static void turn(struct km_restore *x, void (*work)(struct km_restore *x))
{
    kvsstore_t *store = current(x)->ns->store;

    x->d->st.turns++;
    flux_slice_begin(&x->slice, flux_get_reactor(x->d->k->h), FLUX_SLICE_SECONDS, TURN_STEPS);
    kvsstore_pace(store, more_time, &x->slice);
    work(x);
    kvsstore_pace(store, NULL, NULL);
}

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km_restore *x = arg;

    turn(x, x->work);
}

static void again(struct km_restore *x, void (*work)(struct km_restore *x))
{
    x->work = work;
    flux_watcher_start(x->again);
}

static void page_begin(struct km_restore *x)
{
    x->page = x->r.req;
    x->pos = 0;
}

/* The page is done.  Restore r, so that it requests the next page. */
static void page_end(struct km_restore *x)
{
    free(x->page.data);
    x->page.data = NULL;
    x->r.req = x->page;
}

/* --- the end --- */

static void finish(struct km_restore *x)
{
    struct km_disk *d = x->d;
    struct list_node *n;

    while ((n = list_first(&x->done))) {
        struct space *sp = list_entry(n, struct space, node);
        sp->ns->keep = km_keep_create(d, sp->ns, sp->id, sp->root, sp->bytes);
        if (!sp->ns->keep) {
            fail_memory(x);
            return;
        }
        if (sp->ns != d->k->primary)
            km_ns_serve(sp->ns);
        list_remove(n);
        free(sp);
    }
    d->started(d->k, 0, NULL);
}

static void space_done(struct km_restore *x)
{
    struct space *sp = current(x);

    list_remove(&sp->node);
    list_append(&x->done, &sp->node);
    next_space(x);
}

/* --- the journal --- */

static void rows_cb(struct km_disk_req *r);
static void load_cb(struct km_disk_req *r);

static void release_loaded(struct km_restore *x)
{
    content_t *c = current(x)->ns->content;

    for (unsigned i = 0; i < x->nloaded; i++)
        content_release(c, content_find(c, x->miss.digest[i]));
    x->nloaded = 0;
}

static void load_next(struct km_restore *x)
{
    memset(&x->r, 0, sizeof(x->r));
    x->obj = (struct kvs_storage_obj){.digest = x->miss.digest[x->nloaded], .blob = true};
    x->r.req.objs = &x->obj;
    x->r.req.nobjs = 1;
    ask(x, KVS_STORAGE_LOAD, load_cb, true);
}

/* Replay the rows of the page. */
static void replay(struct km_restore *x)
{
    struct space *sp = current(x);
    size_t dsize = blobref_size(x->d->k->blobref);
    errmsg_t err;

    do { /* the store checks the time itself before its first step */
        int rc = 0;
        if (!x->begun) {
            if (!x->d->drv->next(&x->page, &x->pos, &x->rec)) {
                page_end(x);
                if (x->page.more)
                    ask(x, KVS_STORAGE_ROWS, rows_cb, true);
                else
                    space_done(x);
                return;
            }
            rc = kvsdisk_replay_begin(&x->replay, sp->ns->store, x->rec.version, x->rec.root, dsize,
                                      x->rec.data, x->rec.len, &err);
            x->begun = true;
        }
        if (rc == 0)
            rc = kvsdisk_replay_step(&x->replay, &err);
        if (rc == KVSSTORE_MORE)
            break;
        if (rc < 0 && errno == ENODATA) {
            release_loaded(x);
            x->miss = *kvsstore_missing(sp->ns->store);
            load_next(x);
            return;
        }
        release_loaded(x);
        if (rc < 0) {
            fail(x, &err);
            return;
        }
        sp->bytes += x->rec.len;
        x->begun = false;
    } while (flux_slice_more(&x->slice));
    again(x, replay);
}

static void load_cb(struct km_disk_req *r)
{
    struct km_restore *x = list_entry(r, struct km_restore, r);
    content_t *c;
    errmsg_t err;

    if (answered(x) < 0) {
        free(r->req.data);
        return;
    }
    c = current(x)->ns->content;
    if (content_supply(c, x->obj.digest, r->req.data, r->req.len) < 0) {
        errmsg_set(&err, "an object on disk is damaged");
        free(r->req.data);
        fail(x, &err);
        return;
    }
    free(r->req.data);
    content_hold(c, content_find(c, x->obj.digest));
    if (++x->nloaded < x->miss.n)
        load_next(x);
    else
        turn(x, replay);
}

static void rows_cb(struct km_disk_req *r)
{
    struct km_restore *x = list_entry(r, struct km_restore, r);

    if (answered(x) < 0) {
        free(r->req.data);
        return;
    }
    page_begin(x);
    turn(x, replay);
}

/* --- objects --- */

/* All objects are loaded: take the root of the checkpoint. */
static void take_root(struct km_restore *x)
{
    struct space *sp = current(x);
    kvsstore_t *store = sp->ns->store;
    errmsg_t err;
    int rc;

    if (!sp->has_root)
        memcpy(sp->root, kvsstore_root(store), blobref_size(x->d->k->blobref));
    rc = kvsstore_load_root(store, sp->root, sp->version, &err);
    if (rc == KVSSTORE_MORE)
        again(x, take_root);
    else if (rc < 0 || kvsstore_hold_root(store, sp->root, &err) < 0)
        fail(x, &err);
    else
        ask(x, KVS_STORAGE_ROWS, rows_cb, false);
}

static void nodes_cb(struct km_disk_req *r);
static void blobs_cb(struct km_disk_req *r);

/* Load the objects of the page. */
static void load_page(struct km_restore *x)
{
    kvsstore_t *store = current(x)->ns->store;
    const struct kvs_storage_rec *rec = &x->rec;
    errmsg_t err;

    while (flux_slice_more(&x->slice)) {
        if (!x->d->drv->next(&x->page, &x->pos, &x->rec)) {
            page_end(x);
            if (x->page.more)
                ask(x, x->page.op, x->blobs ? blobs_cb : nodes_cb, true);
            else if (!x->blobs)
                ask(x, KVS_STORAGE_BLOBS, blobs_cb, false);
            else
                again(x, take_root);
            return;
        }
        if (kvsstore_load(store, rec->root, rec->len ? rec->data : NULL,
                          x->blobs && !rec->len ? rec->version : rec->len, &err) < 0) {
            fail(x, &err);
            return;
        }
    }
    again(x, load_page);
}

static void objects_cb(struct km_restore *x, bool blobs)
{
    if (answered(x) < 0) {
        free(x->r.req.data);
        return;
    }
    x->blobs = blobs;
    page_begin(x);
    turn(x, load_page);
}

static void blobs_cb(struct km_disk_req *r)
{
    objects_cb(list_entry(r, struct km_restore, r), true);
}

static void nodes_cb(struct km_disk_req *r)
{
    objects_cb(list_entry(r, struct km_restore, r), false);
}

/* --- namespaces --- */

static void next_space(struct km_restore *x)
{
    struct km *k = x->d->k;
    struct space *sp;
    errmsg_t err;

    if (list_empty(&x->todo)) {
        finish(x);
        return;
    }
    sp = current(x);
    if (strcmp(sp->name, KVS_NS_PRIMARY) == 0)
        sp->ns = k->primary;
    else
        sp->ns = km_directory_restore(k, sp->name, sp->owner, &err);
    if (!sp->ns)
        fail(x, &err);
    else if (km_ns_make(sp->ns) < 0)
        fail_memory(x);
    else
        ask(x, KVS_STORAGE_NODES, nodes_cb, false);
}

static int add_space(struct km_restore *x, const struct kvs_storage_rec *rec, errmsg_t *err)
{
    struct space *sp;

    if (kvs_ns_check((const char *)rec->data, rec->len, err) < 0)
        return -1;
    if (!(sp = calloc(1, sizeof(*sp))))
        return errmsg_fail(err, ENOMEM, "out of memory");
    sp->id = rec->ns;
    sp->owner = rec->owner;
    sp->version = rec->version;
    sp->has_root = rec->root != NULL;
    if (rec->root)
        memcpy(sp->root, rec->root, blobref_size(x->d->k->blobref));
    memcpy(sp->name, rec->data, rec->len);
    x->primary = x->primary || strcmp(sp->name, KVS_NS_PRIMARY) == 0;
    list_init(&sp->node);
    list_append(&x->todo, &sp->node);
    return 0;
}

static void primary_made(void *arg, uint32_t id, int errnum, const char *error)
{
    struct km_restore *x = arg;
    struct kvs_storage_rec rec = {
        .ns = id, .data = (const uint8_t *)KVS_NS_PRIMARY, .len = strlen(KVS_NS_PRIMARY)};
    errmsg_t err;

    x->out = false;
    if (x->d->stopping)
        return;
    errmsg_set(&err, "%s", error);
    errno = errnum;
    if (errnum || add_space(x, &rec, &err) < 0)
        fail(x, &err);
    else
        next_space(x);
}

static void spaces_cb(struct km_disk_req *r)
{
    struct km_restore *x = list_entry(r, struct km_restore, r);
    struct kvs_storage_rec rec;
    size_t pos = 0;
    errmsg_t err;
    int rc = 0;

    if (answered(x) < 0) {
        free(r->req.data);
        return;
    }
    while (rc == 0 && x->d->drv->next(&r->req, &pos, &rec))
        rc = add_space(x, &rec, &err);
    free(r->req.data);
    r->req.data = NULL;
    if (rc == 0 && x->primary) {
        next_space(x);
        return;
    }
    if (rc == 0) {
        if (km_disk_create(x->d->k, KVS_NS_PRIMARY, 0, primary_made, x) > 0)
            return;
        errmsg_set(&err, "out of memory");
    }
    fail(x, &err);
}

/* --- life --- */

void km_restore_start(struct km_disk *d)
{
    struct km_restore *x = calloc(1, sizeof(*x));

    if (!x || !(x->again = flux_defer_create(flux_get_reactor(d->k->h), again_cb, x))) {
        free(x);
        d->started(d->k, ENOMEM, "the store is out of memory");
        return;
    }
    x->d = d;
    list_init(&x->todo);
    list_init(&x->done);
    d->restore = x;
    ask(x, KVS_STORAGE_NAMESPACES, spaces_cb, false);
}

static void free_spaces(struct list_node *spaces)
{
    struct list_node *n;

    while ((n = list_first(spaces))) {
        list_remove(n);
        free(list_entry(n, struct space, node));
    }
}

void km_restore_stop(struct km_disk *d)
{
    struct km_restore *x = d->restore;

    if (!x)
        return;
    free_spaces(&x->todo);
    free_spaces(&x->done);
    flux_watcher_destroy(x->again);
    free(x->page.data);
    free(x);
    d->restore = NULL;
}
