/* scen_barrier.c - barriers among clients at random ranks, round after round with the same names.
 *
 * Nobody is let through before all have entered.  Without faults everybody is let through every
 * round. With faults (clients that die, brokers that die, links that break) everybody is let
 * through or told ECONNABORTED, but that only if a member of the same barrier has died, has left,
 * or is at a broker that is cut off from rank 0; the message says at which rank.  Who is left
 * waiting waits for somebody who will not come, and one waiter that goes away sets all others free.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/idset.h"
#include "sim.h"

#define GROUPS 4
#define MEMBERS_MAX 40
#define ROUNDS 3

struct group {
    struct barriers *bs;
    unsigned number;
    unsigned size;
    unsigned entered[ROUNDS];
    unsigned stopped; /* will not enter any more */
    struct member {
        struct group *g;
        struct sim_ep *client;
        unsigned round;
        bool waiting, ended;
    } members[MEMBERS_MAX];
};

struct barriers {
    sim_t *s;
    bool faults;
    struct group groups[GROUPS];
};

static void enter(void *arg, void *data);

static void stop(struct member *m)
{
    if (!m->ended) {
        m->ended = true;
        m->g->stopped++;
    }
    m->waiting = false;
}

static bool missing(const struct member *m)
{
    return m->ended || m->client->gone || !sim_connected(m->g->bs->s, m->client->broker->rank);
}

/* Does the text name, after "rank" or "ranks", that of a missing member?  Or that of a lost broker,
 * where one that has not entered may have been: others do not know where members were to be. */
static bool names_missing(const struct group *g, const char *text)
{
    sim_t *s = g->bs->s;
    bool guess = strstr(text, "others may have been") != NULL;
    bool found = false;

    while (!found && (text = strstr(text, "rank"))) {
        text += text[4] == 's' ? 5 : 4;
        if (*text != ' ')
            continue;
        char *ranks = strndup(text, 1 + strspn(text + 1, "0123456789,-"));
        size_t len = ranks ? strlen(ranks) : 0;
        if (len > 1 && ranks[len - 1] == ',')
            ranks[len - 1] = '\0';
        idset_t *ids = len > 1 ? idset_parse(ranks + 1, NULL) : NULL;
        for (unsigned k = 0; ids && k < g->size; k++)
            found |= missing(&g->members[k]) && idset_test(ids, g->members[k].client->broker->rank);
        for (uint32_t r = 0; ids && guess && r < s->cfg.size; r++)
            found |= idset_test(ids, r) && !sim_connected(s, r);
        idset_destroy(ids);
        free(ranks);
    }
    return found;
}

/* The barrier fails for this member: for all, because of one that is missing. */
static void check_failed(const struct member *m, const char *text)
{
    const struct group *g = m->g;
    sim_t *s = g->bs->s;
    unsigned n = 0;

    for (unsigned k = 0; k < g->size; k++)
        n += missing(&g->members[k]);
    if (n == 0)
        sim_fail(s, "rank %u: barrier %u, round %u failed, and nobody is missing: %s",
                 m->client->broker->rank, g->number, m->round, text);
    else if (!missing(m) && !names_missing(g, text))
        sim_fail(s, "rank %u: barrier %u, round %u failed, and who is missing is not named: %s",
                 m->client->broker->rank, g->number, m->round, text);
}

static void passed_cb(flux_future_t *f, void *arg)
{
    struct member *m = arg;
    struct group *g = m->g;
    sim_t *s = g->bs->s;
    int errnum = flux_future_errnum(f);

    m->waiting = false;
    if (errnum == 0) {
        if (g->entered[m->round] != g->size)
            sim_fail(s, "rank %u was let through barrier %u, round %u, with %u of %u entered",
                     m->client->broker->rank, g->number, m->round, g->entered[m->round], g->size);
        if (++m->round < ROUNDS)
            sim_at(s, sim_now(s) + (rng_chance(&s->rng, 0.5) ? 0 : rng_below(&s->rng, 5) * SIM_MS),
                   enter, m, NULL);
    } else {
        if (!g->bs->faults)
            sim_fail(s, "rank %u: barrier %u failed without a reason: %s", m->client->broker->rank,
                     g->number, flux_future_error(f));
        else if (errnum != ECONNABORTED)
            sim_fail(s, "rank %u: barrier %u ended with %s: %s", m->client->broker->rank, g->number,
                     strerror(errnum), flux_future_error(f));
        else
            check_failed(m, flux_future_error(f));
        stop(m);
    }
    flux_future_destroy(f);
}

static void enter(void *arg, void *data)
{
    struct member *m = arg;
    struct group *g = m->g;
    char json[80];
    flux_future_t *f;

    if (m->client->gone || m->ended) {
        stop(m);
        return;
    }
    g->entered[m->round]++;
    m->waiting = true;
    snprintf(json, sizeof(json), "{\"name\":\"group-%u\",\"nprocs\":%u}", g->number, g->size);
    if (!(f = flux_rpc(m->client->h, "barrier.enter", json, FLUX_NODEID_ANY, 0)) ||
        flux_future_then(f, -1., passed_cb, m) < 0)
        sim_fail(g->bs->s, "out of memory");
}

static void leave(void *arg, void *data)
{
    struct member *m = arg;

    if (m->client->gone)
        return;
    sim_trace_add(m->g->bs->s, 7, m->client->broker->rank);
    sim_client_remove(m->client);
    stop(m);
}

/* All have passed all rounds, have stopped, or are dead. */
static bool all_over(sim_t *s, void *arg)
{
    struct barriers *bs = arg;

    for (unsigned i = 0; i < GROUPS; i++) {
        for (unsigned k = 0; k < bs->groups[i].size; k++) {
            const struct member *m = &bs->groups[i].members[k];
            if (m->round < ROUNDS && !m->ended && !m->client->gone)
                return false;
        }
    }
    return true;
}

static struct member *waiter(struct group *g)
{
    for (unsigned k = 0; k < g->size; k++) {
        struct member *m = &g->members[k];
        if (m->waiting && !m->client->gone)
            return m;
    }
    return NULL;
}

static void check_left(struct barriers *bs)
{
    sim_t *s = bs->s;

    for (unsigned i = 0; i < GROUPS && !s->failed; i++) {
        struct group *g = &bs->groups[i];
        struct member *m = waiter(g);
        if (!m)
            continue;
        for (unsigned k = 0; k < g->size; k++)
            g->stopped += !g->members[k].ended && g->members[k].client->gone;
        if (g->stopped == 0) {
            sim_fail(s, "rank %u waits in barrier %u, round %u, for nobody: %u of %u entered",
                     m->client->broker->rank, g->number, m->round, g->entered[m->round], g->size);
            return;
        }
        leave(m, NULL);
        sim_run_for(s, SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
        if (!s->failed && (m = waiter(g)))
            sim_fail(s, "rank %u still waits in barrier %u though another waiter went away",
                     m->client->broker->rank, g->number);
    }
}

static void barrier_run(sim_t *s)
{
    struct barriers *bs = sim_alloc(s, sizeof(*bs));

    if (!sim_boot(s))
        return;
    bs->s = s;
    bs->faults = rng_chance(&s->rng, 0.5);
    for (unsigned i = 0; i < GROUPS; i++) {
        struct group *g = &bs->groups[i];
        bool near = rng_chance(&s->rng, 0.3); /* all in one part of the tree */
        uint32_t span = near && s->cfg.size > 8 ? 8 : s->cfg.size;
        uint32_t first = rng_below(&s->rng, s->cfg.size);
        g->bs = bs;
        g->number = i;
        g->size = rng_range(&s->rng, 1, MEMBERS_MAX);
        for (unsigned k = 0; k < g->size && !s->failed; k++) {
            struct member *m = &g->members[k];
            m->g = g;
            m->client =
                sim_client_add(s, (first + rng_below(&s->rng, span)) % s->cfg.size, "member");
            sim_at(s, sim_now(s) + rng_below(&s->rng, 20) * SIM_MS, enter, m, NULL);
            if (bs->faults && rng_chance(&s->rng, 0.02))
                sim_at(s, sim_now(s) + rng_below(&s->rng, 100) * SIM_MS, leave, m, NULL);
        }
    }
    if (bs->faults)
        sim_faults(s, FAULT_ALL, rng_range(&s->rng, 0, 4), 100 * SIM_MS);
    sim_run_until(s, all_over, bs, 10 * SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    if (!s->failed && !bs->faults && !all_over(s, bs))
        sim_fail(s, "not everybody was let through in time");
    if (!s->failed && bs->faults)
        check_left(bs);
    sim_run_for(s, 3 * SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    sim_check_quiet(s);
}

const struct scenario scenario_barrier = {
    "barrier", "nobody passes before all have entered, and nobody is forgotten", barrier_run, NULL};
