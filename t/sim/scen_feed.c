/* scen_feed.c - a log of jobs is fed to the module sched, in the place of the job module: one
 * sched.feed for each instant, with the jobs that end and then those that come.  Each job starts
 * when sched_replay() says, on the same nodes.
 *
 * The clock of the session is virtual and all delays are alike, so the module sees instants that
 * are whole seconds apart, all late by the same moment.  By its seed a run has a policy of the
 * queue and one of nodes, a load, and limits that are kept exactly or by far.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/rset.h"
#include "libsched/sched_replay.h"
#include "libsched/sched_wire.h"
#include "libutil/strbuf.h"
#include "sim.h"

#define NJOBS 120
#define FIRST 10      /* seconds after which the log begins */
#define LATEST 100000 /* seconds: no log takes that long */

struct feeding {
    sim_t *s;
    struct sim_ep *client;
    flux_future_t *stream;
    uint64_t generation;
    int64_t begin;   /* of the log: when its second 0 is */
    int64_t instant; /* second of the log */
    struct sched_replay_job jobs[NJOBS];
    struct {
        int64_t start; /* by the module; -1: not yet */
        char *ranks;
    } got[NJOBS];
    char *want[NJOBS]; /* nodes, by the library */
    size_t ended;
};

/* --- what the module says --- */

static void take_alloc(struct feeding *fd, const json_t *entry)
{
    struct sched_wire_alloc a = {0};
    errmsg_t err = {"it names a job that was not fed"};
    idset_t *ranks;
    rset_t *R;

    if (flux_schema_decode_json(&sched_wire_alloc_schema, entry, &a, &err) < 0 || a.id == 0 ||
        a.id > NJOBS || fd->got[a.id - 1].start >= 0 || !(R = rset_from_json(a.R, &err))) {
        sim_fail(fd->s, "an allocation cannot be: %s", err.text);
        return;
    }
    ranks = rset_ranks(R);
    fd->got[a.id - 1].start = (sim_now(fd->s) - fd->begin) / SIM_S;
    fd->got[a.id - 1].ranks = ranks ? idset_format(ranks, 0) : NULL;
    idset_destroy(ranks);
    rset_destroy(R);
}

static void stream_cb(flux_future_t *f, void *arg)
{
    struct feeding *fd = arg;
    struct sched_answer a = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &sched_answer_schema, &a, &err) < 0) {
        sim_fail(fd->s, "the stream of the scheduler has ended: %s", err.text);
        return;
    }
    if (a.attached)
        fd->generation = a.attached;
    for (size_t i = 0; i < json_array_size(a.deny); i++) {
        struct sched_wire_deny d = {0};

        if (flux_schema_decode_json(&sched_wire_deny_schema, json_array_get(a.deny, i), &d, &err) ==
            0)
            sim_fail(fd->s, "job %ju was denied: %s", (uintmax_t)d.id, d.note);
    }
    for (size_t i = 0; i < json_array_size(a.alloc); i++)
        take_alloc(fd, json_array_get(a.alloc, i));
    flux_future_next(f);
}

/* --- what it is told --- */

static void fed_cb(flux_future_t *f, void *arg)
{
    struct feeding *fd = arg;

    if (flux_future_errnum(f))
        sim_fail(fd->s, "a feed was refused: %s", flux_future_error(f));
    flux_future_destroy(f);
}

static void send(struct feeding *fd, char *json)
{
    flux_future_t *f = json ? flux_rpc(fd->client->h, "sched.feed", json, 0, 0) : NULL;

    if (!f || flux_future_then(f, -1., fed_cb, fd) < 0)
        sim_fail(fd->s, "out of memory");
    free(json);
}

/* Ends, then arrivals, of one second. */
static void step(void *arg, void *data)
{
    struct feeding *fd = arg;
    strbuf_t *sb = strbuf_create(0);
    size_t n = 0;

    strbuf_addf(sb, "{\"generation\":%ju,\"free\":[", (uintmax_t)fd->generation);
    for (size_t i = 0; i < NJOBS; i++) {
        if (fd->got[i].start >= 0 && fd->got[i].start + fd->jobs[i].runtime == fd->instant) {
            strbuf_addf(sb, "%s%ju", n++ ? "," : "", (uintmax_t)fd->jobs[i].id);
            fd->ended++;
        }
    }
    strbuf_addf(sb, "],\"add\":[");
    for (size_t i = 0, added = 0; i < NJOBS; i++) {
        const struct sched_replay_job *j = &fd->jobs[i];

        if (j->submit == fd->instant) {
            strbuf_addf(sb,
                        "%s{\"id\":%ju,\"urgency\":16,\"t_submit\":%jd,\"uid\":1,\"req\":{"
                        "\"nnodes\":%u,\"nslots\":1,\"cores\":1,\"exclusive\":true,"
                        "\"duration\":%jd}}",
                        added++ ? "," : "", (uintmax_t)j->id, (intmax_t)j->submit, j->nodes,
                        (intmax_t)j->estimate);
            n++;
        }
    }
    strbuf_addf(sb, "]}");
    if (n > 0)
        send(fd, strbuf_take(sb));
    else
        strbuf_destroy(sb);
    fd->instant++;
    if (fd->ended < NJOBS && fd->instant < LATEST)
        sim_at(fd->s, fd->begin + fd->instant * SIM_S, step, fd, NULL);
}

/* --- the log, and what is expected --- */

static void make_log(struct feeding *fd)
{
    struct rng *r = &fd->s->rng;
    uint32_t size = fd->s->cfg.size;
    bool exact = rng_chance(r, 0.3);
    int64_t t = 0;

    for (size_t i = 0; i < NJOBS; i++) {
        struct sched_replay_job *j = &fd->jobs[i];

        t += rng_below(r, 8);
        j->id = i + 1;
        j->submit = t;
        j->nodes = rng_chance(r, 0.6) ? rng_range(r, 1, (size + 3) / 4) : rng_range(r, 1, size);
        j->runtime = rng_range(r, 1, 20);
        j->estimate = exact ? j->runtime : j->runtime + rng_below(r, 20);
        fd->got[i].start = -1;
    }
}

static int want_cb(size_t i, const struct sched_range *range, size_t nrange, void *arg)
{
    struct feeding *fd = arg;
    idset_t *ids = idset_create();

    for (size_t k = 0; ids && k < nrange; k++) {
        for (uint32_t n = 0; n < range[k].count; n++)
            idset_set(ids, range[k].first + n);
    }
    fd->want[i] = ids ? idset_format(ids, 0) : NULL;
    idset_destroy(ids);
    return 0;
}

static const char *argument(const sim_t *s, int i)
{
    return strchr(s->cfg.sched_args[i], '=') + 1;
}

static void compare(struct feeding *fd)
{
    sim_t *s = fd->s;
    struct sched_replay_ops ops = {.started = want_cb, .arg = fd};
    errmsg_t err;
    fattree_t *tree = fattree_parse(s->cfg.attrs[1], &err);
    char queue[16];
    struct sched_whole_options o = {.queue = queue, .select = argument(s, 1), .tree = tree};

    snprintf(queue, sizeof(queue), "%.*s", (int)strcspn(argument(s, 0), ":"), argument(s, 0));

    if (!tree || sched_replay(&o, fd->jobs, NJOBS, &ops, &err) < 0)
        sim_fail(s, "the log cannot be replayed: %s", err.text);
    for (size_t i = 0; i < NJOBS && !s->failed; i++) {
        const struct sched_replay_job *j = &fd->jobs[i];

        sim_trace_add(s, 11, (uint64_t)fd->got[i].start);
        if (fd->got[i].start != j->start)
            sim_fail(s, "%s, %s, %s: job %ju started at %jd, by the library at %jd", o.queue,
                     o.select, s->cfg.attrs[1], (uintmax_t)j->id, (intmax_t)fd->got[i].start,
                     (intmax_t)j->start);
        else if (!fd->got[i].ranks || !fd->want[i] || strcmp(fd->got[i].ranks, fd->want[i]) != 0)
            sim_fail(s, "%s, %s, %s: job %ju started on %s, by the library on %s", o.queue,
                     o.select, s->cfg.attrs[1], (uintmax_t)j->id, fd->got[i].ranks, fd->want[i]);
    }
    fattree_destroy(tree);
}

/* --- the run --- */

static bool is_attached(sim_t *s, void *arg)
{
    return ((struct feeding *)arg)->generation != 0;
}

static bool all_ended(sim_t *s, void *arg)
{
    const struct feeding *fd = arg;

    return fd->ended == NJOBS;
}

static void feed_run(sim_t *s)
{
    struct feeding *fd = sim_alloc(s, sizeof(*fd));
    struct sim_ep *job;
    char text[96];

    if (!sim_boot(s))
        return;
    fd->s = s;
    if (!(job = sim_module_find(s, 0, "job"))) {
        sim_fail(s, "there is no job module");
        return;
    }
    sim_module_stop(job, false);
    sim_run_for(s, SIM_S);
    if (!(fd->client = sim_client_add(s, 0, "feeder")) ||
        !(fd->stream = flux_rpc(fd->client->h, "sched.attach", "{}", 0, FLUX_MSGF_STREAMING)) ||
        flux_future_then(fd->stream, -1., stream_cb, fd) < 0)
        sim_fail(s, "out of memory");
    if (!sim_run_until(s, is_attached, fd, 30 * SIM_S)) {
        sim_fail(s, "the scheduler does not answer");
        return;
    }
    snprintf(text, sizeof(text), "{\"generation\":%ju,\"enabled\":true}",
             (uintmax_t)fd->generation);
    send(fd, strdup(text));
    fd->begin = (sim_now(s) / SIM_S + FIRST) * SIM_S;
    make_log(fd);
    sim_at(s, fd->begin, step, fd, NULL);
    if (!sim_run_until(s, all_ended, fd, (int64_t)LATEST * SIM_S))
        sim_fail(s, "only %zu of %d jobs have ended", fd->ended, NJOBS);
    else
        compare(fd);
    flux_future_destroy(fd->stream);
    for (size_t i = 0; i < NJOBS; i++) {
        free(fd->got[i].ranks);
        free(fd->want[i]);
    }
}

static void feed_tune(struct sim_config *cfg, struct rng *rng)
{
    static const char *const trees[][3] = {{"resource.topology", "2,2,4", NULL},
                                           {"resource.topology", "4,2,2", NULL},
                                           {"resource.topology", "1,4,4", NULL},
                                           {"resource.topology", "2,4,2", NULL}};
    static const char *const queues[] = {"queue-policy=fcfs", "queue-policy=easy",
                                         "queue-policy=conservative:all",
                                         "queue-policy=replan:all"};
    static const char *const nodes[] = {"node-policy=first-fit", "node-policy=spread",
                                        "node-policy=compact", "node-policy=buddy",
                                        "node-policy=interference-free"};
    uint32_t queue;

    cfg->size = 16;
    cfg->fixed = true;
    cfg->alike = true;
    cfg->modules |= SIM_MOD_KVS | SIM_MOD_JOB;
    cfg->attrs = trees[rng_below(rng, 4)];
    queue = rng_below(rng, 4);
    cfg->sched_args[0] = queues[queue];
    /* Policies that refuse do not go with the latter two. */
    cfg->sched_args[1] = nodes[rng_below(rng, queue < 2 ? 5 : 3)];
}

const struct scenario scenario_feed = {
    "feed", "a log of jobs: the module sched starts each when the library does", feed_run,
    feed_tune};
