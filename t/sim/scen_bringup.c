/* scen_bringup.c - a session comes up, and goes down.
 *
 * Bring-up, without faults: every rank runs, no later than three passes along the tree can take
 * (welcome down, ready up, run down).  With faults while it comes up: every rank that has a way to
 * the root runs; a rank that has none ends by itself; the root knows which is which.
 *
 * Shutdown, asked for at any rank, at any time: every broker ends, children before their parents,
 * with the exit code that was asked for; with faults, every living one still ends.
 */
#include "config.h"

#include "sim.h"

/* Any connected rank runs, any other living one has ended. */
static bool settled(sim_t *s, void *arg)
{
    uint32_t *next = arg;

    for (; *next < s->cfg.size; ++*next) {
        const struct node *n = &s->nodes[*next];
        if (n->state == NODE_DEAD || n->state == NODE_EXITED)
            continue;
        if (n->state == NODE_OFF || !sim_connected(s, *next) || core_state(n->core) != CORE_RUN)
            return false;
    }
    return true;
}

static void check_root_view(sim_t *s)
{
    const idset_t *up = core_ranks_up(s->nodes[0].core);
    const idset_t *lost = core_ranks_lost(s->nodes[0].core);

    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        bool connected = sim_connected(s, r);
        if (idset_test(up, r) != connected)
            sim_fail(s, "the root thinks that rank %u is %s", r, connected ? "not up" : "up");
        else if (idset_test(lost, r) == connected)
            sim_fail(s, "the root thinks that rank %u is %s", r, connected ? "lost" : "not lost");
    }
}

static void bringup_run(sim_t *s)
{
    uint32_t next = 0;
    int64_t latest = 0;
    uint32_t depth = topology_max_depth(s->topo);
    int64_t limit = 50 * SIM_MS + (3 * (int64_t)depth + 1) * sim_max_delay(s) + 5 * SIM_MS;

    if (rng_chance(&s->rng, 0.5)) {
        if (!sim_boot(s))
            return;
        for (uint32_t r = 0; r < s->cfg.size; r++) {
            if (s->nodes[r].run_at > latest)
                latest = s->nodes[r].run_at;
        }
        if (latest > limit)
            sim_fail(s, "bring-up took %.6f s, more than %.6f s", 1e-9 * (double)latest,
                     1e-9 * (double)limit);
    } else {
        sim_faults(s, FAULT_DEATH | FAULT_PAUSE | FAULT_SPIKE, rng_range(&s->rng, 1, 6),
                   200 * SIM_MS);
        sim_start(s);
        sim_run_for(s, SIM_S);
        if (!sim_run_until(s, settled, &next, 300 * SIM_S))
            sim_fail(s, "rank %u, %s, neither runs nor has ended (%s)", next,
                     sim_connected(s, next) ? "connected" : "not connected",
                     s->nodes[next].core ? core_state_name(core_state(s->nodes[next].core)) : "-");
    }
    if (!s->failed)
        check_root_view(s);
}

static bool all_ended(sim_t *s, void *arg)
{
    uint32_t *next = arg;

    while (*next < s->cfg.size &&
           (s->nodes[*next].state == NODE_DEAD || s->nodes[*next].state == NODE_EXITED))
        ++*next;
    return *next == s->cfg.size;
}

static void shutdown_run(sim_t *s)
{
    int rc = (int)rng_below(&s->rng, 256);
    bool faults = rng_chance(&s->rng, 0.5);
    uint32_t next = 0;
    uint32_t by;

    if (!sim_boot(s))
        return;
    if (faults) {
        sim_faults(s, FAULT_ALL, rng_range(&s->rng, 1, 6), 100 * SIM_MS);
        sim_run_for(s, rng_below(&s->rng, 200) * SIM_MS);
    }
    by = sim_random_alive(s);
    core_shutdown(s->nodes[by].core, rc, "it was asked for");
    if (faults) {
        /* What was asked for at an orphan does not reach the root: ask there, too. */
        sim_run_for(s, SIM_S);
        if (sim_alive(s, 0) && core_state(s->nodes[0].core) < CORE_DOWN)
            core_shutdown(s->nodes[0].core, rc, "it was asked for");
    }
    if (!sim_run_until(s, all_ended, &next, 300 * SIM_S))
        sim_fail(s, "rank %u has not ended (%s)", next,
                 s->nodes[next].core ? core_state_name(core_state(s->nodes[next].core)) : "-");
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        const struct node *n = &s->nodes[r];
        if ((r == 0 || !faults) && n->exit_code != rc)
            sim_fail(s, "rank %u ended with exit code %d, not %d", r, n->exit_code, rc);
    }
}

const struct scenario scenario_bringup = {
    "bringup", "every rank comes to run, also when others die meanwhile", bringup_run, NULL};
const struct scenario scenario_shutdown = {
    "shutdown", "asked for anywhere, every broker ends with the exit code", shutdown_run, NULL};
