/* km_disk.c - the file of an instance: attributes, the driver, failed writes, the end.
 *
 * Purpose: with the attribute `statedir`, the instance at rank 0 keeps its namespaces in a file,
 * through a driver (kvs_storage.h) that it loads (km_driver.c).  A file has one driver, and each
 * namespace has a keep (km_keep.c), which decides what is written.
 *
 *    attribute                  value                          default
 *    statedir                   a directory                    (nothing is kept)
 *    kvs.sync                   commit, interval               commit
 *    kvs.sync-interval          seconds                        1
 *    kvs.checkpoint-bytes       length of the journal          16M
 *    kvs.checkpoint-interval    seconds after a change         10
 *
 *    state       what happens                            left when (by)
 *    starting    settings, driver, file, km_restore.c    all is restored (km_restore.c: finish)
 *    working     requests go to the driver               a write fails (write_failed)
 *    failing     no write is sent; the writes that the   all writes are back: the keeps return to
 *                driver has come back with the same      their durable roots, and the driver
 *                error                                   resumes (km_disk_recover)
 *
 * Invariants:
 *  1. Requests reach the driver in the order of their submission here.
 *  2. A write is sent only when all writes on which it builds are durable, or precede it in the
 *     queue of the driver.
 *  3. A request waits for the disk only if its effect has to be durable.
 *  4. done() is called once for each request that was submitted here, at the latest at the end.
 *
 * Failure: an unusable file at the start ends the module with an error message, and thereby the
 * start of the session.  When a write fails later, the requests that wait for it fail with its
 * error, and so do the writes behind it; the next write is tried after the driver has resumed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_disk.h"
#include "libsettings/settings.h"

#define QUEUE_MAX (32u * 1024 * 1024)
#define WAIT_MS 2000            /* wait at the end for one reply of the driver */
#define END_UNSAVED (64u << 20) /* no last checkpoint if more bytes are unsaved */

/* --- requests --- */

static void write_failed(struct km_disk *d, int errnum, const errmsg_t *err)
{
    if (d->failing)
        return;
    d->failing = true;
    /* For the writes behind it, which are not tried. */
    d->errnum = errnum == KVS_STORAGE_UNKNOWN ? EIO : errnum;
    d->err = *err;
    d->st.failures++;
    if (!d->said)
        flux_log(d->k->h, LOG_ERR, "the store cannot be written: %s", err->text);
    d->said = true;
}

void km_disk_error(const struct km_disk_req *r, errmsg_t *err)
{
    if (r->req.errnum == KVS_STORAGE_UNKNOWN)
        errmsg_set(err, "%.150s; it is undone, but whether it is there after a crash is not known",
                   r->req.err.text);
    else
        *err = r->req.err;
}

static void req_done(struct kvs_storage_req *q)
{
    struct km_disk_req *r = list_entry(q, struct km_disk_req, req);
    struct km_disk *d = r->d;

    if (r->write)
        d->writes--;
    else
        d->reads--;
    if (r->write && q->errnum)
        write_failed(d, q->errnum, &q->err);
    r->done(r);
}

/* False: no room, no write may be sent, or the driver is gone. */
static bool send(struct km_disk *d, struct km_disk_req *r)
{
    if (!d->s || (r->write && d->failing) || d->drv->submit(d->s, &r->req) < 0)
        return false;
    if (r->write)
        d->writes++;
    else
        d->reads++;
    return true;
}

void km_disk_submit(struct km_disk *d, struct km_disk_req *r)
{
    r->d = d;
    r->write = kvs_storage_is_write(r->req.op);
    r->req.done = req_done;
    list_init(&r->node);
    if (!list_empty(&d->waiting) || !send(d, r))
        list_append(&d->waiting, &r->node);
}

/* End a request that the driver has not got. */
static void refuse(struct km_disk_req *r, int errnum, const errmsg_t *err)
{
    r->req.errnum = errnum;
    r->req.err = *err;
    r->done(r);
}

static void resumed(struct km_disk_req *r)
{
    free(r);
}

/* Fail the writes that wait: they build on the failed write.  Reads go on waiting. */
static void fail_waiting(struct km_disk *d)
{
    struct list_node now;
    struct list_node *n;

    list_init(&now);
    while ((n = list_first(&d->waiting))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        struct km_disk_req *r = list_entry(n, struct km_disk_req, node);
        list_remove(n);
        if (r->write) {
            refuse(r, d->errnum, &d->err);
        } else {
            list_append(&d->waiting, n);
        }
    }
}

/* Send the requests that wait, as long as there is room. */
static void send_waiting(struct km_disk *d)
{
    struct list_node *n;

    while ((n = list_first(&d->waiting))) {
        struct km_disk_req *r = list_entry(n, struct km_disk_req, node);
        list_remove(n);
        if (!send(d, r)) {
            list_push(&d->waiting, &r->node);
            break;
        }
    }
}

void km_disk_recover(struct km_disk *d)
{
    struct km_disk_req *r;

    if (!d->failing || d->writes > 0)
        return;
    fail_waiting(d);
    if (!(r = calloc(1, sizeof(*r))))
        return; /* tried again after the next request */
    r->req.op = KVS_STORAGE_RESUME;
    r->done = resumed;
    km_disk_submit(d, r);
    d->failing = false;
    LIST_FOREACH_SAFE(n, tmp, &d->keeps)
    km_keep_recover(km_keep_of(n));
    send_waiting(d); /* the driver may have no request whose end would send them */
}

static void tell_anew(struct km_disk *d)
{
    struct kvs_storage_stats st;

    d->drv->stats(d->s, &st);
    if (st.anew != d->anew)
        flux_log(d->k->h, LOG_ERR,
                 "the file of the store in %s was removed under the session: it was written anew",
                 d->dir);
    d->anew = st.anew;
}

/* The driver has executed requests. */
static void dispatched(struct km_disk *d)
{
    tell_anew(d);
    km_disk_recover(d);
    send_waiting(d);
}

void km_disk_fail(struct km_disk *d, int errnum, const char *error)
{
    errmsg_t err;

    errmsg_set(&err, "%s", error);
    write_failed(d, errnum, &err);
}

static void ready_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km_disk *d = arg;

    d->drv->dispatch(d->s);
    dispatched(d);
}

/* Wait for executed requests of the driver, and dispatch them, without the reactor.  False: there
 * was none within `ms` milliseconds. */
static bool km_disk_wait(struct km_disk *d, int ms)
{
    if (!km_driver_wait(d->drv, d->s, ms))
        return false;
    d->drv->dispatch(d->s);
    dispatched(d);
    return true;
}

/* Try failed removals again. */
static void km_disk_again(struct km_disk *d)
{
    struct list_node *n;

    while ((n = list_first(&d->removals))) {
        list_remove(n);
        km_disk_submit(d, list_entry(n, struct km_disk_req, node));
    }
}

void km_disk_tick(struct km *k)
{
    if (k->disk && !k->disk->failing)
        km_disk_again(k->disk);
}

/* --- new namespaces --- */

struct creation {
    struct km_disk_req r;
    char *name;
    void (*done)(void *arg, uint32_t id, int errnum, const char *error);
    void *arg;
};

static void created(struct km_disk_req *r)
{
    struct creation *c = list_entry(r, struct creation, r);
    errmsg_t err;

    km_disk_error(r, &err);
    c->done(c->arg, r->req.ns, r->req.errnum, err.text);
    free(c->name);
    free(c);
}

int km_disk_create(struct km *k, const char *name, uint32_t owner,
                   void (*done)(void *arg, uint32_t id, int errnum, const char *error), void *arg)
{
    struct creation *c;

    if (!k->disk)
        return 0;
    if (!(c = calloc(1, sizeof(*c))) || !(c->name = strdup(name))) {
        free(c);
        errno = ENOMEM;
        return -1;
    }
    km_disk_again(k->disk); /* the removal of a namespace of that name may have failed */
    c->r.req.op = KVS_STORAGE_CREATE;
    c->r.req.name = c->name;
    c->r.req.owner = owner;
    c->r.done = created;
    c->done = done;
    c->arg = arg;
    km_disk_submit(k->disk, &c->r);
    return 1;
}

/* --- the start --- */

static void fail_start(struct km_disk *d, int errnum, const char *error)
{
    d->started(d->k, errnum, error);
}

static void opened(struct km_disk_req *r)
{
    struct km_disk *d = r->d;

    if (d->stopping)
        ;
    else if (r->req.errnum)
        fail_start(d, r->req.errnum, r->req.err.text);
    else
        km_restore_start(d);
    free(r);
}

static int open_file(struct km_disk *d, errmsg_t *err)
{
    struct km_disk_req *r;

    if (!(d->s = d->drv->create(d->dir, d->k->hash, QUEUE_MAX, err)))
        return -1;
    d->w = km_driver_watch(d->drv, d->s, flux_get_reactor(d->k->h), ready_cb, d);
    if (!d->w || !(r = calloc(1, sizeof(*r))))
        return errmsg_fail(err, ENOMEM, "out of memory to keep the store in '%.150s'", d->dir);
    flux_watcher_start(d->w);
    r->req.op = KVS_STORAGE_OPEN;
    r->done = opened;
    km_disk_submit(d, r);
    return 0;
}

static void loaded(void *arg, const struct kvs_storage_driver *drv, const errmsg_t *why)
{
    struct km_disk *d = arg;
    errmsg_t err;

    d->drv = drv;
    if (!drv)
        fail_start(d, errno, why->text);
    else if (open_file(d, &err) < 0)
        fail_start(d, errno, err.text);
}

static int load_driver(struct km_disk *d, errmsg_t *err)
{
    char *path = km_driver_find(err);

    if (!path)
        return -1;
    d->driver = km_driver_load(flux_get_reactor(d->k->h), path, loaded, d);
    free(path);
    return d->driver ? 0
                     : errmsg_fail(err, errno, "the driver of the store cannot be loaded: %s",
                                   strerror(errno));
}

/* --- attributes --- */

static int set_sync(void *arg, const char *value, errmsg_t *err)
{
    struct km_disk *d = arg;

    if (settings_check("kvs.sync", value, err) < 0)
        return -1;
    d->interval = value[0] == 'i';
    return 0;
}

static void ready(void *arg)
{
    struct km_disk *d = arg;
    errmsg_t err;

    if (d->refused)
        return;
    if (!d->dir || !d->dir[0]) { /* nothing is kept on disk */
        d->k->disk = NULL;
        d->started(d->k, 0, NULL);
        setup_destroy(d->setup);
        free(d->dir);
        free(d);
    } else if (load_driver(d, &err) < 0) {
        fail_start(d, errno, err.text);
    }
}

static void refused(void *arg, const char *sentence)
{
    struct km_disk *d = arg;

    d->refused = true;
    fail_start(d, EINVAL, sentence);
}

static const struct setup_row rows[] = {
    SETUP_TEXT("statedir", struct km_disk, dir),
    SETUP_CALL("kvs.sync", set_sync),
    SETUP_SECONDS("kvs.sync-interval", struct km_disk, sync_interval),
    SETUP_SIZE("kvs.checkpoint-bytes", struct km_disk, ck_bytes),
    SETUP_SECONDS("kvs.checkpoint-interval", struct km_disk, ck_interval),
    SETUP_END,
};
static const struct setup_table settings = {"kvs", rows, ready, refused};

int km_disk_start(struct km *k, void (*started)(struct km *k, int errnum, const char *error))
{
    struct km_disk *d = calloc(1, sizeof(*d));
    errmsg_t err;

    if (!d)
        return -1;
    d->k = k;
    d->started = started;
    HOLD_POINT_INIT(&d->hold);
    list_init(&d->keeps);
    list_init(&d->waiting);
    list_init(&d->removals);
    k->disk = d;
    return (d->setup = setup_create(k->h, &settings, d, 0, NULL, &err)) ? 0 : -1;
}

/* --- the end --- */

/* Wait until the driver has executed all writes.  False: it did not reply within WAIT_MS. */
static bool settle(struct km_disk *d)
{
    while (d->writes > 0 || !list_empty(&d->waiting)) {
        if (!km_disk_wait(d, WAIT_MS))
            return false;
    }
    return true;
}

static void last_checkpoints(struct km_disk *d)
{
    LIST_FOREACH(n, &d->keeps)
    {
        struct km_keep *kp = km_keep_of(n);
        if (km_keep_unsaved(kp) <= END_UNSAVED)
            km_checkpoint_start(kp);
        while (km_checkpoint_busy(kp) && !d->failing) {
            if (!km_disk_wait(d, WAIT_MS))
                return;
        }
    }
}

/* Nobody takes what still waits. */
static void refuse_waiting(struct km_disk *d)
{
    struct list_node *n;
    errmsg_t err;

    errmsg_set(&err, "kvs was stopped before the disk took this");
    while ((n = list_first(&d->waiting))) {
        list_remove(n);
        refuse(list_entry(n, struct km_disk_req, node), ECONNABORTED, &err);
    }
}

void km_disk_stop(struct km *k)
{
    struct km_disk *d = k->disk;

    if (!d)
        return;
    d->stopping = true;
    setup_destroy(d->setup);
    km_driver_destroy(d->driver);
    flux_watcher_destroy(d->w);
    if (d->s) {
        LIST_FOREACH(n, &d->keeps)
        km_keep_flush(km_keep_of(n));
        km_disk_again(d);
        if (settle(d) && !d->failing)
            last_checkpoints(d);
        /* All requests that the driver has get their done() from this. */
        d->drv->destroy(d->s);
        d->s = NULL;
        LIST_FOREACH(n, &d->keeps)
        km_keep_end(km_keep_of(n), 0, NULL);
        refuse_waiting(d);
        km_restore_stop(d);
    }
    while (!list_empty(&d->keeps))
        km_keep_destroy(km_keep_of(list_first(&d->keeps)));
    free(d->dir);
    free(d);
    k->disk = NULL;
}
