/* scen_return.c - brokers die and are started again.
 *
 * In each round some brokers die; those below them end by themselves.  All are started again, each
 * when the broker above it is there, some die once more while they join.  When all are up, rank 0
 * counts each as its next incarnation, and everybody serves everybody: requests along the tree and
 * the ring, and a barrier with a participant at each rank, which a rank that still counts somewhere
 * as lost would end.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "sim.h"

#define ROUNDS 3
#define VICTIMS_MAX 4

struct returns {
    sim_t *s;
    unsigned answers, passed;
};

static void die(void *arg, void *data)
{
    struct node *n = arg;

    n->sim->faults++;
    node_kill(n);
}

/* Is everybody there?  Orphans are not: they end by themselves. */
static bool all_run(sim_t *s)
{
    for (uint32_t r = 0; r < s->cfg.size; r++)
        if (!sim_alive(s, r) || core_state(s->nodes[r].core) != CORE_RUN || !sim_connected(s, r))
            return false;
    return true;
}

/* Start again who is down; false: nobody is.  Now and then one dies while it joins. */
static bool start_some(sim_t *s)
{
    uint32_t victim = rng_range(&s->rng, 1, s->cfg.size - 1);

    if (!sim_alive(s, victim) && rng_chance(&s->rng, 0.5))
        sim_at(s, sim_now(s) + rng_below(&s->rng, 20) * SIM_MS, die, &s->nodes[victim], NULL);
    return sim_start_some(s);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct returns *rs = arg;

    if (flux_future_errnum(f) != 0)
        sim_fail(rs->s, "all are up, and yet a request failed: %s", flux_future_error(f));
    rs->answers++;
    flux_future_destroy(f);
}

static void passed_cb(flux_future_t *f, void *arg)
{
    struct returns *rs = arg;

    if (flux_future_errnum(f) != 0)
        sim_fail(rs->s, "all are up, and yet a barrier failed: %s", flux_future_error(f));
    rs->passed++;
    flux_future_destroy(f);
}

static void then(struct returns *rs, flux_future_t *f, flux_future_f cb)
{
    if (!f || flux_future_then(f, -1., cb, rs) < 0)
        sim_fail(rs->s, "out of memory");
}

static bool all_served(sim_t *s, void *arg)
{
    const struct returns *rs = arg;

    return rs->answers == 2 * s->cfg.size && rs->passed == s->cfg.size;
}

static void everybody_serves(struct returns *rs, unsigned round)
{
    sim_t *s = rs->s;
    char json[160];

    rs->answers = rs->passed = 0;
    snprintf(json, sizeof(json), "{\"name\":\"round-%u\",\"nprocs\":%u,\"ranks\":\"0-%u\"}", round,
             s->cfg.size, s->cfg.size - 1);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        uint32_t to = rng_below(&s->rng, s->cfg.size);
        struct sim_ep *c = sim_client_add(s, r, "visitor");

        if (!sim_module_find(s, to, "echo"))
            sim_module_add(s, to, &flux_module_echo, NULL);
        if (s->failed)
            return;
        then(rs, flux_rpc(c->h, "barrier.enter", json, FLUX_NODEID_ANY, 0), passed_cb);
        then(rs, flux_rpc_raw(c->h, "echo.now", "x", 1, to, 0), answer_cb);
        then(rs, flux_rpc_raw(c->h, "echo.now", "y", 1, to, FLUX_MSGF_RING), answer_cb);
    }
    if (!sim_run_until(s, all_served, rs, 60 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size))
        sim_fail(s, "all are up: %u of %u requests were answered, %u of %u passed the barrier",
                 rs->answers, 2 * s->cfg.size, rs->passed, s->cfg.size);
}

static void return_run(sim_t *s)
{
    struct returns *rs = sim_alloc(s, sizeof(*rs));

    rs->s = s;
    if (s->cfg.size < 2 || !sim_boot(s))
        return;
    for (unsigned round = 0; round < ROUNDS && !s->failed; round++) {
        for (unsigned i = rng_range(&s->rng, 1, VICTIMS_MAX); i > 0; i--)
            sim_at(s, sim_now(s) + rng_below(&s->rng, 100) * SIM_MS, die,
                   &s->nodes[rng_range(&s->rng, 1, s->cfg.size - 1)], NULL);
        sim_run_for(s, rng_range(&s->rng, 100, 400) * SIM_MS); /* all of them die */
        for (unsigned i = 0; !s->failed && (start_some(s) || !all_run(s)); i++) {
            if (i == 2000)
                sim_fail(s, "not everybody came back");
            sim_run_for(s, 100 * SIM_MS);
        }
        /* The event that the last one is up reaches all. */
        sim_run_for(s, SIM_S + sim_max_delay(s) * s->cfg.size);
        if (!s->failed && (!idset_empty(core_ranks_lost(s->nodes[0].core)) ||
                           idset_count(core_ranks_up(s->nodes[0].core)) != s->cfg.size))
            sim_fail(s, "all are up, and rank 0 does not know");
        if (!s->failed)
            everybody_serves(rs, round);
    }
    sim_run_for(s, SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    sim_check_quiet(s);
}

static void return_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules = SIM_MOD_BARRIER | SIM_MOD_LOG | SIM_MOD_KVS;
    if (cfg->size > 64)
        cfg->size = 2 + rng_below(rng, 63);
}

const struct scenario scenario_return = {
    "return", "who was lost is started again, joins, and serves", return_run, return_tune};
