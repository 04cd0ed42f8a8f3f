/* scen_return.c - brokers die and are started again.
 *
 * In each round some brokers die, or leave the session in order.  In the scenario `return` those
 * below them end by themselves; in `heal` they go on, each connects to the next one above it that
 * lives, and all that live serve each other before anybody is started.  Then some are started whose
 * parent is dead: each joins at an ancestor, and serves.  All are started again, each when the
 * broker above it is there, some die once more while they join.  When all are up, rank 0 counts
 * each as its next incarnation, and everybody serves everybody: requests along the tree and the
 * ring, and a barrier with a participant at each rank, which a rank that still counts somewhere as
 * lost would end.
 *
 * In `heal`, those whose parent was away return to their places when it is back (home.c).
 *
 * In `heal`, clients that survive enter a barrier while brokers die, and all of them pass it, none
 * before the last has entered; clients write to a service that knows who must not (ledger.c); and
 * earlier brokers of ranks that are up again come back (zombie.c).
 *
 * In the scenario `many` one in a hundred dies in one moment, in sessions of any size.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "home.h"
#include "ledger.h"
#include "sim.h"
#include "src/broker/sessmap.h"

#define ROUNDS 3
#define VICTIMS_MAX 4
#define LISTENERS 16
#define TICKS 30
#define MEMBERS 16
#define LATE (30 * SIM_S) /* those whose parent is dead have joined by then */

struct returns {
    sim_t *s;
    unsigned answers, passed, asked;
    struct sim_ep *listeners[LISTENERS]; /* node.c verifies that they get each event, once */
    unsigned nlisteners;
    /* The barrier while brokers die. */
    struct sim_ep *members[MEMBERS];
    unsigned nmembers, entered, let_through;
    char *across; /* the payload of "barrier.enter" */
    home_t *home; /* NULL: subtrees do not return */
};

static void killed(void *arg, void *data)
{
    struct node *n = arg;

    n->sim->faults++;
    node_kill(n);
}

static void die(void *arg, void *data)
{
    struct node *n = arg;

    n->sim->faults++;
    if (n->sim->cfg.heal > 0. && n->state == NODE_ON && core_leaves_alone(n->core) &&
        rng_chance(&n->sim->rng, 0.3)) {
        n->leaves = true;
        core_leave(n->core, 0, "it was asked to leave");
    } else {
        node_kill(n);
    }
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

    return rs->answers == rs->asked && rs->passed == idset_count(core_ranks_up(s->nodes[0].core));
}

/* Those that are up: by the tree, and along the ring, which may have gaps. */
static void everybody_serves(struct returns *rs, unsigned round)
{
    sim_t *s = rs->s;
    const idset_t *up = core_ranks_up(s->nodes[0].core);
    bool whole = idset_count(up) == s->cfg.size;
    char *ranks = idset_format(up, 0);
    char *json = NULL;

    rs->answers = rs->passed = rs->asked = 0;
    if (!ranks || asprintf(&json, "{\"name\":\"round-%u-%u\",\"nprocs\":%zu,\"ranks\":\"%s\"}",
                           round, whole, idset_count(up), ranks) < 0) {
        sim_fail(s, "out of memory");
        json = NULL;
    }
    free(ranks);
    for (uint32_t r = idset_first(up); r != IDSET_NONE && !s->failed; r = idset_next(up, r)) {
        uint32_t to = idset_nth(up, rng_below(&s->rng, (uint32_t)idset_count(up)));
        struct sim_ep *c = sim_client_add(s, r, "visitor");

        if (!sim_module_find(s, to, "echo"))
            sim_module_add(s, to, &flux_module_echo, NULL);
        if (s->failed)
            break;
        then(rs, flux_rpc(c->h, "barrier.enter", json, FLUX_NODEID_ANY, 0), passed_cb);
        then(rs, flux_rpc_raw(c->h, "echo.now", "x", 1, to, 0), answer_cb);
        rs->asked++;
        then(rs, flux_rpc_raw(c->h, "echo.now", "y", 1, to, FLUX_MSGF_RING), answer_cb);
        rs->asked++;
    }
    free(json);
    if (!s->failed &&
        !sim_run_until(s, all_served, rs, 60 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size))
        sim_fail(s, "all are up: %u of %u requests were answered, %u of %zu passed the barrier",
                 rs->answers, rs->asked, rs->passed, idset_count(up));
}

static void listen(struct returns *rs)
{
    sim_t *s = rs->s;

    while (rs->nlisteners < LISTENERS && rs->nlisteners < s->cfg.size && !s->failed) {
        struct sim_ep *e = sim_client_add(s, rng_below(&s->rng, s->cfg.size), "listener");
        flux_future_t *f = e ? flux_event_subscribe(e->h, "") : NULL;

        if (!f) {
            sim_fail(s, "out of memory");
            return;
        }
        flux_future_destroy(f); /* the request is on its way */
        e->all_events = true;
        rs->listeners[rs->nlisteners++] = e;
    }
    sim_run_for(s, SIM_S);
}

/* A rank that lives publishes. */
static void tick(void *arg, void *data)
{
    struct returns *rs = arg;
    struct sim_ep *e = sim_client_add(rs->s, sim_random_alive(rs->s), "publisher");

    (void)data;
    if (e && flux_event_send(e->h, "test.tick", NULL) < 0)
        sim_fail(rs->s, "cannot publish an event");
}

static void write_one(void *arg, void *data)
{
    struct returns *rs = arg;

    (void)data;
    ledger_write(rs->s, sim_random_alive(rs->s));
}

/* Publish and write while brokers die, and orphans connect. */
static void ticks(struct returns *rs)
{
    sim_t *s = rs->s;

    for (unsigned i = 0; i < TICKS; i++) {
        sim_at(s, sim_now(s) + rng_below(&s->rng, 400) * SIM_MS, tick, rs, NULL);
        sim_at(s, sim_now(s) + rng_below(&s->rng, 400) * SIM_MS, write_one, rs, NULL);
    }
}

/* Those whose broker lives have got all events. */
static void expect_heard(const struct returns *rs)
{
    sim_t *s = rs->s;
    uint64_t newest = core_event_seq(s->nodes[0].core);

    for (unsigned i = 0; i < rs->nlisteners; i++) {
        const struct sim_ep *e = rs->listeners[i];

        if (!e->gone && e->broker->state == NODE_ON && e->last_event != newest)
            sim_fail(s, "a listener at rank %u has got events up to %llu of %llu", e->broker->rank,
                     (unsigned long long)e->last_event, (unsigned long long)newest);
    }
}

/* --- a barrier while brokers die --- */

static void across_cb(flux_future_t *f, void *arg)
{
    struct returns *rs = arg;

    if (flux_future_errnum(f) != 0)
        sim_fail(rs->s, "no participant has died, and yet a barrier failed: %s",
                 flux_future_error(f));
    else if (rs->entered < rs->nmembers)
        sim_fail(rs->s, "a barrier was passed when %u of %u had entered", rs->entered,
                 rs->nmembers);
    rs->let_through++;
    flux_future_destroy(f);
}

static void enter(void *arg, void *data)
{
    struct returns *rs = arg;
    struct sim_ep *e = data;

    rs->entered++;
    then(rs, flux_rpc(e->h, "barrier.enter", rs->across, FLUX_NODEID_ANY, 0), across_cb);
}

/* Participants at ranks that are not about to die. */
static void enter_across(struct returns *rs, const idset_t *victims, unsigned round)
{
    sim_t *s = rs->s;
    idset_t *ranks = idset_create();
    char *text = NULL;

    rs->nmembers = rs->entered = rs->let_through = 0;
    free(rs->across);
    rs->across = NULL;
    for (unsigned i = 0; ranks && i < MEMBERS; i++) {
        uint32_t r = rng_below(&s->rng, s->cfg.size);

        if (idset_test(victims, r) || idset_set(ranks, r) < 0)
            continue;
        if (!(rs->members[rs->nmembers] = sim_client_add(s, r, "member")))
            break;
        sim_at(s, sim_now(s) + rng_below(&s->rng, 400) * SIM_MS, enter, rs,
               rs->members[rs->nmembers++]);
    }
    text = ranks ? idset_format(ranks, 0) : NULL;
    if (!text || asprintf(&rs->across, "{\"name\":\"across-%u\",\"nprocs\":%u,\"ranks\":\"%s\"}",
                          round, rs->nmembers, text) < 0) {
        rs->across = NULL;
        sim_fail(s, "out of memory");
    }
    free(text);
    idset_destroy(ranks);
}

/* Return a rank that lives, and whose parent or address is another one in the session map; or the
 * size of the session. */
static uint32_t differs(const sim_t *s)
{
    const sessmap_t *m = core_map(s->nodes[0].core);
    uint32_t r;

    for (r = 0; r < s->cfg.size; r++) {
        const struct node *n = &s->nodes[r];
        const char *address = sessmap_address(m, r);

        if (sim_alive(s, r) && (!address || strcmp(address, n->address) != 0 ||
                                (r > 0 && sessmap_parent(m, r) != sim_parent(n)->rank)))
            break;
    }
    return r;
}

/* Rank 0 knows the parent and the address of each that lives, when reports of moves that were under
 * way have arrived. */
static void expect_map(sim_t *s)
{
    const sessmap_t *m = core_map(s->nodes[0].core);
    int64_t limit = sim_now(s) + 60 * SIM_S;
    uint32_t r;

    while (!s->failed && (r = differs(s)) < s->cfg.size) {
        if (sim_now(s) > limit)
            sim_fail(s, "rank %u is at %s, below rank %u; in the session map it is at %s, below %u",
                     r, s->nodes[r].address, r > 0 ? sim_parent(&s->nodes[r])->rank : 0,
                     sessmap_address(m, r) ? sessmap_address(m, r) : "?", sessmap_parent(m, r));
        sim_run_for(s, SIM_S / 10);
    }
}

/* Who lives is up, and has a way to the root; who is dead is lost. */
static void expect_healed(const struct returns *rs)
{
    sim_t *s = rs->s;
    const idset_t *up = core_ranks_up(s->nodes[0].core);
    const idset_t *lost = core_ranks_lost(s->nodes[0].core);

    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        const struct node *n = &s->nodes[r];

        if (n->state == NODE_DEAD || (n->state == NODE_EXITED && n->leaves)) {
            if (idset_test(up, r) || !idset_test(lost, r))
                sim_fail(s, "rank %u is dead, and rank 0 does not know", r);
        } else if (n->state != NODE_ON || core_state(n->core) != CORE_RUN) {
            sim_fail(s, "rank %u has ended with a broker above it", r);
        } else if (!sim_connected(s, r)) {
            sim_fail(s, "rank %u is not connected", r);
        } else if (!idset_test(up, r) || idset_test(lost, r)) {
            sim_fail(s, "rank %u lives, and rank 0 does not know", r);
        } else if (core_event_seq(n->core) != core_event_seq(s->nodes[0].core)) {
            sim_fail(s, "rank %u has not seen the last events", r);
        }
    }
    if (!s->failed)
        expect_map(s);
    if (!s->failed)
        expect_heard(rs);
}

/* One that dies in this round: in `heal`, often below another one. */
static struct node *victim(sim_t *s, const struct node *before)
{
    uint32_t below = before && s->cfg.heal > 0. ? topology_nchildren(s->topo, before->rank) : 0;

    if (below > 0 && rng_chance(&s->rng, 0.7))
        return &s->nodes[topology_child_at(s->topo, before->rank, rng_below(&s->rng, below))];
    return &s->nodes[rng_range(&s->rng, 1, s->cfg.size - 1)];
}

/* Start some of those whose parent is dead; false: there are none. */
static bool start_late(sim_t *s)
{
    bool any = false;

    for (uint32_t r = 1; r < s->cfg.size; r++) {
        struct node *n = &s->nodes[r];

        if (sim_alive(s, r) || sim_alive(s, topology_parent(s->topo, r)) || !net_settled(n) ||
            rng_chance(&s->rng, 0.3))
            continue;
        sim_trace_add(s, 11, r);
        node_restart(n);
        any = true;
    }
    return any;
}

/* Brokers that were lost come back to those above them, while others write. */
static void zombies(struct returns *rs)
{
    sim_t *s = rs->s;

    for (uint32_t r = 1; r < s->cfg.size && !s->failed; r++)
        zombie_visit(s, r);
    ticks(rs);
    sim_run_for(s, 3 * SIM_S);
}

/* Brokers die.  With healing, all others go on. */
static void lose_some(struct returns *rs, unsigned round)
{
    sim_t *s = rs->s;
    idset_t *victims = idset_create();
    struct node *dies = NULL;

    for (unsigned i = rng_range(&s->rng, 1, VICTIMS_MAX); victims && i > 0; i--) {
        dies = victim(s, dies);
        sim_at(s, sim_now(s) + rng_below(&s->rng, 100) * SIM_MS, die, dies, NULL);
        (void)idset_set(victims, dies->rank);
    }
    if (victims && s->cfg.heal > 0.) {
        ticks(rs);
        enter_across(rs, victims, round);
    }
    idset_destroy(victims);
    sim_run_for(s, rng_range(&s->rng, 100, 400) * SIM_MS); /* all of them die */
    if (s->cfg.heal <= 0.)
        return;
    sim_run_for(s, (int64_t)(2. * s->cfg.heal * 1e9) + sim_max_delay(s) * 4 * s->cfg.size);
    expect_healed(rs);
    if (!s->failed && rs->let_through != rs->nmembers)
        sim_fail(s, "%u of %u participants were let through a barrier", rs->let_through,
                 rs->nmembers);
    zombies(rs);
    if (!s->failed)
        everybody_serves(rs, round);
    if (!s->failed && start_late(s)) {
        sim_run_for(s, LATE + sim_max_delay(s) * 8 * s->cfg.size);
        expect_healed(rs);
        if (!s->failed)
            everybody_serves(rs, round + ROUNDS);
    }
}

/* Start again who is down, until all are up. */
static void start_all(const struct returns *rs)
{
    sim_t *s = rs->s;

    for (unsigned i = 0; !s->failed && (start_some(s) || !all_run(s)); i++) {
        if (i == 2000)
            sim_fail(s, "not everybody came back");
        if (s->cfg.heal > 0.)
            ledger_write(s, sim_random_alive(s));
        sim_run_for(s, 100 * SIM_MS);
    }
}

/* All come back, and subtrees may return to their places. */
static void bring_back(struct returns *rs, unsigned round)
{
    sim_t *s = rs->s;

    start_all(rs);
    if (!s->failed && rs->home) {
        ticks(rs);
        if (home_dance(rs->home)) {
            /* Who was cut off ends, or has another parent by then. */
            sim_run_for(s, (int64_t)(2. * s->cfg.heal * 1e9) + sim_max_delay(s) * 4 * s->cfg.size);
            start_all(rs);
        }
    }
    if (!s->failed && s->cfg.heal > 0.) {
        ticks(rs);
        sim_run_for(s, SIM_S);
        zombies(rs);
    }
    if (!s->failed && rs->home && (round == ROUNDS - 1 || rng_chance(&s->rng, 0.5)))
        home_whole(rs->home);
    /* The event that the last one is up reaches all. */
    sim_run_for(s, SIM_S + sim_max_delay(s) * s->cfg.size);
    if (!s->failed && (!idset_empty(core_ranks_lost(s->nodes[0].core)) ||
                       idset_count(core_ranks_up(s->nodes[0].core)) != s->cfg.size))
        sim_fail(s, "all are up, and rank 0 does not know");
    if (!s->failed)
        expect_map(s);
    if (!s->failed)
        everybody_serves(rs, round);
}

static void return_run(sim_t *s)
{
    struct returns *rs = sim_alloc(s, sizeof(*rs));

    rs->s = s;
    if (s->cfg.size < 2 || !sim_boot(s))
        return;
    if (s->cfg.heal > 0.) {
        ledger_start(s);
        listen(rs);
        if (s->cfg.settle > 0. || rng_chance(&s->rng, 0.5))
            rs->home = home_create(s);
    }
    for (unsigned round = 0; round < ROUNDS && !s->failed; round++) {
        lose_some(rs, round);
        bring_back(rs, round);
    }
    sim_run_for(s, SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    sim_check_quiet(s);
    free(rs->across);
}

/* Messages for the heals of all victims, beside the formula of one heal (figures.c): for each dead
 * broker a report to the root, and for each orphan a hello, an answer to the welcome and a report
 * to the root; for each of both an event to all.  A report goes twice where the broker that passes
 * it on is an orphan itself.  Events that the test publishes come on top. */
static void expect_messages(const struct returns *rs, const struct sim_tally *before)
{
    const sim_t *s = rs->s;
    uint64_t depth = topology_max_depth(s->topo), dead = 0, orphans = 0;
    uint64_t up = s->tally.up - before->up, event = s->tally.event - before->event;
    uint64_t up_max, event_max;

    for (uint32_t r = 1; r < s->cfg.size; r++) {
        const struct node *n = &s->nodes[r];

        dead += n->state == NODE_DEAD;
        orphans += n->state == NODE_ON && sim_parent(n)->rank != topology_parent(s->topo, r);
    }
    up_max = 2 * (dead * depth + orphans * (depth + 2)) + TICKS * depth;
    event_max = (s->cfg.size - 1) * (dead + orphans + TICKS);
    if (s->cfg.trace || s->cfg.size >= 2048)
        printf("many: %" PRIu64 " dead, %" PRIu64 " orphans: %" PRIu64
               " messages up (at most %" PRIu64 "), %" PRIu64 " events (at most %" PRIu64 ")\n",
               dead, orphans, up, up_max, event, event_max);
    if (up > up_max || event > event_max)
        sim_fail((sim_t *)s, "the heals took more messages than the formula has");
}

/* One in a hundred dies in the same moment.  All others are whole again after the limit of one heal
 * for each level of the tree at most, as an orphan's new parent may itself be an orphan. */
static void many_run(sim_t *s)
{
    struct returns *rs = sim_alloc(s, sizeof(*rs));
    struct sim_tally before;

    rs->s = s;
    if (s->cfg.size < 2 || !sim_boot(s))
        return;
    listen(rs);
    before = s->tally;
    ticks(rs);
    for (uint32_t i = 0; i < 1 + s->cfg.size / 100; i++) {
        uint32_t r = rng_range(&s->rng, 1, s->cfg.size - 1);
        uint32_t parent = topology_parent(s->topo, r);

        /* Most ranks have none below them. */
        if (parent != 0 && rng_chance(&s->rng, 0.25))
            r = parent;
        sim_at(s, sim_now(s), killed, &s->nodes[r], NULL);
    }
    sim_run_for(s, (int64_t)(2. * s->cfg.heal * 1e9) +
                       sim_max_delay(s) * 4 * (2 + topology_max_depth(s->topo)));
    expect_healed(rs);
    if (!s->failed)
        expect_messages(rs, &before);
    if (!s->failed)
        everybody_serves(rs, 0);
}

static void return_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules = SIM_MOD_BARRIER | SIM_MOD_LOG | SIM_MOD_KVS;
    if (cfg->size > 64)
        cfg->size = 2 + rng_below(rng, 63);
}

static void heal_tune(struct sim_config *cfg, struct rng *rng)
{
    return_tune(cfg, rng);
    cfg->heal = 5.;
    if (rng_chance(rng, 0.5))
        cfg->settle = 0.1 * rng_range(rng, 1, 30);
    if (rng_chance(rng, 0.6))
        cfg->fanout_max = rng_range(rng, 1, 6);
}

static void many_tune(struct sim_config *cfg, struct rng *rng)
{
    (void)rng;
    cfg->modules = SIM_MOD_BARRIER;
    cfg->heal = 5.;
}

const struct scenario scenario_many = {
    "many", "one in a hundred dies at once, and all others go on", many_run, many_tune};
const struct scenario scenario_heal = {
    "heal", "who loses the broker above goes on below another one", return_run, heal_tune};
const struct scenario scenario_return = {
    "return", "who was lost is started again, joins, and serves", return_run, return_tune};
