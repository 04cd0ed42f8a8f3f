/* sim.c - a whole session on one clock: creation, running, and the questions asked of it.
 *
 * What a seed decides, in this order: the shape of the tree, the delays, the bounds of the queues,
 * the moment at which each broker starts; then everything that the scenario draws.  The speeds of
 * the clocks are a stream of random numbers of their own: for half of the seeds the clocks of all
 * brokers but rank 0 run slower or faster than that, by which the simulation measures time.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define SLOWEST 0.97 /* rates of clocks */
#define FASTEST 1.03

int64_t sim_now(const sim_t *s)
{
    return vclock_now(s->clock);
}

void sim_trace_add(sim_t *s, uint64_t what, uint64_t value)
{
    uint64_t z = s->trace ^ (uint64_t)sim_now(s);

    z = (z ^ what) * UINT64_C(0xbf58476d1ce4e5b9);
    z ^= z >> 29;
    z = (z ^ value) * UINT64_C(0x94d049bb133111eb);
    s->trace = z ^ z >> 32;
}

struct sim_block {
    struct sim_block *next;
    max_align_t data[];
};

void *sim_alloc(sim_t *s, size_t size)
{
    struct sim_block *b = calloc(1, sizeof(*b) + size);

    if (!b) {
        fputs("sim: out of memory\n", stderr);
        exit(1);
    }
    b->next = s->blocks;
    s->blocks = b;
    return b->data;
}

void sim_fail(sim_t *s, const char *fmt, ...)
{
    va_list ap;

    if (s->failed)
        return;
    s->failed = true;
    int n = snprintf(s->failure, sizeof(s->failure), "at %.6f s: ", 1e-9 * (double)sim_now(s));
    va_start(ap, fmt);
    vsnprintf(s->failure + n, sizeof(s->failure) - (size_t)n, fmt, ap);
    va_end(ap);
}

int64_t sim_draw(sim_t *s, const struct sim_delay *d)
{
    int64_t t = d->base;

    if (d->jitter > 0)
        t += (int64_t)rng_below(&s->rng, (uint32_t)d->jitter);
    if (d->spike_chance > 0. && rng_chance(&s->rng, d->spike_chance))
        t += d->spike;
    return t;
}

int64_t sim_max_delay(const sim_t *s)
{
    return s->link_delay.base + s->link_delay.jitter + s->link_delay.spike;
}

/* Delays and bounds for this seed. */
static void draw_conditions(sim_t *s)
{
    static const char *const shapes[] = {"kary:16", "kary:2", "kary:4", "flat", "kary:3", "chain"};
    struct rng *r = &s->rng;

    if (!s->cfg.topology)
        /* A long chain takes long and shows nothing that a short one does not. */
        s->cfg.topology = shapes[rng_below(r, s->cfg.size > 64 ? 3 : 6)];
    s->link_delay.base = 100 * SIM_US;
    s->local_delay.base = 10 * SIM_US;
    if (s->cfg.fixed)
        return;
    s->link_delay.base = rng_range(r, 5, 200) * SIM_US;
    s->link_delay.jitter = rng_range(r, 1, 1000) * SIM_US;
    if (rng_chance(r, 0.3)) {
        s->link_delay.spike_chance = 0.02;
        s->link_delay.spike = rng_range(r, 1, 100) * SIM_MS;
    }
    s->local_delay.base = rng_range(r, 1, 20) * SIM_US;
    s->local_delay.jitter = rng_range(r, 1, 100) * SIM_US;
    if (rng_chance(r, 0.3))
        s->queue_max = rng_range(r, 2, 64);
}

static void draw_clocks(sim_t *s)
{
    struct rng r;

    rng_seed(&r, s->cfg.seed * UINT64_C(0x9e3779b97f4a7c15) + s->cfg.size);
    if (s->cfg.fixed || s->cfg.even || rng_chance(&r, 0.5))
        return;
    for (uint32_t i = 1; i < s->cfg.size; i++)
        s->nodes[i].rate = SLOWEST + (FASTEST - SLOWEST) * rng_real(&r);
}

sim_t *sim_create(const struct sim_config *cfg)
{
    sim_t *s = calloc(1, sizeof(*s));
    errmsg_t err = {"out of memory"};

    if (!s)
        return NULL;
    s->cfg = *cfg;
    rng_seed(&s->rng, cfg->seed ^ (uint64_t)cfg->size << 40);
    draw_conditions(s);
    s->event_loss = cfg->event_loss;
    s->broken = cfg->broken;
    if (!(s->topo = topology_create(s->cfg.topology, cfg->size, &err)) ||
        !(s->clock = vclock_create()) || !(s->events = hmap_create_u64(NULL)) ||
        !(s->nodes = calloc(cfg->size, sizeof(*s->nodes)))) {
        fprintf(stderr, "sim: cannot make a session of %u brokers: %s\n", cfg->size, err.text);
        sim_destroy(s);
        return NULL;
    }
    for (uint32_t i = 0; i < cfg->size; i++) {
        struct node *n = &s->nodes[i];
        n->sim = s;
        n->rank = i;
        n->run_at = -1;
        n->exit_code = -1;
        n->rate = 1.;
        n->still_since = n->still_until = INT64_MAX;
        vowner_init(&n->owner);
        list_init(&n->eps);
        n->start_at = cfg->fixed ? 0 : rng_below(&s->rng, 50) * SIM_MS;
    }
    draw_clocks(s);
    net_init(s);
    return s;
}

static void discard(vevent_f cb, void *arg, void *data)
{
    net_discard(cb, data);
    node_discard(cb, data);
}

void sim_destroy(sim_t *s)
{
    if (s) {
        for (uint32_t i = 0; s->nodes && i < s->cfg.size; i++) {
            vowner_continue(s->clock, &s->nodes[i].owner);
            node_free(&s->nodes[i]);
        }
        vclock_destroy(s->clock, discard);
        hmap_destroy(s->events);
        json_decref(s->planted);
        topology_destroy(s->topo);
        while (s->blocks) {
            struct sim_block *b = s->blocks;
            s->blocks = b->next;
            free(b);
        }
        free(s->nodes);
        free(s);
    }
}

bool sim_run_until(sim_t *s, sim_cond_f cond, void *arg, int64_t timeout)
{
    int64_t end = sim_now(s) + timeout;
    uint64_t first = vclock_steps(s->clock);
    uint64_t most = UINT64_C(50000000) * (1 + s->cfg.size / 4096);

    while (!s->failed) {
        if (cond && cond(s, arg))
            return true;
        if (!vclock_step(s->clock, end))
            return !cond || cond(s, arg);
        if (vclock_steps(s->clock) - first > most) {
            sim_fail(s, "no end: %" PRIu64 " steps and still more messages", most);
            break;
        }
    }
    return false;
}

void sim_run_for(sim_t *s, int64_t time)
{
    sim_run_until(s, NULL, NULL, time);
}

void sim_at(sim_t *s, int64_t at, vevent_f cb, void *arg, void *data)
{
    if (!vclock_add(s->clock, NULL, at, false, cb, arg, data))
        sim_fail(s, "out of memory");
}

bool sim_alive(const sim_t *s, uint32_t rank)
{
    return s->nodes[rank].state == NODE_ON;
}

struct node *sim_parent(const struct node *n)
{
    return n->way ? n->way->up.to : NULL;
}

bool sim_connected(const sim_t *s, uint32_t rank)
{
    const struct node *n = &s->nodes[rank];

    while (n->state == NODE_ON) {
        if (!n->way)
            return true;
        if (n->way->up.cut || n->way->down.cut)
            return false;
        n = n->way->up.to;
    }
    return false;
}

static void start(void *arg, void *data)
{
    node_start(arg);
}

void sim_start(sim_t *s)
{
    for (uint32_t i = 0; i < s->cfg.size; i++)
        vclock_add(s->clock, &s->nodes[i].owner, s->nodes[i].start_at, false, start, &s->nodes[i],
                   NULL);
}

static bool all_run(sim_t *s, void *arg)
{
    uint32_t *next = arg;

    /* Checked repeatedly: begin where it was not so the last time. */
    while (*next < s->cfg.size && s->nodes[*next].run_at >= 0)
        ++*next;
    return *next == s->cfg.size;
}

bool sim_boot(sim_t *s)
{
    uint32_t next = 0;

    sim_start(s);
    if (!sim_run_until(s, all_run, &next, 60 * SIM_S))
        sim_fail(s, "rank %u has not come to run", next);
    return !s->failed;
}

void sim_renew(sim_t *s)
{
    s->sessions++;
    hmap_destroy(s->events);
    if (!(s->events = hmap_create_u64(NULL)))
        sim_fail(s, "out of memory");
    for (uint32_t i = 0; i < s->cfg.size && !s->failed; i++) {
        struct node *n = &s->nodes[i];

        if (n->state == NODE_ON)
            sim_fail(s, "rank %u still runs", i);
        flux_reactor_destroy(n->reactor);
        n->reactor = NULL;
        n->state = NODE_OFF;
        n->last_state = CORE_JOIN;
        n->leaves = false;
        n->run_at = -1;
        n->exit_code = -1;
        n->way = NULL;
        n->start_at = sim_now(s) + rng_below(&s->rng, 50) * SIM_MS;
    }
    net_init(s);
}

void sim_describe(const flux_msg_t *msg, char *buf, size_t size)
{
    static const char *const types[] = {[FLUX_MSG_REQUEST] = "request",
                                        [FLUX_MSG_RESPONSE] = "response",
                                        [FLUX_MSG_EVENT] = "event",
                                        [FLUX_MSG_CONTROL] = "control"};
    char node[16] = "any";
    size_t payload;

    flux_msg_payload(msg, &payload);
    if (flux_msg_nodeid(msg) != FLUX_NODEID_ANY)
        snprintf(node, sizeof(node), "%u", flux_msg_nodeid(msg));
    snprintf(buf, size, "%s %s node=%s tag=%u errnum=%d term=%u seq=%llu hops=%zu payload=%zu",
             types[flux_msg_type(msg)], flux_msg_topic(msg), node, flux_msg_matchtag(msg),
             flux_msg_errnum(msg), flux_msg_term(msg), (unsigned long long)flux_msg_seq(msg),
             flux_msg_route_count(msg), payload);
}
