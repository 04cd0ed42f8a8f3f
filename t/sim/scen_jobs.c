/* scen_jobs.c - jobs: the modules job, sched and resrc as they are, emulated tasks (exec.c),
 * emulated nodes (probe.c), and clients that do all that can be done to jobs (jobs_client.c).
 *
 * By its seed a run has a scheduling policy, a session with or without a statedir, faults of
 * brokers and links or not, brokers that others do not hear for seconds (absent.c) or not, modules
 * that are loaded again or not, a store that fails for the job module or not.  At the end every job
 * that was accepted has come to its end, and the record proves that it was treated as it should be
 * (jobs_proof.c).
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"

/* Where brokers are absent for seconds, a run takes longer by the one factor, and clients pause
 * longer between their requests by the other. */
#define LONGER 30
#define SLOWER 20

/* --- modules that are loaded again --- */

static void load_again(void *arg, void *data)
{
    struct jobs *j = arg;

    /* The other one has to be gone. */
    if (j->s->nodes[0].owner.paused)
        sim_at(j->s, sim_now(j->s) + 5 * SIM_MS, load_again, j, data);
    else
        sim_module_load(j->s, 0, data);
}

static void unload(void *arg, void *data)
{
    static const char *const names[] = {"job", "sched", "resrc", "wrexec"};
    struct jobs *j = arg;
    sim_t *s = j->s;
    const char *name = names[rng_below(&s->rng, 4)];
    struct sim_ep *e = sim_module_find(s, 0, name);
    errmsg_t err;

    if (!e || s->failed)
        return;
    /* Some insist; while the store fails that is known to lose what was not on record. */
    if (s->nodes[0].owner.paused ||
        (e->module->may_stop && (s->store_fails > 0. || !rng_chance(&s->rng, 0.1)) &&
         e->module->may_stop(e->h, e->module_ctx, &err) < 0)) {
        sim_at(s, sim_now(s) + 3 * SIM_MS, unload, j, NULL);
        return;
    }
    if (s->cfg.trace)
        printf("%14.6f  %s is loaded again\n", 1e-9 * (double)sim_now(s), name);
    s->faults++;
    if (rng_chance(&s->rng, 0.5)) {
        sim_module_stop(e, true);
        return;
    }
    sim_module_stop(e, false);
    sim_at(s, sim_now(s) + rng_range(&s->rng, 1, 100) * SIM_MS, load_again, j, (void *)name);
}

/* --- a store that fails --- */

static void store_good(void *arg, void *data)
{
    struct jobs *j = arg;

    j->s->store_fails = 0.;
}

static void store_bad(void *arg, void *data)
{
    struct jobs *j = arg;
    sim_t *s = j->s;

    s->store_fails = rng_chance(&s->rng, 0.3) ? 1. : 0.3;
    sim_at(s, sim_now(s) + rng_range(&s->rng, 10, 1500) * SIM_MS, store_good, j, NULL);
}

/* --- the run --- */

static void jobs_run(sim_t *s)
{
    struct jobs *j = sim_alloc(s, sizeof(*j));
    unsigned clients = rng_range(&s->rng, 2, JOBS_CLIENTS_MAX);
    unsigned actions = rng_range(&s->rng, 4, 16);
    bool absences = s->cfg.live != NULL;
    int64_t time = actions * (absences ? LONGER : 1) * 40 * SIM_MS;

    if (!sim_boot(s))
        return;
    j->s = s;
    j->slower = 1;
    j->nodes = sim_alloc(s, s->cfg.size * sizeof(*j->nodes));
    j->faults = rng_chance(&s->rng, 0.5) || absences;
    j->reloads = rng_chance(&s->rng, 0.3);
    j->bad_store = rng_chance(&s->rng, 0.2);
    j->longest = rng_range(&s->rng, 6, 12);
    if (absences) {
        j->slower = SLOWER;
        j->longest += 3;
    }
    j->batch = rng_range(&s->rng, 2, JOBS_BATCH_MAX);
    if (!(j->recs = hmap_create_u64(NULL)) || !(j->ended = idset_create()) ||
        !(j->killed = idset_create()) || !(j->purged = idset_create()) ||
        !(j->control = sim_client_add(s, 0, "control")))
        sim_fail(s, "out of memory");
    jobs_clients_add(j, clients, actions);
    if (j->faults)
        sim_faults(s, FAULT_ALL, rng_range(&s->rng, 1, 8), time);
    if (j->faults && rng_chance(&s->rng, 0.5))
        sim_returns(s, 60 * SIM_S);
    if (absences)
        sim_absences(s, rng_range(&s->rng, 1, 6), time);
    for (unsigned i = j->reloads ? rng_range(&s->rng, 1, 3) : 0; i > 0; i--)
        sim_at(s, sim_now(s) + (int64_t)(rng_real(&s->rng) * (double)time), unload, j, NULL);
    for (unsigned i = j->bad_store ? rng_range(&s->rng, 1, 3) : 0; i > 0; i--)
        sim_at(s, sim_now(s) + (int64_t)(rng_real(&s->rng) * (double)time), store_bad, j, NULL);
    if (!sim_run_until(s, jobs_clients_done, j, (absences ? 400 : 120) * SIM_S))
        sim_fail(s, "clients are not at their end");
    /* Brokers without a parent go after half a minute. */
    sim_run_for(s, (j->faults ? 60 : 2) * SIM_S);
    if (!s->failed && absences)
        sim_all_back(s);
    if (!s->failed)
        jobs_finish(j);
    sim_run_for(s, SIM_S + sim_max_delay(s) * 8);
    if (!s->failed)
        jobs_prove(j);
    if (!s->failed)
        jobs_streams_check(j);
    sim_check_quiet(s);
    jobs_streams_free(j);
    hmap_destroy(j->recs);
    idset_destroy(j->ended);
    idset_destroy(j->killed);
    idset_destroy(j->purged);
}

static void jobs_tune(struct sim_config *cfg, struct rng *rng)
{
    static const char *const durable[] = {"statedir", "/", NULL};
    static const char *const queues[] = {"queue-policy=fcfs", "queue-policy=easy",
                                         "queue-policy=conservative"};
    static const char *const nodes[] = {"node-policy=first-fit", "node-policy=best-fit",
                                        "node-policy=spread"};

    cfg->modules |= SIM_MOD_KVS | SIM_MOD_JOB;
    cfg->attrs = rng_chance(rng, 0.5) ? durable : NULL;
    cfg->sched_args[0] = queues[rng_below(rng, 3)];
    cfg->sched_args[1] = nodes[rng_below(rng, 3)];
    if (rng_chance(rng, 0.3))
        sim_tune_absences(cfg, rng);
}

const struct scenario scenario_jobs = {
    "jobs", "jobs of all fates: each has one end, and no core two jobs", jobs_run, jobs_tune};
