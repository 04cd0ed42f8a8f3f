/* absent.c - brokers that others do not hear for a while, drawn from the seed.
 *
 *    cut off       what some brokers send to the others does not arrive, or what these send to
 *                  them, or both: until the end of that time, when it arrives; or only events,
 *                  where these have connections of their own (sim_config.event_lines)
 *    stand still   brokers do nothing, and then all that came meanwhile
 *
 * Whether anybody is lost by that depends on the time, and on the limits of silence of the session
 * (sim_config.live).
 */
#include "config.h"
#include <stdio.h>

#include "sim.h"

const struct silence_limits sim_silence = {1., 2., 3., 60.};

void sim_tune_absences(struct sim_config *cfg, struct rng *rng)
{
    cfg->live = &sim_silence;
    cfg->heal = 5.;
    if (cfg->size > 64)
        cfg->size = 2 + rng_below(rng, 63);
}

bool sim_is_below(const sim_t *s, uint32_t rank, const struct node *above)
{
    const struct node *n = &s->nodes[rank];

    while (n && n != above)
        n = sim_parent(n);
    return n == above;
}

static void go_on(void *arg, void *data)
{
    struct node *n = arg;

    (void)data;
    vowner_continue(n->sim->clock, &n->owner);
}

void sim_stand_still(struct node *n, int64_t time)
{
    sim_t *s = n->sim;

    if (n->state != NODE_ON || n->owner.paused)
        return;
    if (s->cfg.trace)
        printf("%14.6f  %u stands still for %.3f s\n", 1e-9 * (double)sim_now(s), n->rank,
               1e-9 * (double)time);
    n->stood += time;
    vowner_pause(&n->owner);
    sim_at(s, sim_now(s) + time, go_on, n, NULL);
}

void sim_cut_off(sim_t *s, int64_t time, bool events)
{
    uint32_t top = rng_range(&s->rng, 1, s->cfg.size - 1);
    unsigned kind = rng_below(&s->rng, 3), which = rng_range(&s->rng, 1, 3);
    bool *part = sim_alloc(s, sizeof(*part) * s->cfg.size);

    for (uint32_t r = 0; r < s->cfg.size; r++)
        part[r] = r > 0 && (kind == 0   ? sim_is_below(s, r, &s->nodes[top])
                            : kind == 1 ? r == top || rng_chance(&s->rng, 0.1)
                                        : rng_chance(&s->rng, 0.5));
    if (events)
        which |= SILENT_EVENTS;
    net_part(s, part, which, sim_now(s) + time);
    if (!s->cfg.trace)
        return;
    printf("%14.6f  cut off for %.3f s (%u):", 1e-9 * (double)sim_now(s), 1e-9 * (double)time,
           which);
    for (uint32_t r = 0; r < s->cfg.size; r++)
        if (part[r])
            printf(" %u", r);
    printf("\n");
}

static void absence(void *arg, void *data)
{
    sim_t *s = arg;
    int64_t time = rng_range(&s->rng, 100, SIM_ABSENT_MAX / SIM_MS) * SIM_MS;
    unsigned what = rng_below(&s->rng, 10);

    (void)data;
    if (s->failed || (s->apart && sim_now(s) < s->apart_until))
        return;
    s->faults++;
    sim_trace_add(s, 15, what);
    if (what < 5)
        sim_cut_off(s, time, s->cfg.event_lines && rng_chance(&s->rng, 0.3));
    else if (what == 5)
        sim_stand_still(&s->nodes[0],
                        rng_range(&s->rng, 100, SIM_ROOT_STILL_MAX / SIM_MS) * SIM_MS);
    else
        sim_stand_still(&s->nodes[rng_range(&s->rng, 1, s->cfg.size - 1)], time);
}

void sim_absences(sim_t *s, unsigned count, int64_t within)
{
    for (unsigned i = 0; i < count && s->cfg.size > 1; i++)
        sim_at(s, sim_now(s) + (int64_t)(rng_real(&s->rng) * (double)within), absence, s, NULL);
}

/* --- when it is over --- */

bool sim_is_up(const sim_t *s, uint32_t rank)
{
    const struct node *n = &s->nodes[rank];

    return n->state == NODE_ON && core_state(n->core) == CORE_RUN && sim_connected(s, rank) &&
           idset_test(core_ranks_up(s->nodes[0].core), rank) &&
           !idset_test(core_ranks_lost(s->nodes[0].core), rank);
}

void sim_bring_back(sim_t *s, uint32_t rank)
{
    for (unsigned i = 0; !s->failed && !sim_is_up(s, rank); i++) {
        if (i == 2000)
            sim_fail(s, "rank %u did not come back", rank);
        sim_start_some(s);
        sim_run_for(s, 100 * SIM_MS);
    }
}

static bool all_hear(sim_t *s, void *arg)
{
    (void)arg;
    for (uint32_t r = 0; r < s->cfg.size; r++)
        if (s->nodes[r].owner.paused)
            return false;
    return !s->apart || sim_now(s) >= s->apart_until;
}

void sim_all_back(sim_t *s)
{
    sim_run_until(s, all_hear, NULL, SIM_ROOT_STILL_MAX + SIM_ABSENT_MAX);
    /* A broker that has been alone too long ends only when it hears of that. */
    sim_run_for(s,
                5 * SIM_S + (int64_t)(2. * s->cfg.heal * 1e9) + sim_max_delay(s) * 4 * s->cfg.size);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++)
        sim_bring_back(s, r);
    sim_run_for(s, SIM_S + sim_max_delay(s) * s->cfg.size);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++)
        if (!sim_is_up(s, r))
            sim_fail(s, "rank %u is not up again", r);
}
