/* storage.c - the driver of the store on the virtual clock, in the place of content-sqlite and of
 * km_driver.c.
 *
 * What the driver does in its thread (sqlgroup.c, sqlfile.c, SQLite) happens here in the thread of
 * the simulation, on the files of an emulated disk (disk.c).
 *
 * state of a request   where it is              left when
 * waiting              `queue`                  a while after the first of them was submitted
 * executed             `executed`               the time is over that this takes: until then the
 *                                               power may fail at any write of the group
 * done                 `ready`                  its done() is called
 *
 * Invariants:
 *  1. What the module is told was written: disk_told().
 *  2. After a loss of power nothing is executed: all requests fail.
 *
 * A planted fault: the module is told before the group is executed.
 */
#include "config.h"
#include "storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modules/kvs/km_driver.h"
#include "modules/kvs/sqlgroup.h"

#define SLOW 0.05 /* chance of a group that takes long */

struct kvs_storage {
    sim_t *s;
    disk_t *disk;
    sqlgroup_t *group;
    struct list_node queue, executed, ready;
    size_t nqueue, max; /* max 0: no bound */
    enum sqlgroup_leisure leisure;
    vevent_t *event; /* the next thing to be done */
    bool tidies;     /* ... is only tidying */
    bool off;
    bool closing;
    flux_watcher_f cb;
    void *arg;
};

/* --- the work of the driver --- */

static void take(void *arg, void *data);
static void tell(void *arg, void *data);
static void tidy(void *arg, void *data);

static void later(kvs_storage_t *st, vevent_f cb, int64_t within)
{
    sim_t *s = st->s;
    int64_t at = sim_now(s) + 1 + (int64_t)(rng_real(&s->rng) * (double)within);

    if (!st->off && !st->event &&
        !(st->event = vclock_add(s->clock, &s->nodes[0].owner, at, false, cb, st, NULL)))
        sim_fail(s, "out of memory");
}

static void deliver(void *arg, struct list_node *done)
{
    kvs_storage_t *st = arg;

    list_splice(&st->executed, done);
}

static void execute(kvs_storage_t *st)
{
    struct list_node group;
    const struct list_node *n = list_first(&st->queue);
    const struct kvs_storage_req *q = n ? list_entry(n, struct kvs_storage_req, node) : NULL;

    list_init(&group);
    list_splice(&group, &st->queue);
    st->nqueue = 0;
    if (st->s->cfg.plant == PLANT_EARLY) {
        disk_told(st->disk);
        st->s->broke++;
    }
    st->leisure = sqlgroup_run(st->group, &group) ? SQLGROUP_TIDY : SQLGROUP_NOTHING;
    if (q && q->op == KVS_STORAGE_OPEN) {
        disk_sync_dir(st->disk); /* as sqlfile_open() does at its end */
        if (q->errnum)
            sim_fail(st->s, "the store was not opened: %s", q->err.text);
    }
}

static void take(void *arg, void *data)
{
    kvs_storage_t *st = arg;
    bool slow = rng_chance(&st->s->rng, SLOW);

    st->event = NULL;
    execute(st);
    later(st, tell, slow ? 300 * SIM_MS : 3 * SIM_MS);
}

static void told(kvs_storage_t *st)
{
    if (st->s->cfg.plant != PLANT_EARLY)
        disk_told(st->disk);
    list_splice(&st->ready, &st->executed);
}

static void go_on(kvs_storage_t *st)
{
    if (!list_empty(&st->queue)) {
        later(st, take, SIM_MS);
    } else if (st->leisure != SQLGROUP_NOTHING) {
        st->tidies = true;
        later(st, tidy, st->leisure == SQLGROUP_PAUSE ? 500 * SIM_MS : SIM_MS);
    }
}

static void tell(void *arg, void *data)
{
    kvs_storage_t *st = arg;

    st->event = NULL;
    told(st);
    go_on(st);
    st->cb(st->s->nodes[0].reactor, NULL, FLUX_POLLIN, st->arg);
}

static void tidy(void *arg, void *data)
{
    kvs_storage_t *st = arg;

    st->event = NULL;
    st->tidies = false;
    if (st->leisure == SQLGROUP_PAUSE)
        st->leisure = SQLGROUP_SHRINK;
    else
        st->leisure = sqlgroup_tidy(st->group, st->leisure);
    go_on(st);
}

/* --- what the module calls --- */

static kvs_storage_t *storage_create(const char *dir, const char *hash, size_t max_bytes,
                                     errmsg_t *err)
{
    disk_t *d = disk_find();
    sim_t *s = d ? disk_user(d) : NULL;
    kvs_storage_t *st = calloc(1, sizeof(*st));

    if (!s || !st || !(st->group = sqlgroup_create(dir, hash, deliver, st))) {
        free(st);
        errmsg_fail(err, ENOMEM, "there is no disk for '%.100s'", dir);
        return NULL;
    }
    st->s = s;
    st->disk = d;
    st->max = rng_chance(&s->rng, 0.3) ? rng_range(&s->rng, 1, 8) : 0;
    list_init(&st->queue);
    list_init(&st->executed);
    list_init(&st->ready);
    s->storage = st;
    return st;
}

static void storage_dispatch(kvs_storage_t *st)
{
    struct list_node done;
    struct list_node *n;

    list_init(&done);
    list_splice(&done, &st->ready);
    while ((n = list_first(&done))) {
        struct kvs_storage_req *q = list_entry(n, struct kvs_storage_req, node);

        list_remove(n);
        q->done(q);
    }
}

/* Nobody executes what is left. */
static void fail_all(kvs_storage_t *st)
{
    struct list_node *const lists[] = {&st->queue, &st->executed};
    struct list_node *n;

    for (int i = 0; i < 2; i++) {
        while ((n = list_first(lists[i]))) {
            struct kvs_storage_req *q = list_entry(n, struct kvs_storage_req, node);

            list_remove(n);
            free(q->data);
            q->data = NULL;
            q->len = 0;
            q->errnum = EIO;
            errmsg_set(&q->err, "the power has failed");
            list_append(&st->ready, n);
        }
    }
}

static void storage_destroy(kvs_storage_t *st)
{
    int saved = errno;

    if (!st)
        return;
    st->closing = true;
    vclock_cancel(st->s->clock, st->event);
    if (st->off) {
        fail_all(st);
    } else {
        execute(st);
        told(st);
    }
    storage_dispatch(st);
    sqlgroup_destroy(st->group);
    st->s->storage = NULL;
    free(st);
    errno = saved;
}

static int storage_fd(kvs_storage_t *st)
{
    return -1;
}

static int storage_submit(kvs_storage_t *st, struct kvs_storage_req *q)
{
    if (st->closing || (st->max > 0 && st->nqueue >= st->max && kvs_storage_is_write(q->op))) {
        errno = EAGAIN;
        return -1;
    }
    q->data = NULL;
    q->len = 0;
    q->more = false;
    q->errnum = 0;
    list_init(&q->node);
    list_append(&st->queue, &q->node);
    st->nqueue++;
    if (st->tidies) { /* that can wait */
        vclock_cancel(st->s->clock, st->event);
        st->event = NULL;
        st->tidies = false;
    }
    later(st, take, SIM_MS);
    return 0;
}

static bool storage_busy(kvs_storage_t *st)
{
    return st->event != NULL;
}

static void storage_stats(kvs_storage_t *st, struct kvs_storage_stats *out)
{
    const struct sqlgroup_counts *n = sqlgroup_counts(st->group);

    *out = (struct kvs_storage_stats){.commits = n->commits,
                                      .syncs = n->syncs,
                                      .writes = n->writes,
                                      .failures = n->failures,
                                      .anew = n->anew,
                                      .queued = st->nqueue};
}

static const struct kvs_storage_driver driver = {
    .abi = KVS_STORAGE_ABI,
    .name = "simulated",
    .create = storage_create,
    .destroy = storage_destroy,
    .fd = storage_fd,
    .dispatch = storage_dispatch,
    .submit = storage_submit,
    .busy = storage_busy,
    .stats = storage_stats,
    .next = sqlgroup_next,
};

/* --- km_driver.h --- */

struct km_driver {
    void (*loaded)(void *arg, const struct kvs_storage_driver *drv, const errmsg_t *err);
    void *arg;
    flux_watcher_t *timer;
};

char *km_driver_find(errmsg_t *err)
{
    return strdup(driver.name);
}

static void load_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    km_driver_t *l = arg;

    l->loaded(l->arg, &driver, NULL);
}

km_driver_t *km_driver_load(flux_reactor_t *r, const char *path,
                            void (*loaded)(void *arg, const struct kvs_storage_driver *drv,
                                           const errmsg_t *err),
                            void *arg)
{
    km_driver_t *l = calloc(1, sizeof(*l));

    if (!l || !(l->timer = flux_timer_create(r, load_cb, l))) {
        free(l);
        return NULL;
    }
    l->loaded = loaded;
    l->arg = arg;
    flux_timer_start(l->timer, 0.001, 0.);
    return l;
}

void km_driver_destroy(km_driver_t *l)
{
    if (l)
        flux_watcher_destroy(l->timer);
    free(l);
}

static void nothing_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
}

/* No file is watched: tell() calls back. */
flux_watcher_t *km_driver_watch(const struct kvs_storage_driver *drv, kvs_storage_t *st,
                                flux_reactor_t *r, flux_watcher_f cb, void *arg)
{
    st->cb = cb;
    st->arg = arg;
    return flux_timer_create(r, nothing_cb, NULL);
}

/* Only when the module ends: no time passes meanwhile. */
bool km_driver_wait(const struct kvs_storage_driver *drv, kvs_storage_t *st, int ms)
{
    vclock_cancel(st->s->clock, st->event);
    st->event = NULL;
    if (st->off) {
        fail_all(st);
    } else {
        if (list_empty(&st->executed))
            execute(st);
        told(st);
    }
    return !list_empty(&st->ready);
}

/* --- the scenario --- */

void storage_attach(sim_t *s, disk_t *d)
{
    disk_set_user(d, s);
    s->disk = d;
}

void storage_detach(sim_t *s)
{
    node_kill(&s->nodes[0]);
    s->disk = NULL;
}

bool storage_writes(const sim_t *s)
{
    return s->storage && !list_empty(&s->storage->executed);
}

void storage_power_fails(sim_t *s)
{
    s->faults++;
    if (s->storage)
        s->storage->off = true;
    disk_power_off(s->disk);
    node_kill(&s->nodes[0]);
    if (disk_power_on(s->disk) < 0)
        sim_fail(s, "the disk cannot be written: %s", strerror(errno));
}
