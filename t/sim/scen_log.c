/* scen_log.c - log lines on their way to the root.
 *
 * Clients at random ranks log at random levels; without faults the root has all that are warnings
 * or more important, once, each client's in order, and nobody else's debugging.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define LINES 120

struct lines {
    sim_t *s;
    struct sim_ep *clients[16];
    unsigned nclients;
    unsigned n;         /* appended */
    unsigned important; /* of these, for the root */
    unsigned left;
    bool answered;
};

struct found {
    json_t *entries;
    uint64_t dropped, from, to;
};
static const struct flux_field found_fields[] = {
    FLUX_FIELD_ARRAY(struct found, entries, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct found, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct found, from, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct found, to, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema found_schema = FLUX_SCHEMA(struct found, found_fields);

static void append(void *arg, void *data)
{
    struct lines *l = arg;
    unsigned c = rng_below(&l->s->rng, l->nclients);
    struct sim_ep *e = l->clients[c];
    int level = (int)rng_below(&l->s->rng, 8);

    l->left--;
    /* What the root's own clients say stays there at any level. */
    l->important += level <= LOG_WARNING || e->broker->rank == 0;
    flux_log(e->h, level, "line %u of %u", l->n++, c);
}

static void dump_cb(flux_future_t *f, void *arg)
{
    struct lines *l = arg;
    sim_t *s = l->s;
    struct found found;
    errmsg_t err;
    json_t *item;
    size_t i;
    hmap_t *last = hmap_create_u64(NULL);

    l->answered = true;
    if (!last || flux_rpc_get_struct(f, &found_schema, &found, &err) < 0)
        sim_fail(s, "log.dump failed: %s", err.text);
    else if (found.from <= found.to)
        sim_fail(s, "log.dump of a small log has more than a page");
    else if (found.dropped != 0 || json_array_size(found.entries) != l->important)
        sim_fail(s, "the root has %zu lines and lost %llu, of %u", json_array_size(found.entries),
                 (unsigned long long)found.dropped, l->important);
    else {
        json_array_foreach(found.entries, i, item)
        {
            unsigned n = 0;
            unsigned c = 0;
            sscanf(json_string_value(json_object_get(item, "text")), "line %u of %u", &n, &c);
            if ((uintptr_t)hmap_get_u64(last, c) > n)
                sim_fail(s, "line %u of client %u is out of order", n, c);
            hmap_put_u64(last, c, (void *)(uintptr_t)(n + 1));
        }
    }
    hmap_destroy(last);
    flux_future_destroy(f);
}

static bool all_appended(sim_t *s, void *arg)
{
    return ((struct lines *)arg)->left == 0;
}

static void log_run(sim_t *s)
{
    struct lines *l = sim_alloc(s, sizeof(*l));
    flux_future_t *f;

    if (!sim_boot(s))
        return;
    l->s = s;
    for (l->nclients = 0; l->nclients < 16; l->nclients++) {
        uint32_t rank =
            s->cfg.size <= 16 ? l->nclients % s->cfg.size : rng_below(&s->rng, s->cfg.size);
        if (!(l->clients[l->nclients] = sim_client_add(s, rank, "logger")))
            break;
    }
    /* Bring-up may have logged, too: begin at nothing. */
    flux_future_destroy(flux_rpc(l->clients[0]->h, "log.clear", NULL, 0, FLUX_MSGF_NORESPONSE));
    sim_run_for(s, SIM_S);
    for (; l->left < LINES && !s->failed; l->left++)
        sim_at(s, sim_now(s) + rng_below(&s->rng, 50) * SIM_MS, append, l, NULL);
    sim_run_until(s, all_appended, l, SIM_S);
    /* With queues of a few messages lines may be refused on the way, and counted: not looked at. */
    sim_run_for(s, 2 * SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
    if (s->queue_max == 0) {
        f = flux_rpc(l->clients[0]->h, "log.dump", NULL, 0, 0);
        if (!f || flux_future_then(f, -1., dump_cb, l) < 0)
            sim_fail(s, "out of memory");
        sim_run_for(s, 2 * SIM_S + sim_max_delay(s) * 4 * s->cfg.size);
        if (!l->answered)
            sim_fail(s, "log.dump was not answered");
    }
    sim_check_quiet(s);
}

static void log_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules |= SIM_MOD_LOG;
}

const struct scenario scenario_log = {
    "log", "the root gets every line that matters, once and in order", log_run, log_tune};
