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
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static uint32_t *heights(const topology_t *t)
{
    uint32_t n = topology_size(t);
    uint32_t *h = calloc(n, sizeof(*h));

    for (uint32_t r = n; h && r-- > 1;) {
        uint32_t p = topology_parent(t, r);
        if (h[r] + 1 > h[p])
            h[p] = h[r] + 1;
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

static void ask(struct state *st, uint32_t from, const char *topic, const char *json,
                uint32_t nodeid)
{
    flux_future_t *f = flux_rpc(st->clients[from]->h, topic, json, nodeid, 0);

    if (!f || flux_future_then(f, -1., answered_cb, st) < 0)
        sim_fail(st->s, "out of memory");
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
    flux_future_t *f = flux_event_publish(st->clients[from]->h, "test.figure", NULL);
    char name[40];

    if (!f || flux_future_then(f, -1., answered_cb, st) < 0)
        sim_fail(s, "out of memory");
    wait_for(st, 1, "event");
    snprintf(name, sizeof(name), "event (rank %u)", from);
    report(st, &(struct figure){name, d, d, n - 1, "depth; depth; N-1"});
}

static void enter_all(struct state *st)
{
    char json[80];

    snprintf(json, sizeof(json), "{\"name\":\"figure\",\"nprocs\":%u}", st->s->cfg.size);
    for (uint32_t r = 0; r < st->s->cfg.size; r++)
        ask(st, r, "barrier.enter", json, FLUX_NODEID_ANY);
    wait_for(st, st->s->cfg.size, "barrier");
}

/* Those of the same depth together, the deepest first. */
static void enter_by_depth(struct state *st)
{
    sim_t *s = st->s;
    uint32_t n = s->cfg.size;
    char json[80];

    snprintf(json, sizeof(json), "{\"name\":\"figure\",\"nprocs\":%u}", n);
    for (uint32_t level = topology_max_depth(s->topo) + 1; level-- > 0;) {
        for (uint32_t r = 0; r < n; r++) {
            if (topology_depth(s->topo, r) == level)
                ask(st, r, "barrier.enter", json, FLUX_NODEID_ANY);
        }
        /* The next in the moment in which the joins from below arrive. */
        sim_run_for(s, s->link_delay.base + 2 * s->local_delay.base);
    }
    wait_for(st, n, "barrier");
}

static void figures_run(struct state *st, const uint32_t *h)
{
    sim_t *s = st->s;
    uint32_t n = s->cfg.size;
    uint32_t far = n - 1;
    uint32_t dist = topology_distance(s->topo, far, n / 2);
    uint64_t sum = 0;

    for (uint32_t r = 1; r < n; r++)
        sum += 1 + h[r];
    if (!sim_boot(s))
        return;
    for (uint32_t r = 0; r < n; r++)
        st->clients[r] = sim_client_add(s, r, "client");
    sim_run_for(s, SIM_S);
    report(st, &(struct figure){"bring-up", 2 * (n - 1), n - 1, n - 1, "2(N-1); N-1; N-1"});
    figure_event(st, far);
    figure_event(st, 0);
    ask(st, far, "broker.stats", NULL, n / 2);
    wait_for(st, 1, "request");
    report(st, &(struct figure){"rank request", dist, dist, 0, "distance there and back"});
    enter_all(st);
    report(st, &(struct figure){"barrier, at once", sum, sum, 0, "sum of 1 + height(r)"});
    enter_by_depth(st);
    report(st, &(struct figure){"barrier, leveled", n - 1, n - 1, 0, "N-1; N-1"});
    core_shutdown(s->nodes[0].core, 0, "done");
    sim_run_for(s, 10 * SIM_S);
    report(st, &(struct figure){"shutdown", n - 1, n - 1, 0, "N-1; N-1"});
}

int figures_print(uint32_t size, const char *topology)
{
    struct sim_config cfg = {
        .seed = 1, .size = size, .topology = topology, .fixed = true, .modules = SIM_MOD_BARRIER};
    struct state st = {.s = sim_create(&cfg)};
    uint32_t *h;

    if (!st.s)
        return -1;
    h = heights(st.s->topo);
    if (!h || !(st.clients = calloc(size, sizeof(struct sim_ep *)))) {
        fputs("sim: out of memory\n", stderr);
        st.rc = -1;
    } else {
        printf("%u brokers, %s, depth %u\n", size, topology, topology_max_depth(st.s->topo));
        printf("  %-16s %9s %9s %9s   %9s %9s %9s  %s\n", "messages for", "up", "down", "event",
               "at most", "", "", "formula (up; down; event)");
        figures_run(&st, h);
        if (st.s->failed) {
            printf("FAILED: %s\n", st.s->failure);
            st.rc = -1;
        }
    }
    free(h);
    free(st.clients);
    sim_destroy(st.s);
    return st.rc;
}
