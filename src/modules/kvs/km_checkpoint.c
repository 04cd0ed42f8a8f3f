/* km_checkpoint.c - the objects of one namespace on disk: checkpoints, dead objects, chunks of
 * large values.
 *
 * Purpose: a checkpoint writes the objects that are not on disk yet, in pieces, and then records
 * its root.  The recorded root makes the rows of the journal up to that root obsolete.  Afterwards
 * the objects that died before the checkpoint are deleted from the disk.
 *
 * state of the checkpoint   what happens                                   left when
 * IDLE                      nothing                                        a checkpoint is due
 * WRITING                   pieces of objects go to the driver             no object is left
 * RECORDING                 the root goes to the driver                    the root is recorded
 * DELETING                  objects that died before are deleted           none is left
 *
 * A checkpoint is due when the journal is long, or some time after a change or a death.
 *
 * Invariants:
 *  1. The store holds the root of the last checkpoint, and the root of the checkpoint under way, so
 *     that no object below them is collected.
 *  2. A dead object is deleted from the disk after the next checkpoint, because rows before that
 *     checkpoint may need the object when they are replayed (chunks to which a transaction refers).
 *     An object that is written again is not deleted: it leaves `dead` when its write is sent.
 *  3. The end of the module does not wait for deletions.  Dead objects that stay on disk are
 *     garbage: no root needs them.  The next start loads them, finds that they are dead, and
 *     deletes them after its first checkpoint.
 *  4. With kvs.sync=interval, failed writes of objects are sent again before any other write, since
 *     rows may need these objects.
 *  5. The state changes by the transitions of `moves` only, each made by the function that is named
 *     there.
 *
 * Failure: a checkpoint that fails is begun again later; until then the journal holds the changes.
 */
#include "config.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "km_keep.h"
#include "libkvs/treeobj.h"
#include "libutil/invariant.h"

/* Bounds of a piece.  They are numbers, not times, since this thread only examines each object (a
 * microsecond): the thread of the driver does the rest, and the next piece follows when this one is
 * written. */
#define PIECE_BYTES (128u * 1024)
#define PIECE_OBJS 256
#define DELETE_OBJS 512
/* Number of deletions after which memory is returned to the system: about 1 MiB of `dead`. */
#define TRIM_OBJS 16384

/* A piece: objects on their way to the disk. */
struct piece {
    struct km_disk_req r;
    struct km_keep *kp;
    bool checkpoint; /* a piece of a checkpoint; else of chunks */
    void (*done)(void *arg, int errnum, const char *error);
    void *arg;
    size_t n;
    struct kvs_storage_obj obj[PIECE_OBJS];
    struct content_obj *o[PIECE_OBJS];
};

struct deletion {
    struct km_disk_req r;
    struct km_keep *kp;
    size_t n;
    struct kvs_storage_obj obj[DELETE_OBJS];
    uint8_t digest[DELETE_OBJS][BLOBREF_DIGEST_MAX];
};

static const struct transition moves[] = {
    {KM_CHECKPOINT_IDLE, KM_CHECKPOINT_WRITING, "km_checkpoint_start"},
    {KM_CHECKPOINT_WRITING, KM_CHECKPOINT_RECORDING, "write_some"},
    {KM_CHECKPOINT_RECORDING, KM_CHECKPOINT_DELETING, "delete_some"},
    {KM_CHECKPOINT_DELETING, KM_CHECKPOINT_DELETING, "delete_some"},
    {KM_CHECKPOINT_RECORDING, KM_CHECKPOINT_IDLE, "idle, ck_failed"},
    {KM_CHECKPOINT_DELETING, KM_CHECKPOINT_IDLE, "idle"},
    {KM_CHECKPOINT_WRITING, KM_CHECKPOINT_IDLE, "ck_failed"},
    TRANSITION_END,
};

static void set_state(struct km_keep *kp, enum km_checkpoint_state state)
{
    TRANSITION(5, moves, kp->state, state);
    kp->state = state;
}

/* --- dead objects --- */

void km_checkpoint_dead(void *arg, const uint8_t *digest)
{
    struct km_keep *kp = arg;

    /* Without memory the object stays on disk; the next start finds that it is dead. */
    (void)hmap_put(kp->dead, digest, kp);
    km_keep_later(kp, kp->d->ck_interval);
}

static void alive(struct km_keep *kp, const uint8_t *digest)
{
    (void)hmap_del(kp->dead, digest);
    (void)hmap_del(kp->dead_before, digest);
}

/* The checkpoint is over.  The next one may be due already. */
static void idle(struct km_keep *kp)
{
    set_state(kp, KM_CHECKPOINT_IDLE);
    if (kp->deleted > TRIM_OBJS) {
        kp->deleted = 0;
        (void)malloc_trim(0);
    }
    if (kp->bytes > kp->d->ck_bytes)
        km_checkpoint_start(kp);
    else if (kp->bytes > 0 || hmap_count(kp->dead) > 0 || hmap_count(kp->dead_before) > 0)
        km_keep_later(kp, kp->d->ck_interval);
}

static void deleted(struct km_disk_req *r);

static void delete_some(struct km_keep *kp)
{
    struct deletion *del;
    size_t pos = 0;
    const void *key;
    void *val;

    if (hmap_count(kp->dead_before) == 0 || kp->d->stopping || !(del = calloc(1, sizeof(*del)))) {
        idle(kp);
        return;
    }
    set_state(kp, KM_CHECKPOINT_DELETING);
    del->kp = kp;
    while (del->n < DELETE_OBJS && hmap_next(kp->dead_before, &pos, &key, NULL, &val)) {
        memcpy(del->digest[del->n], key, kp->dsize);
        del->obj[del->n].digest = del->digest[del->n];
        del->n++;
        (void)hmap_del(kp->dead_before, del->digest[del->n - 1]);
    }
    kp->deleted += del->n;
    del->r.req.objs = del->obj;
    del->r.req.nobjs = del->n;
    km_keep_submit(kp, &del->r, KVS_STORAGE_DELETE, deleted);
}

static void deleted(struct km_disk_req *r)
{
    struct deletion *del = list_entry(r, struct deletion, r);
    struct km_keep *kp = del->kp;
    bool ok = r->req.errnum == 0;

    if (km_keep_back(kp)) {
        /* The objects that were not deleted are deleted after the next checkpoint. */
        for (size_t i = 0; !ok && i < del->n; i++) {
            struct content_obj *o = content_find(kp->ns->content, del->digest[i]);
            if (!o || !(o->on_disk || o->writing))
                km_checkpoint_dead(kp, del->digest[i]);
        }
        if (ok) {
            HOLD_POINT(&kp->d->hold, "checkpoint-deleted");
            delete_some(kp);
        } else {
            idle(kp);
        }
    }
    free(del);
}

/* --- checkpoints --- */

static void dead_again(struct km_keep *kp)
{
    size_t pos = 0;
    const void *key;
    void *val;

    while (hmap_next(kp->dead_before, &pos, &key, NULL, &val)) {
        (void)hmap_put(kp->dead, key, kp);
        (void)hmap_del(kp->dead_before, key);
    }
}

static void ck_failed(struct km_keep *kp)
{
    kvsstore_release_root(kp->ns->store, kp->snapshot);
    dead_again(kp);
    set_state(kp, KM_CHECKPOINT_IDLE);
    km_keep_later(kp, KM_KEEP_RETRY);
}

static void recorded(struct km_disk_req *r)
{
    struct km_keep *kp = list_entry(r, struct km_keep, record);
    int errnum = r->req.errnum;

    if (!km_keep_back(kp))
        return;
    if (errnum) {
        ck_failed(kp);
        return;
    }
    HOLD_POINT(&kp->d->hold, "checkpoint-recorded");
    kvsstore_release_root(kp->ns->store, kp->recorded);
    memcpy(kp->recorded, kp->snapshot, sizeof(kp->recorded));
    kp->bytes -= kp->snapshot_bytes;
    kp->d->st.checkpoints++;
    km_ns_poke(kp->ns); /* objects that only the old root needed can be collected */
    delete_some(kp);
}

static void write_some(struct km_keep *kp);

static void written(struct km_disk_req *r)
{
    struct piece *p = list_entry(r, struct piece, r);
    struct km_keep *kp = p->kp;
    bool ok = r->req.errnum == 0, again = false;
    bool checkpoint = p->checkpoint;
    void (*done)(void *arg, int errnum, const char *error) = p->done;

    p->checkpoint = false;
    p->done = NULL;
    if (km_keep_back(kp)) {
        again = !ok && kp->d->interval;
        for (size_t i = 0; i < p->n && !again; i++)
            kvsstore_written(kp->ns->store, p->o[i], ok);
        if (checkpoint && ok) {
            HOLD_POINT(&kp->d->hold, "checkpoint-piece");
            write_some(kp);
        } else if (checkpoint) {
            ck_failed(kp);
        }
    }
    if (done)
        /* No transaction refers to the chunks yet: chunks that reappear after a crash do no
         * harm. */
        done(p->arg, r->req.errnum == KVS_STORAGE_UNKNOWN ? EIO : r->req.errnum, r->req.err.text);
    if (again)
        list_append(&kp->again, &r->node);
    else
        free(p);
}

static struct piece *piece_new(struct km_keep *kp)
{
    struct piece *p = calloc(1, sizeof(*p));

    if (p)
        p->kp = kp;
    return p;
}

static void piece_add(struct piece *p, struct content_obj *o)
{
    p->obj[p->n] = (struct kvs_storage_obj){.digest = o->digest,
                                            .data = o->data,
                                            .len = o->len,
                                            .blob = treeobj_kind(o->data) == TREEOBJ_BLOB};
    p->o[p->n++] = o;
    alive(p->kp, o->digest);
}

static void piece_send(struct piece *p)
{
    p->r.req.objs = p->obj;
    p->r.req.nobjs = p->n;
    km_keep_submit(p->kp, &p->r, KVS_STORAGE_STORE, written);
}

void km_checkpoint_send_retries(struct km_keep *kp)
{
    struct list_node *n;

    while ((n = list_first(&kp->again))) {
        list_remove(n);
        piece_send(list_entry(n, struct piece, r.node));
    }
}

static void write_some(struct km_keep *kp)
{
    struct piece *p = kp->d->failing ? NULL : piece_new(kp);
    struct content_obj *o;
    size_t bytes = 0;

    if (!p) {
        ck_failed(kp);
        return;
    }
    p->checkpoint = true;
    while (p->n < PIECE_OBJS && bytes < PIECE_BYTES &&
           (o = kvsstore_checkpoint_next(kp->ns->store))) {
        bytes += o->len;
        piece_add(p, o);
    }
    if (p->n > 0) {
        piece_send(p);
        return;
    }
    free(p);
    HOLD_POINT(&kp->d->hold, "checkpoint-written");
    set_state(kp, KM_CHECKPOINT_RECORDING);
    kp->record.req.version = kp->snapshot_version;
    kp->record.req.root = kp->snapshot;
    km_keep_submit(kp, &kp->record, KVS_STORAGE_CHECKPOINT, recorded);
}

void km_checkpoint_start(struct km_keep *kp)
{
    kvsstore_t *store = kp->ns->store;
    hmap_t *dead;

    if (kp->state != KM_CHECKPOINT_IDLE || kp->d->failing || kp->ended)
        return;
    km_checkpoint_send_retries(kp);
    if (kp->bytes == 0 && (hmap_count(kp->dead) == 0 || kp->d->stopping))
        return;
    memcpy(kp->snapshot, kvsstore_root(store), kp->dsize);
    kp->snapshot_version = kvsstore_version(store);
    kp->snapshot_bytes = kp->bytes;
    if (kvsstore_hold_root(store, kp->snapshot, NULL) < 0) {
        km_keep_later(kp, KM_KEEP_RETRY);
        return;
    }
    kvsstore_checkpoint(store);
    /* dead_before is empty after a checkpoint, unless a deletion found no memory or failed. */
    dead_again(kp);
    dead = kp->dead_before;
    kp->dead_before = kp->dead;
    kp->dead = dead;
    set_state(kp, KM_CHECKPOINT_WRITING);
    write_some(kp);
}

bool km_checkpoint_busy(const struct km_keep *kp)
{
    return kp->state != KM_CHECKPOINT_IDLE;
}

void km_checkpoint_drop_retries(struct km_keep *kp)
{
    LIST_FOREACH_SAFE(n, tmp, &kp->again)
    free(list_entry(n, struct piece, r.node));
    list_init(&kp->again);
}

/* --- chunks --- */

/* Add a chunk, unless it is on disk or on its way. */
static void piece_add_chunk(struct piece *p, const uint8_t *digest)
{
    struct content_obj *o = kvsstore_write_now(p->kp->ns->store, digest);

    if (o)
        piece_add(p, o);
}

int km_checkpoint_chunks(struct km_keep *kp, const uint8_t *digests, size_t n)
{
    while (n > 0) {
        struct piece *p = piece_new(kp);
        if (!p)
            return -1;
        for (; n > 0 && p->n < PIECE_OBJS; n--, digests += kp->dsize)
            piece_add_chunk(p, digests);
        if (p->n > 0)
            piece_send(p);
        else
            free(p);
    }
    return 0;
}

int km_checkpoint_upload(struct km_keep *kp, const uint8_t *digests, size_t n,
                         void (*done)(void *arg, int errnum, const char *error), void *arg)
{
    struct piece *p;

    if (!list_empty(&kp->again)) { /* a bound on their number */
        done(arg, kp->d->errnum, kp->d->err.text);
        return 1;
    }
    if (!(p = piece_new(kp)))
        return -1;
    for (size_t i = 0; i < n && p->n < PIECE_OBJS; i++)
        piece_add_chunk(p, digests + i * kp->dsize);
    if (p->n == 0) {
        free(p);
        return 0;
    }
    p->done = done;
    p->arg = arg;
    piece_send(p);
    return 1;
}
