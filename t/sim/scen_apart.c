/* scen_apart.c - a broker and its parent do not hear each other, while others hear both.
 *
 * In each round the link between two hosts falls silent, in one direction or both: that between a
 * broker and its parent on the tree, and on the ring where they are neighbors there, too.  In half
 * of the sessions events have connections of their own, which fall silent as well, or alone; who
 * does not hear them calls its parent slow then, and nobody else is called that.  Clocks run at
 * different speeds, and clients publish meanwhile.  The broker is not lost: it connects to a broker
 * above, is up all the time, and serves.  Where messages take so long that nobody can vouch for it
 * in time, it may be lost, and is started again; nobody but it and those below it is.
 *
 * In the scenario `parted` some brokers are cut off from all others for a while, in one direction
 * or both, or brokers stand still, rank 0 for up to a minute; then everything goes on.  Clients at
 * all ranks publish, and write to a service that knows which ranks are announced as lost
 * (ledger.c).
 *
 *  1. Nothing that is shorter than the limit of silence loses a rank, or moves one.  Nor does rank
 *     0 that stands still for less than the patience of its children.
 *  2. A broker that was announced as lost ends by itself when it hears others again, and has
 *     written nothing since.
 *  3. When those that have ended were started again, all are up, and serve each other.
 *  4. Nobody is lost that is cut off only from events.
 *
 * That no event is lost is required by node.c.
 */
#include "config.h"
#include <stdio.h>

#include "echo.h"
#include "ledger.h"
#include "sim.h"

#define ROUNDS 6
#define LISTENERS 8
#define TICKS 20
#define SLOWEST 0.97 /* rates of clocks */
#define FASTEST 1.03
#define HARMLESS (1800 * SIM_MS) /* shorter than the limit of silence, whatever clocks do */
#define ANSWER (300 * SIM_MS)    /* who vouches has this time, and a little */

struct apart {
    sim_t *s;
    unsigned answers, asked;
    unsigned *starts; /* brokers of each rank before the round */
    uint32_t *parents;
    bool events; /* only events do not arrive in this round */
};

/* Is there time to vouch for a broker?  Its parent asks a third, or tells the broker, which
 * connects to one above: that tells the parent. */
static bool is_in_time(const sim_t *s)
{
    return sim_max_delay(s) * 4 * (1 + topology_max_depth(s->topo)) < ANSWER;
}

static void silence_between(struct node *n, unsigned which)
{
    struct node *parent = sim_parent(n);
    struct chan *to = n->ring_next.to == parent   ? &n->ring_next
                      : n->ring_prev.to == parent ? &n->ring_prev
                                                  : NULL;

    n->sim->faults++;
    sim_trace_add(n->sim, 14, (uint64_t)n->rank << 8 | which);
    net_silence(n->way, which);
    if (to) {
        to->mute |= (which & SILENT_UP) != 0;
        to->back->mute |= (which & SILENT_DOWN) != 0;
    }
    if (n->sim->cfg.trace)
        printf("%14.6f  %u and %u do not hear each other (%u)\n", 1e-9 * (double)sim_now(n->sim),
               n->rank, parent->rank, which);
}

/* In this round, only events to one broker are silent.  A broker may also still hold a connection
 * that has been silent since an earlier round. */
static void accused(sim_t *s, const struct node *n, const struct chan *from, bool lost)
{
    if (!from->mute)
        sim_fail(s, "rank %u calls rank %u %s, though it hears it", n->rank, from->from->rank,
                 lost ? "lost" : "slow");
}

/* A broker with another one between it and rank 0; NULL: there is none. */
static struct node *victim(sim_t *s)
{
    uint32_t first = rng_below(&s->rng, s->cfg.size);

    for (uint32_t i = 0; i < s->cfg.size; i++) {
        struct node *n = &s->nodes[(first + i) % s->cfg.size];

        if (n->rank != 0 && sim_parent(n)->rank != 0)
            return n;
    }
    return NULL;
}

static void tick(void *arg, void *data)
{
    sim_t *s = arg;
    struct sim_ep *e = sim_client_add(s, sim_random_alive(s), "publisher");

    (void)data;
    if (e && flux_event_send(e->h, "test.tick", NULL) < 0)
        sim_fail(s, "cannot publish an event");
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct apart *a = arg;

    if (flux_future_errnum(f) != 0)
        sim_fail(a->s, "all are up, and yet a request failed: %s", flux_future_error(f));
    a->answers++;
    flux_future_destroy(f);
}

static bool all_answered(sim_t *s, void *arg)
{
    const struct apart *a = arg;

    (void)s;
    return a->answers == a->asked;
}

static void everybody_serves(struct apart *a)
{
    sim_t *s = a->s;

    a->answers = a->asked = 0;
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        uint32_t to = rng_below(&s->rng, s->cfg.size);
        struct sim_ep *c = sim_client_add(s, r, "visitor");
        flux_future_t *f;

        if (!sim_module_find(s, to, "echo"))
            sim_module_add(s, to, &flux_module_echo, NULL);
        if (s->failed)
            return;
        if (!(f = flux_rpc_raw(c->h, "echo.now", "x", 1, to, 0)) ||
            flux_future_then(f, -1., answer_cb, a) < 0)
            sim_fail(s, "out of memory");
        a->asked++;
    }
    if (!s->failed && !sim_run_until(s, all_answered, a, 60 * SIM_S))
        sim_fail(s, "all are up: %u of %u requests were answered", a->answers, a->asked);
}

static void one_round(struct apart *a)
{
    sim_t *s = a->s;
    struct node *n = victim(s);
    unsigned which = rng_range(&s->rng, 1, s->cfg.event_lines ? SILENT_ALL : 3);
    unsigned starts = n ? n->starts : 0;
    const struct node *parent = n ? sim_parent(n) : NULL;
    bool stays = n && (!(which & SILENT_UP) || is_in_time(s));

    if (!n)
        return;
    silence_between(n, which);
    s->accused = which == SILENT_EVENTS ? accused : NULL;
    for (unsigned i = 0; i < TICKS; i++)
        sim_at(s, sim_now(s) + rng_below(&s->rng, 9000) * SIM_MS, tick, s, NULL);
    sim_run_for(s,
                5 * SIM_S + (int64_t)(2. * s->cfg.heal * 1e9) + sim_max_delay(s) * 4 * s->cfg.size);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++)
        if ((stays || !sim_is_below(s, r, n)) && !sim_is_up(s, r))
            sim_fail(s, "rank %u is not up: rank %u and its parent did not hear each other (%u)", r,
                     n->rank, which);
    if (stays && !s->failed && (n->starts != starts || sim_parent(n) == parent))
        sim_fail(s, "rank %u has not moved away from rank %u", n->rank, parent->rank);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++)
        sim_bring_back(s, r);
    sim_run_for(s, SIM_S + sim_max_delay(s) * s->cfg.size);
    if (!s->failed)
        everybody_serves(a);
}

static void listen(sim_t *s)
{
    for (unsigned i = 0; i < LISTENERS && !s->failed; i++) {
        struct sim_ep *e = sim_client_add(s, rng_below(&s->rng, s->cfg.size), "listener");
        flux_future_t *f = e ? flux_event_subscribe(e->h, "") : NULL;

        if (!f)
            sim_fail(s, "out of memory");
        else
            e->all_events = true; /* node.c looks for gaps */
        flux_future_destroy(f);
    }
    sim_run_for(s, 3 * SIM_S);
}

static void apart_run(sim_t *s)
{
    struct apart *a = sim_alloc(s, sizeof(*a));

    a->s = s;
    for (uint32_t r = 0; r < s->cfg.size; r++)
        s->nodes[r].rate = SLOWEST + (FASTEST - SLOWEST) * rng_real(&s->rng);
    if (!sim_boot(s))
        return;
    listen(s);
    for (unsigned round = 0; round < ROUNDS && !s->failed; round++)
        one_round(a);
    sim_run_for(s, SIM_S);
    sim_check_quiet(s);
}

/* --- parts of the network, and brokers that stand still --- */

/* Something that nobody may call a loss, or something that lasts longer.  Returns how long. */
static int64_t disturb(struct apart *a, bool harmless)
{
    sim_t *s = a->s;
    int64_t most = harmless ? HARMLESS : SIM_ABSENT_MAX;
    int64_t time = rng_range(&s->rng, 100, (uint32_t)(most / SIM_MS)) * SIM_MS;

    s->faults++;
    a->events = false;
    if (rng_chance(&s->rng, 0.5)) {
        a->events = s->cfg.event_lines && rng_chance(&s->rng, 0.3);
        sim_cut_off(s, time, a->events);
    } else if (harmless && rng_chance(&s->rng, 0.5)) {
        time = rng_range(&s->rng, 100, SIM_ROOT_STILL_MAX / SIM_MS) * SIM_MS;
        sim_stand_still(&s->nodes[0], time);
    } else {
        for (unsigned i = rng_range(&s->rng, 1, 3); i > 0; i--)
            sim_stand_still(&s->nodes[rng_range(&s->rng, 1, s->cfg.size - 1)], time);
    }
    return time;
}

static void write_one(void *arg, void *data)
{
    sim_t *s = arg;

    (void)data;
    ledger_write(s, sim_random_alive(s));
}

static void expect_unchanged(const struct apart *a, int64_t time)
{
    sim_t *s = a->s;

    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        const struct node *n = &s->nodes[r];

        if (!sim_is_up(s, r) || n->starts != a->starts[r])
            sim_fail(s, "rank %u was lost in vain, after %.3f s", r, 1e-9 * (double)time);
        else if (r > 0 && sim_parent(n)->rank != a->parents[r])
            sim_fail(s, "rank %u has moved in vain, after %.3f s", r, 1e-9 * (double)time);
    }
}

static void expect_there(const struct apart *a, int64_t time)
{
    for (uint32_t r = 0; r < a->s->cfg.size && !a->s->failed; r++)
        if (!sim_is_up(a->s, r) || a->s->nodes[r].starts != a->starts[r])
            sim_fail(a->s, "rank %u was lost, because events did not come for %.3f s", r,
                     1e-9 * (double)time);
}

static void part_round(struct apart *a)
{
    sim_t *s = a->s;
    bool harmless = rng_chance(&s->rng, 0.4);
    int64_t time;

    for (uint32_t r = 0; r < s->cfg.size; r++) {
        a->starts[r] = s->nodes[r].starts;
        a->parents[r] = r > 0 ? sim_parent(&s->nodes[r])->rank : 0;
    }
    time = disturb(a, harmless);
    for (unsigned i = 0; i < TICKS; i++) {
        sim_at(s, sim_now(s) + rng_below(&s->rng, 15000) * SIM_MS, tick, s, NULL);
        sim_at(s, sim_now(s) + rng_below(&s->rng, 15000) * SIM_MS, write_one, s, NULL);
    }
    sim_run_for(s, time + 5 * SIM_S + (int64_t)(2. * s->cfg.heal * 1e9) +
                       sim_max_delay(s) * 4 * s->cfg.size);
    if (!s->failed && harmless)
        expect_unchanged(a, time);
    if (!s->failed && a->events)
        expect_there(a, time);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++)
        sim_bring_back(s, r);
    sim_run_for(s, SIM_S + sim_max_delay(s) * s->cfg.size);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++)
        if (!sim_is_up(s, r))
            sim_fail(s, "rank %u is not up at the end of a round", r);
    if (!s->failed)
        everybody_serves(a);
}

static void parted_run(sim_t *s)
{
    struct apart *a = sim_alloc(s, sizeof(*a));

    a->s = s;
    a->starts = sim_alloc(s, sizeof(*a->starts) * s->cfg.size);
    a->parents = sim_alloc(s, sizeof(*a->parents) * s->cfg.size);
    if (s->cfg.size < 2 || !sim_boot(s))
        return;
    ledger_start(s);
    listen(s);
    for (unsigned round = 0; round < ROUNDS && !s->failed; round++)
        part_round(a);
    sim_run_for(s, SIM_S);
    sim_check_quiet(s);
}

static void apart_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules = SIM_MOD_BARRIER;
    sim_tune_absences(cfg, rng);
    cfg->event_lines = rng_below(rng, 2) == 1;
}

const struct scenario scenario_apart = {
    "apart", "who does not hear its parent, nor is heard, goes on below another one", apart_run,
    apart_tune};
const struct scenario scenario_parted = {
    "parted", "parts of the network are cut off, or brokers stand still, and come back", parted_run,
    apart_tune};
