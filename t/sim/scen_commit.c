/* scen_commit.c - commits while brokers between their clients and the master die.
 *
 * Writers at random ranks append numbers to a key of their own, several commits at a time, so the
 * value tells which commits were applied, how often, and in which order.  Brokers die; some are
 * started again.  Every writer whose own broker lives has to be told that each commit was applied,
 * or that it was refused for lack of room, and its key has the numbers of the former, once each and
 * in order.  The key of a writer whose broker died has numbers in order, too, none twice.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "sim.h"

#define WRITERS 16
#define COMMITS 24
#define AT_ONCE 6
#define VICTIMS_MAX 6
#define LARGE (40 * 1024)

struct commits {
    sim_t *s;
    const char *ns; /* NULL: the primary one */
    unsigned busy;
    bool made, failed; /* the namespace */
    struct writer {
        struct commits *cs;
        struct sim_ep *client;
        unsigned number;
        unsigned begun, over, at_once;
        uint64_t version;
        bool refused[COMMITS];
        char *value;
        bool read;
    } writers[WRITERS];
    struct one {
        struct writer *w;
        unsigned n;
    } all[WRITERS][COMMITS];
};

static bool then(struct commits *cs, flux_future_t *f, flux_future_f cb, void *arg)
{
    if (f && flux_future_then(f, -1., cb, arg) == 0)
        return true;
    sim_fail(cs->s, "a request could not be made: %s", strerror(errno));
    flux_future_destroy(f);
    return false;
}

static void key_of(const struct writer *w, char key[24])
{
    snprintf(key, 24, "log.w%u", w->number);
}

/* --- writers --- */

static void write_some(void *arg, void *data);

static void committed(struct one *o, flux_future_t *f)
{
    struct writer *w = o->w;
    sim_t *s = w->cs->s;
    uint64_t version;
    int errnum = flux_future_errnum(f);

    if (errnum == EAGAIN && s->queue_max > 0)
        w->refused[o->n] = true;
    else if (errnum != 0)
        sim_fail(s, "rank %u: commit %u of writer %u failed: %s: %s", w->client->broker->rank, o->n,
                 w->number, strerror(errnum), flux_future_error(f));
    else if (flux_kvs_commit_get(f, &version, NULL, NULL) < 0)
        sim_fail(s, "rank %u: a commit has an invalid answer", w->client->broker->rank);
    else
        w->version = version > w->version ? version : w->version;
}

static void committed_cb(flux_future_t *f, void *arg)
{
    struct one *o = arg;
    struct writer *w = o->w;

    if (!w->client->gone)
        committed(o, f);
    w->over++;
    flux_future_destroy(f);
    sim_at(w->cs->s, sim_now(w->cs->s) + rng_below(&w->cs->s->rng, 20) * SIM_MS, write_some, w,
           NULL);
}

static void write_one(struct writer *w)
{
    struct commits *cs = w->cs;
    struct one *o = &cs->all[w->number][w->begun];
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    char key[24], text[16];

    *o = (struct one){w, w->begun++};
    key_of(w, key);
    snprintf(text, sizeof(text), "%u,", o->n);
    if (txn && flux_kvs_txn_append(txn, key, text, strlen(text), NULL) == 0) {
        if (rng_chance(&cs->s->rng, 0.1)) { /* too large for brokers to keep a copy */
            char *large = sim_alloc(cs->s, LARGE);
            memset(large, 'x', LARGE);
            flux_kvs_txn_put_raw(txn, "large", large, LARGE, NULL);
        }
        then(cs, flux_kvs_commit(w->client->h, cs->ns, txn), committed_cb, o);
    }
    flux_kvs_txn_destroy(txn);
}

static void write_some(void *arg, void *data)
{
    struct writer *w = arg;

    (void)data;
    if (w->client->gone)
        return;
    while (w->begun < COMMITS && w->begun - w->over < w->at_once && !w->cs->s->failed)
        write_one(w);
}

static bool writer_done(const struct writer *w)
{
    return w->client->gone || w->over == COMMITS;
}

static bool all_written(sim_t *s, void *arg)
{
    const struct commits *cs = arg;

    for (unsigned i = 0; i < WRITERS; i++) {
        if (!writer_done(&cs->writers[i]))
            return false;
    }
    return true;
}

/* --- faults --- */

static void die(void *arg, void *data)
{
    struct node *n = arg;

    (void)data;
    n->sim->faults++;
    node_kill(n);
}

static void deaths(sim_t *s, uint32_t spared)
{
    for (unsigned i = rng_range(&s->rng, 1, VICTIMS_MAX); i > 0 && s->cfg.size > 2; i--) {
        uint32_t rank = rng_range(&s->rng, 1, s->cfg.size - 1);

        if (rank != spared)
            sim_at(s, sim_now(s) + rng_below(&s->rng, 150) * SIM_MS, die, &s->nodes[rank], NULL);
    }
    if (rng_chance(&s->rng, 0.3))
        sim_returns(s, 400 * SIM_MS);
}

/* --- the proof --- */

static void read_cb(flux_future_t *f, void *arg)
{
    struct writer *w = arg;
    const char *data;
    size_t len;

    if (flux_future_errnum(f) == ENOENT)
        w->read = true;
    else if (flux_kvs_lookup_get(f, &data, &len, NULL) < 0)
        sim_fail(w->cs->s, "a value could not be read: %s", flux_future_error(f));
    else {
        w->value = sim_alloc(w->cs->s, len + 1);
        memcpy(w->value, data, len);
        w->read = true;
    }
    flux_future_destroy(f);
}

static bool all_read(sim_t *s, void *arg)
{
    const struct commits *cs = arg;

    for (unsigned i = 0; i < WRITERS; i++) {
        if (!cs->writers[i].read)
            return false;
    }
    return true;
}

/* The next number that was not refused, from `n` on. */
static unsigned expected(const struct writer *w, unsigned n)
{
    while (n < COMMITS && w->refused[n])
        n++;
    return n;
}

static void prove(const struct writer *w)
{
    sim_t *s = w->cs->s;
    bool gone = w->client->gone;
    const char *p = w->value ? w->value : "";
    unsigned next = 0;
    char *end;

    while (*p) {
        unsigned n = (unsigned)strtoul(p, &end, 10);
        /* Whoever has died may have been refused without our knowledge. */
        if (gone ? n < next || n >= COMMITS : n != expected(w, next)) {
            sim_fail(s, "writer %u at rank %u: commit %u was applied after %u: '%s'", w->number,
                     w->client->broker->rank, n, next, w->value);
            return;
        }
        next = n + 1;
        p = *end ? end + 1 : end;
    }
    if (!gone && expected(w, next) != COMMITS)
        sim_fail(s, "writer %u: commit %u was not applied: '%s'", w->number, expected(w, next),
                 w->value ? w->value : "");
}

static void read_all(struct commits *cs)
{
    struct sim_ep *reader = sim_client_add(cs->s, 0, "reader");
    char key[24];

    for (unsigned i = 0; i < WRITERS && reader; i++) {
        key_of(&cs->writers[i], key);
        then(cs, flux_kvs_lookup(reader->h, cs->ns, key, 0, NULL), read_cb, &cs->writers[i]);
    }
    if (!sim_run_until(cs->s, all_read, cs, 60 * SIM_S))
        sim_fail(cs->s, "not all values could be read");
    for (unsigned i = 0; i < WRITERS && !cs->s->failed; i++)
        prove(&cs->writers[i]);
}

/* --- the run --- */

static void commit_run(sim_t *s)
{
    struct commits *cs = sim_alloc(s, sizeof(*cs));

    cs->s = s;
    if (!sim_boot(s))
        return;
    for (unsigned i = 0; i < WRITERS && !s->failed; i++) {
        struct writer *w = &cs->writers[i];

        *w = (struct writer){.cs = cs, .number = i, .at_once = rng_range(&s->rng, 1, AT_ONCE)};
        if ((w->client = sim_client_add(s, rng_below(&s->rng, s->cfg.size), "writer")))
            sim_at(s, sim_now(s) + rng_below(&s->rng, 30) * SIM_MS, write_some, w, NULL);
    }
    deaths(s, 0);
    if (!s->failed &&
        !sim_run_until(s, all_written, cs, 60 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size))
        sim_fail(s, "not all commits are over");
    /* Copies that are still on their way change nothing. */
    sim_run_for(s, SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    if (!s->failed)
        read_all(cs);
    sim_check_quiet(s);
}

static void commit_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules = SIM_MOD_KVS;
    cfg->heal = 5.;
    if (cfg->size > 64)
        cfg->size = 2 + rng_below(rng, 63);
}

const struct scenario scenario_commit = {
    "commit", "commits are applied once, whoever dies on their way", commit_run, commit_tune};
