/* scen_kvs_history.c - clients that use the key-value store at random, and the checker of
 * t/history.
 *
 * The load is the one that t/history/record puts on real sessions (histload.c); here every delay,
 * and what breaks when, comes from the seed.  Clients that lose their broker, or leave a fence that
 * does not end, go on as others elsewhere.  When all have come to their end the whole history must
 * keep the promises of the store (histcheck.c).
 *
 * In a third of the seeds brokers are lost because nobody hears them for a while (absent.c), and
 * all of that takes longer.  Clients may be told of an error then, whatever they asked for; what
 * they are told of is checked as ever, and all brokers are up again before the end.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history/histload.h"
#include "libkvs/kvs.h"
#include "sim.h"

#define CLIENTS_MIN 8
#define CLIENTS_MAX 24
#define ORPHAN (33 * SIM_S) /* longer than such a broker goes on */
#define ABSENCES 6
#define LONGER 50 /* with absences: a run, */
#define SLOWER 10 /* ... and the pauses of clients */

struct run {
    sim_t *s;
    history_t *h;
    histload_t *load;
    const char *ns; /* NULL: the primary one, master at rank 0 */
    uint32_t master;
    bool over;
    unsigned clients; /* that there should be */
    unsigned replaced;
};

static uint64_t now_cb(void *arg)
{
    struct run *run = arg;

    return (uint64_t)sim_now(run->s);
}

static void add_client(struct run *run, uint64_t after)
{
    uint32_t rank = sim_random_alive(run->s);
    struct sim_ep *e = rank == TOPOLOGY_NONE ? NULL : sim_client_add(run->s, rank, "client");

    if (e && histload_add(run->load, e->h, after) < 0)
        sim_fail(run->s, "out of memory for a client");
}

static void replace(void *arg, void *data)
{
    struct run *run = arg;
    struct sim_ep *e = data;

    sim_client_remove(e);
    if (!run->over && run->replaced++ < 4 * CLIENTS_MAX)
        add_client(run, histload_version(run->load));
}

/* Brokers that were lost take their clients with them. */
static void complete(void *arg, void *data)
{
    struct run *run = arg;

    if (run->over || run->s->failed)
        return;
    for (unsigned i = histload_clients(run->load); i < run->clients; i++)
        add_client(run, histload_version(run->load));
    sim_at(run->s, sim_now(run->s) + SIM_S, complete, run, NULL);
}

/* Nothing gets through to a broker and what is below it, or back, for a while: what is sent arrives
 * afterwards.  Or only events, or all but events. */
static void hold_back(struct chan *ch, int64_t until)
{
    if (ch->last < until)
        ch->last = until;
}

static void partition(void *arg, void *data)
{
    struct node *n = arg;
    sim_t *s = n->sim;
    int64_t until = sim_now(s) + rng_range(&s->rng, 1, 400) * SIM_MS;
    unsigned planes = rng_range(&s->rng, 1, 3);

    if (n->state != NODE_ON)
        return;
    s->faults++;
    sim_trace_add(s, 7, n->rank);
    if (n->way && (planes & 1)) {
        hold_back(&n->way->up, until);
        hold_back(&n->way->down, until);
    }
    if (n->way && (planes & 2))
        hold_back(&n->way->event, until);
    if (planes == 3) {
        hold_back(&n->ring_next, until);
        hold_back(&n->ring_prev, until);
    }
}

/* Its handle must not be closed from here. */
static void ended_cb(flux_t *h, bool lost, void *arg)
{
    struct run *run = arg;

    sim_at(run->s, sim_now(run->s), replace, run, flux_handle_impl(h));
}

static bool all_done(sim_t *s, void *arg)
{
    struct run *run = arg;

    return histload_busy(run->load) == 0;
}

static void check(struct run *run, bool faults)
{
    const struct hist_options o = {.master_known = true, .ns = run->ns, .master = run->master};
    struct hist_report *r = malloc(sizeof(*r));

    if (!r || history_check(run->h, &o, r) < 0)
        sim_fail(run->s, "out of memory for the history");
    else if (r->count > 0)
        sim_fail(run->s, "%zu violations in %zu operations: %s", r->count, r->ops,
                 r->first[0].text);
    else if (!faults && run->s->queue_max == 0 && r->unknown > 0)
        sim_fail(run->s, "%zu commits have an unknown outcome, though nothing broke", r->unknown);
    if (r && run->s->cfg.trace) {
        for (size_t i = 0; i < r->count && i < HIST_REPORT_MAX; i++)
            printf("VIOLATION %s\n", r->first[i].text);
    }
    free(r);
}

/* Who watches a key was told what it is at the end. */
static void verify(struct run *run)
{
    sim_t *s = run->s;
    unsigned watching;
    char text[300];

    histload_verify(run->load);
    if (!sim_run_until(s, all_done, run, 10 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size))
        sim_fail(s, "%u clients do not read what they watch", histload_busy(run->load));
    sim_run_for(s, SIM_S);
    if (histload_unkept(run->load) > 0)
        sim_fail(s, "%u roots were gone though they were held", histload_unkept(run->load));
    if (!s->failed && histload_behind(run->load, &watching, text, sizeof(text)) > 0)
        sim_fail(s, "%s", text);
}

static void made_cb(flux_future_t *f, void *arg)
{
    struct run *run = arg;

    /* What is bounded may refuse. */
    if (flux_future_errnum(f) != 0) {
        run->ns = NULL;
        if (flux_future_errnum(f) != EAGAIN || run->s->queue_max == 0)
            sim_fail(run->s, "a namespace was not made: %s", flux_future_error(f));
    }
    flux_future_destroy(f);
    run->over = true;
}

static bool is_over(sim_t *s, void *arg)
{
    struct run *run = arg;

    return run->over;
}

/* Some use a namespace of their own, with its master anywhere. */
static void make_namespace(struct run *run)
{
    sim_t *s = run->s;
    struct sim_ep *e = sim_client_add(s, sim_random_alive(s), "maker");

    run->ns = "job.1";
    run->master = rng_below(&s->rng, s->cfg.size);
    flux_future_t *f =
        e ? flux_kvs_namespace_create(e->h, run->ns, FLUX_KVS_OWNER_SELF, run->master) : NULL;
    if (!f || flux_future_then(f, -1., made_cb, run) < 0) {
        sim_fail(s, "a namespace cannot be asked for");
        return;
    }
    if (!sim_run_until(s, is_over, run, 5 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size))
        sim_fail(s, "a namespace is not made");
    run->over = false;
    if (!run->ns)
        run->master = 0;
}

static void disturb(struct run *run, bool faults, int64_t time)
{
    sim_t *s = run->s;

    if (faults)
        sim_faults(s, FAULT_ALL, rng_range(&s->rng, 1, 8), time);
    if (faults && rng_chance(&s->rng, 0.5))
        sim_returns(s, time);
    for (unsigned i = rng_below(&s->rng, 4); i > 0 && s->cfg.size > 1; i--)
        sim_at(s, sim_now(s) + (int64_t)(rng_real(&s->rng) * (double)time), partition,
               &s->nodes[rng_range(&s->rng, 1, s->cfg.size - 1)], NULL);
    if (!s->cfg.live)
        return;
    sim_absences(s, rng_range(&s->rng, 1, ABSENCES), time);
    if (rng_chance(&s->rng, 0.7))
        sim_returns(s, time + SIM_ABSENT_MAX);
    complete(run, NULL);
}

static void history_run(sim_t *s)
{
    struct run *run = sim_alloc(s, sizeof(*run));
    bool faults = rng_chance(&s->rng, 0.8);
    unsigned clients = rng_range(&s->rng, CLIENTS_MIN, CLIENTS_MAX);
    int64_t time = rng_range(&s->rng, 100, 600) * SIM_MS;
    struct histload_config cfg = {
        .seed = rng_next(&s->rng),
        .dir = "h",
        .first_client = 1,
        .keys = rng_range(&s->rng, 2, 10),
        .append_keys = 2,
        .guard_keys = 2,
        .fence_max = 5,
        .watches = true,
        .append_watches = true,
        .snapshots = true,
        .value_max = 3000,
        .large = 0.1,
        .pause = 1e-3 * rng_range(&s->rng, 1, 30),
        .fence_timeout = 2.,
        .wait_timeout = 5.,
        .now = now_cb,
        .ended = ended_cb,
        .arg = run,
    };

    if (!sim_boot(s))
        return;
    run->s = s;
    run->clients = clients;
    if (s->cfg.live) {
        time *= LONGER;
        cfg.pause *= SLOWER;
    }
    if (rng_chance(&s->rng, 0.4))
        make_namespace(run);
    cfg.ns = run->ns;
    if (!(run->h = history_create()) || !(run->load = histload_create(&cfg, run->h))) {
        sim_fail(s, "out of memory for a history");
        history_destroy(run->h);
        return;
    }
    for (unsigned i = 0; i < clients && !s->failed; i++)
        add_client(run, 0);
    disturb(run, faults, time);
    sim_run_for(s, time);
    if (s->cfg.live)
        sim_all_back(s);
    histload_stop(run->load);
    if (!sim_run_until(s, all_done, run, 30 * SIM_S + sim_max_delay(s) * 16 * s->cfg.size))
        sim_fail(s, "%u clients are not at their end", histload_busy(run->load));
    run->over = true;
    sim_run_for(s, SIM_S);
    verify(run);
    if (!s->failed)
        check(run, faults || s->cfg.live);
    if (s->cfg.trace)
        history_write(run->h, stdout);
    histload_destroy(run->load);
    /* What had been asked for the futures that are gone may still be answered; by a broker that has
     * lost its parent, when it ends. */
    sim_run_for(s, ORPHAN + sim_max_delay(s) * 4 * s->cfg.size);
    sim_check_quiet(s);
    history_destroy(run->h);
}

static void history_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules |= SIM_MOD_KVS;
    if (rng_chance(rng, 1. / 3.))
        sim_tune_absences(cfg, rng);
}

const struct scenario scenario_history = {
    "history", "the key-value store at random: what clients were told keeps its promises",
    history_run, history_tune};
