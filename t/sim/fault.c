/* fault.c - what can go wrong with brokers and links, drawn from the seed.
 *
 *    death       a broker ends as by SIGKILL; not the root's
 *    pause       a broker does nothing for 1 to 200 ms, then all that came meanwhile
 *    spike       for 1 to 100 ms all links are 1 to 50 ms slower
 *    link        a connection to the parent, or along the ring, breaks; both ends notice
 *    clock       the wall clock of a broker is set, forward or back, by seconds to days
 *    return      a broker that died, or ended as an orphan, is started again
 */
#include "config.h"

#include "sim.h"

uint32_t sim_random_alive(sim_t *s)
{
    uint32_t first = rng_below(&s->rng, s->cfg.size);

    for (uint32_t i = 0; i < s->cfg.size; i++) {
        uint32_t r = (first + i) % s->cfg.size;
        if (sim_alive(s, r))
            return r;
    }
    return TOPOLOGY_NONE;
}

static void death(void *arg, void *data)
{
    struct node *n = arg;

    n->sim->faults++;
    sim_trace_add(n->sim, 4, n->rank);
    node_kill(n);
}

static void go_on(void *arg, void *data)
{
    struct node *n = arg;

    vowner_continue(n->sim->clock, &n->owner);
}

static void pause_node(void *arg, void *data)
{
    struct node *n = arg;
    sim_t *s = n->sim;

    if (n->state != NODE_ON || n->owner.paused)
        return;
    s->faults++;
    sim_trace_add(s, 5, n->rank);
    vowner_pause(&n->owner);
    sim_at(s, sim_now(s) + rng_range(&s->rng, 1, 200) * SIM_MS, go_on, n, NULL);
}

static void spike_end(void *arg, void *data)
{
    struct node *n = arg;

    n->sim->link_delay.base -= (int64_t)(intptr_t)data;
}

static void spike(void *arg, void *data)
{
    struct node *n = arg;
    sim_t *s = n->sim;
    int64_t more = rng_range(&s->rng, 1, 50) * SIM_MS;

    s->faults++;
    s->link_delay.base += more;
    sim_at(s, sim_now(s) + rng_range(&s->rng, 1, 100) * SIM_MS, spike_end, n,
           (void *)(intptr_t)more);
}

static void link_loss(void *arg, void *data)
{
    struct node *n = arg;
    sim_t *s = n->sim;

    if (n->state != NODE_ON)
        return;
    s->faults++;
    sim_trace_add(s, 6, n->rank);
    net_break(n, n->rank == 0 || rng_chance(&s->rng, 0.5) ? CORE_RING : CORE_TREE);
}

static void set_clock(void *arg, void *data)
{
    static const double most[] = {10., 3600., 3. * 86400.};
    struct node *n = arg;
    sim_t *s = n->sim;
    double range = most[rng_below(&s->rng, 3)];

    s->faults++;
    s->clock_set |= n->rank == 0;
    n->wall += (2. * rng_real(&s->rng) - 1.) * range;
    sim_trace_add(s, 9, n->rank);
}

bool sim_start_some(sim_t *s)
{
    bool down = false;

    for (uint32_t r = 1; r < s->cfg.size && !s->failed; r++) {
        struct node *n = &s->nodes[r];

        if (sim_alive(s, r))
            continue;
        down = true;
        if (sim_connected(s, topology_parent(s->topo, r)) && net_settled(n)) {
            sim_trace_add(s, 10, r);
            node_restart(n);
        }
    }
    return down;
}

/* The last time at which somebody is started. */
struct returns {
    sim_t *s;
    int64_t end;
};

static void start_some(void *arg, void *data)
{
    struct returns *rt = arg;
    sim_t *s = rt->s;

    if (s->failed || sim_now(s) > rt->end)
        return;
    sim_start_some(s);
    sim_at(s, sim_now(s) + rng_range(&s->rng, 20, 400) * SIM_MS, start_some, rt, NULL);
}

void sim_returns(sim_t *s, int64_t within)
{
    struct returns *rt = sim_alloc(s, sizeof(*rt));

    *rt = (struct returns){s, sim_now(s) + within};
    start_some(rt, NULL);
}

void sim_faults(sim_t *s, unsigned kinds, unsigned count, int64_t within)
{
    static const struct {
        unsigned kind;
        vevent_f cb;
    } table[] = {
        {FAULT_DEATH, death},    {FAULT_PAUSE, pause_node}, {FAULT_SPIKE, spike},
        {FAULT_LINK, link_loss}, {FAULT_CLOCK, set_clock},
    };

    if (s->cfg.size < 2)
        return;
    for (unsigned i = 0; i < count; i++) {
        unsigned k = rng_below(&s->rng, sizeof(table) / sizeof(table[0]));
        bool death_or_link = table[k].kind & (FAULT_DEATH | FAULT_LINK);
        uint32_t rank = death_or_link ? rng_range(&s->rng, 1, s->cfg.size - 1)
                                      : rng_below(&s->rng, s->cfg.size);
        /* Where most services run. */
        if (table[k].kind == FAULT_CLOCK && rng_chance(&s->rng, 0.5))
            rank = 0;
        int64_t at = sim_now(s) + (int64_t)(rng_real(&s->rng) * (double)within);
        if (table[k].kind & kinds)
            sim_at(s, at, table[k].cb, &s->nodes[rank], NULL);
    }
}
