/* module.c - modules of simulated brokers: loaded, unloaded, loaded in the place of another one.
 *
 * As in the broker's module host what a module sends while it ends still goes out; then requests
 * that it had not answered end with ENOSYS, or (reload) are delivered to its successor, with the
 * mail that nobody waits for an answer to.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

extern const struct flux_module flux_module_barrier, flux_module_log, flux_module_hb,
    flux_module_kvs, flux_module_attr, flux_module_resrc, flux_module_sched, flux_module_job,
    flux_module_wrexec, flux_module_stream, sim_module_launcher;

static const struct {
    unsigned mod;
    bool root; /* only there */
    const struct flux_module *module;
} modules[] = {
    {SIM_MOD_BARRIER | SIM_MOD_KVS | SIM_MOD_JOB | SIM_MOD_LAUNCH, false, &flux_module_attr},
    {SIM_MOD_BARRIER, false, &flux_module_barrier},
    {SIM_MOD_KVS, false, &flux_module_kvs},
    {SIM_MOD_LOG, false, &flux_module_log},
    {SIM_MOD_HB, true, &flux_module_hb},
    {SIM_MOD_JOB, false, &flux_module_resrc},
    {SIM_MOD_JOB, true, &flux_module_sched},
    {SIM_MOD_JOB, true, &sim_module_launcher},
    {SIM_MOD_LAUNCH, false, &flux_module_wrexec},
    {SIM_MOD_JOB, true, &flux_module_job},
    {SIM_MOD_STREAM, true, &flux_module_stream},
};
#define NMODULES (sizeof(modules) / sizeof(modules[0]))

static bool begin(struct sim_ep *e, const struct flux_module *m, const char *const *argv)
{
    errmsg_t err = {""};
    int argc = 0;

    while (argv && argv[argc])
        argc++;
    if (m->init(e->h, argc, (char **)argv, &e->module_ctx, &err) < 0) {
        sim_fail(e->broker->sim, "module %s at rank %u: %s", m->name, e->broker->rank, err.text);
        return false;
    }
    e->module = m;
    return true;
}

struct sim_ep *sim_module_add(sim_t *s, uint32_t rank, const struct flux_module *m,
                              const char *const *argv)
{
    struct node *n = &s->nodes[rank];
    struct sim_ep *e = node_ep_add(n, ENDPOINT_MODULE, m->name);

    if (!e || !begin(e, m, argv))
        return NULL;
    if (core_service_add(n->core, m->name, e->ep) < 0) {
        sim_fail(s, "module %s at rank %u: %s", m->name, rank, strerror(errno));
        return NULL;
    }
    return e;
}

static const char *const *arguments(const sim_t *s, const struct flux_module *m)
{
    return m == &flux_module_sched ? s->cfg.sched_args : NULL;
}

struct sim_ep *sim_module_load(sim_t *s, uint32_t rank, const char *name)
{
    for (size_t i = 0; i < NMODULES; i++) {
        const struct flux_module *m = modules[i].module;
        if (strcmp(m->name, name) == 0)
            return sim_module_add(s, rank, m, arguments(s, m));
    }
    return NULL;
}

void sim_modules_load(struct node *n)
{
    sim_t *s = n->sim;

    for (size_t i = 0; i < NMODULES; i++) {
        const struct flux_module *m = modules[i].module;
        if ((s->cfg.modules & modules[i].mod) && (n->rank == 0 || !modules[i].root))
            sim_module_add(s, n->rank, m, arguments(s, m));
    }
}

struct sim_ep *sim_module_find(sim_t *s, uint32_t rank, const char *name)
{
    LIST_FOREACH(it, &s->nodes[rank].eps)
    {
        struct sim_ep *e = list_entry(it, struct sim_ep, node);
        if (!e->gone && e->h && e->kind == ENDPOINT_MODULE && strcmp(e->name, name) == 0)
            return e;
    }
    return NULL;
}

/* --- the end of one --- */

static void stopped(void *arg, void *data)
{
    struct sim_ep *e = arg;
    bool reload = data != NULL;
    sim_t *s = e->broker->sim;
    struct sim_ep *next;

    if (e->gone || s->failed)
        return;
    e->gone = true;
    if (reload && (next = node_ep_add(e->broker, ENDPOINT_MODULE, e->name))) {
        next->succeeds = true;
        flux_aux_set(next->h, "module::reloaded", next, NULL);
        core_endpoint_replace(e->ep, next->ep, false);
        e->successor = next;
        begin(next, e->module, arguments(s, e->module));
    }
    core_endpoint_remove(e->ep, ENOSYS, "the module was unloaded");
    e->ep = NULL;
}

void sim_module_stop(struct sim_ep *e, bool reload)
{
    sim_t *s = e->broker->sim;
    int64_t at;

    e->module->fini(e->h, e->module_ctx);
    e->module_ctx = NULL;
    flux_close(e->h);
    e->h = NULL;
    at = sim_now(s) > e->last_in ? sim_now(s) : e->last_in;
    if (!vclock_add(s->clock, &e->broker->owner, at, false, stopped, e, reload ? e : NULL))
        sim_fail(s, "out of memory");
}
