/* scen_live.c - brokers stand still, and connections fall silent.
 *
 * The clocks of the brokers run at different speeds.  In each round some brokers stand still for a
 * while, which may be shorter or longer than the limits and may concern rank 0, and connections
 * fall silent in one direction or both, or, where events have their own, only these.  Whoever calls
 * a neighbor slow or lost must be right: the neighbor stands still, or is cut off, and has done so
 * for as long as the limit says.  And who stands still for longer is found: afterwards everybody is
 * up whose way to rank 0 was never silent for the limit, and nobody that stood still for longer is
 * still thought to be up.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

#define ROUNDS 4
#define SLOWEST 0.95 /* rates of clocks */
#define FASTEST 1.05
#define STILL_MAX (20 * SIM_S)

struct lives {
    sim_t *s;
    bool *silent; /* of each rank: it, or the way to its parent, was silent for about the limit */
    bool *gone;   /* ... for longer */
};

/* For how long has nothing been sent by this channel? */
static int64_t silent_for(const struct chan *ch)
{
    const struct node *n = ch->from;
    int64_t now = sim_now(n->sim);

    if (n->state != NODE_ON || ch->mute)
        return INT64_MAX;
    return n->owner.paused ? now - n->still_since : 0;
}

/* The fastest clock of all counts `limit` seconds in so long a time, and a sign of life is at most
 * a probe, and its way, old when its sender stops. */
static int64_t at_least(const sim_t *s, double limit)
{
    return (int64_t)((limit / FASTEST - sim_silence.probe / SLOWEST) * 1e9) - 2 * sim_max_delay(s) -
           SIM_MS;
}

static void accused(sim_t *s, const struct node *n, const struct chan *from, bool lost)
{
    const struct node *of = from->from;
    int64_t least = at_least(s, lost ? sim_silence.lost : sim_silence.slow);
    int64_t was = of->still_until - of->still_since;

    if (silent_for(from) >= least)
        return;
    /* It has gone on just now, and its first sign of life is under way. */
    if (of->still_until < sim_now(s) &&
        sim_now(s) - of->still_until <= 2 * sim_max_delay(s) + SIM_S && was >= least)
        return;
    sim_fail(s, "rank %u calls rank %u %s, which was silent for %.3f s", n->rank, of->rank,
             lost ? "lost" : "slow", 1e-9 * (double)silent_for(from));
}

/* Nobody that judges it stood still meanwhile. */
static bool was_watched(const struct node *n)
{
    const struct node *p = sim_parent(n);

    return p && !p->owner.paused &&
           (p->still_until == INT64_MAX || p->still_until < n->still_since);
}

static void go_on(void *arg, void *data)
{
    struct node *n = arg;
    struct lives *l = data;
    sim_t *s = n->sim;

    if (!n->owner.paused)
        return;
    n->still_until = sim_now(s);
    l->silent[n->rank] |= n->still_until - n->still_since >= at_least(s, sim_silence.lost);
    l->gone[n->rank] |= was_watched(n) && n->still_until - n->still_since >
                                              (int64_t)(sim_silence.lost / SLOWEST * 1e9) + SIM_S +
                                                  2 * sim_max_delay(s);
    vowner_continue(s->clock, &n->owner);
}

static void stand_still(struct lives *l, struct node *n)
{
    sim_t *s = l->s;
    int64_t most = rng_chance(&s->rng, 0.5) ? 1800 : STILL_MAX / SIM_MS;
    int64_t time = rng_range(&s->rng, 100, (uint32_t)most) * SIM_MS;

    if (n->state != NODE_ON || n->owner.paused)
        return;
    s->faults++;
    sim_trace_add(s, 12, n->rank);
    n->still_since = sim_now(s);
    n->still_until = INT64_MAX;
    if (s->cfg.trace)
        printf("%14.6f  %u stands still for %.3f s\n", 1e-9 * (double)sim_now(s), n->rank,
               1e-9 * (double)time);
    vowner_pause(&n->owner);
    sim_at(s, sim_now(s) + time, go_on, n, l);
}

static void fall_silent(struct lives *l, struct node *n)
{
    sim_t *s = l->s;
    unsigned which = rng_range(&s->rng, 1, s->cfg.event_lines ? SILENT_ALL : 3);

    if (n->state != NODE_ON)
        return;
    s->faults++;
    sim_trace_add(s, 13, (uint64_t)n->rank << 8 | which);
    net_silence(n->way, which);
    l->silent[n->rank] = true;
    /* It is patient with rank 0. */
    l->gone[n->rank] |= (which & SILENT_UP) || sim_parent(n)->rank != 0;
}

/* Was the way from this rank to rank 0 never silent for about the limit?  Rank 0 may be. */
static bool always_there(const struct lives *l, uint32_t rank)
{
    while (rank != 0) {
        if (l->silent[rank])
            return false;
        rank = topology_parent(l->s->topo, rank);
    }
    return true;
}

static void look(struct lives *l)
{
    sim_t *s = l->s;
    const idset_t *up = core_ranks_up(s->nodes[0].core);

    for (uint32_t r = 1; r < s->cfg.size && !s->failed; r++) {
        if (always_there(l, r) && !idset_test(up, r))
            sim_fail(s, "rank %u is not up, though it was always there", r);
        if (l->gone[r] && idset_test(up, r))
            sim_fail(s, "rank %u is up, though it was silent for long", r);
    }
}

static void live_run(sim_t *s)
{
    struct lives *l = sim_alloc(s, sizeof(*l));

    *l = (struct lives){s, sim_alloc(s, s->cfg.size), sim_alloc(s, s->cfg.size)};
    s->accused = accused;
    for (uint32_t r = 0; r < s->cfg.size; r++)
        s->nodes[r].rate = SLOWEST + (FASTEST - SLOWEST) * rng_real(&s->rng);
    if (!sim_boot(s))
        return;
    sim_run_for(s, 5 * SIM_S);
    look(l);
    for (unsigned round = 0; round < ROUNDS && !s->failed; round++) {
        for (unsigned i = rng_range(&s->rng, 1, 3); i > 0; i--) {
            sim_run_for(s, rng_below(&s->rng, 1500) * SIM_MS);
            if (s->cfg.size > 1 && rng_chance(&s->rng, 0.2))
                fall_silent(l, &s->nodes[rng_range(&s->rng, 1, s->cfg.size - 1)]);
            else
                stand_still(l, &s->nodes[rng_below(&s->rng, s->cfg.size)]);
        }
        sim_run_for(s, STILL_MAX + 5 * SIM_S);
        if (!s->failed)
            look(l);
    }
}

static void live_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->live = &sim_silence;
    cfg->modules = 0;
    if (cfg->size > 64)
        cfg->size = 2 + rng_below(rng, 63);
    cfg->event_lines = rng_chance(rng, 0.5);
}

const struct scenario scenario_live = {"live", "brokers stand still: who is called slow or lost is",
                                       live_run, live_tune};
