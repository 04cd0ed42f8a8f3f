/* probe.c - what flux-inventory would say of a simulated node (modules/resrc/resrc_probe.h).
 *
 * The module resrc runs as it is; only the program that it starts beside the broker is replaced:
 * after a few milliseconds of virtual time the node has as many cores as sim_node_cores() says.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "modules/resrc/resrc_probe.h"
#include "sim.h"

struct probe {
    flux_watcher_t *timer;
    probe_f cb;
    void *arg;
    uint32_t rank;
    unsigned cores;
};

unsigned sim_node_cores(const sim_t *s, uint32_t rank)
{
    uint64_t x = s->cfg.seed ^ UINT64_C(0x5bd1e995);

    /* Some clusters have nodes of one kind, others of four. */
    return s->cfg.alike || rng_splitmix(&x) & 1 ? 4 : 1 + (rank * 7 + (unsigned)(x >> 60)) % 4;
}

static void done_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    probe_t *p = arg;
    char text[160];
    int n = snprintf(text, sizeof(text),
                     "{\"nodes\":[{\"ranks\":\"%u\",\"hosts\":\"node%u\",\"cores\":\"0-%u\"}]}",
                     p->rank, p->rank, p->cores - 1);

    p->cb(p, text, (size_t)n, "", p->arg);
}

probe_t *resrc_probe_start(flux_t *h, const char *arg1, const char *arg2, probe_f cb, void *arg,
                           errmsg_t *err)
{
    struct sim_ep *e = flux_handle_impl(h);
    sim_t *s = e->broker->sim;
    probe_t *p = calloc(1, sizeof(*p));

    if (!p || !(p->timer = flux_timer_create(flux_get_reactor(h), done_cb, p))) {
        free(p);
        errmsg_fail(err, ENOMEM, "no memory to ask what a node has");
        return NULL;
    }
    p->cb = cb;
    p->arg = arg;
    p->rank = flux_rank(h);
    p->cores = sim_node_cores(s, p->rank);
    flux_timer_start(p->timer, 1e-6 * rng_range(&s->rng, 500, 10000), 0.);
    return p;
}

void resrc_probe_destroy(probe_t *p)
{
    if (p) {
        flux_watcher_destroy(p->timer);
        free(p);
    }
}
