/* quiet.c - at the end of a scenario: everybody was answered, and nothing is kept for nobody.
 *
 * First no living client or module may wait for a last answer, streams excepted: those end with
 * their clients.  So all clients go then, and when the notices of that have passed, each request
 * that a broker still counts as under way must be one that a living module waits for.
 *
 *  1. Every request that wants an answer has got its last one.
 *  2. No broker keeps a request of a client that has gone, of a module that was unloaded, or of a
 *     broker that has died.
 */
#include "config.h"

#include "libflux/route.h"
#include "sim.h"

/* For so long a broker waits for an answer of its own (src/broker/core_successor.c), and more. */
#define PATIENCE (15 * SIM_S)

struct quiet {
    sim_t *s;
    uint32_t rank;  /* whose requests are checked */
    hmap_t *waited; /* the requests that somebody waits for, by key_of() */
};

static uint64_t key_of(uint32_t origin, uint32_t tag)
{
    return (uint64_t)origin << 32 | tag;
}

static bool takes_part(const struct node *n)
{
    /* What those ask who have not joined yet is held until they have, or give up. */
    return n->state == NODE_ON && core_state(n->core) != CORE_JOIN;
}

/* A module may ask for something now and then, and an answer from beyond a break passes the
 * ring. */
static bool nobody_waits(sim_t *s, void *arg)
{
    (void)arg;
    for (uint32_t r = 0; r < s->cfg.size; r++) {
        LIST_FOREACH(it, &s->nodes[r].eps)
        {
            const struct sim_ep *e = list_entry(it, struct sim_ep, node);
            size_t pos = 0;
            void *val;

            while (takes_part(&s->nodes[r]) && !e->gone &&
                   hmap_next(e->waiting, &pos, NULL, NULL, &val))
                if (!flux_msg_has_flag(val, FLUX_MSGF_STREAMING))
                    return false;
        }
    }
    return true;
}

static void check_waiting(sim_t *s, const struct sim_ep *e)
{
    size_t pos = 0;
    void *val;

    while (!e->gone && hmap_next(e->waiting, &pos, NULL, NULL, &val)) {
        char line[256];

        if (flux_msg_has_flag(val, FLUX_MSGF_STREAMING))
            continue;
        sim_describe(val, line, sizeof(line));
        sim_fail(s, "rank %u: %s was never answered: %s", e->broker->rank, e->name, line);
    }
}

static void all_clients_go(sim_t *s)
{
    for (uint32_t r = 0; r < s->cfg.size; r++) {
        LIST_FOREACH(it, &s->nodes[r].eps)
        {
            struct sim_ep *e = list_entry(it, struct sim_ep, node);

            if (s->nodes[r].state == NODE_ON && e->kind == ENDPOINT_CLIENT)
                sim_client_remove(e);
        }
    }
}

/* A module that was reloaded gets what its predecessor has asked for. */
static void note_waited(struct quiet *q, const struct sim_ep *e)
{
    size_t pos = 0;
    uint64_t tag;

    while ((!e->gone || e->successor) && hmap_next(e->waiting, &pos, NULL, &tag, NULL)) {
        if (hmap_put_u64(q->waited, key_of(e->broker->rank, (uint32_t)tag), q) < 0)
            sim_fail(q->s, "out of memory");
    }
}

static void check_kept(const flux_msg_t *req, void *arg)
{
    struct quiet *q = arg;
    uint32_t origin =
        flux_msg_route_count(req) > 1 ? flux_route_value(flux_msg_route_at(req, 1)) : q->rank;
    char line[256];

    if (hmap_get_u64(q->waited, key_of(origin, flux_msg_matchtag(req))))
        return;
    sim_describe(req, line, sizeof(line));
    sim_fail(q->s, "rank %u keeps a request of rank %u that nobody waits for: %s", q->rank, origin,
             line);
}

void sim_check_quiet(sim_t *s)
{
    struct quiet q = {.s = s};

    sim_run_until(s, nobody_waits, NULL, sim_max_delay(s) * 4 * s->cfg.size);
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        if (!takes_part(&s->nodes[r]))
            continue;
        LIST_FOREACH(it, &s->nodes[r].eps)
        check_waiting(s, list_entry(it, struct sim_ep, node));
    }
    if (s->failed)
        return;
    all_clients_go(s);
    sim_run_for(s, PATIENCE + sim_max_delay(s) * 8 * (1 + topology_max_depth(s->topo)));
    if (!(q.waited = hmap_create_u64(NULL)))
        sim_fail(s, "out of memory");
    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        LIST_FOREACH(it, &s->nodes[r].eps)
        if (s->nodes[r].state == NODE_ON)
            note_waited(&q, list_entry(it, struct sim_ep, node));
    }
    for (q.rank = 0; q.rank < s->cfg.size && !s->failed; q.rank++) {
        if (takes_part(&s->nodes[q.rank]))
            core_each_pending(s->nodes[q.rank].core, check_kept, &q);
    }
    hmap_destroy(q.waited);
}
