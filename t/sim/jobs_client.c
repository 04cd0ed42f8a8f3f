/* jobs_client.c - clients of the scenario `jobs`: each does one thing after the other, at random.
 *
 * What they are told is checked here:
 *
 *  1. No id is told twice; the ids of one submission are consecutive; nothing is refused that could
 *     run.
 *  2. A request fails only with what the faults of this run can lead to.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "jobs.h"

static void act(void *arg, void *data);

bool jobs_excused(const struct jobs *j, int errnum)
{
    if (errnum == EAGAIN && j->s->queue_max > 0)
        return true;
    if (j->faults && (errnum == EHOSTUNREACH || errnum == ECONNABORTED))
        return true;
    if (j->bad_store && errnum == ENOSPC)
        return true;
    return j->reloads && (errnum == ENOSYS || errnum == ECONNABORTED);
}

void jobs_client_done(struct jobs_client *c, flux_future_t *f, int refusal)
{
    struct jobs *j = c->jobs;
    int errnum = flux_future_errnum(f);

    if (errnum && errnum != refusal && !jobs_excused(j, errnum))
        sim_fail(j->s, "rank %u: %s failed: %s: %s", c->ep->broker->rank, c->asks, strerror(errnum),
                 flux_future_error(f));
    flux_future_destroy(f);
    c->asks = NULL;
    sim_at(j->s, sim_now(j->s) + rng_below(&j->s->rng, 60) * j->slower * SIM_MS, act, c, c->ep);
}

void jobs_client_ask(struct jobs_client *c, flux_future_t *f, const char *what, flux_future_f cb,
                     void *arg)
{
    c->asks = what;
    if (f && flux_future_then(f, -1., cb, arg) == 0)
        return;
    sim_fail(c->jobs->s, "%s could not be asked for: %s", what, strerror(errno));
    flux_future_destroy(f);
}

static void acted_cb(flux_future_t *f, void *arg)
{
    jobs_client_done(arg, f, 0);
}

/* --- submissions --- */

struct batch {
    struct jobs_client *c;
    unsigned n;
    struct jobs_rec recs[JOBS_BATCH_MAX];
};

static double seconds_between(struct rng *r, uint32_t lo_ms, uint32_t hi_ms)
{
    return 1e-3 * rng_range(r, lo_ms, hi_ms);
}

static void draw_deps(struct jobs *j, struct jobs_rec *rec, struct jobspec_dep *deps)
{
    struct rng *r = &j->s->rng;
    unsigned n = j->nids > 0 && rng_chance(r, 0.3) ? rng_range(r, 1, 3) : 0;

    for (unsigned i = 0; i < n; i++) {
        /* The newest ones are those that have not ended. */
        uint32_t back = rng_below(r, j->nids < 20 ? (uint32_t)j->nids : 20);
        uint64_t id = j->ids[j->nids - 1 - back];
        bool twice = false;
        for (size_t k = 0; k < rec->ndeps; k++)
            twice |= deps[k].id == id;
        if (!twice)
            deps[rec->ndeps++] = (struct jobspec_dep){(enum job_dep_scheme)rng_below(r, 4), id};
    }
}

/* How many nodes have this many cores? */
static uint32_t nodes_with(const sim_t *s, unsigned cores)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < s->cfg.size; rank++)
        n += sim_node_cores(s, rank) >= cores;
    return n;
}

static uint32_t all_cores(const sim_t *s)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < s->cfg.size && n < 4; rank++)
        n += sim_node_cores(s, rank);
    return n;
}

static void draw_shape(struct jobs *j, struct jobspec_parts *p, struct jobs_rec *rec)
{
    struct rng *r = &j->s->rng;

    p->cores = 1;
    if (rng_chance(r, 0.5)) {
        p->nslots = rng_range(r, 1, 4);
        rec->impossible = p->nslots > all_cores(j->s);
    } else {
        p->cores = rng_range(r, 1, 4);
        p->nnodes = rng_range(r, 1, 4);
        p->nslots = 1;
        p->exclusive = rng_chance(r, 0.1);
        rec->impossible = nodes_with(j->s, p->cores) < p->nnodes;
    }
    if (rng_chance(r, 0.02)) {
        rec->impossible = true;
        p->cores = 100;
    }
}

/* Does it run again when it loses a node, or go on without it?  A client that starts a job itself
 * cannot start it again. */
static void draw_loss(struct rng *r, struct jobspec_parts *p, struct jobs_rec *rec)
{
    p->options.requeue = rec->requeue = rng_chance(r, 0.3);
    p->options.survive_node_loss = rec->survive = rng_chance(r, rec->requeue ? 0.02 : 0.3);
    if (rec->requeue && (rec->survive || (rec->flags & JOB_FLAG_CLIENT)))
        rec->impossible = true;
}

static void draw_end(struct rng *r, struct jobs_rec *rec)
{
    static const char ways[] = "dkflno";

    rec->how = rng_chance(r, 0.3) ? ways[rng_below(r, sizeof(ways) - 1)] : '-';
    if (rec->how == 'k' && rng_chance(r, 0.5))
        rec->how = '-';
    rec->code = rng_chance(r, 0.3) ? (int)rng_range(r, 1, 100) : 0;
}

/* A job, as it is going to be submitted. */
static void draw_job(struct jobs *j, struct jobs_rec *rec)
{
    struct rng *r = &j->s->rng;
    struct jobspec_dep deps[3];
    struct jobspec_parts p;
    char time[24], code[16], how[2] = "-";
    const char *argv[] = {"exec", time, code, how, NULL};
    uint32_t ms = 1u << rng_below(r, j->longest);
    errmsg_t err = {"out of memory"};
    json_t *spec;
    char *text;

    *rec = (struct jobs_rec){.result = -1, .urgency = JOB_URGENCY_DEFAULT, .grace = -1.};
    jobspec_parts_init(&p);
    draw_shape(j, &p, rec);
    draw_end(r, rec);
    draw_deps(j, rec, deps);
    if (rng_chance(r, 0.3))
        p.duration = rec->duration = seconds_between(r, 5 + ms / 8, 20 + ms * 2);
    if (rng_chance(r, 0.3))
        p.options.grace = rec->grace = seconds_between(r, 0, 1000);
    if (rng_chance(r, 0.05))
        p.begin = engine_seconds(sim_now(j->s)) + seconds_between(r, 0, 1000);
    if (rng_chance(r, 0.3))
        rec->urgency = (int)rng_below(r, JOB_URGENCY_MAX + 1);
    if (rng_chance(r, 0.05))
        rec->urgency = JOB_URGENCY_HOLD;
    if (rng_chance(r, 0.1))
        rec->flags = JOB_FLAG_CLIENT;
    draw_loss(r, &p, rec);
    snprintf(time, sizeof(time), "%u", rng_range(r, 100, ms * 1000));
    snprintf(code, sizeof(code), "%d", rec->code);
    how[0] = rec->how;
    p.argv = argv;
    p.deps = rec->ndeps ? deps : NULL;
    p.ndeps = rec->ndeps;
    if (!(spec = jobspec_build(&p, &err)) || !(text = jobspec_encode(spec, &rec->len))) {
        sim_fail(j->s, "a jobspec cannot be made: %s", err.text);
    } else {
        char *copy = sim_alloc(j->s, rec->len + 1);
        memcpy(copy, text, rec->len + 1);
        rec->spec = copy;
        free(text);
    }
    json_decref(spec);
}

static void accepted(struct jobs *j, struct jobs_rec *rec, uint64_t id)
{
    rec->id = id;
    if (hmap_get_u64(j->recs, id))
        sim_fail(j->s, "job id %" PRIu64 " was told twice", id);
    else if (hmap_put_u64(j->recs, id, rec) < 0)
        sim_fail(j->s, "out of memory");
    if (id > j->max_id)
        j->max_id = id;
    if (j->nids < JOBS_IDS_MAX)
        j->ids[j->nids++] = id;
}

static void submitted(struct batch *b, const struct job_submitted *s)
{
    struct jobs *j = b->c->jobs;
    uint64_t id = s->first, number = 0;
    size_t nerrors = 0;
    const char *text;
    int errnum;

    for (unsigned i = 0; i < b->n; i++) {
        if (job_error_at(s->errors, nerrors, &number, &errnum, &text) == 0 && number == i) {
            nerrors++;
            /* A dependency may be one that can never be met any more; nodes may have been lost
             * before they said what they have. */
            if (!b->recs[i].impossible && b->recs[i].ndeps == 0 && !j->faults)
                sim_fail(j->s, "a job was refused: %s", text);
        } else if (b->recs[i].impossible) {
            sim_fail(j->s, "a job that could not be run was accepted");
        } else {
            accepted(j, &b->recs[i], id++);
        }
    }
    if (s->count + nerrors != b->n)
        sim_fail(j->s, "of %u jobs %u were accepted and %zu refused", b->n, s->count, nerrors);
}

static void submitted_cb(flux_future_t *f, void *arg)
{
    struct batch *b = arg;
    struct job_submitted s;
    errmsg_t err;

    if (flux_job_submit_batch_get(f, &s, &err) == 0)
        submitted(b, &s);
    jobs_client_done(b->c, f, EBUSY);
}

static void do_submit(struct jobs_client *c)
{
    static const char *const env[] = {"HOME=/", "LANG=C", NULL};
    struct jobs *j = c->jobs;
    struct batch *b = sim_alloc(j->s, sizeof(*b));
    submit_writer_t *w = submit_writer_create();
    int e = w ? submit_writer_env(w, env) : -1;
    errmsg_t err = {"out of memory"};

    b->c = c;
    b->n = rng_chance(&j->s->rng, 0.5) ? 1 : rng_range(&j->s->rng, 2, j->batch);
    for (unsigned i = 0; i < b->n && !j->s->failed; i++) {
        struct jobs_rec *rec = &b->recs[i];
        draw_job(j, rec);
        if (j->s->failed ||
            submit_writer_job(w, e, rec->urgency, rec->flags, rec->spec, rec->len, &err) < 0)
            sim_fail(j->s, "a job cannot be submitted: %s", err.text);
    }
    if (!j->s->failed)
        jobs_client_ask(c, flux_job_submit_batch(c->ep->h, w), "job.submit", submitted_cb, b);
    submit_writer_destroy(w);
}

/* --- what is done to jobs --- */

/* Some ids, as an idset: mostly new ones. */
static const char *some_ids(struct jobs *j, char buf[static 64])
{
    struct rng *r = &j->s->rng;
    uint32_t back = rng_below(r, j->nids < 30 ? (uint32_t)j->nids : 30);
    uint64_t id = j->ids[j->nids - 1 - back];

    if (rng_chance(r, 0.7))
        snprintf(buf, 64, "%" PRIu64, id);
    else
        snprintf(buf, 64, "%" PRIu64 "-%" PRIu64, id, id + rng_below(r, 10));
    return buf;
}

/* Somebody asks for it: whatever the answer is, it may have been done, also to jobs that nobody was
 * told of yet. */
static void note(idset_t *done, const char *text)
{
    idset_t *ids = idset_parse(text, NULL);

    if (ids)
        idset_add(done, ids);
    idset_destroy(ids);
}

static void do_cancel(struct jobs_client *c)
{
    char ids[64];

    note(c->jobs->ended, some_ids(c->jobs, ids));
    jobs_client_ask(c, flux_job_cancel(c->ep->h, ids, "by a client"), "job.cancel", acted_cb, c);
}

static void do_raise(struct jobs_client *c)
{
    int severity = (int)rng_below(&c->jobs->s->rng, 3);
    char ids[64];

    some_ids(c->jobs, ids);
    if (severity == 0)
        note(c->jobs->ended, ids);
    jobs_client_ask(c, flux_job_raise(c->ep->h, ids, "thing", severity, ""), "job.raise", acted_cb,
                    c);
}

static void do_kill(struct jobs_client *c)
{
    static const int signals[] = {SIGTERM, SIGKILL, SIGUSR1};
    char ids[64];

    note(c->jobs->killed, some_ids(c->jobs, ids));
    jobs_client_ask(c, flux_job_kill(c->ep->h, ids, signals[rng_below(&c->jobs->s->rng, 3)]),
                    "job.kill", acted_cb, c);
}

static void do_urgency(struct jobs_client *c)
{
    struct rng *r = &c->jobs->s->rng;
    uint32_t urgency = rng_chance(r, 0.3) ? 0 : rng_below(r, JOB_URGENCY_MAX + 1);
    char ids[64];

    jobs_client_ask(c, flux_job_urgency(c->ep->h, some_ids(c->jobs, ids), urgency), "job.urgency",
                    acted_cb, c);
}

static void do_purge(struct jobs_client *c)
{
    struct job_purge what = {.keep = -1};
    char ids[64];

    what.ids = some_ids(c->jobs, ids);
    note(c->jobs->purged, ids);
    jobs_client_ask(c, flux_job_purge(c->ep->h, &what), "job.purge", acted_cb, c);
}

static void memo_cb(flux_future_t *f, void *arg)
{
    jobs_client_done(arg, f, ENOENT);
}

static void do_memo(struct jobs_client *c)
{
    struct jobs *j = c->jobs;

    jobs_client_ask(c,
                    flux_job_memo(c->ep->h, j->ids[rng_below(&j->s->rng, (uint32_t)j->nids)],
                                  "local:///nowhere"),
                    "job.memo", memo_cb, c);
}

static void do_queue(struct jobs_client *c)
{
    static const char *const ops[] = {"status",  "stop",   "start", "start",
                                      "disable", "enable", "enable"};
    const char *op = ops[rng_below(&c->jobs->s->rng, 7)];

    jobs_client_ask(c, flux_job_queue(c->ep->h, op, NULL), "job.queue", acted_cb, c);
}

/* --- looking --- */

static void list_cb(flux_future_t *f, void *arg)
{
    struct jobs_client *c = arg;
    const json_t *page;
    struct job_info info;
    errmsg_t err;

    if (flux_future_errnum(f) == 0) {
        if (flux_job_list_get(f, &page, &err) < 0)
            sim_fail(c->jobs->s, "a list of jobs cannot be read: %s", err.text);
        for (size_t i = 0; !c->jobs->s->failed && i < json_array_size(page); i++) {
            memset(&info, 0, sizeof(info));
            if (flux_job_list_at(page, i, &info, &err) < 0)
                sim_fail(c->jobs->s, "a job in a list cannot be read: %s", err.text);
        }
        flux_future_next(f);
        return;
    }
    jobs_client_done(c, f, ENODATA);
}

static void do_list(struct jobs_client *c)
{
    struct job_list query;

    flux_job_list_init(&query);
    query.states = rng_chance(&c->jobs->s->rng, 0.5) ? JOB_STATES_ALL : 0;
    query.estimates = rng_chance(&c->jobs->s->rng, 0.5);
    jobs_client_ask(c, flux_job_list(c->ep->h, &query), "job.list", list_cb, c);
}

static void do_stream(struct jobs_client *c)
{
    sim_t *s = c->jobs->s;
    char ids[64];

    jobs_stream_add(c->jobs, c->ep, rng_chance(&s->rng, 0.6),
                    rng_chance(&s->rng, 0.3) ? NULL : some_ids(c->jobs, ids));
    sim_at(s, sim_now(s) + rng_below(&s->rng, 60) * SIM_MS, act, c, c->ep);
}

/* --- one thing after the other --- */

static const struct {
    unsigned weight;
    void (*run)(struct jobs_client *c);
    bool needs_ids;
} actions[] = {
    {40, do_submit, false}, {8, do_cancel, true}, {4, do_raise, true},        {5, do_kill, true},
    {8, do_urgency, true},  {4, do_queue, false}, {8, jobs_nodes_act, false}, {6, do_list, false},
    {15, do_stream, true},  {1, do_purge, true},  {1, do_memo, true},
};
#define NACTIONS (sizeof(actions) / sizeof(actions[0]))

static void client_begin(struct jobs_client *c)
{
    sim_t *s = c->jobs->s;
    uint32_t rank = sim_random_alive(s);

    c->done = rank == TOPOLOGY_NONE || !(c->ep = sim_client_add(s, rank, "client"));
    c->asks = NULL;
    if (!c->done)
        sim_at(s, sim_now(s) + rng_below(&s->rng, 60) * SIM_MS, act, c, c->ep);
}

/* It vanishes, with all that it waits for; another one comes. */
static void vanish(void *arg, void *data)
{
    struct jobs_client *c = arg;

    if (data != c->ep || c->done)
        return;
    sim_client_remove(c->ep);
    client_begin(c);
}

static void act(void *arg, void *data)
{
    struct jobs_client *c = arg;
    struct jobs *j = c->jobs;
    struct rng *r = &j->s->rng;
    uint32_t pick = rng_below(r, 100);
    size_t i = 0;

    /* What it was to do may have been planned for one that is gone. */
    if (data != c->ep || c->done || c->asks || j->s->failed)
        return;
    if (c->ep->gone) {
        client_begin(c);
        return;
    }
    if (c->left == 0) {
        c->done = true;
        return;
    }
    c->left--;
    while (i < NACTIONS - 1 && pick >= actions[i].weight)
        pick -= actions[i++].weight;
    if (actions[i].needs_ids && j->nids == 0)
        i = 0;
    actions[i].run(c);
    if (!j->s->failed && c->asks && rng_chance(r, 0.05))
        sim_at(j->s, sim_now(j->s) + rng_below(r, 2000) * SIM_US, vanish, c, c->ep);
}

void jobs_clients_add(struct jobs *j, unsigned n, unsigned nactions)
{
    for (unsigned i = 0; i < n && !j->s->failed; i++) {
        struct jobs_client *c = &j->clients[j->nclients++];
        *c = (struct jobs_client){.jobs = j, .left = nactions};
        client_begin(c);
    }
}

bool jobs_clients_done(sim_t *s, void *arg)
{
    struct jobs *j = arg;

    for (unsigned i = 0; i < j->nclients; i++) {
        if (!j->clients[i].done && !j->clients[i].ep->gone)
            return false;
    }
    return true;
}
