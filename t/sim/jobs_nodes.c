/* jobs_nodes.c - nodes are drained and undrained in the scenario `jobs`.
 *
 * From the answer to resrc.drain until somebody asks for the contrary a node is given no more work,
 * but for what had been decided before: that is a few milliseconds of virtual time, or longer when
 * the root is paused meanwhile or stands still, or a module is loaded again.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"
#include "jobs.h"
#include "libresource/resrc_wire.h"

#define DECIDED 0.005 /* seconds */
#define PAUSED 0.5

struct change {
    struct jobs_client *c;
    uint32_t first, last;
    double asked;
};

static double now(const struct jobs *j)
{
    return engine_seconds(sim_now(j->s));
}

static void close_window(struct jobs *j, uint32_t rank)
{
    struct jobs_node *n = &j->nodes[rank];
    struct jobs_window *w;

    if (n->drained <= 0)
        return;
    w = sim_alloc(j->s, sizeof(*w));
    *w = (struct jobs_window){j->windows, rank, n->drained, now(j)};
    j->windows = w;
    n->drained = 0;
}

/* A node that is lost before it says what it has, or says so again, is none. */
static int refusal(const struct jobs *j, flux_future_t *f, int usual)
{
    return flux_future_errnum(f) == ENOENT && j->faults ? ENOENT : usual;
}

static void drained_cb(flux_future_t *f, void *arg)
{
    struct change *ch = arg;
    struct jobs *j = ch->c->jobs;

    for (uint32_t r = ch->first; r <= ch->last && flux_future_errnum(f) == 0; r++) {
        struct jobs_node *n = &j->nodes[r];
        /* The contrary may have been done since, and answered before. */
        if (n->unsure == 0 && n->drained <= 0 && n->undrained < ch->asked)
            n->drained = now(j);
    }
    jobs_client_done(ch->c, f, refusal(j, f, EEXIST));
}

static void undrained_cb(flux_future_t *f, void *arg)
{
    struct change *ch = arg;

    for (uint32_t r = ch->first; r <= ch->last; r++) {
        struct jobs_node *n = &ch->c->jobs->nodes[r];
        n->unsure--;
        n->undrained = now(ch->c->jobs);
    }
    jobs_client_done(ch->c, f, ENOENT);
}

void jobs_nodes_act(struct jobs_client *c)
{
    struct jobs *j = c->jobs;
    struct rng *r = &j->s->rng;
    struct change *ch = sim_alloc(j->s, sizeof(*ch));
    bool drain = rng_chance(r, 0.5);
    char ranks[32];
    struct resrc_drain m = {.ranks = ranks, .force = rng_chance(r, 0.2)};
    struct resrc_ranks u = {ranks};

    ch->c = c;
    ch->asked = now(j);
    ch->first = rng_below(r, j->s->cfg.size);
    ch->last = ch->first + (rng_chance(r, 0.5) ? rng_below(r, j->s->cfg.size) : 0);
    if (ch->last >= j->s->cfg.size)
        ch->last = j->s->cfg.size - 1;
    snprintf(ranks, sizeof(ranks), "%u-%u", ch->first, ch->last);
    /* Both are answered at rank 0. */
    if (drain) {
        jobs_client_ask(c, flux_rpc_struct(c->ep->h, "resrc.drain", &resrc_drain_schema, &m, 0, 0),
                        "resrc.drain", drained_cb, ch);
        return;
    }
    for (uint32_t rank = ch->first; rank <= ch->last; rank++) {
        close_window(j, rank);
        j->nodes[rank].unsure++;
    }
    jobs_client_ask(c, flux_rpc_struct(c->ep->h, "resrc.undrain", &resrc_ranks_schema, &u, 0, 0),
                    "resrc.undrain", undrained_cb, ch);
}

void jobs_nodes_over(struct jobs *j)
{
    for (uint32_t rank = 0; rank < j->s->cfg.size; rank++)
        close_window(j, rank);
}

/* Clocks may run faster than the time of the simulation. */
double jobs_root_stood(const struct jobs *j)
{
    return 1.05e-9 * (double)j->s->nodes[0].stood;
}

bool jobs_nodes_allowed(const struct jobs *j, uint32_t rank, double t)
{
    double late = DECIDED + (j->faults ? PAUSED : 0) + jobs_root_stood(j);

    for (const struct jobs_window *w = j->windows; w; w = w->next) {
        if (w->rank == rank && t > w->from + late && t < w->to)
            return false;
    }
    return true;
}
