/* km_keep.c - one namespace on disk: its journal, reads of its objects, its life.
 *
 * Purpose: each root change becomes a row of the journal (libkvs/kvsdisk.h).  From time to time a
 * checkpoint (km_checkpoint.c) makes rows obsolete.  A restart loads the objects, takes the root of
 * the last checkpoint, and replays the remaining rows.
 *
 * state of a change  entered by      kvs.sync=commit            kvs.sync=interval
 * applied            km_keep_change  its row is sent at once    it is done; its row waits for the
 *                                                               interval
 * sent               row_send        the driver has the row     the driver has the row
 * durable            row_durable     it is done                 its row is freed
 * failed             row_done        it is undone (row_failed)  its row waits for the next interval
 *
 * "Done" means that the new root is visible, and that the commits are answered.  A commit that asks
 * for durability (flux_kvs_commit_durable()) is answered when its row is durable, with either
 * setting, and is told the version of this row, since newer ones may be visible and not durable.
 * With kvs.sync=interval the row of such a commit is sent at once, after the rows that wait; if it
 * changes nothing, it is answered when these are durable.
 *
 * Invariants:
 *  1. With kvs.sync=commit a change is done when its row is durable, and changes end in the order
 *     in which they were applied.  The driver has at most ROWS_OUT rows; commits that arrive
 *     meanwhile form one root change.
 *  2. With kvs.sync=commit the store holds the root of the last durable change, and the roots of
 *     the rows that the driver has; with kvs.sync=interval it holds the newest root.  No object
 *     below these roots is collected.
 *  3. A row whose transactions refer to chunks is sent after the writes of these chunks.
 *
 * Failure: with kvs.sync=commit, all changes whose rows the driver has fail with the error, and the
 * store returns to the last durable root.  If a failed row may be in the file after a crash all the
 * same, the driver reports that, and its commits fail with FLUX_KVS_UNKNOWN.  With
 * kvs.sync=interval, failed rows are kept and sent again; until they are durable, no further change
 * is made.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_keep.h"

#define ROWS_OUT 2
#define UNSENT_MAX (8u << 20) /* bytes of rows that may wait for the interval */

struct row {
    struct km_disk_req r;
    struct list_node node; /* in km_keep.rows */
    struct km_keep *kp;
    struct km_commit_change *ch; /* NULL: the change is done */
    uint64_t version;            /* 0: the change has no new root */
    uint8_t root[BLOBREF_DIGEST_MAX];
    uint8_t *buf;
    struct iovec iov;
    bool sent, held;
};

struct load {
    struct km_disk_req r;
    struct km_keep *kp;
    struct kvs_storage_obj obj;
    uint8_t digest[BLOBREF_DIGEST_MAX];
};

struct km_keep *km_keep_of(struct list_node *n)
{
    return list_entry(n, struct km_keep, node);
}

/* --- requests of the namespace --- */

void km_keep_submit(struct km_keep *kp, struct km_disk_req *r, enum kvs_storage_op op,
                    void (*done)(struct km_disk_req *r))
{
    r->req.op = op;
    r->req.ns = kp->id;
    r->done = done;
    kp->out++;
    km_disk_submit(kp->d, r);
}

bool km_keep_back(struct km_keep *kp)
{
    kp->out--;
    if (kp->ended && kp->out == 0)
        km_ns_poke(kp->ns); /* the namespace can be freed */
    return !kp->ended;
}

/* --- checkpoints: when --- */

void km_keep_later(struct km_keep *kp, double seconds)
{
    if (!flux_watcher_active(kp->timer))
        flux_timer_start(kp->timer, seconds, 0);
}

size_t km_keep_unsaved(const struct km_keep *kp)
{
    struct kvsstore_stats st;

    kvsstore_get_stats(kp->ns->store, &st);
    return st.dirty_bytes;
}

void km_keep_stats(const struct km_keep *kp, struct km_keep_stats *st)
{
    struct kvs_storage_stats ss;

    memset(st, 0, sizeof(*st));
    if (!kp)
        return;
    kp->d->drv->stats(kp->d->s, &ss);
    st->journal_bytes = kp->bytes;
    st->rows = kp->d->st.rows;
    st->syncs = ss.syncs;
    st->checkpoints = kp->d->st.checkpoints;
    st->loads = kp->d->st.loads;
    st->turns = kp->d->st.turns;
    st->failures = kp->d->st.failures;
    st->bytes = ss.file_bytes + ss.wal_bytes;
    st->free_bytes = ss.free_bytes;
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km_keep *kp = arg;

    km_checkpoint_start(kp);
    if (kp->d->failing)
        km_keep_later(kp, KM_KEEP_RETRY);
}

/* --- the journal --- */

static void row_free(struct row *w)
{
    list_remove(&w->node);
    if (w->held)
        kvsstore_release_root(w->kp->ns->store, w->root);
    free(w->buf);
    free(w);
}

/* Hold the root of this row in place of the root before it. */
static void hold_instead(struct km_keep *kp, struct row *w)
{
    kvsstore_release_root(kp->ns->store, kp->durable);
    memcpy(kp->durable, w->root, sizeof(kp->durable));
    w->held = false;
}

static void row_durable(struct km_keep *kp, struct row *w)
{
    struct km_commit_change *ch = w->ch;

    if (w->held)
        hold_instead(kp, w);
    row_free(w);
    if (ch)
        km_commit_change_done(kp->ns, ch, 0, NULL);
}

/* Changes end in order: a change without a row waits for the rows before it. */
static void rows_pass(struct km_keep *kp)
{
    struct list_node *n;

    while ((n = list_first(&kp->rows)) && list_entry(n, struct row, node)->version == 0)
        row_durable(kp, list_entry(n, struct row, node));
}

static void row_failed(struct km_keep *kp, struct row *w, int errnum, const char *error)
{
    struct km_commit_change *ch = w->ch;

    row_free(w);
    if (ch)
        km_commit_change_done(kp->ns, ch, errnum, error);
}

static void row_done(struct km_disk_req *r)
{
    struct row *w = list_entry(r, struct row, r);
    struct km_keep *kp = w->kp;
    int errnum = r->req.errnum;
    errmsg_t err;

    if (!km_keep_back(kp)) {
        list_remove(&w->node);
        free(w->buf);
        free(w);
        return;
    }
    kp->nsent--;
    w->sent = false;
    if (errnum == 0) {
        kp->d->st.rows++;
        kp->d->st.row_bytes += w->iov.iov_len;
        kp->d->said = false;
        kp->stuck = 0;
        HOLD_POINT(&kp->d->hold, "change-durable");
        row_durable(kp, w);
        rows_pass(kp);
        if (kp->unsent_bytes > UNSENT_MAX / 2 && !kp->nsent)
            km_keep_flush(kp);
    } else if (kp->d->interval) {
        kp->unsent_bytes += w->iov.iov_len;
        kp->stuck = kp->d->errnum; /* of writes that are not tried: not KVS_STORAGE_UNKNOWN */
        kp->stuck_err = r->req.err;
    } else {
        kp->bytes -= w->iov.iov_len < kp->bytes ? w->iov.iov_len : kp->bytes;
        km_disk_error(r, &err);
        row_failed(kp, w, errnum, err.text);
        rows_pass(kp);
    }
    km_ns_poke(kp->ns);
}

static void row_send(struct km_keep *kp, struct row *w)
{
    w->r.req.version = w->version;
    w->r.req.root = w->root;
    w->r.req.iov = &w->iov;
    w->r.req.niov = 1;
    w->sent = true;
    kp->nsent++;
    km_keep_submit(kp, &w->r, KVS_STORAGE_JOURNAL, row_done);
}

void km_keep_flush(struct km_keep *kp)
{
    km_checkpoint_send_retries(kp);
    LIST_FOREACH(n, &kp->rows)
    {
        struct row *w = list_entry(n, struct row, node);
        if (!w->sent && w->version) {
            kp->unsent_bytes -= w->iov.iov_len;
            row_send(kp, w);
        }
    }
}

static void flush_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km_keep *kp = arg;

    if (kp->d->failing || kp->nsent > 0)
        flux_timer_start(kp->flush, kp->d->sync_interval, 0);
    else
        km_keep_flush(kp);
}

int km_keep_ready(struct km_keep *kp, errmsg_t *err)
{
    km_disk_recover(kp->d);
    if (kp->stuck) {
        errmsg_set(err, "%s", kp->stuck_err.text);
        errno = kp->stuck;
        return -1;
    }
    if (kp->d->failing || kp->nsent >= ROWS_OUT || kp->unsent_bytes > UNSENT_MAX) {
        errno = EAGAIN;
        return -1;
    }
    return 0;
}

static void journal_later(struct km_keep *kp, struct row *w)
{
    kp->unsent_bytes += w->iov.iov_len;
    if (kp->unsent_bytes > UNSENT_MAX / 2 && !kp->nsent && !kp->stuck)
        km_keep_flush(kp);
    else if (!flux_watcher_active(kp->flush))
        flux_timer_start(kp->flush, kp->d->sync_interval, 0);
}

void km_keep_change(struct km_keep *kp, struct km_commit_change *ch, uint64_t version,
                    const uint8_t *root, uint8_t *row, size_t len)
{
    struct row *w = calloc(1, sizeof(*w));
    struct km_disk *d = kp->d;

    if (version && (!row || !w || kvsstore_hold_root(kp->ns->store, root, NULL) < 0)) {
        km_disk_fail(d, ENOMEM, "the store is out of memory for its journal");
        version = 0;
    }
    if (!w) {
        free(row);
        km_commit_change_done(kp->ns, ch, ENOMEM, "the store is out of memory for its journal");
        return;
    }
    w->kp = kp;
    w->ch = ch;
    w->version = version;
    w->buf = row;
    list_init(&w->node);
    list_append(&kp->rows, &w->node);
    if (d->failing) {
        row_failed(kp, w, d->errnum, d->err.text);
        km_ns_poke(kp->ns);
        return;
    }
    if (version == 0) {
        /* With kvs.sync=interval the changes before it are done, although their rows wait; but what
         * a durable commit has found there may be in one of these rows. */
        if (!d->interval || km_commit_change_early(kp->ns, ch)) {
            if (d->interval)
                km_keep_flush(kp);
            rows_pass(kp);
        } else {
            row_durable(kp, w);
        }
        return;
    }
    w->held = true;
    memcpy(w->root, root, kp->dsize);
    w->iov = (struct iovec){row, len};
    kp->bytes += len;
    if (d->interval) {
        bool wait = km_commit_change_early(kp->ns, ch);
        hold_instead(kp, w);
        journal_later(kp, w);
        if (wait) {
            km_keep_flush(kp);
        } else {
            w->ch = NULL;
            km_commit_change_done(kp->ns, ch, 0, NULL);
        }
    } else {
        row_send(kp, w);
    }
    km_keep_later(kp, d->ck_interval);
    if (kp->bytes > d->ck_bytes)
        km_checkpoint_start(kp);
}

void km_keep_recover(struct km_keep *kp)
{
    struct km_ns *ns = kp->ns;
    errmsg_t err;

    km_commit_give_up(ns);
    if (kvsstore_version(ns->store) != ns->version &&
        kvsstore_reset(ns->store, ns->root, ns->version, &err) < 0)
        flux_log(ns->h, LOG_ERR, "namespace '%s' cannot return to version %llu: %s", ns->name,
                 (unsigned long long)ns->version, err.text);
    if (!list_empty(&kp->again) || (kp->d->interval && !list_empty(&kp->rows)))
        flux_timer_start(kp->flush, kp->d->sync_interval, 0);
    km_ns_poke(ns);
}

/* --- reads from disk --- */

static void loaded(struct km_disk_req *r)
{
    struct load *l = list_entry(r, struct load, r);
    struct km_keep *kp = l->kp;

    if (km_keep_back(kp)) {
        content_t *c = kp->ns->content;
        kp->d->st.loads++;
        if (r->req.errnum)
            content_deny(c, l->digest, r->req.errnum, r->req.err.text);
        else if (content_supply(c, l->digest, r->req.data, r->req.len) < 0)
            flux_log(kp->ns->h, LOG_ERR, "an object of namespace '%s' is damaged on disk",
                     kp->ns->name);
    }
    free(r->req.data);
    free(l);
}

void km_keep_load(struct km_keep *kp, const uint8_t *digest)
{
    struct load *l = calloc(1, sizeof(*l));

    if (!l) {
        content_deny(kp->ns->content, digest, ENOMEM, "the store is out of memory");
        return;
    }
    l->kp = kp;
    memcpy(l->digest, digest, kp->dsize);
    l->obj = (struct kvs_storage_obj){.digest = l->digest, .blob = true};
    l->r.req.objs = &l->obj;
    l->r.req.nobjs = 1;
    km_keep_submit(kp, &l->r, KVS_STORAGE_LOAD, loaded);
}

/* --- life --- */

struct km_keep *km_keep_create(struct km_disk *d, struct km_ns *ns, uint32_t id, const uint8_t *ck,
                               uint64_t bytes)
{
    struct km_keep *kp = calloc(1, sizeof(*kp));
    flux_reactor_t *r = flux_get_reactor(ns->h);

    if (!kp)
        return NULL;
    kp->d = d;
    kp->ns = ns;
    kp->id = id;
    kp->dsize = blobref_size(d->k->blobref);
    kp->bytes = bytes;
    list_init(&kp->node);
    list_init(&kp->rows);
    list_init(&kp->again);
    memcpy(kp->recorded, ck, kp->dsize);
    memcpy(kp->durable, kvsstore_root(ns->store), kp->dsize);
    if (!(kp->dead = hmap_create_bin(kp->dsize, NULL)) ||
        !(kp->dead_before = hmap_create_bin(kp->dsize, NULL)) ||
        !(kp->flush = flux_timer_create(r, flush_cb, kp)) ||
        !(kp->timer = flux_timer_create(r, timer_cb, kp)) ||
        kvsstore_hold_root(ns->store, kp->durable, NULL) < 0) {
        km_keep_destroy(kp);
        errno = ENOMEM;
        return NULL;
    }
    list_append(&d->keeps, &kp->node);
    kvsstore_on_dead(ns->store, km_checkpoint_dead, kp);
    if (bytes > 0)
        km_keep_later(kp, bytes > d->ck_bytes ? 0 : d->ck_interval);
    return kp;
}

int km_keep_fresh(struct km_ns *ns, uint32_t id)
{
    const uint8_t *root = kvsstore_root(ns->store);

    if (kvsstore_hold_root(ns->store, root, NULL) < 0)
        return -1;
    ns->keep = km_keep_create(ns->k->disk, ns, id, root, 0);
    return ns->keep ? 0 : -1;
}

void km_keep_end(struct km_keep *kp, int errnum, const char *why)
{
    struct list_node now;
    struct list_node *n;

    if (kp->ended)
        return;
    kp->ended = true;
    kvsstore_on_dead(kp->ns->store, NULL, NULL);
    flux_watcher_stop(kp->flush);
    flux_watcher_stop(kp->timer);
    km_checkpoint_drop_retries(kp);
    list_init(&now);
    while ((n = list_first(&kp->rows))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        struct row *w = list_entry(n, struct row, node);
        struct km_commit_change *ch = w->ch;
        w->ch = NULL;
        w->held = false;
        list_remove(n);
        if (w->sent)
            list_append(&kp->rows, n);
        else
            row_free(w);
        if (ch)
            km_commit_change_done(
                kp->ns, ch, errnum ? errnum : ECONNABORTED,
                errnum ? why
                       : "kvs was stopped while a commit was on its way to the disk: "
                         "look whether it took effect");
    }
}

bool km_keep_idle(const struct km_keep *kp)
{
    return kp->out == 0;
}

void km_keep_destroy(struct km_keep *kp)
{
    if (!kp)
        return;
    int saved = errno;
    if (kp->ns->keep == kp)
        kp->ns->keep = NULL;
    list_remove(&kp->node);
    flux_watcher_destroy(kp->flush);
    flux_watcher_destroy(kp->timer);
    hmap_destroy(kp->dead);
    hmap_destroy(kp->dead_before);
    free(kp);
    errno = saved;
}

struct removal {
    struct km_disk_req r;
    km_forgotten_f done;
    void *arg;
};

static void removed(struct km_disk_req *r)
{
    struct removal *m = list_entry(r, struct removal, r);
    km_forgotten_f done = m->done;

    m->done = NULL;
    if (done)
        done(m->arg, r->req.errnum, r->req.err.text);
    if (r->req.errnum && !r->d->stopping)
        list_append(&r->d->removals, &r->node); /* or the next start would restore the namespace */
    else
        free(m);
}

int km_keep_remove(struct km_keep *kp, km_forgotten_f done, void *arg)
{
    struct removal *m = calloc(1, sizeof(*m));

    if (!m) {
        flux_log(kp->ns->h, LOG_ERR, "out of memory: namespace '%s' stays on disk", kp->ns->name);
        return -1;
    }
    m->r.req.op = KVS_STORAGE_REMOVE;
    m->r.req.ns = kp->id;
    m->r.done = removed;
    m->done = done;
    m->arg = arg;
    km_disk_submit(kp->d, &m->r);
    return 0;
}
