/* scen_kvs.c - the key-value store: commits, fences, reads at other ranks, a watcher.
 *
 * Writers at random ranks commit two keys at a time and read them back; readers look at the
 * writers' directories from elsewhere; groups fence round after round, each member with a key of
 * its own, and then read everybody's.  What must hold, with faults too:
 *
 *  1. Read your writes: a client that was told that its commit is done finds what it wrote, or
 *     what it wrote later.
 *  2. Atomicity: both keys of a commit, read together, hold the same number at all times.
 *  3. Monotonic reads: no client sees a writer's number, or a version of the store, go back.
 *  4. A fence: all members that succeed are told the same version, not before all have entered,
 *     and then find the keys of all members.
 *  5. The version a commit is told grows from commit to commit of one client.
 *
 * Without faults there are no errors; with faults EHOSTUNREACH and ECONNABORTED are, never silence.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "sim.h"

#define WRITERS 6
#define COMMITS 4
#define READERS 6
#define READS 8
#define GROUPS 2
#define MEMBERS_MAX 20
#define ROUNDS 3

struct store {
    sim_t *s;
    bool faults;
    unsigned busy; /* clients that are not done */
    struct writer {
        struct store *st;
        struct sim_ep *client;
        unsigned number;
        unsigned n;       /* commits begun */
        uint64_t version; /* of the last one that succeeded */
        unsigned watched; /* newest number that the watcher saw */
        bool known;       /* the last commit succeeded */
    } writers[WRITERS];
    struct reader {
        struct store *st;
        struct sim_ep *client;
        unsigned left;
        unsigned of;            /* the writer it looks at now */
        unsigned seen[WRITERS]; /* newest number */
        uint64_t version;
    } readers[READERS];
    struct fences {
        struct store *st;
        unsigned number;
        unsigned size;
        const char *ranks; /* its members say where all of them are; NULL: they do not */
        unsigned entered[ROUNDS];
        uint64_t version[ROUNDS];
        struct fencer {
            struct fences *g;
            struct sim_ep *client;
            unsigned number;
            unsigned round;
        } members[MEMBERS_MAX];
    } groups[GROUPS];
};

/* May it have failed like this?  false after sim_fail(). */
static bool excused(struct store *st, flux_future_t *f, const char *what, uint32_t rank)
{
    int errnum = flux_future_errnum(f);

    if (errnum == EAGAIN && st->s->queue_max > 0)
        return true;
    if (st->faults && (errnum == EHOSTUNREACH || errnum == ECONNABORTED))
        return true;
    sim_fail(st->s, "rank %u: %s failed: %s: %s", rank, what, strerror(errnum),
             flux_future_error(f));
    return false;
}

static bool then(struct store *st, flux_future_t *f, flux_future_f cb, void *arg)
{
    if (f && flux_future_then(f, -1., cb, arg) == 0)
        return true;
    sim_fail(st->s, "a request could not be made: %s", strerror(errno));
    flux_future_destroy(f);
    return false;
}

/* The number in the entry `name` of the directory at hand; -1 when it is not there. */
static long entry(flux_future_t *f, const char *name)
{
    struct flux_kvs_dirent e;
    size_t pos = 0;
    char text[24];

    while (flux_kvs_readdir_next(f, &pos, &e, NULL) == 1) {
        if (strcmp(e.name, name) != 0 || !e.data || e.size >= sizeof(text))
            continue;
        memcpy(text, e.data, e.size);
        text[e.size] = '\0';
        return strtol(text, NULL, 10);
    }
    return -1;
}

/* --- writers --- */

static void write_next(void *arg, void *data);

static void done(struct store *st)
{
    st->busy--;
}

static void again(struct store *st, vevent_f cb, void *arg)
{
    sim_at(st->s, sim_now(st->s) + rng_below(&st->s->rng, 10) * SIM_MS, cb, arg, NULL);
}

static void read_back_cb(flux_future_t *f, void *arg)
{
    struct writer *w = arg;
    struct store *st = w->st;
    uint32_t rank = w->client->broker->rank;

    if (flux_future_errnum(f) != 0)
        excused(st, f, "reading back", rank);
    else {
        long a = entry(f, "a");
        long b = entry(f, "b");
        if (a != b)
            sim_fail(st->s, "rank %u: half a commit was seen: %ld and %ld", rank, a, b);
        else if (a != (long)w->n)
            sim_fail(st->s, "rank %u: writer %u committed %u and then read %ld", rank, w->number,
                     w->n, a);
    }
    flux_future_destroy(f);
    again(st, write_next, w);
}

static void committed_cb(flux_future_t *f, void *arg)
{
    struct writer *w = arg;
    struct store *st = w->st;
    uint64_t version;
    char key[32];

    if (flux_future_errnum(f) != 0 || flux_kvs_commit_get(f, &version, NULL, NULL) < 0) {
        excused(st, f, "a commit", w->client->broker->rank);
        flux_future_destroy(f);
        again(st, write_next, w);
        return;
    }
    if (version <= w->version)
        sim_fail(st->s, "rank %u: version %llu was told after version %llu",
                 w->client->broker->rank, (unsigned long long)version,
                 (unsigned long long)w->version);
    w->version = version;
    flux_future_destroy(f);
    snprintf(key, sizeof(key), "w%u", w->number);
    then(st, flux_kvs_readdir(w->client->h, NULL, key, FLUX_KVS_VALUES, NULL), read_back_cb, w);
}

static void write_next(void *arg, void *data)
{
    struct writer *w = arg;
    struct store *st = w->st;
    flux_kvs_txn_t *txn;
    char key[32], value[24];

    if (w->client->gone || w->n == COMMITS) {
        done(st);
        return;
    }
    w->n++;
    snprintf(value, sizeof(value), "%u", w->n);
    if ((txn = flux_kvs_txn_create())) {
        for (int i = 0; i < 2; i++) {
            snprintf(key, sizeof(key), "w%u.%c", w->number, 'a' + i);
            flux_kvs_txn_put(txn, key, value, NULL);
        }
        then(st, flux_kvs_commit(w->client->h, NULL, txn), committed_cb, w);
        flux_kvs_txn_destroy(txn);
    }
}

/* --- readers --- */

static void read_next(void *arg, void *data);

static void read_cb(flux_future_t *f, void *arg)
{
    struct reader *r = arg;
    struct store *st = r->st;
    uint32_t rank = r->client->broker->rank;
    int errnum = flux_future_errnum(f);

    if (errnum == ENOENT) {
        if (r->seen[r->of] > 0)
            sim_fail(st->s, "rank %u: what writer %u wrote is gone", rank, r->of);
    } else if (errnum != 0)
        excused(st, f, "a read", rank);
    else {
        long a = entry(f, "a");
        long b = entry(f, "b");
        if (a != b)
            sim_fail(st->s, "rank %u: half a commit was seen: %ld and %ld", rank, a, b);
        else if (a < (long)r->seen[r->of])
            sim_fail(st->s, "rank %u: writer %u's number went back from %u to %ld", rank, r->of,
                     r->seen[r->of], a);
        else
            r->seen[r->of] = (unsigned)a;
    }
    flux_future_destroy(f);
    again(st, read_next, r);
}

static void version_cb(flux_future_t *f, void *arg)
{
    struct reader *r = arg;
    struct store *st = r->st;
    uint64_t version;
    char key[32];

    if (flux_future_errnum(f) != 0 || flux_kvs_commit_get(f, &version, NULL, NULL) < 0)
        excused(st, f, "asking for the version", r->client->broker->rank);
    else if (version < r->version)
        sim_fail(st->s, "rank %u: the version went back from %llu to %llu", r->client->broker->rank,
                 (unsigned long long)r->version, (unsigned long long)version);
    else
        r->version = version;
    flux_future_destroy(f);
    snprintf(key, sizeof(key), "w%u", r->of);
    then(st, flux_kvs_readdir(r->client->h, NULL, key, FLUX_KVS_VALUES, NULL), read_cb, r);
}

static void read_next(void *arg, void *data)
{
    struct reader *r = arg;

    if (r->client->gone || r->left-- == 0) {
        done(r->st);
        return;
    }
    r->of = rng_below(&r->st->s->rng, WRITERS);
    then(r->st, flux_kvs_version(r->client->h, NULL), version_cb, r);
}

/* --- fences --- */

static void fence_next(void *arg, void *data);

static void fence_read_cb(flux_future_t *f, void *arg)
{
    struct fencer *m = arg;
    struct fences *g = m->g;
    struct store *st = g->st;
    uint32_t rank = m->client->broker->rank;

    if (flux_future_errnum(f) != 0)
        excused(st, f, "reading after a fence", rank);
    for (unsigned k = 0; k < g->size && flux_future_errnum(f) == 0; k++) {
        char name[16];
        snprintf(name, sizeof(name), "m%u", k);
        long n = entry(f, name);
        if (n != (long)m->round + 1)
            sim_fail(st->s, "rank %u: after round %u of fence %u member %u's key holds %ld", rank,
                     m->round + 1, g->number, k, n);
    }
    flux_future_destroy(f);
    m->round++;
    again(st, fence_next, m);
}

static void fenced_cb(flux_future_t *f, void *arg)
{
    struct fencer *m = arg;
    struct fences *g = m->g;
    struct store *st = g->st;
    uint32_t rank = m->client->broker->rank;
    uint64_t version;
    char key[32];

    if (flux_future_errnum(f) != 0 || flux_kvs_commit_get(f, &version, NULL, NULL) < 0) {
        excused(st, f, "a fence", rank);
        flux_future_destroy(f);
        done(st);
        return;
    }
    flux_future_destroy(f);
    if (g->entered[m->round] != g->size)
        sim_fail(st->s, "rank %u: fence %u was over with %u of %u entered", rank, g->number,
                 g->entered[m->round], g->size);
    if (g->version[m->round] == 0)
        g->version[m->round] = version;
    else if (g->version[m->round] != version)
        sim_fail(st->s, "rank %u: fence %u gave version %llu, to others %llu", rank, g->number,
                 (unsigned long long)version, (unsigned long long)g->version[m->round]);
    snprintf(key, sizeof(key), "g%u", g->number);
    then(st, flux_kvs_readdir(m->client->h, NULL, key, FLUX_KVS_VALUES, NULL), fence_read_cb, m);
}

static void fence_next(void *arg, void *data)
{
    struct fencer *m = arg;
    struct fences *g = m->g;
    flux_kvs_txn_t *txn;
    char key[40], value[24], name[24];

    if (m->client->gone || m->round == ROUNDS) {
        done(g->st);
        return;
    }
    g->entered[m->round]++;
    snprintf(key, sizeof(key), "g%u.m%u", g->number, m->number);
    snprintf(value, sizeof(value), "%u", m->round + 1);
    snprintf(name, sizeof(name), "fence-%u", g->number);
    if ((txn = flux_kvs_txn_create())) {
        flux_kvs_txn_put(txn, key, value, NULL);
        then(g->st, flux_kvs_fence_ranks(m->client->h, NULL, name, g->size, g->ranks, txn),
             fenced_cb, m);
        flux_kvs_txn_destroy(txn);
    }
}

/* --- a watcher --- */

static void watch_cb(flux_future_t *f, void *arg)
{
    struct writer *w = arg;
    const char *data;
    size_t len;

    if (!flux_kvs_watch_absent(f) && flux_future_errnum(f) != 0) {
        if (flux_future_errnum(f) != ENODATA)
            excused(w->st, f, "a watch", flux_rank(flux_future_handle(f)));
        flux_future_destroy(f);
        return;
    }
    if (!flux_kvs_watch_absent(f) && flux_kvs_lookup_get(f, &data, &len, NULL) == 0) {
        unsigned n = (unsigned)strtoul(data, NULL, 10);
        if (n < w->watched)
            sim_fail(w->st->s, "a watcher saw writer %u's number go back from %u to %u", w->number,
                     w->watched, n);
        w->watched = n;
    }
    flux_future_next(f);
}

/* --- the run --- */

static bool all_done(sim_t *s, void *arg)
{
    struct store *st = arg;

    return st->busy == 0;
}

static struct sim_ep *add_client(struct store *st, const char *name)
{
    sim_t *s = st->s;
    struct sim_ep *e = sim_client_add(s, rng_below(&s->rng, s->cfg.size), name);

    if (e)
        st->busy++;
    return e;
}

/* Where the members of a group are, as an idset; NULL after sim_fail(). */
static const char *member_ranks(const struct fences *g)
{
    size_t size = 16 * (size_t)MEMBERS_MAX;
    char *text = sim_alloc(g->st->s, size);
    size_t n = 0;

    for (unsigned k = 0; text && k < g->size && !g->st->s->failed; k++)
        n += (size_t)snprintf(text + n, size - n, "%s%u", k ? "," : "",
                              g->members[k].client->broker->rank);
    return text;
}

static void add_clients(struct store *st)
{
    for (unsigned i = 0; i < WRITERS && !st->s->failed; i++) {
        struct writer *w = &st->writers[i];
        struct sim_ep *watcher = add_client(st, "watcher");
        char key[24];
        *w = (struct writer){.st = st, .number = i, .client = add_client(st, "writer")};
        snprintf(key, sizeof(key), "w%u.a", i);
        st->busy--; /* a watcher is never done */
        if (watcher)
            then(st, flux_kvs_watch(watcher->h, NULL, key, 0), watch_cb, w);
        again(st, write_next, w);
    }
    for (unsigned i = 0; i < READERS && !st->s->failed; i++) {
        struct reader *r = &st->readers[i];
        *r = (struct reader){.st = st, .left = READS, .client = add_client(st, "reader")};
        again(st, read_next, r);
    }
    for (unsigned i = 0; i < GROUPS && !st->s->failed; i++) {
        struct fences *g = &st->groups[i];
        g->st = st;
        g->number = i;
        g->size = rng_range(&st->s->rng, 1, MEMBERS_MAX);
        for (unsigned k = 0; k < g->size && !st->s->failed; k++) {
            struct fencer *m = &g->members[k];
            *m = (struct fencer){.g = g, .number = k, .client = add_client(st, "member")};
            again(st, fence_next, m);
        }
        if (rng_chance(&st->s->rng, 0.5))
            g->ranks = member_ranks(g);
    }
}

/* Who said where all members are does not wait for one whose broker died. */
static void check_ranks(struct store *st)
{
    for (unsigned i = 0; i < GROUPS && !st->s->failed; i++) {
        const struct fences *g = &st->groups[i];
        const struct sim_ep *waits = NULL, *dead = NULL;
        for (unsigned k = 0; k < g->size; k++) {
            const struct sim_ep *client = g->members[k].client;
            if (client->broker->state == NODE_DEAD)
                dead = client;
            else if (!client->gone && hmap_count(client->waiting) > 0)
                waits = client;
        }
        if (g->ranks && waits && dead)
            sim_fail(st->s, "rank %u waits in fence %u for rank %u, which died",
                     waits->broker->rank, g->number, dead->broker->rank);
    }
}

/* Members that wait for one that failed or died: their fence cannot end, and is ended. */
static void free_fences(struct store *st)
{
    for (unsigned i = 0; i < GROUPS && !st->s->failed; i++) {
        struct fences *g = &st->groups[i];
        for (unsigned k = 0; k < g->size; k++) {
            if (g->members[k].client->gone || hmap_count(g->members[k].client->waiting) == 0)
                continue;
            sim_client_remove(g->members[k].client);
            break;
        }
    }
    sim_run_for(st->s, 2 * SIM_S + sim_max_delay(st->s) * 4 * st->s->cfg.size);
}

static void kvs_run(sim_t *s)
{
    struct store *st = sim_alloc(s, sizeof(*st));
    bool absences = s->cfg.live != NULL;

    if (!sim_boot(s))
        return;
    st->s = s;
    st->faults = rng_chance(&s->rng, 0.5) || absences;
    add_clients(st);
    if (st->faults)
        sim_faults(s, FAULT_ALL, rng_range(&s->rng, 1, 5), 150 * SIM_MS);
    if (absences) {
        sim_absences(s, rng_range(&s->rng, 1, 4), 200 * SIM_MS);
        sim_run_for(s, 200 * SIM_MS);
        sim_all_back(s);
    }
    if (!sim_run_until(s, all_done, st, 10 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size) &&
        !st->faults && s->queue_max == 0)
        sim_fail(s, "%u clients are not done", st->busy);
    sim_run_for(s, SIM_S);
    if (st->faults || s->queue_max > 0) {
        check_ranks(st);
        free_fences(st);
    }
    sim_check_quiet(s);
}

static void kvs_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules |= SIM_MOD_KVS;
    if (rng_chance(rng, 0.3))
        sim_tune_absences(cfg, rng);
}

const struct scenario scenario_kvs = {
    "kvs", "commits and fences: atomic, in order, seen by whom they must be", kvs_run, kvs_tune};
