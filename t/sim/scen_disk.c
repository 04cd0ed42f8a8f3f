/* scen_disk.c - the host of rank 0 loses its power, and the session is started anew on its disk.
 *
 * The store is kept by the driver of storage.c on a disk that loses what was not synced (disk.c).
 * Without a successor of rank 0 its session ends with it: every other broker has to notice, and to
 * end by itself.  Then the next session begins, two to four of them; some end in order.
 *
 * There are two loads: clients of t/history, whose operations are one history over all sessions
 * (with kvs.sync=interval a loss of power begins a new one), and writers that append numbers to a
 * key of their own, some of whose commits ask for durability.  When a session has started:
 *
 *  1. A commit that was acknowledged is there if the session ended in order, or kvs.sync=commit is
 *     set, or it asked for durability.
 *  2. The store is as it was at one version: a commit that was told its version is there exactly if
 *     that is not newer than the version of the store.
 *  3. The commits of a writer are there in their order, none twice, and none that was refused.
 *  4. What was there at one start is there at the next, and what was lost does not come back.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history/histload.h"
#include "libkvs/kvs.h"
#include "storage.h"

#define SESSIONS_MAX 4
#define CLIENTS_MAX 8
#define WRITERS 4
#define LARGE (40 * 1024)
#define ENDS (90 * SIM_S) /* all brokers have ended by then */
#define ATTRS_MAX 12

enum fate { OPEN, REFUSED, ACKNOWLEDGED, THERE, GONE };

/* A commit of a writer. */
struct one {
    struct one *next; /* an older one */
    struct writer *w;
    unsigned n;
    enum fate fate;
    bool durable; /* it asked for that */
    bool empty;   /* it changes nothing, and is told which version is durable */
    bool there;   /* in what was read last */
    uint64_t version;
};

struct writer {
    struct disks *all;
    unsigned number;
    unsigned begun, under_way, at_once;
    struct sim_ep *client;
    struct one *commits;
};

struct disks {
    sim_t *s;
    bool interval;  /* kvs.sync */
    double durable; /* chance that a commit asks for durability */
    bool stop;      /* writers write no more */
    unsigned session, histories;
    const char *attrs[ATTRS_MAX];
    char dir[16]; /* of the history */
    history_t *h;
    histload_t *load;
    struct writer writers[WRITERS];
    unsigned kept, lost; /* acknowledged commits that were there or not */
};

/* --- requests --- */

static void ready_cb(flux_future_t *f, void *arg)
{
    *(bool *)arg = true;
}

static bool is_ready(sim_t *s, void *arg)
{
    return *(bool *)arg;
}

/* Wait for the answer; NULL after sim_fail(). */
static flux_future_t *ask(sim_t *s, flux_future_t *f, const char *what)
{
    bool *ready = sim_alloc(s, sizeof(*ready));

    if (f && flux_future_then(f, -1., ready_cb, ready) == 0 &&
        sim_run_until(s, is_ready, ready, 60 * SIM_S))
        return f;
    sim_fail(s, "%s: no answer", what);
    flux_future_destroy(f);
    return NULL;
}

/* --- writers --- */

static void write_some(void *arg, void *data);

static void committed_cb(flux_future_t *f, void *arg)
{
    struct one *o = arg;
    struct writer *w = o->w;
    sim_t *s = w->all->s;

    if (flux_future_errnum(f) == 0 && flux_kvs_commit_get(f, &o->version, NULL, NULL) == 0)
        o->fate = ACKNOWLEDGED;
    else if (flux_future_errnum(f) == EAGAIN)
        o->fate = REFUSED;
    if (s->cfg.trace)
        printf("%14.6f  writer %u: commit %u%s: %s, version %llu\n", 1e-9 * (double)sim_now(s),
               w->number, o->n, o->durable ? ", durable" : "",
               flux_future_errnum(f) ? flux_future_error(f) : "done",
               (unsigned long long)o->version);
    flux_future_destroy(f);
    w->under_way--;
    sim_at(s, sim_now(s) + rng_below(&s->rng, 15) * SIM_MS, write_some, w, w->client);
}

static void write_one(struct writer *w)
{
    sim_t *s = w->all->s;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    struct one *o = sim_alloc(s, sizeof(*o));
    flux_future_t *f;
    char key[24], text[16];

    *o = (struct one){.next = w->commits, .w = w, .n = w->begun++};
    o->durable = rng_chance(&s->rng, w->all->durable);
    o->empty = o->durable && rng_chance(&s->rng, 0.3);
    w->commits = o;
    w->under_way++;
    snprintf(key, sizeof(key), "p.w%u", w->number);
    snprintf(text, sizeof(text), "%u,", o->n);
    if (!o->empty)
        flux_kvs_txn_append(txn, key, text, strlen(text), NULL);
    if (!o->empty && rng_chance(&s->rng, 0.05)) {
        char *large = sim_alloc(s, LARGE);

        memset(large, 'a' + (int)(o->n % 26), LARGE);
        snprintf(key, sizeof(key), "large.w%u", w->number);
        flux_kvs_txn_put_raw(txn, key, large, LARGE, NULL);
    }
    f = o->durable ? flux_kvs_commit_durable(w->client->h, NULL, txn)
                   : flux_kvs_commit(w->client->h, NULL, txn);
    if (!f || flux_future_then(f, -1., committed_cb, o) < 0)
        sim_fail(s, "a commit could not be asked for: %s", strerror(errno));
    flux_kvs_txn_destroy(txn);
}

static void write_some(void *arg, void *data)
{
    struct writer *w = arg;

    /* It may have been planned for one that is gone. */
    while (w->client == data && !w->client->gone && !w->all->stop && w->under_way < w->at_once &&
           !w->all->s->failed)
        write_one(w);
}

static bool all_written(sim_t *s, void *arg)
{
    const struct disks *d = arg;

    for (unsigned i = 0; i < WRITERS; i++) {
        if (!d->writers[i].client->gone && d->writers[i].under_way > 0)
            return false;
    }
    return true;
}

/* --- what is there --- */

static struct one *find(const struct writer *w, unsigned n)
{
    struct one *o = w->commits;

    while (o && o->n != n)
        o = o->next;
    return o;
}

/* Take the value of a writer's key. */
static void take_value(struct disks *d, struct writer *w, const char *data, size_t len)
{
    char *text = sim_alloc(d->s, len + 1), *p = text, *end;
    unsigned next = 0;

    memcpy(text, data, len);
    while (*p && !d->s->failed) {
        unsigned n = (unsigned)strtoul(p, &end, 10);
        struct one *o = *end == ',' ? find(w, n) : NULL;

        if (!o || n < next)
            sim_fail(d->s, "writer %u: its value cannot be: '%s'", w->number, text);
        else
            o->there = true;
        next = n + 1;
        p = *end ? end + 1 : end;
    }
}

static void judge_one(struct disks *d, struct one *o, uint64_t version, bool lossy)
{
    bool must = !lossy || !d->interval || o->durable;
    const char *why = NULL;

    if (o->empty)
        o->there = o->fate == THERE || (o->fate == ACKNOWLEDGED && o->version <= version);
    if (o->fate == ACKNOWLEDGED && o->there != (o->version <= version))
        why = o->there ? "is newer than the store, and there" : "is older than the store, and lost";
    else if (o->fate == ACKNOWLEDGED && !o->there && must)
        why = "was acknowledged, and is lost";
    else if (o->fate == REFUSED && o->there)
        why = "was refused, and is there";
    else if (o->fate == THERE && !o->there)
        why = "was there at the last start, and is lost";
    else if (o->fate == GONE && o->there)
        why = "was lost at the last start, and is there";
    if (why)
        sim_fail(d->s, "commit %u of writer %u (%sversion %llu; the store: %llu) %s", o->n,
                 o->w->number, o->durable ? "durable, " : "", (unsigned long long)o->version,
                 (unsigned long long)version, why);
    if (o->fate == ACKNOWLEDGED) {
        d->kept += o->there;
        d->lost += !o->there;
    }
    o->fate = o->there ? THERE : o->fate == REFUSED ? REFUSED : GONE;
    o->there = false;
}

/* Read all at one version, and judge it.  `lossy`: the power has failed since the last time. */
static void judge(struct disks *d, bool lossy)
{
    sim_t *s = d->s;
    struct sim_ep *e = sim_client_add(s, 0, "judge");
    flux_future_t *f = e ? ask(s, flux_kvs_version(e->h, NULL), "the version") : NULL;
    struct flux_kvs_dirent entry;
    uint64_t version = 0;
    size_t pos = 0;
    unsigned number;

    if (f && flux_kvs_commit_get(f, &version, NULL, NULL) < 0)
        sim_fail(s, "the version is not known: %s", flux_future_error(f));
    flux_future_destroy(f);
    if (s->failed ||
        !(f = ask(s, flux_kvs_readdir(e->h, NULL, "p", FLUX_KVS_VALUES, NULL), "a directory")))
        return;
    if (flux_future_errnum(f) && flux_future_errnum(f) != ENOENT)
        sim_fail(s, "what was written cannot be read: %s", flux_future_error(f));
    while (flux_future_errnum(f) == 0 && flux_kvs_readdir_next(f, &pos, &entry, NULL) == 1) {
        if (sscanf(entry.name, "w%u", &number) == 1 && number < WRITERS && entry.data)
            take_value(d, &d->writers[number], entry.data, entry.size);
        else
            sim_fail(s, "'%s' was read, which nobody has written", entry.name);
    }
    flux_future_destroy(f);
    for (unsigned i = 0; i < WRITERS; i++) {
        for (struct one *o = d->writers[i].commits; o && !s->failed; o = o->next)
            judge_one(d, o, version, lossy);
    }
}

/* --- the history --- */

static uint64_t now_cb(void *arg)
{
    return (uint64_t)sim_now(((struct disks *)arg)->s);
}

static void remove_client(void *arg, void *data)
{
    sim_client_remove(data);
}

/* Its handle must not be closed from here. */
static void ended_cb(flux_t *h, bool lost, void *arg)
{
    struct disks *d = arg;

    sim_at(d->s, sim_now(d->s), remove_client, d, flux_handle_impl(h));
}

static bool all_done(sim_t *s, void *arg)
{
    return histload_busy(((struct disks *)arg)->load) == 0;
}

static void begin_history(struct disks *d)
{
    snprintf(d->dir, sizeof(d->dir), "h%u", d->histories++);
    if (!(d->h = history_create()))
        sim_fail(d->s, "out of memory for a history");
}

static void end_history(struct disks *d)
{
    const struct hist_options o = {.master_known = true};
    struct hist_report *r = malloc(sizeof(*r));

    if (!r || history_check(d->h, &o, r) < 0)
        sim_fail(d->s, "out of memory for the history");
    else if (r->count > 0)
        sim_fail(d->s, "%zu violations in %zu operations: %s", r->count, r->ops, r->first[0].text);
    if (r && d->s->cfg.trace)
        history_write(d->h, stdout);
    free(r);
    history_destroy(d->h);
    d->h = NULL;
}

static void begin_load(struct disks *d)
{
    sim_t *s = d->s;
    struct rng *r = &s->rng;
    struct histload_config cfg = {
        .seed = rng_next(r),
        .dir = d->dir,
        .first_client = 1 + 1000 * d->session,
        .keys = rng_range(r, 2, 8),
        .append_keys = 2,
        .guard_keys = 2,
        .fence_max = 3,
        .watches = true,
        .value_max = 3000,
        .large = 0.1,
        .pause = 1e-3 * rng_range(r, 1, 20),
        .fence_timeout = 2.,
        .wait_timeout = 5.,
        .now = now_cb,
        .ended = ended_cb,
        .arg = d,
    };

    if (!(d->load = histload_create(&cfg, d->h)))
        sim_fail(s, "out of memory for clients");
    for (unsigned i = rng_range(r, 1, CLIENTS_MAX); i > 0 && !s->failed; i--) {
        struct sim_ep *e = sim_client_add(s, rng_below(r, s->cfg.size), "client");

        if (e && histload_add(d->load, e->h, 0) < 0)
            sim_fail(s, "out of memory for a client");
    }
    d->stop = false;
    for (unsigned i = 0; i < WRITERS && !s->failed; i++) {
        struct writer *w = &d->writers[i];

        w->all = d;
        w->number = i;
        w->under_way = 0;
        w->at_once = rng_range(r, 1, 4);
        if ((w->client = sim_client_add(s, rng_below(r, s->cfg.size), "writer")))
            sim_at(s, sim_now(s) + rng_below(r, 30) * SIM_MS, write_some, w, w->client);
    }
}

/* --- sessions --- */

static bool all_ended(sim_t *s, void *arg)
{
    for (uint32_t r = 0; r < s->cfg.size; r++) {
        if (s->nodes[r].state == NODE_ON)
            return false;
    }
    return true;
}

/* All brokers end; `lossy`: because rank 0 has. */
static void wait_for_end(struct disks *d, bool lossy)
{
    sim_t *s = d->s;

    if (!s->failed && !sim_run_until(s, all_ended, d, ENDS))
        sim_fail(s, "not all brokers end with rank 0");
    for (uint32_t r = 1; r < s->cfg.size && !s->failed; r++) {
        if (s->nodes[r].exit_code != lossy)
            sim_fail(s, "rank %u ended with exit code %d", r, s->nodes[r].exit_code);
    }
    /* Nothing is on its way any more. */
    sim_run_for(s, SIM_S + sim_max_delay(s) * 8);
}

/* The last session: all that is under way comes to its end. */
static void finish(struct disks *d)
{
    sim_t *s = d->s;
    unsigned watching;
    char text[300];

    d->stop = true;
    histload_stop(d->load);
    if (!sim_run_until(s, all_done, d, 30 * SIM_S + sim_max_delay(s) * 16 * s->cfg.size))
        sim_fail(s, "%u clients are not at their end", histload_busy(d->load));
    if (!sim_run_until(s, all_written, d, 60 * SIM_S))
        sim_fail(s, "not all writers are told of their commits");
    sim_run_for(s, SIM_S); /* all ranks have the last version */
    histload_verify(d->load);
    if (!sim_run_until(s, all_done, d, 10 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size))
        sim_fail(s, "%u clients do not read what they watch", histload_busy(d->load));
    sim_run_for(s, SIM_S);
    if (!s->failed && histload_behind(d->load, &watching, text, sizeof(text)) > 0)
        sim_fail(s, "%s", text);
    if (!s->failed)
        judge(d, false);
    histload_destroy(d->load);
    if (!s->failed)
        end_history(d);
    sim_run_for(s, SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    sim_check_quiet(s);
}

static bool writes(sim_t *s, void *arg)
{
    return storage_writes(s);
}

/* One that is not the last.  Returns whether the power has failed. */
static bool end_session(struct disks *d)
{
    sim_t *s = d->s;
    bool lossy = rng_chance(&s->rng, 0.8);

    s->broke += lossy && s->cfg.plant == PLANT_LIES;
    /* The worst moment is while the driver writes. */
    if (lossy && rng_chance(&s->rng, 0.7))
        sim_run_until(s, writes, d, SIM_S);
    if (lossy)
        storage_power_fails(s);
    else
        core_shutdown(s->nodes[0].core, 0, "it was asked for");
    /* Who can reach nobody asks repeatedly. */
    sim_run_for(s, rng_below(&s->rng, 100) * SIM_MS);
    d->stop = true;
    histload_stop(d->load);
    wait_for_end(d, lossy);
    histload_destroy(d->load);
    d->load = NULL;
    if (lossy && d->interval && !s->failed) {
        end_history(d);
        begin_history(d);
    }
    return lossy;
}

static void draw_attrs(struct disks *d, const char *dir)
{
    static const char *const intervals[] = {"20ms", "100ms", "1s"};
    static const char *const sizes[] = {"64k", "200k", "16M"};
    struct rng *r = &d->s->rng;
    const char *const attrs[ATTRS_MAX] = {"statedir",
                                          dir,
                                          "kvs.sync",
                                          d->interval ? "interval" : "commit",
                                          "kvs.sync-interval",
                                          intervals[rng_below(r, 3)],
                                          "kvs.checkpoint-interval",
                                          intervals[rng_below(r, 3)],
                                          "kvs.checkpoint-bytes",
                                          sizes[rng_below(r, 3)]};

    memcpy(d->attrs, attrs, sizeof(attrs));
    d->s->cfg.attrs = d->attrs;
}

static void run_sessions(struct disks *d)
{
    sim_t *s = d->s;
    unsigned last = rng_range(&s->rng, 1, SESSIONS_MAX - 1);
    bool lossy = false;

    begin_history(d);
    for (d->session = 0; d->session <= last && !s->failed; d->session++) {
        int64_t time = rng_range(&s->rng, 20, 600) * SIM_MS;

        if (d->session > 0)
            sim_renew(s);
        if (!sim_boot(s))
            break;
        judge(d, lossy);
        begin_load(d);
        if (rng_chance(&s->rng, 0.5))
            sim_faults(s, FAULT_PAUSE | FAULT_SPIKE, rng_range(&s->rng, 1, 5), time);
        sim_run_for(s, time);
        if (s->failed || d->session == last)
            finish(d);
        else
            lossy = end_session(d);
    }
}

static void disk_run(sim_t *s)
{
    struct disks *d = sim_alloc(s, sizeof(*d));
    errmsg_t err;
    disk_t *disk = disk_create(&s->rng, &err);

    if (!disk) {
        sim_fail(s, "%s", err.text);
        return;
    }
    d->s = s;
    d->interval = rng_chance(&s->rng, 0.5);
    d->durable = rng_chance(&s->rng, 0.5) ? 0.4 : 0.04;
    draw_attrs(d, disk_dir(disk));
    disk_set_lies(disk, s->cfg.plant == PLANT_LIES);
    storage_attach(s, disk);
    run_sessions(d);
    if (s->cfg.trace)
        printf(
            "acknowledged and there: %u, lost: %u; writes %llu, lost %llu, torn %llu, syncs %llu\n",
            d->kept, d->lost, (unsigned long long)disk_stats(disk)->writes,
            (unsigned long long)disk_stats(disk)->lost, (unsigned long long)disk_stats(disk)->torn,
            (unsigned long long)disk_stats(disk)->syncs);
    history_destroy(d->h);
    storage_detach(s);
    disk_destroy(disk);
}

static void disk_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules = SIM_MOD_KVS;
    cfg->heal = rng_chance(rng, 0.5) ? 5. : 0.;
    if (cfg->size > 32)
        cfg->size = 1 + rng_below(rng, 32);
}

const struct scenario scenario_disk = {
    "disk", "what was acknowledged as durable survives losses of power", disk_run, disk_tune};
