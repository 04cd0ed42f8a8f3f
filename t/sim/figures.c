/* figures.c - messages per operation, counted, beside what the shape of the tree predicts.
 *
 * All links are equally slow and nothing fails, so that the numbers are exact; more than predicted
 * is an error.  N brokers, depth(r) hops from the root to rank r, height(r) hops from r down to the
 * deepest rank below it.
 *
 *    bring-up           hello and ready up, 2(N-1); welcome down, N-1; run as event, N-1
 *    event              from rank r: request depth(r) up, event N-1, answer depth(r) down
 *    rank request       distance(a,b) there and back
 *    barrier, at once   all enter in one moment: sum over r > 0 of 1 + height(r), up and down
 *    barrier, leveled   the deepest first, each when those below arrive: N-1 up, N-1 down
 *    shutdown           shutdown N-1 down, goodbye N-1 up
 *    bring-up, kvs      the above, and each instance asks the next above for the root
 *    commit             from rank r: depth(r) up and down, the new root as event N-1
 *    look-up, cold      one object from the root: depth(r) up and down; warm: nothing
 *    fence              as the barrier, and the new root as event N-1
 *    heal               a broker of depth d with c children dies.  Up: its loss, from its parent to
 *                       the root, d-1; each orphan says hello, asks for the events that it has
 *                       missed, and is reported to the root, d+1.  Down: for each orphan welcome,
 *                       the answer, and at most all events of this heal.  Events: the loss, and
 *                       each move, to N-1 ranks at most
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "sim.h"

struct figure {
    const char *name;
    uint64_t up, down, event; /* predicted */
    const char *formula;
};

struct state {
    sim_t *s;
    struct sim_ep **clients;
    struct sim_tally last;
    unsigned answered;
    unsigned failed;
    int rc;
};

static void report(struct state *st, const struct figure *f)
{
    struct sim_tally now = st->s->tally;
    uint64_t up = now.up - st->last.up;
    uint64_t down = now.down - st->last.down;
    uint64_t event = now.event - st->last.event;
    bool over = up > f->up || down > f->down || event > f->event || now.ring > st->last.ring;

    printf("  %-16s %9llu %9llu %9llu   %9llu %9llu %9llu  %s%s\n", f->name, (unsigned long long)up,
           (unsigned long long)down, (unsigned long long)event, (unsigned long long)f->up,
           (unsigned long long)f->down, (unsigned long long)f->event, f->formula,
           over ? "  EXCEEDED" : "");
    st->last = now;
    if (over)
        st->rc = -1;
}

static uint32_t *heights(sim_t *s)
{
    uint32_t n = s->cfg.size;
    uint32_t *h = sim_alloc(s, n * sizeof(*h));

    /* From the deepest ranks upwards: a rank's height is final once all below it were examined. */
    for (uint32_t level = topology_max_depth(s->topo); level > 0; level--) {
        for (uint32_t r = 1; r < n; r++) {
            uint32_t p = topology_parent(s->topo, r);
            if (topology_depth(s->topo, r) == level && h[r] + 1 > h[p])
                h[p] = h[r] + 1;
        }
    }
    return h;
}

static void answered_cb(flux_future_t *f, void *arg)
{
    struct state *st = arg;

    st->answered++;
    st->failed += flux_future_errnum(f) != 0;
    flux_future_destroy(f);
}

static void expect(struct state *st, flux_future_t *f)
{
    if (!f || flux_future_then(f, -1., answered_cb, st) < 0)
        sim_fail(st->s, "out of memory");
}

static void ask(struct state *st, uint32_t from, const char *topic, const char *json,
                uint32_t nodeid)
{
    expect(st, flux_rpc(st->clients[from]->h, topic, json, nodeid, 0));
}

static void wait_for(struct state *st, unsigned count, const char *what)
{
    sim_run_for(st->s, 2 * SIM_S);
    if (st->answered != count || st->failed)
        sim_fail(st->s, "%s: %u of %u answers, %u of them errors", what, st->answered, count,
                 st->failed);
    st->answered = 0;
    st->failed = 0;
}

static void figure_event(struct state *st, uint32_t from)
{
    sim_t *s = st->s;
    uint32_t n = s->cfg.size;
    uint32_t d = topology_depth(s->topo, from);
    char name[40];

    expect(st, flux_event_publish(st->clients[from]->h, "test.figure", NULL));
    wait_for(st, 1, "event");
    snprintf(name, sizeof(name), "event (rank %u)", from);
    report(st, &(struct figure){name, d, d, n - 1, "depth; depth; N-1"});
}

/* What every rank does in an operation of all. */
typedef void (*enter_f)(struct state *st, uint32_t rank);

static void enter_barrier(struct state *st, uint32_t rank)
{
    char json[80];

    snprintf(json, sizeof(json), "{\"name\":\"figure\",\"nprocs\":%u}", st->s->cfg.size);
    ask(st, rank, "barrier.enter", json, FLUX_NODEID_ANY);
}

static void enter_fence(struct state *st, uint32_t rank)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    char key[40];

    snprintf(key, sizeof(key), "fenced.%u", rank);
    if (!txn || flux_kvs_txn_put(txn, key, "a card of some bytes", NULL) < 0)
        sim_fail(st->s, "out of memory");
    else
        expect(st, flux_kvs_fence(st->clients[rank]->h, NULL, "figure", st->s->cfg.size, txn));
    flux_kvs_txn_destroy(txn);
}

static void all_at_once(struct state *st, enter_f enter, const char *what)
{
    for (uint32_t r = 0; r < st->s->cfg.size; r++)
        enter(st, r);
    wait_for(st, st->s->cfg.size, what);
}

/* Those of the same depth together, the deepest first. */
static void by_depth(struct state *st, enter_f enter, const char *what)
{
    sim_t *s = st->s;
    uint32_t n = s->cfg.size;

    for (uint32_t level = topology_max_depth(s->topo) + 1; level-- > 0;) {
        for (uint32_t r = 0; r < n; r++) {
            if (topology_depth(s->topo, r) == level)
                enter(st, r);
        }
        /* The next in the moment in which those from below arrive. */
        sim_run_for(s, s->link_delay.base + 2 * s->local_delay.base);
    }
    wait_for(st, n, what);
}

static void add_clients(struct state *st)
{
    for (uint32_t r = 0; r < st->s->cfg.size && !st->s->failed; r++)
        st->clients[r] = sim_client_add(st->s, r, "client");
    sim_run_for(st->s, SIM_S);
}

static void figures_base(struct state *st, uint64_t sum)
{
    sim_t *s = st->s;
    uint32_t n = s->cfg.size;
    uint32_t far = n - 1;
    uint32_t dist = 0;

    for (uint32_t r = far; r != n / 2; r = topology_next_hop(s->topo, r, n / 2))
        dist++;
    add_clients(st);
    report(st, &(struct figure){"bring-up", 2 * (n - 1), n - 1, n - 1, "2(N-1); N-1; N-1"});
    figure_event(st, far);
    figure_event(st, 0);
    ask(st, far, "broker.stats", NULL, n / 2);
    wait_for(st, 1, "request");
    report(st, &(struct figure){"rank request", dist, dist, 0, "distance there and back"});
    all_at_once(st, enter_barrier, "barrier");
    report(st, &(struct figure){"barrier, at once", sum, sum, 0, "sum of 1 + height(r)"});
    by_depth(st, enter_barrier, "barrier");
    report(st, &(struct figure){"barrier, leveled", n - 1, n - 1, 0, "N-1; N-1"});
    core_shutdown(s->nodes[0].core, 0, "done");
    sim_run_for(s, 10 * SIM_S);
    report(st, &(struct figure){"shutdown", n - 1, n - 1, 0, "N-1; N-1"});
}

static void figures_kvs(struct state *st, uint64_t sum)
{
    sim_t *s = st->s;
    uint32_t n = s->cfg.size;
    uint32_t far = n - 1;
    uint32_t d = topology_depth(s->topo, far);
    flux_kvs_txn_t *txn = flux_kvs_txn_create();

    add_clients(st);
    report(st, &(struct figure){"bring-up, kvs", 3 * (n - 1), 2 * (n - 1), n - 1,
                                "3(N-1); 2(N-1); N-1"});
    if (!txn || flux_kvs_txn_put(txn, "figure", "1", NULL) < 0)
        sim_fail(s, "out of memory");
    else
        expect(st, flux_kvs_commit(st->clients[far]->h, NULL, txn));
    flux_kvs_txn_destroy(txn);
    wait_for(st, 1, "commit");
    report(st, &(struct figure){"commit", d, d, n - 1, "depth; depth; N-1"});
    expect(st, flux_kvs_lookup(st->clients[far]->h, NULL, "figure", 0, NULL));
    wait_for(st, 1, "look-up");
    report(st, &(struct figure){"look-up, cold", d, d, 0, "depth; depth (one object)"});
    expect(st, flux_kvs_lookup(st->clients[far]->h, NULL, "figure", 0, NULL));
    wait_for(st, 1, "look-up");
    report(st, &(struct figure){"look-up, warm", 0, 0, 0, "0"});
    all_at_once(st, enter_fence, "fence");
    report(st, &(struct figure){"fence, at once", sum, sum, n - 1, "sum of 1 + height(r); N-1"});
    by_depth(st, enter_fence, "fence");
    report(st, &(struct figure){"fence, leveled", n - 1, n - 1, n - 1, "N-1; N-1; N-1"});
}

static void figure_heal(struct state *st, uint32_t rank)
{
    sim_t *s = st->s;
    uint32_t n = s->cfg.size;
    uint32_t d = topology_depth(s->topo, rank);
    uint32_t c = topology_nchildren(s->topo, rank);
    char name[40];

    sim_run_for(s, SIM_S);
    st->last = s->tally;
    node_kill(&s->nodes[rank]);
    sim_run_for(s, 20 * SIM_S);
    snprintf(name, sizeof(name), "heal (rank %u)", rank);
    report(st, &(struct figure){name, d - 1 + c * (d + 2), c * (c + 3), (n - 1) * (c + 1),
                                "d-1 + c(d+2); c(c+3); (N-1)(c+1)"});
}

static void figures_heal_first(struct state *st, uint64_t sum)
{
    (void)sum;
    figure_heal(st, 1);
}

/* The last one with children. */
static void figures_heal_last(struct state *st, uint64_t sum)
{
    uint32_t last = st->s->cfg.size - 1;

    (void)sum;
    while (last > 1 && topology_nchildren(st->s->topo, last) == 0)
        last--;
    figure_heal(st, last);
}

/* One session with these modules.  0, or -1 when a figure is exceeded or something failed. */
static int figures_session(uint32_t size, const char *topology, unsigned modules, double heal,
                           void (*run)(struct state *st, uint64_t sum))
{
    struct sim_config cfg = {.seed = 1,
                             .size = size,
                             .topology = topology,
                             .fixed = true,
                             .modules = modules,
                             .heal = heal};
    struct state st = {.s = sim_create(&cfg)};
    uint64_t sum = 0;
    uint32_t *h;

    if (!st.s)
        return -1;
    h = heights(st.s);
    for (uint32_t r = 1; r < size; r++)
        sum += 1 + h[r];
    st.clients = sim_alloc(st.s, size * sizeof(struct sim_ep *));
    if (sim_boot(st.s))
        run(&st, sum);
    if (st.s->failed) {
        printf("FAILED: %s\n", st.s->failure);
        st.rc = -1;
    }
    sim_destroy(st.s);
    return st.rc;
}

int figures_print(uint32_t size, const char *topology)
{
    errmsg_t err;
    topology_t *t = topology_create(topology, size, &err);
    int rc = 0;

    if (!t) {
        fprintf(stderr, "sim: %s\n", err.text);
        return -1;
    }
    printf("%u brokers, %s, depth %u\n", size, topology, topology_max_depth(t));
    topology_destroy(t);
    printf("  %-16s %9s %9s %9s   %9s %9s %9s  %s\n", "messages for", "up", "down", "event",
           "at most", "", "", "formula (up; down; event)");
    if (figures_session(size, topology, SIM_MOD_BARRIER, 0., figures_base) < 0)
        rc = -1;
    if (figures_session(size, topology, SIM_MOD_KVS, 0., figures_kvs) < 0)
        rc = -1;
    if (size > 1 && (figures_session(size, topology, 0, 5., figures_heal_first) < 0 ||
                     figures_session(size, topology, 0, 5., figures_heal_last) < 0))
        rc = -1;
    return rc;
}
