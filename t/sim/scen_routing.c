/* scen_routing.c - requests from anywhere to anywhere.
 *
 * Clients at random ranks send requests at random moments: to a rank (along the tree or the ring),
 * to any rank, upstream.  The service "echo" is at all targets, "spot" at some ranks only, so that
 * the nearest one has to be found.
 *
 * Without faults every answer comes from the right rank with the payload that was sent, and
 * requests of one client to one rank are answered in their order where the service does so.  With
 * deaths, pauses, slow and lost links, every request of a living client is answered: so, or with
 * EHOSTUNREACH; EAGAIN is allowed where queues are bounded.  Silence never is.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "sim.h"

#define TARGETS_MAX 64
#define CLIENTS_MAX 24
#define REQUESTS 12

struct routing {
    sim_t *s;
    uint32_t targets[TARGETS_MAX];
    unsigned ntargets;
    bool *spot; /* by rank */
    bool faults;
    unsigned left; /* requests to be sent */
    uint32_t number;
    /* order of answers to requests of one client to one target */
    uint32_t last[CLIENTS_MAX][TARGETS_MAX];
};

struct ask {
    struct routing *r;
    struct sim_ep *client;
    unsigned c; /* number of the client */
    int target; /* index, -1: any rank */
    bool later, upstream, ring;
    uint32_t want; /* rank that must answer, TOPOLOGY_NONE: nobody can */
    uint32_t number;
};

/* The nearest instance of "spot" from `rank` upwards. */
static uint32_t nearest(struct routing *r, uint32_t rank, bool upstream)
{
    if (upstream)
        rank = topology_parent(r->s->topo, rank);
    while (rank != TOPOLOGY_NONE && !r->spot[rank])
        rank = topology_parent(r->s->topo, rank);
    return rank;
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct ask *a = arg;
    struct routing *r = a->r;
    sim_t *s = r->s;
    int errnum = flux_future_errnum(f);
    const void *data;
    size_t len;
    uint32_t from = a->client->broker->rank;

    if (errnum == EHOSTUNREACH && r->faults)
        goto done;
    if (errnum == EAGAIN && s->queue_max > 0)
        goto done;
    if (errnum == ENOSYS && a->want == TOPOLOGY_NONE)
        goto done;
    if (errnum) {
        sim_fail(s, "rank %u: request %u for rank %u was answered with %s: %s", from, a->number,
                 a->want, strerror(errnum), flux_future_error(f));
        goto done;
    }
    if (flux_msg_nodeid(flux_rpc_get_msg(f)) != a->want)
        sim_fail(s, "rank %u: rank %u answered a request for rank %u", from,
                 flux_msg_nodeid(flux_rpc_get_msg(f)), a->want);
    else if (flux_rpc_get_raw(f, &data, &len, NULL) < 0 || len != sizeof(a->number) ||
             memcmp(data, &a->number, len) != 0)
        sim_fail(s, "rank %u: the answer of rank %u is not what was sent", from, a->want);
    else if (a->target >= 0 && !a->later && !a->ring && !r->faults) {
        uint32_t *last = &r->last[a->c][a->target];
        if (*last > a->number)
            sim_fail(s, "rank %u: the answer of rank %u to request %u came after that to %u", from,
                     a->want, a->number, *last);
        *last = a->number;
    }
done:
    flux_future_destroy(f);
}

static void ask(void *arg, void *data)
{
    struct ask *a = arg;
    struct routing *r = a->r;
    bool any = a->target < 0;
    const char *topic =
        any ? (a->later ? "spot.later" : "spot.now") : (a->later ? "echo.later" : "echo.now");
    uint32_t rank = a->client->broker->rank;
    flux_future_t *f;

    r->left--;
    if (a->client->gone)
        return;
    a->number = ++r->number;
    a->want = any ? nearest(r, rank, a->upstream) : r->targets[a->target];
    f = flux_rpc_raw(a->client->h, topic, &a->number, sizeof(a->number),
                     any ? FLUX_NODEID_ANY : a->want,
                     (a->upstream ? FLUX_MSGF_UPSTREAM : 0) | (a->ring ? FLUX_MSGF_RING : 0));
    if (!f || flux_future_then(f, -1., answer_cb, a) < 0)
        sim_fail(r->s, "out of memory");
}

static bool all_asked(sim_t *s, void *arg)
{
    struct routing *r = arg;

    return r->left == 0;
}

static void routing_run(sim_t *s)
{
    struct routing *r = sim_alloc(s, sizeof(*r));
    struct rng *g = &s->rng;
    unsigned nclients = rng_range(g, 1, CLIENTS_MAX);

    if (!sim_boot(s))
        return;
    r->s = s;
    r->faults = rng_chance(g, 0.6);
    r->spot = sim_alloc(s, s->cfg.size * sizeof(bool));
    for (r->ntargets = 0; r->ntargets < TARGETS_MAX && r->ntargets < s->cfg.size; r->ntargets++) {
        uint32_t rank = s->cfg.size <= TARGETS_MAX ? r->ntargets : rng_below(g, s->cfg.size);
        bool dup = false;
        for (unsigned i = 0; i < r->ntargets; i++)
            dup = dup || r->targets[i] == rank;
        if (!dup)
            sim_module_add(s, rank, &flux_module_echo, NULL);
        r->targets[r->ntargets] = rank;
        if (!r->spot[rank] && rng_chance(g, rank == 0 ? 0.7 : 0.3)) {
            r->spot[rank] = true;
            sim_module_add(s, rank, &flux_module_spot, NULL);
        }
    }
    if (r->faults)
        sim_faults(s, FAULT_ALL, rng_range(g, 1, 8), 100 * SIM_MS);
    for (unsigned c = 0; c < nclients; c++) {
        struct sim_ep *client = sim_client_add(s, rng_below(g, s->cfg.size), "asker");
        for (unsigned i = 0; client && i < REQUESTS; i++) {
            struct ask *a = sim_alloc(s, sizeof(*a));
            unsigned kind = rng_below(g, 4);
            a->r = r;
            a->client = client;
            a->c = c;
            a->target = kind < 2 ? -1 : (int)rng_below(g, r->ntargets);
            a->upstream = kind == 1;
            a->ring = kind == 2;
            a->later = rng_chance(g, 0.3);
            r->left++;
            sim_at(s, sim_now(s) + rng_below(g, 100) * SIM_MS, ask, a, NULL);
        }
    }
    if (!sim_run_until(s, all_asked, r, SIM_S))
        sim_fail(s, "not every request was sent");
    /* Links may take their time, more so when they are slow for a while; nobody may wait for a
     * broker to give up, though. */
    sim_run_for(s, 5 * SIM_S + sim_max_delay(s) * 2 * s->cfg.size);
    sim_check_quiet(s);
}

const struct scenario scenario_routing = {
    "routing", "each request has exactly one answer, from the right rank", routing_run, NULL};
